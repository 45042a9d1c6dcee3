"""Segmentation masks of images as features: class ids follow the pixels.

Features are named as in DeepLab's datasets.

Source: https://github.com/tensorflow/models/blob/master/research/deeplab/datasets/build_data.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, RecordError
from recordmill.storage.input_files import open_file, read_file
from recordmill.tfrecord.features import Feature
from recordmill.transforms.encoders.frames import frame_of, frame_transform
from recordmill.transforms.encoders.instance_masks import mask_size_error, references_of
from recordmill.transforms.imaging.class_masks import (
    decode_mask,
    encode_mask,
    move_mask,
    open_mask,
)
from recordmill.transforms.imaging.headers import Header
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.imaging.pixels import EncodedImage
from recordmill.transforms.model.annotations import MASK_COLUMNS
from recordmill.transforms.model.ragged import binary_array

_ENCODED = "image/segmentation/class/encoded"
_FORMAT = "image/segmentation/class/format"


def mask_features(options: MaskOptions, mask: Feature) -> dict[str, Feature]:
    """Return the features that `PlacedMasks.columns` makes.

    mask: the feature of a mask of the size of the image.
    """
    shape = (None,) if options.optional else ()
    mask = dataclasses.replace(mask, shape=shape, raw_dtype=f"uint{options.depth}")
    return {_ENCODED: mask, _FORMAT: Feature(dtype="string", shape=shape, kind="text")}


class PlacedMasks:
    """Masks of a batch of rows, moved to the written images of the rows that are kept."""

    def __init__(self, rows: pa.RecordBatch, options: MaskOptions, limits: ImageOptions) -> None:
        self._options = options
        self._limits = limits.of_masks
        self.files = references_of(rows, MASK_COLUMNS) or []
        self._masks: list[bytes | None] = []

    def place(self, row: int, image: EncodedImage) -> bytes | None:
        """Return the mask of a row, moved to its image; None if it has none.

        Raises:
            RecordError: the mask is invalid, or not of the size of the image.
        """
        path, size, mtime = self.files[row]
        if path is None:
            return None
        try:
            mask = decode_mask(read_file(path, size=size, mtime=mtime), self._options, self._limits)
        except RecordError as error:
            raise RecordError(error.reason, f"the mask: {error.detail}") from error
        frame = frame_of(image, mask.size, self._options.frame)
        if mask.is_oriented:
            frame = "upright"
        if frame is None:
            raise RecordError(
                Reason.BAD_VALUE,
                "EXIF rotates the image, and its mask fits it as stored and upright: choose one"
                " with --mask-frame stored or upright",
            )
        to_resized, expected = frame_transform(image, frame)
        if mask.size != expected:
            raise mask_size_error("the mask", mask.size, expected)
        moved = move_mask(
            mask.ids,
            mask.to_upright.then(to_resized).then(image.to_augmented),
            (image.width, image.height),
            padding=self._options.padded,
        )
        return encode_mask(moved)

    def keep(self, mask: bytes | None) -> None:
        """Add the mask of the next row that is kept."""
        self._masks.append(mask)

    def columns(self) -> dict[str, pa.Array]:
        """Return the features of the kept rows, in their order."""
        formats = [None if mask is None else "png" for mask in self._masks]
        return {
            _ENCODED: _binary(self._masks),
            _FORMAT: pa.array(formats, pa.string()),
        }


class MaskHeaders:
    """Check of the masks of a batch of rows by their headers."""

    def __init__(self, rows: pa.RecordBatch, limits: ImageOptions) -> None:
        self._limits = limits.of_masks
        self.files = references_of(rows, MASK_COLUMNS) or [(None, 0, 0)] * len(rows)

    def check(self, row: int, image: Header) -> None:
        """Check that the mask of a row has the size of its image, if it has one.

        Raises:
            RecordError: it has not, or the mask is invalid.
        """
        path, size, mtime = self.files[row]
        if path is None:
            return
        try:
            with open_file(path, size=size, mtime=mtime) as file:
                found = open_mask(file, self._limits).size
        except RecordError as error:
            raise RecordError(error.reason, f"the mask: {error.detail}") from error
        if sorted(found) != sorted((image.width, image.height)):  # EXIF may swap the sides
            raise mask_size_error("the mask", found, (image.width, image.height))


def _binary(values: Sequence[bytes | None]) -> pa.Array:
    """Return byte strings as an array; None becomes null."""
    found = binary_array([value or b"" for value in values])
    if None not in values:
        return found
    nulls = pa.array([value is None for value in values])
    return pc.if_else(nulls, pa.scalar(None, found.type), found)
