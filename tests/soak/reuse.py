"""Reusing runs against runs from scratch: random changes, nights, kills, damage, and a store.

    python -m tests.soak.reuse                               everything, about 12 minutes
    python -m tests.soak.reuse --sequences 3 --nights 4 --kills 5 --damages 1
    python -m tests.soak.reuse --runner flink --sequences 6  sequences alone, about 6 minutes

Sequences: random changes of a folder of tiny images and of the options, 8 generations each. With
`--runner flink` one of the two datasets of each generation that reuse is made by Flink, the other
and that from scratch by the local runner. Nights: a folder grows by a tenth every night; no record
may move between splits, each night reuses all records of the night before, and `recordmill diff`
finds those that were added and nothing else. Kills: a run that reuses a dataset is killed at a
random moment, then finished. Damage: of frames, shards, indexes and recipes of the reused dataset.
All results must be, byte for byte, those of a run from scratch. Store: what is requested and read
from an S3-speaking server with and without reuse; the datasets are equal there, too.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor

from benchmarks import measure
from benchmarks.flink_cluster import JOB_SERVER, FlinkCluster
from recordmill.format.manifest import MANIFEST, RECIPES
from recordmill.format.shard_index import read_index
from recordmill.job.staging import FOLDER
from recordmill.pipelines.cli import main as recordmill
from recordmill.processes import pool
from recordmill.processes.pool import close_shared_pool, shared_pool
from recordmill.storage.files import Location
from tests.folders import make_picture
from tests.recordmill.storage.test_s3 import files
from tests.reuse_changes import check_sequence, files_of, reused, run
from tests.s3_server import CREDENTIALS, read_log, s3_server
from tests.soak.command import PHOTOS, ImagesCommand, end

_GENERATIONS = 8
_NOT_BEFORE = 0.3  # earliest kill, as a fraction of the time of a run: it imports until then


def sequences(folder: pathlib.Path, *, count: int, seed: int) -> list[str]:
    """Prints a row per sequence; returns the differences. Each core runs one at a time."""
    context = multiprocessing.get_context("spawn")
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=context, initializer=_share_encoders) as executor:
        checks = {
            number: executor.submit(
                check_sequence, folder / f"{number}", seed=number, generations=_GENERATIONS
            ).result
            for number in range(seed, seed + count)
        }
        return _outcomes(checks)


def sequences_on_flink(folder: pathlib.Path, *, count: int, seed: int) -> list[str]:
    """Runs sequences on a Flink cluster, one after the other; returns the differences."""
    (folder / "cluster").mkdir(parents=True)
    with FlinkCluster(folder / "cluster") as cluster:
        where = ("--flink-master", cluster.master, "--environment", "loopback")
        options = ("--runner", "flink", *where, "--flink-job-server-jar", JOB_SERVER)

        def on_flink(output: pathlib.Path, *argv: object) -> int:
            return run(output, *argv, *options)

        def check(number: int) -> int:
            place = folder / f"{number}"
            return check_sequence(place, seed=number, generations=_GENERATIONS, reusing=on_flink)

        return _outcomes(
            {number: functools.partial(check, number) for number in range(seed, seed + count)}
        )


def _outcomes(checks: Mapping[int, Callable[[], int]]) -> list[str]:
    differences = []
    for number, check in checks.items():
        try:
            print(f"sequence {number}: {check()} records reused", flush=True)
        except AssertionError as error:
            differences.append(f"sequence {number}: {str(error)[:2000]}")
    return differences


def _share_encoders() -> None:
    """Let all runs of this process share encoder processes."""
    os.environ.update(CREDENTIALS)  # before they start
    shared_pool(2)
    pool.close_shared_pool = lambda: None


def nights(folder: pathlib.Path, *, count: int) -> list[str]:
    """A folder that grows; returns the differences."""
    differences = []
    source, sets, scratch = folder / "photos", folder / "sets", folder / "scratch"
    splits: dict[str, str] = {}
    number = 0
    for night in range(count):
        new = max(number // 10, 1) if night else 100
        for _ in range(new):
            make_picture(source / f"class-{number % 3}" / f"{number:05d}.png", number)
            number += 1
        out, before = sets / f"night-{night:02d}", sets / f"night-{night - 1:02d}"
        argv = ["--input", source, "--size", "16", "--num-shards", "train=3"]
        codes = (
            run(out, *argv, "--reuse", sets / "*"),
            run(scratch, *argv, "--overwrite", "--no-reuse"),
        )
        if codes != (0, 0) or files_of(out) != files_of(scratch) or reused(scratch) is not None:
            differences.append(f"night {night}: not that of a run from scratch")
        if night and reused(out) != len(splits):
            differences.append(f"night {night}: reused {reused(out)} of {len(splits)} records")
        if night and (found := _difference(before, out)) != {"added": new, "same": len(splits)}:
            differences.append(f"night {night}: diff found {found}, not {new} added")
        now = {
            key: place.name.split("-0")[0]
            for place in sorted((out / "index").iterdir())
            for key in read_index(Location.parse(str(place)))["key"].to_pylist()
        }
        moved = [key for key, split in splits.items() if now.get(key) != split]
        if moved:
            differences.append(f"night {night}: {len(moved)} records moved, such as {moved[0]}")
        splits = now
        print(f"night {night}: {len(now)} records, {reused(out)} reused", flush=True)
    return differences


def _difference(before: pathlib.Path, after: pathlib.Path) -> dict[str, int]:
    """Returns the counts of `recordmill diff` that are not zero."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        recordmill(["diff", str(before), str(after), "--json"])
    records = json.loads(said.getvalue())["records"]
    counts = {kind: one["count"] if isinstance(one, dict) else one for kind, one in records.items()}
    return {kind: count for kind, count in counts.items() if isinstance(count, int) and count}


def linked(folder: pathlib.Path, *, count: int) -> pathlib.Path:
    """Fills a folder with links to about `count` of the photos, of all classes."""
    photos = sorted(PHOTOS.rglob("*.jpg"))
    for photo in photos[:: max(len(photos) // count, 1)]:
        place = folder / photo.relative_to(PHOTOS)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(photo)
    return folder


def kills(folder: pathlib.Path, *, count: int, seed: int) -> list[str]:
    """Kills reusing runs and finishes them; returns the differences."""
    generator = random.Random(seed)
    source = linked(folder / "photos", count=400)
    shards = ("--num-shards", "train=8,validation=2,test=2")
    old = ImagesCommand(
        output=folder / "old", size=64, options=("--num-shards", "3"), source=source
    )
    new = ImagesCommand(output=folder / "new", size=64, options=shards, source=source)
    out = folder / "killed"
    old.finish()
    new.finish()
    expected = files_of(new.output)
    known = [(one.output / MANIFEST).read_bytes() for one in (old, new)]
    differences = []
    seconds: dict[bool, float] = {}  # of an undisturbed run that overwrites, or does not
    for number in range(-2, count):
        overwrites = number % 2 == 1
        if overwrites:  # the dataset that is reused is the one that is replaced
            shutil.copytree(old.output, out)
        options = (*shards, "--overwrite") if overwrites else (*shards, "--reuse", str(old.output))
        command = ImagesCommand(output=out, size=64, options=options, source=source)
        process = command.start()
        started = time.monotonic()
        if number < 0:
            process.communicate()
            seconds[overwrites] = time.monotonic() - started
        else:
            moment = generator.uniform(_NOT_BEFORE, 1) * seconds[overwrites]
            time.sleep(moment)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            found = "none"
            if (out / MANIFEST).exists():
                found = "old" if (out / MANIFEST).read_bytes() == known[0] else "new"
                if (out / MANIFEST).read_bytes() not in known or recordmill(
                    ["verify", "--dataset", str(out), "--quiet"]
                ):
                    differences.append(f"kill {number}: left a damaged dataset")
            code = recordmill(command.arguments)
            print(
                f"kill {number}: after {moment:.1f} of {seconds[overwrites]:.1f} s, dataset"
                f" {found}, {reused(out)} reused",
                flush=True,
            )
            if code or [*out.glob(f"{FOLDER}/*/*")]:
                differences.append(f"kill {number}: was not finished, or left files in staging")
        if files_of(out) != expected:
            differences.append(f"kill {number}: not that of a run from scratch")
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
    source = linked(folder / "photos", count=100)
    argv = ["--input", source, "--size", "32", "--num-shards", "3", "--seed"]
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


def store(folder: pathlib.Path, *, count: int) -> list[str]:
    """Prints the requests of runs from and to an S3-speaking server; returns the differences."""
    folder.mkdir()
    log = folder / "log"
    photos = sorted(measure.PHOTOS.rglob("*.jpg"))
    differences = []
    with s3_server(log=log) as uri:

        def add(first: int, end: int) -> None:
            for number in range(first, end):
                photo = photos[number % len(photos)]
                place = uri(f"photos/{photo.parent.name}/{number:05d}.jpg")
                Location.parse(place).write_bytes(photo.read_bytes())

        argv = ["--input", uri("photos"), "--size", "224", "--num-shards", "4"]
        add(0, count)
        if run(uri("earlier"), *argv):
            return ["store: the earlier dataset was not made"]
        add(count, count + max(count // 100, 1))
        print("\n| change | run | requests | of which GET | bytes read | of which photos |")
        print("|---|---|--:|--:|--:|--:|", flush=True)
        for change, options in (
            ("1 % new", ()),
            ("1 % new, --num-shards 2", ("--num-shards", "2")),
            ("1 % new, --seed 7", ("--seed", "7")),
        ):
            made = []
            for name, reuse in (("scratch", ()), ("reusing", ("--reuse", uri("earlier")))):
                out = f"{name}{''.join(options)}"
                log.write_text("")
                if run(uri(out), *argv, *options, *reuse):
                    return [*differences, f"store, {change}: {name} was not made"]
                requests = read_log(log)
                got = [request for request in requests if request.method == "GET"]
                of_photos = [request for request in got if request.key.startswith("photos/")]
                print(
                    f"| {change} | {name} | {len(requests)} | {len(got)} |"
                    f" {sum(request.sent for request in got):,} |"
                    f" {sum(request.sent for request in of_photos):,} |",
                    flush=True,
                )
                made.append(files(Location.parse(uri(out))))
            if made[0] != made[1]:
                differences.append(f"store, {change}: not that of a run from scratch")
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=60)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--damages", type=int, default=10, help="of each of five ways")
    parser.add_argument("--store", type=int, default=200, help="photos in the store")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("direct", "flink"), default="direct")
    given = parser.parse_args()
    _share_encoders()
    differences: list[str] = []

    def part(name: str, count: int, check: Callable[[], list[str]]) -> None:
        if not count:
            return
        started = time.monotonic()
        found = check()
        took = time.monotonic() - started
        print(f"{name}: {count}, {len(found)} differences, {took:.0f} s\n", flush=True)
        differences.extend(found)

    seed = given.seed
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
        folder = pathlib.Path(name)
        if given.runner == "flink":
            count = given.sequences
            part("sequences on Flink", count,
                 lambda: sequences_on_flink(folder, count=count, seed=seed))  # fmt: skip
        else:
            part("sequences", given.sequences,
                 lambda: sequences(folder, count=given.sequences, seed=seed))  # fmt: skip
            part("nights", given.nights,
                 lambda: nights(folder / "nights", count=given.nights))  # fmt: skip
            part("kills", given.kills,
                 lambda: kills(folder / "kills", count=given.kills, seed=seed))  # fmt: skip
            part("damages in five ways", given.damages,
                 lambda: damage(folder / "damage", count=given.damages, seed=seed))  # fmt: skip
            part("photos in a store", given.store,
                 lambda: store(folder / "store", count=given.store))  # fmt: skip
    close_shared_pool()
    end(differences)


if __name__ == "__main__":
    main()
