"""Documents from tables, files and folders: records, rejects and errors."""

import bz2
import collections
import dataclasses
import gzip
import json
import pathlib
import pickle
import shlex
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from recordmill.errors import ConfigError, Reason, Reject, RunError
from recordmill.job.input_facts import NO_FACTS
from recordmill.processes import pool
from recordmill.storage.files import Location
from recordmill.storage.storage_errors import ChangedInputError
from recordmill.transforms.model import limits
from recordmill.transforms.model.source import Layout, RowSource
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.folders import document_extensions, references
from recordmill.transforms.sources.folders.document_extensions import DocumentExtensions
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.rows.values.text_folders import TextFolder
from recordmill.transforms.sources.rows.values.text_rows import TextRows
from tests.paths import SMS

SYSTEM = ["__key__", "__label__", "__group__", "__split__"]

KEPT = "; --unlabelled keep allows records without"


class Read:
    """All that comes out of a source, put together."""

    def __init__(self, source: TextRows | TextFolder) -> None:
        assert isinstance(source, RowSource)
        self.rejects: list[Reject] = []
        self.filtered: collections.Counter[str] = collections.Counter()
        self.parts: list[pa.RecordBatch] = []
        self.rows: list[dict[str, Any]] = []
        self.listed: list[dict[str, Any]] = []
        facts, notes = NO_FACTS, []
        for listed in source.scan():
            facts = facts.plus(listed.facts)
            notes += listed.notes
            self.rejects += listed.rejects
            self.filtered.update(listed.filtered)
            if listed.rows is not None:
                assert listed.rows.schema == references.SECTIONS
                self.parts.append(listed.rows)
                self.listed += listed.rows.to_pylist()
        self.layout: Layout = source.layout(self.parts, facts=facts)
        assert self.layout.columns.names[:5] == [*SYSTEM, "text"]
        # They travel to workers.
        source, layout = pickle.loads(pickle.dumps((source, self.layout)))
        for part in self.parts:
            for read in source.read(part, layout):
                self.rejects += read.rejects
                self.filtered.update(read.filtered)
                if read.rows is not None:
                    assert read.rows.schema == self.layout.columns
                    assert 0 < len(read.rows) <= limits.PART_ROWS
                    assert read.rows.nbytes < 3 * limits.BATCH_BYTES // 2 or len(read.rows) == 1
                    assert not read.rows["text"].null_count
                    read.rows.validate(full=True)
                    self.rows += read.rows.to_pylist()
        self.notes = (*notes, *self.layout.notes)

    @property
    def texts(self) -> dict[str, str]:
        return {row["__key__"]: row["text"] for row in self.rows}

    @property
    def told(self) -> dict[str, tuple[Reason, str]]:
        assert all(reject.stage == "read" for reject in self.rejects)
        return {reject.key: (reject.reason, reject.detail) for reject in self.rejects}


FORMAT = {field.name for field in dataclasses.fields(RowFormat)}


def read_rows(path: object, **options: Any) -> Read:
    given = {name: options.pop(name) for name in list(options) if name in FORMAT}
    where = path if isinstance(path, Inputs) else str(path)
    return Read(TextRows(input=where, format=RowFormat(**given), **options))


def write(path: pathlib.Path, content: str | bytes) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return bytes(sink.getvalue())


@pytest.fixture
def processes() -> Iterator[None]:
    yield
    pool.close_shared_pool()


HEBREW = "שלום עולם"
ARABIC = "\u202eمرحبا\u202c"  # noqa: RUF001
CSV = b"text,label\nfirst,a\nsecond,b\n"
TEXTS = {1: "first", 2: "second"}
TABLE = pa.table({"text": ["first", "second"], "label": ["a", "b"]})


def to_parquet(path: pathlib.Path) -> None:
    pyarrow.parquet.write_table(TABLE, path)


def to_feather(path: pathlib.Path) -> None:
    pyarrow.feather.write_feather(TABLE, path, compression="zstd")


def to_stream(path: pathlib.Path) -> None:
    with pa.ipc.new_stream(path, TABLE.schema) as sink:
        sink.write_table(TABLE)


JSON = b'{"text": "first", "label": "a"}\n\n{"text": "second", "label": "b"}'


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("t.csv", CSV, {}),
        ("t.CSV", CSV, {}),
        ("t.csv.gz", gz(CSV), {}),
        ("t.csv.gz", gz(CSV[:20]) + gz(CSV[20:]), {}),
        ("t.csv.bz2", bz2.compress(CSV), {}),
        ("t.csv.zst", zst(CSV), {}),
        ("t.csv.zst", zst(CSV[:20]) + zst(CSV[20:]), {}),
        ("t.csv", b"\xef\xbb\xbf" + CSV.replace(b"text", b'"text"'), {}),
        ("t.csv", b"\n\r\n" + CSV.replace(b"\n", b"\r\n"), {}),
        ("t.csv", CSV.replace(b"\n", b"\r"), {}),
        ("t.csv", CSV.replace(b",", b";"), {"delimiter": ";"}),
        ("t.csv", CSV[11:], {"columns": ("text", "label")}),
        ("t.tsv", CSV.replace(b",", b"\t"), {}),
        ("t.tsv.zst", zst(CSV.replace(b",", b"\t")), {}),
        ("t", CSV.replace(b",", b"\t"), {"format": "tsv"}),
        ("t.txt", CSV.replace(b",", b"\t"), {"format": "csv", "delimiter": "tab"}),
        ("t.csv", CSV.decode().encode("utf-16"), {"encoding": "utf-16"}),
        ("t.csv", CSV.decode().encode("utf-16-le"), {"encoding": "utf-16-le"}),
        ("t.csv.gz", gz(CSV.decode().encode("utf-16")), {"encoding": "utf-16"}),
        ("t.csv", CSV, {"encoding": "shift_jis"}),
        ("t.jsonl", JSON.replace(b"\n\n", b"\n"), {}),
        ("t.ndjson.gz", gz(JSON.replace(b"\n\n", b"\n")), {}),
        ("t.parquet", to_parquet, {}),
        ("t.feather", to_feather, {}),
        ("t.arrow", to_feather, {}),
        ("t.arrow", to_stream, {}),
        ("t.arrows", to_stream, {}),
    ],
)
def test_formats(
    name: str,
    content: bytes | Callable[[pathlib.Path], None],
    options: dict[str, Any],
    tmp_path: pathlib.Path,
) -> None:
    if isinstance(content, bytes):
        write(tmp_path / name, content)
    else:
        content(tmp_path / name)
    read = read_rows(tmp_path / name, **options)
    assert read.texts == {f"{name}#{number}": text for number, text in TEXTS.items()}
    assert [row["__label__"] for row in read.rows] == ["a", "b"]
    assert (read.rejects, read.filtered, read.notes) == ([], {}, ())
    assert read.layout.labelled
    assert not read.layout.grouped
    assert not read.layout.presplit


@pytest.mark.parametrize(
    ("name", "content", "options", "texts", "rejects"),
    [
        pytest.param(
            "t.csv",
            b"text,label\nna\xefve,a\nfine,a\n\xff\xfe,a\nfine,\xe9\n",
            {},
            {2: "fine"},
            dict.fromkeys((1, 3, 4), ("bad_value", "not UTF-8: name the encoding with --encoding")),
            id="invalid UTF-8",
        ),
        pytest.param(
            "t.csv",
            b"text\nna\xefve\n",
            {"encoding": "latin-1"},
            {1: "naïve"},
            {},
            id="latin-1",
        ),
        pytest.param(
            "t.csv",
            b"text,\xe9\nna\xefve,1\n\x81,1\nnot \x93bad\x94,1\n",
            {"encoding": "cp1252"},
            {1: "naïve", 3: "not “bad”"},
            {2: ("bad_value", "not CP1252: name the encoding with --encoding")},
            id="a byte that is nothing in its encoding",
        ),
        pytest.param(
            "t.jsonl",
            b'{"text": "\xff"}\n{"text": "fine"}',
            {},
            {2: "fine"},
            {1: ("bad_value", "not UTF-8: name the encoding with --encoding")},
            id="invalid UTF-8 in JSON",
        ),
        pytest.param(
            "t.txt",
            "one\ntwo\n".encode("utf-16") + b"\x00\xd8\n\0x\0",
            {"encoding": "utf-16"},
            {1: "one", 2: "two", 4: "x"},
            {3: ("bad_value", "not UTF-16: name the encoding with --encoding")},
            id="half a surrogate pair in UTF-16",
        ),
        pytest.param(
            "t.csv",
            b"text,label\na\0b,x\nfine,x\n\0,x\n",
            {},
            {2: "fine"},
            dict.fromkeys((1, 3), ("bad_value", "a zero byte: expected text")),
            id="zero bytes",
        ),
        pytest.param(
            "t.jsonl",
            b'{"text": "a\\u0000b"}\n{"text": "a\0b"}\n',
            {},
            {1: "a\0b"},
            {2: ("bad_value", "a zero byte: expected text")},
            id="zero bytes in JSON are data where they are written so",
        ),
        pytest.param(
            "t.jsonl",
            '{"text": "\\ud83d\\ude00"}\n{"text": "\\ud83d"}\n{"text": "\\ude00\\ud83d"}\n',
            {},
            {1: "😀"},
            dict.fromkeys((2, 3), ("bad_value", "an unpaired surrogate: expected both escapes of a"
                                   " pair, such as \\ud83d\\ude00")),
            id="lone surrogates in JSON",
        ),
        pytest.param(
            "t.csv",
            f"text,label\n{HEBREW},x\n{ARABIC},x\n",
            {},
            {1: HEBREW, 2: ARABIC},
            {},
            id="right to left",
        ),
        pytest.param(
            "t.csv",
            "text,label\nx,y,z\nx\n,y\n\"\",y\nx,\n",
            {},
            {},
            {
                1: ("bad_value", "expected 2 columns, got 3"),
                2: ("bad_value", "expected 2 columns, got 1"),
                3: ("empty", "no text in column 'text'"),
                4: ("empty", "no text in column 'text'"),
                5: ("unlabelled", f"no label: expected one in column 'label', row 5{KEPT}"),
            },
            id="rows without text, without label, of other lengths",
        ),
        pytest.param(
            "t.jsonl",
            '{"text": null}\n{}\n{"text": ["a"]}\n{"text": 1.0}\n{"text": true}\nnull\n{"text"\n',
            {},
            {4: "1", 5: "true"},
            {
                1: ("empty", "no text in column 'text'"),
                2: ("empty", "no text in column 'text'"),
                3: ("bad_value", "expected text or a number in column 'text', got a list"),
                6: ("bad_value", "expected a JSON object"),
                7: ("bad_value", "not valid JSON"),
            },
            id="JSON that is no text",
        ),
        pytest.param(
            "t.csv",
            f"text\nfine\n{'x' * 21}\n{'y' * 19}\n{'z' * 20}\n",
            {"max_row_bytes": 20},
            {1: "fine", 3: "y" * 19},
            {
                2: ("too_large", "a row of 22 bytes, more than --max-row-bytes 20; a quote may "
                    "be unclosed, or data (--quoting off)"),
                4: ("too_large", "a row of 21 bytes, more than --max-row-bytes 20; a quote may "
                    "be unclosed, or data (--quoting off)"),
            },
            id="rows that are too large",
        ),
        pytest.param(
            "t.jsonl.gz",
            gz(f'{{"text": "fine"}}\n{{"text": "{"x" * 300_000}"}}\n{{"text": "y"}}'
                          .encode()),
            {"max_row_bytes": 20},
            {1: "fine", 3: "y"},
            {2: ("too_large", "a row of 300013 bytes, more than --max-row-bytes 20")},
            id="a row of many chunks",
        ),
        pytest.param(
            "t.tsv",
            'text\tlabel\n"open\tx\nit "is"\tx\nlast"\tx\n',
            {},
            {1: '"open', 2: 'it "is"', 3: 'last"'},
            {},
            id="quotes are data in TSV",
        ),
        pytest.param(
            "t.csv",
            'text,label\n"open,x\nit ""is""",x\n5" disk,x\n',
            {"quoting": "off"},
            {1: '"open', 2: 'it ""is"""', 3: '5" disk'},
            {},
            id="quotes are data where the user says so",
        ),
        pytest.param(
            "t.csv",
            b"text,label\none\rtwo,x\n\"three\rfour\r\n\",x\r\n\rfive,x\r",
            {},
            {1: "one\rtwo", 2: "three\rfour\r\n", 3: "\rfive"},
            {},
            id="CR by itself is data where lines end with LF",
        ),
        pytest.param(
            "t.txt",
            " a \n\n\t\nb\r\nc",
            {},
            {1: " a ", 4: "b", 5: "c"},
            {},
            id="blank lines are no documents",
        ),
    ],
)  # fmt: skip
def test_bad_rows(
    name: str,
    content: str | bytes,
    options: dict[str, Any],
    texts: dict[int, str],
    rejects: dict[int, tuple[str, str]],
    tmp_path: pathlib.Path,
) -> None:
    read = read_rows(write(tmp_path / name, content), **options)
    assert read.texts == {f"{name}#{number}": text for number, text in texts.items()}
    assert read.told == {
        f"{name}#{number}": (reason, why if why.startswith("no label") else f"row {number}: {why}")
        for number, (reason, why) in rejects.items()
    }


def test_zero_bytes_are_data_in_formats_with_types(tmp_path):
    table = pa.table({"text": ["a\0b", "fine"], "label": ["x", "x"]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "t.arrow")
    names = [{"name": name, "type": "string"} for name in table.column_names]
    with (tmp_path / "t.avro").open("wb") as sink:
        fastavro.writer(sink, {"type": "record", "name": "R", "fields": names}, table.to_pylist())
    for name in ("t.parquet", "t.arrow", "t.avro"):
        read = read_rows(tmp_path / name)
        assert read.texts == {f"{name}#1": "a\0b", f"{name}#2": "fine"}
        assert read.rejects == []


def test_a_row_of_200_mb_is_not_held_in_memory(tmp_path: pathlib.Path) -> None:
    import resource

    with open(tmp_path / "t.tsv", "wb") as file:
        file.write(b"text\nfine\n")
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        file.write(b"\nlast\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = read_rows(tmp_path / "t.tsv", max_row_bytes=1 << 20)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert read.texts == {"t.tsv#1": "fine", "t.tsv#3": "last"}
    why = "row 2: a row of 200000001 bytes, more than --max-row-bytes 1048576"
    assert read.told == {"t.tsv#2": (Reason.TOO_LARGE, why)}
    assert grown < 60_000  # KiB


@pytest.mark.parametrize(
    ("columns", "options", "text", "label"),
    [
        (("text", "label"), {}, 0, 1),
        (("Label", "SMS"), {}, 1, 0),
        (("title", "body", "category"), {}, 1, 2),
        (("words", "Target"), {}, 0, 1),
        (("class", "anything"), {}, 1, 0),
        (("only",), {}, 0, None),
        (("id", "a", "split", "g"), {"key_column": "id", "group_column": "g"}, 1, None),
        (("a", "b"), {"text_column": "b"}, 1, None),
        (("label", "x"), {"text_column": "label"}, 0, None),
        (("class", "label", "text"), {"label_column": "class"}, 2, 0),
        (("a", "b", "c"), {"drop_columns": ("a", "c")}, 1, None),
        (("", "a"), {}, 1, None),
    ],
)
def test_columns(
    columns: tuple[str, ...],
    options: dict[str, Any],
    text: int,
    label: int | None,
    tmp_path: pathlib.Path,
) -> None:
    values = [f"v{n}" for n in range(len(columns))]
    path = write(tmp_path / "t.csv", f"{','.join(columns)}\n{','.join(values)}\n")
    read = read_rows(path, **options)
    (row,) = read.rows
    assert (row["text"], row["__label__"]) == (f"v{text}", None if label is None else f"v{label}")
    assert read.layout.labelled == (label is not None)
    assert read.notes == (
        ("a column without a name is ignored (pandas writes its index as such a column)",)
        if "" in columns
        else ()
    )
    if "g" in columns:
        assert [row[name] for name in SYSTEM] == ["v0", None, "v3", "v2"]
        assert read.layout.grouped
        assert read.layout.presplit


def test_keys_may_repeat_only_with_a_key_column(tmp_path: pathlib.Path) -> None:
    assert TextRows(input="x").unique_keys
    assert not TextRows(input="x", key_column="id").unique_keys
    read = read_rows(write(tmp_path / "t.csv", "id,text\n,a\n7,b\n"), key_column="id")
    assert read.texts == {"7": "b"}
    assert read.told == {"t.csv#1": (Reason.BAD_VALUE, "row 1: no key in column 'id'")}


def test_labels_and_splits(tmp_path: pathlib.Path) -> None:
    content = 'text,label,split\na,x,Val\nb,,train\nc,"x\ny",test\nd,z,dev\n'
    path = write(tmp_path / "t.csv", content)
    read = read_rows(path)
    assert [row["__split__"] for row in read.rows] == ["validation", "validation"]
    assert [reject.reason for reject in read.rejects] == [Reason.UNLABELLED, Reason.BAD_VALUE]
    read = read_rows(path, unlabelled="keep")
    assert [row["__label__"] for row in read.rows] == ["x", None, "z"]


def test_other_columns_become_user_columns(tmp_path: pathlib.Path) -> None:
    content = "a,b,c,d,e,text\n1,1.5,true,007,,x\n,2,false,1,,y\n"
    read = read_rows(write(tmp_path / "t.csv", content))
    types = {"a": pa.int64(), "b": pa.float64(), "c": pa.bool_(), "d": pa.string()}
    columns = {f.name: f.type for f in read.layout.columns if len(f.name) == 1}
    assert columns == {**types, "e": pa.string()}
    assert [[row[name] for name in "abcde"] for row in read.rows] == [
        [1, 1.5, True, "007", None],
        [None, 2.0, False, "1", None],
    ]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_types_hold_all_rows_of_all_files(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[Any] = [1, 2, 3.5, None, 4, "x", 6]
    for number, value in enumerate(values):
        row = {"text": "t", "n": value, "m": number, "o": None if number else 0.5}
        if name == "t.csv":
            texts = ["" if v is None else str(v) for v in row.values()]
            content = ",".join(row) + "\n" + ",".join(texts) + "\n"
        else:
            content = json.dumps({k: v for k, v in row.items() if v is not None})
        write(tmp_path / f"{number}{name}", content)
    monkeypatch.setattr(limits, "PART_SECTIONS", 2)
    pattern = tmp_path / "[0-4]*"
    read = read_rows(pattern)
    assert [len(part) for part in read.parts] == [2, 2, 1]
    assert read.layout.columns.field("n").type == pa.float64()
    assert [row["n"] for row in read.rows] == [1.0, 2.0, 3.5, None, 4.0]
    read = read_rows(tmp_path)
    kinds = [read.layout.columns.field(name).type for name in "nmo"]
    assert kinds == [pa.string(), pa.int64(), pa.float64()]
    assert [row["n"] for row in read.rows] == ["1", "2", "3.5", None, "4", "x", "6"]
    assert [row["m"] for row in read.rows] == list(range(7))


def test_types_of_several_parquet_files(tmp_path: pathlib.Path) -> None:
    for number, kind in enumerate((pa.int32(), pa.int64())):
        columns = {"text": pa.array(["a"]), "n": pa.array([number], kind)}
        columns["d"] = pa.array(["x"]).dictionary_encode()
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    read = read_rows(tmp_path)
    assert [read.layout.columns.field(name).type for name in "nd"] == [pa.int64(), pa.string()]
    assert [(row["n"], row["d"]) for row in read.rows] == [(0, "x"), (1, "x")]


def test_lists_with_a_null_inside(tmp_path: pathlib.Path) -> None:
    lines = ['{"text": "a", "v": [1, 2]}', '{"text": "b", "v": [null]}', '{"text": "c"}']
    read = read_rows(write(tmp_path / "t.jsonl", "\n".join(lines)))
    assert [row["v"] for row in read.rows] == [[1, 2], None]
    assert [reject.key for reject in read.rejects] == ["t.jsonl#2"]


def shards(folder: pathlib.Path) -> None:
    write(folder / "a.csv", "text\na1\na2\n")
    write(folder / "b.csv.gz", gz(b"text\nb1\n"))
    write(folder / "deep/er/c.csv", "text\nc1\n")
    write(folder / "deep/d.tsv", "text\nd1\n")
    write(folder / "empty.csv", "")
    write(folder / ".hidden.csv", "text\nx\n")
    write(folder / ".git/x.csv", "text\nx\n")
    write(folder / "README.md", "x")
    write(folder / "_SUCCESS", "")


@pytest.mark.parametrize("scheme", ["", "mock:///"])
@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("*.csv", ["a.csv#1", "a.csv#2"]),
        ("a.csv", ["a.csv#1", "a.csv#2"]),
        ("?.csv*", ["a.csv#1", "a.csv#2", "b.csv.gz#1"]),
        ("**/*.csv", ["a.csv#1", "a.csv#2", "deep/er/c.csv#1"]),
        ("deep/**", None),
        ("deep/*/*", ["er/c.csv#1"]),
        ("[d]eep/*.tsv", ["deep/d.tsv#1"]),
        ("deep", None),
    ],
)
def test_patterns(
    scheme: str, pattern: str, keys: list[str] | None, tmp_path: pathlib.Path
) -> None:
    shards(tmp_path)
    root = str(tmp_path)
    if scheme:
        place = Location.parse(root := f"{scheme}{uuid.uuid4().hex}")
        for path in tmp_path.rglob("*"):
            if path.is_file():
                there = place / str(path.relative_to(tmp_path))
                there.parent.make_dirs()
                # pyarrow packs what it writes under the name of a packed file.
                (place / "new").write_bytes(path.read_bytes())
                (place / "new").rename_to(there)
    if keys is None:
        with pytest.raises(ConfigError, match=r"expected files of one format in .*, got .* such"):
            read_rows(f"{root}/{pattern}")
        return
    read = read_rows(f"{root}/{pattern}")
    assert [row["__key__"] for row in read.rows] == keys
    assert read.rejects == []
    hidden = {"*.csv": 1, "**/*.csv": 2}.get(pattern)
    assert read.filtered == ({} if hidden is None else {"hidden": hidden, "empty": 1})


def test_a_folder_of_shards(tmp_path: pathlib.Path) -> None:
    shards(tmp_path)
    (tmp_path / "deep/d.tsv").unlink()
    (tmp_path / "gone.csv").symlink_to("nowhere")
    read = read_rows(tmp_path)
    assert list(read.texts) == ["a.csv#1", "a.csv#2", "b.csv.gz#1", "deep/er/c.csv#1"]
    assert read.told == {
        "gone.csv": (Reason.MISSING, "a symbolic link to a missing file"),
    }
    assert read.filtered == {"hidden": 2, "job": 1, "empty": 1, "extension": 1}
    assert len(read.parts) == 1


def test_a_folder_of_shards_by_split(tmp_path: pathlib.Path) -> None:
    for split in ("train", "Val", "test"):
        write(tmp_path / split / "0.jsonl", '{"text": "x"}')
    read = read_rows(tmp_path)
    assert {row["__key__"]: row["__split__"] for row in read.rows} == {
        "train/0.jsonl#1": "train",
        "Val/0.jsonl#1": "validation",
        "test/0.jsonl#1": "test",
    }
    assert read.layout.presplit
    write(tmp_path / "other/0.jsonl", '{"text": "x"}')
    with pytest.raises(ConfigError, match=r"named as splits \(Val, test, train\) beside others"):
        read_rows(tmp_path)
    inputs = Inputs(paths=(InputPath(str(tmp_path)),), split_from="none")
    assert not read_rows(inputs).layout.presplit


def test_columns_may_come_in_another_order(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.csv", "text,label,n\nx,a,1\n")
    write(tmp_path / "b.csv", "n,label,text\n2,b,y\n")
    read = read_rows(tmp_path)
    assert [(r["text"], r["__label__"], r["n"]) for r in read.rows] == [
        ("x", "a", 1),
        ("y", "b", 2),
    ]


@pytest.mark.parametrize("size", [100, 1000, 4000])
def test_large_files_have_many_parts(
    size: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "".join(f'"text, {n}\n{"x" * (n % 7)}",{n}\n' for n in range(500))
    write(tmp_path / "a.csv", "text,n\n" + body)
    write(tmp_path / "b.csv", "text,n\nlast,1\n")
    whole = read_rows(tmp_path, label_column="n")
    assert len(whole.parts) == 1
    monkeypatch.setattr(limits, "PART_BYTES", size)
    read = read_rows(tmp_path, label_column="n")
    assert len(read.parts) > 8_000 // size
    assert read.rows == whole.rows
    keys = [row["__key__"] for row in read.listed]
    assert len(set(keys)) == len(keys)
    assert (keys[0], keys[-1]) == ("a.csv@7", "b.csv@7")
    assert whole.notes == read.notes
    assert read.notes[0].startswith(
        "quotes may be data: 500 rows with a value that spans lines, the first is a.csv#1: --quot"
    )


def test_parts_are_bounded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(json.dumps({"text": "x" * 100_000, "n": n}) + "\n" for n in range(100))
    read = read_rows(write(tmp_path / "t.jsonl", lines))
    assert [row["n"] for row in read.rows] == list(range(100))
    assert len(read.parts) == 2
    monkeypatch.setattr(limits, "PART_ROWS", 10)
    write(tmp_path / "s.csv.gz", gz(b"text\n" + b"x\n" * 35))
    assert len(read_rows(tmp_path / "s.csv.gz").rows) == 35


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.arrow", "t.csv.gz"])
def test_a_file_that_changed_since_it_was_listed(name: str, tmp_path: pathlib.Path) -> None:
    content: dict[str, Any] = {"t.csv": CSV, "t.jsonl": JSON, "t.csv.gz": gz(CSV)}
    if name in content:
        write(tmp_path / name, content[name])
    else:
        (to_parquet if "parquet" in name else to_feather)(tmp_path / name)
    source = TextRows(input=str(tmp_path / name))
    listed, _ = source.scan()
    layout = source.layout([listed.rows])
    source = pickle.loads(pickle.dumps(source))  # as another process gets it
    write(tmp_path / name, (tmp_path / name).read_bytes() + b"\n")
    with pytest.raises(ChangedInputError, match=f"{name} changed while the job ran"):
        list(source.read(listed.rows, layout))
    (tmp_path / name).unlink()
    with pytest.raises(ChangedInputError, match=f"{name} vanished while the job ran"):
        list(source.read(listed.rows, layout))


def test_a_truncated_compressed_file_fails_the_job(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.tsv.gz", gz(b"text\n" + b"x\n" * 100_000)[:-10])
    source = TextRows(input=str(path))
    listed, _ = source.scan()
    layout = source.layout([listed.rows])
    with pytest.raises(RunError, match=f"cannot parse the file {path}: Compressed file ended"):
        list(source.read(listed.rows, layout))


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "the input {}/in does not exist: check the path"),
        ({"in/x": ""}, {}, "found no rows in {}/in (1 left out as extension): expected a file of"),
        ({"in/a.csv": "", "in/.b.csv": ""}, {}, "(1 left out as empty, 1 left out as hidden)"),
        ({"in/a.csv": "text\n"}, {}, "in {}/in: the only row of a.csv was read as its header"),
        ({"in/a.jsonl": "\n\n"}, {}, "no usable record in {}/in: expected JSON objects"),
        ({"in/a.jsonl": "1\n[2]"}, {}, "no usable record in {}/in: expected JSON objects"),
        ({"in/a.jsonl": '{"a.b": 1, "a": {"b": 2}}'}, {}, "and distinct names (b in "),
        ({"in/a.csv": "a,b\n1,2\n"}, {}, "found no column of texts in {}/in: expected one of"),
        ({"in/a.csv": "a,b\n1,2\n"}, {}, "it has 'a', 'b'; name the column with --text-column"),
        (
            {"in/a.csv": "doc,label\nd/1.txt,x\nd/2.txt,y\n", "in/d/1.txt": "a", "in/d/2.txt": "b"},
            {"input": "in/a.csv"},
            "the column 'doc' holds names of files, such as d/1.txt: --path-column doc reads these",
        ),
        (
            {"in/a.csv": "Filename,label\n1.txt,x\n"},
            {},
            "the column 'Filename' is named like a column of paths, and it does not hold names of",
        ),
        (
            {"in/a.csv": "filename,label,split,group,n\n1.txt,x,train,g,1\n"},
            {},
            "does not hold names of text files beside the table: --input-root names the folder of"
            " the files; if another column ('group', 'n') holds the texts, name it with --text-col",
        ),
        (
            {"in/a.csv.gz": gzip.compress(b"file,label,n\n1.txt,x,1\n"), "in/1.txt": "a"},
            {"input": "in/a.csv.gz"},
            "the column 'file' holds names of files, such as 1.txt: --path-column file reads these",
        ),
        (
            {f"in/{name}.csv": "file,label\n../1.txt,x\n" for name in ("train", "test")}
            | {"1.txt": "a"},
            {},
            "such as ../1.txt: --input test={0}/in/test.csv --input train={0}/in/train.csv reads",
        ),
        (
            {f"in/{name}.csv": "doc,label\n../1.txt,x\n" for name in "abcde"} | {"1.txt": "a"},
            {},
            "--input {0}/in/c.csv --input {0}/in/d.csv ... --path-column doc reads these files; if",
        ),
        (
            {"in/a.csv": "doc_id,label\n1,x\n"},
            {},
            "the column 'doc_id' is named like a column of keys: if the keys name files, --path",
        ),
        (
            {"in/a.csv": "a,b\n1,2\n"},
            {"text_column": "c"},
            "no column 'c' in {}/in: it has 'a', 'b",
        ),
        ({"in/a.jsonl": '{"a": 1}'}, {"label_column": "b"}, "no column 'b' in {}/in: it has 'a'"),
        (
            {"in/a.csv": "a,b\n1,2\n"},
            {"drop_columns": ("bb",)},
            "'bb' in {}/in (did you mean 'b'?)",
        ),
        (
            {"in/a.csv": "text,b\nx,1\n", "in/b.csv": "text\ny\n"},
            {},
            "b.csv has no column 'b', but a.csv has it: b.csv has 'text'; give all files the same",
        ),
        (
            {"in/a.csv": "text\nx\n", "in/b.csv": "text,b\ny,1\n"},
            {},
            "a.csv has no column 'b', but b.csv has it: a.csv has 'text'; give all files the same",
        ),
        ({"in/a.csv": "body,text\nx,y\n"}, {"text_column": "body"}, "drop it with --drop-col"),
        (
            {"in/a.csv": "text,text\nx,y\n"},
            {},
            "{}/in/a.csv has duplicate column names: text; rename",
        ),
        ({"in/a.csv": "text,__x\nx,y\n"}, {}, "column '__x' in {}/in starts with two underscores"),
        ({"in/a.csv": b"text,\xff\nx,y\n"}, {}, "cannot parse the file {}/in/a.csv: 'utf-8'"),
        ({"in/a.csv": b"text,\xff\nx,y\n"}, {}, "name the encoding with --encoding"),
        ({"in/a.csv": "text\nx\n".encode("utf-16")}, {}, "or pass --encoding utf-16"),
        (
            {"in/a.jsonl": "{}".encode("utf-16")},
            {},
            "seems to be UTF-16: save it as UTF-8, or pass --encoding utf-16",
        ),
        ({"in/a.csv": "text,label\n".encode("utf-16-le")}, {}, "or pass --encoding utf-16-le"),
        ({"in/a.csv": "text,label\n".encode("utf-16-be")}, {}, "or pass --encoding utf-16-be"),
        ({"in/a.csv": "text\nx\n".encode("utf-32")}, {}, "or pass --encoding utf-32"),
        (
            {"in/a.csv": 'text\nx\n"y\nz\n'},
            {},
            "unclosed quote in {}/in/a.csv: row 2 begins in line 3 and extends to the end of th",
        ),
        ({"in/a.csv": 'text\nx\n"y\nz\n'}, {}, "if quotes are data there, pass --quoting off"),
        (
            {"in/a.csv": '"text\nx\n'},
            {},
            "the header of {}/in/a.csv has no end: check for an unclosed",
        ),
        (
            {"in/a.csv": "A,B\nx,y\n"},
            {"columns": ("a", "b")},
            "--columns is for files without hea",
        ),
        ({"in/a.parquet": "PAR1"}, {}, "cannot parse the file {}/in/a.parquet: Parquet file"),
        ({"in/a.arrow": "x"}, {}, "cannot parse the file {}/in/a.arrow: "),
        (
            {"in/a.feather": "FEA1    "},
            {},
            "{}/in/a.feather is Feather version 1: write it as",
        ),
        ({"in/a.csv.gz": "x"}, {}, "the file {}/in/a.csv.gz is not gzip-compressed data"),
        ({"in/a.csv.zst": "x" * 99}, {}, "the file {}/in/a.csv.zst is not zstd-compressed data"),
        ({"in/a.parquet.gz": "x"}, {}, "expected parquet with internal compression"),
        (
            {"in/a.csv": CSV},
            {"encoding": "no such"},
            "--encoding: expected an encoding, such as",
        ),
        ({"in/a.csv": CSV}, {"encoding": "rot13"}, "--encoding: expected an encoding, such as"),
        ({"in/a.csv": CSV}, {"delimiter": "ab"}, "--delimiter: expected one ASCII character"),
        ({"in/a.csv": CSV}, {"delimiter": "é"}, "--delimiter: expected one ASCII character"),
        ({"in/a.csv": CSV}, {"delimiter": '"'}, "--delimiter: expected one ASCII character"),
        ({"in/a.csv": CSV}, {"format": "xls"}, "--format: expected one of auto, csv, tsv, jsonl,"),
        (
            {"in/a.csv": CSV},
            {"quoting": "no"},
            "--quoting: expected one of auto, on, off, got 'no'",
        ),
        ({"in/a.csv": CSV}, {"columns": ("a", "a")}, "--columns: expected unique names, one per"),
        (
            {"in/a.csv": CSV},
            {"max_row_bytes": 0},
            "--max-row-bytes: expected 1 to 1073741824, got 0",
        ),
        ({"in/a.csv": CSV}, {"unlabelled": "x"}, "--unlabelled: expected one of reject, keep"),
        (
            {"in/a.jsonl": "{}"},
            {"delimiter": ";"},
            "--delimiter applies to csv, tsv, but a.jsonl is read as jsonl: leave it out, or pass",
        ),
        (
            {"in/a.csv": CSV},
            {"format": "tfrecord", "encoding": "latin-1"},
            "--encoding applies to csv, tsv, jsonl, lines, parquet, arrow, avro, but the input is",
        ),
    ],
)
def test_unusable_inputs(
    files: dict[str, str | bytes], options: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    for name, content in files.items():
        write(tmp_path / name, content)
    with pytest.raises(ConfigError) as caught:
        read_rows(tmp_path / options.pop("input", "in"), **options)
    assert message.format(tmp_path) in str(caught.value)


def test_a_named_column_of_names_of_files_is_noted(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "1.txt", "a text")
    table = write(tmp_path / "a.csv", "file,title\n1.txt,A\n1.txt,B\n")
    (note,) = read_rows(table, text_column="file").notes
    assert "'file', which are names of files, such as 1.txt: --path-column file instead" in note
    assert read_rows(table, text_column="title").notes == ()
    write(table, "file,label\n1.txt,A\nno file,B\n")
    read = read_rows(table, text_column="file")
    assert (read.notes, len(read.rows)) == ((), 2)


@pytest.mark.parametrize(
    ("header", "values", "noted"),
    [
        ("file,title", "1.txt,A 2.txt,B", True),
        ("file,title", "1.txt,A gone.txt,B", False),
        ("file,title", "1.png,A 2.png,B", False),
        ("doc,title", "1.txt,A 2.txt,B", False),
    ],
)
def test_listed_files_beside_texts_are_noted(
    header: str, values: str, noted: bool, tmp_path: pathlib.Path
) -> None:
    for name in ("1.txt", "2.txt", "1.png", "2.png"):
        write(tmp_path / name, "a text")
    table = write(tmp_path / "a.csv", "\n".join([header, *values.split(), ""]))
    text = (
        "the texts are the values of the column 'title'; the column 'file' names text files, such"
        " as 1.txt, which --path-column file reads instead"
    )
    assert [str(one) for one in read_rows(table).notes] == [text] * noted


def test_files_without_values(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "x.dat", CSV)
    with pytest.raises(ConfigError, match=r"x.dat has no extension of a known format: .*--form"):
        read_rows(tmp_path / "x.dat")
    with pytest.raises(ConfigError, match=r"no file matches .*/n/\*.csv: there is no folder .*/n"):
        read_rows(tmp_path / "n/*.csv")
    with pytest.raises(ConfigError, match=r"found no rows in .*\*.csv: expected a file of rows"):
        read_rows(tmp_path / "*.csv")


def test_columns_that_are_not_text(tmp_path: pathlib.Path) -> None:
    table = pa.table({"text": ["x"], "label": [[[1]]], "when": pa.array([0], pa.time32("s"))})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="expected text or numbers in column 'label', got list"):
        read_rows(tmp_path / "t.parquet", drop_columns=("when",))
    with pytest.raises(ConfigError, match=r"column 'when' has type time32"):
        read_rows(tmp_path / "t.parquet", drop_columns=("label",))
    read = read_rows(tmp_path / "t.parquet", drop_columns=("label", "text"))
    assert list(read.texts.values()) == ["00:00:00.000"]


MESSAGES = 5574


def test_all_messages() -> None:
    read = read_rows(SMS, format="tsv")
    lines = SMS.read_bytes().decode().split("\n")[1:-1]
    assert len(lines) == MESSAGES
    found = [f"{row['__label__']}\t{row['text']}" for row in read.rows]
    assert found == lines
    assert [row["__key__"] for row in read.rows] == [
        f"SMSSpamCollection#{n}" for n in range(1, MESSAGES + 1)
    ]
    assert (read.rejects, read.notes) == ([], ())
    assert collections.Counter(row["__label__"] for row in read.rows) == {"ham": 4827, "spam": 747}


def test_quotes_that_may_be_data_are_noted() -> None:
    read = read_rows(SMS, format="tsv", quoting="on")
    assert len(read.rows) == MESSAGES - 2
    (note,) = read.notes
    assert note == (
        "quotes may be data: 10 rows with text after a closing quote, the first is"
        " SMSSpamCollection#283; 1 row with a value that spans lines, the first is"
        " SMSSpamCollection#5082: --quoting off reads quotes as data"
    )


def read_tree(root: pathlib.Path, **options: Any) -> Read:
    return Read(TextFolder(input=str(root), **options))


def test_folders_by_class(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "pos/1.txt", "good\nmovie\n")
    write(tmp_path / "pos/deep/2", "\ufeffnice")
    write(tmp_path / "neg/3.txt", "bad")
    write(tmp_path / "4.txt", "whose?")
    write(tmp_path / "neg/cover.JPG", "x")
    write(tmp_path / "neg/.x", "x")
    read = read_tree(tmp_path)
    assert {row["__key__"]: (row["__label__"], row["text"]) for row in read.rows} == {
        "pos/1.txt": ("pos", "good\nmovie\n"),
        "pos/deep/2": ("pos", "nice"),
        "neg/3.txt": ("neg", "bad"),
    }
    assert read.told == {
        "4.txt": (
            Reason.UNLABELLED,
            f"no label: expected LABEL/FILE{KEPT}",
        )
    }
    assert read.filtered == {"extension": 1, "hidden": 1}
    assert read.layout.labelled
    assert not read.layout.presplit
    assert "4.txt" in read_tree(tmp_path, unlabelled="keep").texts


def test_files_of_a_project_are_no_documents(tmp_path: pathlib.Path) -> None:
    for name in ("a/1.txt", "b/2.txt", "LICENSE", "a/README.md", "b/license/3.txt"):
        write(tmp_path / name, "x")
    read = read_tree(tmp_path)
    assert [*read.texts] == ["a/1.txt", "b/2.txt", "b/license/3.txt"]
    assert (read.filtered, read.told, read.notes) == ({"project file": 2}, {}, ())
    assert [*read_tree(tmp_path / "**/README.md").texts] == ["a/README.md"]


@pytest.mark.parametrize("end", ["ann", "lab", "json", "xml"])
def test_annotations_beside_texts_are_no_documents(end: str, tmp_path: pathlib.Path) -> None:
    for number in range(4):
        write(tmp_path / f"{number}.txt", "x")
        write(tmp_path / f"{number}.{end}", "x")
    pairs = "4 pairs of files in .* differ only in the extension, such as 0.* and 0.*"
    only = rf"{pairs}: if only the .txt are documents, pass --input '?{tmp_path}/\*.txt'?; if both"
    for documents in ("file", "line"):
        with pytest.raises(ConfigError, match=only):
            read_tree(tmp_path, documents=documents)
    read = read_tree(tmp_path / "*.txt")
    assert ([*read.texts], read.notes) == (["0.txt", "1.txt", "2.txt", "3.txt"], ())
    read = read_tree(tmp_path / "*")
    assert (len(read.rows), len(read.notes)) == (8, 1)
    assert read.notes[0].endswith(f": --input '{tmp_path}/*.txt' reads only the .txt")
    for number in range(1, 4):
        (tmp_path / f"{number}.{end}").unlink()
    (note,) = read_tree(tmp_path).notes
    assert note.startswith("1 pair of files in")
    assert note.endswith("*.txt' reads only the .txt")
    (tmp_path / f"0.{end}").rename(tmp_path / f"all.{end}")
    (note,) = read_tree(tmp_path).notes
    assert note.startswith(f"1 .{end} file among the documents of {tmp_path}, such as all.{end},")


def test_annotations_that_do_not_follow_their_texts(tmp_path: pathlib.Path) -> None:
    for name in ("1.a1", "1.a2", "1.ann", "1.b.txt", "1.txt", "2.txt"):
        write(tmp_path / name, "x")
    found = f"1 pair of files in {tmp_path} differs only in the extension, such as 1.a1 and 1.txt"
    (note,) = read_tree(tmp_path).notes
    assert note == f"{found}: --input '{tmp_path}/*.txt' reads only the .txt"
    (tmp_path / "1.b.txt").unlink()
    with pytest.raises(ConfigError, match=f"{found}: if only the .txt are documents, pass"):
        read_tree(tmp_path)


@pytest.mark.parametrize("deep", ["", "neg/"])
def test_annotations_in_another_folder_are_no_documents(deep: str, tmp_path: pathlib.Path) -> None:
    for number in range(3):
        write(tmp_path / f"texts/{deep}{number}.txt", "x")
        write(tmp_path / f"annotations/{deep}{number}.json", "{}")
    stars = "**/*" if deep else "*"
    expected = (
        f"3 .txt files in {tmp_path} have the same names as .json files in other folders, such"
        f" as annotations/{deep}0.json and texts/{deep}0.txt: if only the .txt are documents, pass"
        f" --input '{tmp_path}/texts/{stars}.txt'; if both are, pass --input '{tmp_path}/**/*'"
    )
    with pytest.raises(ConfigError) as caught:
        read_tree(tmp_path)
    assert str(caught.value) == expected
    assert len(read_tree(tmp_path / f"texts/{stars}.txt").rows) == 3
    assert len(read_tree(tmp_path / "**/*").rows) == 6
    for number in range(1, 3):
        (tmp_path / f"annotations/{deep}{number}.json").unlink()
    (note,) = read_tree(tmp_path).notes
    assert note.startswith(f"1 .txt file in {tmp_path} has the same name as .json files in")


@pytest.mark.parametrize(
    ("around", "other", "deep", "only"),
    [
        ("", "labels", "", "texts"),
        ("", "ann", "c/", "texts"),
        ("train/", "Annotations", "", "*/texts/*"),
        ("train/", "lab", "c/", "*/texts/**/*"),
    ],
)
def test_annotations_with_the_extension_of_their_texts_are_no_documents(
    around: str, other: str, deep: str, only: str, tmp_path: pathlib.Path
) -> None:
    for folder in (other, "texts"):
        for number in range(3):
            write(tmp_path / f"{around}{folder}/{deep}{number}.txt", "x")
    first = [f"{around}{folder}/{deep}0.txt" for folder in (other, "texts")]
    expected = (
        f"3 pairs of files in {tmp_path} differ only in a folder, such as {' and '.join(first)}:"
        f" if only the texts are documents, pass --input {shlex.quote(f'{tmp_path}/{only}')}; if"
        f" both are, pass --input '{tmp_path}/**/*'"
    )
    with pytest.raises(ConfigError) as caught:
        read_tree(tmp_path)
    assert str(caught.value) == expected
    assert len(read_tree(tmp_path / only).rows) == 3
    read = read_tree(tmp_path / "**/*")
    assert (len(read.rows), len(read.notes)) == (6, 1)
    write(tmp_path / f"{around}third/{deep}0.txt", "x")  # they are classes
    read = read_tree(tmp_path)
    assert len(read.rows) == 7
    assert not any("pairs of files" in note for note in read.notes)


def test_annotations_of_unlabelled_texts_are_reported_first(tmp_path: pathlib.Path) -> None:
    for split in ("train", "test"):
        for end in ("a1", "txt"):
            write(tmp_path / f"{split}/1.{end}", "x")
    with pytest.raises(ConfigError, match=r"2 pairs of files in .* differ only in the extension"):
        read_tree(tmp_path)
    for split in ("train", "test"):
        (tmp_path / f"{split}/1.a1").unlink()
    with pytest.raises(ConfigError, match="2 rejected as unlabelled"):
        read_tree(tmp_path)


def test_equal_names_of_classes_and_numbers_are_documents(tmp_path: pathlib.Path) -> None:
    for number in range(3):
        write(tmp_path / f"neg/doc.{number}", "x")
        write(tmp_path / f"neg/{number}.txt", "x")
        write(tmp_path / f"pos/{number}.md", "x")
    assert (len(read_tree(tmp_path).rows), read_tree(tmp_path).notes) == (9, ())


@pytest.mark.parametrize("folder", ["", "splits/"])
@pytest.mark.parametrize("extension", ["", ".txt"])
def test_lists_of_documents_are_no_documents(
    folder: str, extension: str, tmp_path: pathlib.Path
) -> None:
    for number in range(3):
        write(tmp_path / f"a/x{number}.txt", "x")
        write(tmp_path / f"z/z{number}.txt", f"x{number}{extension}\n")
    write(tmp_path / "a/train.txt", f"x0{extension}\nanother line\n")  # it is a document
    for split, number in (("train", 0), ("val", 1), ("test", 2)):
        lines = f"{'a/' * (not extension)}x{number}{extension}\nz{number}{extension} 1\n"
        write(tmp_path / f"{folder}{split}.txt", lines)
    read = read_tree(tmp_path)
    names = ["a/train", *(f"{at}{number}" for at in ("a/x", "z/z") for number in range(3))]
    assert {*read.texts} == {f"{name}.txt" for name in names}
    assert (read.filtered, read.told) == ({"list of names": 3}, {})
    given = ",".join(
        f"{split}={tmp_path}/{folder}{name}.txt"
        for split, name in (("test", "test"), ("train", "train"), ("validation", "val"))
    )
    assert (
        f"3 lists of the files of splits in {tmp_path} were not read: --split-files {given}"
        in (read.notes[0])
    )


def test_lists_of_an_option_are_no_documents(tmp_path: pathlib.Path) -> None:
    for number in range(2):
        write(tmp_path / f"a/{number}.txt", "x")
    write(tmp_path / "of test.list", "0\n")
    (tmp_path / "linked.list").symlink_to(tmp_path / "of test.list")
    lists = {"test": str(tmp_path / "linked.list"), "train": "*"}
    for pattern in ("", "/**/*"):
        inputs = Inputs(paths=(InputPath(f"{tmp_path}{pattern}"),), split_files=lists)
        read = Read(TextFolder(input=inputs, labelled=False))
        splits = {row["__key__"]: row["__split__"] for row in read.rows}
        assert splits == {"a/0.txt": "test", "a/1.txt": "train"}
        assert read.filtered == {"list of names": 2}


def test_pairs_among_many_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_extensions, "_HELD", 100)
    found = DocumentExtensions()
    for end in ("ann", "txt"):
        for number in range(5000):
            found.add(f"{end}s/{number}.{end}")
    with pytest.raises(ConfigError, match=r"^([\d,]+) \.txt files in texts have") as caught:
        found.notes(Inputs.of("texts"), of_folder=True, archived=False)
    count = int(str(caught.value).split(" ")[0].replace(",", ""))
    assert 4000 < count < 6000
    assert len(found._sample._keys) <= 101
    found = DocumentExtensions()
    for number in range(5000):
        for name in ("text.txt", "meta.json"):
            found.add(f"{number}/{name}")
        found.add(f"{number}/text.ann")
    with pytest.raises(ConfigError, match=r"^[\d,]+ pairs of files in texts differ only in the"):
        found.notes(Inputs.of("texts"), of_folder=True, archived=False)
    assert len(found._sample._keys) <= 101


@pytest.mark.parametrize("documents", ["file", "line"])
def test_folders_by_class_and_split(documents: Any, tmp_path: pathlib.Path) -> None:
    write(tmp_path / "train/pos/1.txt", "good\r\n\nmovie\n")
    write(tmp_path / "val/neg/2.txt", "bad")
    write(tmp_path / "test/3.txt", "whose?")
    read = read_tree(tmp_path, documents=documents)
    found = [[*(row[name] for name in SYSTEM), row["text"]] for row in read.rows]
    if documents == "file":
        assert found == [
            ["train/pos/1.txt", "pos", None, "train", "good\r\n\nmovie\n"],
            ["val/neg/2.txt", "neg", None, "validation", "bad"],
        ]
    else:
        assert found == [
            ["train/pos/1.txt#1", "pos", None, "train", "good"],
            ["train/pos/1.txt#3", "pos", None, "train", "movie"],
            ["val/neg/2.txt#1", "neg", None, "validation", "bad"],
        ]
    assert [reject.key for reject in read.rejects] == ["test/3.txt"]
    assert read.layout.presplit


NO_UTF8 = (Reason.BAD_VALUE, "not UTF-8: name the encoding with --encoding")


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (b"", {}, (Reason.EMPTY, "a file of 0 bytes")),
        (b"\xef\xbb\xbf", {}, (Reason.EMPTY, "a file of 0 bytes")),
        (b"na\xefve", {}, NO_UTF8),
        (b"na\xefve", {"encoding": "Latin-1"}, "naïve"),
        (b"\x81", {"encoding": "cp1252"}, (Reason.BAD_VALUE, "not CP1252: name the encoding with --"
                                           "encoding")),
        ("x😀".encode("utf-16"), {"encoding": "utf-16"}, "x😀"),
        ("x😀".encode("utf-16"), {}, (Reason.BAD_VALUE, "not UTF-8: it looks like UTF-16, which"
                                      " --encoding utf-16 reads")),
        (b"a\0b", {}, (Reason.BAD_VALUE, "a zero byte: expected text")),
        ("مرحبا\u202e".encode(), {}, "مرحبا\u202e"),
        (b"12345", {"max_row_bytes": 5}, "12345"),
        (b"123456", {"max_row_bytes": 5}, (Reason.TOO_LARGE, "a document of 6 bytes, more than --m"
                                           "ax-row-bytes 5")),
    ],
)  # fmt: skip
def test_unusual_documents(
    content: bytes, options: dict[str, Any], expected: Any, tmp_path: pathlib.Path
) -> None:
    write(tmp_path / "1.txt", content)
    write(tmp_path / "2.txt", "good".encode(options.get("encoding", "utf-8")))
    options = {"max_row_bytes": 100, **options}
    read = read_tree(tmp_path, **options)
    assert read.texts["2.txt"] == "good"
    assert not read.layout.labelled
    assert (read.texts.get("1.txt") or read.told["1.txt"]) == expected


def test_bad_lines_of_text_files(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "x.txt", b"a\n\xff\nb\0\n" + b"c" * 50 + b"\nd")
    read = read_tree(tmp_path, documents="line", max_row_bytes=20)
    assert read.texts == {"x.txt#1": "a", "x.txt#5": "d"}
    assert {key: reason for key, (reason, _) in read.told.items()} == {
        "x.txt#2": Reason.BAD_VALUE,
        "x.txt#3": Reason.BAD_VALUE,
        "x.txt#4": Reason.TOO_LARGE,
    }


def test_many_documents_are_read_together(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        write(tmp_path / f"{number:02}.txt", "x" * 10)
    monkeypatch.setattr(limits, "PART_BYTES", 95)
    assert [len(part) for part in read_tree(tmp_path).parts] == [9, 9, 7]
    monkeypatch.setattr(limits, "PART_SECTIONS", 8)
    assert [len(part) for part in read_tree(tmp_path).parts] == [8, 8, 8, 1]
    monkeypatch.setattr(limits, "BATCH_BYTES", 3)
    assert len(read_tree(tmp_path, documents="line").rows) == 25


def test_a_document_that_changed_since_it_was_listed(tmp_path: pathlib.Path) -> None:
    for documents in ("file", "line"):
        write(tmp_path / "1.txt", "one")
        source = TextFolder(input=str(tmp_path), documents=documents)  # type: ignore[arg-type]
        listed, _ = source.scan()
        write(tmp_path / "1.txt", "other")
        with pytest.raises(ChangedInputError):
            list(source.read(listed.rows, source.layout([])))


def test_unusable_folders(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"the input .*/gone does not exist"):
        read_tree(tmp_path / "gone")
    write(tmp_path / "a/x.jpg", "x")
    with pytest.raises(
        ConfigError, match=r"found no usable file in .* \(1 left out as extension\)"
    ):
        read_tree(tmp_path)
    with pytest.raises(ConfigError, match="--documents: expected one of file, line, got 'page'"):
        TextFolder(input="x", documents="page")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="--encoding: expected an encoding"):
        TextFolder(input="x", encoding="nonsense")
