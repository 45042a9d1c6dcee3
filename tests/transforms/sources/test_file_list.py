import bz2
import collections
import gzip
import json
import os
import pathlib
import pickle
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError, Reason
from recordmill.job.input_facts import NO_FACTS
from recordmill.storage.files import Location
from recordmill.storage.input_files import read_file
from recordmill.transforms.model import batch, limits
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.files.path_rules import normal_path
from recordmill.transforms.sources.folders import references
from recordmill.transforms.sources.row_formats.values.text_columns import (
    lists_with_nulls,
    number_text,
)
from recordmill.transforms.sources.rows.references import path_stats
from recordmill.transforms.sources.rows.references.file_list import FileList

SYSTEM = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT)


def scan(path: object, **options: Any) -> tuple[list[dict[str, Any]], list[Any], pa.Schema]:
    """(rows, rejects, schema) of a listing, put together from its parts."""
    rows, rejects, schema = [], [], None
    path = path if isinstance(path, Inputs) else str(path)
    for listed in FileList(path=path, **options).scan():
        if listed.rows is not None:
            schema = schema or listed.rows.schema
            assert listed.rows.schema == schema
            assert pa.schema(list(schema)[: len(references.COLUMNS)]) == references.COLUMNS
            listed.rows.validate(full=True)
            rows += listed.rows.to_pylist()
        rejects += listed.rejects
        assert listed.filtered in ({}, {"empty": 1})
    return rows, rejects, schema


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Three images, by the content of their name."""
    for name in ("a.jpg", "b.jpg", "in/c d.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def write(folder: pathlib.Path, name: str, content: str | bytes) -> pathlib.Path:
    data = content.encode() if isinstance(content, str) else content
    compress = {".gz": gzip.compress, ".bz2": bz2.compress}.get(pathlib.Path(name).suffix, bytes)
    (folder / name).write_bytes(compress(data))
    return folder / name


TABLE = {
    "path": ["a.jpg", "b.jpg", "in/c d.jpg"],
    "label": ["x", None, "y"],
    "split": ["train", "val", None],
    "patient": ["p1", "p1", None],
    "boxes": [1, None, 3],
    "score": [0.5, 2.0, None],
    "caption": ['say "hi"', None, "two words"],
}


def _csv(table: dict[str, list[Any]], delimiter: str = ",") -> str:
    def field(value: object) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if '"' in text and delimiter == "," else text

    rows = [list(table), *zip(*table.values(), strict=True)]
    return "".join(delimiter.join(map(field, row)) + "\n" for row in rows)


def _write_table(folder: pathlib.Path, name: str, table: dict[str, list[Any]]) -> pathlib.Path:
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pa.table(table), folder / name)
        return folder / name
    if name.endswith(".arrow"):
        with (
            pa.OSFile(str(folder / name), "wb") as file,
            pa.ipc.new_file(file, pa.table(table).schema) as out,
        ):
            out.write_table(pa.table(table))
        return folder / name
    if ".csv" in name:
        return write(folder, name, _csv(table))
    if ".tsv" in name:
        return write(folder, name, _csv(table, "\t"))
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return write(folder, name, "".join(json.dumps(row) + "\n" for row in rows))


FORMATS = [
    "l.csv",
    "l.csv.gz",
    "l.tsv",
    "l.tsv.gz",
    "l.jsonl",
    "l.ndjson",
    "l.jsonl.gz",
    "l.parquet",
    "l.arrow",
    "l.csv.bz2",
]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(name: str, folder: pathlib.Path) -> None:
    listing = _write_table(folder, name, TABLE)
    rows, rejects, schema = scan(listing, group_column="patient", unlabelled="keep")
    assert not rejects
    assert [tuple(row[column] for column in SYSTEM) for row in rows] == [
        ("a.jpg", "x", "p1", "train"),
        ("b.jpg", None, "p1", "validation"),
        ("in/c d.jpg", "y", None, None),
    ]
    for column in ("boxes", "score", "caption"):
        assert [row[column] for row in rows] == TABLE[column]
    users = list(schema)[len(references.COLUMNS) :]
    types = {"boxes": pa.int64(), "score": pa.float64(), "caption": pa.string()}
    assert {field.name: field.type for field in users} == types
    for row in rows:
        data = read_file(row[batch.PATH], size=row[batch.SIZE], mtime=row[batch.MTIME])
        assert data.decode() == row[batch.KEY]


def test_rows_without_label_are_rejected_unless_kept(folder: pathlib.Path) -> None:
    listing = _write_table(folder, "l.csv", TABLE)
    rows, rejects, _ = scan(listing)
    assert [row[batch.KEY] for row in rows] == ["a.jpg", "in/c d.jpg"]
    assert [(r.key, r.reason) for r in rejects] == [("b.jpg", Reason.UNLABELLED)]
    message = "no label: expected one in column 'label', row 2; --unlabelled keep allows records"
    assert rejects[0].detail == f"{message} without"


def test_a_listing_without_label_column_has_no_unlabelled_rows(folder: pathlib.Path) -> None:
    rows, rejects, _ = scan(write(folder, "l.csv", "path\na.jpg\n"))
    assert ([row[batch.LABEL] for row in rows], rejects) == ([None], [])


@pytest.mark.parametrize(
    ("header", "options", "expected"),
    [
        ("file,class,split,k", {}, ("a.jpg", "1", None, "train")),
        ("Filename,Label,Split,k", {}, ("a.jpg", "1", None, "train")),
        ("image,label,class,k", {}, ("a.jpg", "1", None, None)),
        ("x,y,z,k", {"path_column": "x"}, ("a.jpg", None, None, None)),
        ("path,y,z,k", {"label_column": "y", "split_column": "z"}, ("a.jpg", "1", None, "train")),
        ("path,y,z,k", {"group_column": "y", "key_column": "k"}, ("007", None, "1", None)),
    ],
)
def test_columns(
    header: str, options: dict[str, str], expected: tuple[str | None, ...], folder: pathlib.Path
) -> None:
    rows, _, _ = scan(write(folder, "l.csv", f"{header}\na.jpg,1,train,007\n"), **options)
    assert tuple(rows[0][column] for column in SYSTEM) == expected


def test_several_key_columns_are_joined(folder: pathlib.Path) -> None:
    lines = ["path,a,b", 'a.jpg,"x,y",z', 'b.jpg,x,"y,z"', "a.jpg,,z", "b.jpg,\\,x"]
    rows, rejects, _ = scan(write(folder, "l.csv", "\n".join(lines)), key_column="a,b")
    assert [row["__key__"] for row in rows] == ["x\\,y,z", "x,y\\,z", "\\\\,x"]
    assert [(r.key, r.detail) for r in rejects] == [("l.csv#3", "row 3: no key in column 'a'")]
    swapped, _, _ = scan(write(folder, "l.csv", "\n".join(lines[:2])), key_column="b, a")
    assert [row["__key__"] for row in swapped] == ["z,x\\,y"]
    with pytest.raises(ConfigError, match=r"no column 'c' in .*: it has 'path', 'a', 'b'"):
        scan(write(folder, "l.csv", "\n".join(lines)), key_column="a,c")


def test_the_name_of_a_key_column_may_contain_a_comma(folder: pathlib.Path) -> None:
    rows, _, _ = scan(write(folder, "l.csv", 'path,"a,b",a,b\na.jpg,k,1,2\n'), key_column="a,b")
    assert [row["__key__"] for row in rows] == ["k"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([3, 4], ["3", "4"]),
        ([3.0, 4.5], ["3", "4.5"]),
        ([True, False], ["true", "false"]),
        (["3.0", "007"], ["3.0", "007"]),
    ],
)
@pytest.mark.parametrize("name", ["l.jsonl", "l.parquet"])
def test_labels_of_any_type_become_text(
    name: str, labels: list[Any], expected: list[str], folder: pathlib.Path
) -> None:
    rows, _, _ = scan(_write_table(folder, name, {"path": ["a.jpg", "b.jpg"], "label": labels}))
    assert [row[batch.LABEL] for row in rows] == expected


def test_parquet_types(folder: pathlib.Path) -> None:
    table = pa.table(
        {
            "path": pa.array(["a.jpg", "b.jpg"]).dictionary_encode(),
            "label": pa.array([1, 2], pa.float32()),
            "split": pa.array(["train", None], pa.large_string()),
            "group": pa.array([b"g", None], pa.binary()),
            "raw": pa.array([b"\xff", b""], pa.binary()),
            "category": pa.array(["x", "x"]).dictionary_encode(),
            "boxes": pa.array([[0.5, 1.0], []]),
            "texts": pa.array([["a", "b"], None], pa.large_list(pa.string())),
            "corner": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
            "__index_level_0__": pa.array([5, 6]),
        }
    )
    pyarrow.parquet.write_table(table, folder / "l.parquet")
    rows, rejects, schema = scan(folder / "l.parquet", group_column="group")
    assert not rejects
    assert [tuple(row[column] for column in SYSTEM) for row in rows] == [
        ("a.jpg", "1", "g", "train"),
        ("b.jpg", "2", None, None),
    ]
    users = ["raw", "category", "boxes", "texts", "corner"]
    assert schema.names[len(references.COLUMNS) :] == users
    assert schema.field("category").type == pa.string()
    for name in users:
        assert [row[name] for row in rows] == table[name].to_pylist()


def test_columns_declared_as_not_null_stay_so(folder: pathlib.Path) -> None:
    fields = [
        pa.field("path", pa.string()),
        pa.field("n", pa.int64(), nullable=False, metadata={"a": "b"}),
        pa.field("m", pa.int64()),
    ]
    table = pa.table([["a.jpg"], [1], [2]], schema=pa.schema(fields))
    pyarrow.parquet.write_table(table, folder / "l.parquet")
    _, _, schema = scan(folder / "l.parquet")
    assert [field.nullable for field in schema if field.name in "mn"] == [False, True]


LISTS = [
    (pa.list_(pa.int64()), [1, 2], [3, None]),
    (pa.large_list(pa.float64()), [0.5], [None, 0.5]),
    (pa.list_(pa.binary(), 2), [b"x", b"y"], [b"x", None]),
    (pa.list_(pa.string()), ["x"], [None]),
    (pa.list_(pa.bool_()), [], [True, None]),
]


@pytest.mark.parametrize(("kind", "good", "bad"), LISTS, ids=lambda x: str(x)[:20])
def test_a_null_inside_a_list_is_rejected(
    kind: pa.DataType, good: list[Any], bad: list[Any], folder: pathlib.Path
) -> None:
    fixed = pa.types.is_fixed_size_list(kind)
    values = pa.array([good, bad, good if fixed else None], kind)
    table = pa.table({"path": ["a.jpg", "b.jpg", "in/c d.jpg"], "v": values})
    pyarrow.parquet.write_table(table, folder / "l.parquet")
    rows, rejects, schema = scan(folder / "l.parquet")
    assert [row["v"] for row in rows] == [good, good if fixed else None]
    assert (schema.field("v").type, schema.field("v").nullable) == (kind, not fixed)
    assert [(r.key, r.reason, r.detail) for r in rejects] == [
        (
            "b.jpg",
            Reason.BAD_VALUE,
            "row 2: a null inside the list in column 'v', which an Example cannot hold: replace "
            "the null, or remove the row",
        )
    ]


def test_a_null_among_lists_of_a_fixed_size(folder: pathlib.Path) -> None:
    values = pa.array([[1, 2], None, [None, 2]], pa.list_(pa.int64(), 2))
    assert lists_with_nulls(values).tolist() == [False, True, True]
    assert lists_with_nulls(values.cast(pa.list_(pa.int64()))).tolist() == [False, False, True]
    # pyarrow writes such a column but does not read it.
    table = pa.table({"path": ["a.jpg", "b.jpg", "a.jpg"], "v": values})
    pyarrow.parquet.write_table(table, folder / "l.parquet")
    with pytest.raises(ConfigError, match=r"a null among lists of a fixed size.*--drop-columns"):
        scan(folder / "l.parquet")
    assert len(scan(folder / "l.parquet", drop_columns=("v",))[0]) == 3


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.string(), 1)],
    ids=str,
)
def test_a_list_of_texts_that_are_not_utf8_is_rejected(
    kind: pa.DataType, folder: pathlib.Path
) -> None:
    invalid = pa.array([b"x", b"\xff", None]).view(pa.string())
    if pa.types.is_fixed_size_list(kind):
        values = pa.FixedSizeListArray.from_arrays(invalid.slice(0, 2), 1)
    else:
        of = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        values = of.from_arrays([0, 1, 2], invalid)
    table = pa.table({"path": ["a.jpg", "b.jpg"], "v": values})
    pyarrow.parquet.write_table(table, folder / "l.parquet")
    rows, rejects, _ = scan(folder / "l.parquet")
    assert [row["v"] for row in rows] == [["x"]]
    assert [(r.key, r.detail) for r in rejects] == [
        ("l.parquet#2", "row 2: not UTF-8: expected text in column 'v'")
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint64(),
        pa.list_(pa.uint64()),
        pa.time64("ns"),
        pa.list_(pa.time64("ns")),
        pa.struct([("bytes", pa.binary())]),
        pa.decimal128(5, 2),
        pa.list_(pa.list_(pa.int64())),
        pa.map_(pa.string(), pa.int64()),
        pa.duration("ns"),
        pa.null(),
    ],
    ids=str,
)
def test_types_that_an_example_cannot_hold(kind: pa.DataType, folder: pathlib.Path) -> None:
    table = pa.table({"path": ["a.jpg"], "v": pa.nulls(1, kind)})
    pyarrow.parquet.write_table(table, folder / "l.parquet")
    with pytest.raises(ConfigError, match=r"column 'v' has type .*drop it with --drop-columns"):
        scan(folder / "l.parquet")
    rows, _, schema = scan(folder / "l.parquet", drop_columns=("v",))
    assert (len(rows), schema) == (1, references.COLUMNS)


@pytest.mark.parametrize("name", FORMATS)
def test_dropped_columns_are_ignored(name: str, folder: pathlib.Path) -> None:
    listing = _write_table(folder, name, TABLE)
    rows, rejects, schema = scan(listing, drop_columns=("label", "boxes", "caption"))
    assert schema.names == [*references.COLUMNS.names, "patient", "score"]
    assert ([row[batch.LABEL] for row in rows], rejects) == ([None] * 3, [])
    with pytest.raises(ConfigError, match=r"no column 'scores' in .* \(did you mean 'score'\?\)"):
        scan(listing, drop_columns=("scores",))


@given(st.floats())
def test_numbers_as_text_read_back_the_same(value: float) -> None:
    if value == value and abs(value) != float("inf"):
        assert float(number_text(value) or "") == value
    elif value != value:
        assert number_text(value) is None


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a.jpg", "a.jpg"),
        ("./a//b", "a/b"),
        ("a/./b/", "a/b"),
        ("../a", "../a"),
        ("a/../b", "b"),
        ("//a/b", "/a/b"),
        ("s3://bucket//a", "s3://bucket//a"),
    ],
)
def test_normal_path(path: str, key: str) -> None:
    assert normal_path(path) == key


@given(st.lists(st.sampled_from(["", ".", "..", "a", "b c", "é"]), min_size=1).map("/".join))
def test_normal_path_is_idempotent_and_keeps_the_target(path: str) -> None:
    key = normal_path(path)
    assert normal_path(key) == key
    place, same = (os.path.normpath(os.path.join("/r/s", text)) for text in (path, key))
    assert place.replace("//", "/") == same
    assert "//" not in key
    assert key == "." or "." not in key.split("/")


def test_missing_files_with_oddly_written_paths_get_a_hint(folder: pathlib.Path) -> None:
    _, rejects, _ = scan(write(folder, "l.csv", "path\na.jpg\nno\\b.jpg\n b.jpg\ngone.jpg\n"))
    assert {r.key: r.detail for r in rejects} == {
        "no\\b.jpg": "no such file; its path has backslashes, which were also read as /",
        " b.jpg": "no such file: its path begins or ends with a space (--trim strips spaces)",
        "gone.jpg": "no such file",
    }


@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_backslashes_separate_folders_if_only_that_is_a_file(
    end: str, folder: pathlib.Path
) -> None:
    (folder / "in/e\\f.jpg").write_bytes(b"one name")
    (folder / "in/empty.jpg").touch()
    names = ["in\\c d.jpg", ".\\a.jpg", "in/e\\f.jpg", "in\\empty.jpg", "in\\gone.jpg", "b.jpg"]
    table = {"path": names, "n": [*range(len(names))]}
    listing = str(_write_table(folder, f"l{end}", table))
    rows, rejects, _ = scan(listing)
    assert {row[batch.KEY]: (row["n"], row[batch.SIZE]) for row in rows} == {
        **{"in/c d.jpg": (0, 10), "a.jpg": (1, 5)},
        **{"in/e\\f.jpg": (2, 8), "b.jpg": (5, 5)},
    }
    assert {one.key: one.reason for one in rejects} == {
        "in/empty.jpg": Reason.EMPTY,
        "in\\gone.jpg": Reason.MISSING,
    }
    notes = [note for part in FileList(path=listing).scan() for note in part.notes]
    assert [str(note) for note in notes if note.code == "backslashes"] == [
        f"3 paths of l{end} have backslashes, such as in\\c d.jpg, which were read as /"
    ]


def test_a_path_with_backslashes_that_may_be_two_files_is_an_error(folder: pathlib.Path) -> None:
    listing = write(folder, "l.csv", "path\na.jpg\nin\\c d.jpg\n")
    assert len(scan(listing)[0]) == 2
    (folder / "in\\c d.jpg").touch()
    with pytest.raises(
        ConfigError, match=r"path 'in\\\\c d.jpg' in l.csv may be two files, because"
    ):
        scan(listing)


@pytest.mark.parametrize(
    ("group_from", "template", "groups"),
    [
        ("top", None, {"in/c d.jpg": "in", "a.jpg": None}),
        ("parent", None, {"in/c d.jpg": "in", "a.jpg": None}),
        ("file", None, {"in/c d.jpg": "c d", "a.jpg": "a"}),
        ("^in/(.)", None, {"in/c d.jpg": "c", "a.jpg": None}),
        ("^(.)[.]", "{path}", {"in/c d.jpg": None, "a.jpg": "a"}),
    ],
)
def test_paths_of_a_listing_give_groups(
    group_from: str, template: str | None, groups: dict[str, str | None], folder: pathlib.Path
) -> None:
    listing = write(folder, "l.csv", "path,label\nin\\c d.jpg,x\na.jpg,y\n")
    inputs = Inputs(paths=(InputPath(str(listing)),), group_from=group_from)
    found, facts = {}, NO_FACTS
    for part in FileList(path=inputs, path_template=template).scan():
        facts = facts.plus(part.facts)
        for row in [] if part.rows is None else part.rows.to_pylist():
            found[row[batch.KEY]] = row[batch.GROUP]
            assert row[batch.LABEL] in ("x", "y")
            assert not [name for name in row if name.startswith("--")]
    assert found == groups
    assert facts.roles is not None
    assert facts.roles.group == f"--group-from {group_from}"


def test_paths_of_a_listing_without_groups_are_an_error(folder: pathlib.Path) -> None:
    listing = write(folder, "l.csv", "path,label\na.jpg,x\nb.jpg,y\n")
    inputs = Inputs(paths=(InputPath(str(listing)),), group_from="top")
    with pytest.raises(ConfigError, match=r"no path gives a group; the first files are a.jpg, b"):
        scan(inputs)
    with pytest.raises(ConfigError, match="gives the group: leave one of them out"):
        scan(inputs, group_column="label")


def test_equal_paths_with_slashes_and_backslashes_are_one_record(folder: pathlib.Path) -> None:
    listing = write(folder, "l.csv", "path,label\nin/c d.jpg,x\nin\\c d.jpg,x\nb.jpg,y\n")
    parts = [*FileList(path=str(listing), conflicts="reject").scan()]
    keys = [key for part in parts if part.rows for key in part.rows[batch.KEY].to_pylist()]
    assert sorted(keys) == ["b.jpg", "in/c d.jpg"]


def test_relative_paths_are_resolved_in_the_root(
    folder: pathlib.Path, tmp_path_factory: Any
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    content = f"path\n./a.jpg\n{folder}/b.jpg\nfile://{folder}/in/c%20d.jpg\n"
    listing = write(elsewhere, "l.csv", content)
    rows, rejects, _ = scan(listing)
    assert [row[batch.SIZE] for row in rows] == [5, 10]
    assert [(r.key, r.reason, r.detail) for r in rejects] == [
        ("a.jpg", Reason.MISSING, "no such file")
    ]
    rows, rejects, _ = scan(listing, input_root=str(folder))
    assert (rows[0][batch.KEY], rejects) == ("a.jpg", [])


def test_a_path_may_lead_through_a_linked_folder(folder: pathlib.Path) -> None:
    """'link/../x' is beside the folder that the link leads to, not beside the link."""
    (folder / "far/away").mkdir(parents=True)
    (folder / "far/x.jpg").write_bytes(b"far")
    (folder / "link").symlink_to("far/away")
    rows, _, _ = scan(write(folder, "l.csv", "path\nlink/../x.jpg\n"))
    assert rows[0][batch.SIZE] == 3


def test_paths_that_are_no_files_are_rejected(folder: pathlib.Path) -> None:
    (folder / "empty").touch()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nothing")
    bad = {
        "gone.jpg": (Reason.MISSING, "no such file"),
        "a.jpg/x": (Reason.MISSING, "no such file"),
        "dangling": (Reason.MISSING, "a symbolic link to a missing file"),
        "empty": (Reason.EMPTY, "a file of 0 bytes"),
        "pipe": (Reason.UNSUPPORTED, "a pipe: expected a regular file"),
        "loop": (Reason.SYMLINK_LOOP, "the symbolic link leads back to itself"),
        "in": (Reason.BAD_VALUE, "a folder: expected a file"),
        "x\0y": (Reason.BAD_VALUE, "a path cannot contain a zero byte"),
        "n" * 300: (Reason.BAD_NAME, "the name is too long for that filesystem"),
        "ftp://x": (Reason.BAD_VALUE, "unknown scheme 'ftp' in 'ftp://x': expected a local path, "
                    "or one of file://, s3://, gs://, abfs://, hdfs://"),
    }  # fmt: skip
    rows, rejects, _ = scan(_write_table(folder, "l.parquet", {"path": ["a.jpg", *bad]}))
    assert [row[batch.KEY] for row in rows] == ["a.jpg"]
    assert {r.key: (r.reason, r.detail) for r in rejects} == bad


def test_rows_that_cannot_be_parsed(folder: pathlib.Path) -> None:
    lines = [
        b"path,k,caption",
        b"a.jpg,1,fine",
        b"b.jpg",
        b'b.jpg,2,"two\nlines"',
        b"",
        b",3,no path",
        b"a.jpg,,no key",
        b"a.jpg,4,\xff",
        b"a.jpg,5,x,y,z",
        b'a.jpg,6,5" disk',
        b"gone,7,x",
    ]
    listing = write(folder, "l.csv", b"\r\n".join(lines))
    rows, rejects, _ = scan(listing, key_column="k")
    assert {row[batch.KEY]: row["caption"] for row in rows} == {
        "1": "fine",
        "2": "two\nlines",
        "6": '5" disk',
    }
    assert {r.key: (r.reason, r.detail) for r in rejects} == {
        "l.csv#2": (Reason.BAD_VALUE, "row 2: expected 3 columns, got 1"),
        "l.csv#4": (Reason.BAD_VALUE, "row 4: no path in column 'path'"),
        "l.csv#5": (Reason.BAD_VALUE, "row 5: no key in column 'k'"),
        "l.csv#6": (Reason.BAD_VALUE, "row 6: not UTF-8: name the encoding with --encoding"),
        "l.csv#7": (Reason.BAD_VALUE, "row 7: expected 3 columns, got 5"),
        "7": (Reason.MISSING, "no such file"),
    }


def test_lines_that_cannot_be_parsed(folder: pathlib.Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"path": "a.jpg"}',
        b"{broken}",
        b"",
        b'["a.jpg"]',
        b'{"path": "a.jpg"} {}',
        b'{"path": "\xff"}',
        b'{"path": "\\ud800"}',
        b"[" * 100_000,
        b'{"path": null}',
        b'{"other": 1}',
        b'{"path": "b.jpg", "other": 2.5}',
    ]
    rows, rejects, _ = scan(write(folder, "l.jsonl", b"\n".join(lines)))
    assert [(row[batch.KEY], row["other"]) for row in rows] == [("a.jpg", None), ("b.jpg", 2.5)]
    assert [(r.key, r.detail) for r in rejects] == [
        ("l.jsonl#2", "row 2: not valid JSON"),
        ("l.jsonl#4", "row 4: expected a JSON object"),
        ("l.jsonl#5", "row 5: not valid JSON"),
        ("l.jsonl#6", "row 6: not UTF-8: name the encoding with --encoding"),
        (
            "l.jsonl#7",
            "row 7: an unpaired surrogate: expected both escapes of a pair, such as \\ud83d\\ude00",
        ),
        ("l.jsonl#8", "row 8: not valid JSON"),
        ("l.jsonl#9", "row 9: no path in column 'path'"),
        ("l.jsonl#10", "row 10: no path in column 'path'"),
    ]


@pytest.mark.parametrize("name", ["l.csv", "l.jsonl"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, None, 4], pa.int64()),
        ([1, 2, 3, 4.5], pa.float64()),
        ([1, 2, 3, "x"], pa.string()),
        ([1.5, None, None, "true"], pa.string()),
        ([None, None, None, 1], pa.int64()),
        ([None, None, None, None], pa.string()),
        ([1, 2, 3, 2**64], pa.string()),  # no float64 has its last digit
        (["NA", "1", "2", "3"], pa.string()),
        (["1", "2", "3", "007"], pa.string()),
        ([0, -0.5, 0.25, 4], pa.float64()),
    ],
)
def test_the_type_of_a_column_is_that_of_all_its_rows(
    name: str, values: list[Any], expected: pa.DataType, folder: pathlib.Path, monkeypatch: Any
) -> None:
    # A type guessed from the first block would be wrong.
    monkeypatch.setattr(limits, "PART_ROWS", 1)
    listing = _write_table(folder, name, {"path": ["a.jpg"] * 4, "v": values})
    rows, rejects, schema = scan(listing)
    assert (len(rows), rejects) == (4, [])
    assert schema.field("v").type == expected
    if expected == pa.string():
        values = [None if value is None else str(value) for value in values]
    assert [row["v"] for row in rows] == values


def test_nested_json(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"path": "a.jpg", "box": [0, 1], "odd": 1, "mixed": [1], "none": []},
        {"path": "a.jpg", "box": None, "odd": {"x": 1}, "mixed": ["a"], "none": []},
        {"path": "a.jpg", "box": [0.5, 2], "odd": "text", "mixed": [], "none": None},
        {"path": "a.jpg", "box": [1, None], "odd": "text", "mixed": [], "none": None},
    ]
    monkeypatch.setattr(limits, "PART_ROWS", 1)  # types come from all the rows
    listing = write(folder, "l.jsonl", "\n".join(map(json.dumps, rows)))
    rows, rejects, schema = scan(listing)
    assert [r.detail[:46] for r in rejects] == ["row 4: a null inside the list in column 'box',"]
    assert schema.field("box").type == pa.list_(pa.float64())
    assert schema.field("none").type == pa.list_(pa.string())
    assert [row["box"] for row in rows] == [[0.0, 1.0], None, [0.5, 2.0]]
    assert [row["odd"] for row in rows] == ["1", '{"x": 1}', "text"]
    assert [row["mixed"] for row in rows] == ["[1]", '["a"]', "[]"]


@pytest.mark.parametrize(
    ("value", "kind"), [([[0.5]], r"list<item: list<"), ([{"x": 1}], r"list<item: struct<x: int")]
)
def test_nested_json_that_an_example_cannot_hold(
    value: object, kind: str, folder: pathlib.Path
) -> None:
    listing = write(folder, "l.jsonl", json.dumps({"path": "a.jpg", "v": value}))
    with pytest.raises(ConfigError, match=f"column 'v' has type {kind}"):
        scan(listing)
    assert len(scan(listing, drop_columns=("v",))[0]) == 1


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("l.txt", "x", {}, "or in .txt with --delimiter, got"),
        ("l.csv", "", {}, "the listing {} has no rows"),
        ("l.csv", "path\n", {}, "the listing {} has no rows"),
        ("l.jsonl", '{"x": 1}', {}, "found no column of paths in {}: expected one of path, file"),
        ("l.csv", "x;y\n1;2\n", {}, "one column, 'x;y': if it holds several, pass --delimiter ';'"),
        (
            "l.csv",
            "path,x\na,1\n",
            {"label_column": "y"},
            "no column 'y' in {}: it has 'path', 'x'",
        ),
        ("l.csv", "path,path\na,1\n", {}, "{} has duplicate column names: path; rename"),
        ("l.csv", "path,__x\na.jpg,1\n", {}, "column '__x' in {} starts with two underscores"),
        ("l.csv", b"path,\xff\na,1\n", {}, "cannot parse the listing {}: 'utf-8' codec"),
        ("l.csv", 'path,x\na,"1\nb,2\n', {}, "unclosed quote in {}: row 1 begins in line 2 "),
        ("l.csv", "path\ngone.jpg\n", {}, "no row of {} can be used (1 missing); the first: gone"),
        ("l.csv", "path\ngone.jpg\n", {}, "name it with --input-root"),
        ("l.csv", "path,label\na.jpg,\n", {}, "(1 unlabelled); the first: a.jpg: no label"),
        ("l.parquet", "PAR1", {}, "cannot parse the listing {}: Parquet file size is 4"),
        ("l.csv", "path\na\n", {"unlabelled": "x"}, "--unlabelled: expected one of reject, keep"),
        ("l.csv", "path\na\n", {"input_root": "ftp://x"}, "unknown scheme 'ftp'"),
    ],
)
def test_unusable_listings(
    name: str, content: str | bytes, options: dict[str, str], message: str, folder: pathlib.Path
) -> None:
    listing = write(folder, name, content)
    with pytest.raises(ConfigError) as caught:
        scan(listing, **options)
    assert message.format(listing) in str(caught.value)


def test_unusable_places(folder: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"the listing .*gone.csv does not exist"):
        scan(folder / "gone.csv")
    (folder / "d.csv").mkdir()
    with pytest.raises(ConfigError, match=r"expected a listing, but .*d.csv is a folder"):
        scan(folder / "d.csv")
    os.mkfifo(folder / "pipe.csv")
    with pytest.raises(ConfigError, match=r"a folder or a regular file, but .*pipe.csv is a pipe"):
        scan(folder / "pipe.csv")


@pytest.mark.parametrize("name", ["l.csv.gz", "l.jsonl.gz", "l.parquet"])
def test_truncated_listings(name: str, folder: pathlib.Path) -> None:
    listing = _write_table(folder, name, TABLE)
    listing.write_bytes(listing.read_bytes()[:-10])
    with pytest.raises(ConfigError, match="cannot parse the listing"):
        scan(listing)


def test_a_label_column_of_lists(folder: pathlib.Path) -> None:
    listing = _write_table(folder, "l.parquet", {"path": ["a.jpg"], "label": [[[1]]]})
    with pytest.raises(ConfigError, match="expected text or numbers in column 'label', got list"):
        scan(listing)


@pytest.mark.parametrize("column", ["path", "label", "split", "g", "k"])
@pytest.mark.parametrize(("value", "kind"), [([1], "a list"), ([], "a list"), ({}, "an object")])
def test_lists_and_objects_of_json_are_not_text(
    column: str, value: object, kind: str, folder: pathlib.Path
) -> None:
    row = {"path": "a.jpg", "label": "x", "split": "train", "g": "y", "k": 1}
    listing = write(
        folder, "l.jsonl", "\n".join(map(json.dumps, (row, {**row, "k": 2, column: value})))
    )
    rows, rejects, _ = scan(listing, group_column="g", key_column="k")
    assert [row[batch.KEY] for row in rows] == ["1"]
    assert [(r.key, r.reason, r.detail) for r in rejects] == [
        (
            "l.jsonl#2",
            Reason.BAD_VALUE,
            f"row 2: expected text or a number in column {column!r}, got {kind}",
        )
    ]


@pytest.mark.parametrize("name", ["l.csv", "l.jsonl", "l.parquet"])
def test_a_class_name_with_a_line_break_is_rejected(name: str, folder: pathlib.Path) -> None:
    labels = ["x", "x\ny", "z\r"]
    table = {"path": ["a.jpg", "b.jpg", "in/c d.jpg"], "label": labels}
    if name == "l.csv":
        listing = write(folder, name, 'path,label\na.jpg,x\nb.jpg,"x\ny"\nin/c d.jpg,"z\r"\n')
    else:
        listing = _write_table(folder, name, table)
    rows, rejects, _ = scan(listing)
    assert [row[batch.LABEL] for row in rows] == ["x"]
    assert [(r.key, r.reason, r.detail) for r in rejects] == [
        (
            key,
            Reason.BAD_VALUE,
            f"row {row}: the class name {label!r} contains a line break, but labels.txt has one "
            "name per line: rename the class",
        )
        for row, key, label in ((2, "b.jpg", "x\ny"), (3, "in/c d.jpg", "z\r"))
    ]


def test_quotes_are_data_in_tsv(folder: pathlib.Path) -> None:
    rows, _, _ = scan(write(folder, "l.tsv", 'path\tcaption\na.jpg\t"x\nb.jpg\ty"\n'))
    assert [row["caption"] for row in rows] == ['"x', 'y"']


def test_the_index_of_pandas_is_ignored(folder: pathlib.Path) -> None:
    for content in (",path\n0,a.jpg\nspoilt\n2,a.jpg\n", "path,\na.jpg,\nb.jpg,\n"):
        rows, _, schema = scan(write(folder, "l.csv", content))
        assert schema == references.COLUMNS
        assert len(rows) == 2


def test_each_path_is_queried_once(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: collections.Counter[str] = collections.Counter()
    stat = os.stat

    def counted(path: str, **options: Any) -> os.stat_result:
        seen[path] += 1
        return stat(path, **options)

    listing = write(folder, "l.csv", "path\n" + "a.jpg\nb.jpg\n" * 50)
    monkeypatch.setattr(limits, "PART_ROWS", 10)
    monkeypatch.setattr(os, "stat", counted)
    rows, _, _ = scan(listing)
    assert len(rows) == 100
    assert (seen[f"{folder}/a.jpg"], seen[f"{folder}/b.jpg"]) == (1, 1)


def test_a_small_path_cache_changes_nothing(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = write(folder, "l.csv", "path\n" + "a.jpg\nb.jpg\ngone\n" * 20)
    before = scan(listing)
    monkeypatch.setattr(limits, "PART_ROWS", 2)
    monkeypatch.setattr(path_stats, "_CACHED", 3)
    assert scan(listing)[:2] == before[:2]
    assert max(len(p.rows or []) for p in FileList(path=str(listing)).scan()) <= 2


def test_a_listing_and_its_files_in_an_object_store() -> None:
    root = Location.parse(f"mock:///{uuid.uuid4().hex}")
    (root / "in").make_dirs()
    for name in ("a b.jpg", "in/who?.jpg", "empty"):
        (root / name).write_bytes(b"" if name == "empty" else name.encode())
    content = "path\n./a b.jpg\nin/../in//who?.jpg\nempty\nin\ngone\n" + f"{root}/a b.jpg\n"
    (root / "l.csv").write_bytes(content.encode())
    rows, rejects, _ = scan(root / "l.csv")
    assert [row[batch.KEY] for row in rows] == ["a b.jpg", "in/who?.jpg", f"{root}/a b.jpg"]
    for row in rows:
        data = read_file(row[batch.PATH], size=row[batch.SIZE], mtime=row[batch.MTIME])
        assert row[batch.KEY].endswith(data.decode())
    assert {r.key: r.reason for r in rejects} == {
        "empty": Reason.EMPTY,
        "in": Reason.BAD_VALUE,
        "gone": Reason.MISSING,
    }


def test_the_source_can_be_pickled() -> None:
    source = FileList(path="/x.csv")
    assert pickle.loads(pickle.dumps(source)) == source
    assert not source.unique_keys
