"""The content of images before they are encoded, for duplicates and near duplicates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from recordmill.errors import Filtered, RecordError
from recordmill.format.content_hashes import ContentHashes
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.transforms.encoders.image_headers import references
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import decode
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import OutcomeCollector, RowOutcome
from recordmill.transforms.near_duplicates.image_hash import FLAT, hash_pixels


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageContents:
    """Reader of the files of images.

    decoding: how images are decoded for the hash of their pixels; None without such a hash.
    """

    decoding: ImageOptions | None = None

    @classmethod
    def of(cls, options: ImageOptions, *, near: bool) -> ImageContents:
        """Return the reader of images. near: hash pixels, as decoded, before they are resized."""
        if not near:
            return cls()
        plain = ImageOptions(
            image_format="png",
            background=options.background,
            max_pixels=options.max_pixels,
            intensity_window=options.intensity_window,
            damaged=options.damaged,
        )
        return cls(decoding=plain)

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, dict[str, pa.Array]]:
        """Return the hash of the bytes of each file, and of its pixels; bad images are rejected.

        Images of a single colour have no hash of pixels, which would be the same for all of them.
        """
        outcomes = OutcomeCollector("check")
        contents = ContentHashes()
        pixels: list[int] = []
        files = references(rows)
        places = [file[1:] for file in files]
        for row, (key, path, size, mtime) in enumerate(read_ahead(files, places)):
            try:
                data = read_file(path, size=size, mtime=mtime)
                if self.decoding is not None:
                    image = np.asarray(decode(data, self.decoding))
                    pixels.append(int(hash_pixels(image)))
            except (RecordError, Filtered) as error:
                outcomes.leave_out(key, error)
            else:
                contents.add(data)
                outcomes.keep(row)
        columns = {batch.CONTENT: contents.result()}
        if self.decoding is not None:
            columns[batch.NEAR] = hash_column(pixels)
        return outcomes.result(), columns


def hash_column(hashes: Iterable[int]) -> pa.Array:
    """Return the column of the hashes of images: uint64, null for images of a single colour."""
    values = np.fromiter(hashes, np.uint64)
    return pa.array(values, mask=values == FLAT)
