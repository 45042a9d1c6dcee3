"""The sequence of records that all hosts of a training run read, epoch by epoch.

A position of an epoch has a source (a dataset), one of its epochs, and a position in that. The
state of a run is the number of positions that all hosts have consumed, and all that determines the
sequence: digest, split, order, seed and filter of each source, and the shares of a mixture. Any
number of hosts and workers can continue from it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np

from recordmill.errors import ConfigError
from recordmill.option_checks import expect_some_of, expect_whole, is_number
from recordmill.reading.epoch_order import (
    EpochOrder,
    Numbers,
    OrderLayout,
    OrderName,
    epoch_order,
    order_name,
)
from recordmill.reading.kept_records import KeptOrder, KeptRecords, kept_records
from recordmill.reading.mixture_schedule import MixtureSchedule, shares
from recordmill.reading.reader import Folder, Records
from recordmill.storage.files import Location

State = dict[str, Any]
Until = Literal["first_exhausted", "all_exhausted"]
Datasets = Folder | Mapping[Folder, float] | Sequence[Folder]

MOST_EPOCHS = 1 << 31
ENDLESS_EPOCHS = 1 << 24  # at most, of a source in an epoch of an endless mixture
_SHAPE_ORDER = ("digest", "split", "order", "seed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequencePlaces:
    """Places of records: for each position its source, the epoch of that, and a position in it.

    All are int64[n]. With a filter, `positions` are ranks among the kept records.
    """

    sources: Numbers
    epochs: Numbers
    positions: Numbers


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochSequence:
    """The epochs of a split in one order.

    split: None for all splits.
    digest: that of the dataset.
    kept: the records that a filter keeps; None without a filter. Then positions are ranks among the
      kept records, except in states, which count positions before the filter.
    """

    layout: OrderLayout = dataclasses.field(repr=False)
    split: str | None
    order: OrderName
    seed: int
    digest: str
    kept: KeptRecords | None = None
    _orders: dict[int, EpochOrder] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, records: Records, *, order: OrderName, seed: int, kept: KeptRecords | None = None
    ) -> Self:
        """Return the sequence of opened records."""
        return cls(
            layout=records.layout,
            split=records.split,
            order=order,
            seed=seed,
            digest=records.manifest.digest,
            kept=kept,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_orders": {}}

    @property
    def sources(self) -> tuple[EpochSequence, ...]:
        """The datasets of the sequence."""
        return (self,)

    @property
    def records(self) -> int:
        """Number of records in an epoch; with a filter, of kept ones."""
        return self.layout.records if self.kept is None else self.kept.count

    def epoch_order(self, epoch: int) -> EpochOrder:
        """Return the order of an epoch, of kept records only. Those of two epochs are cached."""
        order = self._orders.get(epoch)
        if order is None:
            for old in [*self._orders][:-1]:
                self._orders.pop(old, None)
            order = self.unfiltered_order(epoch)
            order = order if self.kept is None else KeptOrder(order, self.kept)
            self._orders[epoch] = order
        return order

    def unfiltered_order(self, epoch: int) -> EpochOrder:
        """Return the order of all records in an epoch."""
        return epoch_order(self.order, self.layout, seed=self.seed, epoch=epoch)

    def locate(self, epoch: int, positions: Numbers) -> SequencePlaces:
        """Return the places of the records at positions of an epoch."""
        return SequencePlaces(
            sources=np.zeros(len(positions), np.int64),
            epochs=np.full(len(positions), epoch),
            positions=positions,
        )

    def state(self, epoch: int, consumed: int) -> State:
        """Return the state after so many records of an epoch."""
        if self.kept is not None:
            order = self.epoch_order(epoch)
            assert isinstance(order, KeptOrder)
            consumed = order.position(consumed)
        return {
            "epoch": epoch,
            "records": min(consumed, self.layout.records),
            **{name: getattr(self, name) for name in _SHAPE_ORDER},
            "filter": None
            if self.kept is None
            else {"text": self.kept.text, "digest": self.kept.digest},
        }

    def parse(self, state: Any) -> tuple[int, int]:
        """Return the epoch of a state, and the number of its records that are consumed.

        Raises:
          ConfigError: it is not a state, or it belongs to another sequence.
        """
        _expect_names(state, {"epoch", "records", *_SHAPE_ORDER, "filter"})
        self.check(state, "start")
        epoch = expect_whole("start['epoch']", state["epoch"], least=0, below=MOST_EPOCHS)
        records = self.layout.records
        consumed = expect_whole("start['records']", state["records"], least=0, below=records + 1)
        if self.kept is not None:
            order = self.epoch_order(epoch)
            assert isinstance(order, KeptOrder)
            consumed = order.rank(consumed)
        return epoch, consumed

    def check(self, state: Mapping[str, Any], name: str) -> None:
        """Check that a state belongs to this sequence.

        name: of the state, for the message.

        Raises:
          ConfigError: it belongs to another.
        """
        for key in _SHAPE_ORDER:
            _expect_equal(name, key, state.get(key), getattr(self, key))
        then = state.get("filter")
        if then is not None and not isinstance(then, Mapping):
            raise ConfigError(f"{name}['filter']: expected a filter of a state, got {then!r}")
        here = None if self.kept is None else self.kept.digest
        if (None if then is None else then.get("digest")) != here:
            texts = (
                None if then is None else then.get("text"),
                None if self.kept is None else self.kept.text,
            )
            if texts[0] == texts[1]:
                raise ConfigError(
                    f"{name}: the state was made with a filter {texts[0]} that keeps other records:"
                    " a run can only be continued in its own order"
                )
            _expect_equal(name, "filter", *texts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixtureSequence:
    """The sequence of several datasets, mixed by their shares.

    Each source goes through its own epochs, in its own order. until: the end of an epoch of the
    mixture; None for none.
    """

    sources: tuple[EpochSequence, ...]
    schedule: MixtureSchedule
    until: Until | None

    @functools.cached_property
    def records(self) -> int | None:
        """Number of records in an epoch; None without end."""
        if self.until is None:
            return None
        return self.schedule.length([one.records for one in self.sources], until=self.until)

    @functools.cached_property
    def source_epochs(self) -> Numbers:
        """Epochs of each source that begin in an epoch of the mixture: int64[sources]."""
        if self.records is None:
            return np.full(len(self.sources), ENDLESS_EPOCHS)
        return -(-self.schedule.counts(self.records) // self._sizes)

    @functools.cached_property
    def _sizes(self) -> Numbers:
        return np.array([one.records for one in self.sources])

    def locate(self, epoch: int, positions: Numbers) -> SequencePlaces:
        """Return the places of the records at positions of an epoch."""
        sources, indices = self.schedule.locate(positions)
        epochs, places = np.divmod(indices, self._sizes[sources])
        epochs += epoch * self.source_epochs[sources]
        return SequencePlaces(sources=sources, epochs=epochs, positions=places)

    def source_place(self, number: int, epoch: int, consumed: int) -> tuple[int, int]:
        """Return the epoch of a source, and its rank in that, after so many records of an epoch."""
        epochs, rank = divmod(int(self.schedule.counts(consumed)[number]), int(self._sizes[number]))
        return epoch * int(self.source_epochs[number]) + epochs, rank

    def state(self, epoch: int, consumed: int) -> State:
        """Return the state after so many records of an epoch."""
        consumed = consumed if self.records is None else min(consumed, self.records)
        places = [self.source_place(one, epoch, consumed) for one in range(len(self.sources))]
        return {
            "epoch": epoch,
            "records": consumed,
            "until": self.until,
            "sources": [
                {**source.state(*place), "share": part / 1_000_000}
                for source, part, place in zip(
                    self.sources, self.schedule.parts, places, strict=True
                )
            ],
        }

    def parse(self, state: Any) -> tuple[int, int]:
        """Return the epoch of a state, and the number of its records that are consumed.

        Raises:
          ConfigError: it is not a state, or it belongs to another sequence.
        """
        _expect_names(state, {"epoch", "records", "until", "sources"})
        sources = state["sources"]
        if not isinstance(sources, Sequence) or len(sources) != len(self.sources):
            raise ConfigError(
                f"start['sources']: expected {len(self.sources)} sources, as the mixture has,"
                f" got {sources!r}"
            )
        for number, (source, then) in enumerate(zip(self.sources, sources, strict=True)):
            name = f"start['sources'][{number}]"
            if not isinstance(then, Mapping):
                raise ConfigError(f"{name}: expected the state of a source, got {then!r}")
            source.check(then, name)
            share = self.schedule.parts[number] / 1_000_000
            _expect_equal(name, "share", then.get("share"), share)
        _expect_equal("start", "until", state["until"], self.until)
        epoch = expect_whole("start['epoch']", state["epoch"], least=0, below=MOST_EPOCHS)
        below = 1 << 62 if self.records is None else self.records + 1
        consumed = expect_whole("start['records']", state["records"], least=0, below=below)
        for number, here in enumerate(self.state(epoch, consumed)["sources"]):
            for key in ("epoch", "records"):
                if sources[number].get(key) != here[key]:
                    raise ConfigError(
                        f"start['sources'][{number}]: after {consumed} records of the mixture,"
                        f" expected {key} {here[key]}, got {sources[number].get(key)!r}: pass the"
                        " state as it was returned"
                    )
        return epoch, consumed


AnySequence = EpochSequence | MixtureSequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenedSequence:
    """A sequence, and the opened records of its sources."""

    records: tuple[Records, ...]
    sequence: AnySequence


def open_sequence(
    dataset: Datasets,
    split: str | None,
    *,
    shuffle: bool,
    order: str | None,
    seed: int,
    filter: Any,  # noqa: A002, as the option is named
    temperature: float | None,
    until: str | None,
    features: Collection[str] | None = None,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> OpenedSequence:
    """Open one dataset, or several as a mixture. The options are those of `torch_dataset`.

    Raises:
      ManifestError: a folder is not a dataset.
      ValueError: the split or a feature does not exist.
      ConfigError: an option is invalid.
    """
    seed = expect_whole("seed", seed, least=0, below=2**63)
    weights = parse_datasets(dataset, temperature=temperature, until=until)
    records = tuple(
        Records(
            folder,
            split,
            features=features,
            max_record_bytes=max_record_bytes,
            cache=cache,
            cache_size=cache_size,
        )
        for folder in weights
    )
    sources = tuple(
        EpochSequence.of(
            one,
            order=order_name(shuffle=shuffle, order=order, seekable=one.layout.seekable),
            seed=seed,
            kept=None if filter is None else kept_records(one, filter),
        )
        for one in records
    )
    if not is_mixture(dataset):
        return OpenedSequence(records=records, sequence=sources[0])
    sequence = mixture(sources, weights, temperature=temperature, until=until)
    return OpenedSequence(records=records, sequence=sequence)


def is_mixture(dataset: Any) -> bool:
    """Return whether an option names several datasets, or one with a weight."""
    return not isinstance(dataset, str | os.PathLike | Location)


def parse_datasets(
    dataset: Any, *, temperature: float | None, until: str | None
) -> dict[Folder, float | None]:
    """Return {folder: weight}; the weight is None if it depends on the size of the dataset.

    Raises:
      ConfigError: it is not a dataset or a mixture, or options contradict each other.
    """
    if not is_mixture(dataset):
        for name, value in {"temperature": temperature, "until": until}.items():
            if value is not None:
                raise ConfigError(f"{name} applies to a mixture, such as {{'out': 3, 'other': 1}}")
        return {dataset: None}
    if until is not None:
        expect_some_of("until", [until], get_args(Until))
    if temperature is not None and not (is_number(temperature) and temperature > 0):
        raise ConfigError(f"temperature: expected a number above 0, got {temperature!r}")
    if isinstance(dataset, Mapping):
        if temperature is not None:
            raise ConfigError(
                "temperature computes the weights from the numbers of records: give the datasets"
                " as a list, without weights"
            )
        weights = dict(dataset)
        if weights and all(
            is_number(weight) and 0 < weight < float("inf") for weight in weights.values()
        ):
            return weights
        raise ConfigError(
            "expected a weight above 0 for each dataset, such as {'out/': 3, 'other/': 1}, got"
            f" {dataset!r}"
        )
    if isinstance(dataset, Sequence) and dataset and not any(map(is_mixture, dataset)):
        if len(set(dataset)) < len(dataset):
            raise ConfigError(f"expected each dataset once in a mixture, got {dataset!r}")
        return dict.fromkeys(dataset)
    raise ConfigError(
        "expected the folder of a dataset, or several with their weights, such as"
        f" {{'out/': 3, 'other/': 1}}; got {dataset!r}"
    )


def mixture(
    sources: Sequence[EpochSequence],
    weights: Mapping[Folder, float | None],
    *,
    temperature: float | None,
    until: str | None,
) -> MixtureSequence:
    """Return a mixture of sources.

    weights: by the names of the sources. None for those that depend on the numbers of records,
      which are raised to the power 1 / temperature.

    Raises:
      ConfigError: two sources are the same dataset, a source has no records, or a share is less
        than a millionth.
    """
    names: dict[str, Folder] = {}
    for source, folder in zip(sources, weights, strict=True):
        if (other := names.setdefault(source.digest, folder)) is not folder:
            raise ConfigError(
                f"expected each dataset once in a mixture, but {other} and {folder} hold the same"
            )
    power = 1.0 if temperature is None else 1 / temperature
    given = {}
    for source, (name, weight) in zip(sources, weights.items(), strict=True):
        if not source.records:
            raise ConfigError(
                f"{name} has no records"
                f"{'' if source.split is None else f' in {source.split}'}, and a mixture would wait"
                " for them forever: leave it out"
            )
        given[name] = float(source.records) ** power if weight is None else weight
    return MixtureSequence(
        sources=tuple(sources),
        schedule=MixtureSchedule(shares(given)),
        until=until,  # type: ignore[arg-type]  # parse_datasets has checked it
    )


def _expect_names(state: Any, names: set[str]) -> None:
    if not isinstance(state, Mapping) or {*state} != names:
        raise ConfigError(
            f"start: expected a state with {', '.join(sorted(names))}, as recordmill.position"
            f" and state_dict return it; got {state!r}"
        )


def _expect_equal(name: str, key: str, then: Any, here: Any) -> None:
    if then != here:
        raise ConfigError(
            f"{name}: the state was made with {key} {then!r}, but here it is {here!r}: a run can"
            " only be continued in its own order"
        )
