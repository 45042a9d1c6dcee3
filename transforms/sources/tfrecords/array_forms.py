"""Arrays that records hold as bytes or as lists of floats, as files of a format that has a header.

The header is made from what the dataset declares, and put before the bytes of the record. So the
readers of .npy files and of images (PNM) read these arrays, without another format.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal

import numpy as np

from recordmill.errors import ConfigError
from recordmill.tfrecord.features import Feature

Files = Literal["images", "arrays"]

_PNM = {1: b"P5", 3: b"P6"}  # by channels


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayForm:
    """The form of the arrays of a feature.

    dtype: of NumPy. shape: None for a dimension that varies. shape_features: features of a record
    that hold its shape, if several dimensions vary. files: kind of the files to make.
    """

    dtype: str
    shape: tuple[int | None, ...]
    shape_features: tuple[str, ...]
    files: Files

    @classmethod
    def of(cls, name: str, feature: Feature, files: Files) -> ArrayForm:
        """Return the form of a feature.

        Raises:
          ConfigError: no file of that kind can hold its arrays.
        """
        if feature.kind == "raw" and feature.raw_dtype and feature.raw_shape is not None:
            dtype, shape = feature.raw_dtype, feature.raw_shape
        elif feature.dtype == "float32" and feature.kind == "value":
            dtype, shape = "float32", feature.shape
        else:
            raise ConfigError(
                f"the feature {name!r} holds {feature.dtype} values of the kind {feature.kind!r}:"
                " expected arrays as bytes or as floats; recordmill table reads lists of numbers as"
                " columns"
            )
        form = cls(dtype=dtype, shape=shape, shape_features=feature.shape_features, files=files)
        channels = shape[-1] if len(shape) == 3 else 0
        if files == "images" and (dtype != "uint8" or channels not in _PNM):
            text = "x".join("?" if size is None else str(size) for size in shape)
            raise ConfigError(
                f"the feature {name!r} holds raw pixels ({dtype} {text}), of which only uint8 with"
                " 1 or 3 channels is read as images: make the first dataset with --image-format"
                " png, or read these as arrays, with recordmill arrays"
            )
        return form

    def shape_of(self, size: int, given: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Return the shape of an array of `size` bytes, None if its bytes do not fill one.

        given: the shape that the record holds, if any.
        """
        item = np.dtype(self.dtype).itemsize
        if given is not None:
            shape = given
        else:
            known = math.prod(one for one in self.shape if one is not None)
            rest = size // (item * known) if known else 0
            shape = tuple(rest if one is None else one for one in self.shape)
        fits = len(shape) == len(self.shape) and min(shape, default=0) >= 0
        return shape if fits and math.prod(shape) * item == size else None

    def header(self, shape: tuple[int, ...]) -> bytes:
        """Return the header of a file with an array of that shape."""
        return _header(self.files, self.dtype, shape)


@functools.lru_cache(maxsize=1 << 10)
def _header(files: Files, dtype: str, shape: tuple[int, ...]) -> bytes:
    if files == "images":
        height, width, channels = shape
        return b"%s %d %d 255\n" % (_PNM[channels], width, height)
    kind = np.dtype(dtype).newbyteorder("<").str
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    text = f"{fields}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
