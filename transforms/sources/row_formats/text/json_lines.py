"""Files of JSON lines and of plain lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.json_documents import (
    SPACE,
    refuse_document,
)
from recordmill.transforms.sources.row_formats.reading.row_file import (
    BadRow,
    FileSection,
    Origin,
    QuoteAnomalies,
    Rows,
    in_order,
)
from recordmill.transforms.sources.row_formats.reading.row_format import FileFormat
from recordmill.transforms.sources.row_formats.text import json_blocks
from recordmill.transforms.sources.row_formats.text.joined_files import lines_of
from recordmill.transforms.sources.row_formats.text.line_blocks import LineBlock
from recordmill.transforms.sources.row_formats.text.text_encodings import other_text
from recordmill.transforms.sources.row_formats.text.text_files import TextFile
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    column_type_of,
    type_of_values,
    unify,
)
from recordmill.transforms.sources.row_formats.values.equal_floats import equal_floats
from recordmill.transforms.sources.row_formats.values.nested import (
    flat_object,
    names_of_objects,
    outer_objects,
)
from recordmill.transforms.sources.row_formats.values.odd_values import OddValue, odd_json
from recordmill.transforms.sources.row_formats.values.text_columns import json_text

LINE = "text"  # name of the column of plain lines
_DECODER = json.JSONDecoder()
_MOST_CELLS = 1 << 27  # rows times columns of a block: 1 GiB; dense rows have a hundredth
_UNPAIRED = "an unpaired surrogate: expected both escapes of a pair, such as \\ud83d\\ude00"


class JsonLines:
    """File with a JSON object per line. Missing keys are null. Blank lines count as row numbers.

    Values inside of objects are columns with dotted names (`nested`).
    """

    def __init__(self, origin: Origin, file_format: FileFormat) -> None:
        self._origin = origin
        self._value_parser = file_format.value_parser
        self._file = TextFile(origin, file_format)

    @property
    def quote_anomalies(self) -> QuoteAnomalies:
        return self._file.quote_anomalies

    @property
    def first_text(self) -> str:
        """The beginning of the file."""
        return self._file.first_text

    def header(self) -> ColumnTypes | None:
        return None

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        self._refuse_document()
        return self._file.sections(self._file.begin, size)

    def _refuse_document(self) -> None:
        """Raise ConfigError if the file is not JSON, or is one JSON document instead of lines."""
        content = other_text(self._file.first_text)
        if content is not None and not content.is_json:
            raise ConfigError(f"{self._origin.place} is {content}")
        refuse_document(self._file.first_text, str(self._origin.place))

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        column_types: ColumnTypes = {}
        for lines in lines_of(self._file, section):
            if json_blocks.may_have_many_keys(lines):
                self._check_cells(lines, json_blocks.count_keys(lines))
            parsed = json_blocks.infer(lines, self._value_parser)
            odd: dict[str, OddValue | None] = {}
            if parsed is not None:
                found, outer, equal = parsed
            else:
                raw = _objects(lines)
                rows, objects, _ = _flattened(lines, *raw, _mixed_names(raw[1]))
                kept = {*rows}
                whole = [item for n, item in zip(raw[0], raw[1], strict=True) if n in kept]
                outer = names_of_objects(whole)
                columns = {
                    name: self._values(name, objects)
                    for name in dict.fromkeys(name for item in objects for name in item)
                }
                found = {name: type_of_values(values) for name, values in columns.items()}
                # As in a block, an object without values is not a column, nor is a null for it.
                empty = {name for name in outer if found.get(name) == pa.null()}
                found = {name: kind for name, kind in found.items() if name not in empty}
                equal = {
                    name: equal_floats(_array(columns[name], kind))
                    for name, kind in found.items()
                    if kind == pa.float64()
                }
                odd = {
                    name: _odd_value(columns[name], rows, lines)
                    for name, kind in found.items()
                    if kind == pa.string()
                }
            named = {
                name: column_type_of(kind)._replace(
                    odd=odd.get(name),
                    inside=outer_objects(name, outer),
                    equal=equal.get(name),
                )
                for name, kind in found.items()
            }
            column_types = unify(
                [column_types, {n: k for n, k in named.items() if names is None or n in names}]
            )
        return column_types

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        for lines in lines_of(self._file, section):
            self._check_cells(lines, len(wanted))
            parsed = json_blocks.parse(lines, wanted)
            if parsed is not None:
                yield Rows(columns=parsed, numbers=lines.numbers, files=lines.files, bad=lines.bad)
                continue
            found = _flattened(lines, *_objects(lines), {*wanted.names, *text})
            rows, objects, bad = _reject_nested(lines, *found, text)
            with self._origin.parsing():
                arrays = [_array(self._values(field.name, objects), field.type) for field in wanted]
            yield Rows(
                columns=pa.record_batch(arrays, schema=wanted),
                numbers=lines.numbers[np.array(rows, np.int64)],
                files=lines.files_of(rows),
                bad=in_order(bad),
            )

    def _values(self, name: str, objects: list[dict[str, Any]]) -> list[Any]:
        """Return the values of a column, None for missing ones."""
        values = [item.get(name) for item in objects]
        if not (spelled := self._value_parser.spellings(name)):
            return values
        return [None if isinstance(one, str) and one in spelled else one for one in values]

    def _check_cells(self, lines: LineBlock, columns: int) -> None:
        """Raise ConfigError if rows have far fewer values than the columns of all of them."""
        rows = len(lines.ends)
        if rows * columns > _MOST_CELLS:
            raise ConfigError(
                f"cannot parse the {self._origin.noun} {self._origin.place}: {columns} different"
                f" keys in {rows} rows of {len(lines.data)} bytes: expected rows of the same"
                " keys; write keys that differ as values"
            )


class PlainLines:
    """File with a text per line, without line breaks. Blank lines count as row numbers."""

    def __init__(self, origin: Origin, file_format: FileFormat) -> None:
        self._file = TextFile(origin, file_format)

    @property
    def quote_anomalies(self) -> QuoteAnomalies:
        return self._file.quote_anomalies

    def header(self) -> ColumnTypes | None:
        return {LINE: ColumnType((pa.string(),), nullable=False)}

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        return self._file.sections(self._file.begin, size)

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        del section, names
        return self.header() or {}

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        del text
        for lines in lines_of(self._file, section):
            array = pa.array(lines.rows(), pa.string())
            columns = pa.record_batch([array] * len(wanted), schema=wanted)
            yield Rows(columns=columns, numbers=lines.numbers, files=lines.files, bad=lines.bad)


def _odd_value(values: list[Any], rows: list[int], lines: LineBlock) -> OddValue | None:
    """Return the first value that makes a column of numbers, lists or booleans text, or None.

    rows: the indices of the values among the lines.
    """
    if (odd := odd_json(values)) is None:
        return None
    at, kind = odd
    place = lines.bad_row(rows[at], "")
    return OddValue(json_text(values[at]) or "", kind, place.number, of=place.file)


_Objects = tuple[list[int], list[dict[str, Any]], list[BadRow]]


def _mixed_names(objects: list[dict[str, Any]]) -> set[str]:
    """Return the names that have objects in some rows and other values in others."""
    values = [(name, value) for item in objects for name, value in item.items()]
    nested = {name for name, value in values if isinstance(value, dict)}
    return {n for n, v in values if n in nested and v is not None and not isinstance(v, dict)}


def _flattened(
    lines: LineBlock,
    rows: list[int],
    objects: list[dict[str, Any]],
    bad: list[BadRow],
    whole: Collection[str],
) -> _Objects:
    """Return objects without objects inside, except under the names `whole`; see `flat_object`."""
    kept: list[int] = []
    flat: list[dict[str, Any]] = []
    rejected = list(bad)
    for row, item in zip(rows, objects, strict=True):
        try:
            flat.append(flat_object(item, whole))
            kept.append(row)
        except ValueError as error:
            rejected.append(lines.bad_row(row, str(error)))
    return kept, flat, rejected


def _objects(lines: LineBlock) -> _Objects:
    """Parse lines. Returns (indices of the rows, objects, bad rows)."""
    rows: list[int] = []
    objects: list[dict[str, Any]] = []
    bad = list(lines.bad)
    for row, line in enumerate(lines.rows()):
        try:
            objects.append(_object(line))
            rows.append(row)
        except ValueError as error:
            bad.append(lines.bad_row(row, str(error)))
    return rows, objects, bad


def _object(line: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError with a stable message."""
    try:
        text = line.decode().strip(SPACE)
        value, end = _DECODER.raw_decode(text)  # twice as fast as json.loads
        if b"\\u" in line:  # reject a lone surrogate, which UTF-8 cannot encode
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except UnicodeEncodeError as error:
        raise ValueError(_UNPAIRED) from error
    except (ValueError, RecursionError) as error:
        raise ValueError("not valid JSON") from error
    if end < len(text):
        raise ValueError("not valid JSON")
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def _reject_nested(
    lines: LineBlock,
    rows: list[int],
    objects: list[dict[str, Any]],
    bad: list[BadRow],
    texts: Collection[str],
) -> tuple[list[int], list[dict[str, Any]], list[BadRow]]:
    """Reject objects that have a list or an object in one of the columns `texts`."""
    good = []
    rejected = list(bad)
    for row, item in zip(rows, objects, strict=True):
        nested = next((name for name in texts if isinstance(item.get(name), list | dict)), None)
        if nested is None:
            good.append((row, item))
        else:
            kind = "a list" if isinstance(item[nested], list) else "an object"
            why = f"expected text or a number in column {nested!r}, got {kind}"
            rejected.append(lines.bad_row(row, why))
    return [row for row, _ in good], [item for _, item in good], rejected


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return pa.array([json_text(value) for value in values], kind)
    values = [None if value == {} else value for value in values]  # it holds no value
    if kind == pa.float64():
        return pa.array([None if value is None else float(value) for value in values], kind)
    return pa.array(values, kind)
