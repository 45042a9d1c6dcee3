"""Time for waveforms and spectrograms of audio files, beside loops that do the same work.

    python -m benchmarks.audio                             30,000 files of a second, 5 runs of each
    python -m benchmarks.audio --files 2000 --runs 1 --only ours,loop

Files are 200 sounds of 0.6 to 1.2 seconds, linked again and again. Waveforms are int16, of WAV and
FLAC at 22.05 kHz, resampled to 16 kHz. TensorFlow does not resample: beside it, waveforms and
spectrograms are of WAV at 16 kHz. A first round, which is not timed, reads all of them into the
page cache, measures memory and counts records. Then whole processes run in alternation, on two
cores, and the median of each counts.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import tempfile
from collections.abc import Mapping

import numpy as np
import soundfile

from benchmarks.contest import (
    Command,
    Contender,
    add_options,
    alternate,
    medians,
    payloads,
    table,
)
from benchmarks.measure import FailedError, bar, machine, python, two_cores
from recordmill.tfrecord.decode import decode_example

_SOUNDS = 200
_LEAST = 30_000  # files; with fewer, starting Python and its libraries is all there is to see
_RATE = 16000
_SIZES = {"audio/melspectrogram": 101 * 80 * 4, "audio/waveform": 2 * _RATE}  # bytes
_BARE_BAR = 0.9  # our files per second over those of the bare loop, at least
_TF_BAR = 3.0  # CPU seconds of tf.data over ours, at least
_NOT_RESAMPLED = "not-resampled"  # folder beside the source


def _ours(*options: object, folder: str | None = None) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        source = source if folder is None else source.parent / folder
        return python(
            *("recordmill", "audio", "--input", source, "--output", output, "--quiet"),
            *("--sample-rate", _RATE, "--mono", "--clip", "1s", "--splits", "train=1", *options),
        )

    return command


def _peer(module: str, *arguments: str, folder: str | None = None) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        source = source if folder is None else source.parent / folder
        return python(f"benchmarks.peers.{module}", *arguments, source, output)

    return command


_CONTENDERS = (
    Contender(name="ours", what="recordmill audio", command=_ours("--dtype", "int16")),
    Contender(
        name="loop",
        what="soundfile and soxr, bare loop, two processes",
        command=_peer("audio_loops"),
    ),
    Contender(
        name="ours-mel",
        what="recordmill audio --features melspectrogram",
        command=_ours("--features", "melspectrogram", folder=_NOT_RESAMPLED),
    ),
    Contender(
        name="tf-mel",
        what="tf.data, tf.audio and tf.signal",
        command=_peer("audio_tf_data", "melspectrogram", folder=_NOT_RESAMPLED),
    ),
    Contender(
        name="ours-wave",
        what="recordmill audio, not resampled",
        command=_ours("--dtype", "int16", folder=_NOT_RESAMPLED),
    ),
    Contender(
        name="tf-wave",
        what="tf.data and tf.audio",
        command=_peer("audio_tf_data", "waveform", folder=_NOT_RESAMPLED),
    ),
)


def make_files(folder: pathlib.Path, *, count: int, rate: int, formats: tuple[str, ...]) -> None:
    """Write sounds, and link them until there are `count` files of ten classes."""
    sounds = folder.parent / f"{folder.name}-sounds"
    sounds.mkdir()
    draw = np.random.default_rng(0)
    for number in range(_SOUNDS):
        time = np.arange(int(rate * draw.uniform(0.6, 1.2))) / rate
        tones = np.sin(2 * np.pi * draw.uniform(90, 3000, (8, 1)) * time).sum(axis=0)
        sound = 0.1 * tones * np.hanning(len(time)) + 0.01 * draw.normal(size=len(time))
        extension = formats[number % len(formats)]
        soundfile.write(sounds / f"{number}.{extension}", sound, rate, subtype="PCM_16")
    made = sorted(sounds.iterdir())
    for number in range(count):
        place = folder / f"word{number % 10}"
        if number < 10:
            place.mkdir(parents=True)
        path = made[number % _SOUNDS]
        os.link(path, place / f"{number:06d}{path.suffix}")


def check(output: pathlib.Path, files: int) -> None:
    """Raises FailedError unless all is there, and a record of each hundred as it should be."""
    written = 0
    for payload in payloads(output):
        written += 1
        if written % 100 == 1:
            values = decode_example(payload)
            (feature,) = _SIZES.keys() & values.keys()
            (content,) = values[feature]
            size = _SIZES[feature]
            if not size <= len(content) <= size + 100:  # tf.io.serialize_tensor adds a header
                raise FailedError(f"{output.name}: a record of {len(content)} bytes")
    if written != files:
        raise FailedError(f"{output.name}: expected {files} records, got {written}")


def bars(walls: Mapping[str, float], processors: Mapping[str, float], files: int) -> list[str]:
    """Return a line for each ratio with its bar, and whether it is met."""
    asked = files >= _LEAST
    lines = []
    if {"ours", "loop"} <= walls.keys():
        at_least = _BARE_BAR if asked else None
        got = walls["loop"] / walls["ours"]
        lines.append(bar("files/s: ours / bare loop", got, at_least=at_least))
    for ours, theirs in (("ours-wave", "tf-wave"), ("ours-mel", "tf-mel")):
        if {ours, theirs} <= walls.keys():
            at_least = _TF_BAR if asked else None
            got = processors[theirs] / processors[ours]
            lines.append(bar(f"CPU seconds: {theirs} / {ours}", got, at_least=at_least))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=_LEAST)
    add_options(parser, _CONTENDERS)
    arguments = parser.parse_args()
    two_cores()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source = pathlib.Path(folder, "input")
        make_files(source, count=arguments.files, rate=22050, formats=("wav", "flac"))
        not_resampled = pathlib.Path(folder, _NOT_RESAMPLED)
        make_files(not_resampled, count=arguments.files, rate=_RATE, formats=("wav",))
        all_there = functools.partial(check, files=arguments.files)
        results = alternate(arguments.only, source=source, check=all_there, runs=arguments.runs)
    print(f"\n{arguments.files} files, {arguments.runs} runs of each\n")
    print(table(arguments.only, results, records=arguments.files, unit="files"))
    found = bars(medians(results), medians(results, of="cpu"), arguments.files)
    print(*["", *found], sep="\n", flush=True)


if __name__ == "__main__":
    main()
