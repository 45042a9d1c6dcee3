"""Values inside of objects, as columns with dotted names."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.transforms.sources.row_formats.text import json_blocks
from recordmill.transforms.sources.row_formats.values.nested import (
    columns_of,
    flat_object,
    flat_schema,
    flatten,
    nested_schema,
)
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

USERS = [
    {"id": 1, "user": {"age": 20, "name": {"first": "ann"}, "tags": ["a"]}, "label": "x"},
    {"id": 2, "user": {"age": 17, "name": {"first": "bob"}, "tags": []}, "label": "y"},
    {"id": 3, "user": None, "label": "x"},
    {"id": 4, "user": {"age": None, "name": None, "tags": ["b", "c"]}, "label": "y"},
]


def write(folder, rows, name="a.jsonl"):
    (folder / name).write_text("\n".join(map(json.dumps, rows)))
    return folder / name


def values(made: Made, *names: str) -> dict[int, list[object]]:
    """{id: values of features}"""
    return {
        example["id"][0]: [example.get(name, []) for name in names]
        for example in made.examples().values()
    }


@pytest.mark.parametrize("form", ["fast", "slow", "parquet"])
def test_values_inside_of_objects_are_columns(form, tmp_path, monkeypatch):
    if form == "slow":
        monkeypatch.setattr(json_blocks, "_parse", lambda lines, wanted: None)
    source = write(tmp_path, USERS)
    if form == "parquet":
        source = tmp_path / "a.parquet"
        pq.write_table(pa.Table.from_pylist(USERS), source)
    argv = ["--input", source, "--splits", "train=1"]
    made = make(tmp_path / "out", *argv, command="table")
    found = values(made, "user.age", "user.name.first", "user.tags")
    assert found == {
        1: [[20], [b"ann"], [b"a"]],
        2: [[17], [b"bob"], []],
        3: [[], [], []],
        4: [[], [], [b"b", b"c"]],
    }
    assert "user" not in made.manifest.features
    argv += ["--label-column", "user.name.first", "--drop-columns", "label"]
    made = make(tmp_path / "old", *argv, "--where", "user.age > 17", command="table")
    assert made.manifest.labels == ("ann",)
    assert {*values(made)} == {1}
    made = make(tmp_path / "few", *argv[:4], "--drop-columns", "user", command="table")
    assert {*made.manifest.features} == {"id", "label"}


def test_keys_with_dots(tmp_path):
    rows = [{"id": 1, "a.b": 1, "c": {"d": 2}}, {"id": 2, "a": {"b": 3}, "c.d": 4}]
    argv = ["--input", write(tmp_path, rows), "--splits", "train=1"]
    made = make(tmp_path / "out", *argv, command="table")
    assert values(made, "a.b", "c.d") == {1: [[1], [2]], 2: [[3], [4]]}
    both = [*rows, {"id": 3, "a.b": 1, "a": {"b": 2}, "c.d": 1}]
    argv[1] = write(tmp_path, both)
    made = make(
        tmp_path / "both", *argv, "--max-reject-fraction", 1, "--key-column", "id", command="table"
    )
    assert {row["key"] for row in made.index("train")} == {"1", "2"}
    (line,) = (made.folder / "rejects.jsonl").read_text().splitlines()
    assert json.loads(line)["detail"] == "row 3: two values of the name 'a.b'"


@pytest.mark.parametrize("slow", [False, True])
def test_dots_in_keys_of_objects(slow, tmp_path, monkeypatch):
    """The value `loss` is no object with a value `val`."""
    if slow:
        monkeypatch.setattr(json_blocks, "_parse", lambda lines, wanted: None)
    rows = [{"id": n, "metrics": {"loss": n, "loss.val": 2 * n}} for n in (1, 2)]
    argv = ["--input", write(tmp_path, rows), "--splits", "train=1"]
    made = make(tmp_path / "out", *argv, command="table")
    assert values(made, "metrics.loss", "metrics.loss.val") == {1: [[1], [2]], 2: [[2], [4]]}


def test_a_name_that_has_other_values_too_is_text(tmp_path):
    rows = [{"id": 1, "v": 7, "w": 1}, {"id": 2, "v": {"x": 1}, "w": 2}]
    argv = ["--input", write(tmp_path, rows), "--splits", "train=1"]
    made = make(tmp_path / "out", *argv, command="table")
    assert values(made, "v") == {1: [[b"7"]], 2: [[b'{"x": 1}']]}
    assert {*made.manifest.features} == {"id", "v", "w"}


def test_columns_of_tables_keep_their_dots(tmp_path):
    (tmp_path / "a.csv").write_text("id,a,a.b\n1,,2\n2,,3\n")
    argv = ["--input", tmp_path / "a.csv", "--splits", "train=1"]
    made = make(tmp_path / "out", *argv, command="table")
    assert values(made, "a", "a.b") == {1: [[], [2]], 2: [[], [3]]}
    made = make(tmp_path / "less", *argv, "--drop-columns", "a", command="table")
    assert {*made.manifest.features} == {"id", "a.b"}


def test_objects_in_lists_have_no_columns(tmp_path, capsys):
    source = write(tmp_path, [{"id": 1, "items": [{"price": 2}]}])
    assert run("table", "--input", source, "--output", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "column 'items' has type list<" in said
    assert "drop it with --drop-columns" in said


def test_hostile_objects():
    deep: dict[str, object] = {"x": 1}
    for _ in range(40):
        deep = {"x": deep}
    with pytest.raises(ValueError, match="more than 32 levels"):
        flat_object(deep)
    wide = {"a" * 100_000: {str(n): n for n in range(1000)}}
    with pytest.raises(ValueError, match="too long"):
        flat_object(wide)
    inner = pa.struct([pa.field(str(n), pa.int64()) for n in range(1000)])
    with pytest.raises(ValueError, match="too long"):
        flat_schema([pa.field("a" * 100_000, inner)])
    assert flat_object({"a": {}}) == {}


def test_schemas():
    kind = pa.struct([("b", pa.struct([("c", pa.int64())])), ("d", pa.string())])
    rows = pa.record_batch(
        [pa.array([{"b": {"c": 1}, "d": "x"}, None, {"b": None, "d": None}], kind)], ["a"]
    )
    flat = flatten(rows)
    assert flat.to_pydict() == {"a.b.c": [1, None, None], "a.d": ["x", None, None]}
    assert flat.schema == flat_schema(rows.schema)
    assert nested_schema(flat.schema).field("a").type == kind
    assert nested_schema(pa.schema([("a", pa.int64()), ("a.b", pa.int64())])) is None
    assert nested_schema(pa.schema([("a.b", pa.int64()), ("a", pa.int64())])) is None
    image = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))])
    assert flat_schema(image) == image
    assert columns_of(["a"], ["a", "a.b"]) == {"a"}
    assert columns_of(["a"], ["a.b", "a.c.d", "ab"]) == {"a.b", "a.c.d"}
