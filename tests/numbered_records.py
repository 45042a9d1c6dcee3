"""Datasets whose records are numbered, and the sequences in which training has to read them."""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import recordmill
from recordmill.reading.epoch_order import epoch_order
from recordmill.reading.mixture_schedule import MixtureSchedule, shares
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, make_dataset

RECORDS = 211
SEED = 7
# Options of an order, and the compression of the dataset.
ORDERS = [
    pytest.param({"shuffle": True}, "none", id="windowed"),
    pytest.param({"shuffle": True}, "gzip", id="gzip"),
    pytest.param({"shuffle": True, "order": "full"}, "none", id="full"),
    pytest.param({}, "none", id="stored"),
    pytest.param({}, "gzip", id="stored-gzip"),
]
_FEATURES = {
    "number": Feature(dtype="int64"),
    "filling": Feature(dtype="float32", shape=(20,)),
}


def numbered_dataset(
    folder: pathlib.Path, *, records: int = RECORDS, first: int = 0, compression: str = "none"
) -> pathlib.Path:
    """Records in five shards of train, one of which is empty; three in test.

    Their numbers begin with `first`. The label is 'rose' for every third, else 'tulip'.
    """
    rows = [
        Row(
            key=str(number),
            label="tulip" if number % 3 else "rose",
            values={"number": [number], "filling": [0.0] * 20},
        )
        for number in range(first, first + records)
    ]
    cuts = [0, *(records * part // RECORDS for part in (60, 61, 61, 150)), records]
    train = [rows[start:stop] for start, stop in itertools.pairwise(cuts)]
    splits = {"train": train, "validation": [], "test": [rows[:3]]}
    make_dataset(folder, splits, features=_FEATURES, compression=compression)
    return folder


def in_both_compressions(folder: pathlib.Path) -> pathlib.Path:
    """Write the datasets `none` and `gzip` into a folder, and return it."""
    for compression in ("none", "gzip"):
        numbered_dataset(folder / compression, compression=compression)
    return folder


def numbers_of_epochs(folder: pathlib.Path, options: Mapping[str, Any], epochs: int) -> list[int]:
    """Return the record numbers of all epochs, by the pure order."""
    layout = recordmill.open(folder, "train").layout
    name = options.get("order", "windowed") if options else "stored"
    orders = (epoch_order(name, layout, seed=SEED, epoch=epoch) for epoch in range(epochs))
    return [*itertools.chain(*(one.record_numbers(np.arange(RECORDS)).tolist() for one in orders))]


def use_small_windows(patch: pytest.MonkeyPatch) -> None:
    """Make windows of six blocks, of four or five records."""
    patch.setattr("recordmill.reading.epoch_order.LANES", (6, 3, 1))
    patch.setattr("recordmill.reading.epoch_order.WINDOW_BYTES", 30 * 140)


def number_of(record: dict[str, Any]) -> int:
    return int(record["number"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """The numbers of records in the order of training, computed record by record.

    weights: {folder: weight} of a mixture, or one folder. keep: whether a filter keeps a number.
    """

    weights: Mapping[pathlib.Path, float]
    order: str = "windowed"
    keep: Callable[[int], bool] = lambda _: True

    def source(self, folder: pathlib.Path, first_epoch: int = 0) -> Iterator[int]:
        """Yield the kept numbers of a dataset, epoch after epoch."""
        records = recordmill.open(folder, "train")
        numbers = [int(record["number"]) for record in records]
        for epoch in itertools.count(first_epoch):
            order = epoch_order(self.order, records.layout, seed=SEED, epoch=epoch)
            places = order.record_numbers(np.arange(len(numbers))).tolist()
            yield from (numbers[place] for place in places if self.keep(numbers[place]))

    def size(self, folder: pathlib.Path) -> int:
        """Number of kept records of a dataset."""
        return sum(self.keep(int(one["number"])) for one in recordmill.read(folder, "train"))

    def numbers(self, count: int) -> list[int]:
        """Return the first numbers of the sequence."""
        if len(self.weights) == 1:
            (folder,) = self.weights
            return [*itertools.islice(self.source(folder), count)]
        schedule = MixtureSchedule(shares(self.weights))
        sources, _ = schedule.locate(np.arange(count))
        streams = [self.source(folder) for folder in self.weights]
        return [next(streams[source]) for source in sources.tolist()]
