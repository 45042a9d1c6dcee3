"""Keys of rows by their content: a 128-bit hash of the cells in a canonical spelling.

The spelling does not depend on the types that were inferred for the columns, so that the same rows
have the same keys as CSV, Parquet or JSON lines, and one odd value in a column moves no other row:

- A number is its nearest float64: `1`, `1.0` and `1e0` are equal, as text and as any numeric type.
  An integer that no float64 equals, such as an id of 18 digits, is its decimal digits.
- True is 1 and false is 0, in any case.
- A date or time is its microsecond in UTC; a date is its midnight.
- Text is its UTF-8 bytes, unless it spells one of the above.
- A list is the sequence of its values.
- A missing value (null, NaN, an empty text or list) is left out, together with its column name.

The hash of a row is a sum over its cells, so the order of the columns does not matter. See ADR 32.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import is_list, user_fields
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser

_NUMBER = r"^[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?$|^(?i:[+-]?inf(inity)?|nan)$"
_TRUTH = r"^(?i:true|false)$"
_TIME = r"^\d{4}-\d\d-\d\d([ T]\d\d:.*)?$"
_INTEGER = r"^([+-]?)0*(\d+)$"
_LONGEST = 40  # bytes of a text that may spell a number or a time
_INEXACT_DIGITS = 16  # digits of the smallest integer that no float64 equals, 2**53 + 1
_ABSENT = np.uint64(0)  # of a missing value
_NANOSECONDS = pa.timestamp("ns")
_MICROSECONDS = pa.timestamp("us")

Hashes = batch.UInt64Array


def content_hashes(rows: pa.RecordBatch, parser: ValueParser) -> pa.Array:
    """Return the hash of the user's cells of each row: binary(16)[n].

    parser: parses texts that spell numbers, with the decimal separator of the files.
    """
    first = np.zeros(len(rows), np.uint64)
    second = np.zeros(len(rows), np.uint64)
    for field in user_fields(rows.schema):
        hashes, codes = _hash_distinct(rows[field.name], parser)
        absent = np.flatnonzero(hashes == _ABSENT)
        for sums, number in ((first, 3), (second, 4)):
            mixed = batch.mix(hashes, batch.salt(number, field.name))
            mixed[absent] = 0
            sums += mixed if codes is None else mixed[codes]
    halves = np.empty((len(rows), 2), ">u8")
    halves[:, 0] = batch.mix(first, batch.salt(5, "row"))
    halves[:, 1] = batch.mix(second, batch.salt(6, "row"))
    return pa.Array.from_buffers(pa.binary(16), len(rows), [None, pa.py_buffer(halves.tobytes())])


def with_keys_by_content(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with keys: without a column `__key__`, the hash of the user's cells of each row.

    Equal rows get equal keys, and so the same split; `StageBatches` numbers them.
    """
    if batch.KEY in rows.schema.names:
        return rows
    content = content_hashes(rows, ValueParser())
    rows = batch.set_column(rows, batch.CONTENT, content)
    return batch.set_column(rows, batch.KEY, batch.hex_of(content))


def _hash_distinct(
    column: pa.Array, parser: ValueParser
) -> tuple[Hashes, npt.NDArray[np.int64] | None]:
    """Return the hashes of the values of a column, and the index of the hash of each row.

    The index is None if there is a hash for each row.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_large_string(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        codes, values = None, column
        if _sizes(column).sum() <= _LONGEST * len(column):  # longer texts rarely repeat
            codes, values = batch.encode(column)
        hashes = _hash_texts(values, parser) if pa.types.is_string(kind) else _hash_bytes(values)
        return (hashes, None) if codes is None else (np.append(hashes, _ABSENT), codes)
    return _hash_values(column, parser), None


def _hash_values(column: pa.Array, parser: ValueParser) -> Hashes:
    """Return a hash of each value, uint64[n], `_ABSENT` for a missing value."""
    kind = column.type
    if is_list(kind):
        return _hash_lists(column, parser)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _hash_times(column)
    if pa.types.is_boolean(kind):
        return _hash_numbers(column.cast(pa.uint8()))
    if pa.types.is_integer(kind):
        return _hash_integers(column)
    # Decimals without digits after the point may be long integers, as texts may be.
    if pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > 0):
        return _hash_numbers(column)
    hashes, codes = _hash_distinct(column.cast(pa.string()), parser)
    return hashes if codes is None else hashes[codes]


def _hash_numbers(column: pa.Array) -> Hashes:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_float32(column.type):  # 0.1 in 32 bits is the number that is written 0.1
        column = column.cast(pa.string())
    numbers = np.asarray(column.cast(pa.float64(), safe=False).fill_null(np.nan))
    hashes = batch.mix((numbers + 0.0).view(np.uint64), batch.salt(0, "number"))  # -0.0 becomes 0.0
    hashes[np.isnan(numbers)] = _ABSENT
    return hashes


def _hash_integers(column: pa.Array) -> Hashes:
    hashes = _hash_numbers(column)
    if column.type.bit_width == 64:
        values = np.asarray(column.fill_null(0))
        inexact = np.flatnonzero(_is_inexact(values))
        if len(inexact):
            digits = pa.array(values[inexact]).cast(pa.string())
            hashes[inexact] = _hash_digits(digits)
    return hashes


def _is_inexact(values: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return whether no float64 equals an integer: bool[n]."""
    nearest = values.astype(np.float64)
    beyond = nearest >= 2.0 ** (63 if values.dtype == np.int64 else 64)  # more than the type holds
    nearest[beyond] = 0
    inexact: npt.NDArray[np.bool_] = nearest.astype(values.dtype) != values
    return inexact


def _hash_digits(digits: pa.Array) -> Hashes:
    """Return the hashes of integers that no float64 equals.

    digits: string[n], without leading zeros and `+`.
    """
    return batch.mix(batch.hash_strings(digits), batch.salt(0, "integer"))


def _hash_times(column: pa.Array) -> Hashes:
    moments = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
    numbers = np.asarray(moments.cast(pa.int64()).fill_null(0)).astype(np.uint64)
    hashes = batch.mix(numbers, batch.salt(0, "time"))
    return np.where(np.asarray(column.is_valid()), hashes, _ABSENT)


def _hash_bytes(values: pa.Array) -> Hashes:
    hashes = batch.hash_strings(values)  # 0, which is _ABSENT, for null
    hashes[_sizes(values) == 0] = _ABSENT
    return hashes


def _sizes(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the number of bytes of each value, 0 for null: int64[n]."""
    return np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)


def _hash_texts(texts: pa.Array, parser: ValueParser) -> Hashes:
    """Return a hash of each text, of the value that it spells if it spells one. string[n]."""
    hashes = _hash_bytes(texts)
    sizes = _sizes(texts)
    for pattern, shortest, longest, hash_parsed in (
        (_NUMBER, 1, _LONGEST, functools.partial(_hash_spelled_numbers, parser=parser)),
        (_TRUTH, len("true"), len("false"), _hash_truths),
        (_TIME, len("2026-01-31"), _LONGEST, _hash_spelled_times),
    ):
        some = np.flatnonzero((sizes >= shortest) & (sizes <= longest))
        if len(some):
            matches = pc.match_substring_regex(batch.choose(texts, some), pattern)
            rows = some[np.asarray(matches)]
            if len(rows):
                found, fits = hash_parsed(batch.choose(texts, rows))
                hashes[rows[fits]] = found[fits]
    return hashes


def _hash_spelled_numbers(texts: pa.Array, *, parser: ValueParser) -> tuple[Hashes, Any]:
    numbers, unfit = parser.cast_or_null(texts, pa.float64())
    hashes = _hash_numbers(numbers)
    long = np.flatnonzero(_sizes(texts) >= _INEXACT_DIGITS)
    if len(long):
        some = batch.choose(texts, long)
        long = long[np.asarray(pc.match_substring_regex(some, _INTEGER))]
        digits = pc.replace_substring_regex(batch.choose(texts, long), _INTEGER, r"\1\2")
        digits = pc.replace_substring(digits, "+", "")
        inexact = [int(float(one)) != int(one) for one in digits.to_pylist()]
        rows = long[np.flatnonzero(inexact)]
        hashes[rows] = _hash_digits(digits.filter(pa.array(inexact, pa.bool_())))
    return hashes, ~unfit


def _hash_truths(texts: pa.Array) -> tuple[Hashes, Any]:
    return _hash_numbers(texts.cast(pa.bool_()).cast(pa.uint8())), np.ones(len(texts), np.bool_)


def _hash_spelled_times(texts: pa.Array) -> tuple[Hashes, Any]:
    hashes = np.zeros(len(texts), np.uint64)
    rest = np.arange(len(texts))
    for kind in (_MICROSECONDS, _NANOSECONDS, pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")):
        if len(rest):
            moments, unfit = ValueParser().cast_or_null(batch.choose(texts, rest), kind)
            hashes[rest] = _hash_times(moments)
            rest = rest[unfit]
    fits = np.ones(len(hashes), np.bool_)
    fits[rest] = False
    return hashes, fits


def _hash_lists(column: pa.Array, parser: ValueParser) -> Hashes:
    """Return a hash of the values and their places in each list; an empty list is missing."""
    sizes = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    hashes, codes = _hash_distinct(pc.list_flatten(column), parser)
    values = hashes if codes is None else hashes[codes]
    ends = np.cumsum(sizes)
    places = np.arange(len(values)) - np.repeat(ends - sizes, sizes)
    values = batch.mix(values ^ batch.mix(places.astype(np.uint64), 1), batch.salt(0, "list"))
    sums = np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))
    found = batch.mix(sums[ends] - sums[ends - sizes], batch.salt(1, "list"))
    return np.where(sizes == 0, _ABSENT, found)
