"""A dataset whose records are numbered, to follow their order."""

import pathlib
from typing import Any

from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, make_dataset

RECORDS = 211
SEED = 7
_FEATURES = {
    "number": Feature(dtype="int64"),
    "filling": Feature(dtype="float32", shape=(20,)),
}


def numbered_dataset(folder: pathlib.Path, *, compression: str = "none") -> pathlib.Path:
    """211 records in five shards of train, one of which is empty; three in test."""
    rows = [
        Row(key=str(number), label=None, values={"number": [number], "filling": [0.0] * 20})
        for number in range(RECORDS)
    ]
    train = [rows[:60], rows[60:61], [], rows[61:150], rows[150:]]
    splits = {"train": train, "validation": [], "test": [rows[:3]]}
    make_dataset(folder, splits, features=_FEATURES, compression=compression)
    return folder


def number_of(record: dict[str, Any]) -> int:
    return int(record["number"])
