"""Masks of the objects of images: drawn from segmentations, or moved with the pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.storage.input_files import read_file
from recordmill.transforms.imaging.affine import IDENTITY, Affine
from recordmill.transforms.imaging.class_masks import Ids, encode_mask, move_mask
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.object_masks import decode_object_masks, draw_object
from recordmill.transforms.model.annotations import (
    OBJECT_MASK_COLUMNS,
    OBJECTS,
    SEGMENTATION,
    SEGMENTATION_FRAME,
)


class InstanceMasks:
    """Masks of the objects of a batch of rows.

    They are drawn from the segmentations of the objects. Masks that rows refer to are used if
    pixels do not move, or if there are no segmentations. limits: for `max_pixels`.
    """

    def __init__(self, rows: pa.RecordBatch, limits: ImageOptions) -> None:
        self._limits = limits.of_masks
        self._objects = rows[OBJECTS]
        self._segmented = SEGMENTATION in [*self._objects.type.value_type]
        self._given = references_of(rows, OBJECT_MASK_COLUMNS)
        # Those that are read for each image.
        self.files = self._given if self._given and not self._segmented else []

    def place(
        self,
        row: int,
        kept: npt.NDArray[np.int64],
        transforms: tuple[Affine, Affine],
        *,
        frame: Size,
        size: Size,
    ) -> Sequence[bytes]:
        """Return the masks of the kept objects of a row as PNGs of the written image.

        kept: int64[k], indices of the objects. transforms: to the written image, from the annotated
            image, and from the pixels that segmentations refer to. frame: (width, height) of the
            annotated image. size: the same of the written image.

        Raises:
            RecordError: a mask or segmentation is missing or invalid, or a mask has another size.
        """
        unmoved = transforms[0] == IDENTITY and frame == size
        if self._given is not None and (unmoved or not self._segmented):
            masks = self._read(row, frame)
            moved = [move_mask(masks[n], transforms[0], size, padding=0) for n in kept.tolist()]
            return [*map(encode_mask, moved)]
        texts = self._objects[row].values.field(SEGMENTATION.name)
        own_frame = frame if transforms[0] == transforms[1] else None
        drawn = []
        for number in kept.tolist():
            text = texts[number].as_py()
            try:
                drawn.append(draw_object(text, transforms[1], frame=own_frame, size=size))
            except RecordError as error:
                raise RecordError(error.reason, f"object {number + 1} {error.detail}") from error
        return [*map(encode_mask, drawn)]

    def _read(self, row: int, frame: Size) -> list[Ids]:
        """Return the masks of all objects of a row."""
        assert self._given is not None
        path, length, mtime = self._given[row]
        masks = []
        if path is not None:
            content = read_file(path, size=length, mtime=mtime)
            masks = decode_object_masks(content, self._limits)
        objects = len(self._objects[row])
        if len(masks) != objects:
            raise RecordError(Reason.BAD_VALUE, f"{len(masks)} masks of {objects} objects")
        for number, mask in enumerate(masks, 1):
            if mask.shape != frame[::-1]:
                raise mask_size_error(f"the mask of object {number}", mask.shape[::-1], frame)
        return masks


def segmentation_frames(rows: pa.RecordBatch) -> list[Affine]:
    """Return for each row the transform from the pixels of segmentations to the image."""
    if SEGMENTATION_FRAME not in rows.schema.names:
        return [IDENTITY] * len(rows)
    found = rows[SEGMENTATION_FRAME].to_pylist()
    return [Affine(*one) if one else IDENTITY for one in found]


def references_of(
    rows: pa.RecordBatch, columns: pa.Schema
) -> Sequence[tuple[str | None, int, int]] | None:
    """Return (path, size, mtime) of the masks of each row; the path is None without a mask.

    columns: as `MASK_COLUMNS`. None if rows have no such columns.
    """
    if columns.names[0] not in rows.schema.names:
        return None
    return list(zip(*(rows[name].to_pylist() for name in columns.names), strict=True))


def mask_size_error(what: str, size: Size, expected: Size) -> RecordError:
    """Return the error for a mask whose size, (width, height), differs from that of its image."""
    return RecordError(
        Reason.BAD_VALUE,
        f"{what} has {size[0]}x{size[1]} pixels, the image {expected[0]}x{expected[1]}",
    )
