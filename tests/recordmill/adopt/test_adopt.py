"""`recordmill adopt`: files of others become datasets, and stay what they are."""

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import recordmill
from recordmill.adopt.file_scan import file_compression
from recordmill.checking.verify import verify
from recordmill.errors import ConfigError
from recordmill.job import publishing
from recordmill.job.staging import FOLDER
from recordmill.pipelines.cli import main
from recordmill.pipelines.commands import adopt_job
from recordmill.pipelines.commands.adopt_command import adopt_main
from recordmill.pipelines.options.inputs.adopt_input import incomplete, natural, split_of
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Feature
from recordmill.tfrecord.framing import frame
from tests.image_runs import Made, encoders_kept
from tests.image_runs import make as make_dataset_of
from tests.make_dataset import example, flowers, make_dataset, picture
from tests.paths import CLOTHING, ROOT, TFRECORDS
from tests.recordmill.adopt.test_inference import sequence_example
from tests.test_docs import commands


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Processes are started where that is what is tested: elsewhere they take most of the time."""

    def here(function: Callable, tasks: Iterable, *, workers: int):
        del workers
        return map(function, list(tasks))

    monkeypatch.setattr(adopt_job, "in_processes", here)


@pytest.fixture
def others(tmp_path) -> pathlib.Path:
    """A copy: what is adopted gets a further link."""
    return pathlib.Path(shutil.copytree(TFRECORDS, tmp_path / "others"))


def write(path: pathlib.Path, *payloads: bytes, packed: bool = False) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(map(frame, payloads))
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def numbers(first: int, count: int) -> list[bytes]:
    return [example({"x": [number]}) for number in range(first, first + count)]


def run(*argv: object) -> int:
    return main(["adopt", "--quiet", *map(str, argv)])


def adopt(output: pathlib.Path, *inputs: object, options: Iterable[object] = ()) -> Made:
    """What must be adopted, and be a sound dataset whose files are those of the input."""
    places = [word for one in inputs for word in ("--input", one)]
    assert run(*places, "--output", output, *options) == 0
    report = verify(Location.parse(str(output)), deep=True)
    assert report.ok, report.damages
    assert not (output / FOLDER).exists()
    assert b"".join((output / "rejects.jsonl").read_bytes().splitlines()) == b""
    return Made(output)


def shards(made: Made) -> dict[str, int]:
    """{file: records}"""
    splits = made.manifest.splits.values()
    return {shard.file: shard.records for split in splits for shard in split.shards}


# --- Files of other programs --------------------------------------------------------------------

TEXT, IMAGE = Feature(dtype="string", kind="text"), Feature(dtype="string", kind="image")
INT, LABEL = Feature(dtype="int64"), Feature(dtype="int64", kind="label")
ANY = (None,)


@pytest.mark.parametrize(
    ("name", "records", "features", "labels"),
    [
        ("python-data", 1, {"code": TEXT, "count": INT, "ratio": Feature(dtype="float32")}, ()),
        (
            "python-singles",
            3,
            {
                "code": Feature(dtype="string", shape=ANY, kind="text"),
                "ratio": Feature(dtype="float32", shape=ANY),
                "number": Feature(dtype="int64", shape=ANY),
            },
            (),
        ),
        (
            "python-42",
            42,
            {
                "feature0": INT,
                "feature1": INT,
                "feature2": TEXT,
                "feature3": Feature(dtype="float32"),
            },
            (),
        ),
        (
            "tensorflow-images",
            2,
            {"depth": INT, "height": INT, "image_raw": IMAGE, "label": LABEL, "width": INT},
            ("0", "1"),
        ),
    ],
)
def test_files_of_other_programs(name, records, features, labels, others, tmp_path):
    source = others / f"{name}.tfrecord"
    before = source.read_bytes()
    made = adopt(tmp_path / "out", source)
    manifest = made.manifest
    assert shards(made) == {"train.tfrecord-00000-of-00001": records}
    assert manifest.features == features
    assert manifest.labels == labels
    assert manifest.encoders == {}
    assert [row["key"] for row in made.index("train")] == [
        f"{name}.tfrecord#{number}" for number in range(records)
    ]
    adopted = tmp_path / "out" / "train.tfrecord-00000-of-00001"
    assert adopted.stat().st_ino == source.stat().st_ino
    assert source.read_bytes() == before
    read = list(recordmill.read(tmp_path / "out"))
    assert len(read) == records
    assert repr(recordmill.open(tmp_path / "out")[records - 1]) == repr(read[-1])
    builder = tfds.builder_from_directory(tmp_path / "out")
    assert len(list(builder.as_dataset(split="train"))) == records


def test_splits_by_the_names_of_files(others, tmp_path):
    made = adopt(tmp_path / "out", others / "gzip-*.gz")
    ends = {"test": 2, "train": 2, "validation": 2}
    assert shards(made) == {f"{s}.tfrecord-00000-of-00001.gz": n for s, n in ends.items()}
    manifest = made.manifest
    assert manifest.compression == "gzip"
    assert manifest.labels == ("0", "1")
    assert manifest.class_weights == {"0": 1, "1": 1}
    assert manifest.notes == ("no TFDS files: TFDS cannot read gzip TFRecords",)
    assert manifest.ledger.inputs.read == manifest.ledger.records.written == 6
    for split in ends:
        assert {bytes(one["split"]) for one in recordmill.read(tmp_path / "out", split)} == {
            split.upper().encode()
        }


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_files_of_tensorflow(compression, tmp_path):
    """The names of classes come from image/class/text, their numbers from 1 on."""

    def features(number: int) -> tf.train.Features:
        def ints(*values: int) -> tf.train.Feature:
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

        def texts(*values: bytes) -> tf.train.Feature:
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

        floats = tf.train.FloatList(value=[number / 2] * (number % 3))
        return tf.train.Features(
            feature={
                "image/encoded": texts(picture(number)),
                "image/class/label": ints(1 + number % 2),
                "image/class/text": texts((b"rose", b"tulip")[number % 2]),
                "box": tf.train.Feature(float_list=floats),
                "size": ints(number, -number),
                "nothing": tf.train.Feature(),
            }
        )

    for split, first in (("train", 0), ("val", 10)):
        path = os.fspath(tmp_path / f"flowers-{split}.tfrecord")
        with tf.io.TFRecordWriter(path, compression) as writer:
            for number in range(first, first + 10):
                made = tf.train.Example(features=features(number))
                writer.write(made.SerializeToString())
    made = adopt(tmp_path / "out", tmp_path / "*.tfrecord", options=["--label-offset", 1])
    assert made.manifest.labels == ("rose", "tulip")
    assert made.manifest.splits["validation"].classes == {"rose": 5, "tulip": 5}
    assert made.manifest.features == {
        "image/encoded": IMAGE,
        "image/class/label": LABEL,
        "image/class/text": TEXT,
        "box": Feature(dtype="float32", shape=ANY),
        "size": Feature(dtype="int64", shape=(2,)),
        "nothing": Feature(dtype="string", shape=ANY),
    }
    assert (tmp_path / "out" / "labels.txt").read_text() == "rose\ntulip\n"
    assert [one["size"].tolist() for one in recordmill.read(tmp_path / "out", "validation")] == [
        [number, -number] for number in range(10, 20)
    ]


def test_sequence_examples_of_tensorflow(tmp_path):
    def step(*values: float) -> tf.train.Feature:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    label = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    path = tmp_path / "frames.tfrecord"
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for number in range(1, 4):
            lists = {"heat": [step(number, 0.5)] * number, "time": [step(number)] * 2}
            made = tf.train.SequenceExample(
                context=tf.train.Features(feature={"label": label}),
                feature_lists=tf.train.FeatureLists(
                    feature_list={n: tf.train.FeatureList(feature=s) for n, s in lists.items()}
                ),
            )
            writer.write(made.SerializeToString())
    made = adopt(tmp_path / "out", path)
    assert made.manifest.features == {
        "heat": Feature(dtype="float32", shape=(None, 2), sequence=True),
        "label": LABEL,
        "time": Feature(dtype="float32", shape=(2,), sequence=True),
    }
    assert [one["heat"].shape for one in recordmill.read(tmp_path / "out")] == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]
    assert "SequenceExamples" in made.manifest.notes[-1]


def test_steps_of_different_length_stay_apart(tmp_path):
    def step(*values: float) -> tf.train.Feature:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    path = tmp_path / "frames.tfrecord"
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for count in (3, 0, 1):
            steps = [step(*[number] * number) for number in range(count)]
            lists = {"x": tf.train.FeatureList(feature=steps)}
            made = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list=lists))
            writer.write(made.SerializeToString())
    adopt(tmp_path / "out", path)
    found = [[*map(list, one["x"])] for one in recordmill.read(tmp_path / "out")]
    assert found == [[[], [1.0], [2.0, 2.0]], [], [[]]]
    assert found[0] == [*map(list, next(recordmill.read(path))["x"])]
    ((batch),) = recordmill.load(tmp_path / "out", batch_size=3, padding="ragged")
    assert batch["x"].to_list() == found


def test_what_is_not_found_out_is_noted(tmp_path):
    texts = write(tmp_path / "a.tfrecord", example({"label": [b"cat"]}))
    (note, *_) = adopt(tmp_path / "texts", texts).manifest.notes
    assert note == "no classes: 'label' holds string; expected int64, the number of a class"
    named = {"label": [1], "image/class/text": [b"cat"]}
    other = {"label": [0], "image/class/text": [b"cat"]}
    same = write(tmp_path / "b.tfrecord", example(named), example(other))
    made = adopt(tmp_path / "same", same)
    assert "classes have no names: two numbers have the same name" in made.manifest.notes[0]
    assert made.manifest.labels == ("0", "1")
    for name in ("site/train/a", "site/holdout/b"):
        write(tmp_path / "in" / f"{name}.tfrecord", *numbers(0, 2))
    made = adopt(tmp_path / "split", tmp_path / "in")
    (note,) = [note for note in made.manifest.notes if "names contain no split" in note]
    assert note.endswith("holdout/b.tfrecord")


def test_our_own_shards(tmp_path):
    """They hold the same, so that the digest is the same, and the features."""
    rows = {split: [s for s in some if s] for split, some in flowers().items()}
    rows = {split: some for split, some in rows.items() if some}
    first = make_dataset(tmp_path / "first", rows)
    made = adopt(tmp_path / "out", tmp_path / "first")
    second = made.manifest
    assert second.digest == first.digest
    assert second.labels == first.labels
    # What the bytes of an array mean nothing in them says.
    grid = Feature(dtype="string")
    assert second.features == {**first.features, "grid": grid}
    again = adopt(
        tmp_path / "again", tmp_path / "first", options=["--raw", "grid=float32:2x2"]
    ).manifest
    assert again.features == first.features
    assert (again.digest, again.splits["train"].classes) == (
        first.digest,
        first.splits["train"].classes,
    )


def test_a_dataset_of_pictures_of_ours(tmp_path):
    folder = tmp_path / "photos"
    for label in ("shoes", "shorts"):
        (folder / label).mkdir(parents=True)
        for photo in sorted((CLOTHING / label).iterdir())[:6]:
            (folder / label / photo.name).symlink_to(photo)
    with encoders_kept():
        first = make_dataset_of(
            tmp_path / "first", "--input", folder, "--size", "16", "--num-shards", "2"
        ).manifest
    second = adopt(tmp_path / "out", tmp_path / "first").manifest
    assert second.digest == first.digest
    assert second.labels == first.labels
    assert {name: (f.dtype, f.shape, f.kind) for name, f in second.features.items()} == {
        name: (f.dtype, f.shape, f.kind) for name, f in first.features.items()
    }
    builder = tfds.builder_from_directory(tmp_path / "out")
    assert builder.info.features["image/class/label"].names == ["shoes", "shorts"]
    (pixels, _), *_ = builder.as_dataset(split="train", as_supervised=True)
    assert pixels.shape == (16, 16, 3)


# --- Which files, and of which split -----------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "split"),
    [
        ("a.tfrecord", "train"),
        ("train-00000-of-00002.tfrecord", "train"),
        ("val.tfrecord", "validation"),
        ("mnist_valid_3.tfrecord", "validation"),
        ("Validation2017.tfrec", "validation"),
        ("x-TEST.tfrecord.gz", "test"),
        ("eval.record-00001", "test"),
        ("latest.tfrecord", "train"),
        ("value.tfrecord", "train"),
        ("evaluate.tfrecord", "train"),
        ("val/a.tfrecord", "validation"),
        ("test/train-1.tfrecord", "train"),
        ("test/of/a.tfrecord", "test"),
        ("train-val/test/a.tfrecord", "test"),
    ],
)
def test_what_a_name_says_of_the_split(key, split):
    assert split_of(key) == split


def test_a_name_that_says_two_splits():
    with pytest.raises(ConfigError, match="names the splits test and train; --split NAME"):
        split_of("train_test.tfrecord")


def test_files_are_numbered_as_their_names_are(tmp_path):
    for number in (10, 9, 1):
        write(tmp_path / "in" / f"train-{number}.tfrecord", *numbers(number, 2))
        write(tmp_path / "in" / f"val-{number}.tfrecord", *numbers(100 + number, 1))
    made = adopt(tmp_path / "out", tmp_path / "in" / "train-*", tmp_path / "in" / "val-*")
    assert [one["x"] for one in recordmill.read(tmp_path / "out")] == [
        *(1, 2, 9, 10, 10, 11),
        *(101, 109, 110),
    ]
    assert [row["key"] for row in made.index("validation")] == [
        f"val-{number}.tfrecord#0" for number in (1, 9, 10)
    ]
    as_one = adopt(tmp_path / "as one", tmp_path / "in", options=["--split", "eval"]).manifest
    assert list(as_one.splits) == ["eval"]
    assert len(as_one.splits["eval"].shards) == 6
    assert sorted(["a10", "a9", "b1", "a09"], key=natural) == ["a09", "a9", "a10", "b1"]


def test_folders_give_splits_and_keys(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "in" / split / "a.tfrecord", *numbers(0, 1))
        (tmp_path / "in" / split / "README.md").write_text("no records")
    (tmp_path / "in" / ".hidden.tfrecord").write_text("no records")
    for number, place in enumerate(("in", "in/*/*.tfrecord", "in/**/a.*")):
        made = adopt(tmp_path / f"out {number}", tmp_path / place)
        assert made.keys("train") == {"train/a.tfrecord#0"}
        assert made.keys("test") == {"test/a.tfrecord#0"}
        assert made.manifest.notes[0] == (
            "duplicate files: train/a.tfrecord is the same as test/a.tfrecord"
        )
        assert made.manifest.ledger.inputs.filtered == (2 if place == "in" else 0)


def test_a_link_and_a_file_named_twice(tmp_path):
    source = write(tmp_path / "in" / "a.tfrecord", *numbers(0, 2))
    (tmp_path / "b.tfrecord").symlink_to(source)
    made = adopt(tmp_path / "out", source, tmp_path / "in", tmp_path / "b.tfrecord")
    assert shards(made) == {f"train.tfrecord-0000{n}-of-00002": 2 for n in range(2)}
    assert not (tmp_path / "out" / "train.tfrecord-00000-of-00002").is_symlink()
    assert source.stat().st_nlink == 3


def test_compression_is_told_by_content(tmp_path):
    plain, packed = tmp_path / "a.gz", tmp_path / "b.tfrecord"
    write(plain, *numbers(0, 2))
    write(packed, *numbers(0, 2), packed=True)
    (tmp_path / "empty").touch()
    assert adopt(tmp_path / "plain", plain).manifest.compression == "none"
    assert shards(adopt(tmp_path / "packed", packed, tmp_path / "empty")) == {
        "train.tfrecord-00000-of-00002.gz": 2,
        "train.tfrecord-00001-of-00002.gz": 0,
    }
    # The length of this frame begins as gzip does.
    size = 0x8B1F - len(example({"x": [bytes(0x8B00)]})) + 0x8B00
    odd = write(tmp_path / "odd", example({"x": [bytes(size)]}))
    assert odd.read_bytes()[:2] == b"\x1f\x8b"
    assert file_compression(Location.parse(str(odd))) == "none"
    assert adopt(tmp_path / "of odd", odd).manifest.ledger.records.written == 1


def test_empty_files_become_empty_shards(tmp_path):
    write(tmp_path / "in" / "a.tfrecord")
    write(tmp_path / "in" / "b.tfrecord", *numbers(0, 3))
    write(tmp_path / "in" / "test.tfrecord")
    made = adopt(tmp_path / "out", tmp_path / "in")
    assert shards(made) == {
        "train.tfrecord-00000-of-00002": 0,
        "train.tfrecord-00001-of-00002": 3,
        "test.tfrecord-00000-of-00001": 0,
    }
    builder = tfds.builder_from_directory(tmp_path / "out")
    assert len(list(builder.as_dataset(split="train"))) == 3
    assert len(recordmill.open(tmp_path / "out")) == 3


def test_files_that_are_not_all_there_are_told(tmp_path):
    write(tmp_path / "in" / "x.tfrecord-00001-of-00003", *numbers(0, 1))
    notes = adopt(tmp_path / "out", tmp_path / "in").manifest.notes
    assert notes[0] == "x.tfrecord-*-of-00003: only 1 of 3 files exist"
    whole = [f"x-0000{number}-of-00002" for number in range(2)]
    assert list(incomplete(whole)) == []


def test_where_no_link_can_be_made_files_are_copied(tmp_path, monkeypatch, capsys):
    source = write(tmp_path / "in" / "a.tfrecord", *numbers(0, 9), packed=True)

    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    made = adopt(tmp_path / "out", source)
    copy = tmp_path / "out" / "train.tfrecord-00000-of-00001.gz"
    assert copy.read_bytes() == source.read_bytes()
    assert copy.stat().st_ino != source.stat().st_ino
    assert (
        made.manifest.splits["train"].shards[0].sha256
        == hashlib.sha256(source.read_bytes()).hexdigest()
    )
    assert adopt_main(["--input", str(source), "--output", str(tmp_path / "loud")]) == 0
    assert "1 of 1 file had to be copied, because the output" in capsys.readouterr().out


# --- What is damaged ---------------------------------------------------------------------------


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


FRAMES = [frame(payload) for payload in numbers(0, 3)]
WHOLE, END = b"".join(FRAMES), len(FRAMES[0])
SECOND = f"a.tfrecord, record 1, byte {END}: "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (flipped(WHOLE, END + 14), SECOND + "payload checksum does not match"),
        (flipped(WHOLE, END), SECOND + "length checksum does not match"),
        (WHOLE[: 2 * END - 1], SECOND + "the file ends inside a record"),
        (WHOLE + b"garbage", f"record 3, byte {3 * END}: the file ends inside a record"),
        (WHOLE + bytes(20), f"record 3, byte {3 * END}: length checksum does not match"),
        (
            FRAMES[0] + frame(b"x" * 50)[:12] + FRAMES[1],
            SECOND + "the file ends inside a record",
        ),
        (FRAMES[0] + frame(b"hello"), SECOND + "not a tf.train.Example: "),
        (
            FRAMES[0] + frame(b"\x09" + bytes(8)),
            SECOND + "not a tf.train.Example: has a field 1 of wire type 1, as no Example has",
        ),
        (
            FRAMES[0] + frame(example({"x": [1.0]})),
            SECOND + "feature 'x' holds float32, but in record 0 it holds int64",
        ),
        (
            FRAMES[0] + frame(sequence_example({}, {"x": [[1]]})),
            SECOND + "'x' is a feature list, but in record 0 it is a feature",
        ),
        (
            FRAMES[0] + frame(sequence_example({}, {"y": [[1]]})),
            SECOND + "expected an Example, as record 0 is, got a SequenceExample: adopt Examples"
            " and SequenceExamples as separate datasets",
        ),
        (
            frame(sequence_example({"x": [1]}, {})) + FRAMES[0],
            "expected a SequenceExample, as record 0 is, got an Example",
        ),
        (
            b"some text, more than one line of it\n" * 3,
            "a.tfrecord, record 0, byte 0: length checksum does not match; is it a TFRecord file?",
        ),
        (
            b"\x78\x9c" + bytes(30),
            "the file looks like zlib: expected gzip, or no compression",
        ),
        (
            gzip.compress(WHOLE, mtime=0)[:-9],
            "a.tfrecord, record 3, byte 90: the file ends inside a gzip member",
        ),
        (gzip.compress(WHOLE, mtime=0) + b"garbage", "not a gzip stream"),
    ],
    ids=range(16),
)
def test_damaged_files(content, message, tmp_path, capsys):
    (tmp_path / "a.tfrecord").write_bytes(content)
    assert run("--input", tmp_path / "a.tfrecord", "--output", tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("recordmill adopt: error: nothing was adopted: a.tfrecord, record ")
    assert said.count("\n") == 1
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert not [*(tmp_path / "out").glob("*tfrecord*")]


def test_all_damaged_files_are_named_and_a_mended_one_is_read_alone(tmp_path, capsys, monkeypatch):
    for name, content in (("a", WHOLE), ("b", WHOLE[:-1]), ("c", flipped(WHOLE, 0))):
        (tmp_path / f"{name}.tfrecord").write_bytes(content)
    argv = ("--input", tmp_path / "*.tfrecord", "--output", tmp_path / "out")
    assert run(*argv) == 1
    assert capsys.readouterr().err.splitlines() == [
        "recordmill adopt: error: nothing was adopted: 2 of 3 files are damaged",
        f"  b.tfrecord, record 2, byte {2 * END}: the file ends inside a record",
        "  c.tfrecord, record 0, byte 0: length checksum does not match; is it a TFRecord file?",
    ]
    for name in "bc":
        (tmp_path / f"{name}.tfrecord").write_bytes(WHOLE + FRAMES[0])
    read = []
    scan = adopt_job.scan_file.__globals__["_scan"]

    def counted(task, *rest):
        read.append(task.source.key)
        return scan(task, *rest)

    monkeypatch.setitem(adopt_job.scan_file.__globals__, "_scan", counted)
    made = adopt(tmp_path / "out", tmp_path / "*.tfrecord")
    assert read == ["b.tfrecord", "c.tfrecord"]
    assert list(shards(made).values()) == [3, 4, 4]


def test_features_that_differ_between_files(tmp_path, capsys):
    write(tmp_path / "a.tfrecord", example({}), example({"x": [1], "y": [1]}))
    write(tmp_path / "b.tfrecord", example({"y": [1]}), example({"x": [b"text"], "y": [2]}))
    assert run("--input", tmp_path / "*.tfrecord", "--output", tmp_path / "out") == 1
    assert capsys.readouterr().err == (
        "recordmill adopt: error: nothing was adopted: b.tfrecord, record 1: feature 'x' holds"
        " string, but in a.tfrecord, record 1 it holds int64\n"
    )


def test_types_of_records_that_differ_between_files(tmp_path, capsys):
    write(tmp_path / "a.tfrecord", example({}), example({"c": [1]}))
    write(tmp_path / "b.tfrecord", b"", sequence_example({"c": [1]}, {"x": [[1]]}))
    assert run("--input", tmp_path / "*.tfrecord", "--output", tmp_path / "out") == 1
    assert capsys.readouterr().err == (
        "recordmill adopt: error: nothing was adopted: b.tfrecord, record 1: expected an"
        " Example, as a.tfrecord, record 1 is, got a SequenceExample: adopt Examples and"
        " SequenceExamples as separate datasets\n"
    )


def test_a_feature_list_that_a_record_lacks_has_no_steps(tmp_path):
    records = ({"x": [[1], [2]], "y": [[5]]}, {"y": [[6]]}, {})
    path = write(tmp_path / "a.tfrecord", *(sequence_example({"c": [7]}, one) for one in records))
    adopt(tmp_path / "out", path)
    ((batch),) = recordmill.load(tmp_path / "out", batch_size=3, padding="ragged")
    assert batch["x"].to_list() == [[1, 2], [], []]
    assert batch["y"].to_list() == [[5], [6], []]


def test_a_file_that_changes_while_it_is_read(tmp_path, capsys, monkeypatch):
    source = write(tmp_path / "a.tfrecord", *numbers(0, 3))
    listed = adopt_job.list_input

    def grows(*args, **options):
        found = listed(*args, **options)
        source.write_bytes(WHOLE + FRAMES[0])
        return found

    monkeypatch.setattr(adopt_job, "list_input", grows)
    assert run("--input", source, "--output", tmp_path / "out") == 1
    assert "changed while it was read: run the same command again" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()


# --- The output --------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path) -> pathlib.Path:
    records = [example({"label": [number % 2], "pixels": [bytes(4)]}) for number in range(4)]
    return write(tmp_path / "in" / "a.tfrecord", *records)


def told(capsys) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def loud(*argv: object) -> int:
    return main(["adopt", *map(str, argv)])


def test_the_same_command_again(source, tmp_path, capsys):
    argv = ("--input", source, "--output", tmp_path / "out")
    assert loud(*argv) == 0
    before = Made(tmp_path / "out").manifest
    told(capsys)
    assert loud(*argv) == 0
    assert "nothing has changed since" in told(capsys)
    assert Made(tmp_path / "out").manifest == before
    assert not (tmp_path / "out" / FOLDER).exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label-feature", "label"], "--label-feature was not given, is label"),
        (["--split", "test"], "--split was not given, is test"),
        (["--raw", "pixels=uint8:4"], "--raw was not given, is pixels=uint8:4"),
    ],
)
def test_other_options(options, message, source, tmp_path, capsys):
    argv = ("--input", source, "--output", tmp_path / "out")
    assert run(*argv) == 0
    assert run(*argv, *options) == 2
    said = told(capsys)
    assert message in said
    assert "--overwrite replaces it" in said
    made = adopt(tmp_path / "out", source, options=[*options, "--overwrite"])
    assert len(shards(made)) == 1
    assert source.stat().st_nlink == 2


def test_another_input(source, tmp_path, capsys):
    out = tmp_path / "out"
    adopt(out, source.parent)
    other = write(source.parent / "b.tfrecord", *numbers(0, 1))
    assert run("--input", source.parent, "--output", out) == 2
    assert "the input has changed since" in (said := told(capsys))
    assert "new files: 1 ('b.tfrecord'); modified or renumbered files: 1 ('a.tfrecord')" in said
    made = adopt(out, source.parent, options=["--overwrite"])
    assert list(shards(made).values()) == [4, 1]
    other.unlink()
    assert run("--input", source.parent, "--output", out) == 2
    assert "missing files: 1 ('b.tfrecord')" in told(capsys)
    assert len(adopt(out, source.parent, options=["--overwrite"]).index("train")) == 4


def test_a_damaged_output(source, tmp_path, capsys):
    out = tmp_path / "out"
    adopt(out, source)
    (out / "schema.pbtxt").unlink()
    assert run("--input", source, "--output", out) == 1
    assert "schema.pbtxt is missing; --overwrite adopts the files again" in told(capsys)
    adopt(out, source, options=["--overwrite"])


def test_verify_compares_contents(source, tmp_path, capsys):
    out = tmp_path / "out"
    argv = ("--input", source, "--output", out)
    adopt(out, source)
    assert loud(*argv, "--verify") == 0
    assert "the contents of its files are those of its manifest" in " ".join(told(capsys).split())
    index = next((out / "index").iterdir())
    content = bytearray(index.read_bytes())
    content[9] ^= 1
    index.write_bytes(content)
    assert loud(*argv) == 0
    assert "sizes agree" in told(capsys)
    assert loud(*argv, "--verify") == 1
    assert f"index/{index.name} has other contents; --overwrite adopts" in told(capsys)
    adopt(out, source, options=["--overwrite", "--verify"])
    assert index.read_bytes() != content
    assert run(*argv, "--verify", "--dry-run") == 2


def undecodable(path: pathlib.Path) -> pathlib.Path:
    """A file whose third image is cut, under right checksums."""
    images = [picture(n, height=30, width=40) for n in range(4)]
    images[2] = images[2][: len(images[2]) // 2]
    return write(path, *(example({"image": [image], "label": [0]}) for image in images))


def test_images_that_do_not_decode_are_adopted_with_a_warning(tmp_path, capsys):
    source = undecodable(tmp_path / "in" / "a.tfrecord")
    argv = ("--input", source, "--output", tmp_path / "out")
    assert loud(*argv) == 0
    said = " ".join(told(capsys).split())
    assert "Images were not decoded, only recognized by their first bytes" in said
    assert "--verify deep" in said
    assert loud(*argv, "--verify") == 0
    assert "the contents of its files are those of its manifest" in " ".join(told(capsys).split())
    assert loud(*argv, "--verify", "deep") == 1
    said = " ".join(told(capsys).split())
    assert "holds images that cannot be decoded: a.tfrecord, record 2" in said
    assert "leave these files out" in said


def test_verify_deep_adopts_no_file_with_an_image_that_does_not_decode(tmp_path, capsys):
    sound = write(
        tmp_path / "in" / "a.tfrecord",
        *(example({"image": [picture(n)], "label": [1]}) for n in range(3)),
    )
    bad = undecodable(tmp_path / "in" / "b.tfrecord")
    argv = ("--input", sound.parent, "--output", tmp_path / "out")
    assert loud(*argv, "--verify", "deep") == 1
    said = " ".join(told(capsys).split())
    assert "nothing was adopted: b.tfrecord, record 2" in said
    assert "feature 'image': the image cannot be decoded" in said
    assert not (tmp_path / "out" / "dataset.json").exists()
    bad.unlink()
    assert loud(*argv, "--verify=deep") == 0
    assert "not decoded" not in told(capsys)
    assert loud(*argv, "--verify", "deep") == 0
    assert "every image can be decoded" in " ".join(told(capsys).split())


def test_verify_takes_no_other_value(source, tmp_path, capsys):
    argv = ("--input", source, "--output", tmp_path / "out")
    assert run(*argv, "--verify", "all") == 2
    assert "--verify: expected contents or deep, got 'all'" in told(capsys)
    (tmp_path / "job.yaml").write_text("verify: true\n")
    assert run(*argv, "--config", tmp_path / "job.yaml") == 0
    (tmp_path / "job.yaml").write_text("verify: deep\n")
    assert run(*argv, "--config", tmp_path / "job.yaml") == 0


def test_a_dry_run_makes_nothing(source, tmp_path, capsys):
    assert loud("--input", source, "--output", tmp_path / "out", "--dry-run") == 0
    said = told(capsys)
    assert "4 records in these files can be adopted; nothing was written" in said
    assert "a.tfrecord" in said
    assert "label" in said
    assert not (tmp_path / "out").exists()
    assert source.stat().st_nlink == 1


def test_what_is_said_at_the_end(tmp_path, capsys):
    for number in range(12):
        write(tmp_path / f"train-{number}.tfrecord", *numbers(number, 1))
    write(tmp_path / "val.tfrecord", *numbers(0, 2))
    assert loud("--input", tmp_path / "*.tfrecord", "--output", tmp_path / "out") == 0
    lines = [" ".join(line.split()) for line in told(capsys).splitlines()]
    assert "train-*.tfrecord 12 train" in lines
    assert "val.tfrecord 1 validation" in lines
    assert "x int64 value" in lines
    assert any(line.startswith("14 records written to ") for line in lines)


def test_classes_from_options(source, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("rose\ntulip\naster\n")
    made = adopt(
        tmp_path / "out", source, options=["--labels-file", names, "--label-feature", "label"]
    )
    assert made.manifest.labels == ("rose", "tulip", "aster")
    assert made.manifest.splits["train"].classes == {"rose": 2, "tulip": 2}
    assert made.manifest.class_weights == {"rose": 1, "tulip": 1, "aster": 0}
    assert [row["label"] for row in made.index("train")] == ["rose", "tulip"] * 2


def test_records_without_a_class(tmp_path):
    source = write(tmp_path / "a.tfrecord", example({"label": [0]}), example({"label": None}))
    made = adopt(tmp_path / "out", source)
    assert made.manifest.features["label"] == Feature(dtype="int64", shape=ANY, kind="label")
    assert [row["label"] for row in made.index("train")] == ["0", None]


def test_arrays(source, tmp_path, capsys):
    made = adopt(tmp_path / "out", source, options=["--raw", "pixels=uint8:2x2"])
    (first, *_) = recordmill.read(tmp_path / "out")
    np.testing.assert_array_equal(first["pixels"], np.zeros((2, 2), np.uint8))
    assert made.manifest.features["pixels"].raw_shape == (2, 2)
    (one, *_) = tfds.builder_from_directory(tmp_path / "out").as_dataset(split="train")
    assert one["pixels"].shape == (2, 2)
    argv = ("--input", source, "--output", tmp_path / "other")
    assert run(*argv, "--raw", "pixels=uint8:2x3") == 1
    assert (
        "a.tfrecord, record 0, byte 0: --raw: feature 'pixels': 4 bytes do not fill an array"
        in told(capsys)
    )
    assert run(*argv, "--raw", "y=uint8:4") == 1
    assert "feature 'y': expected the bytes of one array, got no value" in told(capsys)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["--output", "out"], 2, "missing --input; see recordmill adopt --help"),
        (["--input", "no.tfrecord"], 2, "there is no such file or folder; check the path"),
        (["--input", "no-*.tfrecord"], 2, "--input no-*.tfrecord: no file matches"),
        (["--input", "no/*.tfrecord"], 2, "--input no/*.tfrecord: no file matches"),
        (["--input", "texts"], 2, "no file in this folder is named as a TFRecord file"),
        (["--input", "in", "--output", "in/out"], 2, "lies inside --input in: the next run would"),
        (["--input", "in", "--output", "in"], 2, "lies inside --input in"),
        (["--input", "in/**/*tfrecord*", "--output", "in/out"], 2, "matches --input"),
        (["--input", "in/a.tfrecord", "--output", "in"], 2, "lies inside --output"),
        (["--input", "in/a.tfrecord", "--output", "texts"], 2, "is not empty and not a dataset"),
        (["--input", "in/a.tfrecord", "--output", "in/a.tfrecord"], 2, "lies inside --output"),
        (["--input", "mixed/*"], 2, "got b.tfrecord, which is gzip, and a.tfrecord, which is not"),
        (["--input", "s3://bucket/a.tfrecord"], 2, "copy the files to this machine"),
        (["--input", "in", "--output", "gs://bucket/out"], 2, "copy the files to this machine"),
        (["--input", "in", "--split", "a/b"], 2, "--split: expected a name of letters"),
        (["--input", "in", "--workers", "-1"], 2, "--workers: expected 0 or more, got -1"),
        (["--input", "in", "--label-offset", "-1"], 2, "--label-offset: expected 0 or more"),
        (["--input", "in", "--raw", "x=28x28"], 2, "--raw: expected DTYPE:SHAPE"),
        (["--input", "in", "--labels", "x"], 2, "unknown option --labels; did you mean"),
        (
            ["--input", "in", "--labels-file", "no.txt"],
            2,
            "no.txt: it or its folder does not exist",
        ),
        (["--input", "in", "--label-feature", "lable"], 1, "did you mean 'label'"),
        (
            ["--input", "in", "--label-feature", "pixels"],
            1,
            "'pixels' holds string; expected int64",
        ),
        (["--input", "in", "--label-offset", "1"], 0, ""),
        (["--input", "in", "--label-offset", "1", "--label-feature", "label"], 1, "holds 0, but"),
        (["--input", "nothing"], 1, "there is no record in 1 file"),
    ],
)
def test_what_cannot_be_adopted(argv, code, message, source, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.txt").write_text("mine")
    write(tmp_path / "mixed" / "a.tfrecord", *numbers(0, 1))
    write(tmp_path / "mixed" / "b.tfrecord", *numbers(0, 1), packed=True)
    write(tmp_path / "nothing" / "a.tfrecord")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    output = [] if "--output" in argv else ["--output", "out"]
    assert run(*argv, *output) == code
    said = told(capsys)
    assert message in said
    assert "Traceback" not in said
    if code:
        assert not list(tmp_path.rglob("dataset.json"))
    if code == 2:
        assert not (tmp_path / "out").exists()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_dataset_is_not_adopted_where_it_is(source, tmp_path, capsys):
    out = tmp_path / "out"
    adopt(out, source)
    assert run("--input", out / "train.tfrecord-*", "--output", out) == 2
    assert "lies inside --output" in told(capsys)
    assert run("--input", out / "train.tfrecord-00000-of-00001", "--output", out) == 2
    assert "lies inside --output" in told(capsys)
    assert verify(Location.parse(str(out))).ok


def test_a_pattern_that_the_shell_has_taken(source, tmp_path):
    other = write(tmp_path / "in" / "b.tfrecord", example({}))
    output = ["--output", tmp_path / "out"]
    assert run("--input", source, other, *output) == 0
    assert len(Made(tmp_path / "out").index("train")) == 5
    assert run(*output, "--workers", 1, "--input", source, "--input", other) == 0


def test_many_records_are_indexed_in_processes(source, tmp_path, monkeypatch):
    monkeypatch.setattr(adopt_job, "_IN_THIS_PROCESS", 0)
    assert adopt(tmp_path / "out", source).keys("train") == {f"a.tfrecord#{n}" for n in range(4)}


def test_a_picture_is_found_and_saved(others, tmp_path):
    adopt(tmp_path / "out", others / "tensorflow-images.tfrecord")
    argv = ["inspect", "--dataset", str(tmp_path / "out"), "--record", "1", "--save"]
    assert main([*argv, str(tmp_path / "picture")]) == 0
    assert (tmp_path / "picture.jpg").read_bytes().startswith(b"\xff\xd8")


def test_options_from_a_file(source, tmp_path, capsys):
    argv = ["--input", str(source), "--input", "b,c", "--raw", "x=uint8:4", "--print-config"]
    with pytest.raises(SystemExit):
        adopt_main([*argv, "--output", "out"])
    shown = capsys.readouterr().out
    (tmp_path / "job.yaml").write_text(shown)
    with pytest.raises(SystemExit):
        adopt_main(["--config", str(tmp_path / "job.yaml"), "--print-config"])
    assert capsys.readouterr().out == shown
    (tmp_path / "two.yaml").write_text(f"input: [{source}, {source.parent}]\noutput: {tmp_path}/o")
    assert run("--config", tmp_path / "two.yaml") == 0
    assert len(Made(tmp_path / "o").index("train")) == 4


# --- Runs that are stopped ---------------------------------------------------------------------


@pytest.mark.long
def test_a_run_goes_on_wherever_it_was_stopped(source, tmp_path, monkeypatch):
    """Every operation on storage is once the last one of a run."""
    write(source.parent / "b.tfrecord", *numbers(0, 2))
    whole = adopt(tmp_path / "whole", source.parent).manifest
    operations = ("rename", "delete", "write_bytes", "open_output", "delete_tree", "make_dirs")
    from recordmill.storage.local_files import LocalFiles

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    step, stopped = 0, True
    while stopped:
        step += 1
        out = tmp_path / f"out {step}"
        stopped = False
        left = step

        def counted(operation):
            def call(self, *args, **options):
                nonlocal left, stopped
                left -= 1
                if left == 0:
                    stopped = True
                    raise KeyboardInterrupt
                return operation(self, *args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in operations:
                patch.setattr(LocalFiles, name, counted(getattr(LocalFiles, name)))
            code = run("--input", source.parent, "--output", out)
        assert code == (130 if stopped else 0)
        there = (out / "dataset.json").exists()
        if there:
            assert verify(Location.parse(str(out))).ok
        assert adopt(out, source.parent).manifest == whole
    assert step > 20
    assert source.stat().st_nlink == 2 + step


def test_an_overwriting_run_that_is_stopped_leaves_no_mixture(source, tmp_path, monkeypatch):
    out = tmp_path / "out"
    adopt(out, source)
    bring = publishing.bring

    def stop(*_, **__):
        (out / "dataset.json").unlink()
        raise KeyboardInterrupt

    argv = ("--input", source, "--output", out, "--split", "test", "--overwrite")
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "bring", stop)
        assert run(*argv) == 130
    assert not (out / "dataset.json").exists()
    assert publishing.bring is bring
    assert run(*argv) == 0
    assert list(shards(Made(out))) == ["test.tfrecord-00000-of-00001"]
    assert not (out / "train.tfrecord-00000-of-00001").exists()
    assert verify(Location.parse(str(out))).ok


@pytest.mark.long
def test_the_command_in_processes_of_its_own(tmp_path):
    for number in range(6):
        write(tmp_path / "in" / f"train-{number}.tfrecord", *numbers(number * 10, 10))
    expected = adopt(tmp_path / "expected", tmp_path / "in").manifest
    out, pattern = tmp_path / "out", str(tmp_path / "in" / "*.tfrecord")
    command = [sys.executable, "-m", "recordmill", "adopt"]
    command += ["--input", pattern, "--output", str(out), "--workers", "2"]

    def call(code: int) -> tuple[str, str]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    pipe = tmp_path / "in" / "train-6.tfrecord"
    os.mkfifo(pipe)  # who opened it would wait for ever
    assert "train-6.tfrecord: a pipe: expected a regular file" in call(2)[1]
    pipe.unlink()
    printed, complained = call(0)
    assert "60 records written to" in printed
    assert complained == ""
    assert Made(out).manifest == expected
    assert json.loads((out / "job.json").read_text())["input"] == [pattern]
    assert "nothing has changed" in call(0)[0]


def test_a_run_that_is_killed_is_finished_by_the_next(tmp_path):
    """Killed once a file is read, while one is held up: what was read is not read again."""
    for number in range(2):
        write(tmp_path / "in" / f"train-{number}.tfrecord", *numbers(number * 10, 10))
    out = tmp_path / "out"
    argv = ["adopt", "--input", str(tmp_path / "in" / "*.tfrecord"), "--output", str(out)]
    # It stops itself for good right after the first file: no clock decides what it has done.
    code = f"""
import os, signal
from recordmill.pipelines.commands import adopt_job
from recordmill.pipelines.cli import main
adopt_job.in_processes = lambda function, tasks, workers: map(function, list(tasks))
scan = adopt_job.scan_file
def die(task):
    if task.source.key == "train-1.tfrecord":
        os.kill(os.getpid(), signal.SIGKILL)
    return scan(task)
adopt_job.scan_file = die
main({argv!r})
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (out / "dataset.json").exists()
    assert main(["verify", "--dataset", str(out), "--quiet"]) == 1
    staged = list(out.glob(f"{FOLDER}/*/info/*.json"))
    assert [path.name for path in staged] == ["train.tfrecord-00000-of-00002.json"]
    made = adopt(out, tmp_path / "in" / "*.tfrecord")
    assert len(made.index("train")) == 20


def test_the_commands_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, first in (("train-1", 0), ("train-2", 4), ("val-1", 8)):
        records = [
            example({"kind": [number % 2], "pixels": [bytes([number] * 4)]})
            for number in range(first, first + 4)
        ]
        write(tmp_path / "shards" / f"{name}.tfrecord", *records)
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    found = commands(ROOT / "docs" / "adopt.md")
    assert len(found) == 4
    for command in found:
        assert main(command) == 0
    assert Made(tmp_path / "named").manifest.labels == ("cat", "dog")
    assert list(Made(tmp_path / "both").manifest.splits) == ["train", "validation"]
    assert list(Made(tmp_path / "held-out").manifest.splits) == ["test"]
