"""The state of a training run: its position in the sequence of records that all hosts read.

It has the epoch, the number of its records that all hosts have consumed, and what determines the
order: digest, split, order and seed. Any number of hosts and workers can continue from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from recordmill.errors import ConfigError
from recordmill.option_checks import expect_whole
from recordmill.reading.epoch_order import OrderName, order_name
from recordmill.reading.reader import Folder, Records

State = dict[str, Any]

_SHAPE_ORDER = ("digest", "split", "order", "seed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochSequence:
    """The epochs of a split in one order, over all hosts.

    records: number of records in an epoch.
    split: None for all splits.
    digest: that of the dataset.
    """

    records: int
    split: str | None
    order: OrderName
    seed: int
    digest: str

    @classmethod
    def of(cls, records: Records, *, order: OrderName, seed: int) -> Self:
        """Return the sequence of opened records."""
        return cls(
            records=len(records),
            split=records.split,
            order=order,
            seed=seed,
            digest=records.manifest.digest,
        )

    def state(self, epoch: int, consumed: int) -> State:
        """Return the state after so many records of an epoch."""
        return {
            "epoch": epoch,
            "records": min(consumed, self.records),
            **{name: getattr(self, name) for name in _SHAPE_ORDER},
        }

    def parse(self, state: Any) -> tuple[int, int]:
        """Return the epoch of a state, and the number of its records that are consumed.

        Raises:
          ConfigError: it is not a state, or it belongs to another sequence.
        """
        names = {"epoch", "records", *_SHAPE_ORDER}
        if not isinstance(state, Mapping) or {*state} != names:
            raise ConfigError(
                f"start: expected a state with {', '.join(sorted(names))}, as recordmill.position"
                f" and state_dict return it; got {state!r}"
            )
        for name in _SHAPE_ORDER:
            here = getattr(self, name)
            if state[name] != here:
                raise ConfigError(
                    f"start: the state was made with {name} {state[name]!r}, but here it is"
                    f" {here!r}: a run can only be continued in its own order"
                )
        epoch = expect_whole("start", state["epoch"], least=0)
        return epoch, expect_whole("start", state["records"], least=0, below=self.records + 1)


def position(
    dataset: Folder,
    split: str | None = "train",
    *,
    step: int,
    global_batch: int,
    shuffle: bool = True,
    order: str | None = None,
    seed: int = 0,
    drop_remainder: bool = False,
    start: Mapping[str, Any] | None = None,
) -> State:
    """Return the state of a training run after a number of steps.

    The state is a small dictionary for JSON. Passed as `start`, it lets `recordmill.load` and
    `recordmill.torch_dataset` continue on any number of hosts and workers.

    split: the split of the run; None for all splits, as in `torch_dataset`.
    step: number of batches that each host has consumed.
    global_batch: number of records in a batch of all hosts.
    shuffle, order, seed: as in the run.
    drop_remainder: True if the run drops the last records of an epoch that fill no batch.
    start: the state from which the run began, if any; steps count from there.

    Raises:
      ManifestError: the folder is not a dataset.
      ConfigError: an option is invalid, or `start` is the state of another dataset or order.
      ValueError: the split does not exist.
    """
    expect_whole("step", step, least=0)
    expect_whole("global_batch", global_batch, least=1)
    records = Records(dataset, split)
    chosen = order_name(shuffle=shuffle, order=order, seekable=records.layout.seekable)
    sequence = EpochSequence.of(records, order=chosen, seed=expect_whole("seed", seed, least=0))
    epoch, consumed = (0, 0) if start is None else sequence.parse(start)
    steps = _steps(len(records) - consumed, global_batch, drop_remainder=drop_remainder)
    if step >= steps:
        epoch, consumed, step = epoch + 1, 0, step - steps
        steps = _steps(len(records), global_batch, drop_remainder=drop_remainder)
        if step and not steps:
            raise ConfigError(
                f"step: an epoch of {len(records)} records has no batch of {global_batch}"
            )
        epoch, step = epoch + step // max(steps, 1), step % max(steps, 1)
    return sequence.state(epoch, consumed + step * global_batch)


def _steps(records: int, batch: int, *, drop_remainder: bool) -> int:
    return records // batch if drop_remainder else -(-records // batch)
