"""Folders such as `split=train/kind=cat`, `train2017` and `Split-train`: splits and classes."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill import read
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.archive_files import files_in, zip_of
from tests.image_runs import Made, make, run
from tests.pipelines.test_input_splits import OF_FILES, OF_ROWS, fill, table
from tests.s3_server import s3_server
from tests.tfrecord_inputs import write_records

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

ALL = ("--splits", "train=1")


def classes(made: Made) -> dict[str, dict[str, int]]:
    """{split: {class: number of records}}"""
    return {name: dict(split.classes) for name, split in made.manifest.splits.items()}


def notes(made: Made, code: str) -> list[str]:
    return [str(note) for note in made.manifest.notes if note.code == code]


def options(command: str) -> tuple[str, ...]:
    return {**OF_ROWS, **OF_FILES}[command][1]


def parquet(path: pathlib.Path, number: int, **columns: list[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": [number, number + 1], **columns}), path.with_suffix(".parquet"))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("split=train/kind=%s", "split=test/kind=%s"),
        ("kind=%s/split=train", "kind=%s/split=Test"),
        ("date=1/label=%s/subset=train", "date=1/label=%s/subset=eval"),
        ("train2017/%s", "test2017/%s"),
        ("Train-2014/%s", "Test-2014/%s"),
        ("Split-train/%s", "Split-eval/%s"),
        ("split=train/%s", "split=test/%s"),
    ],
)
@pytest.mark.parametrize("command", OF_FILES)
def test_splits_and_classes_of_files(command, train, test, tmp_path):
    write, argv = OF_FILES[command]
    fill(tmp_path / "in", write, train % "cat" + "/1", train % "dog" + "/2", test % "cat" + "/3")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv, command=command)
    assert classes(made) == {"train": {"cat": 1, "dog": 1}, "test": {"cat": 1}}
    assert made.manifest.labels == ("cat", "dog")


def test_partitions_in_archives_patterns_and_object_stores(tmp_path):
    write, argv = OF_FILES["images"]
    names = [f"split={s}/kind={k}/1" for s in ("train", "val") for k in ("a b", "c")]
    fill(tmp_path / "in", write, *names)
    files = files_in(tmp_path / "in")
    expected = {split: {"a b": 1, "c": 1} for split in ("train", "validation")}
    packed = zip_of(tmp_path / "x.zip", files)
    with s3_server() as uri:
        for name, content in files.items():
            Location.parse(uri(f"in/{name}")).write_bytes(content)
        inputs = (packed, tmp_path / "in/**", tmp_path / "in/split=*/kind=*/*.png", uri("in"))
        for number, given in enumerate(inputs):
            made = make(tmp_path / str(number), "--input", given, *argv)
            assert classes(made) == expected, given


def test_values_of_partitions_are_decoded(tmp_path):
    write, argv = OF_FILES["images"]
    names = ("kind=a%2Fb/1", "kind=c%3Dd/2", "kind=__HIVE_DEFAULT_PARTITION__/3")
    fill(tmp_path / "in", write, *names)
    given = ("--input", tmp_path / "in", *argv, *ALL, "--max-reject-fraction", 0.5)
    made = make(tmp_path / "out", *given)
    assert made.manifest.labels == ("a/b", "c=d")
    assert made.rejects == {"kind=__HIVE_DEFAULT_PARTITION__/3.png": "unlabelled"}


def test_names_of_several_keys_are_classes_as_they_are(tmp_path):
    write, argv = OF_FILES["images"]
    fill(tmp_path / "in", write, "x=1/1", "y=1/2")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv, *ALL)
    assert made.manifest.labels == ("x=1", "y=1")


@pytest.mark.parametrize(
    ("names", "option", "labels"),
    [
        (("year=1/kind=a/1", "year=2/kind=b/2"), "year=", ("1", "2")),
        (("year=1/kind=a/1", "year=2/kind=b/2"), "kind=", ("a", "b")),
        (("day=1/a/1", "day=2/b/2"), "parent", ("a", "b")),
    ],
)
@pytest.mark.parametrize("command", ["images", "text"])
def test_several_folders_that_may_be_the_class(command, names, option, labels, tmp_path, capsys):
    write, argv = OF_FILES[command]
    fill(tmp_path / "in", write, *names)
    argv = (*argv, *ALL, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run(command, *argv) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "may be its class" in said
    assert option in said
    assert "--label-type none" in said
    assert run(command, *argv, "--label-from", option) == 0
    assert Made(tmp_path / "out").manifest.labels == labels
    assert run(command, *argv, "--label-type", "none", "--overwrite") == 0
    assert Made(tmp_path / "out").manifest.labels == ()


def test_annotated_images_of_coco(tmp_path):
    write, argv = OF_FILES["images"]
    fill(tmp_path / "in", write, "train2017/1", "train2017/2", "val2017/3")
    (tmp_path / "in" / "annotations").mkdir()
    text = '{"images": [%s], "annotations": [%s], "categories": [{"id": 1, "name": "a"}]}'
    numbers = {"train": (1, 2), "val": (3,)}
    paths = []
    for split, ids in numbers.items():
        images = ", ".join(f'{{"id": {n}, "file_name": "{n}.png"}}' for n in ids)
        box = '{"id": %d, "image_id": %d, "category_id": 1, "bbox": [1, 1, 5, 5]}'
        boxes = ", ".join(box % (n, n) for n in ids)
        paths.append(tmp_path / "in" / "annotations" / f"instances_{split}2017.json")
        paths[-1].write_text(text % (images, boxes))
    given = ("--annotations", ",".join(map(str, paths)))
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv, *given)
    counts = {name: split.records for name, split in made.manifest.splits.items()}
    assert counts == {"train": 2, "validation": 1}


@pytest.mark.parametrize(
    ("names", "inputs"),
    [
        (("seg_train/a/1", "seg_test/a/2"), ("seg_train", "seg_test")),
        (("trainA/a/1", "testA/a/2", "trainB/a/3"), ("trainA", "trainB", "testA")),
        (("train_data/a/1", "test_data/a/2"), ("train_data", "test_data")),
    ],
)
@pytest.mark.parametrize("command", [*OF_FILES, "table"])
def test_folders_that_may_be_splits(command, names, inputs, tmp_path, capsys):
    write, argv = {**OF_ROWS, **OF_FILES}[command]
    fill(tmp_path / "in", write, *names)
    (tmp_path / "in" / "annotations").mkdir()
    (tmp_path / "in" / "annotations" / "a.json.md5").write_text("{}")
    argv = (*argv, "--output", tmp_path / "out")
    assert run(command, *argv, "--input", tmp_path / "in") == 2
    said = " ".join(capsys.readouterr().err.split())
    advised = []
    for name in inputs:
        split = "train" if "train" in name else "test"
        advised += ["--input", f"{split}={tmp_path / 'in' / name}"]
    assert " ".join(advised) in said
    assert run(command, *argv, *advised, "--dry-run") == 0
    assert run(command, *argv, "--input", tmp_path / "in", "--split-from", "none") == 0


@pytest.mark.parametrize("command", OF_ROWS)
def test_splits_of_rows(command, tmp_path):
    write, argv = OF_ROWS[command]
    fill(tmp_path / "in", write, "split=train/1", "split=test/2", "split=val/3")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv, command=command)
    assert made.manifest.splits.keys() == {"train", "validation", "test"}
    assert {key[:12] for key in lineage(made, "test")} == {"split=test/2"}
    assert notes(made, "unread") == []


def lineage(made: Made, split: str) -> set[str]:
    return {str(row.get("place") or row.get("source") or row["key"]) for row in made.index(split)}


def test_classes_of_rows(tmp_path, capsys):
    root = tmp_path / "in"
    for number, kind in enumerate(("cat", "dog", "cat")):
        parquet(root / f"kind={kind}/day={number}/part-0", number * 2)
    argv = ("--input", root, *ALL)
    made = make(tmp_path / "0", *argv, command="table")
    (note,) = notes(made, "no-classes")
    assert f"the names of the folders of {root} give columns (kind=, day=): if 'kind' is" in note
    assert main(["table", *map(str, argv), "--output", str(tmp_path / "dry"), "--dry-run"]) == 0
    said = "".join(capsys.readouterr())
    assert "columns  x (int), kind (string, from paths), day (int, from paths)" in said
    made = make(tmp_path / "1", *argv, "--label-column", "kind", command="table")
    assert classes(made) == {"train": {"cat": 4, "dog": 2}}
    assert values(made, "day") == [0, 0, 1, 1, 2, 2]
    assert notes(made, "no-classes") == []
    made = make(tmp_path / "2", *argv, "--label-type", "none", command="table")
    assert values(made, "kind") == [b"cat", b"cat", b"cat", b"cat", b"dog", b"dog"]
    assert notes(made, "no-classes") == []
    made = make(tmp_path / "3", *argv, "--drop-columns", "kind,day", command="table")
    assert made.manifest.features.keys() == {"x"}
    assert notes(made, "no-classes") == []


def values(made: Made, name: str) -> list[object]:
    """The values of a feature in the records of train, sorted."""
    found = (np.asarray(record[name]).reshape(-1) for record in read(made.folder, "train"))
    return sorted((one.tolist()[0] if len(one) else None for one in found), key=repr)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("2", "10"), [2, 10]),
        (("0.5", "1"), [0.5, 1.0]),
        (("01", "02"), [b"01", b"02"]),
        (("a%2Fb", "c"), [b"a/b", b"c"]),
        (("__HIVE_DEFAULT_PARTITION__", "7"), [None, 7]),
    ],
)
def test_types_of_columns_in_folders(given, expected, tmp_path):
    for number, value in enumerate(given):
        parquet(tmp_path / f"in/size={value}/part-0", number * 2)
    argv = ("--input", tmp_path / "in", *ALL, "--where", "x == 0 or x == 2")
    made = make(tmp_path / "1", *argv, command="table")
    assert values(made, "size") == sorted(expected, key=repr)
    is_missing = None in expected
    assert made.manifest.features["size"].shape == ((None,) if is_missing else ())


def test_options_take_columns_of_folders(tmp_path):
    for year in (2023, 2024, 2025):
        parquet(tmp_path / f"in/year={year}/day={year}01{year % 7 + 1:02}/part-0", year)
    argv = ("--input", tmp_path / "in", *ALL, "--where", "year > 2023")
    argv = (*argv, "--time-format", "day=%Y%m%d", "--minmax", "year")
    made = make(tmp_path / "out", *argv, command="table")
    assert values(made, "year") == [0, 0, 1, 1]
    assert made.manifest.features["day"].dtype == "int64"
    assert min(values(made, "day")) > 1_700_000_000_000_000 // 86_400_000_000


def test_numbers_to_predict_in_folders_of_rows(tmp_path):
    parquet(tmp_path / "in" / "label=1/part-0", 0)
    parquet(tmp_path / "in" / "label=2.5/part-0", 2)
    argv = ("--input", tmp_path / "in", "--label-type", "float", *ALL)
    made = make(tmp_path / "out", *argv, command="table")
    assert values(made, "label") == [1, 1, 2.5, 2.5]


def test_a_column_of_files_and_of_folders(tmp_path):
    root = tmp_path / "in"
    parquet(root / "year=2023/month=01/part-0", 0, year=[2023, 2024], month=["1", None])
    parquet(root / "year=2024/month=02/part-0", 2, year=[2024, 2024], month=["2", "february"])
    argv = ("--input", root, *ALL, "--max-reject-fraction", 1)
    made = make(tmp_path / "1", *argv, command="table")
    assert made.rejects == {
        "year=2023/month=01/part-0.parquet#2": "bad_value",
        "year=2024/month=02/part-0.parquet#2": "bad_value",
    }
    details = (tmp_path / "1" / "rejects.jsonl").read_text()
    assert "column 'year' is '2024', but the folder of the file is year=2023" in details
    assert "column 'month' is 'february', but the folder of the file is month=02" in details
    others = ("--column-from", "y=year=", "--drop-columns", "month")
    made = make(tmp_path / "2", *argv, *others, command="table")
    assert values(made, "year") == [2023, 2024, 2024, 2024]
    assert values(made, "y") == [b"2023", b"2023", b"2024", b"2024"]
    assert made.rejects == {}


def test_the_only_column_of_files_is_the_text(tmp_path):
    for lang in ("de", "en"):
        parquet(tmp_path / f"in/lang={lang}/part-0", 0)
    for path in tmp_path.rglob("*.parquet"):
        pq.write_table(pa.table({"words": ["a b", f"c {path.parent.name}"]}), path)
    made = make(tmp_path / "out", "--input", tmp_path / "in", *ALL, command="text")
    assert values(made, "lang") == [b"de", b"de", b"en", b"en"]
    assert b"a b" in values(made, "text")


@pytest.mark.parametrize("command", ["table", "text"])
def test_a_usual_name_of_the_class_in_folders_of_rows(command, tmp_path):
    root = tmp_path / "in"
    for number, kind in enumerate("ab"):
        parquet(root / f"Label={kind}/part-0", number * 2, text=[f"a{number}", f"b{number}"])
    made = make(tmp_path / "out", "--input", root, *ALL, command=command)
    assert classes(made) == {"train": {"a": 2, "b": 2}}


def test_groups_and_splits_in_folders_of_rows(tmp_path):
    root = tmp_path / "in"
    parquet(root / "year=1/part-0", 0, label=["a", "b"])
    parquet(root / "year=2/part-0", 2, label=["a", "b"])
    made = make(tmp_path / "1", "--input", root, *ALL, command="table")
    assert classes(made) == {"train": {"a": 2, "b": 2}}
    assert values(made, "year") == [1, 1, 2, 2]
    made = make(tmp_path / "2", "--input", root, "--split-column", "year", command="table")
    assert {name: one.records for name, one in made.manifest.splits.items()} == {"1": 2, "2": 2}
    made = make(tmp_path / "3", "--input", root, *ALL, "--group-column", "year", command="table")
    assert sorted(row["group"] for row in made.index("train")) == ["1", "1", "2", "2"]


def test_series_in_partitions(tmp_path):
    write, argv = OF_ROWS["sensor"]
    fill(tmp_path / "in", write, "device=1/1", "device=2/2")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv, *ALL, command="sensor")
    assert made.manifest.features["device"].shape == (2,)
    assert notes(made, "no-classes") == []


def test_splits_of_tfrecords_of_tfx(tmp_path):
    for number, name in enumerate(("Split-train", "Split-eval")):
        path = tmp_path / "in" / name / "data_tfrecord-00000-of-00001.gz"
        write_records(path, [{"x": [number]}, {"x": [number + 2]}], compressed=True)
    made = make(tmp_path / "out", "--input", tmp_path / "in", command="table")
    counts = {name: split.records for name, split in made.manifest.splits.items()}
    assert counts == {"train": 2, "test": 2}


def test_inputs_named_as_splits_have_no_note_on_classes(tmp_path):
    write, argv = OF_FILES["images"]
    fill(tmp_path, write, "a/train2017/1", "a/val2017/2")
    folder = tmp_path / "a"
    inputs = ("--input", folder / "train2017", "--input", folder / "val2017")
    made = make(tmp_path / "out", *inputs, *argv)
    counts = {name: split.records for name, split in made.manifest.splits.items()}
    assert counts == {"train": 1, "validation": 1}
    assert notes(made, "no-classes") == []


@pytest.mark.parametrize("command", [*OF_FILES, "table"])
def test_a_note_on_a_single_class(command, tmp_path):
    write, argv = {**OF_ROWS, **OF_FILES}[command]
    fill(tmp_path / "in", write, "images/1", "images/2")
    if command == "table":
        write_one_label(tmp_path / "in")
    given = ("--input", tmp_path / "in", *argv, *ALL)
    made = make(tmp_path / "out", *given, command=command)
    (note,) = notes(made, "one-class")
    assert f"all records have the same class, {made.manifest.labels[0]!r}: " in note
    (tmp_path / "labels.txt").write_text("\n".join([*made.manifest.labels, "zebra"]))
    named = make(
        tmp_path / "named", *given, "--labels-file", tmp_path / "labels.txt", command=command
    )
    assert notes(named, "one-class") == []


def write_one_label(root: pathlib.Path) -> None:
    for path in root.rglob("*.csv"):
        path.write_text(path.read_text().replace(",b", ",a"))


def test_table_of_partitions_with_other_files_is_read(tmp_path):
    fill(tmp_path / "in", table, "year=1/1", "other/2")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *ALL, command="table")
    assert notes(made, "unread") == []
