"""Annotations of many images, which are read by their numbers."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from recordmill.errors import Reject
from recordmill.notes import Note
from recordmill.transforms.model.annotations import Annotated, Indices


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationReader(abc.ABC):
    """Reader of the annotations of many images.

    names: of the images, unique; each is the end of a path, without extension if `by_stem`.
    rejects: annotations that belong to no image.
    notes: remarks for the user, sentences without a full stop.
    classes: in the order of their numbers.
    suffixes: possible ends of the stem of an image, and of its name instead, as ("", "_mask").
    folder: that all names begin with, None without one. folder_is_known: its name says that it
      holds the annotations.
    paths: of the files of annotations if they may be among the images, which then leave them out.
    keys: of these files among the images, if both are listed from the same place.
    """

    names: Sequence[str]
    rejects: Sequence[Reject] = ()
    notes: Sequence[str | Note] = ()
    classes: tuple[str, ...] = ()
    by_stem: bool = True
    suffixes: Sequence[tuple[str, str]] = (("", ""),)
    folder: str | None = None
    folder_is_known: bool = False
    paths: pa.Array | None = None
    keys: Collection[str] = ()

    @property
    @abc.abstractmethod
    def fields(self) -> pa.Schema:
        """Schema of the columns that `read` returns."""

    @abc.abstractmethod
    def read(self, which: Indices) -> Annotated:
        """Return the annotations of images, given by their indices in `names`: int64[n]."""

    def labels(self) -> tuple[str, ...]:
        """Return the classes, once all annotations have been read; empty without classes."""
        return self.classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationTable(AnnotationReader):
    """Annotations that are in memory, such as those of COCO or of a folder of masks.

    table: a row per image. faults: {row: what is invalid}.
    """

    table: pa.RecordBatch
    faults: Mapping[int, str] = dataclasses.field(default_factory=dict)

    @property
    def fields(self) -> pa.Schema:
        return self.table.schema

    def read(self, which: Indices) -> Annotated:
        faults = {n: self.faults[i] for n, i in enumerate(which.tolist()) if i in self.faults}
        return Annotated(columns=self.table.take(pa.array(which)), faults=faults)
