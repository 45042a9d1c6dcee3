"""Audio by a plain loop in two processes, half of the files each: the floor.

    python -m benchmarks.peers.audio_loops FILES OUTPUT

Every file is read by soundfile, mixed, resampled by soxr, cut or padded to a second, and written as
an Example by our encoder, which is the fastest that there is. No splits, shuffle, resume or
checksums of files.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import soundfile
import soxr

from benchmarks.peers.processes import PROCESSES, finish, shard, started
from benchmarks.peers.work import label_of, list_keys, number_labels
from recordmill.tfrecord.example import encode_frames

RATE = 16000
_ROWS = 64  # Examples encoded at once


def waveform(path: pathlib.Path) -> tuple[bytes, int]:
    """A second of a file, int16[RATE], and the samples of it that are no padding."""
    samples, rate = soundfile.read(path, dtype="float32")
    if samples.ndim > 1:
        samples = samples.mean(axis=1)
    if rate != RATE:
        samples = soxr.resample(samples, rate, RATE)
    clip = np.zeros(RATE, np.float32)
    clip[: len(samples)] = samples[:RATE]
    levels = np.clip(np.rint(clip * 32768), -32768, 32767)
    return levels.astype("<i2").tobytes(), min(len(samples), RATE)


def write(folder: str, keys: Sequence[str], numbers: Mapping[str, int], target: str) -> None:
    """Writes one TFRecord file."""
    with open(target, "wb") as sink:
        for start in range(0, len(keys), _ROWS):
            some = keys[start : start + _ROWS]
            sounds = [waveform(pathlib.Path(folder, key)) for key in some]
            formats = [key.rpartition(".")[2] for key in some]
            columns = {
                "audio/waveform": pa.array([sound for sound, _ in sounds], pa.binary()),
                "audio/filename": pa.array(some, pa.string()),
                "audio/format": pa.array(formats, pa.string()),
                "audio/sample_rate": pa.array([RATE] * len(some), pa.int64()),
                "audio/samples": pa.array([count for _, count in sounds], pa.int64()),
                "audio/class/label": pa.array([numbers[label_of(key)] for key in some], pa.int64()),
                "audio/class/text": pa.array([label_of(key) for key in some], pa.string()),
            }
            sink.write(encode_frames(pa.RecordBatch.from_pydict(columns)).data)


def main(source: str, output: str) -> None:
    keys = list_keys(source)
    numbers = number_labels(keys)
    pathlib.Path(output).mkdir()
    finish(
        [
            started(write, source, keys[i::PROCESSES], numbers, shard(output, i))
            for i in range(PROCESSES)
        ]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
