"""Which annotations are the same: files of COCO share them, and ids tell."""

from __future__ import annotations

import array
import bisect
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from recordmill.transforms.model.annotations import Indices, numbered

_NONE, _NUMBER, _OTHER = range(3)


@dataclasses.dataclass(frozen=True)
class Repeated:
    """kept: the annotations that count. faults: {picture: why its annotations cannot be used}."""

    kept: Indices
    faults: Mapping[int, str]


class AnnotationIds:
    """The ids of annotations, and where each stands, in little memory: 17 bytes for each."""

    def __init__(self) -> None:
        self._ids = array.array("q")
        self._kinds = array.array("b")
        self._numbers = array.array("q")
        self._others: dict[int | str, int] = {}
        self._files: list[str] = []
        self._starts: list[int] = []

    def begin(self, file: str) -> None:
        """All that is added from now on is of this file."""
        self._files.append(file)
        self._starts.append(len(self._ids))

    def add(self, known: int | str | None, number: int) -> None:
        """The next annotation, at this place in its file. known: None where it has no id."""
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

    def repeated(self, pictures: Indices, content: Callable[[], Indices]) -> Repeated:
        """What becomes of those whose id came before.

        One of the same picture and content counts once; of another content, it is a mistake. So is
        one of another picture in the same file; files of other pictures may have ids of their own.

        pictures, content: of each annotation; equal where these are. content is called if needed.
        """
        ids, kinds = np.array(self._ids, np.int64), np.array(self._kinds, np.int8)
        everything = np.arange(len(ids))
        known = np.flatnonzero(kinds != _NONE)
        chosen, kind = ids[known], kinds[known].astype(np.int64)
        if len(np.unique(chosen)) == len(known):
            return Repeated(everything, {})
        files = np.searchsorted(self._starts, known, side="right")
        of_picture = known[_firsts(pictures[known], chosen, kind)]
        again = of_picture != known
        says = content()
        same = again & (says[known] == says[of_picture])
        of_file = known[_firsts(files, chosen, kind)]
        elsewhere = pictures[known] != pictures[of_file]
        first = np.where(elsewhere, of_file, of_picture)
        faults: dict[int, str] = {}
        for at in np.flatnonzero((again & ~same) | elsewhere).tolist():
            picture = int(pictures[known[at]])
            if picture not in faults:
                faults[picture] = self._why(int(known[at]), int(first[at]), other=elsewhere[at])
        return Repeated(np.setdiff1d(everything, known[same], assume_unique=True), faults)

    def _why(self, later: int, first: int, *, other: bool) -> str:
        how = "is of another picture" if other else "says something else"
        return (
            f"{self._place(later)}: its 'id' {self._id(later)!r} is that of {self._place(first)},"
            f" which {how}"
        )

    def _id(self, at: int) -> Any:
        return self._ids[at] if self._kinds[at] == _NUMBER else list(self._others)[self._ids[at]]

    def _place(self, at: int) -> str:
        file = self._files[bisect.bisect_right(self._starts, at) - 1]
        return f"{file}: annotations[{self._numbers[at]}]"


def _firsts(*keys: Indices) -> Indices:
    """Of each, where the first is whose keys are all equal to its own: int64[n]."""
    _, first, of = np.unique(numbered(*keys), return_index=True, return_inverse=True)
    return np.asarray(first[of], np.int64)
