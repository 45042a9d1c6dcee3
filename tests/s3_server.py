"""An S3-speaking server on loopback: moto's, in a process of its own, that fails when told to.

    python -m tests.s3_server --fail 0.02 --seed 1

prints the port it listens at. Of all requests that fraction is answered with 503 or 500, before
anything was done about them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.soak.command import ROOT

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
BUCKET = "bucket"


@contextlib.contextmanager
def s3_server(*, fail: float = 0.0) -> Iterator[Callable[[str], str]]:
    """Gives a function from a key to its URI."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.s3_server", "--fail", str(fail)],
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


class Failing:
    """A WSGI application that fails a fraction of its requests."""

    def __init__(self, app: Callable[..., Any], fraction: float, seed: int) -> None:
        self._app = app
        self._fraction = fraction
        self._random = random.Random(seed)

    def __call__(
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


def main() -> None:
    import logging

    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fail", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    app = Failing(DomainDispatcherApplication(create_backend_app), 0.0, arguments.seed)
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
