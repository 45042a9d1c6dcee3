"""Measures how fast a dataset is read, decoded and batched by each loader.

Each measurement lasts a number of seconds, and reads the split again if it ends earlier.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from recordmill.errors import ConfigError
from recordmill.loading.decode import Decode
from recordmill.reading.ordered_records import grain_source
from recordmill.reading.reader import Records, read
from recordmill.storage.files import Location

_BLOCK = 1 << 20  # bytes
_DECODED = 256  # records that are decoded repeatedly


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadingTask:
    """A dataset to measure.

    seconds: of each measurement, at least. image_size: None for that of the records.
    """

    dataset: str
    split: str
    batch_size: int
    image_size: tuple[int, int] | None
    seconds: float

    @property
    def decode(self) -> Decode:
        """The transform of the loaders."""
        return Decode(image_size=self.image_size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """Result of a measurement. first: seconds to the first record or batch."""

    records: int
    seconds: float
    first: float

    @property
    def per_second(self) -> float:
        """Records per second."""
        return self.records / max(self.seconds, 1e-9)


def stages() -> dict[str, Callable[[LoadingTask], Speed]]:
    """Return the measurements of the parts of loading, all in one process."""
    return {"files": _files, "read": _read, "decode": _decode}


def measure(name: str, workers: int, task: LoadingTask) -> Speed:
    """Measure a stage, or a loader with a number of worker processes.

    Raises:
      ConfigError: the loader does not take the dataset.
    """
    stage = stages().get(name)
    return _LOADERS[name](task, workers) if stage is None else stage(task)


def installed() -> list[str]:
    """Return the loaders whose packages are installed."""
    needed = {"torch_dataset": "torch", "load": "tensorflow"}
    return [
        name
        for name in _LOADERS
        if name not in needed or importlib.util.find_spec(needed[name]) is not None
    ]


def _timed(sizes: Callable[[], Iterator[int]], seconds: float) -> Speed:
    """Count the records of an iterator, which restarts whenever it ends.

    Raises:
      ConfigError: it yields none.
    """
    started = time.perf_counter()
    first, records = 0.0, 0
    while True:
        before = records
        for size in sizes():
            records += size
            took = time.perf_counter() - started
            first = first or took
            if took >= seconds:
                return Speed(records=records, seconds=took, first=first)
        if records == before:
            raise ConfigError("split: expected a split with records")


def _files(task: LoadingTask) -> Speed:
    """Read the files in blocks of 1 MiB; records are counted by their mean size."""
    records = Records(task.dataset, task.split)
    folder = Location.parse(task.dataset)

    def sizes() -> Iterator[int]:
        for shard in records.manifest.splits[task.split].shards:
            with (folder / shard.file).open_input() as file:
                while block := file.read(_BLOCK):
                    yield len(block)

    found = _timed(sizes, task.seconds)
    return dataclasses.replace(found, records=round(found.records / max(records.mean_bytes, 1)))


def _read(task: LoadingTask) -> Speed:
    return _timed(lambda: (1 for _ in read(task.dataset, task.split)), task.seconds)


def _decode(task: LoadingTask) -> Speed:
    records = Records(task.dataset, task.split)
    bound = task.decode.bind(records.manifest, task.split)
    several = [*itertools.islice(iter(records), _DECODED)]

    def decoded() -> Iterator[int]:
        for record in several:
            bound(record, 0, 0)
            yield 1

    return _timed(decoded, task.seconds)


def _grain_source(task: LoadingTask, workers: int) -> Speed:
    source = grain_source(task.dataset, task.split, shuffle=True, transform=task.decode)
    size = task.batch_size

    def sizes() -> Iterator[int]:
        for at in range(0, len(source), size):
            batch = source.__getitems__(range(at, min(at + size, len(source))))
            _stacked(batch)
            yield len(batch)

    return _timed(sizes, task.seconds)


def _torch_dataset(task: LoadingTask, workers: int) -> Speed:
    from torch.utils.data import DataLoader

    from recordmill.reading.torch_records import torch_dataset

    data = torch_dataset(
        task.dataset, task.split, batch_size=task.batch_size, shuffle=True, transform=task.decode,
        collate_fn=_counted,
    )  # fmt: skip
    loader = DataLoader(
        data,
        batch_size=None,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,  # the default in training on Linux
    )
    return _timed(lambda: (size for size, _ in loader), task.seconds)


def _load(task: LoadingTask, workers: int) -> Speed:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no messages about missing GPUs
    from recordmill.loading.loader import load

    data = load(
        task.dataset, task.split, batch_size=task.batch_size, shuffle=True,
        image_size=task.image_size, repeat=True,
    )  # fmt: skip
    import tensorflow as tf

    return _timed(
        lambda: (int(tf.nest.flatten(batch)[-1].shape[0]) for batch in data), task.seconds
    )


_LOADERS: dict[str, Callable[[LoadingTask, int], Speed]] = {
    "grain_source": _grain_source,
    "torch_dataset": _torch_dataset,
    "load": _load,
}


def _counted(batch: list[Any]) -> tuple[int, Any]:
    """Return the number of samples, and the batch; values of different lengths stay a list."""
    from recordmill.reading.torch_records import collate

    try:
        return len(batch), collate(batch)
    except (RuntimeError, TypeError):
        return len(batch), batch


def _stacked(batch: list[Any]) -> Any:
    first = batch[0]
    if isinstance(first, tuple):
        return tuple(_stacked([*one]) for one in zip(*batch, strict=True))
    if isinstance(first, dict):
        return {name: _stacked([one[name] for one in batch]) for name in first}
    try:
        return np.stack(batch)
    except ValueError:  # values of different lengths
        return batch
