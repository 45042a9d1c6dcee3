"""Records against the rules of a schema: which are out of it, and why."""

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
from recordmill.transforms.model.data_type import Check, Headers, OutcomeCollector, RowOutcome
from recordmill.transforms.statistics.column_statistics import numbers_of, spread
from recordmill.transforms.statistics.dataset_statistics import columns_of

Mask = npt.NDArray[np.bool_]

_SHOWN = 60  # characters of a value
_LISTED = 5  # values of a domain


class RuleViolation(NamedTuple):
    """Records of which a column is out of its rules. values: how many values are. hard: each such
    record is out of the schema; otherwise it is the dataset that is judged.
    """

    rows: Mask
    why: Callable[[int], str]
    values: int
    hard: bool = True


def faults_of(column: pa.Array, rules: ColumnRules) -> Iterator[RuleViolation]:
    """What is wrong with a column, as far as it is, the missing first."""
    valid, sizes, values = spread(column)
    if rules.required and not valid.all():
        yield RuleViolation(~valid, lambda row: "no value, where the schema has min_fraction 1", 0)
    least, most = rules.values
    wrong = valid & (sizes < least)
    if most is not None:
        wrong |= valid & (sizes > most)
    if wrong.any():
        yield RuleViolation(wrong, lambda row: _count_told(int(sizes[row]), least, most), 0)
    if rules.domain is None or not len(values):
        return
    outside, told = _outside(values, rules.domain)
    if not outside.any():
        return
    of_row = np.repeat(np.arange(len(column)), sizes)
    places = np.flatnonzero(outside)
    rows = np.zeros(len(column), np.bool_)
    rows[of_row[places]] = True

    def why(row: int) -> str:
        place = places[np.searchsorted(of_row[places], row)]
        return told(int(place))

    yield RuleViolation(rows, why, len(places), hard=rules.mass >= 1)


def _count_told(count: int, least: int, most: int | None) -> str:
    if least == most:
        asked = str(least)
    else:
        asked = f"{least} or more" if most is None else f"{least} to {most}"
    return f"{count} value{'' if count == 1 else 's'}, where the schema has {asked}"


_Domain = NumberDomain | StringDomain | BoolDomain
_Told = Callable[[int], str]  # of the place of a value
_Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def _outside(values: pa.Array, domain: _Domain) -> tuple[Mask, _Told]:
    """Which values are out of a domain, bool[n], and how that is said of one."""
    if not (pa.types.is_primitive(values.type) or pa.types.is_boolean(values.type)):
        bad = _texts_outside(values, domain)
        return bad, lambda place: _told_text(values[place].as_py(), domain)
    assert not isinstance(domain, StringDomain)  # `refuse_columns` lets no such schema pass
    numbers, range_ = numbers_of(values), domain
    bad = _numbers_outside(numbers, range_)
    return bad, lambda place: _told_number(numbers[place].item(), range_)


def _texts_outside(values: pa.Array, domain: _Domain) -> Mask:
    """Each different text is looked at once."""
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
    """Of a text; None where it is none, or is an integer of more than 64 bits."""
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


def _told_text(value: object, domain: _Domain) -> str:
    """Why a text, or bytes, is not in a domain."""
    shown = _cut(repr(value))
    text = value if isinstance(value, bytes) else str(value).encode()
    if isinstance(domain, NumberDomain):
        number = _number(text, whole=domain.whole)
        if number is None:
            return f"{shown} is no {'integer' if domain.whole else 'number'}"
        return _told_number(number, domain)
    words = _words(domain)
    listed = ", ".join(repr(_cut(word)) for word in words[:_LISTED])
    more = f" and {len(words) - _LISTED} others" if len(words) > _LISTED else ""
    return f"{shown}, where the schema has {listed or 'no value'}{more}"


def _told_number(value: object, domain: NumberDomain | BoolDomain) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(domain, BoolDomain):
        return f"{shown}, where the schema has 0 and 1"
    if (shown == "nan" and not domain.nan) or (shown[-3:] == "inf" and not domain.infinite):
        return f"{shown}, which the schema disallows"
    if domain.whole and isinstance(value, float) and not value.is_integer():
        return f"{shown} is no integer"
    least, most = (
        None if bound is None else str(bound if domain.whole else np.float32(bound))
        for bound in (domain.least, domain.most)
    )
    if least is not None and most is not None:
        return f"{shown}, where the schema has {least} to {most}"
    return (
        f"{shown}, where the schema has at {f'least {least}' if most is None else f'most {most}'}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def all_faults(
    columns: Mapping[str, pa.Array], rules: SchemaRules
) -> Iterator[tuple[str, RuleViolation]]:
    """(column, fault) of all columns that are asked for, in the order of the schema."""
    for name, one in rules.columns.items():
        for fault in faults_of(columns[name], one):
            yield name, fault


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaCheck:
    """Rejects the records that are out of a schema, after another check if there is one.

    headers: reads what files that rows name say of themselves, where the schema asks for it.
    """

    rules: SchemaRules
    labelled: bool
    first: Check | None = None
    headers: Headers | None = None

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Runs in an encoder process."""
        before = (
            RowOutcome(kept=np.arange(len(rows))) if self.first is None else self.first.check(rows)
        )
        left = rows.take(pa.array(before.kept))
        made = None
        if self.headers is not None:
            read, made = self.headers.read(left)
            left = left.take(pa.array(read.kept))
            before = _then(before, read)
        return _then(before, self._own(left, made))

    def _own(self, rows: pa.RecordBatch, made: pa.RecordBatch | None) -> RowOutcome:
        bad: dict[int, str] = {}
        columns = columns_of(rows, made, labelled=self.labelled)
        for name, fault in all_faults(columns, self.rules):
            for row in np.flatnonzero(fault.rows).tolist() if fault.hard else ():
                bad.setdefault(row, f"column {name!r}: {fault.why(row)}")
        if not bad:
            return RowOutcome(kept=np.arange(len(rows)))
        sorter = OutcomeCollector("check")
        for row, key in enumerate(rows[batch.KEY].to_pylist()):
            if row in bad:
                sorter.leave_out(key, RecordError(Reason.OUT_OF_SCHEMA, bad[row]))
            else:
                sorter.keep(row)
        return sorter.result()


def _then(before: RowOutcome, after: RowOutcome) -> RowOutcome:
    """The outcome of two checks, the second of which saw what the first kept."""
    return RowOutcome(
        kept=before.kept[after.kept],
        rejects=[*before.rejects, *after.rejects],
        filtered=[*before.filtered, *after.filtered],
    )
