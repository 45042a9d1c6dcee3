"""Headers of .npy files, parsed by numpy's own format module and never unpickled.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import dataclasses
import functools
import io
import math
import re
import tokenize
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from recordmill import strict_json
from recordmill.errors import Reason, RecordError
from recordmill.format.typed_json import damage_of, parse_json, read_as

MAGIC = npy_format.MAGIC_PREFIX
HEAD = 1 << 14  # bytes that contain any header that numpy accepts
_LONGEST_HEADER = 10_000  # bytes, numpy's limit: parsing a longer header may take too long
_MOST_DIMENSIONS = 64  # numpy's
_MOST_BYTES = 2**63  # so that sizes and offsets are int64
_KINDS = "biufc"  # numpy's kinds: bool, integers, floats, complex
_TEXTS = "US"
BFLOAT16 = "bfloat16"  # of ml_dtypes, read as float32, which represents all of its values
_ML_DTYPE = re.compile(rb"'descr': *'([<>])([Vf][12])'")  # raw bytes have `|`
_WIDEST = {"f": 8, "c": 16}  # bytes: wider types depend on the machine

# Errors of numpy's parser for an invalid header, or for no header.
INVALID_HEADER = (
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
class StoredArray:
    """Header of an array in a file.

    dtype: numpy's name with the byte order, such as '>f4'; or '<bfloat16', '>bfloat16'.
    shape: of the array.
    fortran: whether it is in Fortran order.
    offset: byte offset of uncompressed values in the file; None if the format's library must read
      them.
    member: name of the array in the file; '' if the file is the array.
    solid: whether the array is compressed in one piece.
    chunk: bytes of each chunk, 0 if the array is not stored in chunks.
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool = False
    offset: int | None = None
    member: str = ""
    solid: bool = False
    chunk: int = 0

    @property
    def numbers(self) -> np.dtype[Any]:
        """The numpy dtype of the values once they are read."""
        return np.dtype(self.dtype.replace(BFLOAT16, "f4"))

    @property
    def type_name(self) -> str:
        """Name of the type as stored, for messages."""
        return BFLOAT16 if self.dtype.endswith(BFLOAT16) else self.numbers.name

    @property
    def layout(self) -> np.dtype[Any]:
        """The numpy dtype of the values as stored, for `values`."""
        return np.dtype(self.dtype.replace(BFLOAT16, "u2"))

    @property
    def bytes(self) -> int:
        """Size of the values in bytes, as stored."""
        return math.prod(self.shape) * self.layout.itemsize

    def values(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert an array that was read with the dtype `layout` to the dtype `numbers`."""
        if not self.dtype.endswith(BFLOAT16):
            return array
        # A bfloat16 is the upper half of a float32.
        order = self.dtype[0]
        return (array.astype(f"{order}u4") << 16).astype(f"{order}u4").view(f"{order}f4")

    def to_text(self) -> str:
        """Return JSON, for a column of a listing."""
        return strict_json.to_text(dataclasses.astuple(self), ascii_only=True, compact=True)

    @classmethod
    def from_text(cls, text: str) -> StoredArray:
        """Parse the JSON of `to_text`. Raises DamageError."""
        return _parse(text)


@functools.lru_cache(maxsize=1 << 12)
def _parse(text: str) -> StoredArray:
    names = (field.name for field in dataclasses.fields(StoredArray))
    with damage_of("the staged header of an array"):
        return read_as(StoredArray, dict(zip(names, parse_json(text.encode()), strict=True)))


def read_npy(head: bytes, size: int, *, member: str = "", texts: bool = False) -> StoredArray:
    """Parse the header of a .npy file.

    Args:
      head: first HEAD bytes of the file, or the whole file.
      size: of the file in bytes.
      member: name of the array.
      texts: whether to accept an array of text.

    Raises:
      RecordError: the file holds no array of numbers, or fewer or more bytes than its header says.
    """
    offset = _header_length(head)
    dtype, shape, fortran = _header(head[:offset])
    stored = StoredArray(dtype=dtype, shape=shape, fortran=fortran, offset=offset, member=member)
    check_dtype(stored.numbers, texts=texts)
    check_shape(shape, stored.layout.itemsize)
    remaining = size - offset
    if remaining < stored.bytes:
        raise RecordError(
            Reason.TRUNCATED,
            f"its header declares {format_shape(shape)} {stored.type_name}, which is"
            f" {stored.bytes} bytes, but {remaining} bytes follow",
        )
    if remaining > stored.bytes:
        raise RecordError(
            Reason.CORRUPT,
            f"{remaining - stored.bytes} bytes follow the array that its header declares",
        )
    return stored


def check_dtype(dtype: np.dtype[Any], *, texts: bool = False) -> None:
    """Raise RecordError unless a dtype holds numbers that are the same on all machines.

    texts: whether to accept numpy's text types.
    """
    if dtype.hasobject:
        raise RecordError(
            Reason.UNSUPPORTED, "an array of Python objects, which is a pickle and never read"
        )
    if dtype.names is not None:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"a structured array with the fields {', '.join(dtype.names)}: save each field as an"
            " array",
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
    """Raise RecordError for a shape that numpy cannot hold."""
    if len(shape) > _MOST_DIMENSIONS:
        raise RecordError(
            Reason.CORRUPT, f"{len(shape)} dimensions, more than numpy's {_MOST_DIMENSIONS}"
        )
    if math.prod(n for n in shape if n) * itemsize >= _MOST_BYTES:
        raise RecordError(
            Reason.TOO_LARGE,
            f"its header declares {format_shape(shape)}, which is larger than any file",
        )


def format_shape(shape: tuple[int | None, ...]) -> str:
    """Return a shape for a message."""
    return "x".join("?" if size is None else str(size) for size in shape) or "one"


@functools.lru_cache(maxsize=1 << 10)
def _header(header: bytes) -> tuple[str, tuple[int, ...], bool]:
    """Parse a header to (dtype, shape, Fortran order). Cached, as many files have equal ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files of Python 2, which are read correctly
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
        except INVALID_HEADER as error:
            _refuse_one_byte_types(header)
            raise RecordError(Reason.CORRUPT, "its header cannot be parsed") from error
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise RecordError(Reason.CORRUPT, f"its header declares the shape {shape}")
    if dtype.names is not None or dtype.hasobject:
        check_dtype(dtype)  # its name does not describe it completely
    if dtype.kind == "V" and (found := _ML_DTYPE.search(header)):
        _refuse_one_byte_types(header)
        return found[1].decode() + BFLOAT16, shape, fortran
    return dtype.str, shape, fortran


def _refuse_one_byte_types(header: bytes) -> None:
    """Raise RecordError for the one-byte types of ml_dtypes, which share one name in files.

    Source: https://github.com/jax-ml/ml_dtypes
    """
    found = _ML_DTYPE.search(header)
    if found and found[2] in (b"V1", b"f1"):
        raise RecordError(
            Reason.UNSUPPORTED,
            "an array of float8, int4 or another one-byte type of ml_dtypes, and the file does not"
            " say which: save it with astype('float32')",
        )


def _header_length(head: bytes) -> int:
    """Return the offset of the values in bytes. Raises RecordError."""
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
