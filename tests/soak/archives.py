"""Archives at size: a million files in one, and peak memory against the gigabytes of a tar.

python -m tests.soak.archives                      a million files, 1 GB and 10 GB of photos
python -m tests.soak.archives --files 10000 --megabytes 0
"""

from __future__ import annotations

import argparse
import io
import pathlib
import tarfile
import tempfile
import time
import zipfile

from benchmarks.measure import bar, python, run
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from recordmill.transforms.sources.folders.folders import FileTree
from tests.paths import CLOTHING
from tests.soak.command import DifferenceError

_LISTED = 400  # MiB, at most, to list a million files
_GROWTH = 1.1  # of peak memory, at most, for ten times the bytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--megabytes", default="1000,10000")
    parser.add_argument("--list", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.list is not None:
        _list(arguments.list)
        return
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
        for path in (_tar_of(arguments.files, name), _zip_of(arguments.files, name)):
            measured = run(python("tests.soak.archives", "--list", path), memory=True)
            if f"{arguments.files} files" not in measured.output:
                raise DifferenceError(f"{path.name}: expected {arguments.files}, {measured.output}")
            print(f"{path.name}: {arguments.files:,} files listed in {measured.cpu:.0f} s of CPU")
            _hold(f"peak of listing {path.name} in MiB", measured.peak / 2**20, _LISTED)
            path.unlink()
    peaks = [_photos(size) for size in map(int, arguments.megabytes.split(",")) if size]
    if len(peaks) > 1:
        _hold(
            "peak memory for the largest tar by that for the smallest",
            peaks[-1] / peaks[0],
            _GROWTH,
        )


def _hold(what: str, got: float, most: float) -> None:
    print(bar(what, got, at_most=most), flush=True)
    if got > most:
        raise DifferenceError(f"{what}: {got:.2f}, at most {most}")


def _list(path: pathlib.Path) -> None:
    start, files = time.process_time(), 0
    for part in FileTree(input=str(path), leave_out=()).scan():
        files += 0 if part.rows is None else len(part.rows)
    print(f"{files} files in {time.process_time() - start:.1f} s")


def _name(number: int) -> str:
    return f"class-{number % 5}/{number:07}.bin"


def _tar_of(files: int, folder: str) -> pathlib.Path:
    path = pathlib.Path(folder, "million.tar")
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(files):
            header = tarfile.TarInfo(_name(number))
            header.size = 1
            archive.addfile(header, io.BytesIO(b"x"))
            archive.members.clear()
    return path


def _zip_of(files: int, folder: str) -> pathlib.Path:
    path = pathlib.Path(folder, "million.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(files):
            archive.writestr(_name(number), b"x")
    return path


def _photos(megabytes: int) -> int:
    """Make a dataset of a tar of photos, repeated under other names; return the peak in bytes."""
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
        source, out = pathlib.Path(name, "photos.tar"), pathlib.Path(name, "out")
        photos = [path.read_bytes() for path in sorted(CLOTHING.rglob("*.jpg"))]
        number = 0
        with tarfile.open(source, "w") as archive:
            while archive.offset < megabytes * 10**6:
                content = photos[number % len(photos)]
                header = tarfile.TarInfo(f"class-{number % 5}/{number:07}.jpg")
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
                archive.members.clear()
                number += 1
        options = ("--size", 32, "--quiet", "--workers", 2)
        command = python("recordmill", "images", "--input", source, "--output", out, *options)
        measured = run(command, memory=True)
        if load(Location.parse(str(out))).ledger.records.written != number:
            raise DifferenceError(f"{megabytes} MB: not all of {number} photos were written")
        print(
            f"{megabytes:,} MB, {number:,} photos: {measured.cpu:.0f} s of CPU, peak"
            f" {measured.peak / 2**20:.0f} MiB",
            flush=True,
        )
        return measured.peak


if __name__ == "__main__":
    main()
