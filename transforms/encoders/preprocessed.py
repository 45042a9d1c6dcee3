"""Features made by a preprocessing function of the user, after tensorflow-transform's analysis."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, RunError, did_you_mean
from recordmill.format.manifest import StoredFeature
from recordmill.format.typed_json import damage_of, parse_json, read_as
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.tfrecord.features import Feature, Features
from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.labels import label_columns, label_feature
from recordmill.transforms.model.data_type import Artifact, Context, Encoded, RowOutcome
from recordmill.transforms.model.ragged import list_array
from recordmill.transforms.model.user_columns import (
    flat_list,
    is_list,
    user_feature,
    user_fields,
)

FOLDER = "transform_fn"  # folder of the dataset that tft.TFTransformOutput reads
FEATURES_FILE = f"{FOLDER}/features.json"  # features of the function's inputs and outputs


def load_function(name: str) -> Any:
    """Import a function, given as `module:function`.

    Raises:
        ConfigError: the module cannot be imported, or has no such function.
    """
    module_name, _, function_name = name.partition(":")
    if os.getcwd() not in sys.path:  # an installed command has its own folder there instead
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{option_name('preprocessing_fn', name)}: cannot import {module_name} ({error});"
            " expected module:function, of a module in the current folder or an installed one"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value)]
        raise ConfigError(
            f"{option_name('preprocessing_fn', name)}: {module_name} has no function"
            f" {function_name!r}{did_you_mean(function_name, known)}"
        )
    return function


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreprocessedEncoder:
    """Encoder that applies the analyzed preprocessing function to the columns of the user.

    unlabelled: rows without a label may occur; they have no label feature.
    """

    unlabelled: bool = False

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record; those of the function are known only after analysis.

        Raises:
            ConfigError: a column has an unsupported type.
            RunError: the function returns a feature named `label`, and there are classes.
        """
        declared: dict[str, Feature] = {}
        if FEATURES_FILE in context.artifacts:
            declared = stored_features(context.artifacts[FEATURES_FILE])["features"]
        if context.labels:
            if "label" in declared:
                raise RunError(
                    "--preprocessing-fn: returns a feature 'label', which is the name of the class "
                    "feature: rename it"
                )
            declared["label"] = label_feature(rows, unlabelled=self.unlabelled)
        for field in user_fields(rows):
            user_feature(field)  # raises ConfigError for an unsupported type
        return declared

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that compute the features."""
        from importlib.metadata import version

        return {name: version(name) for name in ("tensorflow", "tensorflow-transform")}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Apply the function to all rows."""
        apply = _load(context.artifacts[FEATURES_FILE])
        columns = apply({field.name: rows[field.name] for field in user_fields(rows.schema)})
        if context.labels:
            columns["label"] = label_columns(rows, context).numbers
        kept = RowOutcome(kept=np.arange(len(rows)))
        return Encoded(columns=pa.RecordBatch.from_pydict(columns), rows=kept)


def as_lists(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the values of a column without nulls, and the offsets of its rows, int64[n + 1].

    Values are int64, float32 or binary.
    """
    column = flat_list(column)
    kind = column.type.value_type if is_list(column.type) else column.type
    if is_list(column.type):
        counts = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        values = pc.list_flatten(column)
    else:
        counts = np.asarray(column.is_valid()).astype(np.int64)
        values = column.drop_null()
    if pa.types.is_floating(kind):
        values = values.cast(pa.float32())
    elif pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values = values.cast(pa.int64())
    else:
        values = values.cast(pa.binary())
    return values, offsets_of(counts)


def stored_features(artifact: Artifact) -> dict[str, dict[str, Feature]]:
    """Return the features of the function: {"inputs" or "features": {name: feature}}."""
    place = Location.parse(artifact.path)
    advice = "delete the folder .recordmill of the output, then run the same command again"
    with damage_of(shown(place), advice=advice):
        return vars(parse_features(place.read_bytes()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredFeatures:
    """The content of features.json."""

    inputs: dict[str, StoredFeature]
    features: dict[str, StoredFeature]


def parse_features(content: bytes) -> _StoredFeatures:
    """Return the features of a function that a file declares. Raises ValueError."""
    return read_as(_StoredFeatures, parse_json(content))


@functools.lru_cache(maxsize=1)
def _load(artifact: Artifact) -> Any:
    """Load the function, with one thread for TensorFlow, as encoder processes use all cores."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    import tensorflow_transform as tft

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    output = tft.TFTransformOutput(os.path.dirname(artifact.path))
    layer = output.transform_features_layer()

    inputs = stored_features(artifact)["inputs"]

    def tensor(column: pa.Array, feature: Feature) -> Any:
        values, edges = as_lists(column)
        flat = tf.constant(values.to_pylist(), tf.as_dtype(feature.dtype), [len(values)])
        if feature.shape == (None,):
            return tf.RaggedTensor.from_row_splits(flat, edges).to_sparse()
        return tf.reshape(flat, [len(column), *feature.shape])

    def apply(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        made = layer({name: tensor(columns[name], one) for name, one in inputs.items()})
        return {name: _array(value) for name, value in made.items()}

    return apply


def _array(value: Any) -> pa.Array:
    """Return a tensor (dense, sparse or ragged) as a list per row."""
    if hasattr(value, "indices"):  # sparse
        rows = value.indices.numpy()[:, 0]
        edges = np.searchsorted(rows, np.arange(int(value.dense_shape[0]) + 1))
        return list_array(_flat(value.values.numpy()), edges)
    if hasattr(value, "row_splits"):
        edges = value.row_splits.numpy()
        return list_array(_flat(value.flat_values.numpy()), edges)
    table = value.numpy()
    width = int(np.prod(table.shape[1:], dtype=np.int64))
    return pa.FixedSizeListArray.from_arrays(pa.array(_flat(table.ravel())), width)


def _flat(values: Any) -> Any:
    if values.dtype.kind == "O":
        return pa.array(values.tolist(), pa.binary())
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
