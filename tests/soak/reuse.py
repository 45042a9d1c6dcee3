"""Reusing runs against runs from scratch: random changes, a month of nights, kills and damage.

    python -m tests.soak.reuse                               everything, about an hour
    python -m tests.soak.reuse --sequences 3 --nights 4 --kills 5

Sequences: random changes of a folder of tiny images and of the options, 8 generations each. Nights:
a folder grows by a tenth every night; no record may move between splits, and each night reuses all
records of the night before. Kills: a run that reuses a dataset is killed at a random moment, then
finished. Damage: of frames, shards, indexes and recipes of the reused dataset. All results must be,
byte for byte, those of a run from scratch.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable

from recordmill.format.manifest import RECIPES
from recordmill.format.shard_index import read_index
from recordmill.processes import pool
from recordmill.processes.pool import close_shared_pool, shared_pool
from recordmill.storage.files import Location
from tests.folders import make_picture
from tests.reuse_changes import check_sequence, files_of, reused, run
from tests.soak.command import PHOTOS, ImagesCommand, end

_GENERATIONS = 8


def sequences(folder: pathlib.Path, *, count: int, seed: int) -> list[str]:
    """Prints a row per sequence; returns the differences."""
    differences = []
    for number in range(seed, seed + count):
        place = folder / f"sequence-{number}"
        try:
            total = check_sequence(place, seed=number, generations=_GENERATIONS)
            print(f"sequence {number}: {total} records reused", flush=True)
        except AssertionError as error:
            differences.append(f"sequence {number}: {str(error)[:2000]}")
        shutil.rmtree(place)
    return differences


def nights(folder: pathlib.Path, *, count: int) -> list[str]:
    """A folder that grows; returns the differences."""
    differences = []
    source, sets = folder / "photos", folder / "sets"
    splits: dict[str, str] = {}
    number = 0
    for night in range(count):
        for _ in range(max(number // 10, 1) if night else 100):
            make_picture(source / f"class-{number % 3}" / f"{number:05d}.png", number)
            number += 1
        out, scratch = sets / f"night-{night:02d}", folder / "scratch"
        argv = ["--input", source, "--size", "16", "--num-shards", "train=3"]
        before = 0 if night == 0 else len(splits)
        codes = run(out, *argv, "--reuse", sets / "*"), run(scratch, *argv)
        if codes != (0, 0) or files_of(out) != files_of(scratch):
            differences.append(f"night {night}: not that of a run from scratch")
        if night and reused(out) != before:
            differences.append(f"night {night}: reused {reused(out)} of {before} records")
        now = {
            key: place.name.split("-0")[0]
            for place in sorted((out / "index").iterdir())
            for key in read_index(Location.parse(str(place)))["key"].to_pylist()
        }
        moved = [key for key, split in splits.items() if now.get(key) != split]
        if moved:
            differences.append(f"night {night}: {len(moved)} records moved, such as {moved[0]}")
        splits = now
        shutil.rmtree(scratch)
        print(f"night {night}: {len(now)} records, {reused(out)} reused", flush=True)
    return differences


def kills(folder: pathlib.Path, *, count: int, seed: int) -> list[str]:
    """Kills reusing runs and finishes them; returns the differences."""
    generator = random.Random(seed)
    shards = ("--num-shards", "train=8,validation=2,test=2")
    old = ImagesCommand(output=folder / "old", size=64, options=("--num-shards", "3"))
    new = ImagesCommand(output=folder / "new", size=64, options=shards)
    old.finish()
    new.finish()
    expected = files_of(new.output)
    differences = []
    for number in range(count):
        out = folder / "killed"
        overwrites = number % 2 == 1
        if overwrites:  # the dataset that is reused is the one that is replaced
            shutil.copytree(old.output, out)
        options = (*shards, "--overwrite") if overwrites else (*shards, "--reuse", str(old.output))
        command = ImagesCommand(output=out, size=64, options=options)
        process = command.start()
        started = time.monotonic()
        while process.poll() is None and time.monotonic() - started < generator.uniform(1, 12):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        command.finish()
        if files_of(out) != expected:
            differences.append(f"kill {number}: not that of a run from scratch")
        print(f"kill {number}: {reused(out)} reused", flush=True)
        shutil.rmtree(out)
    return differences


def _flip(place: pathlib.Path, generator: random.Random) -> None:
    data = bytearray(place.read_bytes())
    for _ in range(3):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    place.write_bytes(data)


def _cut_off(place: pathlib.Path, generator: random.Random) -> None:
    place.write_bytes(place.read_bytes()[: generator.randrange(place.stat().st_size)])


def damage(folder: pathlib.Path, *, count: int, seed: int) -> list[str]:
    """Reuses datasets that are damaged in five ways; returns the differences."""
    generator = random.Random(seed)
    argv = ["--input", PHOTOS, "--size", "32", "--num-shards", "3", "--seed"]
    old, other, new = folder / "old", folder / "other", folder / "whole"
    made = run(old, *argv, "1"), run(other, *argv, "2"), run(new, *argv, "3")
    differences = [] if made == (0, 0, 0) else ["the datasets to damage were not made"]
    expected = files_of(new)

    def swap(place: pathlib.Path, _: random.Random) -> None:
        shutil.copy(other / place.relative_to(folder / "damaged"), place)

    ways: dict[str, tuple[str, Callable[[pathlib.Path, random.Random], None]]] = {
        "flipped bits in a shard": ("*.tfrecord-*", _flip),
        "a shard cut off": ("*.tfrecord-*", _cut_off),
        "a shard of another dataset": ("*.tfrecord-*", swap),
        "flipped bits in recipes": (RECIPES, _flip),
        "flipped bits in an index": ("index/*", _flip),
    }
    for number in range(count):
        for name, (pattern, change) in ways.items():
            damaged, out = folder / "damaged", folder / "made"
            shutil.copytree(old, damaged)
            change(generator.choice(sorted(damaged.glob(pattern))), generator)
            code = run(out, *argv, "3", "--reuse", damaged)
            if code or files_of(out) != expected:
                differences.append(f"{name}, {number}: not that of a run from scratch")
            print(f"{name}, {number}: {reused(out)} reused", flush=True)
            shutil.rmtree(damaged)
            shutil.rmtree(out)
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=60)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--damages", type=int, default=10, help="of each of five ways")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    shared_pool(2)
    pool.close_shared_pool = lambda: None  # the runs of this process share it
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        differences = sequences(folder, count=given.sequences, seed=given.seed)
        differences += nights(folder / "nights", count=given.nights)
        differences += kills(folder / "kills", count=given.kills, seed=given.seed)
        differences += damage(folder / "damage", count=given.damages, seed=given.seed)
    close_shared_pool()
    end(differences)


if __name__ == "__main__":
    main()
