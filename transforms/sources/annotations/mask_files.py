"""Masks of class ids: a folder of files that are named as the images."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, Reject
from recordmill.notes import count_of
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import MASK_COLUMNS
from recordmill.transforms.sources.annotations.annotation_table import AnnotationTable
from recordmill.transforms.sources.annotations.mask_sample import check_mask_sample
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.files.other_kinds import archive_stem, is_archive
from recordmill.transforms.sources.folders.companions import MASK_FOLDERS, MASK_SUFFIXES
from recordmill.transforms.sources.folders.folders import NOT_IMAGES, FileTree

_REFERENCE = (batch.PATH, batch.SIZE, batch.MTIME)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskFolder:
    """Location of masks; calling it lists them.

    place: a folder, or an archive. suffix: end of the stem of every mask after that of its image,
        or "END=SUFFIX", if it is instead of the end of the image's; None accepts none, or a usual
        one that all masks have. among_images: the folder may be among the images. is_input: it is
        the only input, so that masks have the same keys among the images.
    options: as the masks will be decoded; a sample is checked. limits: for `max_pixels`.
    """

    place: Location
    suffix: str | None
    options: MaskOptions
    limits: ImageOptions
    among_images: bool = False
    is_input: bool = False

    def __call__(self) -> AnnotationTable:
        """List the masks.

        Raises:
          ConfigError: there are none, two have the same stem, or the options do not fit them.
        """
        if not self.place.exists():
            raise ConfigError(
                f"{option_name('masks')}: {self.place} does not exist: check the path"
            )
        if not self.place.is_dir() and not is_archive(self.place.name):
            raise ConfigError(
                f"{option_name('masks')}: expected a folder or an archive, got {self.place}"
            )
        tree = FileTree(
            input=Inputs(paths=(InputPath(str(self.place)),), split_from="none"),
            unlabelled="keep",
            leave_out=NOT_IMAGES,
            labelled=False,
        )
        rejects: list[Reject] = []
        keys: list[str] = []
        parts: list[pa.RecordBatch] = []
        try:
            for part in tree.scan():
                rejects += part.rejects
                if part.rows is not None:
                    keys += part.rows[batch.KEY].to_pylist()
                    parts.append(part.rows.select(_REFERENCE))
        except ConfigError as error:
            raise ConfigError(f"{option_name('masks')}: {error}") from error
        columns = pa.Table.from_batches(parts).combine_chunks().to_batches()
        references = pa.record_batch(columns[0].columns, schema=MASK_COLUMNS)
        names = [_stem(key) for key in keys]
        if self.suffix is not None:  # other files of the folder are no masks
            end = self.suffix.rpartition("=")[2]
            kept = [n for n, name in enumerate(names) if name.endswith(end)]
            if not kept:
                raise ConfigError(
                    f"{option_name('mask_suffix', self.suffix)}: no name in {self.place} ends in it"
                    f" before the extension; they are such as {keys[0]!r}"
                )
            keys, names = [keys[n] for n in kept], [names[n] for n in kept]
            references = references.take(pa.array(kept, pa.int64()))
        self._check_names(names, keys)
        checked = check_mask_sample(
            keys, references, self.options, self.limits, where=self.place.name
        )
        suffixes, notes = self._suffixes(names)
        tops = {name.partition("/")[0] if "/" in name else "" for name in names}
        folder = (tops.pop() or None) if len(tops) == 1 and not self.among_images else None
        usual = folder is not None and folder.lower() in MASK_FOLDERS
        return AnnotationTable(
            names=names,
            table=references,
            rejects=[self._of_mask(reject) for reject in rejects],
            suffixes=suffixes,
            folder=folder,
            folder_is_known=usual or folder == archive_stem(self.place.name),
            paths=references[0] if self.among_images else None,
            keys=frozenset(keys) if self.is_input else (),
            notes=(*notes, *checked),
        )

    def _of_mask(self, reject: Reject) -> Reject:
        return dataclasses.replace(reject, key=f"{self.place.name}/{reject.key}")

    def _suffixes(self, names: Sequence[str]) -> tuple[Sequence[tuple[str, str]], Sequence[str]]:
        if self.suffix is not None:
            own, _, end = self.suffix.rpartition("=")
            return ((own, end),), ()
        common = [one for one in MASK_SUFFIXES if all(name.endswith(one) for name in names)]
        if not common:
            return (("", ""),), ()
        note = (
            f"the names of {count_of(len(names), 'mask')} end in {common[0]!r}, which is"
            " removed to find their images"
        )
        return (("", ""), ("", common[0])), (note,)

    def _check_names(self, names: Sequence[str], keys: Sequence[str]) -> None:
        known: dict[str, str] = {}
        for name, key in zip(names, keys, strict=True):
            other = known.setdefault(name, key)
            if other != key:
                raise ConfigError(
                    f"{option_name('masks', self.place)}: {other!r} and {key!r} may both be the"
                    f" mask of an image {name!r}: remove one of them"
                )


def _stem(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    stem, dot, _ = name.rpartition(".")
    return f"{folder}{slash}{stem if stem and dot else name}"
