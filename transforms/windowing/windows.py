"""Cutting of time series into windows: ordering, duplicates, resampling, gaps.

Rows come in cells, in the order of time. The rows of earlier cells that later windows need are
carried over, so the boundaries of cells do not affect the windows, and memory holds no more than a
cell and one window of each series.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, Reject
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.durations import shown_time
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.model.window_options import LabelRule, WindowOptions
from recordmill.transforms.windowing.series_report import SeriesRuns
from recordmill.transforms.windowing.series_steps import STEP
from recordmill.transforms.windowing.time_survey import SERIES, TIME, Ints
from recordmill.transforms.windowing.window_layout import OF_SERIES, START

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
    cuts: (split, time at which it begins), in ascending order; empty if splits are not by time.
    """

    step: int | None = None
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    cuts: tuple[tuple[str, int], ...] = ()

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
            f" {shown_time(rows[TIME][row].as_py())} in {keys[of].as_py()}",
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowedRows:
    """Windows, and `used`: number of input rows that are in them and in no earlier window."""

    windows: pa.RecordBatch
    used: int = 0


class WindowCutter:
    """Cuts windows from the cells of a bucket, which must come in the order of time.

    schema: schema of the windows. `runs` of each series are known once all cells are cut.
    """

    def __init__(self, options: WindowOptions, timeline: Timeline, schema: pa.Schema) -> None:
        self._options = options
        self._timeline = timeline
        self._schema = schema
        self._carried: pa.RecordBatch | None = None
        self.runs: dict[str, SeriesRuns] = {}

    def cut(self, cell: pa.RecordBatch) -> Iterator[WindowedRows]:
        """Yield the windows that end in a cell, whose rows are ordered, distinct and resampled."""
        self._count_rows(cell)
        rows = self._in_splits(cell)
        if not len(rows):
            return
        rows = rows.append_column(_PLACE, pa.array(np.full(len(rows), -1)))
        rows = rows.append_column(_BEGIN, rows[TIME])
        rows = self._filled(self._with_carried(rows))
        places, lasts, begins = self._places(rows)
        self._carry(batch.set_column(rows, _BEGIN, pa.array(begins)), places, lasts)
        reach, stride = self._options.reach, self._options.stride
        ends = np.arange(len(rows)) + reach - 1
        is_new = np.asarray(rows[_PLACE])[np.minimum(ends, len(rows) - 1)] < 0
        starts = np.flatnonzero((places % stride == 0) & (ends <= lasts) & is_new)
        for some in np.array_split(starts, max(-(-len(starts) // self._at_once(rows)), 1)):
            if len(some):
                yield self._emit(rows, places, some)

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

    def _in_splits(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Assign splits by time, if options say so, and drop rows within `purge` after a cut."""
        if not self._timeline.cuts:
            return rows
        times = _times(rows)
        begins = np.array([begin for _, begin in self._timeline.cuts])
        at = np.searchsorted(begins, times, side="right") - 1
        names = pa.array([name for name, _ in self._timeline.cuts], pa.string())
        rows = batch.set_column(rows, batch.SPLIT, names.take(pa.array(at)))
        # In floats, because the first split begins at the smallest int64.
        late = times - begins[at].astype(np.float64) >= self._options.purge
        return rows.filter(pa.array(late | (at == 0)))

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
        each: int = max(rows.nbytes // len(rows), 1) * self._options.window
        return max(min(limits.WINDOW_BYTES // each, limits.BATCH_ROWS), 1)

    def _emit(self, rows: pa.RecordBatch, places: Ints, starts: Ints) -> WindowedRows:
        window = self._options.window
        inside = (starts[:, None] + np.arange(window)).ravel()
        at = pa.array(starts)
        series, begins = rows[SERIES].take(at), rows[TIME].take(at)
        columns = {
            batch.KEY: _keys(series, begins),
            batch.LABEL: _labels(rows[batch.LABEL], starts, window, self._options.label),
            batch.GROUP: self._groups(rows, at),
            batch.SPLIT: rows[batch.SPLIT].take(at),
            OF_SERIES: series,
            START: begins.cast(pa.timestamp("us")),
        }
        taken = pa.array(inside)
        for field in list(self._schema)[len(columns) :]:
            kind = field.type.value_type
            name = TIME if field.name == self._options.time_feature else field.name
            values = rows[name].take(taken).cast(kind)
            if values.null_count:
                values = values.fill_null(_missing_value(kind))
            columns[field.name] = pa.FixedSizeListArray.from_arrays(values, window)
        arrays = [columns[name] for name in self._schema.names]
        return WindowedRows(
            windows=pa.RecordBatch.from_arrays(arrays, schema=self._schema),
            used=self._used(rows, places, starts),
        )

    def _groups(self, rows: pa.RecordBatch, at: pa.Array) -> pa.Array:
        """Return the groups of windows: of the row, or its series; null if the split is set."""
        named = pc.coalesce(rows[batch.GROUP].take(at), rows[SERIES].take(at))
        return pc.if_else(rows[batch.SPLIT].take(at).is_null(), named, None)

    def _used(self, rows: pa.RecordBatch, places: Ints, starts: Ints) -> int:
        """Return the number of input rows that are in these windows and in no earlier window."""
        window, stride = self._options.window, self._options.stride
        before = np.where(places[starts] > 0, max(window - stride, 0), 0)
        sums = np.append(0, np.cumsum(np.asarray(rows[INPUTS])))
        return int((sums[starts + window] - sums[starts + before]).sum())


def _keys(series: pa.Array, begins: pa.Array) -> pa.Array:
    """Return keys of the form SERIES@START, with a fraction of a second only if it is not 0."""
    times = begins.cast(pa.timestamp("us"))
    texts = pc.strftime(times, format="%Y-%m-%dT%H:%M:%S")
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.binary_join_element_wise(series, texts, "@")


def _labels(labels: pa.Array, starts: Ints, window: int, rule: LabelRule) -> pa.Array:
    """Return the label of each window by the rule; null if the deciding rows have none."""
    last = labels.take(pa.array(starts + window - 1 + rule.rows))
    if rule.kind in ("last", "ahead"):
        return last
    codes, names = batch.encode(labels)
    inside = codes[starts[:, None] + np.arange(window)]
    texts: Sequence[str] = names.to_pylist()
    if rule.kind == "any":
        code = texts.index(rule.name) if rule.name in texts else -2
        return pc.if_else(pa.array((inside == code).any(axis=1)), rule.name, last)
    most = np.zeros(len(starts), np.int64)
    found = np.full(len(starts), -1)
    for code in sorted(range(len(texts)), key=texts.__getitem__):
        counts = (inside == code).sum(axis=1)
        found = np.where(counts > most, code, found)
        most = np.maximum(counts, most)
    return names.take(pa.array(found, mask=found < 0))


def _missing_value(kind: pa.DataType) -> object:
    """Return the value that stands for a missing one in windows: NaN or empty."""
    if pa.types.is_floating(kind):
        return float("nan")
    return b"" if pa.types.is_binary(kind) else ""


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
