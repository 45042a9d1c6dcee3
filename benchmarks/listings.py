"""Listings of many objects: objects a second, and memory.

    python -m benchmarks.listings                                    100,000 and 1,000,000 objects
    python -m benchmarks.listings --objects 10000000 --folders 0,1000 --latency 20

A server process generates the pages of ListObjectsV2; it stores no objects. Its CPU time is
printed, because it shares the cores of the machine. Another process lists the folder as `images`
does, level by level (depth 1) or as a whole (depth 0), and keeps no item. With 0 folders, all
objects are directly in one folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import http.server
import json
import sys
import threading
import time
import urllib.parse
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.measure import FailedError, machine, python, run, two_cores
from benchmarks.stores import started
from recordmill.storage.files import Location
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, walk

_PREFIX = "photos/"
_PAGE = 1000  # keys of one answer
_LAST = "\U0010ffff"  # sorts after the characters of all keys
_FACTS = (
    '<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"00000000000000000000000000000007"</ETag>'
    "<Size>100000</Size><StorageClass>STANDARD</StorageClass>"
)


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Names of objects as a function of their number, in the order of the names."""

    objects: int
    folders: int

    def key(self, number: int) -> str:
        folder = f"class-{number * self.folders // self.objects:07}/" if self.folders else ""
        return f"{_PREFIX}{folder}photo-{number:012}.jpg"

    def position(self, text: str) -> int:
        """Return the number of names that sort before a text."""
        low, high = 0, self.objects
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.key(middle) < text else (low, middle)
        return low

    def page(self, query: dict[str, str]) -> str:
        """Return the answer to a request for a listing."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        most = min(_PAGE, int(query.get("max-keys", _PAGE)))
        after = query.get("continuation-token") or query.get("start-after", "")
        number = max(self.position(prefix), self.position(after + "\0"))
        end = self.position(prefix + _LAST)
        parts: list[str] = []
        last = ""
        while number < end and len(parts) < most:
            last = self.key(number)
            head, cut, _ = last[len(prefix) :].partition(delimiter or "\0")
            if cut:
                folder = prefix + head + cut
                last = folder + _LAST  # the next page begins after the folder
                number = self.position(last)
                parts.append(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>")
            else:
                number += 1
                parts.append(f"<Contents><Key>{last}</Key>{_FACTS}</Contents>")
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if number < end else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult'
            ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>'
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(parts)}</KeyCount>"
            f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(bool(token)).lower()}</IsTruncated>"
            f"{token}{''.join(parts)}</ListBucketResult>"
        )


def serve(bucket: Bucket, latency: float) -> None:
    """Answer requests after a latency. Print [CPU seconds, requests] for each line of stdin."""
    requests = 0

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            nonlocal requests
            requests += 1
            time.sleep(latency)
            query = urllib.parse.urlsplit(self.path).query
            body = bucket.page(dict(urllib.parse.parse_qsl(query, keep_blank_values=True))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (name of the base)
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"127.0.0.1:{server.server_address[1]}", flush=True)
        for _ in sys.stdin:
            print(json.dumps([time.process_time(), requests]), flush=True)
        server.shutdown()


def list_all(uri: str, depth: int) -> None:
    """List a folder, and print the number of files, seconds, and a digest of the first names."""
    began = time.perf_counter()
    files, names = 0, hashlib.sha256()
    for item in walk(Location.parse(uri), skipped_among_media, depth=depth):
        if isinstance(item, File):
            files += 1
            if not files % _PAGE:
                names.update(item.key.encode())
    print(files, time.perf_counter() - began, names.hexdigest()[:8])


def measure(bucket: Bucket, latency: float, depth: int) -> None:
    """Print a line of the table."""
    command = python(
        "benchmarks.listings", "--serve", "--latency", latency,
        "--objects", bucket.objects, "--folders", bucket.folders,
    )  # fmt: skip
    with started(command) as store:
        uri = store.uri(_PREFIX)
        listed = run(python("benchmarks.listings", "--list", uri, "--depth", depth), memory=True)
        cpu, requests = store.ask()
    files, seconds, digest = listed.output.split()
    if int(files) != bucket.objects:
        raise FailedError(f"listed {files} of {bucket.objects} objects")
    print(
        f"| {bucket.objects:,} | {bucket.folders:,} | {depth} | {float(seconds):.1f}"
        f" | {int(files) / float(seconds):,.0f} | {listed.peak / (1 << 20):.0f}"
        f" | {listed.cpu:.1f} | {cpu:.1f} | {requests} | {digest} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", default="100000,1000000")
    parser.add_argument("--folders", default="0,100")
    parser.add_argument("--latency", type=float, default=20, help="milliseconds")
    parser.add_argument("--depths", default="0,1")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", help=argparse.SUPPRESS)
    parser.add_argument("--depth", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        bucket = Bucket(int(options.objects), int(options.folders))
        serve(bucket, options.latency / 1000)
        return
    if options.list:
        list_all(options.list, options.depth)
        return
    two_cores()
    print(f"{options.latency:g} ms, on {machine()}\n")
    print(
        "| objects | folders | depth | s | objects/s | peak MiB | CPU s | server's CPU s |", end=""
    )
    print(" requests | digest of names |\n|---|---|---|---|---|---|---|---|---|---|")
    for objects in map(int, options.objects.split(",")):
        for folders in map(int, options.folders.split(",")):
            for depth in map(int, options.depths.split(",")):
                measure(Bucket(objects, folders), options.latency, depth)


if __name__ == "__main__":
    main()
