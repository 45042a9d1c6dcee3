"""Arrays that records hold as bytes or as lists of floats, as files of a format that has a header.

The header is made from what the dataset declares, and put before the bytes of the record. So the
readers of .npy files, of images (PNM) and of audio (WAV) read these arrays, without another format.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Feature, shape_text

Files = Literal["images", "arrays", "audio"]

_PNM = {1: b"P5", 3: b"P6"}  # by channels
_WAV = struct.Struct("<4sI4s4sIHHIIHH4sI")
_CODECS = {"int16": 1, "float32": 3}  # of samples in WAV files


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayForm:
    """The form of the arrays of a feature.

    dtype: of NumPy. shape: None for a dimension that varies. shape_features: features of a record
    that hold its shape, if several dimensions vary. files: kind of the files to make. rate_feature:
    feature that holds the sample rate of audio.
    """

    dtype: str
    shape: tuple[int | None, ...]
    shape_features: tuple[str, ...]
    files: Files
    rate_feature: str | None = None

    @classmethod
    def of(
        cls, name: str, feature: Feature, files: Files, *, rate_feature: str | None = None
    ) -> ArrayForm:
        """Return the form of a feature. rate_feature: of waveforms.

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
        if files == "audio" and (rate_feature is None or dtype not in _CODECS):
            raise ConfigError(
                f"the feature {name!r} holds numbers ({dtype}) that are no waveforms: make this"
                " dataset from the original files; recordmill arrays reads the numbers as they are"
            )
        form = cls(
            dtype=dtype,
            shape=shape,
            shape_features=feature.shape_features if shape.count(None) > 1 else (),
            files=files,
            rate_feature=rate_feature,
        )
        channels = shape[-1] if len(shape) == 3 else 0
        if files == "images" and (dtype != "uint8" or channels not in _PNM):
            raise ConfigError(
                f"the feature {name!r} holds raw pixels ({dtype} {shape_text(shape)}), of which"
                " only uint8 with 1 or 3 channels is read as images: make the first dataset with"
                f" {option_name('image_format', 'png')}, or read these as arrays, with recordmill"
                " arrays"
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

    @property
    def features(self) -> tuple[str, ...]:
        """Features of a record that its header needs."""
        rates = () if self.rate_feature is None else (self.rate_feature,)
        return (*self.shape_features, *rates)

    def headers(self, columns: pa.RecordBatch, sizes: Sequence[int]) -> list[bytes | None]:
        """Return the header of the file of each record; None for bytes that fill no array.

        columns: lists of numbers, of `features` at least. sizes: of the arrays in bytes.
        """
        given: list[tuple[int, ...] | None] = [None] * len(sizes)
        if self.shape_features:
            parts = [columns[name].to_pylist() for name in self.shape_features]
            given = [
                tuple(size for part in several for size in part or ())
                for several in zip(*parts, strict=True)
            ]
        rates = [0] * len(sizes)
        if self.rate_feature is not None:
            rates = [sum(rate or ()) for rate in columns[self.rate_feature].to_pylist()]
        shapes = map(self.shape_of, sizes, given)
        return [
            None if shape is None else _header(self.files, self.dtype, shape, rate)
            for shape, rate in zip(shapes, rates, strict=True)
        ]


@functools.lru_cache(maxsize=1 << 10)
def _header(files: Files, dtype: str, shape: tuple[int, ...], rate: int) -> bytes:
    if files == "audio":
        return _wav_header(dtype, shape[0], math.prod(shape[1:]), rate)
    if files == "images":
        height, width, channels = shape
        return b"%s %d %d 255\n" % (_PNM[channels], width, height)
    kind = np.dtype(dtype).newbyteorder("<").str
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    text = f"{fields}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def _wav_header(dtype: str, frames: int, channels: int, rate: int) -> bytes:
    item = np.dtype(dtype).itemsize
    block = channels * item
    size = frames * block
    return _WAV.pack(
        *(b"RIFF", _WAV.size - 8 + size, b"WAVE", b"fmt ", 16, _CODECS[dtype], channels),
        *(rate, rate * block, block, 8 * item, b"data", size),
    )
