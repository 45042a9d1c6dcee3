"""Filters of records by the columns of their index, and the order of the records that they keep.

A filter is resolved in the index, so no record is decoded. Kept records have ranks in an epoch.
States count positions before the filter: the record at one is the same with and without it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.format.shard_index import schema
from recordmill.reading.epoch_order import EpochOrder, Numbers
from recordmill.reading.reader import Records

_ROW = "recordmill row"  # name of a column with the numbers of records


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeptRecords:
    """The records that a filter keeps.

    text: the filter, as pyarrow writes it.
    bits: uint8[records / 8], a bit for each record.
    count: number of records that are kept.
    """

    text: str
    bits: npt.NDArray[np.uint8]
    count: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text}, {self.digest})"

    @functools.cached_property
    def digest(self) -> str:
        """A digest of the choice, which is equal for filters that keep the same records."""
        return hashlib.sha256(self.bits.tobytes()).hexdigest()[:16]

    def are_kept(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Return whether records are kept: bool[n]."""
        found: npt.NDArray[np.bool_] = self.bits[numbers >> 3] >> (numbers & 7) & 1 == 1
        return found


def kept_records(records: Records, condition: Any) -> KeptRecords:
    """Resolve a filter in the indexes of the shards, one at a time.

    condition: an expression of `pyarrow.compute` over columns of the index. Records for which it is
      null are not kept.

    Raises:
      ConfigError: it is not a condition on these columns, or keeps no record.
      IndexDamagedError: an index is damaged.
    """
    if not isinstance(condition, pc.Expression):
        raise ConfigError(
            "filter: expected an expression of pyarrow.compute, such as"
            f" pc.field('label') == 'cat', got {condition!r}"
        )
    known = [name for name in records.index_columns() if name != "offset"]
    columns = _used_columns(condition, known)
    bits = np.zeros(-(-len(records) // 8), np.uint8)
    first = count = 0
    for table in records.index_tables(columns or ["copy"]):
        numbers = pa.array(np.arange(first, first + len(table)))
        chosen = np.asarray(table.append_column(_ROW, numbers).filter(condition)[_ROW])
        np.bitwise_or.at(bits, chosen >> 3, np.uint8(1) << (chosen & 7).astype(np.uint8))
        count += len(chosen)
        first += len(table)
    if not count:
        of = "" if records.split is None else f" of {records.split}"
        raise ConfigError(f"filter: {condition} keeps none of the {len(records)} records{of}")
    return KeptRecords(text=str(condition), bits=bits, count=count)


def _used_columns(condition: pc.Expression, known: list[str]) -> list[str]:
    """Return the columns that a condition refers to.

    Raises:
      ConfigError: it refers to others, or is not a condition.
    """
    fields = [field for field in schema(known) if field.name in known]
    error = _error_with(condition, fields)
    if error is not None:
        raise ConfigError(
            f"filter: expected a condition on columns of the index ({', '.join(known)}), got"
            f" {condition}: {str(error).partition(chr(10))[0]}"
        ) from error
    return [
        one.name
        for one in fields
        if _error_with(condition, [field for field in fields if field != one]) is not None
    ]


def _error_with(condition: pc.Expression, fields: list[pa.Field]) -> Exception | None:
    """Return the error of evaluating a condition on these columns, without rows."""
    try:
        pa.schema([*fields, pa.field(_ROW, pa.int64())]).empty_table().filter(condition)
    except (pa.ArrowException, TypeError) as error:
        return error
    return None


class KeptOrder(EpochOrder):
    """The order of the kept records in an epoch. Their places in it are called ranks.

    Windows are those of the order of all records, and are counted as far as they are needed.
    """

    def __init__(self, order: EpochOrder, kept: KeptRecords) -> None:
        super().__init__(order.layout)
        self._order = order
        self._kept = kept
        self._lock = threading.Lock()
        self._ranks = [0]  # first rank of each window, as far as they are counted
        self._numbers = functools.lru_cache(maxsize=4)(self._kept_numbers)

    @property
    def records(self) -> int:
        """Number of kept records."""
        return self._kept.count

    def windows(self, positions: Numbers) -> Numbers:
        """Return the windows of these ranks."""
        last = int(positions.max(initial=-1))
        if last >= self.records:
            raise IndexError(f"expected ranks below {self.records}, got {last}")
        with self._lock:
            while self._ranks[-1] <= last:
                self._count_window()
        return np.searchsorted(self._ranks, positions, side="right") - 1

    def window_start(self, position: int) -> tuple[int, int]:
        """Return the window of a rank, and the first rank of that."""
        if position >= self.records:
            return -(-self.layout.records // self.layout.window), self.records
        window = int(self.windows(np.array([position]))[0])
        return window, self._ranks[window]

    def window_ranks(self, window: int) -> tuple[int, int]:
        """Return the first rank of a window, and that after its last."""
        with self._lock:
            while len(self._ranks) <= window + 1:
                self._count_window()
        return self._ranks[window], self._ranks[window + 1]

    def record_numbers(self, positions: Numbers) -> Numbers:
        """Return the record numbers at these ranks."""
        found = np.empty(len(positions), np.int64)
        windows = self.windows(positions)
        for window in np.unique(windows).tolist():
            chosen = windows == window
            found[chosen] = self._numbers(window)[positions[chosen] - self._ranks[window]]
        return found

    def record_number(self, position: int) -> int:
        """Return the record number at one rank."""
        window = int(self.windows(np.array([position]))[0])
        return int(self._numbers(window)[position - self._ranks[window]])

    def position(self, rank: int) -> int:
        """Return the number of positions that end with the last of so many kept records."""
        if rank == 0:
            return 0
        if rank >= self.records:
            return self.layout.records
        window = int(self.windows(np.array([rank - 1]))[0])
        places = np.flatnonzero(self._are_kept(window))
        return window * self.layout.window + int(places[rank - 1 - self._ranks[window]]) + 1

    def rank(self, position: int) -> int:
        """Return the number of kept records among so many positions."""
        if position >= self.layout.records:
            return self.records
        window, place = divmod(position, self.layout.window)
        with self._lock:
            while len(self._ranks) <= window:
                self._count_window()
        return self._ranks[window] + int(self._are_kept(window)[:place].sum())

    def _count_window(self) -> None:
        window = len(self._ranks) - 1
        self._ranks.append(self._ranks[-1] + int(self._are_kept(window).sum()))

    def _window_numbers(self, window: int) -> Numbers:
        first = window * self.layout.window
        stop = min(first + self.layout.window, self.layout.records)
        return self._order.record_numbers(np.arange(first, stop))

    def _are_kept(self, window: int) -> npt.NDArray[np.bool_]:
        """Return whether the records at the positions of a window are kept."""
        return self._kept.are_kept(self._window_numbers(window))

    def _kept_numbers(self, window: int) -> Numbers:
        numbers = self._window_numbers(window)
        return numbers[self._kept.are_kept(numbers)]
