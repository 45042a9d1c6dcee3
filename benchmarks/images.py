"""How long a dataset of pictures takes, against the same work done in other ways.

    python -m benchmarks.images                         4,000 and 20,000 pictures, 5 runs of each
    python -m benchmarks.images --pictures 400 --runs 1 --only ours,bare
    python -m benchmarks.images --shards                one shard against 64, and 3 against 192

The pictures are copies of real photos under new names, in ten class folders. A first round, which
is not timed, reads all of them into the page cache, measures memory and checks that everybody wrote
every picture. Then whole processes run in alternation, on two cores, and the median of each counts.
"""

from __future__ import annotations

import argparse
import functools
import io
import pathlib
import shutil
import tempfile
from collections.abc import Mapping

from PIL import Image

from benchmarks.contest import (
    Command,
    Contender,
    add_options,
    alternate,
    medians,
    payloads,
    table,
)
from benchmarks.measure import PHOTOS, FailedError, bar, machine, python, two_cores
from recordmill.tfrecord.decode import decode_example

_CLASSES = 10
_SIDE = 224  # pixels
_FEATURES = {
    "image/encoded",
    "image/filename",
    "image/format",
    "image/height",
    "image/width",
    "image/channels",
    "image/class/label",
    "image/class/text",
}
# Datasets of one split, which have as many shards as that, and of three.
_SHARD_COUNTS = (1, 64)
_SPLITS = {"one-split": "train=1", "three-splits": "train=0.8,validation=0.1,test=0.1"}

# What was asked for, in medians of wall time.
_LEAST = 4000  # pictures; with fewer, starting Python and its libraries is all there is to see
_BARE_BARS = {4000: 1.45, 20_000: 1.15}  # pictures: ours over the bare loop's, at most
_PEER_BARS = {"beam": 1.8, "tfdata": 1.6}  # theirs over ours, at least
_SHARDS_BAR = 1.15  # the slower number of shards over the faster, at most


def ours(*options: object) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        places = ("--input", source, "--output", output)
        return python(
            "recordmill.pipelines.cli", "images", *places, "--size", _SIDE, "--quiet", *options
        )

    return command


def _peer(module: str, *options: object) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        return python(f"benchmarks.peers.{module}", source, output, *options)

    return command


_CONTENDERS = (
    Contender(name="ours", what="recordmill images", command=ours()),
    Contender(name="bare", what="bare loop, two processes", command=_peer("bare_loop")),
    Contender(name="beam", what="plain Beam", command=_peer("plain_beam")),
    Contender(name="beam2", what="plain Beam, two workers", command=_peer("plain_beam", 2)),
    Contender(name="tfdata", what="tf.data + TFRecordWriter", command=_peer("tf_data")),
)
_SHARDED = tuple(
    Contender(
        name=f"{splits}-{count}",
        what=f"--splits {_SPLITS[splits]} --num-shards {count}",
        command=ours("--splits", _SPLITS[splits], "--num-shards", count),
    )
    for splits in _SPLITS
    for count in _SHARD_COUNTS
)


def copy_photos(count: int, folder: pathlib.Path) -> None:
    """Makes `count` pictures, and reads them all once."""
    photos = sorted(PHOTOS.rglob("*.jpg"))
    for i in range(count):
        label = folder / f"class-{i % _CLASSES}"
        label.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(photos[i % len(photos)], label / f"{i:06d}.jpg")
    for path in folder.rglob("*.jpg"):
        path.read_bytes()


def check(output: pathlib.Path, pictures: int) -> None:
    """Raises FailedError unless all is there: every frame whole, and Examples as they should be."""
    found = payloads(output)
    first = decode_example(next(found))
    if set(first) != _FEATURES:
        raise FailedError(f"{output.name}: expected {sorted(_FEATURES)}, got {sorted(first)}")
    encoded = first["image/encoded"]
    assert isinstance(encoded, list)
    with Image.open(io.BytesIO(encoded[0])) as image:
        if (image.format, image.size) != ("JPEG", (_SIDE, _SIDE)):
            raise FailedError(f"{output.name}: got a {image.format} of {image.size}")
    written = 1 + sum(1 for _ in found)
    if written != pictures:
        raise FailedError(f"{output.name}: expected {pictures} records, got {written}")


def bars(found: Mapping[str, float], pictures: int) -> list[str]:
    """What was got, and what was asked for; below 4,000 pictures nothing was."""
    asked = pictures >= _LEAST
    lines = []
    mine = found.get("ours")
    if mine is not None:
        if "bare" in found:
            at_most = _BARE_BARS.get(pictures)
            lines.append(bar("ours / bare loop", mine / found["bare"], at_most=at_most))
        for name, at_least in _PEER_BARS.items():
            if name in found:
                what, got = f"{name} / ours", found[name] / mine
                lines.append(bar(what, got, at_least=at_least if asked else None))
    for splits in _SPLITS:
        walls = [found[name] for count in _SHARD_COUNTS if (name := f"{splits}-{count}") in found]
        if len(walls) == len(_SHARD_COUNTS):
            at_most = _SHARDS_BAR if asked else None
            what = f"{splits}, slower / faster number of shards"
            lines.append(bar(what, max(walls) / min(walls), at_most=at_most))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", default="4000,20000", help="one number, or several")
    add_options(parser, _CONTENDERS)
    parser.add_argument("--shards", action="store_true", help="few shards against many instead")
    arguments = parser.parse_args()
    contenders = _SHARDED if arguments.shards else arguments.only
    two_cores()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        for pictures in map(int, arguments.pictures.split(",")):
            source = pathlib.Path(folder, str(pictures), "input")
            copy_photos(pictures, source)
            all_there = functools.partial(check, pictures=pictures)
            results = alternate(contenders, source=source, check=all_there, runs=arguments.runs)
            print(f"\n{pictures} pictures, {arguments.runs} runs of each in alternation\n")
            print(table(contenders, results, records=pictures, unit="pictures"))
            print(*["", *bars(medians(results), pictures)], sep="\n", flush=True)


if __name__ == "__main__":
    main()
