"""Windows of series: rows in the order of time, what is twice, gaps, and what is cut of them.

Rows come in cells, one after another in time; what a window needs of earlier ones is carried along.
So it does not matter where cells end, and no more is held than a cell and a window of each series.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Layout
from recordmill.transforms.model.user_columns import flat, is_list, user_fields
from recordmill.transforms.model.window_options import LabelRule, WindowOptions
from recordmill.transforms.windowing.time_spans import SERIES, TIME, Ints

OF_SERIES = "window/series"  # string: the series a window is of
START = "window/start"  # when it begins

_INPUTS = "__inputs__"  # int64: of how many rows of the input a row is made
_GROUP = "__step__"  # int64: rows of one series and step have the same
_PLACE = "__place__"  # int64: a carried row's place in its run; -1 of others
_OURS = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, SERIES, TIME)
_BYTES = 4 << 20  # of windows at a time, about

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clock:
    """What was learned of all times.

    step: microseconds between rows, None where nobody knows. cuts: (split, when it begins),
    ascending; empty where splits do not go by time.
    """

    step: int | None
    cuts: tuple[tuple[str, int], ...] = ()

    def max_gap(self, options: WindowOptions) -> int:
        """How far rows may be apart that follow each other."""
        if options.max_gap is not None:
            return options.max_gap
        return 0 if self.step is None else self.step * 3 // 2


def layout_of(rows: Layout, options: WindowOptions) -> Layout:
    """What windows are like, of rows like these.

    Raises:
      ConfigError: a window cannot have a column.
    """
    fields = [pa.field(name, pa.string()) for name in _OURS[:4]]
    fields += [pa.field(OF_SERIES, pa.string(), False)]
    fields += [pa.field(START, pa.timestamp("us"), False)]
    for field in user_fields(rows.columns):
        if field.name in (OF_SERIES, START):
            raise ConfigError(f"column {field.name!r} has the name of a feature that is made here")
        kind = pa.list_(_value_type(field, options), options.window)
        fields.append(pa.field(field.name, kind, False))
    return Layout(
        columns=pa.schema(fields),
        labelled=rows.labelled,
        grouped=rows.grouped or options.split_by == "series",
        presplit=rows.presplit or options.split_by == "time",
    )


def _value_type(field: pa.Field, options: WindowOptions) -> pa.DataType:
    kind, types = field.type, pa.types
    if is_list(kind):
        raise ConfigError(
            f"column {field.name!r} is of lists, of which no windows are made: leave it out with"
            " --drop-columns"
        )
    missing = field.nullable or (options.gap_policy == "fill" and options.fill == "missing")
    numeric = types.is_integer(kind) or types.is_boolean(kind)
    if types.is_floating(kind) or (numeric and (missing or options.step is not None)):
        return pa.float64()
    if numeric:
        return pa.int64()
    if types.is_temporal(kind) and missing:
        raise ConfigError(
            f"column {field.name!r} is of {kind} and has rows without a value, which a window"
            " cannot have: leave it out with --drop-columns"
        )
    return kind


def fields_of_rows(rows: pa.Schema, options: WindowOptions) -> pa.Schema:
    """The user's columns of rows, as `rows_of` gives them back: of several integers the mean is
    none.
    """
    fields = user_fields(rows)
    if options.step is None:
        return pa.schema(fields)
    numeric = (pa.types.is_integer, pa.types.is_boolean)
    return pa.schema(
        [f.with_type(pa.float64()) if any(is_a(f.type) for is_a in numeric) else f for f in fields]
    )


def rows_of(windows: pa.RecordBatch, rows: pa.Schema) -> pa.RecordBatch:
    """The rows of windows, one after another, each as often as it is in one.

    rows: their columns, of `fields_of_rows`.
    """
    size = windows.schema.field(rows.names[0]).type.list_size
    window = pa.array(np.repeat(np.arange(len(windows)), size))
    columns = {n: windows[n].take(window) for n in (batch.KEY, batch.LABEL, batch.SPLIT)}
    for field in rows:
        columns[field.name] = flat(windows[field.name]).cast(field.type)
    return pa.RecordBatch.from_pydict(columns)


def ordered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """By series, time and key; of numbered rows the ninth comes before the tenth."""
    keys = rows[batch.KEY]
    columns = {SERIES: rows[SERIES], TIME: rows[TIME], "size": pc.utf8_length(keys), "key": keys}
    by = [(name, "ascending") for name in columns]
    return rows.take(pc.sort_indices(pa.table(columns), sort_keys=by))


def without_repeats(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
    """Ordered rows, of each series and time one: the same again is left out, another a reject."""
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
            f"series {rows[SERIES][row].as_py()!r} has other values at"
            f" {shown_time(rows[TIME][row].as_py())} in {keys[of].as_py()}",
        )
        for row, of in zip(late[differs].tolist(), first[differs].tolist(), strict=True)
    ]
    return rows.filter(pa.array(is_first)), rejects


def resampled(rows: pa.RecordBatch, options: WindowOptions) -> pa.RecordBatch:
    """Ordered rows at whole multiples of the step, with the number of rows that each is made of."""
    rows = rows.append_column(_INPUTS, pa.array(np.ones(len(rows), np.int64)))
    if options.step is None:
        return rows
    rows = batch.set_column(rows, TIME, pa.array(_times(rows) // options.step * options.step))
    how = {_INPUTS: "sum", batch.KEY: "first"}
    for field in user_fields(rows.schema):
        numeric = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        how[field.name] = options.resample if numeric else "last"
    others = rows.schema.names
    rows = rows.append_column(_GROUP, pa.array(np.cumsum(_is_first(rows))))
    # Groups come in any order, but the rows of one in theirs.
    grouped = (
        pa.Table.from_batches([rows])
        .group_by(_GROUP, use_threads=False)
        .aggregate([(name, how.get(name, "last")) for name in others])
        .sort_by(_GROUP)
    )
    columns = {name: grouped[f"{name}_{how.get(name, 'last')}"] for name in others}
    found = pa.table(columns).combine_chunks().to_batches()
    return found[0] if found else rows.select(others)


def _is_first(rows: pa.RecordBatch) -> Mask:
    """bool[n]: which ordered rows are the first of their series and time."""
    return np.append(True, ~_same_series(rows) | (np.diff(_times(rows)) != 0))[: len(rows)]


def gaps(rows: pa.RecordBatch, max_gap: int) -> Mask:
    """Of which ordered rows, but for the first, the series has no row right before: bool[n - 1]."""
    return _same_series(rows) & (np.diff(_times(rows)) > max_gap)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowedRows:
    """Windows, and what became of the rows: `used` of the input are in a window that was not there
    before.
    """

    windows: pa.RecordBatch
    used: int = 0


class WindowCutter:
    """Cuts the cells of a bucket, which come in the order of time.

    schema: of the windows.
    """

    def __init__(self, options: WindowOptions, clock: Clock, schema: pa.Schema) -> None:
        self._options = options
        self._clock = clock
        self._max_gap = self._reaches = clock.max_gap(options)
        if options.gap_policy == "fill" and clock.step is not None:
            # The last row that is filled in may stand half a step too far from the next one.
            self._reaches = max(self._max_gap, clock.step * 3 // 2)
        self._schema = schema
        self._carried: pa.RecordBatch | None = None

    def cut(self, cell: pa.RecordBatch) -> Iterator[WindowedRows]:
        """The windows that end in a cell: of rows that are ordered, without repeats, resampled."""
        rows = self._in_splits(cell)
        if not len(rows):
            return
        rows = rows.append_column(_PLACE, pa.array(np.full(len(rows), -1)))
        rows = self._filled(self._with_carried(rows))
        places, lasts = self._places(rows)
        self._carry(rows, places, lasts)
        reach, stride = self._options.reach, self._options.stride
        ends = np.arange(len(rows)) + reach - 1
        is_new = np.asarray(rows[_PLACE])[np.minimum(ends, len(rows) - 1)] < 0
        starts = np.flatnonzero((places % stride == 0) & (ends <= lasts) & is_new)
        for some in np.array_split(starts, max(-(-len(starts) // self._at_once(rows)), 1)):
            if len(some):
                yield self._emit(rows, places, some)

    def _in_splits(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with their split, where that goes by time; without those to be left out after it."""
        if not self._clock.cuts:
            return rows
        times = _times(rows)
        begins = np.array([begin for _, begin in self._clock.cuts])
        at = np.searchsorted(begins, times, side="right") - 1
        names = pa.array([name for name, _ in self._clock.cuts], pa.string())
        rows = batch.set_column(rows, batch.SPLIT, names.take(pa.array(at)))
        # In floats, as the first split begins as early as there are integers.
        late = times - begins[at].astype(np.float64) >= self._options.purge
        return rows.filter(pa.array(late | (at == 0)))

    def _with_carried(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._carried is None:
            return rows
        mine = pc.is_in(self._carried[SERIES], value_set=rows[SERIES].unique())
        joined = batch.concat([self._carried.filter(mine), rows])
        others = self._carried.filter(pc.invert(mine))
        # Whose last row is too long ago has none to come that follows it.
        over = int(_times(rows).min()) - self._longest_gap()
        self._carried = others.filter(pc.greater_equal(others[TIME], over))
        return joined.sort_by([(SERIES, "ascending"), (TIME, "ascending")])

    def _longest_gap(self) -> int:
        options, step = self._options, self._clock.step
        if options.gap_policy != "fill" or step is None:
            return self._max_gap
        return max(self._max_gap, step * (self._fill_rows + 1))

    @property
    def _fill_rows(self) -> int:
        options = self._options
        return options.window if options.fill_rows is None else options.fill_rows

    def _filled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """With a row for each that is missing in a gap that is to be filled."""
        options, step = self._options, self._clock.step
        if options.gap_policy != "fill" or step is None:
            return rows
        apart = np.diff(_times(rows))
        missing = np.where(gaps(rows, self._max_gap), (apart + step // 2) // step - 1, 0)
        missing[(missing > self._fill_rows) | ~_same_split(rows)] = 0
        repeats = np.append(missing, 0) + 1
        of = np.repeat(np.arange(len(rows)), repeats)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        made = pa.array(nth > 0)
        filled = rows.take(pa.array(of))
        filled = batch.set_column(filled, TIME, pa.array(_times(filled) + nth * step))
        filled = batch.set_column(filled, _PLACE, pc.if_else(made, -1, filled[_PLACE]))
        filled = batch.set_column(filled, _INPUTS, pc.if_else(made, 0, filled[_INPUTS]))
        if options.fill == "missing":
            for field in user_fields(rows.schema):
                filled = batch.set_column(
                    filled, field.name, pc.if_else(made, None, filled[field.name])
                )
        return filled

    def _places(self, rows: pa.RecordBatch) -> tuple[Ints, Ints]:
        """Each row's place in its run, and the index of the last row of its run."""
        times = _times(rows)
        follows = _same_series(rows) & _same_split(rows)
        follows &= np.diff(times) <= self._reaches
        firsts = np.flatnonzero(np.append(True, ~follows))
        sizes = np.diff(np.append(firsts, len(rows)))
        carried = np.maximum(np.asarray(rows[_PLACE])[firsts], 0)
        places = np.arange(len(rows)) - np.repeat(firsts - carried, sizes)
        return places, np.repeat(firsts + sizes - 1, sizes)

    def _carry(self, rows: pa.RecordBatch, places: Ints, lasts: Ints) -> None:
        """Keeps what windows to come may need: the end of the last run of each series."""
        count = max(self._options.reach - 1, 1)
        is_last = ~np.append(_same_series(rows), False)  # row of its series
        ends_series = is_last[lasts]
        kept = ends_series & (np.arange(len(rows)) > lasts - count)
        mine = batch.set_column(rows, _PLACE, pa.array(places)).filter(pa.array(kept))
        self._carried = mine if self._carried is None else batch.concat([self._carried, mine])

    def _at_once(self, rows: pa.RecordBatch) -> int:
        each: int = max(rows.nbytes // len(rows), 1) * self._options.window
        return max(min(_BYTES // each, batch.ROWS), 1)

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
            values = rows[field.name].take(taken).cast(kind)
            if values.null_count:
                values = values.fill_null(_nothing(kind))
            columns[field.name] = pa.FixedSizeListArray.from_arrays(values, window)
        arrays = [columns[name] for name in self._schema.names]
        return WindowedRows(
            windows=pa.RecordBatch.from_arrays(arrays, schema=self._schema),
            used=self._used(rows, places, starts),
        )

    def _groups(self, rows: pa.RecordBatch, at: pa.Array) -> pa.Array:
        """What stays together; nothing does where the split is known."""
        named = pc.coalesce(rows[batch.GROUP].take(at), rows[SERIES].take(at))
        return pc.if_else(rows[batch.SPLIT].take(at).is_null(), named, None)

    def _used(self, rows: pa.RecordBatch, places: Ints, starts: Ints) -> int:
        """Rows of the input that are in these windows, and in none that starts before."""
        window, stride = self._options.window, self._options.stride
        before = np.where(places[starts] > 0, max(window - stride, 0), 0)
        sums = np.append(0, np.cumsum(np.asarray(rows[_INPUTS])))
        return int((sums[starts + window] - sums[starts + before]).sum())


def shown_time(microseconds: int) -> str:
    """As ISO 8601, without a fraction that is 0."""
    return (
        datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    ).isoformat(" ")


def _keys(series: pa.Array, begins: pa.Array) -> pa.Array:
    """SERIES@START, a fraction of a second only where there is one."""
    times = begins.cast(pa.timestamp("us"))
    texts = pc.strftime(times, format="%Y-%m-%dT%H:%M:%S")
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return pc.binary_join_element_wise(series, texts, "@")


def _labels(labels: pa.Array, starts: Ints, window: int, rule: LabelRule) -> pa.Array:
    """string[windows], null where the rows that decide have none."""
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


def _nothing(kind: pa.DataType) -> object:
    """What a window has where a row has no value."""
    if pa.types.is_floating(kind):
        return float("nan")
    return b"" if pa.types.is_binary(kind) else ""


def _times(rows: pa.RecordBatch) -> Ints:
    return np.asarray(rows[TIME])


def _same_series(rows: pa.RecordBatch) -> Mask:
    """Whether each row, but for the first, is of the series of the row before: bool[n - 1]."""
    codes, _ = batch.encode(rows[SERIES])
    same: Mask = np.diff(codes) == 0
    return same


def _same_split(rows: pa.RecordBatch) -> Mask:
    codes, _ = batch.encode(rows[batch.SPLIT])
    same: Mask = np.diff(codes) == 0
    return same
