"""Arrays as Examples: the bytes or the numbers of the arrays that rows refer to.

Features are named `array/...`, like those of images: `array/encoded` corresponds to
`image/encoded`, `array/class/label` to `image/class/label`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError, Stage
from recordmill.format.content_hashes import ContentHashes, array_name
from recordmill.format.example_facts import ExampleFacts
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.tfrecord.features import DType, Feature, Features
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.labels import label_columns, label_feature, text_feature
from recordmill.transforms.model import batch
from recordmill.transforms.model.casts import cast_array
from recordmill.transforms.model.data_type import (
    Context,
    Encoded,
    ExampleInputs,
    OutcomeCollector,
    RowOutcome,
)
from recordmill.transforms.model.ragged import binary_array, fixed_lists, string_array
from recordmill.transforms.model.user_columns import user_fields, with_users
from recordmill.transforms.sources.arrays.array_file import ArrayFile
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.array_spec import ARRAY, ArraySpec
from recordmill.transforms.sources.arrays.array_splitter import AT, FILE, NAME, TO
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.arrays.npy import StoredArray

Array = npt.NDArray[Any]

# List types of an Example, by the dtypes that they hold exactly.
_LISTS: Mapping[str, DType] = {
    **dict.fromkeys(("bool", "int8", "int16", "int32", "int64"), "int64"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "int64"),
    **dict.fromkeys(("float16", "float32"), "float32"),
}


class _ArrayReference(NamedTuple):
    """Location of a record.

    path: of the file.
    size: of the file, in bytes.
    mtime: of the file, in nanoseconds since the epoch.
    array: description of the array in the file.
    start, stop: range of the array that the record covers.
    """

    path: str
    size: int
    mtime: int
    array: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayEncoder:
    """Encoder that reads the arrays that rows refer to.

    Args:
      options: Format, dtype and NaN policy.
      cut: Slicing of the source.
      unlabelled: Rows without a label may occur; they have no label features.
    """

    options: ArrayOptions = dataclasses.field(default_factory=ArrayOptions)
    cut: ArraySlicing = dataclasses.field(default_factory=ArraySlicing)
    unlabelled: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record.

        Raises:
            ConfigError: lists cannot hold the numbers exactly, or a column of the user has an
                unsupported type or the name of a feature.
        """
        declared = ArraySpec.of(rows)
        text = Feature(dtype="string", kind="text")
        rank = len(declared.shape)
        found = {"array/dtype": text, "array/filename": text}
        if rank:
            found["array/shape"] = Feature(dtype="int64", shape=(rank,))
        if self.cut.unit != "array":
            found["array/start"] = Feature(dtype="int64")
        if self.options.array_format == "raw":
            found["array/encoded"] = self._encoded(declared, context)
        else:
            found["array/values"] = self._values(declared)
        if context.labels:
            found["array/class/label"] = label_feature(rows, unlabelled=self.unlabelled)
            found["array/class/text"] = text_feature(rows, unlabelled=self.unlabelled)
        return with_users(found, user_fields(rows), where="listing")

    def _encoded(self, declared: ArraySpec, context: Context) -> Feature:
        feature = Feature(
            dtype="string", kind="raw", raw_dtype=declared.dtype, raw_shape=declared.shape
        )
        if None not in declared.shape:
            return feature
        return dataclasses.replace(feature, shape_features=(context.name("array/shape"),))

    def _values(self, declared: ArraySpec) -> Feature:
        """Return the feature of a list of numbers.

        The list has a variable length if a dimension other than the first varies.
        """
        dtype = _LISTS.get(declared.dtype)
        if dtype is None:
            advice = "use --array-format raw"
            if declared.dtype in ("float64", "uint64"):
                other = "float32" if declared.dtype == "float64" else "int64"
                advice += f", or cast with --dtype {other} --cast same-kind"
            raise ConfigError(
                f"{option_name('array_format')} values writes lists of int64 or float32, which"
                f" cannot hold {declared.dtype} exactly: {advice}"
            )
        shape = declared.shape
        if None in shape[1:] or 0 in shape:
            shape = (None,)
        return Feature(dtype=dtype, shape=shape)

    def versions(self) -> Mapping[str, str]:
        """Return no versions: the libraries that read arrays do not affect the numbers."""
        return {}

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file."""
        return batch.PATH, FILE, batch.MTIME

    def settings(self) -> str:
        """Return the options that shape every Example."""
        return repr(self)

    def inputs(self, rows: pa.RecordBatch, context: Context) -> ExampleInputs:
        """Return all that shapes the Examples of rows, beside files and settings."""
        columns = {name: rows[name] for name in (NAME, ARRAY, AT, TO)}
        if context.labels:
            numbers, names = label_columns(rows, context)
            columns |= {batch.LABEL: names, "number": numbers}
        columns |= {field.name: rows[field.name] for field in user_fields(rows.schema)}
        return ExampleInputs(common=None, columns=columns)

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Read every array, file by file; unreadable arrays are rejected."""
        hashes = ContentHashes() if batch.CONTENT not in rows.schema.names else None
        collected, arrays = self._arrays(rows, hashes, stage="encode")
        kept = rows.take(pa.array(collected.kept))
        columns = self._columns(kept, arrays)
        if context.labels:
            numbers, names = label_columns(kept, context)
            columns |= {"array/class/label": numbers, "array/class/text": names}
        columns |= {field.name: kept[field.name] for field in user_fields(rows.schema)}
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=collected,
            content=None if hashes is None else hashes.result(),
            facts=[ExampleFacts()] * len(kept),
        )

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, dict[str, pa.Array]]:
        """Return the hash of the numbers of each array; unreadable arrays are rejected."""
        hashes = ContentHashes()
        collected, _ = self._arrays(rows, hashes, stage="check")
        return collected, {batch.CONTENT: hashes.result()}

    def _arrays(
        self, rows: pa.RecordBatch, hashes: ContentHashes | None, *, stage: Stage
    ) -> tuple[RowOutcome, list[Array]]:
        """Return the outcome of rows, and the array of each kept one.

        hashes: gets the hash of each array. stage: the stage that rejects get.
        """
        outcomes = OutcomeCollector(stage)
        arrays: list[Array] = []
        found = self._read(rows)
        for row, key in enumerate(rows[batch.KEY].to_pylist()):
            outcome = found.pop(row)
            if isinstance(outcome, RecordError):
                outcomes.leave_out(key, outcome)
            else:
                outcomes.keep(row)
                arrays.append(outcome)
                if hashes is not None:
                    hashes.add(_bytes(outcome), name=array_name(outcome.dtype.name, outcome.shape))
        return outcomes.result(), arrays

    def _columns(self, kept: pa.RecordBatch, arrays: Sequence[Array]) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {
            "array/dtype": string_array([array.dtype.name for array in arrays]),
            "array/filename": kept[NAME],
        }
        if arrays and arrays[0].ndim:
            shapes = np.array([array.shape for array in arrays], np.int64)
            columns["array/shape"] = fixed_lists(shapes)
        if self.cut.unit != "array":
            columns["array/start"] = kept[AT]
        if self.options.array_format == "raw":
            columns["array/encoded"] = binary_array([_bytes(array) for array in arrays])
        else:
            columns["array/values"] = _lists(arrays)
        return columns

    def _read(self, rows: pa.RecordBatch) -> dict[int, Array | RecordError]:
        """Return {row: array or error}; each file is opened once.

        Arrays are little-endian and in C order.
        """
        names = (batch.PATH, FILE, batch.MTIME, ARRAY, AT, TO)
        columns = (rows[name].to_pylist() for name in names)
        places = [_ArrayReference(*one) for one in zip(*columns, strict=True)]
        found: dict[int, Array | RecordError] = {}
        opened: tuple[str, ArrayFile | RecordError] | None = None
        with contextlib.ExitStack() as stack:
            for row in sorted(range(len(places)), key=lambda row: places[row]):
                place = places[row]
                if opened is None or opened[0] != place.path:
                    stack.close()
                    opened = place.path, _open(place, stack)
                file = opened[1]
                if isinstance(file, RecordError):
                    found[row] = file
                    continue
                try:
                    found[row] = self._array(file, place)
                except RecordError as error:
                    found[row] = error
        return found

    def _array(self, file: ArrayFile, place: _ArrayReference) -> Array:
        """Read one record.

        Raises:
            RecordError: the array is corrupt, or a number is out of range or NaN.
        """
        stored = StoredArray.from_text(place.array)
        array = file.read(stored, self.cut.span(stored.shape, place.start, place.stop))
        if self.cut.unit == "item":
            array = array[0]
        if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise RecordError(Reason.CORRUPT, "bools other than 0 and 1")
        array = cast_array(np.asarray(array), self.options.dtype or array.dtype.name)
        return self._without_nan(array)

    def _without_nan(self, array: Array) -> Array:
        if self.options.nan == "keep" or array.dtype.kind not in "fc":
            return array
        missing = np.isnan(array)
        if not missing.any():
            return array
        if self.options.nan == "reject":
            count = int(missing.sum())
            raise RecordError(
                Reason.BAD_VALUE,
                f"NaN in {count} of {array.size} numbers: use --nan zero or --nan keep to accept"
                " them",
            )
        return np.where(missing, array.dtype.type(0), array)


def _open(place: _ArrayReference, stack: contextlib.ExitStack) -> ArrayFile | RecordError:
    try:
        return stack.enter_context(open_arrays(place.path, size=place.size, mtime=place.mtime))
    except RecordError as error:
        return error


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _lists(arrays: Sequence[Array]) -> pa.Array:
    """Return the numbers of each array as a list, in C order."""
    offsets = offsets_of(np.array([array.size for array in arrays], np.int64))
    flat = [array.reshape(-1) for array in arrays]
    dtype = np.dtype(_LISTS[arrays[0].dtype.name]) if arrays else np.dtype("int64")
    values = np.concatenate(flat).astype(dtype) if flat else np.zeros(0, dtype)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
