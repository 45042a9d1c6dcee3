"""Files of rows (CSV, TSV, JSON lines, Parquet), read as batches in flat memory.

A row that cannot be understood is told by its number and left out; a file that cannot is a
ConfigError. CSV and JSON lines carry no types, so a first pass finds for each column the narrowest
type that holds all its values (int64, float64, bool, else string): a type guessed from the first
block would fail at a later one. An empty CSV field is null; `NA` and the like are text, and so is
`007`, whose zeros a number would lose.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from recordmill.errors import ConfigError
from recordmill.files import Location
from transforms import batch
from transforms.sources.columns import as_text, json_text, plain, valid_text

_BLOCK = 8 << 20  # bytes of CSV parsed at a time; a longer row is an error
_NARROW = (pa.int64(), pa.float64(), pa.bool_())
_PADDED = r"^[+-]?0\d"
_DECODER = json.JSONDecoder()
# What pyarrow, gzip and numbers too large for their column raise.
_UNREADABLE = (
    pa.ArrowException,
    OSError,
    EOFError,
    zlib.error,
    UnicodeDecodeError,
    OverflowError,
)
_JSON_SPACE = "\ufeff \t\r\n"  # a byte order mark may stand before the first line


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Up to `batch.ROWS` rows. `numbers`: int64[n], from 1, a CSV's header not counted.

    bad: (number, why) of the rows that were left out.
    """

    columns: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    bad: Sequence[tuple[int, str]] = ()


class RowFile(Protocol):
    """A file of rows. Both raise ConfigError where the file cannot be understood."""

    def names(self) -> list[str]:
        """The columns."""

    def read(self, text: Collection[str], without: Collection[str] = ()) -> Iterator[Rows]:
        """All rows, of one schema. The columns named in `text` come as strings, as written; those
        in `without` may be missing.
        """


def open_rows(place: Location) -> RowFile:
    """The file by its extension. Raises ConfigError for another one."""
    name = place.name.lower()
    extension = name.removesuffix(".gz").rpartition(".")[2]
    if extension == "csv":
        return CsvFile(place, delimiter=",", quotes=True)
    if extension == "tsv":
        return CsvFile(place, delimiter="\t", quotes=False)
    if extension in ("jsonl", "ndjson"):
        return JsonLines(place)
    if extension in ("parquet", "pq") and not name.endswith(".gz"):
        return ParquetFile(place)
    raise ConfigError(
        f"expected a listing in .csv, .tsv, .jsonl (each also .gz) or .parquet, got {place}"
    )


class CsvFile:
    """CSV with a header (RFC 4180), or TSV, where quotes are data."""

    def __init__(self, place: Location, *, delimiter: str, quotes: bool) -> None:
        self._place = place
        self._delimiter = delimiter
        self._quotes = quotes

    def names(self) -> list[str]:
        with _parsing(self._place), _opened(self._place) as file:
            names: list[str] = self._reader(file, [], lambda row: "skip").schema.names
        return _each_once(names, self._place)

    def read(self, text: Collection[str], without: Collection[str] = ()) -> Iterator[Rows]:
        names = self.names()
        types = self._types(names, [name for name in names if name not in text])
        for rows in self._text_rows(names):
            arrays = [rows.columns[name].cast(types.get(name, pa.string())) for name in names]
            yield dataclasses.replace(rows, columns=pa.record_batch(arrays, names=names))

    def _types(self, names: list[str], typed: list[str]) -> dict[str, pa.DataType]:
        """The narrowest type of each column in `typed`; reads the file unless it is empty."""
        if not typed:
            return {}
        possible = {name: list(_NARROW) for name in typed}
        filled = set()
        for rows in self._text_rows(names):
            for name in typed:
                column = rows.columns[name]
                if possible[name] and pc.any(pc.match_substring_regex(column, _PADDED)).as_py():
                    possible[name].clear()
                possible[name] = [t for t in possible[name] if _casts(column, t)]
                if column.null_count < len(column):
                    filled.add(name)
        return {
            name: possible[name][0] if possible[name] and name in filled else pa.string()
            for name in typed
        }

    def _text_rows(self, names: list[str]) -> Iterator[Rows]:
        """All columns as strings."""
        spoilt: list[tuple[int, str]] = []  # rows with too many or too few columns, not yet told
        numbers: list[int] = []  # of all of them so far

        def on_spoilt(row: Any) -> str:
            number = row.number - 1  # pyarrow counts the header
            numbers.append(number)
            spoilt.append((number, f"{row.actual_columns} columns, expected {len(names)}"))
            return "skip"

        good = 0
        last = None
        with _parsing(self._place), _opened(self._place) as file:
            counted = _QuoteCounter(file)
            for block in self._reader(counted, names, on_spoilt):
                for start in range(0, len(block), batch.ROWS):
                    part = block.slice(start, batch.ROWS)
                    last = part.slice(len(part) - 1)
                    told, spoilt[:] = list(spoilt), []
                    places = _numbers(np.arange(good, good + len(part)), numbers)
                    good += len(part)
                    columns, bad = valid_text(part)
                    told += [(int(n), "not UTF-8: save the listing as UTF-8") for n in places[bad]]
                    yield Rows(columns=columns, numbers=places[~bad], bad=told)
        if self._quotes and counted.odd and last is not None and _has_newline(last):
            raise ConfigError(
                f"a quote is left open in {self._place}: row {good} runs to the end of the file; "
                "close it, or double the quotes inside a value"
            )
        if spoilt:
            empty = pa.record_batch([pa.array([], pa.string())] * len(names), names=names)
            yield Rows(columns=empty, numbers=np.array([], np.int64), bad=spoilt)

    def _reader(self, file: Any, names: list[str], on_spoilt: Any) -> Any:
        return pyarrow.csv.open_csv(
            file,
            # One thread: row numbers are known, and parallel parsing gains nothing here.
            read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char='"' if self._quotes else False,
                newlines_in_values=self._quotes,
                invalid_row_handler=on_spoilt,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                check_utf8=False,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )


class JsonLines:
    """An object per line; blank lines are skipped."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._types: dict[str, pa.DataType] = {}

    def names(self) -> list[str]:
        if not self._types:
            for _, objects, _ in self._blocks():
                for name in dict.fromkeys(name for item in objects for name in item):
                    found = _json_type([item.get(name) for item in objects])
                    self._types[name] = _wider(self._types.get(name, pa.null()), found)
            self._types = {name: _sure(kind) for name, kind in self._types.items()}
        return list(self._types)

    def read(self, text: Collection[str], without: Collection[str] = ()) -> Iterator[Rows]:
        names = self.names()
        texts = [name for name in names if name in text]
        for block in self._blocks():
            numbers, objects, bad = _without_nested(*block, texts)
            kinds = {n: pa.string() if n in text else self._types[n] for n in names}
            with _parsing(self._place):
                arrays = [
                    _json_array([item.get(name) for item in objects], kind)
                    for name, kind in kinds.items()
                ]
            columns = pa.record_batch(arrays, names=names)
            yield Rows(columns=columns, numbers=np.array(numbers, np.int64), bad=bad)

    def _blocks(self) -> Iterator[tuple[list[int], list[dict[str, Any]], list[tuple[int, str]]]]:
        """(line numbers, objects, bad lines) of up to `batch.ROWS` lines."""
        with _parsing(self._place), _opened(self._place) as file:
            numbers: list[int] = []
            objects: list[dict[str, Any]] = []
            bad: list[tuple[int, str]] = []
            for number, line in enumerate(file, 1):
                if line.isspace():
                    continue
                try:
                    objects.append(_json_object(line))
                    numbers.append(number)
                except ValueError as error:
                    bad.append((number, str(error)))
                if len(objects) + len(bad) >= batch.ROWS:
                    yield numbers, objects, bad
                    numbers, objects, bad = [], [], []
            yield numbers, objects, bad


class ParquetFile:
    """Parquet brings its types."""

    def __init__(self, place: Location) -> None:
        self._place = place

    def names(self) -> list[str]:
        with _parsing(self._place), self._place.open_input() as file:
            names: list[str] = pyarrow.parquet.ParquetFile(file).schema_arrow.names
        return _each_once(names, self._place)

    def read(self, text: Collection[str], without: Collection[str] = ()) -> Iterator[Rows]:
        names = [name for name in self.names() if name not in without]
        number = 1
        with _parsing(self._place), self._place.open_input() as file:
            parts = pyarrow.parquet.ParquetFile(file).iter_batches(
                batch_size=batch.ROWS, columns=names if without else None
            )
            for part in parts:
                arrays = [as_text(part[n], n) if n in text else plain(part[n]) for n in names]
                # What the file declares as never null stays so: its features are always there.
                fields = [
                    pa.field(name, array.type, part.schema.field(name).nullable)
                    for name, array in zip(names, arrays, strict=True)
                ]
                columns, bad = valid_text(pa.record_batch(arrays, schema=pa.schema(fields)))
                numbers = np.arange(number, number + len(part))
                told = [(int(n), "not UTF-8") for n in numbers[bad]]
                yield Rows(columns=columns, numbers=numbers[~bad], bad=told)
                number += len(part)


class _QuoteCounter(io.RawIOBase):
    """Passes a file on and counts its quotes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.odd = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.odd ^= data.count(b'"') % 2 == 1
        return data


@contextlib.contextmanager
def _opened(place: Location) -> Iterator[BinaryIO]:
    with place.open_input() as file:
        if place.name.lower().endswith(".gz"):
            with gzip.open(file) as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            yield file


@contextlib.contextmanager
def _parsing(place: Location) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        why = (str(error).splitlines() or [""])[0]
        if "straddl" in why:
            why = f"a row is longer than {_BLOCK >> 20} MiB, perhaps a quote is left open"
        if "lists to be of size" in why:
            why += " (a null among lists of a fixed size: write lists of any length, or leave the "
            why += "column out with --drop-columns)"
        raise ConfigError(f"cannot understand the listing {place}: {why}") from error


def _each_once(names: list[str], place: Location) -> list[str]:
    if len(set(names)) < len(names):
        raise ConfigError(f"a column name comes twice in {place}: {', '.join(names)}")
    return names


def _numbers(good: npt.NDArray[np.int64], spoilt: list[int]) -> npt.NDArray[np.int64]:
    """Row numbers (from 1) of rows counted without the spoilt ones (from 0)."""
    # spoilt[i] has spoilt[i] - 1 - i good rows before it.
    before = np.array(spoilt, np.int64) - 1 - np.arange(len(spoilt))
    return good + 1 + np.searchsorted(before, good, side="right")


def _casts(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _has_newline(rows: pa.RecordBatch) -> bool:
    return any(pc.any(pc.match_substring(c.cast(pa.binary()), b"\n")).as_py() for c in rows.columns)


def _json_object(line: bytes) -> dict[str, Any]:
    """Raises ValueError in our words."""
    try:
        text = line.decode().strip(_JSON_SPACE)
        value, end = _DECODER.raw_decode(text)  # without the overhead of json.loads: twice as fast
        if b"\\u" in line:  # half of a surrogate pair cannot be written as UTF-8
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        utf8 = isinstance(error, UnicodeError)
        raise ValueError("not UTF-8" if utf8 else "not valid JSON") from error
    if end < len(text):
        raise ValueError("not valid JSON")
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def _without_nested(
    numbers: list[int],
    objects: list[dict[str, Any]],
    bad: list[tuple[int, str]],
    texts: Sequence[str],
) -> tuple[list[int], list[dict[str, Any]], list[tuple[int, str]]]:
    """Tells as bad the objects that have a list or an object where one of `texts` belongs."""
    good = []
    told = list(bad)
    for number, item in zip(numbers, objects, strict=True):
        nested = next((name for name in texts if isinstance(item.get(name), list | dict)), None)
        if nested is None:
            good.append((number, item))
        else:
            kind = "a list" if isinstance(item[nested], list) else "an object"
            told.append((number, f"expected text or a number in column {nested!r}, got {kind}"))
    return [number for number, _ in good], [item for _, item in good], told


def _json_type(values: list[Any]) -> pa.DataType:
    try:
        return pa.array(values).type  # pa.infer_type looks at few of them
    except (pa.ArrowException, OverflowError):
        return pa.string()


def _sure(kind: pa.DataType) -> pa.DataType:
    """A column of nulls, or of empty lists, says nothing about its type."""
    if kind == pa.list_(pa.null()):
        return pa.list_(pa.string())
    return pa.string() if kind == pa.null() else kind


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type that holds both: string where there is no other."""
    schemas = [pa.schema([("x", one)]), pa.schema([("x", other)])]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowTypeError:
        return pa.string()


def _json_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return pa.array([json_text(value) for value in values], kind)
    if kind == pa.float64():
        return pa.array([None if value is None else float(value) for value in values], kind)
    return pa.array(values, kind)
