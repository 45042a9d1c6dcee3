"""schema.pbtxt is what TFX's components read our shards by: tfx_bsl's TFXIO, given nothing else."""

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import RecordBatchesOptions, TFExampleRecord

import recordmill
from tests.all_kinds import make

KINDS = ("pictures", "raw", "text", "packed-text", "table", "table-with-gaps", "windows")


@pytest.mark.parametrize("kind", KINDS)
def test_tfxio_reads_records_by_the_schema(kind, tmp_path):
    made = make(kind, place=tmp_path)
    schema = text_format.Parse((made.folder / "schema.pbtxt").read_text(), schema_pb2.Schema())
    pattern = str(made.folder / "train.tfrecord-*")
    source = TFExampleRecord(pattern, schema=schema, telemetry_descriptors=["test"])
    options = RecordBatchesOptions(batch_size=50, shuffle=False, num_epochs=1)
    columns = {name: [] for name in made.manifest.features}
    for batch in source.RecordBatches(options):
        assert set(batch.schema.names) == set(columns)
        for name in columns:
            columns[name] += batch.column(batch.schema.names.index(name)).to_pylist()
    count = made.manifest.splits["train"].records
    assert {len(values) for values in columns.values()} == {count}
    # In which order it reads the files is its own affair.
    expected = list(recordmill.read(made.folder, "train"))
    for name in ("label", "image/filename", "text"):
        if name in columns:
            found = sorted(value for values in columns[name] for value in values)
            assert found == sorted(record[name] for record in expected)
    specs = source.TensorAdapter().TypeSpecs()
    for name, feature in made.manifest.features.items():
        is_dense = isinstance(specs[name], tf.TensorSpec)
        assert is_dense == (None not in feature.shape), name
        if is_dense:
            assert specs[name].shape[1:] == feature.shape
