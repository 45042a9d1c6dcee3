"""Sections of any size give the rows of the whole file, with the same numbers."""

import gzip
import itertools
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import Location
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.open_rows import (
    infer_types,
    open_rows,
    wanted_columns,
)
from recordmill.transforms.sources.row_formats.reading.row_file import Origin, RowFile
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.row_formats.text import json_blocks, text_files
from recordmill.transforms.sources.row_formats.text.row_boundaries import (
    Block,
    LargeRow,
    QuoteRules,
    cut_rows,
)
from tests.examples_of_properties import many

NO_LIMIT = 1 << 30


def fields_of(
    data: bytes, delimiter: bytes | None, escape: bytes | None = None, *, spaces: bool = False
) -> tuple[list[tuple[bytes, list[bytes]]], bool]:
    """[(row as it stands, its fields)], and whether a quote is left open: a byte at a time."""
    rows: list[tuple[bytes, list[bytes]]] = []
    row, fields, field = b"", [], b""
    state = "start"
    at = 0
    while at < len(data):
        char = data[at : at + 1]
        row += char
        at += 1
        if char == escape:
            row, field, at = row + data[at : at + 1], field + data[at : at + 1], at + 1
            state = "field" if state == "start" else state
            if at > len(data):
                return [*rows, (row, [*fields, field])], True
        elif state == "quoted":
            if char != b'"':
                field += char
            elif data[at : at + 1] == b'"':
                row, field, at = row + b'"', field + b'"', at + 1
            else:
                state = "field"
        elif char == b'"' and state == "start" and delimiter is not None:
            state, field = "quoted", b""
        elif char == b"\n":
            rows.append((row, [*fields, field]))
            row, fields, field, state = b"", [], b"", "start"
        elif char == delimiter:
            fields, field, state = [*fields, field], b"", "start"
        else:
            field += char
            if not (spaces and state == "start" and char == b" "):
                state = "field"
    if row:
        rows.append((row, [*fields, field]))
    return rows, state == "quoted"


def chunks_of(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


STRAY = b",;\t| "
TABLE = st.text(alphabet='a,",""\n\r;', max_size=60).map(str.encode)
SPACED = st.text(alphabet='a,""\n  ', max_size=60).map(str.encode)
ESCAPED = st.text(alphabet='a,""\\\n\\', max_size=60).map(str.encode)


@settings(max_examples=many(5))
@given(TABLE, st.integers(1, 30), st.sampled_from([b",", None]), st.sampled_from([NO_LIMIT, 3, 8]))
@example(b'a,"b""', 1, b",", NO_LIMIT)
@example(b'"a""\n"\nb', 4, b",", NO_LIMIT)
@example(b'aaaa"\n"bbbbbbb","""x\n"\nc', 1, b",", 3)
@example(b'"aaaaaaa""bbbb\n"\nc,"\n"', 1, b",", 3)
def test_rows_are_split_at_their_ends(
    data: bytes, size: int, delimiter: bytes | None, limit: int
) -> None:
    check_split(data, size, limit, rules=delimiter and QuoteRules(delimiter=delimiter))


@settings(max_examples=many(5))
@given(ESCAPED, st.integers(1, 30), st.sampled_from([NO_LIMIT, 3, 8]))
def test_rows_with_escapes_are_split_at_their_ends(data: bytes, size: int, limit: int) -> None:
    check_split(data, size, limit, rules=QuoteRules(delimiter=b",", escape=b"\\"))


@settings(max_examples=many(5))
@given(SPACED, st.integers(1, 30), st.sampled_from([NO_LIMIT, 3, 8]))
def test_rows_with_spaces_are_split_at_their_ends(data: bytes, size: int, limit: int) -> None:
    check_split(data, size, limit, rules=QuoteRules(delimiter=b",", spaces=True))


def check_split(data: bytes, size: int, limit: int, rules: QuoteRules | None) -> None:
    escape = rules.escape if rules else None
    spaces = rules is not None and rules.spaces
    expected, left_open = fields_of(data, rules and rules.delimiter, escape, spaces=spaces)
    found: list[bytes | int] = []
    last = None
    for last in cut_rows(chunks_of(data, size), limit=limit, rules=rules):
        if isinstance(last, LargeRow):
            assert last.size > limit
            found.append(last.size)
            continue
        starts = [0, *last.ends.tolist()]
        assert starts[-1] == len(last.data)
        rows = [last.data[a:b] for a, b in itertools.pairwise(starts)]
        masked = [rules.mask(row) if rules else row for row in rows]  # escaped ends do not count
        spans = [n for n, row in enumerate(masked) if b"\n" in row[:-1]]
        assert not last.spanning.size or {*last.spanning.tolist()} <= {*spans}
        for n in spans if rules and not last.unclosed_quote else ():
            fields = expected[len(found) + n][1]
            of_lines = {one.count(rules.delimiter) for one in masked[n].splitlines()}
            like_rows = of_lines == {len(fields) - 1}
            assert like_rows if n in last.spanning else not like_rows or b'""' in masked[n]
        assert limit == NO_LIMIT or len(rows[-1]) <= limit + size
        found += rows
    assert (last is not None and last.unclosed_quote) == left_open
    for whole, (row, _) in zip(found, expected, strict=True):
        assert whole == (row if isinstance(whole, bytes) else len(row))


def test_text_after_a_closing_quote_is_counted() -> None:
    data = b'"a",b\n"a"b,c\n"a""b","c"\r\nd"e","f" \na,"b"x'
    blocks = list(cut_rows([data], limit=NO_LIMIT, rules=QuoteRules(delimiter=b",")))
    assert all(isinstance(block, Block) for block in blocks)
    assert [block.trailing.tolist() for block in blocks] == [[1, 3], [0]]


def opened(path: pathlib.Path, **options: Any) -> RowFile:
    origin = Origin(place=Location.parse(str(path)))
    return open_rows(origin, RowFormat(**options).resolve(path.name))


def test_the_header_of_a_table_in_a_store_is_read_once(store):
    rows = b"".join(b"%d,%d\n" % (row, row * row) for row in range(20_000))
    store.put("bucket/rows.csv", b"a,b\n" + rows)
    place = Location.parse(store.uri("rows.csv"))
    entry = place.stat()
    origin = Origin(place=place, size=entry.size, mtime=entry.mtime_ns)
    form = RowFormat().resolve("rows.csv")
    with mock.patch.object(limits, "PART_BYTES", 1 << 16):  # the file is not held in memory
        sections = list(open_rows(origin, form).sections(1 << 16))
        store.requests.clear()
        read = []
        for section in sections:
            file = open_rows(origin, form)  # as in another task
            wanted = wanted_columns((), ("a", "b"), file.column_types(section, None))
            store.requests.clear()
            read += [part.columns for part in open_rows(origin, form).read(section, wanted, ())]
            assert [one.operation for one in store.requests] == ["GET"]
    assert len(sections) > 3
    assert sum(map(len, read)) == 20_000
    assert read[-1]["b"][-1].as_py() == 19_999**2


def read_by(file: RowFile, size: int) -> tuple[list[tuple[int, dict[str, Any]]], list[Any]]:
    """([(number, row)], bad rows) of all columns as text, by sections of that size."""
    kinds = file.header()
    sections = list(file.sections(size))
    for one, other in itertools.pairwise(sections):
        assert one.row <= other.row
        assert one.end == other.start
    if kinds is None:
        kinds = infer_types(file, sections)
    wanted = wanted_columns((), kinds, kinds)
    rows, bad = [], []
    for section in sections:
        for part in file.read(section, wanted, ()):
            assert part.columns.schema == wanted
            assert len(part.columns) == len(part.numbers) <= limits.PART_ROWS
            part.columns.validate(full=True)
            rows += zip(part.numbers.tolist(), part.columns.to_pylist(), strict=True)
            bad += part.bad
    return rows, bad


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("sections")


def ends_row(data: bytes) -> bytes:
    """CR before LF, or at the end, belongs to the end of the row; any other is data."""
    return data.rstrip(b"\r\n")


def unended(last: bytes, row: bytes) -> bytes:
    """The last field of a row without the CRs of the row's end: those in quotes are its own."""
    for _ in range(row[len(ends_row(row)) :].count(b"\r")):
        last = last.removesuffix(b"\r")
    return last


@settings(max_examples=many(4))
@given(ESCAPED | SPACED, st.integers(1, 40), st.integers(1, 50), st.booleans())
def test_sections_of_escaped_and_of_trimmed_values(
    folder: pathlib.Path, body: bytes, size: int, chunk: int, trim: bool
) -> None:
    path = folder / "e.csv"
    path.write_bytes(b"one,two\n" + body)
    expected, left_open = fields_of(body, b",", b"\\", spaces=trim)
    file = opened(path, quoting="on", escape="\\", trim=trim)
    with (
        mock.patch.object(limits, "BATCH_BYTES", chunk),
        mock.patch.object(text_files, "_FIRST_READ", 8 + chunk),
    ):
        if left_open:
            with pytest.raises(
                ConfigError, match=r"unclosed quote \(or \\ before the last line end"
            ):
                read_by(file, size)
            return
        rows, bad = read_by(file, size)
    found = []
    for row, fields in expected:
        while len(fields) > 2 and not fields[-1].strip(STRAY):  # trailing separators
            fields = fields[:-1]
        fields = [one.strip() if trim else one for one in fields]
        rest = row.strip(b"\n").removeprefix(b",")
        if not rest or (not any(fields) and rest[:1] == b"," and not rest.strip(STRAY)):
            continue  # blank
        found.append([one.decode() or None for one in fields])
    assert [[*row.values()] for _, row in rows] == [one for one in found if len(one) == 2]
    assert len(bad) == sum(len(one) != 2 for one in found)


@settings(max_examples=many(2))
@given(
    TABLE, st.integers(1, 40), st.integers(1, 50), st.booleans(), st.sampled_from(["", "\ufeff"])
)
@example(b'"a\nb",c\nd,"e\r\nf"\n', 1, 7, True, "")
@example(b'a,5" disk\n"x""y\n",b\n\n\r\n"z"w,"', 3, 2, True, "")
@example(b'a,"b\rc"\n\rd,e\n"\r",\r\n', 3, 2, True, "")
@example(b',,"\r"', 1, 1, True, "")
@example(b"a,b,,\nc,d\ne\nf,g,h\n,,,;\n,\n", 1, 7, True, "")
def test_sections_of_tables(
    folder: pathlib.Path, body: bytes, size: int, chunk: int, quotes: bool, mark: str
) -> None:
    path = folder / "t.csv"
    path.write_bytes(mark.encode() + b"one,two\n" + body)
    expected, left_open = fields_of(body, b"," if quotes else None)
    file = opened(path, quoting="on" if quotes else "off")
    with (
        mock.patch.object(limits, "BATCH_BYTES", chunk),
        mock.patch.object(text_files, "_FIRST_READ", 8 + chunk),
    ):
        if left_open and quotes:
            with pytest.raises(ConfigError, match=r"unclosed quote in .*: row "):
                read_by(file, size)
            return
        rows, bad = read_by(file, size)
    wanted, invalid = [], []
    # A row by itself, as no quote stands open over it.
    good = [
        (ends_row(row), [*fields[:-1], unended(fields[-1], row)])
        for row, fields in expected
        if ends_row(row)
    ]
    if not quotes:
        good = [(row, row.split(b",")) for row, _ in good]
    for number, (row, fields) in enumerate(good, 1):
        surplus = b"".join(fields[2:])
        if len(fields) >= 2 and not surplus.strip(STRAY):
            if re.fullmatch(b",(,[%b]*)?" % STRAY, row) is None:  # else it is as good as blank
                wanted.append((number, [text.decode() or None for text in fields[:2]]))
        else:
            invalid.append((number, Reason.BAD_VALUE, f"expected 2 columns, got {len(fields)}"))
    found = [(number, list(row.values())) for number, row in rows]
    assert [number for number, _ in found] == [number for number, _ in wanted]
    for (_, here), (_, there) in zip(found, wanted, strict=True):
        ours, theirs = here[1], there[1]
        if quotes and theirs is not None:
            # CRs at the end of a row are its end, unless quotes hold them.
            assert ours == theirs or (ours or "") == theirs.rstrip("\r")
        else:
            assert ours == theirs
        assert here[0] == there[0]
    assert [(one.number, one.reason, one.why.partition(";")[0]) for one in bad] == invalid


@settings(max_examples=many(1))
@given(
    st.lists(
        st.sampled_from(
            ['{"a": "1"}', '{"a": "x", "b": "y\\n"}', "", " ", "{", "[]", '{"b": "\\ud800"}', "\r"]
        ),
        max_size=12,
    ),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_sections_of_json_lines(
    folder: pathlib.Path, lines: list[str], last: bool, end: str, size: int, chunk: int
) -> None:
    lines = ['{"a": "1"}', *lines]  # others would begin a JSON document
    path = folder / "t.jsonl"
    path.write_text(end.join(lines) + (end if last else ""), newline="")
    with (
        mock.patch.object(limits, "BATCH_BYTES", chunk),
        mock.patch.object(text_files, "_FIRST_READ", chunk),
    ):
        rows, bad = read_by(opened(path), size)
    good = {n: line for n, line in enumerate(lines, 1) if line.startswith('{"a"')}
    names = {name for line in good.values() for name in json.loads(line)}
    assert dict(rows) == {
        n: {name: json.loads(line).get(name) for name in names} for n, line in good.items()
    }
    told = {
        "{": "not valid JSON",
        "[]": "expected a JSON object",
        '{"b": "\\ud800"}': "an unpaired surrogate: expected both escapes of a pair, such as"
        " \\ud83d\\ude00",
    }
    assert [(row.number, row.why) for row in bad] == [
        (n, told[line]) for n, line in enumerate(lines, 1) if line in told
    ]


VALUES = [
    *(1, -5, 0.5, 1e300, 2**53 + 1, 2**62, 2**63, -(2**63), 2**64, True, None, "x", "", "é😀\0"),
    *("2020-01-01", "2020-01-01T00:00:00", [], [1], [0.5], [2**64], [True], ["a"], ["2020-01-01"]),
    *([None], [[1]], {"a": 1}, {}),
]


@st.composite
def some_objects(draw: st.DrawFn) -> list[str]:
    """A few lines of JSON, with values in a column that tend to be of one type."""
    of = {name: draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)) for name in "ab"}
    lines = draw(st.lists(st.fixed_dictionaries({"c": st.just(1)}, optional={n: st.sampled_from(v)
                          for n, v in of.items()}), min_size=1, max_size=4))  # fmt: skip
    return [json.dumps(line, ensure_ascii=draw(st.booleans())) for line in lines]


DEEP = '{"a": ' + "[" * 600 + "]" * 600 + "}"


@settings(max_examples=many(2))
@given(some_objects())
@example(['{"a": 1}{"a": 2}', '{"a": 3}'])
@example(['{"a": 1}', '{"a": 1, "a": 2}', '{"a": NaN}'])
@example(['{"a": "x}', '"}{}'])
@example([DEEP, '{"b": "[[[[{{{{"}'])
@example(['{"c": 1, "b": []}', '{"c": 1, "a": 1, "b": {}}'])
@example(['{"c": 1, "b": 1}', '{"c": 1, "a": 1, "b": {}}'])
@example(['{"c": 1, "b": null}', '{"c": 1, "a": 1, "b": {}}', '{"c": 1}'])
@example(['{"c": 1, "a": null}', '{"b": 1, "a": {"a": 1}, "c": 1}', '{"c": 1}'])
def test_blocks_of_json_equal_their_lines(folder: pathlib.Path, lines: list[str]) -> None:
    path = folder / "b.jsonl"
    path.write_text("\n".join(lines))
    whole = read_by(opened(path), 1000)
    with mock.patch.object(json_blocks, "_parse", return_value=None):
        by_line = read_by(opened(path), 1000)
    assert repr(by_name(whole)) == repr(by_name(by_line))  # NaN is not NaN


def by_name(read: tuple[list[tuple[int, dict[str, object]]], object]) -> object:
    """Rows with sorted columns: a column of nulls has its place in a block, and none in a line."""
    rows, bad = read
    return [(number, sorted(row.items())) for number, row in rows], bad


@settings(max_examples=many(1))
@given(
    st.lists(st.text(alphabet="a \r\té", max_size=5), max_size=12), st.booleans(), st.integers(1, 9)
)
def test_sections_of_lines(folder: pathlib.Path, lines: list[str], last: bool, size: int) -> None:
    path = folder / "t.txt"
    text = "\n".join(lines) + ("\n" if last else "")
    path.write_text(text, newline="")
    if "\n" not in text:
        lines = text.split("\r")  # it ends all lines
    rows, bad = read_by(opened(path), size)
    wanted = [(n, {"text": line.rstrip("\r")}) for n, line in enumerate(lines, 1) if line.strip()]
    assert (rows, bad) == (wanted, [])


@pytest.mark.parametrize("rows_at_most", [1, 3, 1000])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.txt", "t.parquet", "t.arrow"])
def test_sections_hold_few_rows(
    name: str, rows_at_most: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    texts = [f"text {n}" for n in range(50)]
    table = pa.table({"text": texts, "n": range(50)})
    if name == "t.parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=1)
    elif name == "t.arrow":
        with pa.ipc.new_file(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=1)
    else:
        lines = [f"{text},{n}" for n, text in enumerate(texts)]
        if "json" in name:
            lines = [json.dumps({"text": text}) for text in texts]
        header = ["text,n"] if "csv" in name else []
        data = "\n".join([*header, *lines]).encode()
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    monkeypatch.setattr(limits, "PART_ROWS", rows_at_most)
    file = opened(path)
    rows, _ = read_by(file, 8 << 20)
    assert [number for number, _ in rows] == list(range(1, 51))
    assert [row["text"].removesuffix(f",{n}") for n, (_, row) in enumerate(rows)] == texts
    count = 1 if name.endswith("gz") else -(-50 // rows_at_most)
    assert len(list(file.sections(8 << 20))) == count


@pytest.mark.parametrize("sizes", [[3, 0, 5, 1, 1], [1], [7, 7]])
@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_row_groups_and_record_batches(sizes: list[int], size: int, tmp_path: pathlib.Path) -> None:
    whole = pa.table({"n": range(sum(sizes)), "text": ["some text"] * sum(sizes)})
    starts = [0, *itertools.accumulate(sizes)]
    parts = [whole.slice(start, count) for start, count in zip(starts, sizes, strict=False)]
    with pyarrow.parquet.ParquetWriter(tmp_path / "t.parquet", whole.schema) as writer:
        for part in parts:
            writer.write_table(part)
    with pa.ipc.new_file(tmp_path / "t.arrow", whole.schema) as sink:
        for part in parts:
            sink.write_batch(part.combine_chunks().to_batches()[0] if len(part) else _empty(whole))
    with pa.ipc.new_stream(tmp_path / "t.arrows", whole.schema) as sink:
        for part in parts:
            sink.write_table(part)
    expected = [(n, row) for n, row in enumerate(whole.to_pylist(), 1)]
    for name in ("t.parquet", "t.arrow", "t.arrows"):
        assert read_by(opened(tmp_path / name), size) == (expected, [])


def _empty(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=table.schema)
