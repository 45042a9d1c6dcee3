"""Ids in COCO files: those of images, if they are unique, and those of annotations.

Annotations are deduplicated by id, because files may repeat annotations.
"""

from __future__ import annotations

import array
import bisect
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.transforms.model.annotations import IMAGE_ID_LIMIT, Indices, numbered

_NONE, _NUMBER, _OTHER = range(3)


@dataclasses.dataclass(frozen=True)
class DeduplicatedIds:
    """Result of deduplication.

    kept: indices of the annotations to keep. faults: {image: why its annotations are invalid}.
    dropped: {index of a dropped annotation: that of the equal one that is kept}.
    """

    kept: Indices
    faults: Mapping[int, str]
    dropped: Mapping[int, int] = dataclasses.field(default_factory=dict)


class AnnotationIds:
    """Ids and positions of annotations, in 17 bytes of memory each."""

    def __init__(self) -> None:
        self._ids = array.array("q")
        self._kinds = array.array("b")
        self._numbers = array.array("q")
        self._others: dict[int | str, int] = {}
        self._files: list[str] = []
        self._starts: list[int] = []

    def begin(self, file: str) -> None:
        """Start a file: annotations added from now on belong to it."""
        self._files.append(file)
        self._starts.append(len(self._ids))

    def add(self, known: int | str | None, number: int) -> None:
        """Add an annotation. known: its id, None without one. number: its index in the file."""
        self._numbers.append(number)
        if known is None:
            self._kinds.append(_NONE)
            self._ids.append(0)
        elif isinstance(known, int) and -(2**63) <= known < 2**63:
            self._kinds.append(_NUMBER)
            self._ids.append(known)
        else:
            self._kinds.append(_OTHER)
            self._ids.append(self._others.setdefault(known, len(self._others)))

    def deduplicate(self, images: Indices, content: Callable[[], Indices]) -> DeduplicatedIds:
        """Drop annotations with a repeated id, and find invalid repetitions.

        An annotation that repeats id, image and content of an earlier one is dropped. A repeated id
        with other content for the same image, or with another image in the same file, is a fault.
        Files with different images may use the same ids.

        Args:
          images: image of each annotation.
          content: returns a number per annotation, equal for equal content. Called only if ids
            repeat.
        """
        ids, kinds = np.array(self._ids, np.int64), np.array(self._kinds, np.int8)
        everything = np.arange(len(ids))
        known = np.flatnonzero(kinds != _NONE)
        chosen, kind = ids[known], kinds[known].astype(np.int64)
        if len(np.unique(chosen)) == len(known):
            return DeduplicatedIds(everything, {})
        files = np.searchsorted(self._starts, known, side="right")
        of_image = known[_first_equal(images[known], chosen, kind)]
        again = of_image != known
        says = content()
        same = again & (says[known] == says[of_image])
        of_file = known[_first_equal(files, chosen, kind)]
        elsewhere = images[known] != images[of_file]
        first = np.where(elsewhere, of_file, of_image)
        faults: dict[int, str] = {}
        for at in np.flatnonzero((again & ~same) | elsewhere).tolist():
            image = int(images[known[at]])
            if image not in faults:
                faults[image] = self._why(int(known[at]), int(first[at]), other=elsewhere[at])
        kept = np.setdiff1d(everything, known[same], assume_unique=True)
        dropped = dict(zip(known[same].tolist(), of_image[same].tolist(), strict=True))
        return DeduplicatedIds(kept, faults, dropped)

    def _why(self, later: int, first: int, *, other: bool) -> str:
        how = "belongs to another image" if other else "has other content"
        return (
            f"{self._place(later)}: its 'id' {self._id(later)!r} is that of {self._place(first)},"
            f" which {how}"
        )

    def _id(self, at: int) -> Any:
        return self._ids[at] if self._kinds[at] == _NUMBER else list(self._others)[self._ids[at]]

    def _place(self, at: int) -> str:
        file = self._files[bisect.bisect_right(self._starts, at) - 1]
        return f"{file}: annotations[{self._numbers[at]}]"


@dataclasses.dataclass
class ImageIds:
    """Collects the ids of images.

    Attributes:
      problem: Clause on why ids do not identify images; None if they do.
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


def _first_equal(*keys: Indices) -> Indices:
    """Return for each item the index of the first item with equal keys, int64[n]."""
    _, first, of = np.unique(numbered(*keys), return_index=True, return_inverse=True)
    return np.asarray(first[of], np.int64)
