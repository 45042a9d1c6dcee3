"""Steps in the wrong order, and elements of the wrong type, are reported before the run."""

import functools
import operator

import apache_beam as beam
import pyarrow as pa
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Check,
    DecodeAndResizeImages,
    ImageOptions,
    Publish,
    ReadBatches,
    Rebalance,
    Reshuffle,
    RunSpec,
    SerializeExamples,
    StageBatches,
    WriteToTFRecord,
)
from tests.beam_results import results
from tests.tiny import TinyEncoder

STEPS = (AssignSplits, Analyze, Rebalance, Reshuffle, WriteToTFRecord, Publish)
ROWS = pa.RecordBatch.from_pydict({"__key__": ["a"], "value": [b"1"]})
OF_BATCHES = "a PCollection of pyarrow.RecordBatch"
STAGE = "expected the output of Read or StageBatches, got"


@pytest.fixture
def run(tmp_path):
    return RunSpec(output=str(tmp_path / "out"), encoder=TinyEncoder(), splits={"train": 1.0})


@pytest.mark.parametrize(
    ("left_out", "got"),
    [
        ("AssignSplits", "the output of Read or StageBatches"),
        ("Analyze", "StagedRecords"),
        ("Rebalance", "AnalyzedBatches"),
        ("Reshuffle", "PlannedBatches"),
        ("WriteToTFRecord", "ShuffledShards"),
    ],
)
def test_a_step_that_is_left_out_is_named(run, left_out, got):
    staged = beam.Pipeline() | beam.Create([ROWS]) | StageBatches(run)
    steps = [step() for step in STEPS if step.__name__ != left_out]
    message = f": expected the output of {left_out}, got {got}: apply {left_out} before it$"
    with pytest.raises(ConfigError, match=message):
        functools.reduce(operator.or_, steps, staged)


@pytest.mark.parametrize("step", [Check, ReadBatches])
def test_batches_that_were_not_staged(run, step):
    batches = beam.Pipeline() | beam.Create([ROWS])
    with pytest.raises(ConfigError, match=f"^{step.__name__}: {STAGE} {OF_BATCHES}: apply Read or"):
        batches | step()


def test_elements_that_are_no_records(run):
    words = beam.Pipeline() | beam.Create(["a"])
    expected = "expected RecordValues or a PCollection of pyarrow.RecordBatch or a"
    for step in (StageBatches(run), DecodeAndResizeImages(ImageOptions()), SerializeExamples()):
        with pytest.raises(ConfigError, match=f"^{type(step).__name__}: {expected} .*of str$"):
            words | step
    with pytest.raises(ConfigError, match=f"^StageBatches: {expected} .*, got Pipeline$"):
        beam.Pipeline() | StageBatches(run)


def _unhinted(element):
    return element


def test_elements_whose_type_only_the_run_shows(run):
    def build(pipeline):
        unhinted = beam.Map(_unhinted).with_output_types(beam.typehints.Any)
        return {"staged": (pipeline | beam.Create([1]) | unhinted | StageBatches(run)).handles}

    with pytest.raises(ConfigError, match=r"^BatchRecords: .* got an element of type int"):
        results(build)


def test_batches_in_memory_without_a_pipeline():
    (example,) = [ROWS] | SerializeExamples()
    assert example


def test_columns_of_one_name_are_an_error_that_names_them():
    arrays = [pa.array(["k"]), pa.array([1]), pa.array([2])]
    rows = pa.RecordBatch.from_arrays(arrays, ["__key__", "a", "a"])
    with pytest.raises(
        ValueError, match=r"expected one column per feature, got several named \['a"
    ):
        _ = [rows] | SerializeExamples()
