"""Broken pictures by the thousand: each must become a picture or a reject, never anything else.

    python -m tests.soak.fuzz --count 20000 --seed 1
    python -m tests.soak.fuzz --seed 1 --case 1234      one case again, with its traceback

A case is a function of (seed, number): real pictures whose bits are flipped, whose end is cut off,
whose parts are repeated, left out or swapped with those of another file, whose lengths are made
absurd. Cases run in processes of their own, so that a crash in Pillow's C code or a hang is found
too, and with limited memory, so that a header cannot ask for all there is.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import io
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
from PIL import Image

from benchmarks.measure import FailedError, python
from recordmill.errors import RecordError
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import EncodedImage, process
from tests.paths import CLOTHING, ODD, ROOT
from tests.soak.command import end, larger
from tests.soak.mutations import mutate

_ODD = (larger("odd_images/pillow", ODD / "pillow"), larger("odd_images/exif", ODD / "exif"))
_PHOTOS = larger("photos", CLOTHING)
_BATCH = 500  # cases per process
_MEMORY = 6 << 30  # bytes of address space: a few times the 512 MiB of the largest allowed picture
_SECONDS = 60  # that one case may take
_OPTIONS = (
    ImageOptions(size=(64, 64)),
    ImageOptions(image_format="png", mode="rgba"),
    ImageOptions(size=(48, 80), resize_mode="pad", mode="gray"),
    ImageOptions(size=(64, 64), resize_mode="fit", image_format="raw", normalize="imagenet"),
    ImageOptions(),  # passes on what complies
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A broken picture, what it was made of, and how it shall come out."""

    data: bytes
    source: str
    steps: tuple[str, ...]
    options: ImageOptions


@functools.cache
def sources() -> tuple[pathlib.Path, ...]:
    folders = (*_ODD, _PHOTOS)
    return tuple(path for one in folders for path in sorted(one.rglob("*")) if path.is_file())


def make_case(seed: int, number: int) -> Case:
    """The case of this number; the odd pictures as often as the photos."""
    random = np.random.default_rng([seed, number])
    paths = [path for path in sources() if path.is_relative_to(_PHOTOS) == (number % 2 == 0)]
    path = paths[random.integers(len(paths))]
    other = sources()[random.integers(len(sources()))]
    data, steps = mutate(path.read_bytes(), other.read_bytes(), random)
    return Case(
        data=data,
        source=f"{path.parent.name}/{path.name}",
        steps=steps,
        options=_OPTIONS[random.integers(len(_OPTIONS))],
    )


def run_case(seed: int, number: int) -> str:
    """Returns 'picture' or the reason of the reject; anything else is raised."""
    case = make_case(seed, number)
    try:
        picture = process(case.data, case.options)
    except RecordError as error:
        return str(error.reason)
    check(picture, case.options)
    return "picture"


def check(picture: EncodedImage, options: ImageOptions) -> None:
    """Raises AssertionError unless a picture is what it says."""
    shape = (picture.height, picture.width, picture.channels)
    assert picture.channels == options.channels, shape
    if options.size is not None and options.resize_mode != "fit":
        assert shape[:2] == options.size, shape
    if picture.format == "raw":
        width = 1 if options.normalize == "none" else 4
        assert len(picture.data) == width * np.prod(shape), (len(picture.data), shape)
        return
    with Image.open(io.BytesIO(picture.data)) as image:
        image.load()
        assert image.format == picture.format.upper(), image.format
        assert (image.height, image.width, len(image.getbands())) == shape, (image.size, shape)


def run_batch(seed: int, first: int, last: int) -> None:
    """The life of a process: says which case comes, then what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for number in range(first, last):
        signal.alarm(_SECONDS)  # whose default is to end the process
        print(number, end=" ", flush=True)
        try:
            print(run_case(seed, number), flush=True)
        except Exception as error:  # noqa: BLE001  (what it is looking for)
            print(f"! {type(error).__name__}: {str(error)[:300]!r}", flush=True)


def fuzz(seed: int, count: int, processes: int) -> tuple[Counter[str], list[str]]:
    """(outcomes, what must not be)."""
    outcomes: Counter[str] = Counter()
    found: list[str] = []
    waiting = [(first, min(first + _BATCH, count)) for first in range(0, count, _BATCH)][::-1]
    running: list[tuple[int, subprocess.Popen[str]]] = []
    started = time.monotonic()
    while waiting or running:
        while waiting and len(running) < processes:
            first, last = waiting.pop()
            running.append((last, _start(seed, first, last)))
        last, process = running.pop(0)
        text, errors = process.communicate()
        lines = text.splitlines()
        for line in lines:
            case, _, outcome = line.partition(" ")
            if outcome.startswith("!"):
                found.append(_tell(seed, int(case), outcome[2:]))
            elif outcome:
                outcomes[outcome] += 1
        if process.returncode != 0:
            if not lines:
                raise FailedError(f"no case was run: {errors}")
            number = int(lines[-1].split()[0])
            found.append(_tell(seed, number, f"exit {process.returncode}: {errors[-500:]}"))
            if number + 1 < last:
                waiting.append((number + 1, last))
        done = outcomes.total() + len(found)
        print(f"{done} of {count}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return outcomes, found


def _start(seed: int, first: int, last: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        python("tests.soak.fuzz", "--seed", seed, "--batch", first, last),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _tell(seed: int, number: int, what: str) -> str:
    case = make_case(seed, number)
    made = f"{case.source} {'+'.join(case.steps)}"
    return f"--seed {seed} --case {number} ({made}, {case.options}): {what}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one, and raise what it raises")
    parser.add_argument("--batch", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch is not None:
        run_batch(arguments.seed, *arguments.batch)
        return
    if arguments.case is not None:
        print(run_case(arguments.seed, arguments.case))
        return
    outcomes, found = fuzz(arguments.seed, arguments.count, len(os.sched_getaffinity(0)))
    print("| outcome | cases |\n|---|--:|")
    for outcome, cases in sorted(outcomes.items()):
        print(f"| {outcome} | {cases} |")
    end(found)


if __name__ == "__main__":
    main()
