"""One dataset, whatever the circumstances: workers, hash seeds, order of a listing, spilled pieces.

    python -m tests.soak.sameness --size 224

Every file of the dataset must have the same bytes in all runs over the folder, and in all runs over
a listing of the same files; and the digest (over the shards) must be one for folder and listing.
"""

from __future__ import annotations

import argparse
import csv
import json
import pathlib
import random
import shutil
import tempfile
from collections.abc import Sequence

from tests.soak.command import PHOTOS, DifferenceError, ImagesCommand, content, end, expect_same

_LISTED = ("--input-root", str(PHOTOS))
# (what is different, further options, PYTHONHASHSEED); the first is what the others are held to.
_OVER_FOLDER: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("workers 2", ("--workers", "2"), "random"),
    ("workers 1", ("--workers", "1"), "random"),
    ("workers 4", ("--workers", "4"), "random"),
    ("PYTHONHASHSEED 0", (), "0"),
    ("PYTHONHASHSEED 1", (), "1"),
    ("all pieces spilled", ("--spill-above", "1"), "random"),
    ("spilled, workers 4", ("--spill-above", "1", "--workers", "4"), "random"),
)
_ORDERS = ("sorted", "shuffled", "reversed")


def write_listings(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The same files in three orders: {order: CSV}."""
    paths = sorted(path.relative_to(PHOTOS) for path in PHOTOS.rglob("*.jpg"))
    shuffled = random.Random(0).sample(paths, len(paths))
    written = {}
    for order, rows in zip(_ORDERS, (paths, shuffled, paths[::-1]), strict=True):
        written[order] = folder / f"{order}.csv"
        with written[order].open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["path", "label"])
            writer.writerows([path, path.parts[0]] for path in rows)
    return written


def compare(runs: Sequence[tuple[str, ImagesCommand]], digests: dict[str, str]) -> list[str]:
    """Runs them all, notes their digests, and returns in what they differ from the first."""
    differences = []
    first = None
    for name, command in runs:
        try:
            command.finish()
            # They tell how the job was called, and are outside the equality of datasets.
            (command.output / "job.json").unlink()
            (command.output / "recipes.parquet").unlink(missing_ok=True)
            made = content(command.output)
            first = first or made
            digests[name] = json.loads((command.output / "dataset.json").read_bytes())["digest"]
            print(f"| {name} | {digests[name][:16]} |", flush=True)
            expect_same(made, first)
        except DifferenceError as error:
            print(f"| {name} | DIFFERENT |", flush=True)
            differences.append(f"{name}: {error}")
        shutil.rmtree(command.output, ignore_errors=True)
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=64, help="of the pictures, in pixels")
    size = parser.parse_args().size
    digests: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
        output = pathlib.Path(folder, "out")
        over_folder = [
            (name, ImagesCommand(output=output, size=size, options=options, hash_seed=seed))
            for name, options, seed in _OVER_FOLDER
        ]
        over_listings = [
            (
                f"listing, {order}",
                ImagesCommand(output=output, size=size, source=listing, options=_LISTED),
            )
            for order, listing in write_listings(pathlib.Path(folder)).items()
        ]
        print("| run | digest |\n|---|---|")
        differences = compare(over_folder, digests) + compare(over_listings, digests)
    if len(set(digests.values())) != 1:
        differences.append(f"expected one digest, got {digests}")
    end(differences)


if __name__ == "__main__":
    main()
