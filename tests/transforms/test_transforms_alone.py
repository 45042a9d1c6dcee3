"""Every step alone, as docs/pipelines.md shows it: its examples run here, word for word."""

import ast
import json
import pathlib
import re

import apache_beam as beam
import pyarrow as pa
import pytest
import tensorflow as tf

from recordmill.checking.verify import verify
from recordmill.errors import ConfigError, Reason, RunError
from recordmill.format.manifest import load
from recordmill.pipelines.cli import main
from recordmill.runners import direct
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Feature
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Check,
    DecodeAndResizeImages,
    FileList,
    ImageOptions,
    Publish,
    Read,
    ReadBatches,
    ReadImages,
    Rebalance,
    Reshuffle,
    RunSpec,
    StageBatches,
    WriteToTFRecord,
)
from tests.beam_results import results
from tests.folders import make_folder
from tests.paths import ROOT
from tests.tiny import TinyCheck, TinyEncoder, TinyMisdeclared, tiny_rows

PAGE = ROOT / "docs" / "pipelines.md"
CLASSES = {"cat": 20, "dog": 6}
BY_BEAM = "Images into Beam's own WriteToTFRecord"
ROAD = (
    *("Read", "Check", "AssignSplits", "Analyze"),
    *("Rebalance", "Reshuffle", "WriteToTFRecord", "Publish"),
)


def examples() -> dict[str, str]:
    """{heading: the Python block below it} of the page, in its order.

    Those that need tensorflow-transform run in tests/tft.
    """
    sections = [one.split("\n", 1) for one in PAGE.read_text().split("\n## ")[1:]]
    blocks = {
        heading: re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for heading, text in sections
    }
    blocks.pop("Beam's own transforms")
    return {heading: found[1] for heading, found in blocks.items() if found is not None}


def example_of(heading: str) -> str:
    """The Python block below a heading of the page."""
    return examples()[heading]


@pytest.fixture
def run_example(tmp_path, monkeypatch, capfd):
    """Runs the example below a heading, beside photos/; returns what it printed."""
    make_folder(tmp_path / "photos", CLASSES)
    monkeypatch.chdir(tmp_path)

    def run(heading: str) -> str:
        exec(compile(example_of(heading), str(PAGE), "exec"), {"__name__": "example"})
        return capfd.readouterr().out

    return run


def read_with_tensorflow(pattern: str, features: dict) -> list[dict]:
    files = tf.io.gfile.glob(pattern)
    assert files, f"nothing there: {pattern}"
    dataset = tf.data.TFRecordDataset(files)
    return [tf.io.parse_single_example(one, features) for one in dataset]


IMAGE = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
}


def test_every_step_has_an_example():
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    assert {"ReadImages", "AssignSplits", "SerializeExamples"} <= set(headings)
    assert "DecodeAndResizeImages(" in example_of(BY_BEAM)
    for step in ROAD:
        assert f"{step}(" in example_of("Folder to dataset").replace("Read.from_source(", "Read(")


def test_serialized_examples_to_dataset(run_example):
    run_example("Serialized Examples to dataset")
    made, labelled = (load(Location.parse(name)) for name in ("flowers", "labelled-flowers"))
    assert (made.features.keys(), made.labels) == ({"petals", "species"}, ())
    assert (labelled.features.keys(), labelled.labels) == ({"petals", "label"}, ("iris", "rose"))


def test_values_to_dataset(run_example):
    digest = run_example("Values to dataset").strip()
    manifest = load(Location.parse("values"))
    assert manifest.digest == digest
    assert verify(Location.parse("values"), deep=True).ok
    assert len(set(manifest.splits["train"].classes.values())) == 1
    assert len(manifest.splits["train"].shards) == 2
    read = read_with_tensorflow(
        "values/train.tfrecord-*", {"image/encoded": IMAGE["image/encoded"]}
    )
    assert {tf.io.decode_jpeg(one["image/encoded"]).shape.as_list()[0] for one in read} == {64}


def test_dicts_to_dataset(run_example):
    assert run_example("Dicts to dataset") == ""
    manifest = load(Location.parse("users"))
    assert {*manifest.features} == {"age", "kind"}
    assert manifest.ledger.records.written == 30
    assert manifest.labels == ("new", "old")


def test_folder_to_dataset(run_example):
    digest = run_example("Folder to dataset").strip()
    manifest = load(Location.parse("out"))
    assert manifest.digest == digest
    assert manifest.ledger.inputs.rejected == 0
    assert main(["verify", "--dataset", "out", "--deep", "--quiet"]) == 0
    train = manifest.splits["train"]
    assert len(train.shards) == 2
    assert len(set(train.classes.values())) == 1
    assert manifest.ledger.records.written == sum(CLASSES.values())
    read = read_with_tensorflow("out/train.tfrecord-*", IMAGE)
    assert len(read) == train.records
    assert {tf.io.decode_jpeg(one["image/encoded"]).shape.as_list()[0] for one in read} == {64}
    assert not pathlib.Path("out/.recordmill").exists()


def test_images_into_beams_own_writer(run_example):
    assert run_example(BY_BEAM) == ""
    read = {
        split: read_with_tensorflow(f"by_beam/{split}.tfrecord-*", IMAGE)
        for split in ("train", "test")
    }
    assert all(read.values())
    found = [int(one["image/class/label"]) for rows in read.values() for one in rows]
    assert [found.count(0), found.count(1)] == list(CLASSES.values())
    for one in read["train"]:
        assert tf.io.decode_jpeg(one["image/encoded"]).shape == (64, 64, 3)
        assert one["image/class/text"] == (b"cat", b"dog")[int(one["image/class/label"])]


def test_read_images(run_example):
    rows, reject = sorted(run_example("ReadImages").splitlines(), reverse=True)
    found = ast.literal_eval(rows)
    assert [row["__key__"] for row in found] == ["cat/000.jpg", "dog/000.jpg"]
    assert [row["__label__"] for row in found] == ["cat", "dog"]
    assert [row["camera"] for row in found] == [3, 1]
    assert "dog/gone.jpg" in reject
    assert Reason.MISSING.name in reject


def test_assign_splits(run_example):
    rows = ast.literal_eval(run_example("AssignSplits"))
    by_group = dict(zip(rows["__group__"], rows["__split__"], strict=True))
    assert set(rows["__split__"]) == {"train", "test"}
    assert [by_group[group] for group in rows["__group__"]] == rows["__split__"]


def test_batches_of_your_own(run_example):
    rows = ast.literal_eval(run_example("Custom batches"))
    assert rows["__key__"] == ["a", "b", "c", "d"]
    assert rows["__split__"] == ["train"] * 4


@pytest.mark.long
def test_examples_run_one_after_another_in_one_folder(run_example):
    for heading in examples():
        run_example(heading)


def test_balanced_batches_in_memory(tmp_path):
    run = RunSpec(output=str(tmp_path / "out"), encoder=TinyEncoder(), splits={"train": 1.0})
    rows = pa.RecordBatch.from_pydict(
        {
            "__key__": ["a", "b", "c", "d"],
            "__label__": ["cat", "cat", "cat", "dog"],
            "value": [b"1", b"2", b"3", b"4"],
        }
    )

    def build(pipeline):
        return {
            "rows": pipeline
            | beam.Create([rows])
            | StageBatches(run)
            | AssignSplits()
            | Analyze()
            | Rebalance("oversample")
            | ReadBatches()
        }

    found = pa.Table.from_batches(results(build)["rows"])
    assert sorted(found["__label__"].to_pylist()) == ["cat"] * 3 + ["dog"] * 3
    copies = zip(found["__key__"].to_pylist(), found["__copy__"].to_pylist(), strict=True)
    assert sorted(copies) == [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("d", 1), ("d", 2)]


def test_encode_examples(run_example):
    run_example("SerializeExamples")
    features = {
        "user": tf.io.FixedLenFeature([], tf.int64),
        "name": tf.io.FixedLenFeature([], tf.string, default_value="absent"),
        "embedding": tf.io.FixedLenFeature([3], tf.float32),
    }
    read = read_with_tensorflow("users.tfrecord-00000-of-00001", features)
    assert [int(one["user"]) for one in read] == [17, 23]
    assert [one["name"].numpy() for one in read] == [b"Ada", b"absent"]
    assert [one["embedding"].numpy().tolist() for one in read] == [[0.5, 1, -2], [0, 0.25, 4]]


def test_examples_hold_nothing_of_ours(run_example):
    run_example("SerializeExamples")
    for record in tf.data.TFRecordDataset("users.tfrecord-00000-of-00001"):
        example = tf.train.Example.FromString(record.numpy())
        assert not [name for name in example.features.feature if name.startswith("__")]


# ---- beyond the page


def test_images_that_cannot_be_decoded_come_out_as_rejects(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 3})
    (photos / "cat" / "notes.jpg").write_text("no image")

    def build(pipeline):
        decode = DecodeAndResizeImages(ImageOptions(size=(8, 8)))
        pictures = pipeline | ReadImages(str(photos)) | decode
        return {"pictures": pictures, "rejects": pictures.rejects}

    found = results(build)
    keys = [key for rows in found["pictures"] for key in rows["__key__"].to_pylist()]
    assert sorted(keys) == ["cat/000.jpg", "cat/001.jpg", "cat/002.jpg"]
    assert [(one.key, one.reason) for one in found["rejects"]] == [
        ("cat/notes.jpg", Reason.NOT_AN_IMAGE)
    ]


def test_labels_may_be_a_side_input(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 2, "dog": 2})

    def build(pipeline):
        labels = pipeline | beam.Create([("dog", "cat")])
        decode = DecodeAndResizeImages(
            ImageOptions(size=(8, 8)), labels=beam.pvalue.AsSingleton(labels), label_offset=5
        )
        return {"pictures": pipeline | ReadImages(str(photos)) | decode}

    table = pa.Table.from_batches(results(build)["pictures"])
    numbers = zip(
        table["image/class/text"].to_pylist(), table["image/class/label"].to_pylist(), strict=True
    )
    assert set(numbers) == {("dog", 5), ("cat", 6)}


def test_images_of_other_classes_come_out_as_rejects(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 2, "dog": 2})

    def build(pipeline):
        decode = DecodeAndResizeImages(ImageOptions(size=(8, 8)), labels=("cat", "Dog"))
        pictures = pipeline | ReadImages(str(photos)) | decode
        return {"pictures": pictures, "rejects": pictures.rejects}

    found = results(build)
    table = pa.Table.from_batches(found["pictures"])
    assert table["image/class/label"].to_pylist() == [0, 0]
    why = "label 'dog' is not one of the expected classes; 'Dog' differs from it only by case"
    assert [(one.key, one.stage, one.reason) for one in sorted(found["rejects"])] == [
        (f"dog/{name}.jpg", "encode", Reason.BAD_VALUE) for name in ("000", "001")
    ]
    assert all(one.detail.startswith(why) for one in found["rejects"])


def tiny_batches(count: int) -> list[pa.RecordBatch]:
    """Rows of the tiny data type as a custom pipeline would make them, ten to a batch."""
    rows = tiny_rows(count)
    columns = {
        "__key__": pa.array([key for key, _, _ in rows]),
        "__label__": pa.array([label for _, label, _ in rows]),
        "value": pa.array([value for _, _, value in rows]),
    }
    whole = pa.RecordBatch.from_pydict(columns)
    return [whole.slice(at, 10) for at in range(0, count, 10)]


def unlike_batches() -> list[pa.RecordBatch]:
    one, other = tiny_batches(20)
    return [one, other.set_column(2, "value", pa.array(range(len(other))))]


def write(
    output: pathlib.Path,
    batches: list[pa.RecordBatch],
    *,
    splits=True,
    check=None,
    encoder=TinyEncoder(),  # noqa: B008, it is frozen
    **options,
) -> None:
    run = RunSpec(
        output=str(output), encoder=encoder, splits={"train": 0.9, "test": 0.1}, **options
    )

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | beam.Create(batches) | StageBatches(run)
        if check is not None:
            rows |= Check(check=check)
        if splits:
            rows |= AssignSplits()
        (rows | Analyze() | Rebalance() | Reshuffle() | WriteToTFRecord() | Publish())

    direct.run(build, workers=2)


def test_the_order_in_which_batches_come_changes_nothing(tmp_path):
    batches = tiny_batches(100)
    write(tmp_path / "one", batches, num_shards=3, compression="gzip")
    write(tmp_path / "other", batches[::-1], num_shards=3, compression="gzip")
    one, other = ((tmp_path / name / "dataset.json").read_bytes() for name in ("one", "other"))
    assert one == other
    assert json.loads(one)["ledger"]["records"]["written"] == 100


@pytest.mark.parametrize("check", [None, TinyCheck()])
def test_labels_that_the_run_does_not_name_are_rejected(check, tmp_path):
    """Their records had no number of a class. One batch has such labels only."""
    batches = tiny_batches(100)
    labels = pa.array(["zebra"] * 10)
    batches[4] = batches[4].set_column(1, "__label__", labels)
    batches[6] = batches[6].set_column(
        1, "__label__", pa.concat_arrays([labels[:3], batches[6]["__label__"][3:]])
    )
    known = sorted({*batches[0]["__label__"].to_pylist(), *batches[1]["__label__"].to_pylist()})
    write(tmp_path, batches, check=check, labels=known, max_reject_fraction=0.5)
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [reject["key"] for reject in rejects] == sorted(
        [*batches[4]["__key__"].to_pylist(), *batches[6]["__key__"][:3].to_pylist()]
    )
    assert {reject["reason"] for reject in rejects} == {Reason.BAD_VALUE}
    assert verify(Location.parse(str(tmp_path)), deep=True).damages == ()


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (("value", Feature(dtype="int64")), "feature 'value': expected int64, got string"),
        (("more", Feature(dtype="float32")), "lacks the feature 'more'"),
        (("value", Feature(dtype="string", shape=(2,))), "'value': expected 2 values, got 1"),
    ],
)
def test_an_encoder_that_writes_other_features_than_it_declares(declared, why, tmp_path):
    """Such a dataset was published."""
    encoder = TinyMisdeclared(features_declared=(declared,))
    with pytest.raises(TypeError, match=rf"TinyMisdeclared: .* does not declare: .*{why}"):
        write(tmp_path, tiny_batches(100), encoder=encoder)
    assert not (tmp_path / "dataset.json").exists()
    assert not [*tmp_path.glob(".recordmill/*/info/*")]


@pytest.mark.long
def test_too_many_rejects_are_reported_and_finished_shards_kept(tmp_path):
    batches = tiny_batches(100)
    bad = batches[0].set_column(2, "value", pa.array([b"bad"] * 10))
    message = (
        r"10 of 100 inputs were rejected \(10.0%\), more than max_reject_fraction 0.01 allows:"
        r" correct the input, or raise max_reject_fraction; the first rejects:"
        r" '\S+' \(it begins with bad\), '\S+' \(it begins with bad\)( \[|$)"
    )
    with pytest.raises(RunError, match=message):
        write(tmp_path / "out", [bad, *batches[1:]])
    assert not (tmp_path / "out" / "dataset.json").exists()
    # What had to wait for the plan has waited in files, several small batches in each.
    assert 0 < len(list((tmp_path / "out").glob(".recordmill/*/batches/*.arrow"))) < 10
    staged = next((tmp_path / "out").rglob("train.tfrecord-00000-of-00001")).stat().st_ino
    write(tmp_path / "out", [bad, *batches[1:]], max_reject_fraction=0.1)
    assert (tmp_path / "out" / "train.tfrecord-00000-of-00001").stat().st_ino == staged  # reused
    assert len((tmp_path / "out" / "rejects.jsonl").read_text().splitlines()) == 10
    assert not (tmp_path / "out" / ".recordmill").exists()


def test_too_many_rejects_of_a_listing_are_reported_before_anything_is_written(tmp_path):
    (tmp_path / "images.csv").write_text("path\nhere.jpg\ngone.jpg\n")
    (tmp_path / "here.jpg").write_bytes(b"not read")
    run = RunSpec(output=str(tmp_path / "out"), encoder=TinyEncoder(), splits={"train": 1.0})
    listing = FileList(path=str(tmp_path / "images.csv"))

    def build(pipeline):
        handles = pipeline | Read.from_source(listing, run) | AssignSplits()
        return {"rows": handles | Analyze() | Rebalance() | ReadBatches()}

    message = r"1 of 2 inputs .* raise max_reject_fraction; the first rejects: 'gone.jpg' \(no such"
    with pytest.raises(RunError, match=message):
        results(build)


@pytest.mark.long
def test_a_dataset_is_replaced_only_where_that_is_said(tmp_path):
    write(tmp_path / "out", tiny_batches(50), num_shards=4)
    write(tmp_path / "out", tiny_batches(50), num_shards=4)  # the same
    with pytest.raises(RunError, match="holds a dataset of other records or options: choose"):
        write(tmp_path / "out", tiny_batches(50), num_shards=2)
    assert len([*(tmp_path / "out").glob("train.tfrecord-*")]) == 4
    write(tmp_path / "out", tiny_batches(50), num_shards=2, overwrite=True)
    files = {path.name for path in (tmp_path / "out").glob("train.tfrecord-*")}
    assert files == {f"train.tfrecord-{i:05d}-of-00002" for i in range(2)}


def test_a_folder_of_others_is_never_touched(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "labels.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty and not a dataset"):
        write(tmp_path / "out", tiny_batches(50), overwrite=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["labels.txt"]
    assert (tmp_path / "out" / "labels.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("batches", "options", "error", "message"),
    [
        (tiny_batches(10), {"splits": False}, ConfigError, "AssignSplits before it"),
        ([], {}, RunError, "nothing is left to write: of 0 inputs"),
        (
            tiny_batches(20)[:1] * 2,
            {"num_shards": 3},
            RunError,
            "expected every key once, got 10 that repeat",
        ),
        (unlike_batches(), {}, RunError, "'value': expected .* all batches, got binary and int64"),
    ],
    ids=["without splits", "without records", "a batch twice", "batches of other columns"],
)
def test_what_cannot_be_written(tmp_path, batches, options, error, message):
    with pytest.raises(error, match=message):
        write(tmp_path / "out", batches, **options)


def test_image_options_are_checked_before_the_run():
    with pytest.raises(ConfigError, match=r"options: expected ImageOptions, got \{'size': 64\}"):
        DecodeAndResizeImages({"size": 64}, labels=("cat",))


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"value": "label"}, "rename: 'value' and 'label' would both be named 'label'"),
        ({"valeu": "text"}, "rename valeu=text: there is no feature 'valeu' .did you mean 'value'"),
    ],
)
def test_new_names_are_checked_once_the_features_are_known(rename, message, tmp_path):
    """Two features of one name were a ValueError of an encoder process, others had no effect."""
    with pytest.raises(ConfigError, match=f"^Rebalance: TinyEncoder: {message}"):
        write(tmp_path / "out", tiny_batches(50), rename=rename)


def test_a_way_to_balance_that_does_not_exist():
    with pytest.raises(ConfigError, match=r"balance: expected one of none, oversample, .* 'foo'"):
        Rebalance("foo")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (pa.array(range(10)), r"strings in the column __key__, got int64: cast it with .cast\(pa"),
        (pa.array([None, *"bcdefghij"]), "StageBatches: 1 records have no __key__"),
    ],
)
def test_keys_are_strings(tmp_path, keys, message):
    (rows,) = tiny_batches(10)
    with pytest.raises(ConfigError, match=message):
        write(tmp_path / "out", [rows.set_column(0, "__key__", keys)])


@pytest.mark.parametrize("name", ["__label__", "__group__", "__split__"])
def test_labels_groups_and_splits_are_strings(tmp_path, name):
    (rows,) = tiny_batches(10)
    rows = rows.select(["__key__", "value"]).append_column(name, pa.array(range(10)))
    message = rf"strings in the column {name}, got int64: cast it with .cast\(pa"
    with pytest.raises(ConfigError, match=message):
        write(tmp_path / "out", [rows])


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_strings_of_every_form_are_labels(tmp_path, kind):
    (rows,) = tiny_batches(10)
    written = rows.set_column(1, "__label__", rows["__label__"].cast(kind))
    write(tmp_path / "out", [written.append_column("__group__", pa.nulls(10))])
    assert load(Location.parse(str(tmp_path / "out"))).ledger.records.written == 10


@pytest.mark.parametrize("planned", [False, True])
def test_repeated_keys_are_found_where_batches_end_in_memory(tmp_path, planned):
    run = RunSpec(output=str(tmp_path / "out"), encoder=TinyEncoder(), splits={"train": 1.0})

    def build(pipeline):
        rows = pipeline | beam.Create(tiny_batches(10) * 2) | StageBatches(run) | AssignSplits()
        if planned:
            rows = rows | Analyze() | Rebalance()
        return {"rows": rows | ReadBatches()}

    message = r"expected every key once, got 10 that repeat: .*; make the column __key__ unique \("
    with pytest.raises(RunError, match=message):
        results(build)
