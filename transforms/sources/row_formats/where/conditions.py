"""Evaluation of --where over batches of rows.

Missing values follow SQL: a comparison with a missing value is missing, and so is its negation.
Rows whose condition is missing are left out.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, did_you_mean
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.model.usual_columns import quoted
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.iso_times import (
    has_zone,
    is_no_date,
    is_other_date,
    is_time,
    parse_iso_times,
)
from recordmill.transforms.sources.row_formats.values.text_columns import decode_dictionary
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser, without_nan
from recordmill.transforms.sources.row_formats.where.condition_syntax import (
    WHERE,
    Arithmetic,
    Both,
    Column,
    Compare,
    Condition,
    Constant,
    Contains,
    IsIn,
    IsMissing,
    Node,
    Not,
    Value,
    named_option,
    parse_condition,
)

Mask = npt.NDArray[np.bool_]

_SHOWN = 40  # characters of a value in a message
_SEVERAL = 6  # rows that are refused as a whole, rather than rejected one by one
_COMPARE: Mapping[str, Callable[..., pa.Array]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_COMPUTE: Mapping[str, Callable[..., pa.Array]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
}


@dataclasses.dataclass(frozen=True)
class RowFilter:
    """Filter of the rows for which a condition holds.

    fields: the columns of the condition, with their types in it; rows may have them as text.
    """

    condition: Condition
    fields: tuple[pa.Field, ...]

    @classmethod
    def of(cls, text: str, types: Mapping[str, pa.DataType], *, where: str) -> RowFilter:
        """Parse a condition and check that it fits the columns, as `check_condition` does."""
        condition = parse_condition(text)
        check_condition(condition, types, where=where)
        return cls(condition, tuple(pa.field(name, types[name]) for name in condition.columns))

    def apply(self, rows: Rows, parser: ValueParser) -> tuple[Rows, dict[str, int]]:
        """Return the rows for which the condition holds, and {option: number of those left out}.

        Rows become bad if the condition depends on the order of a date and a text in another form.

        Raises:
          ConfigError: all rows are bad for that reason.
        """
        columns = {}
        for field in self.fields:
            column = parser.mask_missing(field.name, rows.columns[field.name])
            if column.type != field.type:
                column, _ = parser.cast_or_null(column, field.type)
            columns[field.name] = column
        count = len(rows.columns)
        batch = _Batch(columns, count)
        truth = _truth(self.condition.root, batch)
        mask: Mask = np.asarray(truth.fill_null(False), bool)
        wrong = batch.mismatches(truth)
        if len(wrong) == count >= _SEVERAL:
            raise ConfigError(f"{named_option(self.condition.text)}: {wrong[0]}")
        if mask.all():
            return rows, {}
        kept = mask.copy()
        kept[list(wrong)] = True
        places = np.cumsum(kept) - 1
        bad = {
            int(places[row]): (Reason.BAD_VALUE, f"--where: {why}") for row, why in wrong.items()
        }
        found = rows.where(kept)
        left_out = int((~kept).sum())
        return found.without(bad), {WHERE: left_out} if left_out else {}


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Columns of rows, of `count` values each.

    Attributes:
      columns: {name: column of the condition}.
      count: Number of rows.
      times: {column: its texts as times}, filled when they are needed.
      ordered: {column: first date} of the columns of text whose order to a date matters.
    """

    columns: Mapping[str, pa.Array]
    count: int
    times: dict[str, pa.Array] = dataclasses.field(default_factory=dict)
    ordered: dict[str, str] = dataclasses.field(default_factory=dict)

    def times_of(self, name: str) -> pa.Array:
        """Return a column of text as times, null for text that is not a time."""
        if name not in self.times:
            self.times[name] = parse_iso_times(_plain(self.columns[name]).cast(pa.string()))
        return self.times[name]

    def mismatches(self, truth: pa.Array) -> dict[int, str]:
        """Return {index: message} of the rows for which a text leaves the condition undecided."""
        wrong: dict[int, str] = {}
        if not self.ordered or not truth.null_count:
            return wrong
        for name, literal in self.ordered.items():
            column = self.columns[name]
            unfit = pc.and_(self.times[name].is_null(), pc.and_(column.is_valid(), truth.is_null()))
            for row in np.flatnonzero(np.asarray(unfit)).tolist():
                value = column[row].as_py()[:_SHOWN]
                wrong.setdefault(
                    row,
                    f"column {name!r} is text, which is compared with {literal!r}: expected a date"
                    f" such as 2026-01-31, got {value!r}",
                )
        return wrong


class _MismatchError(Exception):
    """Values that cannot be compared or computed with."""


def truth_of(condition: Condition, columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return whether a condition holds for each of `count` rows, bool[n]; null if it is unknown.

    columns: the columns of the condition, with the types that `check_condition` has seen.
    """
    return _truth(condition.root, _Batch(columns, count))


def check_condition(condition: Condition, types: Mapping[str, pa.DataType], *, where: str) -> None:
    """Check that a condition fits the columns. types: of all columns. where: the input.

    Raises:
      ConfigError: a column does not exist, or has a type that the condition cannot use.
    """
    for name in condition.columns:
        if name not in types:
            longer = next((one for one in types if one.startswith(f"{name}/")), None)
            advice = did_you_mean(name, types)
            if longer is not None:
                advice = f" (names with / need backticks, such as `{longer}`)"
            raise ConfigError(
                f"{named_option(condition.text)}: no column {name!r} in {where}{advice}: it has"
                f" {quoted(types)}"
            )
    # A row without values, so that texts that stand for times are read, too.
    columns = {name: pa.nulls(1, types[name]) for name in condition.columns}
    try:
        _truth(condition.root, _Batch(columns, 1))
    except _MismatchError as error:
        shown = ", ".join(f"{name!r} has {_noun(types[name])}" for name in condition.columns)
        raise ConfigError(f"{named_option(condition.text)}: {error}; in {where} {shown}") from error
    for name, text in _ordered_texts(condition.root):
        if is_no_date(text):
            raise ConfigError(
                f"{named_option(condition.text)}: {text!r} is not a date: this day or time does"
                " not exist"
            )
        if is_other_date(text) and _family(types[name]) == "text":
            raise ConfigError(
                f"{named_option(condition.text)}: column {name!r} of {where} is text, which has no"
                f" order with {text!r}: write dates and times as 2026-01-31 or 2026-01-31 08:05"
            )


def _ordered_texts(node: Node) -> Iterator[tuple[str, str]]:
    """Yield (column, text) of the comparisons by order of a column with a text."""
    match node:
        case Both(conditions=conditions):
            for one in conditions:
                yield from _ordered_texts(one)
        case Not(condition=condition):
            yield from _ordered_texts(condition)
        case Compare(comparison=comparison) if comparison not in ("==", "!="):
            match node.left, node.right:
                case (Column(name=name), Constant(value=str(text))):
                    yield name, text
                case (Constant(value=str(text)), Column(name=name)):
                    yield name, text


def _truth(node: Node, batch: _Batch) -> pa.Array:
    """Return the truth of a condition: bool[n], null where it is missing."""
    match node:
        case Both(word=word, conditions=conditions):
            join = pc.and_kleene if word == "and" else pc.or_kleene
            return functools.reduce(join, (_truth(one, batch) for one in conditions))
        case Not(condition=condition):
            return pc.invert(_truth(condition, batch))
        case IsMissing(operand=operand):
            return _values(operand, batch).is_null()
        case IsIn(operand=operand, values=values):
            alike = (_comparison("==", operand, Constant(value), batch) for value in values)
            return functools.reduce(pc.or_kleene, alike)
        case Contains(value=value, column=column):
            return _contains(batch.columns[column.name], value)
        case Compare(comparison=comparison, left=left, right=right):
            return _comparison(comparison, left, right, batch)
    found = _values(node, batch)
    if not pa.types.is_boolean(found.type):
        raise _MismatchError(f"expected a condition, got {_noun(found.type)}: compare it")
    return found


def _comparison(comparison: str, left: Node, right: Node, batch: _Batch) -> pa.Array:
    """Return the truth of a comparison."""
    pair = [_values(one, batch) for one in (left, right)]
    families = {_family(one.type) for one in pair}
    if families == {"time", "text"} and not any(isinstance(n, Constant) for n in (left, right)):
        raise _MismatchError("a column of times is compared with a text, not with a column")
    match left, right:
        case (Column(name=name), Constant(value=str(text))):
            at = 0  # of the column in the pair
        case (Constant(value=str(text)), Column(name=name)):
            at = 1
        case _:
            return _compare(comparison, *pair)
    if families != {"text"} or not is_time(text):
        return _compare(comparison, *pair)
    times = list(pair)
    times[at] = batch.times_of(name)
    times[1 - at] = pa.repeat(parse_iso_times(pa.array([text]))[0], batch.count)
    truth = _compare(comparison, *times)
    if comparison in ("==", "!="):  # a text that is not a date differs from every date
        return pc.coalesce(truth, _compare(comparison, *pair))
    batch.ordered.setdefault(name, text)
    return truth


def _values(node: Node, batch: _Batch) -> pa.Array:
    match node:
        case Column(name=name):
            column = _plain(batch.columns[name])
            return without_nan(column) if pa.types.is_floating(column.type) else column
        case Constant(value=value):
            return _constant(value, batch.count)
        case Arithmetic(operation=operation, left=left, right=right):
            numbers = [_number(_values(one, batch), operation) for one in (left, right)]
            if operation == "/":  # nothing is known of a division by zero
                numbers[1] = pc.if_else(pc.equal(numbers[1], 0.0), None, numbers[1])
            found = _COMPUTE[operation](*numbers)
            return without_nan(found)
    return _truth(node, batch)


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without an encoding that comparisons do not take."""
    column = decode_dictionary(column)
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def _constant(value: Value, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def _number(values: pa.Array, operation: str) -> pa.Array:
    kind = values.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not numeric:
        raise _MismatchError(f"{operation} needs numbers, got {_noun(kind)}")
    return values.cast(pa.float64(), safe=False)


def _compare(comparison: str, left: pa.Array, right: pa.Array) -> pa.Array:
    kinds = [_family(one.type) for one in (left, right)]
    if kinds == ["time", "text"]:
        right = _as_time(right, left.type)
    elif kinds == ["text", "time"]:
        left = _as_time(left, right.type)
    elif kinds[0] != kinds[1]:
        raise _MismatchError(
            f"{comparison} needs values of one type, got {_noun(left.type)} and {_noun(right.type)}"
        )
    elif left.type != right.type and kinds == ["number", "number"]:
        left, right = (_as_common(one, other.type) for one, other in ((left, right), (right, left)))
    try:
        return _COMPARE[comparison](left, right)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise _MismatchError(
            f"{comparison} cannot compare {_noun(left.type)} with {_noun(right.type)}"
        ) from error


def _as_common(values: pa.Array, other: pa.DataType) -> pa.Array:
    """Return numbers as float64 if they cannot be compared exactly with those of another type."""
    inexact = (pa.types.is_floating(kind) or kind == pa.uint64() for kind in (values.type, other))
    return values.cast(pa.float64(), safe=False) if any(inexact) else values


def _as_time(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a text in every row as a date or time; without a time zone it is in UTC."""
    value = texts[0].as_py() if len(texts) else None
    if value is None:
        return pa.nulls(len(texts), kind)
    try:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            try:
                return texts.cast(kind)
            except pa.ArrowInvalid:
                return pc.assume_timezone(texts.cast(pa.timestamp(kind.unit)), "UTC").cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        form = f"{'a date' if pa.types.is_date(kind) else 'a time'} such as '2026-01-31'"
        if has_zone(value) and pa.types.is_timestamp(kind):
            form = "a time without a time zone, because the column has none"
        raise _MismatchError(f"expected {form}, got {value!r}") from error


def _contains(column: pa.Array, value: Value) -> pa.Array:
    if not is_list(column.type):
        if _family(column.type) != "text" or not isinstance(value, str):
            raise _MismatchError(f"`in` needs a list, or texts; got {_noun(column.type)}")
        return pc.match_substring(column, value)
    items = pc.list_flatten(column)
    found = _compare("==", items, _constant(value, len(items))).fill_null(False)
    rows = pc.list_parent_indices(column).filter(found)
    has = np.zeros(len(column), np.bool_)
    has[np.asarray(rows)] = True
    return pa.array(has, mask=np.asarray(column.is_null(), bool))


def _family(kind: pa.DataType) -> str:
    """Return the kind of values that can be compared with each other."""
    if pa.types.is_boolean(kind):
        return "truth"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return "text"
    return str(kind)


def _noun(kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return "dates"
    names = {"truth": "true or false", "number": "numbers", "time": "times", "text": "text"}
    return names.get(_family(kind), str(kind))
