"""Arrays as Examples: the bytes of an array, or its numbers, for rows that say where they stand.

Features are named after `array`, as those of pictures are after `image`: `array/encoded` beside
`image/encoded`, `array/class/label` beside `image/class/label`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.format.features import DType, Feature, Features
from recordmill.format.row_assembly import offsets_of
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.labels import label_feature, label_numbers
from recordmill.transforms.model import batch
from recordmill.transforms.model.casts import cast_array
from recordmill.transforms.model.data_type import Context, Encoded, OutcomeCollector
from recordmill.transforms.model.ragged import binary_array, fixed_lists, string_array
from recordmill.transforms.model.user_columns import user_fields, with_users
from recordmill.transforms.sources.arrays.array_file import ArrayFile
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.arrays import ARRAY, AT, FILE, NAME, TO, Declared
from recordmill.transforms.sources.arrays.chunking import ArrayCut
from recordmill.transforms.sources.arrays.npy import Stored

Array = npt.NDArray[Any]

# The lists that an Example has, for the dtypes that they hold exactly.
_LISTS: Mapping[str, DType] = {
    **dict.fromkeys(("bool", "int8", "int16", "int32", "int64"), "int64"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "int64"),
    **dict.fromkeys(("float16", "float32"), "float32"),
}


class _Row(NamedTuple):
    """Where a record stands. size: of the file, bytes; mtime: nanoseconds since the epoch."""

    path: str
    size: int
    mtime: int
    array: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayEncoder:
    """Reads the arrays that rows of `Arrays` name, and writes them.

    cut: as the source has it. unlabelled: rows without a label may occur, and have no label
    features.
    """

    options: ArrayOptions = dataclasses.field(default_factory=ArrayOptions)
    cut: ArrayCut = dataclasses.field(default_factory=ArrayCut)
    unlabelled: bool = False

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Raises ConfigError for numbers that lists do not hold, or a user column that no feature
        can hold.
        """
        declared = Declared.of(rows)
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
            shape = (None,) if self.unlabelled else ()
            found["array/class/label"] = label_feature(unlabelled=self.unlabelled)
            found["array/class/text"] = Feature(dtype="string", shape=shape, kind="text")
        return with_users(found, user_fields(rows), where="listing")

    def _encoded(self, declared: Declared, context: Context) -> Feature:
        feature = Feature(
            dtype="string", kind="raw", raw_dtype=declared.dtype, raw_shape=declared.shape
        )
        if None not in declared.shape:
            return feature
        return dataclasses.replace(feature, shape_features=(context.name("array/shape"),))

    def _values(self, declared: Declared) -> Feature:
        """A list of any length where more than its first dimension varies."""
        dtype = _LISTS.get(declared.dtype)
        if dtype is None:
            advice = "--array-format raw holds it"
            if declared.dtype in ("float64", "uint64"):
                other = "float32" if declared.dtype == "float64" else "int64"
                advice += f", --dtype {other} --cast same-kind casts it"
            raise ConfigError(
                "--array-format values writes lists of int64 or float32, which do not hold"
                f" {declared.dtype} exactly: {advice}"
            )
        shape = declared.shape
        if None in shape[1:] or 0 in shape:
            shape = (None,)
        return Feature(dtype=dtype, shape=shape)

    def versions(self) -> Mapping[str, str]:
        """None: numbers are the same by whichever library they are read."""
        return {}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Reads every array, file by file; what cannot be read is left out."""
        sorter = OutcomeCollector("encode")
        arrays: list[Array] = []
        found = self._read(rows)
        for row, key in enumerate(rows[batch.KEY].to_pylist()):
            outcome = found.pop(row)
            if isinstance(outcome, RecordError):
                sorter.leave_out(key, outcome)
            else:
                sorter.keep(row)
                arrays.append(outcome)
        outcome_ = sorter.result()
        kept = rows.take(pa.array(outcome_.kept))
        columns = self._columns(kept, arrays)
        if context.labels:
            labels = kept[batch.LABEL]
            columns["array/class/label"] = label_numbers(labels, context)
            columns["array/class/text"] = labels
        columns |= {field.name: kept[field.name] for field in user_fields(rows.schema)}
        return Encoded(columns=pa.RecordBatch.from_pydict(columns), rows=outcome_)

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
        """What stands in each row, little-endian and in C order; each file is opened once."""
        names = (batch.PATH, FILE, batch.MTIME, ARRAY, AT, TO)
        places = [_Row(*one) for one in zip(*(rows[n].to_pylist() for n in names), strict=True)]
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

    def _array(self, file: ArrayFile, place: _Row) -> Array:
        """Raises RecordError."""
        stored = Stored.from_text(place.array)
        array = file.read(stored, self.cut.span(stored.shape, place.start, place.stop))
        if self.cut.unit == "item":
            array = array[0]
        if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise RecordError(Reason.CORRUPT, "bools that are neither 0 nor 1")
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
                Reason.BAD_VALUE, f"NaN in {count} of {array.size} numbers: --nan zero, or keep"
            )
        return np.where(missing, array.dtype.type(0), array)


def _open(place: _Row, stack: contextlib.ExitStack) -> ArrayFile | RecordError:
    try:
        return stack.enter_context(open_arrays(place.path, size=place.size, mtime=place.mtime))
    except RecordError as error:
        return error


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _lists(arrays: Sequence[Array]) -> pa.Array:
    """Their numbers, in C order."""
    offsets = offsets_of(np.array([array.size for array in arrays], np.int64))
    flat = [array.reshape(-1) for array in arrays]
    dtype = np.dtype(_LISTS[arrays[0].dtype.name]) if arrays else np.dtype("int64")
    values = np.concatenate(flat).astype(dtype) if flat else np.zeros(0, dtype)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
