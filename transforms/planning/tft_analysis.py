"""Analysis of the records of train with tensorflow-transform.

The result is an artifact that encoders apply, like any other. Only this module and the encoder
import tensorflow-transform, and only for --preprocessing-fn.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.pvalue import AsList
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import metadata_io
from tfx_bsl.tfxio.tensor_adapter import TensorAdapterConfig

from recordmill.errors import ConfigError
from recordmill.format.split_names import TRAIN
from recordmill.format.typed_json import read_as
from recordmill.job.staging import Staging, to_json
from recordmill.option_names import option_name
from recordmill.tfrecord.features import DType, Feature
from recordmill.transforms.encoders.preprocessed import (
    FEATURES_FILE,
    FOLDER,
    as_lists,
    load_function,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.user_columns import user_feature, user_fields
from recordmill.transforms.planning.learning import Learned
from recordmill.transforms.staged.handles import Element, StagedBatch

_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.binary()}


def learn(
    batches: beam.PCollection[Element],
    *,
    staging: Staging,
    function: str,
    columns: pa.Schema,
    given: Mapping[str, Artifact],
) -> beam.PCollection[Learned]:
    """Return all artifacts, the learned function among them, as the only element of a PCollection.

    function: `module:function`, the user's preprocessing function. columns: columns of the records.
    given: artifacts given by the user.

    Raises:
      ConfigError: the staging folder is not local, or the function does not accept these columns.
    """
    if not staging.intermediate.is_local:
        raise ConfigError(
            f"{option_name('preprocessing_fn')}: TensorFlow can only write into a local folder, or"
            f" one that all workers share, and {option_name('output')} is {staging.root.root}:"
            " write to a folder, and copy the dataset afterwards"
        )
    preprocess = load_function(function)
    # Pickle the function by value, as workers may not have the user's module.
    cloudpickle.register_pickle_by_value(sys.modules[preprocess.__module__])
    fields = user_fields(columns)
    root = staging.place("artifacts") / FOLDER
    rows = (
        batches
        | "SpreadToLearn" >> beam.Reshuffle()
        | "TrainRows"
        >> beam.FlatMap(
            _train_rows, staging=staging, names=[field.name for field in fields]
        ).with_output_types(pa.RecordBatch)
    )
    with tft_beam.Context(temp_dir=staging.place("tft").local_path):
        try:
            transform_fn = (rows, _config(fields)) | "Analyze" >> tft_beam.AnalyzeDataset(
                preprocess
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{option_name('preprocessing_fn', function)}: {error}") from error
        written = transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(root.local_path)
    return (
        batches.pipeline
        | "OnceToLearn" >> beam.Impulse()
        | "Learn"
        >> beam.Map(
            _learned,
            AsList(written),
            root=root.local_path,
            inputs={field.name: user_feature(field).to_json() for field in fields},
            given=given,
        ).with_output_types(Learned)
    )


def _config(fields: Sequence[pa.Field]) -> TensorAdapterConfig:
    """Return the types of the columns for TensorFlow: fixed-length or varying."""
    representations = {}
    types = []
    for field in fields:
        feature = user_feature(field)
        types.append(pa.field(field.name, pa.large_list(_TYPES[feature.dtype])))
        one = schema_pb2.TensorRepresentation()
        if feature.shape == (None,):
            one.varlen_sparse_tensor.column_name = field.name
        else:
            one.dense_tensor.column_name = field.name
            for size in feature.shape:
                one.dense_tensor.shape.dim.add().size = size
        representations[field.name] = one
    return TensorAdapterConfig(pa.schema(types), representations)


def _train_rows(
    element: Element, *, staging: Staging, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    if not isinstance(element, StagedBatch):
        return
    rows = element.read(staging, columns=None)
    train = rows.filter(pc.equal(rows[batch.SPLIT], TRAIN))
    for start in range(0, len(train), limits.TFT_ROWS):
        some = train.slice(start, limits.TFT_ROWS)
        columns = {}
        for name in names:
            values, edges = as_lists(some[name])
            columns[name] = pa.LargeListArray.from_arrays(pa.array(edges), values)
        yield pa.RecordBatch.from_pydict(columns)


def _learned(
    _: bytes,
    written: Sequence[Any],
    *,
    root: str,
    inputs: Mapping[str, Any],
    given: Mapping[str, Artifact],
) -> Learned:
    del written
    specs = tft.TFTransformOutput(root).transformed_feature_spec()
    made = {name: _declared(name, spec) for name, spec in sorted(specs.items())}
    raw = {name: _parsed(read_as(Feature, one)) for name, one in inputs.items()}
    metadata_io.write_metadata(
        tft.DatasetMetadata.from_feature_spec(raw),
        os.path.join(root, tft.TFTransformOutput.RAW_METADATA_DIR),
    )
    with open(os.path.join(root, os.path.basename(FEATURES_FILE)), "wb") as file:
        file.write(to_json({"inputs": inputs, "features": made}))
    artifacts = dict(given)
    for folder, _folders, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            relative = os.path.relpath(path, root).replace(os.sep, "/")
            artifacts[f"{FOLDER}/{relative}"] = Artifact(path=path, sha256=sha256)
    return Learned(artifacts=artifacts)


def _parsed(feature: Feature) -> Any:
    """Return the TensorFlow parsing spec of a feature."""
    dtype = tf.as_dtype(feature.dtype)
    if feature.shape == (None,):
        return tf.io.VarLenFeature(dtype)
    return tf.io.FixedLenFeature(feature.shape, dtype)


def _declared(name: str, spec: Any) -> dict[str, Any]:
    dtypes: dict[Any, DType] = {tf.int64: "int64", tf.float32: "float32", tf.string: "string"}
    if isinstance(spec, tf.io.FixedLenFeature):
        return Feature(dtype=dtypes[spec.dtype], shape=tuple(spec.shape)).to_json()
    if isinstance(spec, tf.io.VarLenFeature):
        return Feature(dtype=dtypes[spec.dtype], shape=(None,)).to_json()
    raise ConfigError(
        f"{option_name('preprocessing_fn')}: feature {name!r} has an unsupported spec {spec}:"
        " expected a dense tensor or a sparse one of varying length"
    )
