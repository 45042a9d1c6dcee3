"""The split of a row without a key column depends on its content alone."""

import datetime
import json
import pathlib
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.image_runs import Made, make

pytestmark = pytest.mark.usefixtures("encoders")

COUNT = 2_000
DAY = datetime.date(2026, 1, 31)
Row = dict[str, Any]


def rows_of(count: int, *, start: int = 0) -> list[Row]:
    return [
        {
            "number": number,
            "whole": float(number % 7),
            "part": number / 8 if number % 5 else None,
            "word": f"word {number % 100}",
            "on": number % 3 == 0,
            "day": DAY + datetime.timedelta(days=number % 400),
            "label": "xyz"[number % 3],
        }
        for number in range(start, start + count)
    ]


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """A file of the format that its extension names."""
    if path.suffix in (".csv", ".tsv"):
        delimiter = "," if path.suffix == ".csv" else "\t"
        lines = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
        path.write_text("".join(f"{delimiter.join(line)}\n" for line in [list(rows[0]), *lines]))
    elif path.suffix == ".parquet":
        pq.write_table(arrow(rows), path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, arrow(rows).schema) as writer:
            writer.write_table(arrow(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows))
    else:
        types = {"number": "long", "whole": "double", "part": ["null", "double"], "word": "string",
                 "on": "boolean", "day": {"type": "int", "logicalType": "date"},
                 "label": "string"}  # fmt: skip
        fields = [{"name": name, "type": kind} for name, kind in types.items()]
        schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
        with path.open("wb") as sink:
            fastavro.writer(sink, schema, rows)


def table(folder: pathlib.Path, source: object, *options: object) -> Made:
    return make(folder, "--input", source, "--label-column", "label", *options, command="table")


def split_of_numbers(made: Made) -> dict[int, str]:
    return {
        example["number"][0]: split
        for split in made.manifest.splits
        for example in made.examples(split).values()
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Made:
    folder = tmp_path_factory.mktemp("first")
    write(folder / "first.csv", rows_of(COUNT))
    return table(folder / "out", folder / "first.csv")


@pytest.mark.parametrize("extension", ["tsv", "parquet", "avro", "jsonl", "arrow"])
def test_every_format_shuffled_and_renamed_has_the_same_splits(first, tmp_path, extension):
    rows = rows_of(COUNT)
    random.Random(extension).shuffle(rows)
    write(tmp_path / f"other.{extension}", rows)
    made = table(tmp_path / "out", tmp_path / f"other.{extension}")
    assert all(made.keys(split) == first.keys(split) for split in first.manifest.splits)
    assert split_of_numbers(made) == split_of_numbers(first)


def test_equal_rows_of_equal_types_have_the_same_digest(first, tmp_path):
    rows = rows_of(COUNT)
    random.Random(0).shuffle(rows)
    (tmp_path / "cut").mkdir()
    for part in range(3):
        write(tmp_path / f"cut/z{part}.tsv", rows[part::3])
    made = table(tmp_path / "out", tmp_path / "cut", "--workers", 2)
    assert made.manifest.digest == first.manifest.digest


def test_rows_in_front_an_odd_value_and_new_labels_move_no_record(first, tmp_path):
    rows = rows_of(300, start=COUNT) + rows_of(COUNT)
    lines = [",".join(rows[0])]
    for row in rows:
        cells = {**row, "label": "new" if row["number"] % 10 == 0 else row["label"]}
        cells["whole"] = "hello" if row["number"] == COUNT else row["whole"]
        lines.append(",".join("" if cell is None else str(cell) for cell in cells.values()))
    (tmp_path / "more.csv").write_text("\n".join(lines))
    made = table(tmp_path / "out", tmp_path / "more.csv")
    assert made.manifest.features["whole"].dtype == "string"
    found, before = split_of_numbers(made), split_of_numbers(first)
    assert {number: found[number] for number in before} == before
    assert len(found) == COUNT + 300


def test_equal_rows_are_numbered_and_stay_together(tmp_path):
    lines = [f"{number % 50},{number % 25},{'pq'[number % 3 == 0]}" for number in range(600)]
    digests = set()
    for order in range(2):
        random.Random(order).shuffle(lines)
        (tmp_path / f"{order}.csv").write_text("\n".join(["a,b,label", *lines]))
        made = table(tmp_path / f"out{order}", tmp_path / f"{order}.csv")
        digests.add(made.manifest.digest)
    assert len(digests) == 1
    split_of = {key: split for split in made.manifest.splits for key in made.keys(split)}
    assert len(split_of) == 600
    numbers = Counter(key.partition("#")[0] for key in split_of)
    assert len(numbers) == 50
    assert set(numbers.values()) == {12}
    assert {key.partition("#")[2] for key in split_of} == {"", *map(str, range(2, 13))}
    assert all(split == split_of[key.partition("#")[0]] for key, split in split_of.items())


def test_equal_rows_get_their_numbers_by_label(tmp_path):
    """Contradicting rows are numbered in the same order, whatever the order of the file."""
    labels = []
    for order in (["x", "y"], ["y", "x"]):
        path = tmp_path / f"{order[0]}.csv"
        path.write_text("\n".join(["a,label", *(f"1,{label}" for label in order)]))
        made = table(tmp_path / f"out-{order[0]}", path, "--splits", "train=1")
        labels.append({row["key"]: row["label"] for row in made.index("train")})
    assert len(labels[0]) == 2
    assert labels[0] == labels[1]


def test_dedup_group_changes_no_numbers(tmp_path):
    labels = "abcdefgh"
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"one,{one}\n" for one in labels))
    found = []
    for dedup in ("none", "group"):
        argv = ("--input", tmp_path / "a.csv", "--splits", "train=1", "--dedup", dedup)
        index = make(tmp_path / dedup, *argv, command="text").index("train")
        found.append({row["label"]: row["key"] for row in index})
    assert len(found[0]) == len(labels)
    assert found[0] == found[1]


def test_texts_have_keys_by_content_and_rejects_their_line(tmp_path):
    texts = ["one", "two", "", "one", "three"]
    (tmp_path / "t.csv").write_text("\n".join(["text,n", *(f"{text},7" for text in texts)]))
    options = ("--splits", "train=1", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", "--input", tmp_path / "t.csv", *options, command="text")
    assert made.rejects == {"t.csv#3": "empty"}
    found = {key: row["text"][0].decode() for (key, _), row in made.examples().items()}
    assert sorted(found.values()) == ["one", "one", "three", "two"]
    assert sorted(len(key) for key in found) == [32, 32, 32, 34]
    (tmp_path / "more").mkdir()
    (tmp_path / "more/t.txt").write_text("three\n\nnew\none\n")
    lines = make(
        tmp_path / "lines",
        *("--input", tmp_path / "more", "--documents", "line", "--splits", "train=1"),
        command="text",
    )
    assert {row["text"][0] for row in lines.examples().values()} >= {b"one", b"three", b"new"}


@pytest.mark.parametrize("command", ["table", "text"])
def test_several_key_columns_give_the_key(tmp_path, command):
    lines = ["site,day,text", "a,1,one", "a,2,two", '"a,1",,three', "b,1,one"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    options = ("--splits", "train=1", "--max-reject-fraction", 1, "--key-column", "site,day")
    made = make(tmp_path / "out", "--input", tmp_path / "t.csv", *options, command=command)
    assert made.keys("train") == {"a,1", "a,2", "b,1"}
    assert made.rejects == {"t.csv#3": "bad_value"}
    assert set(made.manifest.features) & {"site", "day"} == set()
