"""Datasets from and to an object store with latency, against the same from and to disk.

    python -m benchmarks.stores                          2,000 photos, 20 ms, 3 runs of each
    python -m benchmarks.stores --photos 400 --latency 50 --runs 1 --forms folder,tar
    python -m benchmarks.stores --latency 50 --lost 1    closes 1 % of connections without an answer

The store is that of the tests (`tests.s3_store`), in a process of its own, which answers each
request after the latency. Forms of input: a folder of copies of real photos under new names, the
same as a tar, a table of 500 rows for each photo, a folder of as many short texts, and a folder of
a video for each hundred photos. Each is read from disk and from the store, and written to disk and
to the store; all must give the same digest. Requests are those of the store's log; its CPU time is
printed, because it takes the cores of the machine as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.images import copy_photos
from benchmarks.measure import DATA, ROOT, FailedError, bar, machine, python, run, two_cores
from benchmarks.rows import DISTINCT_SCALED, write_distinct_rows
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests.s3_store import S3Store

KEY = "benchmark"
_SECONDS = 7.0  # of 2,000 photos at 20 ms
_RATIO = 1.3  # of other forms and more photos: seconds over those from disk to disk
_RATIO_OF_LOST = 2.0  # the same, if requests are lost
_FEW = 2000  # photos
_REQUESTS = 1.1  # for a photo
_MEMORY = 200.0  # MiB more than from disk
_INPUT = "in/"


class Form(NamedTuple):
    """A form of input. name: below the folder of inputs. options: of the command."""

    name: str
    options: tuple[str, ...]
    make: Callable[[int, pathlib.Path], None]


def _make_folder(photos: int, path: pathlib.Path) -> None:
    copy_photos(photos, path)


def _make_tar(photos: int, path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path, "w") as archive:
        copy_photos(photos, pathlib.Path(folder))
        archive.add(folder, arcname=".")


def _make_table(photos: int, path: pathlib.Path) -> None:
    write_distinct_rows(500 * photos, path)


def _make_texts(photos: int, path: pathlib.Path) -> None:
    lines = (DATA / "sms_spam" / "SMSSpamCollection").read_text(encoding="utf-8").splitlines()
    for number in range(photos):
        label, _, text = lines[1 + number % (len(lines) - 1)].partition("\t")
        (path / label).mkdir(parents=True, exist_ok=True)
        (path / label / f"{number:06d}.txt").write_text(f"{number} {text}", encoding="utf-8")


def _make_videos(photos: int, path: pathlib.Path) -> None:
    path.mkdir()
    sources = sorted((DATA / "video").glob("*.mp4"))
    for number in range(max(photos // 100, 1)):
        shutil.copyfile(sources[number % len(sources)], path / f"{number:06d}.mp4")


_PHOTOS = ("images", "--size", "224")
_FORMS = {
    "folder": Form("folder", _PHOTOS, _make_folder),
    "tar": Form("photos.tar", _PHOTOS, _make_tar),
    "table": Form("rows.csv", ("table", "--zscore", ",".join(DISTINCT_SCALED)), _make_table),
    "texts": Form("texts", ("text", "--tokenizer", "words"), _make_texts),
    "videos": Form("videos", ("video", "--size", "112", "--clip-frames", "16"), _make_videos),
}


def serve(folder: pathlib.Path, latency: float, *, lost: float) -> None:
    """Serve the files of a folder. lost: percent of requests without an answer.

    Answer each line of stdin with the CPU time and the requests since the last one.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    with S3Store(listener, access_key=KEY) as store:
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(f"bucket/{_INPUT}{path.relative_to(folder)}", path.read_bytes())
        store.delay = latency
        store.lost_every = round(100 / lost) if lost else 0
        print(store.address, flush=True)
        cpu = time.process_time()
        for _ in sys.stdin:
            requests = [(one.operation, one.key, one.sent) for one in store.requests]
            store.requests.clear()
            print(json.dumps([time.process_time() - cpu, requests]), flush=True)
            cpu = time.process_time()


class Store:
    """Client of a store in a process of its own, which prints its address first."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.address = process.stdout.readline().strip()

    def uri(self, key: str) -> str:
        options = f"scheme=http&endpoint_override={self.address}&region=us-east-1"
        return f"s3://bucket/{key}?{options}"

    def ask(self) -> Any:
        """Return the JSON that the process answers to a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def take_log(self) -> tuple[float, list[tuple[str, str, int]]]:
        """Return seconds of CPU and (operation, key, bytes sent) since the last call."""
        cpu, requests = self.ask()
        return cpu, [tuple(one) for one in requests]


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[Store]:
    """Run a store inside the block, and give all processes its key."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Store(process)
    finally:
        process.kill()
        process.communicate()


def make(form: Form, source: str, output: str, *, memory: bool) -> Any:
    """Make a dataset, and return what was measured and its digest."""
    arguments = (*form.options, "--input", source, "--output", output)
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
    parser.add_argument("--lost", type=float, default=0, help="percent of requests")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--forms", default=",".join(_FORMS))
    parser.add_argument("--serve", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.latency / 1000, lost=options.lost)
        return
    two_cores()
    lost = f", {options.lost:g} % lost" if options.lost else ""
    print(f"{options.photos:,} photos, {options.latency:g} ms{lost}, on {machine()}\n")
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / "input").mkdir()
        for form in map(_FORMS.__getitem__, options.forms.split(",")):
            form.make(options.photos, folder / "input" / form.name)
        served = ("--serve", folder / "input", "--latency", options.latency, "--lost", options.lost)
        command = python("benchmarks.stores", *served)
        with started(command) as store:
            compare(folder, store, options)


def compare(folder: pathlib.Path, store: Store, options: argparse.Namespace) -> None:
    """Print a line for each way, and the bars."""
    ways = {
        f"{form}: {source} to {target}": (form, source, target)
        for form in options.forms.split(",")
        for source, target in (("disk", "disk"), ("store", "disk"), ("store", "store"))
    }
    print("| | wall s | CPU s | store's CPU s | peak MiB | requests of input, of output |")
    print("|---|---|---|---|---|---|")
    digests: dict[str, str] = {}
    peaks: dict[str, float] = {}
    seconds: dict[str, float] = {}
    bars = []
    for way, (form, source, target) in ways.items():
        measured = []
        for number in range(options.runs + 1):
            place = f"{form}-{source}-{target}-{number}"
            name = _FORMS[form].name
            there = store.uri(_INPUT + name)
            given = str(folder / "input" / name) if source == "disk" else there
            output = str(folder / place) if target == "disk" else store.uri(f"out/{place}")
            store.take_log()
            one, digest = make(_FORMS[form], given, output, memory=not number)
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
        seconds[way] = wall
        if source == "disk":
            continue
        alone = f"{form}: disk to disk"
        if _FORMS[form].options == _PHOTOS and options.photos <= _FEW and not options.lost:
            bars.append(bar(f"{way}, seconds", wall, at_most=_SECONDS))
        else:
            ratio = wall / seconds[alone]
            most = _RATIO_OF_LOST if options.lost else _RATIO
            bars.append(bar(f"{way}, seconds over disk to disk", ratio, at_most=most))
        more = peaks[way] - peaks[alone]
        bars.append(bar(f"{way}, MiB more than from disk", more, at_most=_MEMORY))
        if form == "folder":
            each = sum(of_input.values()) / options.photos
            bars.append(bar(f"{way}, requests of input for a photo", each, at_most=_REQUESTS))
    print("", *bars, sep="\n")


if __name__ == "__main__":
    main()
