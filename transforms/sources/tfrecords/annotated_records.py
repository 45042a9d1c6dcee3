"""Source of records of images with their objects and masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, Reject
from recordmill.notes import Note
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import MASK_COLUMNS, OBJECTS
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.annotations.annotated_files import Unannotated
from recordmill.transforms.sources.annotations.object_labels import ObjectLabels, ObjectRules
from recordmill.transforms.sources.tfrecords.pixel_features import PixelFeatures
from recordmill.transforms.sources.tfrecords.tfrecord_media import TfrecordMedia

_DEFAULT = ImageOptions()
_MASK = MASK_COLUMNS.names[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedRecords:
    """Lists the records of a source whose rows hold their annotations.

    files: source of the records. pixels: their features of annotations.
    rules: for images with objects. unmasked: whether to reject, keep or drop images without a mask,
      if others have masks. masks: how masks of other programs are read; the first are checked.
    limits: of masks, for `max_pixels`.
    """

    files: TfrecordMedia
    pixels: PixelFeatures
    rules: ObjectRules
    unmasked: Unannotated = "reject"
    masks: MaskOptions | None = None
    limits: ImageOptions = _DEFAULT
    _labels: list[ObjectLabels] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )

    _mask_notes: list[Note] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    @property
    def split_source(self) -> str | None:
        """The part of the input that names the splits, for messages; None if none does."""
        return self.files.split_source

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes of objects in the order of their numbers, None without objects."""
        if not self.pixels.has_objects:
            return None
        if not self._labels:
            return None
        return self._labels[0].classes([*self.class_numbers])

    @property
    def class_numbers(self) -> Mapping[str, int]:
        """{class: number in the input} of objects, sorted by number, or else of images."""
        if not self.pixels.has_objects:
            return self.files.class_numbers
        return self.pixels.class_numbers(self.files.class_numbers)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on repeated boxes, the names of classes and the levels of masks."""
        return (
            *(note for one in self._labels for note in one.notes("the records")),
            *self._mask_notes,
        )

    def scan(self) -> Iterator[ListingPart]:
        """Yield the records; objects are counted in a pass before if the rules need it.

        Raises:
          ConfigError: as `TfrecordMedia.scan`.
        """
        found = ObjectLabels(self.rules)
        self._labels[:] = [found]
        self._mask_notes.clear()
        if self.rules.need_counts and self.pixels.has_objects:
            for part in self.files.scan():
                if part.rows is not None:
                    found.count(part.rows)
            found.end_count()
        is_checked = self.masks is None
        for part in self.files.scan():
            yield dataclasses.replace(part, rows=None)
            if part.rows is not None:
                is_checked = is_checked or self._check_masks(part.rows)
                yield from self._finish(part.rows, found)

    def _check_masks(self, rows: pa.RecordBatch) -> bool:
        """Check the first masks of rows, and return whether there are any. Raises ConfigError."""
        # Commands without masks import this module, too: they spare the decoders of images.
        from recordmill.transforms.sources.annotations.mask_sample import SAMPLED, check_mask_sample

        assert self.masks is not None
        some = rows.filter(rows[_MASK].is_valid()).slice(0, SAMPLED)
        keys, found = some[batch.KEY].to_pylist(), some.select(MASK_COLUMNS.names)
        where = str(self.files.input)
        noted = check_mask_sample(keys, found, self.masks, self.limits, where=where)
        self._mask_notes.extend(noted)
        return len(some) > 0

    def _finish(self, rows: pa.RecordBatch, labels: ObjectLabels) -> Iterator[ListingPart]:
        names = rows.schema.names
        faults = {row: (Reason.BAD_VALUE, why) for row, why in labels.faults(rows).items()}
        dropped = 0
        keep = np.ones(len(rows), np.bool_)
        if _MASK in names and self.unmasked != "keep":
            blank = np.array(rows[_MASK].is_null())
            blank[[*faults]] = False
            if self.unmasked == "drop":
                keep &= ~blank
                dropped = int(blank.sum())
            else:
                why = f"no mask in feature {self.pixels.class_mask!r}; --unmasked keep or drop"
                why += " allows this"
                faults |= dict.fromkeys(np.flatnonzero(blank).tolist(), (Reason.UNLABELLED, why))
        keep[[*faults]] = False
        rejects = [
            Reject(rows[batch.KEY][row].as_py(), "read", *fault)
            for row, fault in sorted(faults.items())
        ]
        yield ListingPart(rejects=rejects, filtered={"unannotated": dropped} if dropped else {})
        sound = rows if keep.all() else rows.filter(pa.array(keep))
        if OBJECTS not in names:
            yield ListingPart(rows=sound)
            return
        yield from labels.finish(sound.drop_columns([OBJECTS]), sound.select([OBJECTS]))
