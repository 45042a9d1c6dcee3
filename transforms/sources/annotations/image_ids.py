"""Ids of images in COCO files, if they identify each image of all files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from recordmill.transforms.model.annotations import IMAGE_ID_LIMIT


@dataclasses.dataclass
class ImageIds:
    """Collects the ids of images.

    problem: the reason why ids do not identify images: a clause, None if they do.
    """

    problem: str | None = None
    _images: dict[int, int] = dataclasses.field(default_factory=dict)  # {id: index of the image}

    def add(self, image: int, name: str, given: int | str) -> None:
        """Add the id that an entry gives to an image, by its index and name."""
        if self.problem is not None:
            return
        if not isinstance(given, int) or not 0 <= given < IMAGE_ID_LIMIT:
            self.problem = f"the id {given!r} of {name!r} is not a whole number from 0 to 2^52"
        elif self._images.setdefault(given, image) != image:
            self.problem = f"the id {given} of {name!r} is also the id of another image"

    def column(self, count: int) -> pa.Array | None:
        """Return the id of each of `count` images, the smallest if it has several: int64[n].

        None if ids do not identify images.
        """
        if self.problem is not None:
            return None
        numbers = np.full(count, IMAGE_ID_LIMIT, np.int64)
        of = np.fromiter(self._images.values(), np.int64, len(self._images))
        np.minimum.at(numbers, of, np.fromiter(self._images, np.int64, len(self._images)))
        return pa.array(numbers)
