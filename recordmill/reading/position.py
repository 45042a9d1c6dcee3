"""`recordmill.position`: returns the state of a training run after a number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.option_checks import expect_whole
from recordmill.reading.sequence import Datasets, State, open_sequence


def position(
    dataset: Datasets,
    split: str | None = "train",
    *,
    step: int,
    global_batch: int,
    shuffle: bool = True,
    order: str | None = None,
    seed: int = 0,
    filter: Any = None,  # noqa: A002, as in torch_dataset
    temperature: float | None = None,
    until: str | None = None,
    drop_remainder: bool = False,
    start: Mapping[str, Any] | None = None,
) -> State:
    """Return the state of a training run after a number of steps.

    The state is a small dictionary for JSON. Passed as `start`, it lets `recordmill.load` and
    the other loaders continue on any number of hosts and workers.

    dataset: the dataset of the run; or a mixture, as in `torch_dataset`.
    split: the split of the run; None for all splits, as in `torch_dataset`.
    step: number of batches that each host has consumed.
    global_batch: number of records in a batch of all hosts.
    shuffle, order, seed, filter, temperature, until: as in the run.
    drop_remainder: True if the run drops the last records of an epoch that fill no batch.
    start: the state from which the run began, if any; steps count from there.

    Raises:
      ManifestError: the folder is not a dataset.
      ConfigError: an option is invalid, or `start` is the state of another dataset or order.
      ValueError: the split does not exist.
    """
    step = expect_whole("step", step, least=0)
    global_batch = expect_whole("global_batch", global_batch, least=1)
    sequence = open_sequence(
        dataset,
        split,
        shuffle=shuffle,
        order=order,
        seed=seed,
        filter=filter,
        temperature=temperature,
        until=until,
    ).sequence
    epoch, consumed = (0, 0) if start is None else sequence.parse(start)
    records = sequence.records
    if records is None or (not step and consumed < records):
        return sequence.state(epoch, consumed + step * global_batch)
    steps = _steps(records - consumed, global_batch, drop_remainder=drop_remainder)
    if step >= steps:
        epoch, consumed, step = epoch + 1, 0, step - steps
        steps = _steps(records, global_batch, drop_remainder=drop_remainder)
        if not steps:
            raise ConfigError(f"step: an epoch of {records} records has no batch of {global_batch}")
        epoch, step = epoch + step // steps, step % steps
    return sequence.state(epoch, consumed + step * global_batch)


def _steps(records: int, batch: int, *, drop_remainder: bool) -> int:
    return records // batch if drop_remainder else -(-records // batch)
