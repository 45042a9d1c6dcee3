"""Files of arrays: names and headers of arrays, and reads of whole arrays or slices."""

from __future__ import annotations

import abc
import math
import mmap
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reason, RecordError, did_you_mean
from recordmill.format.class_names import number_text
from recordmill.storage.input_files import InputFile
from recordmill.transforms.sources.arrays.npy import HEAD, StoredArray, read_npy

Array = npt.NDArray[Any]

NO_ARRAYS = "it contains no arrays"
_BLOCK = 1 << 26  # bytes of a file that a strided read maps at a time
_NAMED = 12  # arrays named in a message


class Span(NamedTuple):
    """Slice of an array: from `start` up to `stop` (exclusive) along an axis."""

    axis: int
    start: int
    stop: int


class ArrayFile(abc.ABC):
    """A file of named arrays; a context manager."""

    def __init__(self, file: InputFile) -> None:
        self.file = file

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of the arrays. Raises RecordError for an invalid file."""

    @abc.abstractmethod
    def stored(self, name: str, *, texts: bool = False) -> StoredArray:
        """Return the header of an array.

        texts: whether to accept an array of text, for labels.

        Raises:
          RecordError: it cannot be read, or does not hold numbers.
        """

    def find(
        self, name: str | None, *, option: str = "--array", texts: bool = False
    ) -> StoredArray:
        """Return the header of the array of that name, or of the only array if name is None.

        Raises:
          RecordError: there is no such array, or there are several and name is None.
        """
        names = self.names()
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        if not names:
            raise RecordError(Reason.EMPTY, NO_ARRAYS)
        if name is None and len(names) > 1:
            raise RecordError(Reason.BAD_VALUE, f"several arrays, {listed}: name one with {option}")
        wanted = names[0] if name is None else name
        if wanted not in names:
            raise RecordError(
                Reason.MISSING,
                f"no array {wanted!r}, which {option} names{did_you_mean(wanted, names)}; there is"
                f" {listed or 'one without a name'}",
            )
        return self.stored(wanted, texts=texts)

    def unapplied(self, stored: StoredArray) -> Sequence[tuple[str, Sequence[str]]]:
        """Return the metadata of an array that change its values, and that `read` does not apply.

        Returns:
          (part for the note `left-unread`, names of attributes) pairs.
        """
        del stored
        return ()

    def read(self, stored: StoredArray, span: Span | None = None) -> Array:
        """Return an array or a slice of it, in the dtype and byte order of the file.

        Raises:
          RecordError: it cannot be read.
        """
        if stored.offset is None:
            return self._load(stored, span)
        shape = stored.shape[::-1] if stored.fortran else stored.shape
        array = self._read_at(stored.offset, stored.layout, shape, _transposed(stored, span))
        array = stored.values(array)
        return array.T if stored.fortran else array

    def labels(
        self, stored: StoredArray, span: Span | None = None, *, numbers: bool = False
    ) -> pa.Array:
        """Return an array of labels as text, string[n]. Raises RecordError for invalid labels.

        numbers: return numbers unchanged, not as text.
        """
        return label_values(self.read(stored, span).reshape(-1), numbers=numbers)

    def _load(self, stored: StoredArray, span: Span | None) -> Array:
        """Read an array that is compressed or stored in chunks."""
        raise NotImplementedError

    def _read_at(
        self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], span: Span | None
    ) -> Array:
        """Read an array in C order that is stored uncompressed at `offset`."""
        axis, start, stop = span or Span(0, 0, shape[0] if shape else 1)
        got = (*shape[:axis], stop - start, *shape[axis + 1 :]) if shape else ()
        count = math.prod(got)
        if not count:
            return np.zeros(got, dtype)
        unit = math.prod(shape[axis + 1 :]) * dtype.itemsize  # bytes of a step along the axis
        offset += start * unit
        runs = math.prod(shape[:axis])
        if runs == 1:
            data = self.file.read(offset, count * dtype.itemsize)
            return np.frombuffer(data, dtype).reshape(got)
        step = shape[axis] * unit
        array = np.empty((runs, (stop - start) * unit // dtype.itemsize), dtype)
        some = max(_BLOCK // step, 1)
        mapped = self.file.map()
        for first in range(0, runs, some):
            part = array[first : first + some]
            begin = offset + first * step
            around = (len(part) - 1) * step + part[0].nbytes
            spread: Array = np.ndarray(
                part.shape,
                dtype,
                buffer=self.file.read(begin, around) if mapped is None else mapped,
                offset=0 if mapped is None else begin,
                strides=(step, dtype.itemsize),
            )
            part[:] = spread
            del spread
            if mapped is not None:
                mapped.madvise(mmap.MADV_DONTNEED)  # otherwise the whole file would stay in memory
        if mapped is not None:
            mapped.close()
        return array.reshape(got)


class NpyFile(ArrayFile):
    """A .npy file, which holds one array without a name."""

    def names(self) -> Sequence[str]:
        return [""]

    def stored(self, name: str, *, texts: bool = False) -> StoredArray:
        del name
        head = self.file.read(0, min(self.file.size, HEAD))
        return read_npy(head, self.file.size, texts=texts)


def label_values(array: Array, *, numbers: bool = False) -> pa.Array:
    """Convert numbers, bools and texts to class names, string[n], with null for empty text and NaN.

    numbers: return numbers unchanged, and bools as 0 and 1, not as text.

    Raises:
      RecordError: the values have another type.
    """
    if array.dtype.kind in "biuf":
        wide = {"u": "u8", "f": "f8"}.get(array.dtype.kind, "i8")
        if numbers:
            return pa.array(array.astype(wide))
        if array.dtype.kind == "f":
            return pa.array(list(map(number_text, array)), pa.string())
        kept = array if array.dtype.kind == "b" else array.astype(wide)
        return pa.array(kept).cast(pa.string())  # bools as false and true
    try:
        texts = [one.decode() if isinstance(one, bytes) else one for one in array.tolist()]
        return pa.array([text or None for text in texts], pa.string())
    except UnicodeError as error:
        raise RecordError(Reason.BAD_VALUE, "a label that is not UTF-8") from error


def _transposed(stored: StoredArray, span: Span | None) -> Span | None:
    """Return the span in the stored array, which is the transpose for Fortran order."""
    if span is None or not stored.fortran:
        return span
    return span._replace(axis=len(stored.shape) - 1 - span.axis)
