"""What a .npy header says: read by numpy's own format module, never unpickled.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import math
import tokenize
import warnings
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from recordmill.errors import Reason, RecordError

MAGIC = npy_format.MAGIC_PREFIX
HEAD = 1 << 14  # bytes that hold every header that numpy would read
_LONGEST_HEADER = 10_000  # bytes, as numpy has it: a longer one might keep its parser busy
_MOST_DIMENSIONS = 64  # numpy's
_MOST_BYTES = 2**63  # so that sizes and offsets are int64
_KINDS = "biufc"  # of numpy: bool, integers, floats, complex
_TEXTS = "US"
_WIDEST = {"f": 8, "c": 16}  # bytes: more is a number of the machine, not of a format

# What numpy's parser raises for text that is no header.
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    SyntaxError,
    OverflowError,
    RecursionError,
    MemoryError,
    EOFError,
    tokenize.TokenError,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stored:
    """An array as it stands in a file.

    dtype: numpy's name with the byte order, such as '>f4'. fortran: its first dimension runs
    fastest. offset: bytes from the beginning of the file, where they stand as they are; None where
    the format's library has to read them. member: its name in the file; '' where it is all of it.
    solid: it is compressed in one piece.
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool = False
    offset: int | None = None
    member: str = ""
    solid: bool = False

    @property
    def numbers(self) -> np.dtype[Any]:
        """Its dtype."""
        return np.dtype(self.dtype)

    @property
    def bytes(self) -> int:
        """Of the numbers."""
        return math.prod(self.shape) * self.numbers.itemsize

    def to_text(self) -> str:
        """As a column of a listing holds it."""
        return json.dumps(dataclasses.astuple(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Stored:
        """The inverse of `to_text`."""
        return _parse(text)


@functools.lru_cache(maxsize=1 << 12)
def _parse(text: str) -> Stored:
    names = (field.name for field in dataclasses.fields(Stored))
    given = dict(zip(names, json.loads(text), strict=True))
    return Stored(**{**given, "shape": tuple(given["shape"])})


def read_npy(head: bytes, size: int, *, member: str = "", texts: bool = False) -> Stored:
    """The array of a .npy file, its offset counted from the file's beginning.

    head: its first HEAD bytes, or all of it. size: of the file, bytes. texts: may stand there, too.

    Raises:
      RecordError: it holds no array of numbers, or not as many as it says.
    """
    offset = _header_length(head)
    dtype, shape, fortran = _header(head[:offset])
    stored = Stored(dtype=dtype, shape=shape, fortran=fortran, offset=offset, member=member)
    check_dtype(stored.numbers, texts=texts)
    check_shape(shape, stored.numbers.itemsize)
    there = size - offset
    if there < stored.bytes:
        raise RecordError(
            Reason.TRUNCATED,
            f"its header tells of {shape_told(shape)} {stored.numbers.name}, which is"
            f" {stored.bytes} bytes, and {there} follow it",
        )
    if there > stored.bytes:
        raise RecordError(
            Reason.CORRUPT,
            f"{there - stored.bytes} bytes follow the array, which its header does not tell of",
        )
    return stored


def check_dtype(dtype: np.dtype[Any], *, texts: bool = False) -> None:
    """Raises RecordError unless it is of numbers that have one meaning everywhere.

    texts: those of numpy will do, too.
    """
    if dtype.hasobject:
        raise RecordError(
            Reason.UNSUPPORTED, "an array of Python objects, which is a pickle and never read"
        )
    if dtype.names is not None:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"an array of records of the fields {', '.join(dtype.names)}: save the fields as arrays"
            " of their own",
        )
    if texts and dtype.kind in _TEXTS:
        return
    if dtype.subdtype is not None or dtype.kind not in _KINDS:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"an array of {dtype.name or dtype.str}: expected bool, integers, floats or complex",
        )
    if dtype.itemsize > _WIDEST.get(dtype.kind, 8):
        raise RecordError(
            Reason.UNSUPPORTED, f"an array of {dtype.name}, which is not the same on all machines"
        )


def check_shape(shape: tuple[int, ...], itemsize: int) -> None:
    """Raises RecordError for what numpy could not hold."""
    if len(shape) > _MOST_DIMENSIONS:
        raise RecordError(
            Reason.CORRUPT, f"{len(shape)} dimensions, more than numpy's {_MOST_DIMENSIONS}"
        )
    if math.prod(n for n in shape if n) * itemsize >= _MOST_BYTES:
        raise RecordError(
            Reason.TOO_LARGE, f"its header tells of {shape_told(shape)}, more than any file holds"
        )


def shape_told(shape: tuple[int | None, ...]) -> str:
    """A shape in words of a message."""
    return "x".join("?" if size is None else str(size) for size in shape) or "one"


@functools.lru_cache(maxsize=1 << 10)
def _header(header: bytes) -> tuple[str, tuple[int, ...], bool]:
    """(dtype, shape, Fortran order); the headers of most files are the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on what Python 2 wrote, which is read all the same
        try:
            stream = io.BytesIO(header)
            version = npy_format.read_magic(stream)
            # A header of version 3 is one of version 2 whose field names are UTF-8.
            read: Any = (
                npy_format.read_array_header_1_0
                if version == (1, 0)
                else npy_format.read_array_header_2_0
            )
            shape, fortran, dtype = read(stream, max_header_size=_LONGEST_HEADER)
        except _UNREADABLE as error:
            raise RecordError(Reason.CORRUPT, "its header cannot be understood") from error
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise RecordError(Reason.CORRUPT, f"its header tells of the shape {shape}")
    if dtype.names is not None or dtype.hasobject:
        check_dtype(dtype)  # its name does not say all that it is
    return dtype.str, shape, fortran


def _header_length(head: bytes) -> int:
    """Bytes up to the array. Raises RecordError."""
    if len(head) < len(MAGIC) + 4:
        raise RecordError(Reason.TRUNCATED, "it ends within its header")
    major, minor = head[len(MAGIC)], head[len(MAGIC) + 1]
    if (major, minor) not in ((1, 0), (2, 0), (3, 0)):
        raise RecordError(
            Reason.UNSUPPORTED, f"a header of version {major}.{minor}: expected 1.0, 2.0 or 3.0"
        )
    begin = len(MAGIC) + 2
    width = 2 if major == 1 else 4
    length = begin + width + int.from_bytes(head[begin : begin + width], "little")
    if length > begin + width + _LONGEST_HEADER:
        raise RecordError(
            Reason.CORRUPT, f"a header of {length} bytes, more than numpy's {_LONGEST_HEADER}"
        )
    if length > len(head):
        raise RecordError(Reason.TRUNCATED, "it ends within its header")
    return length
