"""Readers of the annotations of many images, by their indices."""

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

    Attributes:
      names: Names of the images, unique but for `splits`; each is the end of a path.
      rejects: Annotations that belong to no image.
      notes: Remarks for the user, sentences without a full stop.
      declared_splits: {folder at the end of a path: split of the images in it}, which are only
        compared with the splits that images have.
      unread_splits: Remark on splits in the annotations, for images without a split.
      classes: Classes in the order of their numbers.
      by_stem: Whether names have no extension.
      suffixes: Pairs of affixes of the stem of an image and of the name of its annotations, such
        as ("", "_mask") or ("img_*", "mask_*"); as the arguments of `replace_affixes`.
      folders: {name of a folder of annotations: name of the folder of images with the same paths,
        without a word for images}, such as {"labels": ""} for "labels" beside "images".
      folder: Folder with which all names begin, if there is one.
      folder_is_known: Whether the name of the folder is a usual one for annotations.
      plain_names: The same names without usual words for annotations in the names of folders,
        unique; they are compared if no image has one of `names`. Empty without such words.
      paths: Paths of the files of annotations if they may be among the images, to leave them out.
      keys: Keys of these files among the images, if both are listed from the same place.
      beside_images: Whether names lack folders such as `images`, beside which the annotations are.
      sources: File of each name, for messages; empty if messages name only the source.
      splits: Split of the file with each name, for images without a split.
      shared: Clause on the first name of images of several splits, for messages; names are then
        unique only in their split.
    """

    names: Sequence[str]
    rejects: Sequence[Reject] = ()
    notes: Sequence[str | Note] = ()
    unread_splits: str = ""
    declared_splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    classes: tuple[str, ...] = ()
    by_stem: bool = True
    suffixes: Sequence[tuple[str, str]] = (("", ""),)
    folders: Mapping[str, str] = dataclasses.field(default_factory=dict)
    folder: str | None = None
    folder_is_known: bool = False
    plain_names: Sequence[str] = ()
    paths: pa.Array | None = None
    keys: Collection[str] = ()
    beside_images: bool = False
    sources: Sequence[str] = ()
    splits: Sequence[str | None] = ()
    shared: str = ""

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

    def other_files(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return {name: key of its file} of files without annotations, such as prose.

        Args:
          names: Names that match no image.
        """
        return {}

    def remarks(self) -> Sequence[str | Note]:
        """Return the notes, once all annotations have been read."""
        return self.notes


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationTable(AnnotationReader):
    """Annotations that are in memory, such as those of COCO or of a folder of masks.

    Attributes:
      table: A row per image.
      faults: {row: problem of its annotations}.
    """

    table: pa.RecordBatch
    faults: Mapping[int, str] = dataclasses.field(default_factory=dict)

    @property
    def fields(self) -> pa.Schema:
        return self.table.schema

    def read(self, which: Indices) -> Annotated:
        faults = {n: self.faults[i] for n, i in enumerate(which.tolist()) if i in self.faults}
        return Annotated(columns=self.table.take(pa.array(which)), faults=faults)
