"""Arrays in files: which there are, and parts of them, read where they stand."""

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
from recordmill.storage.files import InputFile
from recordmill.transforms.sources.arrays.npy import HEAD, Stored, read_npy

Array = npt.NDArray[Any]

NOTHING = "no array is in it"
_BLOCK = 1 << 26  # bytes of a file that are looked at together for a part that is spread over it
_NAMED = 12  # arrays that a message names


class Span(NamedTuple):
    """Part of an array: from `start` to before `stop` along an axis."""

    axis: int
    start: int
    stop: int


class ArrayFile(abc.ABC):
    """A file that holds arrays by their names."""

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
        """Lets go of the file."""
        self.file.close()

    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """Of its arrays. Raises RecordError for a file that cannot be understood."""

    @abc.abstractmethod
    def stored(self, name: str, *, texts: bool = False) -> Stored:
        """What an array is like. texts: it may be of texts, which are labels.

        Raises RecordError where it cannot be read, or is none of numbers.
        """

    def find(self, name: str | None, *, option: str = "--array", texts: bool = False) -> Stored:
        """The array of that name; None for the only one.

        Raises RecordError where there is none, or several to choose from.
        """
        names = self.names()
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        if not names:
            raise RecordError(Reason.EMPTY, NOTHING)
        if name is None and len(names) > 1:
            raise RecordError(
                Reason.BAD_VALUE, f"several arrays, {listed}: say which with {option}"
            )
        wanted = names[0] if name is None else name
        if wanted not in names:
            raise RecordError(
                Reason.MISSING,
                f"no array {wanted!r}, which {option} names{did_you_mean(wanted, names)}; there is"
                f" {listed or 'one without a name'}",
            )
        return self.stored(wanted, texts=texts)

    def read(self, stored: Stored, span: Span | None = None) -> Array:
        """An array, or a part of it, in the dtype and byte order of the file.

        Raises RecordError where it cannot be read.
        """
        if stored.offset is None:
            return self._load(stored, span)
        shape = stored.shape[::-1] if stored.fortran else stored.shape
        array = self._read_at(stored.offset, stored.numbers, shape, _turned(stored, span))
        return array.T if stored.fortran else array

    def labels(self, stored: Stored, span: Span | None = None) -> pa.Array:
        """Classes as texts, string[n]. Raises RecordError for what are none."""
        return label_texts(self.read(stored, span).reshape(-1))

    def _load(self, stored: Stored, span: Span | None) -> Array:
        """`read`, of an array whose bytes do not stand in the file as they are."""
        raise NotImplementedError

    def _read_at(
        self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], span: Span | None
    ) -> Array:
        """Of an array in C order."""
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
                mapped.madvise(mmap.MADV_DONTNEED)  # or all of the file would be in memory
        if mapped is not None:
            mapped.close()
        return array.reshape(got)


class NpyFile(ArrayFile):
    """A .npy file: one array, without a name."""

    def names(self) -> Sequence[str]:
        return [""]

    def stored(self, name: str, *, texts: bool = False) -> Stored:
        del name
        head = self.file.read(0, min(self.file.size, HEAD))
        return read_npy(head, self.file.size, texts=texts)


def label_texts(array: Array) -> pa.Array:
    """Integers, bools and texts as the names of classes, string[n], null where one is empty.

    Raises RecordError for others.
    """
    if array.dtype.kind in "biu":
        return pa.array(array.astype("u8" if array.dtype.kind == "u" else "i8")).cast(pa.string())
    try:
        texts = [one.decode() if isinstance(one, bytes) else one for one in array.tolist()]
        return pa.array([text or None for text in texts], pa.string())
    except UnicodeError as error:
        raise RecordError(Reason.BAD_VALUE, "a label that is not UTF-8") from error


def _turned(stored: Stored, span: Span | None) -> Span | None:
    """The span of the array as its bytes run: Fortran's are those of its transpose."""
    if span is None or not stored.fortran:
        return span
    return span._replace(axis=len(stored.shape) - 1 - span.axis)
