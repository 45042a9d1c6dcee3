"""Serialized Examples in memory become datasets, as Beam's own writer takes them."""

import itertools
import pathlib

import apache_beam as beam
import pyarrow as pa
import pytest

from recordmill.checking.verify import verify
from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import Manifest, load
from recordmill.runners import direct
from recordmill.storage.files import Location
from recordmill.tfrecord.example import encode_examples
from recordmill.tfrecord.framing import read_frames
from recordmill.transforms import (
    AssignSplits,
    BatchRecords,
    ParseExamples,
    Rebalance,
    SerializeExamples,
    WriteToTFRecord,
)


def write(output: pathlib.Path, build, **options) -> Manifest:
    """The manifest of the dataset of the records that `build` makes of a pipeline."""

    def whole(pipeline: beam.Pipeline) -> None:
        build(pipeline) | WriteToTFRecord(str(output), **options)

    direct.run(whole, workers=2)
    assert verify(Location.parse(str(output))).ok
    return load(Location.parse(str(output)))


def examples(**columns) -> list[bytes]:
    """A serialized Example per row of these columns."""
    made = encode_examples(pa.RecordBatch.from_pydict(columns))
    edges = made.offsets.tolist()
    return [made.data[start:end] for start, end in itertools.pairwise(edges)]


def payloads(output: pathlib.Path) -> list[bytes]:
    """All records of a dataset."""
    found = []
    for path in sorted(output.glob("*.tfrecord-*")):
        with path.open("rb") as stream:
            found += [frame.payload for frame in read_frames(stream, compression="none")]
    return found


def sixty() -> list[bytes]:
    """Examples of all kinds of features."""
    count = range(60)
    return examples(
        id=[f"id {i}" for i in count],
        kind=["cat" if i % 4 else "dog" for i in count],
        number=[i * 7 for i in count],
        pair=pa.array([[i / 8, i] for i in count], pa.list_(pa.float32())),
        tags=[[b"\xff" * j for j in range(i % 3)] for i in count],
        maybe=[None if i % 5 else i for i in count],
        image=[b"\xff\xd8%d" % i for i in count],
    )


def test_examples_are_written_byte_by_byte_as_they_were(tmp_path):
    given = sixty()
    made = write(tmp_path / "out", lambda pipeline: pipeline | beam.Create(given), num_shards=2)
    assert sorted(payloads(tmp_path / "out")) == sorted(given)
    assert made.ledger.records.written == 60
    assert {name: (one.dtype, one.shape) for name, one in made.features.items()} == {
        "id": ("string", ()),
        "kind": ("string", ()),
        "number": ("int64", ()),
        "pair": ("float32", (2,)),
        "tags": ("string", (None,)),
        "maybe": ("int64", (None,)),
        "image": ("string", ()),
    }


@pytest.mark.long
def test_the_dataset_does_not_depend_on_how_examples_are_batched(tmp_path):
    """The form of a feature in a batch (list or value, text or bytes) depends on its records."""
    mixed = examples(
        tags=[["12"], ["a", "b"], [], [b"\xff"]] * 3, number=[float(i) for i in range(12)]
    )

    def build(pipeline, parts):
        several = [pipeline | f"Create{n}" >> beam.Create(some) for n, some in enumerate(parts)]
        return several | beam.Flatten() | beam.Reshuffle()

    together = write(tmp_path / "one", lambda pipeline: build(pipeline, [mixed]))
    alone = write(
        tmp_path / "each",
        lambda pipeline: (
            [
                pipeline | f"Create{n}" >> beam.Create([one]) | f"Parse{n}" >> beam.Map(bytes)
                for n, one in enumerate(mixed)
            ]
            | beam.Flatten()
        ),
    )
    assert alone.digest == together.digest
    assert sorted(payloads(tmp_path / "one")) == sorted(mixed)


def test_features_may_be_keys_and_classes(tmp_path):
    made = write(
        tmp_path / "out",
        lambda pipeline: (
            pipeline
            | beam.Create(sixty())
            | ParseExamples(key_column="id", label_column="kind")
            | AssignSplits({"train": 0.8, "test": 0.2}, seed=1)
            | Rebalance("oversample")
        ),
    )
    assert made.labels == ("cat", "dog")
    assert len(set(made.splits["train"].classes.values())) == 1
    assert made.features["label"].kind == "label"
    assert not {"id", "kind"} & made.features.keys()


@pytest.mark.long
def test_elements_that_are_not_examples_are_rejected(tmp_path):
    given = [*sixty(), b"no Example", b"\x0a\x09\x0a\x07", b""]
    made = write(
        tmp_path / "out", lambda pipeline: pipeline | beam.Create(given), max_reject_fraction=0.1
    )
    assert (made.ledger.inputs.rejected, made.ledger.records.written) == (3, 60)
    found = (tmp_path / "out" / "rejects.jsonl").read_text()
    counts = [found.count(one) for one in ("bad_value", "not a tf.train.E", "has no features")]
    assert counts == [3, 2, 1]
    with pytest.raises(RunError, match=r"3 of 63 inputs were rejected .*not a tf.train.Example"):
        write(tmp_path / "strict", lambda pipeline: pipeline | beam.Create(given))


def test_sequence_examples_are_rejected_with_that_reason(tmp_path):
    sequence = b"\x0a\x00\x12\x00"
    with pytest.raises(RunError, match="it is a SequenceExample: expected an Example"):
        write(tmp_path / "out", lambda pipeline: pipeline | beam.Create([sequence] * 3))


def test_a_schema_selects_features_and_rejects_what_does_not_fit(tmp_path):
    odd = examples(number=[b"seven"], pair=pa.array([[0.5]], pa.list_(pa.float32())))
    schema = pa.schema([("number", pa.int64()), ("pair", pa.list_(pa.float32()))])
    made = write(
        tmp_path / "out",
        lambda pipeline: pipeline | beam.Create([*sixty(), *odd]) | ParseExamples(schema=schema),
        max_reject_fraction=0.1,
    )
    assert made.features.keys() == {"number", "pair"}
    assert (made.ledger.inputs.rejected, made.ledger.records.written) == (1, 60)
    assert (
        "feature 'number': expected int64, got bytes"
        in (tmp_path / "out" / "rejects.jsonl").read_text()
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: p | beam.Create(examples(a=[1]) + examples(a=["x"])),
         "'a': expected values of one type"),
        (lambda p: p | beam.Create(examples(a=[1])) | ParseExamples(label_column="kind"),
         "ParseExamples: label_column: expected a column of the records, got 'kind': they have a"),
        (lambda p: p | beam.Create([{"a": 1}]) | ParseExamples(),
         "ParseExamples: expected a PCollection of bytes, got a PCollection of dict"),
        (lambda p: p | beam.Create([1]) | ParseExamples(key_column="a", label_column="a"),
         "ParseExamples: expected a different column for each option"),
        (lambda p: p | beam.Create([1]) | beam.Map(str).with_output_types(beam.typehints.Any)
         | ParseExamples(),
         "ParseExamples: expected serialized tf.train.Examples as bytes, got an element of type s"),
        (lambda p: p | beam.Create([b"x"]) | beam.Map(bytes).with_output_types(beam.typehints.Any)
         | BatchRecords(),
         "got an element of type bytes: if elements are serialized tf.train.Examples, apply"),
    ],
)  # fmt: skip
def test_mistakes_with_examples(build, message, tmp_path):
    with pytest.raises((ConfigError, RunError), match=message):
        write(tmp_path / "out", build)


def test_serialized_batches_come_back(tmp_path):
    rows = pa.RecordBatch.from_pydict({"a": [1, 2, 3], "b": [[0.5], [], [1.0, 2.0]]})
    write(
        tmp_path / "out",
        lambda pipeline: pipeline | beam.Create([rows]) | SerializeExamples(),
        splits={"train": 1.0},
    )
    assert sorted(payloads(tmp_path / "out")) == sorted(examples(a=[1, 2, 3], b=rows["b"]))
