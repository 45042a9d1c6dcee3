"""Check of records against the rules of a schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, RecordError
from recordmill.profile.schema_rules import (
    BoolDomain,
    ColumnRules,
    NumberDomain,
    SchemaRules,
    StringDomain,
)
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Headers, OutcomeCollector, RowCheck, RowOutcome
from recordmill.transforms.statistics.column_statistics import numbers_of, spread
from recordmill.transforms.statistics.dataset_statistics import columns_of

Mask = npt.NDArray[np.bool_]

_MAX_SHOWN = 60  # characters of a value in a message
_MAX_LISTED = 5  # values of a domain in a message


class RuleViolation(NamedTuple):
    """Records that violate the rules of a column.

    rows: bool[n]. why: returns the reason for a row. values: number of values outside the domain.
    hard: whether each such record violates the schema; otherwise only the share of such values in
      the dataset is limited.
    """

    rows: Mask
    why: Callable[[int], str]
    values: int
    hard: bool = True


def column_violations(column: pa.Array, rules: ColumnRules) -> Iterator[RuleViolation]:
    """Yield the violations of a column: missing values, number of values, values out of domain."""
    valid, sizes, values = spread(column)
    if rules.required and not valid.all():
        yield RuleViolation(
            ~valid, lambda row: "no value, but the schema requires min_fraction 1", 0
        )
    least, most = rules.values
    wrong = valid & (sizes < least)
    if most is not None:
        wrong |= valid & (sizes > most)
    if wrong.any():
        yield RuleViolation(wrong, lambda row: _count_message(int(sizes[row]), least, most), 0)
    if rules.domain is None or not len(values):
        return
    outside, message = _outside(values, rules.domain)
    if not outside.any():
        return
    of_row = np.repeat(np.arange(len(column)), sizes)
    places = np.flatnonzero(outside)
    rows = np.zeros(len(column), np.bool_)
    rows[of_row[places]] = True

    def why(row: int) -> str:
        place = places[np.searchsorted(of_row[places], row)]
        return message(int(place))

    yield RuleViolation(rows, why, len(places), hard=rules.mass >= 1)


def _count_message(count: int, least: int, most: int | None) -> str:
    if least == most:
        allowed = str(least)
    else:
        allowed = f"{least} or more" if most is None else f"{least} to {most}"
    return f"{count} value{'' if count == 1 else 's'}, but the schema allows {allowed}"


_Domain = NumberDomain | StringDomain | BoolDomain
_Message = Callable[[int], str]  # from the index of a value
_Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def _outside(values: pa.Array, domain: _Domain) -> tuple[Mask, _Message]:
    """Return bool[n], true for values outside a domain, and the message for each by its index."""
    if not (pa.types.is_primitive(values.type) or pa.types.is_boolean(values.type)):
        bad = _texts_outside(values, domain)
        return bad, lambda place: _text_message(values[place].as_py(), domain)
    assert not isinstance(domain, StringDomain)  # `check_columns` lets no such schema pass
    numbers, range_ = numbers_of(values), domain
    bad = _numbers_outside(numbers, range_)
    return bad, lambda place: _number_message(numbers[place].item(), range_)


def _texts_outside(values: pa.Array, domain: _Domain) -> Mask:
    """Return bool[n], true for texts outside a domain; each distinct text is parsed once."""
    coded = values.cast(pa.large_binary()).dictionary_encode()
    texts = coded.dictionary
    if isinstance(domain, NumberDomain):
        found = [_number(text, whole=domain.whole) for text in texts.to_pylist()]
        bad = np.array([number is None for number in found], np.bool_)
        numbers = [number for number in found if number is not None]
        kind = pa.int64() if domain.whole else pa.float64()
        bad[~bad] = _numbers_outside(numbers_of(pa.array(numbers, kind)), domain)
    else:
        words = pa.array([word.encode() for word in _words(domain)], texts.type)
        bad = ~np.asarray(pc.is_in(texts, value_set=words))
    outside: Mask = bad[np.asarray(coded.indices)]
    return outside


def _words(domain: StringDomain | BoolDomain) -> list[str]:
    words = domain.values if isinstance(domain, StringDomain) else (domain.true, domain.false)
    return [word for word in words if word is not None]


def _number(text: bytes, *, whole: bool) -> float | None:
    """Parse a number; None if the text is not a number, or an integer beyond 64 bits."""
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        return None
    if b"_" in text or (whole and not -(2**63) <= number < 2**63):
        return None
    return number


def _numbers_outside(numbers: _Numbers, domain: NumberDomain | BoolDomain) -> Mask:
    if isinstance(domain, BoolDomain):
        return np.asarray((numbers != 0) & (numbers != 1))
    if domain.whole:
        bad = _beyond(numbers, domain.least, domain.most)
        return bad if numbers.dtype.kind == "i" else bad | (numbers != np.floor(numbers))
    with np.errstate(over="ignore"):
        bad = _beyond(numbers.astype(np.float32), domain.least, domain.most)
    if not domain.nan:
        bad |= np.isnan(numbers)
    if not domain.infinite:
        bad |= np.isinf(numbers)
    return bad


def _beyond(
    numbers: _Numbers | npt.NDArray[np.float32], least: float | None, most: float | None
) -> Mask:
    bad = np.zeros(len(numbers), np.bool_)
    if least is not None:
        bad |= numbers < least
    if most is not None:
        bad |= numbers > most
    return bad


def _text_message(value: object, domain: _Domain) -> str:
    """Return why a text or bytes value is outside a domain."""
    shown = _truncated(repr(value))
    text = value if isinstance(value, bytes) else str(value).encode()
    if isinstance(domain, NumberDomain):
        number = _number(text, whole=domain.whole)
        if number is None:
            return f"{shown} is not {'an integer' if domain.whole else 'a number'}"
        return _number_message(number, domain)
    words = _words(domain)
    listed = ", ".join(repr(_truncated(word)) for word in words[:_MAX_LISTED])
    more = f" and {len(words) - _MAX_LISTED} others" if len(words) > _MAX_LISTED else ""
    return f"{shown}, but the schema allows {listed or 'no value'}{more}"


def _number_message(value: object, domain: NumberDomain | BoolDomain) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(domain, BoolDomain):
        return f"{shown}, but the schema allows 0 and 1"
    if (shown == "nan" and not domain.nan) or (shown[-3:] == "inf" and not domain.infinite):
        return f"{shown}, which the schema disallows"
    if domain.whole and isinstance(value, float) and not value.is_integer():
        return f"{shown} is not an integer"
    least, most = (
        None if bound is None else str(bound if domain.whole else np.float32(bound))
        for bound in (domain.least, domain.most)
    )
    if least is not None and most is not None:
        return f"{shown}, but the schema allows {least} to {most}"
    return (
        f"{shown}, but the schema allows at {f'least {least}' if most is None else f'most {most}'}"
    )


def _truncated(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def schema_violations(
    columns: Mapping[str, pa.Array], rules: SchemaRules
) -> Iterator[tuple[str, RuleViolation]]:
    """Yield (column, violation) for the columns of a schema, in its order."""
    for name, one in rules.columns.items():
        for fault in column_violations(columns[name], one):
            yield name, fault


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaCheck:
    """Rejects records that violate a schema.

    labelled: whether records have classes. first: another check that runs before this one.
    headers: reads the headers of files that rows refer to, if the schema has rules for them.
    """

    rules: SchemaRules
    labelled: bool
    first: RowCheck | None = None
    headers: Headers | None = None

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Check rows, in an encoder process."""
        before = (
            RowOutcome(kept=np.arange(len(rows))) if self.first is None else self.first.check(rows)
        )
        left = rows.take(pa.array(before.kept))
        made = None
        if self.headers is not None:
            read, made = self.headers.read(left)
            left = left.take(pa.array(read.kept))
            before = _chained(before, read)
        return _chained(before, self._check_schema(left, made))

    def _check_schema(self, rows: pa.RecordBatch, made: pa.RecordBatch | None) -> RowOutcome:
        bad: dict[int, str] = {}
        columns = columns_of(rows, made, labelled=self.labelled)
        for name, violation in schema_violations(columns, self.rules):
            for row in np.flatnonzero(violation.rows).tolist() if violation.hard else ():
                bad.setdefault(row, f"column {name!r}: {violation.why(row)}")
        if not bad:
            return RowOutcome(kept=np.arange(len(rows)))
        collector = OutcomeCollector("check")
        for row, key in enumerate(rows[batch.KEY].to_pylist()):
            if row in bad:
                collector.leave_out(key, RecordError(Reason.OUT_OF_SCHEMA, bad[row]))
            else:
                collector.keep(row)
        return collector.result()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequiredColumns:
    """Rejects records without a value in a column of --learned-from that always has one.

    first: another check that runs before this one.
    """

    columns: tuple[str, ...]
    first: RowCheck | None = None

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Check rows, in an encoder process."""
        before = (
            RowOutcome(kept=np.arange(len(rows))) if self.first is None else self.first.check(rows)
        )
        left = rows.take(pa.array(before.kept))
        collector = OutcomeCollector("check")
        missing = {name: np.asarray(left[name].is_null()) for name in self.columns}
        for row, key in enumerate(left[batch.KEY].to_pylist()):
            name = next((name for name, nulls in missing.items() if nulls[row]), None)
            if name is None:
                collector.keep(row)
                continue
            why = f"column {name!r}: no value, but the dataset of --learned-from always has one"
            collector.leave_out(key, RecordError(Reason.BAD_VALUE, why))
        return _chained(before, collector.result())


def _chained(before: RowOutcome, after: RowOutcome) -> RowOutcome:
    """Return the outcome of two checks, where the second got the rows that the first kept."""
    return RowOutcome(
        kept=before.kept[after.kept],
        rejects=[*before.rejects, *after.rejects],
        filtered=[*before.filtered, *after.filtered],
    )
