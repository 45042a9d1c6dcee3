"""Two processes, half of the files each, nothing around the calls of our encoder: the floor.

No splits, balance, shuffle, resume or checksums of files: two files in the order of names.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence

import pyarrow as pa

from benchmarks.peers.processes import PROCESSES, finish, shard, started
from benchmarks.peers.work import label_of, list_keys, make_picture, number_labels
from recordmill.tfrecord.example import encode_frames

_ROWS = 64  # Examples encoded at once


def write(folder: str, keys: Sequence[str], numbers: Mapping[str, int], target: str) -> None:
    """Writes one TFRecord file."""
    with open(target, "wb") as sink:
        for start in range(0, len(keys), _ROWS):
            some = keys[start : start + _ROWS]
            pictures = [make_picture(folder, key) for key in some]
            columns = {
                "image/encoded": pa.array([picture.data for picture in pictures], pa.binary()),
                "image/filename": pa.array(some, pa.string()),
                "image/format": pa.array([picture.format for picture in pictures], pa.string()),
                "image/height": pa.array([picture.height for picture in pictures], pa.int64()),
                "image/width": pa.array([picture.width for picture in pictures], pa.int64()),
                "image/channels": pa.array([picture.channels for picture in pictures], pa.int64()),
                "image/class/label": pa.array([numbers[label_of(key)] for key in some], pa.int64()),
                "image/class/text": pa.array([label_of(key) for key in some], pa.string()),
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
