"""Time of runs that reuse an earlier dataset, and of runs from scratch.

    python -m benchmarks.reuse                          20,000 photos, 3 runs of each
    python -m benchmarks.reuse --photos 4000 --runs 1

The photos are copies of real ones, in ten classes. First half of them are there, then all, then one
in a hundred more; a dataset is made at each of the first two stages. Each case is run with --reuse
and from scratch, in alternation, and both must give the same manifest. The time of a job of ten
photos (starting Python and Beam, and publishing) is taken off both before they are compared, by
wall time and by CPU time.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import shutil
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa

from benchmarks.measure import PHOTOS, FailedError, Measured, bar, machine, python, run, two_cores
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.reuse.row_recipes import row_recipes

_CLASSES = 10
LEAST = 20_000  # photos; with fewer, there are no bars


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A change. reuse: the dataset to reuse. at_most: the bar for reusing over from scratch."""

    what: str
    options: tuple[str, ...]
    reuse: str
    at_most: float


_OF_ALL = (
    Case(what="--num-shards 8", options=("--num-shards", "8"), reuse="all", at_most=0.15),
    Case(
        what="--splits",
        options=("--splits", "train=0.6,validation=0.2,test=0.2"),
        reuse="all",
        at_most=0.15,
    ),
    Case(what="--balance", options=("--balance", "oversample"), reuse="all", at_most=0.15),
    Case(what="--seed", options=("--seed", "7"), reuse="all", at_most=0.2),
    Case(what="50 % new", options=(), reuse="half", at_most=0.62),
)
_OF_MORE = (Case(what="1 % new", options=(), reuse="all", at_most=0.15),)


def add_photos(folder: pathlib.Path, first: int, end: int) -> None:
    """Adds copies of photos with the numbers from `first` to `end`, and reads them once."""
    photos = sorted(PHOTOS.rglob("*.jpg"))
    for number in range(first, end):
        place = folder / f"class-{number % _CLASSES}" / f"{number:06d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(photos[number % len(photos)], place)
        place.read_bytes()


def command_of(source: pathlib.Path, output: pathlib.Path, *options: object) -> list[str]:
    """Return the command that makes a dataset of photos."""
    places = ("--input", source, "--output", output)
    return python("recordmill.pipelines.cli", "images", *places, "--size", 224, "--quiet", *options)


def make(source: pathlib.Path, output: pathlib.Path, *options: object) -> Measured:
    """Runs the command into a folder that is empty before."""
    shutil.rmtree(output, ignore_errors=True)
    return run(command_of(source, output, *options), memory=False)


def cost_of_recipes(count: int) -> float:
    """Returns the CPU seconds that the recipes of so many images take."""
    rows = pa.RecordBatch.from_pydict(
        {
            batch.KEY: pa.array([f"class-{n % _CLASSES}/{n:06d}.jpg" for n in range(count)]),
            batch.LABEL: pa.array([f"class-{n % _CLASSES}" for n in range(count)]),
            batch.PATH: pa.array([f"/data/class-{n % _CLASSES}/{n:06d}.jpg" for n in range(count)]),
            batch.SIZE: pa.array(np.arange(count)),
            batch.MTIME: pa.array(np.arange(count)),
            batch.COPY: pa.array(np.zeros(count, np.int32)),
            batch.SPLIT: batch.constant("train", count),
        }
    )
    context = Context(seed=0, labels=tuple(f"class-{n}" for n in range(_CLASSES)))
    encoder = ImageEncoder(options=ImageOptions(size=(224, 224)))
    began = time.process_time()
    row_recipes(rows, encoder=encoder, context=context, fingerprint="stat")
    return time.process_time() - began


def begin(description: str | None) -> argparse.Namespace:
    """Parse --photos and --runs, keep to two cores and print the machine."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=int, default=LEAST)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    two_cores()
    print(machine())
    return given


def main() -> None:
    given = begin(__doc__)
    count = given.photos
    at_least = count >= LEAST
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as name:
        folder = pathlib.Path(name)
        source, few = folder / "photos", folder / "few"
        add_photos(few, 0, _CLASSES)
        empty = [make(few, folder / "out") for _ in range(given.runs)]
        wall = statistics.median(one.wall for one in empty)
        cpu = statistics.median(one.cpu for one in empty)
        print(f"\n{count} photos, {given.runs} runs of each; a job of ten photos: {wall:.1f} s,")
        print(f"{cpu:.1f} s of CPU\n")
        print("| change | from scratch | reusing | wall | CPU |")
        print("|---|---|---|---|---|")
        lines = []
        whole = 0.0
        for first, end, dataset, cases in (
            (0, count // 2, "half", ()),
            (count // 2, count, "all", _OF_ALL),
            (count, count + count // 100, "", _OF_MORE),
        ):
            add_photos(source, first, end)
            if dataset:
                whole = make(source, folder / dataset).cpu - cpu
            for case in cases:
                pairs = []
                for _ in range(given.runs):
                    scratch = make(source, folder / "scratch", *case.options)
                    reuse = ("--reuse", folder / case.reuse, "--reuse-required")
                    reusing = make(source, folder / "reusing", *case.options, *reuse)
                    manifests = [(folder / one / "dataset.json").read_bytes() for one in
                                 ("scratch", "reusing")]  # fmt: skip
                    if manifests[0] != manifests[1]:
                        raise FailedError(f"{case.what}: not the dataset of a run from scratch")
                    pairs.append((scratch, reusing))
                walls = [statistics.median(one[n].wall for one in pairs) - wall for n in (0, 1)]
                cpus = [statistics.median(one[n].cpu for one in pairs) - cpu for n in (0, 1)]
                ratios = walls[1] / walls[0], cpus[1] / cpus[0]
                print(
                    f"| {case.what} | {walls[0]:.1f} s | {walls[1]:.1f} s | {ratios[0]:.2f} |"
                    f" {ratios[1]:.2f} |",
                    flush=True,
                )
                at_most = case.at_most if at_least else None
                lines.append(
                    bar(f"{case.what}, reusing / from scratch", ratios[0], at_most=at_most)
                )
        cost = cost_of_recipes(count) / whole
        lines.append(bar("recipes, CPU over that of a run from scratch", cost, at_most=0.02))
        print("", *lines, sep="\n")


if __name__ == "__main__":
    main()
