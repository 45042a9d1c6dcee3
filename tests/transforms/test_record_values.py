"""Records in memory become datasets: batches, dicts and rows, without a listing of their own."""

import collections
import io
import pathlib
import random
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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
from tests.image_runs import make

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


class Animal(NamedTuple):
    """A record with types that Beam knows."""

    kind: str
    weight: float
    seen: list[int]


@pytest.mark.parametrize("form", ["dicts", "rows", "named tuples", "batches of 7", "batches of 64"])
def test_all_forms_of_records_give_the_same_dataset(form, tmp_path):
    rows = animals(200)
    made = {
        "dicts": rows,
        "rows": [beam.Row(**row) for row in rows],
        "named tuples": [Animal(**row) for row in rows],
        "batches of 7": batches_of(rows, 7),
        "batches of 64": batches_of(rows, 64),
    }

    def build(pipeline, name):
        records = pipeline | beam.Create(made[name])
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
    with pytest.raises(ConfigError, match="augment: raw pixels"):
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
