"""Records in memory become datasets: batches, dicts and rows, without a listing of their own."""

import collections
import dataclasses
import datetime
import decimal
import io
import pathlib
import random
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import CompressionTypes
from PIL import Image

import recordmill
from recordmill.checking.verify import verify
from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import Manifest, load
from recordmill.runners import direct
from recordmill.storage.files import Location
from recordmill.transforms import (
    AssignSplits,
    BatchRecords,
    DecodeAndResizeImages,
    EncodeExamples,
    ReadImages,
    Rebalance,
    Reshuffle,
    WriteToTFRecord,
    publish,
)
from tests.damaged_jpegs import DAMAGES
from tests.folders import make_folder
from tests.image_runs import Made, make

SPLITS = {"train": 0.7, "test": 0.3}


def write(output: pathlib.Path, build, **options) -> Manifest:
    """The manifest of the dataset of the records that `build` makes of a pipeline."""

    def whole(pipeline: beam.Pipeline) -> None:
        build(pipeline) | WriteToTFRecord(str(output), **options)

    direct.run(whole, workers=2)
    assert verify(Location.parse(str(output))).ok
    return load(Location.parse(str(output)))


def animals(count: int) -> list[dict]:
    """Dicts of a class, a number and a list."""
    return [
        {"kind": "cat" if i % 4 else "dog", "weight": i / 8, "seen": [i, i + 1]}
        for i in range(count)
    ]


def batches_of(rows: list[dict], size: int) -> list[pa.RecordBatch]:
    """Batches of a size, with the class in its system column."""
    whole = pa.RecordBatch.from_pylist(
        [{"__label__": row["kind"], "weight": row["weight"], "seen": row["seen"]} for row in rows]
    )
    return [whole.slice(at, size) for at in range(0, len(whole), size)]


def index_of(output: pathlib.Path) -> list[dict]:
    """The rows of the index of a dataset."""
    return [
        row
        for path in sorted((output / "index").iterdir())
        for row in pq.read_table(path).to_pylist()
    ]


def classes_of(output: pathlib.Path) -> dict[str, set[int]]:
    """{class: its numbers} of the records of a dataset."""
    found = collections.defaultdict(set)
    for split in load(Location.parse(str(output))).splits:
        for example in Made(output).examples(split).values():
            (name,), (number,) = example["image/class/text"], example["image/class/label"]
            found[name if isinstance(name, str) else name.decode()].add(number)
    return dict(found)


@pytest.mark.parametrize("again", [False, True], ids=["once", "also of the writer"])
def test_classes_of_decoded_images_have_the_same_numbers_in_the_dataset(again, tmp_path):
    photos = make_folder(tmp_path / "photos", {"dress": 6, "hat": 6})
    numbers = {"labels": ["hat", "dress"], "label_offset": 1}
    write(
        tmp_path / "out",
        lambda pipeline: (
            pipeline | ReadImages(str(photos)) | DecodeAndResizeImages(size=8, **numbers)
        ),
        **({**numbers, "labels": ("hat", "dress")} if again else {}),
    )
    assert classes_of(tmp_path / "out") == {"hat": {1}, "dress": {2}}


def test_classes_that_are_a_side_input_are_numbered_by_the_writer(tmp_path):
    photos = make_folder(tmp_path / "photos", {"dress": 6, "hat": 6})

    def build(pipeline):
        names = beam.pvalue.AsList(pipeline | beam.Create(["hat"]))
        images = pipeline | ReadImages(str(photos))
        return images | DecodeAndResizeImages(size=8, labels=names)

    write(tmp_path / "out", build, labels=("dress", "hat"), max_reject_fraction=0.9)
    assert classes_of(tmp_path / "out") == {"hat": {1}}


class Animal(NamedTuple):
    """A record with types that Beam knows."""

    kind: str
    weight: float
    seen: list[int]


@dataclasses.dataclass
class AnimalData:
    """The same as a dataclass."""

    kind: str
    weight: float
    seen: list[int]


@pytest.mark.parametrize(
    "form", ["dicts", "rows", "named tuples", "dataclasses", "unknown", "batches of 7"]
)
def test_all_forms_of_records_give_the_same_dataset(form, tmp_path):
    rows = animals(200)
    made = {
        "dicts": rows,
        "rows": [beam.Row(**row) for row in rows],
        "named tuples": [Animal(**row) for row in rows],
        "dataclasses": [AnimalData(**row) for row in rows],
        "unknown": rows,
        "batches of 7": batches_of(rows, 7),
    }

    def build(pipeline, name):
        records = pipeline | beam.Create(made[name])
        if name == "unknown":
            records |= beam.Map(dict).with_output_types(beam.typehints.Any)
        if not name.startswith("batches"):
            records |= BatchRecords(label_column="kind")
        return records | AssignSplits(SPLITS, seed=3) | Rebalance("oversample") | Reshuffle()

    found = write(tmp_path / "out", lambda pipeline: build(pipeline, form))
    expected = write(tmp_path / "dicts", lambda pipeline: build(pipeline, "dicts"))
    assert found.digest == expected.digest
    assert len(set(found.splits["train"].classes.values())) == 1
    assert found.ledger.records.written == 200
    assert {name: feature.shape for name, feature in found.features.items()} == {
        "label": (), "seen": (None,), "weight": ()
    }  # fmt: skip


def test_equal_records_are_numbered_and_share_a_split(tmp_path):
    rows = animals(20) * 5
    made = write(
        tmp_path / "out",
        lambda pipeline: pipeline | beam.Create(rows) | BatchRecords(label_column="kind"),
    )
    keys = [row["key"] for row in index_of(tmp_path / "out")]
    assert len(set(keys)) == made.ledger.records.written == 100
    assert collections.Counter(key.partition("#")[0] for key in keys).most_common(1)[0][1] == 5
    assert made.content is not None
    assert made.content.leaks.contents == 0


def test_a_batch_that_comes_twice_is_written_twice(tmp_path):
    made = write(
        tmp_path / "out", lambda pipeline: pipeline | beam.Create(batches_of(animals(10), 10) * 2)
    )
    assert made.ledger.records.written == 20


def test_images_in_the_pipeline_are_those_of_the_command(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 20, "dog": 6})
    (photos / "cat" / "broken.jpg").write_bytes(b"no image")
    (photos / "cat" / ".hidden").write_bytes(b"")
    large = io.BytesIO()
    Image.effect_noise((160, 120), 60).convert("RGB").save(large, "JPEG")
    damaged = DAMAGES["zeros"](large.getvalue(), random.Random(0))
    (photos / "cat" / "damaged.jpg").write_bytes(damaged)
    Image.new("RGB", (9, 9)).save(photos / "dog" / "tiny.png")

    def build(pipeline):
        return (
            pipeline
            | ReadImages(str(photos))
            | DecodeAndResizeImages(size=16, min_size=10)
            | AssignSplits(SPLITS, seed=7)
            | Rebalance("oversample")
            | Reshuffle()
            | EncodeExamples()
        )

    ours = write(tmp_path / "values", build, max_reject_fraction=0.1)
    argv = (
        "--input",
        photos,
        "--size",
        16,
        "--min-size",
        10,
        "--splits",
        "train=0.7,test=0.3",
        "--seed",
        7,
    )
    options = ("--balance", "oversample", "--max-reject-fraction", 0.1)
    theirs = make(tmp_path / "command", *argv, *options, command="images").manifest
    assert ours.ledger == theirs.ledger
    assert (ours.ledger.inputs.filtered, ours.ledger.records.filtered) == (1, 1)
    assert ours.notes == theirs.notes
    assert "damaged-image" in {note.code for note in ours.notes}
    assert (ours.features, ours.digest) == (theirs.features, theirs.digest)
    names = ("key", "copy", "label")
    found, expected = (
        [tuple(row[name] for name in names) for row in index_of(tmp_path / folder)]
        for folder in ("values", "command")
    )
    assert found == expected


def test_copies_of_decoded_images_are_augmented(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 9, "dog": 3})
    decode = DecodeAndResizeImages(size=16, augment=("flip", "brightness"), image_format="png")

    def build(pipeline):
        return (
            pipeline
            | ReadImages(str(photos))
            | decode
            | AssignSplits({"train": 1.0}, seed=7)
            | Rebalance("oversample")
        )

    made = write(tmp_path / "out", build)
    assert made.features["image/encoded"].kind == "image"
    records = list(recordmill.read(str(tmp_path / "out"), "train"))
    dogs = [one for one in records if one["image/class/text"] in ("dog", b"dog")]
    assert len({one["image/filename"] for one in dogs}) == 3
    assert len(dogs) == 9
    assert len({one["image/encoded"] for one in dogs}) > 6


def test_raw_pixels_that_are_to_be_augmented_are_an_error():
    with pytest.raises(ConfigError, match="augment: copies of raw pixels"):
        DecodeAndResizeImages(size=16, augment=("flip",), image_format="raw")


def test_columns_of_decoded_images_that_were_dropped_are_an_error(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 9})

    def build(pipeline):
        images = pipeline | ReadImages(str(photos)) | DecodeAndResizeImages(size=16)
        return images.with_batches(
            images.batches | beam.Map(lambda rows: rows.drop_columns(["image/width"]))
        )

    with pytest.raises(ConfigError, match="got none named image/width"):
        write(tmp_path / "out", build)


@pytest.mark.long
def test_records_before_and_after_a_rerun_are_compared(tmp_path):
    def build(pipeline, count=50):
        return pipeline | beam.Create(animals(count))

    once = write(tmp_path / "out", build)
    assert write(tmp_path / "out", build).digest == once.digest
    with pytest.raises(
        RunError, match=r"holds a dataset of other records or options: choose .*=True"
    ):
        write(tmp_path / "out", lambda pipeline: build(pipeline, 51))
    assert load(Location.parse(str(tmp_path / "out"))).digest == once.digest
    other = write(tmp_path / "out", lambda pipeline: build(pipeline, 51), overwrite=True)
    assert other.ledger.records.written == 51


@pytest.mark.long
def test_a_rerun_takes_over_shards_that_an_interrupted_run_has_finished(tmp_path, monkeypatch):
    def build(pipeline):
        return pipeline | beam.Create(animals(50))

    def interrupted(*_args, **_options):
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(publish, "publish_dataset", interrupted)
        with pytest.raises(OSError, match="power cut"):
            write(tmp_path / "out", build)
    assert not (tmp_path / "out" / "dataset.json").exists()
    finished = {
        path.name: path.stat().st_ino for path in (tmp_path / "out").rglob("shards/*.tfrecord-*")
    }
    assert len(finished) == 3
    write(tmp_path / "out", build)
    assert {name: (tmp_path / "out" / name).stat().st_ino for name in finished} == finished


def test_values_that_are_missing_make_a_feature_of_variable_length(tmp_path):
    rows = [{"a": i, **({"b": i} if i > 30 else {})} for i in range(40)]
    made = write(tmp_path / "out", lambda pipeline: pipeline | beam.Create(rows))
    assert {name: feature.shape for name, feature in made.features.items()} == {
        "a": (),
        "b": (None,),
    }


HELD = [  # values of a column of three records, and their feature
    ([np.float32(1), np.float32(2), np.float32(3)], ("float32", ())),
    ([np.array(1), np.array(2), np.array(3)], ("int64", ())),
    ([np.bool_(True), False, True], ("int64", ())),
    ([np.str_("a"), "b", "c"], ("string", ())),
    ([np.arange(3.0)] * 3, ("float32", (3,))),
    ([np.arange(3), None, np.arange(3)], ("int64", (None,))),
    ([np.arange(3), np.arange(2), np.arange(0)], ("int64", (None,))),
    ([np.ones((2, 3)), np.zeros((2, 3)), np.ones((2, 3))], ("float32", (2, 3))),
    ([np.ones((2, 3, 1), "uint8")] * 3, ("int64", (2, 3, 1))),
    ([np.array(["a", "b"])] * 3, ("string", (2,))),
    ([np.datetime64("2026-01-01"), None, np.datetime64("2026-01-02")], ("int64", (None,))),
    ([datetime.datetime(2026, 1, 1, 12)] * 3, ("int64", ())),
    ([datetime.date(2026, 1, 1)] * 3, ("int64", ())),
    ([pa.scalar(1), pa.scalar(2), pa.scalar(3)], ("int64", ())),
    ([[1, 2], (3,), []], ("int64", (None,))),
    ([None, None, None], ("string", (None,))),
]


def test_values_of_python_numpy_and_arrow(tmp_path):
    """Arrays of the same shape become a feature of that shape."""
    rows = [{f"c{n}": values[i] for n, (values, _) in enumerate(HELD)} for i in range(3)]
    made = write(tmp_path / "out", lambda pipeline: pipeline | beam.Create(rows))
    found = {name: (one.dtype, one.shape) for name, one in made.features.items()}
    assert found == {f"c{n}": feature for n, (_, feature) in enumerate(HELD)}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "x"], "column 'a': .*: convert its values to one type, or pass a schema"),
        ([decimal.Decimal("1.5")], r"column 'a': expected integers .*, got decimal128\(2, 1\)"),
        ([{"b": 1}], "column 'a': expected integers .*, got struct<b: int64>: convert the values"),
        ([datetime.time(1)], r"column 'a': expected integers .*, got time64\[us\]"),
        ([np.uint64(2**63)], r"column 'a': expected integers \(except uint64\), .*, got uint64"),
        ([np.ones((2, 3)), np.ones((2, 2))],
         r"column 'a': expected arrays of one shape, .* shapes \(2, 2\) and \(2, 3\): flatten"),
        ([object()], "column 'a': .*convert its values"),
    ],
)  # fmt: skip
def test_values_that_no_feature_can_hold(values, message, tmp_path):
    rows = [{"a": value} for value in values]
    with pytest.raises(ConfigError, match=f"BatchRecords: {message}"):
        write(tmp_path / "out", lambda p: p | beam.Create([rows]) | beam.FlatMap(list))


@pytest.mark.parametrize("typed", [False, True])
def test_decimal_numbers_are_no_classes(typed, tmp_path):
    rows = [{"x": i, "y": i / 8} for i in range(20)]
    schema = pa.schema([("x", pa.int64()), ("y", pa.float32())]) if typed else None
    batched = BatchRecords(label_column="y", schema=schema)
    with pytest.raises(ConfigError, match="the classes of column 'y' are decimal numbers: "):
        write(tmp_path / "out", lambda pipeline: pipeline | beam.Create(rows) | batched)


def test_integers_are_classes(tmp_path):
    rows = [{"x": i, "y": i % 3} for i in range(40)]
    batched = BatchRecords(label_column="y")
    made = write(tmp_path / "out", lambda pipeline: pipeline | beam.Create(rows) | batched)
    assert made.labels == ("0", "1", "2")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{1: 2}], "BatchRecords: expected strings as column names, got 1"),
        ([{}], "BatchRecords: expected records with values, got an empty record"),
        (["x"], "BatchRecords: expected dicts, beam.Rows, named tuples or dataclasses, got .* str"),
    ],
)
def test_elements_that_are_not_records(records, message, tmp_path):
    def build(pipeline):
        return pipeline | beam.Create([records]) | beam.FlatMap(list) | BatchRecords()

    with pytest.raises(ConfigError, match=message):
        write(tmp_path / "out", build)


def test_a_schema_chooses_and_types_columns(tmp_path):
    rows = [{"a": i, "b": i, "c": str(i)} for i in range(30)]
    schema = pa.schema([("a", pa.float32()), ("c", pa.string()), ("d", pa.int64())])
    made = write(
        tmp_path / "out",
        lambda pipeline: pipeline | beam.Create(rows) | BatchRecords(key_column="c", schema=schema),
    )
    assert {name: (one.dtype, one.shape) for name, one in made.features.items()} == {
        "a": ("float32", ()),
        "d": ("int64", (None,)),
    }


def test_options_of_beams_own_transform():
    for name in ("file_path_prefix", "file_name_suffix", "shard_name_template", "coder"):
        with pytest.raises(ConfigError, match=f"WriteToTFRecord: it has no option {name}: "):
            WriteToTFRecord("out", **{name: None})
    for compression in (CompressionTypes.GZIP, CompressionTypes.UNCOMPRESSED):
        WriteToTFRecord("out", compression_type=compression)


def batch(**columns) -> pa.RecordBatch:
    """A batch of these columns."""
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (batch(a=[1, 2], b=[1.5, 2.5]), batch(a=[3, 4], b=pa.nulls(2, pa.float64())),
         batch(a=[1, 2, 3, 4], b=[1.5, 2.5, None, None])),
        (batch(a=[1, 2], b=["x", "y"]), batch(a=[3, 4], b=pa.nulls(2)),
         batch(a=[1, 2, 3, 4], b=["x", "y", None, None])),
        (batch(a=[1, 2], b=[True, False]), batch(a=[3, 4]),
         batch(a=[1, 2, 3, 4], b=[True, False, None, None])),
        (batch(a=[1, 2]), batch(a=[0.5, 4]), batch(a=[1, 2, 0.5, 4])),
        (batch(a=pa.array([[1.5, 2]], pa.list_(pa.float32(), 2))), batch(a=[[0.5], []]),
         batch(a=[[1.5, 2], [0.5], []])),
        (batch(a=["x", None]), batch(a=[["y", "z"], ["x"]]),
         batch(a=[["x"], None, ["y", "z"], ["x"]])),
        (batch(a=pa.array(["x", None]).dictionary_encode()), batch(a=["y", "x"]),
         batch(a=["x", None, "y", "x"])),
        (batch(a=["x", "y"]), batch(a=[b"\xff", b"z"]), batch(a=[b"x", b"y", b"\xff", b"z"])),
    ],
)  # fmt: skip
def test_columns_of_batches_are_joined(one, other, joined, tmp_path):
    keys = [f"key {i}" for i in range(len(joined))]

    def build(pipeline, batches):
        start, keyed = 0, []
        for rows in batches:
            end = start + len(rows)
            keyed.append(rows.append_column("__key__", pa.array(keys[start:end])))
            start = end
        return pipeline | beam.Create(keyed)

    found = write(tmp_path / "out", lambda pipeline: build(pipeline, [one, other]))
    expected = write(tmp_path / "one", lambda pipeline: build(pipeline, [joined]))
    assert found.digest == expected.digest
    assert found.features == expected.features


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (batch(a=[1]), batch(a=["x"]), "column 'a': expected .* batches, got int64 and string: "),
        (batch(a=[1]), batch(a=pa.array([2**63], pa.uint64())), "column 'a': Integer value .* no"),
        (batch(a=[1], __key__=["x"]), batch(a=[2]), "expected a column __key__ in all batches or"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_joined(one, other, message, tmp_path):
    with pytest.raises((ConfigError, RunError), match=message):
        write(tmp_path / "out", lambda pipeline: pipeline | beam.Create([one, other]))
