"""An S3-speaking server on loopback: moto's, in a process of its own, that fails when told to.

    python -m tests.s3_server --fail 0.02 --seed 1

prints the port it listens at. Of all requests that fraction is answered with 503 or 500, before
anything was done about them. --log appends a line for each request (`read_log`). Answers about keys
below `once-KIND/` are damaged the first time, and those below `always-KIND/` every time:

short    half of an object's bytes are sent, and the headers say that this is all
changed  an object's first byte is another one
bare     the answer to HEAD has neither size nor time
unsized  the answer to HEAD has no size
cut      half of a listing is sent
torn     short and unsized
flippedN  a bit of the Nth answer with staged rows is another one; if always, of all later ones, too
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TextIO

from tests.soak.command import ROOT

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
BUCKET = "bucket"


_shared: list[tuple[contextlib.ExitStack, list[Callable[[str], str]]]] = []
_numbers = itertools.count()


@contextlib.contextmanager
def shared_server() -> Iterator[None]:
    """Inside the block, servers without failures and log are one, which starts with the first.

    Starting one takes a second. Each gets keys below a folder of its own.
    """
    with contextlib.ExitStack() as stack:
        _shared.append((stack, []))
        try:
            yield
        finally:
            _shared.pop()


@contextlib.contextmanager
def s3_server(
    *, fail: float = 0.0, log: pathlib.Path | None = None
) -> Iterator[Callable[[str], str]]:
    """Gives a function from a key to its URI. log: the file that gets a line for each request."""
    if fail or log is not None or not _shared:
        with _server(fail=fail, log=log) as uri:
            yield uri
        return
    stack, servers = _shared[-1]
    if not servers:
        servers.append(stack.enter_context(_server(fail=0.0, log=None)))
    folder = f"server-{next(_numbers)}"
    yield lambda key: servers[0](f"{folder}/{key}" if key else "")


@contextlib.contextmanager
def _server(*, fail: float, log: pathlib.Path | None) -> Iterator[Callable[[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.s3_server", "--fail", str(fail),
         *([] if log is None else ["--log", str(log)])],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | CREDENTIALS,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        options = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
        yield lambda key: f"s3://{BUCKET}/{key}?{options}"
    finally:
        process.kill()
        process.communicate()


class Request(NamedTuple):
    """A line of the log. part: value of the Range header. sent: bytes of the answer's body."""

    method: str
    key: str
    part: str
    sent: int


def read_log(log: pathlib.Path) -> list[Request]:
    """Returns the requests that a server has logged."""
    return [Request(*json.loads(line)) for line in log.read_text().splitlines()]


class Failing:
    """A WSGI application that fails a fraction of its requests, and logs all."""

    def __init__(
        self, app: Callable[..., Any], fraction: float, seed: int, log: TextIO | None
    ) -> None:
        self._app = app
        self._log = log
        self._fraction = fraction
        self._random = random.Random(seed)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        # Joined, and logged before it is sent: a client that has the answer finds it in the log.
        answer = b"".join(self._answer(environ, start_response))
        if self._log is not None:
            key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}/")
            values = (environ["REQUEST_METHOD"], key, environ.get("HTTP_RANGE", ""), len(answer))
            print(json.dumps(values), file=self._log, flush=True)
        return [answer]

    def _answer(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if self._random.random() >= self._fraction:
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        code, name = self._random.choice(
            [("503 Slow Down", "SlowDown"), ("500 Internal Server Error", "InternalError")]
        )
        body = f"<?xml version='1.0'?><Error><Code>{name}</Code><Message>told to</Message></Error>"
        start_response(code, [("Content-Type", "application/xml")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body.encode()]


class Damaging:
    """A WSGI application that damages answers, as the names of keys say."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self._done: set[tuple[str, str]] = set()
        self._sent: Counter[str] = Counter()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        method, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
        where = f"{environ['PATH_INFO']}?{query}"
        found = re.search(
            r"(once|always)-(short|changed|bare|unsized|torn|cut|denied|flipped\d)(/|%2F)", where
        )
        if found is None or method not in ("GET", "HEAD"):
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        started: list[Any] = []
        body = b"".join(self._app(environ, lambda *args: started.extend(args[:2])))
        status, headers = started
        kind = found[2]
        method = "LIST" if "list-type" in query else method
        request = (method, where if method == "LIST" else environ["PATH_INFO"])
        if kind.startswith("flipped"):
            staged = re.search(r"\.recordmill/.*\.(arrows?|bytes|pickles)\?", where)
            if staged and method == "GET" and body and status < "300":
                self._sent[where] += 1
                wanted, sent = int(kind[-1]), self._sent[where]
                if sent == wanted or (found[1] == "always" and sent > wanted):
                    at = len(body) // 2
                    body = body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]
            start_response(status, headers)
            return [body]
        if (found[1] == "always" or request not in self._done) and status < "300":
            drop: tuple[str, ...] = ()
            if (method, kind) == ("GET", "denied"):
                status, body = "403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>"
            elif method == "HEAD" and kind in ("bare", "unsized", "torn"):
                drop = ("content-length", "last-modified")[: 2 if kind == "bare" else 1]
            elif (method, kind) in (("GET", "short"), ("GET", "torn"), ("LIST", "cut")):
                body = body[: len(body) // 2]
            elif (method, kind) == ("GET", "changed"):
                body = bytes([body[0] ^ 1]) + body[1:]
            headers = [
                (name, str(len(body)) if name.lower() == "content-length" and body else value)
                for name, value in headers
                if name.lower() not in drop
            ]
        self._done.add(request)
        start_response(status, headers)
        return [body]


def main() -> None:
    import logging

    import boto3
    from moto.server import create_backend_app
    from werkzeug.serving import make_server

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fail", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=argparse.FileType("a"))
    arguments = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    # Alone: moto's dispatcher of services lists the folder of all services for each request.
    server_app = Damaging(create_backend_app("s3"))
    app = Failing(server_app, 0.0, arguments.seed, arguments.log)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = boto3.client(
        "s3", endpoint_url=f"http://127.0.0.1:{server.server_port}", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)
    app._fraction = arguments.fail
    print(server.server_port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
