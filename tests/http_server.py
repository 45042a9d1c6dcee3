"""An HTTP server on loopback that answers nothing, and notes what it is asked."""

import contextlib
import http.server
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def server() -> Iterator[tuple[str, list[str]]]:
    """An HTTP server on loopback: its address, and the first line of each request to it."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.requestline)
            self.send_error(404)

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 (names of the base class)

        def log_message(self, *_: object) -> None:
            pass

    one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=one.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{one.server_port}", seen
    finally:
        one.shutdown()
        one.server_close()
