"""A film of 20 minutes, made of the two real ones, in bounded memory.

python -m tests.soak.video                         20 minutes
python -m tests.soak.video --minutes 2
"""

from __future__ import annotations

import argparse
import io
import itertools
import pathlib
import tempfile

import av
import numpy as np
from PIL import Image

from benchmarks.films import SOURCES, make_film
from benchmarks.measure import machine, python, run
from recordmill.format.manifest import load
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from tests.soak.command import DifferenceError
from tests.video_files import difference, frames_of, resized

_LIMIT = 1 << 30  # bytes of the whole tree of processes
_FRAMES, _STRIDE, _SIDE = 16, 8, 112
_EVERY = 40  # clips between two that are looked at
_JPEG_ERROR = 6.0  # levels of 255 on average, of frames that are scaled and coded by others


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--source", choices=[path.stem for path in SOURCES], action="append")
    arguments = parser.parse_args()
    print(machine())
    for source in SOURCES:
        if source.stem in (arguments.source or [path.stem for path in SOURCES]):
            with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
                measure(source, arguments.minutes, pathlib.Path(folder))


def measure(source: pathlib.Path, minutes: float, folder: pathlib.Path) -> None:
    """Makes the clips of one long film, and looks at what came out."""
    with av.open(str(source)) as film:
        seconds = float(film.duration / av.time_base)
    path = folder / source.name
    frames = make_film(path, source, times=max(round(minutes * 60 / seconds), 1))
    command = python(
        *(
            "recordmill.pipelines.cli",
            "video",
            "--input",
            path,
            "--output",
            folder / "out",
            "--quiet",
        ),
        *("--size", _SIDE, "--resize-mode", "stretch", "--splits", "train=1"),
        *("--clip-frames", _FRAMES, "--clip-stride", _STRIDE),
    )
    measured = run(command, memory=True)
    manifest = load(Location.parse(str(folder / "out")))
    clips = manifest.ledger.records.written
    expected = (frames - _FRAMES) // _STRIDE + 1
    if clips != expected:
        raise DifferenceError(f"{clips} clips, expected {expected}")
    wanted = [resized(frame, (_SIDE, _SIDE)) for frame in frames_of(source)]
    records = itertools.chain.from_iterable(read(folder / "out", one) for one in manifest.splits)
    for number, record in enumerate(records):
        if number % _EVERY == 0:
            check(record, wanted)
    print(
        f"{source.stem}: {path.stat().st_size / 1e6:.0f} MB, {frames} frames, {clips} clips in"
        f" {measured.wall:.0f} s ({measured.cpu:.0f} s of CPU, {frames / measured.wall:.0f} frames"
        f" a second), {measured.peak / 2**20:.0f} MiB at most"
    )
    if measured.peak > _LIMIT:
        raise DifferenceError(f"{measured.peak} bytes of memory, more than {_LIMIT}")


def check(record: dict[str, object], wanted: list[np.ndarray]) -> None:
    """Raises DifferenceError for a clip whose first or last frame is another one."""
    encoded = record["image/encoded"]
    assert isinstance(encoded, np.ndarray)
    found = [np.asarray(Image.open(io.BytesIO(encoded[place]))) for place in (0, -1)]
    start = min(range(len(wanted)), key=lambda number: difference(found[0], wanted[number]))
    for got, number in zip(found, (start, start + _FRAMES - 1), strict=True):
        if difference(got, wanted[number % len(wanted)]) > _JPEG_ERROR:
            raise DifferenceError(f"{record['clip/data_path']!r}: other frames than the film has")


if __name__ == "__main__":
    main()
