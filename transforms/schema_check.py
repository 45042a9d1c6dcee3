"""Records against the rules of a schema: which are out of it, and why."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.schema_rules import ColumnRules, Range, Rules, Truth, Words
from transforms import batch
from transforms.column_statistics import numbers_of, spread
from transforms.kind import Check, Headers, Sorted, Sorter
from transforms.statistics import columns_of

Mask = npt.NDArray[np.bool_]

_SHOWN = 60  # characters of a value
_LISTED = 5  # values of a domain
_INTEGER = re.compile(r"[+-]?\d+")


class Fault(NamedTuple):
    """Records of which a column is out of its rules. values: how many values are. hard: each such
    record is out of the schema; otherwise it is the dataset that is judged.
    """

    rows: Mask
    why: Callable[[int], str]
    values: int
    hard: bool = True


def faults_of(column: pa.Array, rules: ColumnRules) -> Iterator[Fault]:
    """What is wrong with a column, as far as it is, the missing first."""
    valid, sizes, values = spread(column)
    if rules.required and not valid.all():
        yield Fault(~valid, lambda row: "no value, where the schema has min_fraction 1", 0)
    least, most = rules.values
    wrong = valid & (sizes < least)
    if most is not None:
        wrong |= valid & (sizes > most)
    if wrong.any():
        yield Fault(wrong, lambda row: _count_told(int(sizes[row]), least, most), 0)
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
        return told(values[int(place)].as_py())

    yield Fault(rows, why, len(places), hard=rules.mass >= 1)


def _count_told(count: int, least: int, most: int | None) -> str:
    if least == most:
        asked = str(least)
    else:
        asked = f"{least} or more" if most is None else f"{least} to {most}"
    return f"{count} value{'' if count == 1 else 's'}, where the schema has {asked}"


_Told = Callable[[object], str]


def _outside(values: pa.Array, domain: Range | Words | Truth) -> tuple[Mask, _Told]:
    """Which values are out of a domain, bool[n], and how that is said of one."""
    textual = not (pa.types.is_primitive(values.type) or pa.types.is_boolean(values.type))
    if textual:
        coded = values.dictionary_encode()
        known = [_told(text, domain) for text in coded.dictionary.to_pylist()]
        bad = np.array([one is not None for one in known], np.bool_)
        return bad[np.asarray(coded.indices)], lambda value: _told(value, domain) or ""
    assert not isinstance(domain, Words)  # `refuse_columns` lets no such schema pass
    numbers = numbers_of(values)
    told = functools.partial(_told_number, domain=domain)
    if isinstance(domain, Truth):
        return (numbers != 0) & (numbers != 1), told
    if domain.whole and numbers.dtype.kind == "i":
        return _beyond(numbers, domain.least, domain.most), told
    with np.errstate(over="ignore"):
        compared = numbers.astype(np.float64 if domain.whole else np.float32)
    bad = _beyond(compared, domain.least, domain.most)
    if domain.whole:
        bad |= compared != np.floor(compared)
    if not domain.nan:
        bad |= np.isnan(compared)
    if not domain.infinite:
        bad |= np.isinf(numbers)
    return bad, told


def _beyond(numbers: npt.NDArray[np.generic], least: float | None, most: float | None) -> Mask:
    bad = np.zeros(len(numbers), np.bool_)
    if least is not None:
        bad |= numbers < least  # type: ignore[operator]
    if most is not None:
        bad |= numbers > most  # type: ignore[operator]
    return bad


def _told(text: object, domain: Range | Words | Truth) -> str | None:
    """Why a text is not in a domain; None where it is."""
    shown = repr(text)
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            return f"{_cut(shown)} is no UTF-8"
    assert isinstance(text, str)
    if isinstance(domain, Range):
        number = _number(text, whole=domain.whole)
        if number is None:
            return f"{_cut(shown)} is no {'integer' if domain.whole else 'number'}"
        values = pa.array([number], pa.float64() if isinstance(number, float) else pa.int64())
        bad, told = _outside(values, domain)
        return told(number) if bad[0] else None
    words = domain.values if isinstance(domain, Words) else (domain.true, domain.false)
    there = [word for word in words if word is not None]
    if text in there:
        return None
    listed = ", ".join(repr(_cut(word)) for word in there[:_LISTED])
    more = f" and {len(there) - _LISTED} others" if len(there) > _LISTED else ""
    return f"{_cut(shown)}, where the schema has {listed or 'no value'}{more}"


def _number(text: str, *, whole: bool) -> float | None:
    """Of a text; None where it is none, or is an integer of more than 64 bits."""
    if not whole:
        try:
            return float(text)
        except ValueError:
            return None
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def _told_number(value: object, domain: Range | Truth) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(domain, Truth):
        return f"{shown}, where the schema has 0 and 1"
    least, most = (
        None if bound is None else str(bound if domain.whole else np.float32(bound))
        for bound in (domain.least, domain.most)
    )
    if shown in ("nan", "inf", "-inf") and not (domain.nan and domain.infinite):
        return f"{shown}, which the schema disallows"
    if domain.whole and isinstance(value, float) and not value.is_integer():
        return f"{shown} is no integer"
    if least is not None and most is not None:
        return f"{shown}, where the schema has {least} to {most}"
    return (
        f"{shown}, where the schema has at {f'least {least}' if most is None else f'most {most}'}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def all_faults(columns: Mapping[str, pa.Array], rules: Rules) -> Iterator[tuple[str, Fault]]:
    """(column, fault) of all columns that are asked for, in the order of the schema."""
    for name, one in rules.columns.items():
        for fault in faults_of(columns[name], one):
            yield name, fault


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaCheck:
    """Rejects the records that are out of a schema, after another check if there is one.

    headers: reads what files that rows name say of themselves, where the schema asks for it.
    """

    rules: Rules
    labelled: bool
    first: Check | None = None
    headers: Headers | None = None

    def check(self, rows: pa.RecordBatch) -> Sorted:
        """Runs in an encoder process."""
        before = Sorted(kept=np.arange(len(rows))) if self.first is None else self.first.check(rows)
        left = rows.take(pa.array(before.kept))
        made = None
        if self.headers is not None:
            read, made = self.headers.read(left)
            left = left.take(pa.array(read.kept))
            before = _then(before, read)
        return _then(before, self._own(left, made))

    def _own(self, rows: pa.RecordBatch, made: pa.RecordBatch | None) -> Sorted:
        bad: dict[int, str] = {}
        columns = columns_of(rows, made, labelled=self.labelled)
        for name, fault in all_faults(columns, self.rules):
            for row in np.flatnonzero(fault.rows).tolist() if fault.hard else ():
                bad.setdefault(row, f"column {name!r}: {fault.why(row)}")
        if not bad:
            return Sorted(kept=np.arange(len(rows)))
        sorter = Sorter("check")
        for row, key in enumerate(rows[batch.KEY].to_pylist()):
            if row in bad:
                sorter.leave_out(key, RecordError(Reason.OUT_OF_SCHEMA, bad[row]))
            else:
                sorter.keep(row)
        return sorter.result()


def _then(before: Sorted, after: Sorted) -> Sorted:
    """The outcome of two checks, the second of which saw what the first kept."""
    return Sorted(
        kept=before.kept[after.kept],
        rejects=[*before.rejects, *after.rejects],
        filtered=[*before.filtered, *after.filtered],
    )
