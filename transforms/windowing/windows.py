"""Cutting of time series into windows: ordering, duplicates, resampling, gaps.

Rows come in cells, in the order of time. The rows of earlier cells that later windows need are
carried over, so the boundaries of cells do not affect the windows, and memory holds no more than a
cell and one window of each series.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, Reject
from recordmill.options.durations import clock_hint, shown_time
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.model.window_options import EVERY_SPLIT, WindowOptions
from recordmill.transforms.windowing.last_windows import LastWindows, WindowedRows
from recordmill.transforms.windowing.series_report import SeriesRuns
from recordmill.transforms.windowing.series_scales import SeriesScales
from recordmill.transforms.windowing.series_steps import STEP
from recordmill.transforms.windowing.time_splits import TimeSplits
from recordmill.transforms.windowing.time_survey import SERIES, TIME, Ints
from recordmill.transforms.windowing.window_columns import WindowColumns

INPUTS = "__inputs__"  # int64: number of input rows that a row is made of
_GROUP = "__step__"  # int64: number of the (series, step) of a row, for resampling
_PLACE = "__place__"  # int64: index in its run of a row carried over; -1 for other rows
_BEGIN = "__begin__"  # int64: time at which the run of a row begins, if it is known

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timeline:
    """The time steps of series, and the splits in time.

    step: microseconds between rows of the series that `steps` does not name; None if unknown.
    steps: {series: microseconds between its rows}. Rows with a column `STEP` have their step there.
    splits: the splits in time; empty if splits are not by time.
    sampled: largest rank of the times at which rows are compared; 0 if none are.
    """

    step: int | None = None
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    splits: TimeSplits = TimeSplits()  # noqa: RUF009, it is frozen
    sampled: int = 0

    def steps_of(self, rows: pa.RecordBatch) -> Ints:
        """Return the step of the series of each row, 0 if unknown: int64[n]."""
        if STEP in rows.schema.names:
            return np.asarray(rows[STEP])
        codes, names = batch.encode(rows[SERIES])
        steps = [self.steps.get(name, self.step or 0) for name in names.to_pylist()]
        return np.array(steps, np.int64)[codes]

    def max_gaps(self, rows: pa.RecordBatch, options: WindowOptions) -> Ints:
        """Return the largest distance to the next row without a gap, of each row: int64[n]."""
        if options.max_gap is not None:
            return np.full(len(rows), options.max_gap)
        return self.steps_of(rows) * 3 // 2


def ordered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Sort rows by series, time, length of the key, and key, so that row 9 comes before row 10."""
    keys = rows[batch.KEY]
    columns = {SERIES: rows[SERIES], TIME: rows[TIME], "size": pc.utf8_length(keys), "key": keys}
    by = [(name, "ascending") for name in columns]
    return rows.take(pc.sort_indices(pa.table(columns), sort_keys=by))


def without_repeats(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
    """Return ordered rows with one row per series and time, and the rejects.

    Later rows of the same series and time are dropped if they have the same values, and rejected
    otherwise.
    """
    is_first = _is_first(rows)
    late = np.flatnonzero(~is_first)
    if not len(late):
        return rows, []
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(rows)), 0))[late]
    differs = np.zeros(len(late), np.bool_)
    for name in rows.schema.names:
        if name not in (batch.KEY, SERIES, TIME):
            one, other = rows[name].take(pa.array(late)), rows[name].take(pa.array(first))
            same = pc.equal(one, other).fill_null(False)
            same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
            differs |= ~np.asarray(same)
    keys = rows[batch.KEY]
    rejects = [
        Reject(
            keys[row].as_py(),
            "check",
            Reason.BAD_VALUE,
            f"series {rows[SERIES][row].as_py()!r} has different values at"
            f" {shown_time(rows[TIME][row].as_py())} in {keys[of].as_py()}"
            f"{clock_hint(rows[TIME][row].as_py())}",
        )
        for row, of in zip(late[differs].tolist(), first[differs].tolist(), strict=True)
    ]
    return rows.filter(pa.array(is_first)), rejects


def resampled(rows: pa.RecordBatch, options: WindowOptions) -> pa.RecordBatch:
    """Resample ordered rows to multiples of the step.

    The column `__inputs__` counts the rows that each row is made of.
    """
    rows = rows.append_column(INPUTS, pa.array(np.ones(len(rows), np.int64)))
    if options.step is None:
        return rows
    rows = batch.set_column(rows, TIME, pa.array(on_grid(rows, options)))
    how = {INPUTS: "sum", batch.KEY: "first"}
    for field in user_fields(rows.schema):
        if field.name in options.static_columns:
            continue
        numeric = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        how[field.name] = options.resample if numeric else "last"
    others = rows.schema.names
    rows = rows.append_column(_GROUP, pa.array(np.cumsum(_is_first(rows))))
    # The order of the groups is undefined, but rows keep their order inside a group.
    grouped = (
        pa.Table.from_batches([rows])
        .group_by(_GROUP, use_threads=False)
        .aggregate([(name, how.get(name, "last")) for name in others])
        .sort_by(_GROUP)
    )
    columns = {name: grouped[f"{name}_{how.get(name, 'last')}"] for name in others}
    found = pa.table(columns).combine_chunks().to_batches()
    return found[0] if found else rows.select(others)


def on_grid(rows: pa.RecordBatch, options: WindowOptions) -> Ints:
    """Return the times of rows, rounded down to multiples of their steps if they are resampled."""
    times = _times(rows)
    match options.step:
        case None:
            return times
        case int(step):
            return times // step * step
    steps: Ints = np.asarray(rows[STEP])
    return times // steps * steps


def _is_first(rows: pa.RecordBatch) -> Mask:
    """Return bool[n], true for the first of ordered rows of a series and time."""
    return np.append(True, ~_same_series(rows) | (np.diff(_times(rows)) != 0))[: len(rows)]


def gaps(rows: pa.RecordBatch, max_gaps: Ints) -> Mask:
    """Return bool[n - 1], true if there is a gap in a series between a row and the next."""
    return _same_series(rows) & (np.diff(_times(rows)) > max_gaps[:-1])


class WindowCutter:
    """Cuts windows from the cells of a bucket, which must come in the order of time.

    schema: schema of the windows. scales: means and scales of series, by their rows in train.
    `runs` of each series are known once all cells are cut, and `cut_off`, the number of windows
    without the rows for their target.
    """

    def __init__(
        self,
        options: WindowOptions,
        timeline: Timeline,
        schema: pa.Schema,
        scales: SeriesScales = SeriesScales(),  # noqa: B008, it is frozen
    ) -> None:
        self._options = options
        self._timeline = timeline
        self._columns = WindowColumns(options, schema, scales)
        self._carried: pa.RecordBatch | None = None
        self._last = LastWindows()
        self.runs: dict[str, SeriesRuns] = {}
        self.cut_off = 0

    def cut(self, cell: pa.RecordBatch) -> Iterator[WindowedRows]:
        """Yield the windows that end in a cell, whose rows are ordered, distinct and resampled."""
        self._count_rows(cell)
        rows = self._timeline.splits.apply(cell, purge=self._options.purge)
        if not len(rows):
            return
        rows = rows.append_column(_PLACE, pa.array(np.full(len(rows), -1)))
        rows = rows.append_column(_BEGIN, rows[TIME])
        rows = self._filled(self._with_carried(rows))
        places, lasts, begins = self._places(rows)
        self._carry(batch.set_column(rows, _BEGIN, pa.array(begins)), places, lasts)
        options = self._options
        is_start = places % options.stride == 0
        if options.last_window:
            of_last = self._has_last_only(rows)
            ends = self._ends_here(rows, lasts, options.reach)
            self._keep_last(rows, np.flatnonzero(ends & of_last))
            is_start &= ~of_last
        starts = np.flatnonzero(is_start & self._ends_here(rows, lasts, options.reach))
        if options.horizon:
            without = is_start & self._ends_here(rows, lasts, options.window)
            self.cut_off += int(without.sum()) - len(starts)
        for some in np.array_split(starts, max(-(-len(starts) // self._at_once(rows)), 1)):
            if len(some):
                windows = self._columns.take(rows, some)
                yield WindowedRows(windows=windows, used=self._used(rows, places, some))

    def finish(self) -> Iterator[WindowedRows]:
        """Yield the last windows of series, once all cells are cut."""
        yield from self._last.all()

    def _ends_here(self, rows: pa.RecordBatch, lasts: Ints, size: int) -> Mask:
        """Return whether `size` rows from each row on are in its run, and not all of them carried.

        lasts: row that ends the run of each row.
        """
        ends = np.arange(len(rows)) + size - 1
        is_new = np.asarray(rows[_PLACE])[np.minimum(ends, len(rows) - 1)] < 0
        found: Mask = (ends <= lasts) & is_new
        return found

    def _has_last_only(self, rows: pa.RecordBatch) -> Mask:
        """Return whether each row is in a split in which a series has only its last window."""
        names = self._options.last_window
        if EVERY_SPLIT in names:
            return np.ones(len(rows), np.bool_)
        found: Mask = np.asarray(pc.is_in(rows[batch.SPLIT], pa.array(names, pa.string())))
        return found

    def _keep_last(self, rows: pa.RecordBatch, starts: Ints) -> None:
        """Keep the last of these windows of each series and split."""
        if not len(starts):
            return
        some = rows.take(pa.array(starts))
        changes = ~(_same_series(some) & _same_split(some))
        starts = starts[np.append(changes, True)]
        sums = np.append(0, np.cumsum(np.asarray(rows[INPUTS])))
        used = sums[starts + self._options.extent] - sums[starts]
        self._last.add(self._columns.take(rows, starts), used)

    def _count_rows(self, cell: pa.RecordBatch) -> None:
        codes, names = batch.encode(cell[SERIES])
        counts = np.bincount(codes, minlength=len(names)).tolist()
        for name, count in zip(names.to_pylist(), counts, strict=True):
            self.runs[name] = self.runs.get(name, SeriesRuns()) + SeriesRuns(rows=count)

    def _count_runs(self, rows: pa.RecordBatch, sizes: Ints, spans: Ints) -> None:
        """Count the rows and the time of runs up to each row."""
        firsts = np.flatnonzero(np.append(True, ~_same_series(rows)))
        longest = np.maximum.reduceat(sizes, firsts).tolist()
        most = np.maximum.reduceat(spans, firsts).tolist()
        names = rows[SERIES].take(pa.array(firsts)).to_pylist()
        for name, size, span in zip(names, longest, most, strict=True):
            self.runs[name] += SeriesRuns(longest=size, span=span)

    def _with_carried(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._carried is None:
            return rows
        mine = pc.is_in(self._carried[SERIES], value_set=rows[SERIES].unique())
        joined = batch.concat([self._carried.filter(mine), rows])
        others = self._carried.filter(pc.invert(mine))
        # Drop series whose last row is too long ago for any later row to continue them.
        codes, names = batch.encode(others[SERIES])
        until = np.full(len(names), -np.inf)
        np.maximum.at(until, codes, _times(others) + self._longest_gaps(others))
        self._carried = others.filter(pa.array(until[codes] + 1 >= _times(rows).min()))
        return joined.sort_by([(SERIES, "ascending"), (TIME, "ascending")])

    def _longest_gaps(self, rows: pa.RecordBatch) -> Floats:
        """Return the largest distance to the next row that is not a gap, for each row, to 1 us.

        Floats, because a multiple of a step may exceed int64.
        """
        longest: Floats = self._timeline.max_gaps(rows, self._options).astype(np.float64)
        if self._options.gap_policy != "fill":
            return longest
        filled = self._timeline.steps_of(rows).astype(np.float64) * (self._fill_rows + 1.5)
        return np.maximum(longest, filled)

    @property
    def _fill_rows(self) -> int:
        options = self._options
        return options.window if options.fill_rows is None else options.fill_rows

    def _filled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Insert the missing rows of gaps that are short enough to be filled."""
        options = self._options
        if options.gap_policy != "fill":
            return rows
        apart = np.diff(_times(rows))
        steps = np.maximum(self._timeline.steps_of(rows), 1)  # 0 only where no gap is
        is_gap = gaps(rows, self._timeline.max_gaps(rows, options))
        missing = np.where(is_gap, (apart + steps[:-1] // 2) // steps[:-1] - 1, 0)
        missing[(missing > self._fill_rows) | ~_same_split(rows)] = 0
        repeats = np.append(missing, 0) + 1
        of = np.repeat(np.arange(len(rows)), repeats)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        made = pa.array(nth > 0)
        filled = rows.take(pa.array(of))
        filled = batch.set_column(filled, TIME, pa.array(_times(filled) + nth * steps[of]))
        filled = batch.set_column(filled, _PLACE, pc.if_else(made, -1, filled[_PLACE]))
        filled = batch.set_column(filled, INPUTS, pc.if_else(made, 0, filled[INPUTS]))
        if options.fill == "missing":
            for field in user_fields(rows.schema):
                if field.name in options.static_columns:
                    continue
                filled = batch.set_column(
                    filled, field.name, pc.if_else(made, None, filled[field.name])
                )
        return filled

    def _places(self, rows: pa.RecordBatch) -> tuple[Ints, Ints, Ints]:
        """Return of each row: index in its gapless run, row that ends the run, time it begins."""
        times = _times(rows)
        follows = _same_series(rows) & _same_split(rows)
        reaches = self._timeline.max_gaps(rows, self._options)
        if self._options.gap_policy == "fill":
            # The last filled row may be up to half a step too far from the next row.
            reaches = np.maximum(reaches, self._timeline.steps_of(rows) * 3 // 2)
        follows &= np.diff(times) <= reaches[:-1]
        firsts = np.flatnonzero(np.append(True, ~follows))
        sizes = np.diff(np.append(firsts, len(rows)))
        carried = np.maximum(np.asarray(rows[_PLACE])[firsts], 0)
        places = np.arange(len(rows)) - np.repeat(firsts - carried, sizes)
        begins = np.repeat(np.asarray(rows[_BEGIN])[firsts], sizes)
        self._count_runs(rows, places + 1, times - begins)
        return places, np.repeat(firsts + sizes - 1, sizes), begins

    def _carry(self, rows: pa.RecordBatch, places: Ints, lasts: Ints) -> None:
        """Keep the rows that later windows may need: the end of the last run of each series."""
        count = max(self._options.reach - 1, 1)
        is_last = ~np.append(_same_series(rows), False)  # row of its series
        ends_series = is_last[lasts]
        kept = ends_series & (np.arange(len(rows)) > lasts - count)
        mine = batch.set_column(rows, _PLACE, pa.array(places)).filter(pa.array(kept))
        self._carried = mine if self._carried is None else batch.concat([self._carried, mine])

    def _at_once(self, rows: pa.RecordBatch) -> int:
        each: int = max(rows.nbytes // len(rows), 1) * self._options.extent
        return max(min(limits.WINDOW_BYTES // each, limits.PART_ROWS), 1)

    def _used(self, rows: pa.RecordBatch, places: Ints, starts: Ints) -> int:
        """Return the number of input rows that are in these records and in no earlier one."""
        extent, stride = self._options.extent, self._options.stride
        before = np.where(places[starts] > 0, max(extent - stride, 0), 0)
        sums = np.append(0, np.cumsum(np.asarray(rows[INPUTS])))
        return int((sums[starts + extent] - sums[starts + before]).sum())


def _times(rows: pa.RecordBatch) -> Ints:
    return np.asarray(rows[TIME])


def _same_series(rows: pa.RecordBatch) -> Mask:
    """Return bool[n - 1], true if a row and the next are of the same series."""
    codes, _ = batch.encode(rows[SERIES])
    same: Mask = np.diff(codes) == 0
    return same


def _same_split(rows: pa.RecordBatch) -> Mask:
    codes, _ = batch.encode(rows[batch.SPLIT])
    same: Mask = np.diff(codes) == 0
    return same
