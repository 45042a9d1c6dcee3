"""Datasets of images in an object store with latency, against the same from disk.

    python -m benchmarks.stores                          2,000 photos, 20 ms, 3 runs of each
    python -m benchmarks.stores --photos 400 --latency 50 --runs 1 --forms folder,tar

The store is that of the tests (`tests.s3_store`), in a process of its own, which answers each
request after the latency. The photos are copies of real ones under new names, read from disk and
from the store, where they lie as objects and as a tar, and written to disk and to the store. Each
run must give the digest of the run from disk to disk. Requests are those of the store's log; its
CPU time is printed, because it takes the cores of the machine as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.images import copy_photos
from benchmarks.measure import ROOT, FailedError, bar, machine, python, run, two_cores
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests.s3_store import S3Store

KEY = "benchmark"
_SECONDS = 7.0  # of 2,000 photos at 20 ms
_REQUESTS = 1.1  # for a photo
_MEMORY = 200.0  # MiB more than from disk
_INPUT = "in/"


def serve(folder: pathlib.Path, latency: float) -> None:
    """Serve the files of a folder.

    Answer each line of stdin with the CPU time and the requests since the last one.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    with S3Store(listener, access_key=KEY) as store:
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(f"bucket/{_INPUT}{path.relative_to(folder)}", path.read_bytes())
        store.delay = latency
        print(store.address, flush=True)
        cpu = time.process_time()
        for _ in sys.stdin:
            requests = [(one.operation, one.key, one.sent) for one in store.requests]
            store.requests.clear()
            print(json.dumps([time.process_time() - cpu, requests]), flush=True)
            cpu = time.process_time()


class Store:
    """Client of the store's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.address = process.stdout.readline().strip()

    def uri(self, key: str) -> str:
        options = f"scheme=http&endpoint_override={self.address}&region=us-east-1"
        return f"s3://bucket/{key}?{options}"

    def take_log(self) -> tuple[float, list[tuple[str, str, int]]]:
        """Return seconds of CPU and (operation, key, bytes sent) since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        cpu, requests = json.loads(self._process.stdout.readline())
        return cpu, [tuple(one) for one in requests]


@contextlib.contextmanager
def started(folder: pathlib.Path, latency: float) -> Iterator[Store]:
    """Run the store inside the block."""
    command = python("benchmarks.stores", "--serve", folder, "--latency", latency)
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Store(process)
    finally:
        process.kill()
        process.communicate()


def make(source: str, output: str, *, memory: bool) -> Any:
    """Make a dataset, and return what was measured and its digest."""
    arguments = ("images", "--input", source, "--output", output, "--size", "224")
    measured = run(
        python("recordmill", *arguments, "--num-shards", "train=3", "--quiet"), memory=memory
    )
    return measured, load(Location.parse(output)).digest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=20, help="milliseconds")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--forms", default="folder,tar")
    parser.add_argument("--serve", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.latency / 1000)
        return
    two_cores()
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    print(f"{options.photos:,} photos, {options.latency:g} ms, on {machine()}\n")
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        photos = folder / "input" / "folder"
        copy_photos(options.photos, photos)
        with tarfile.open(folder / "input" / "tar.tar", "w") as archive:
            archive.add(photos, arcname=".")
        with started(folder / "input", options.latency) as store:
            compare(folder, store, options)


def compare(folder: pathlib.Path, store: Store, options: argparse.Namespace) -> None:
    """Print a line for each way, and the bars."""
    names = {"folder": "folder", "tar": "tar.tar"}
    ways = {
        f"{form}: {source} to {target}": (form, source, target)
        for form in options.forms.split(",")
        for source, target in (("disk", "disk"), ("store", "disk"), ("store", "store"))
    }
    print("| | wall s | CPU s | store's CPU s | peak MiB | requests of input, of output |")
    print("|---|---|---|---|---|---|")
    digests: dict[str, str] = {}
    peaks: dict[str, float] = {}
    bars = []
    for way, (form, source, target) in ways.items():
        measured = []
        for number in range(options.runs + 1):
            place = f"{form}-{source}-{target}-{number}"
            there = store.uri(_INPUT + names[form])
            given = str(folder / "input" / names[form]) if source == "disk" else there
            output = str(folder / place) if target == "disk" else store.uri(f"out/{place}")
            store.take_log()
            one, digest = make(given, output, memory=not number)
            cpu, requests = store.take_log()
            if digests.setdefault(form, digest) != digest:
                raise FailedError(f"{way} gives another dataset")
            measured.append((one, cpu))
            if not number:
                peaks[way] = one.peak / (1 << 20)
        of_input = Counter(kind for kind, key, _ in requests if key.startswith(_INPUT))
        of_output = Counter(kind for kind, key, _ in requests if not key.startswith(_INPUT))
        wall, cpu_here, cpu_there = (
            statistics.median(values)
            for values in zip(*((a.wall, a.cpu, b) for a, b in measured[1:]), strict=True)
        )
        times = f"{wall:.1f} | {cpu_here:.1f} | {cpu_there:.1f} | {peaks[way]:.0f}"
        print(f"| {way} | {times} | {dict(of_input)}, {dict(of_output)} |")
        if source == "store":
            bars.append(bar(f"{way}, seconds", wall, at_most=_SECONDS))
            more = peaks[way] - peaks[f"{form}: disk to disk"]
            bars.append(bar(f"{way}, MiB more than from disk", more, at_most=_MEMORY))
            each = sum(of_input.values()) / options.photos
            bars.append(bar(f"{way}, requests of input for a photo", each, at_most=_REQUESTS))
    print("", *bars, sep="\n")


if __name__ == "__main__":
    main()
