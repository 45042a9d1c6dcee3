"""Source of records of images with their objects and masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import Note
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import MASK_COLUMNS, OBJECTS
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.annotations.annotated_files import AnnotatedRows, Unannotated
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

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    def scan(self) -> Iterator[ListingPart]:
        """Yield the records; objects are counted in a pass before if the rules need it.

        Raises:
          ConfigError: as `TfrecordMedia.scan`.
        """
        found = ObjectLabels(self.rules if self.pixels.has_objects else ObjectRules())
        mask_notes: list[Note] = []
        facts = NO_FACTS
        if self.rules.need_counts and self.pixels.has_objects:
            for part in self.files.scan():
                if part.rows is not None:
                    found.count(part.rows)
            found.end_count()
        is_checked = self.masks is None
        for part in self.files.scan():
            yield dataclasses.replace(part, rows=None)
            facts = facts.plus(part.facts)
            if part.rows is not None:
                is_checked = is_checked or self._check_masks(part.rows, mask_notes)
                yield from self._join(part.rows, found)
        labels = found.classes([*facts.class_numbers]) if self.pixels.has_objects else None
        notes = (*found.notes("the records"), *mask_notes)
        yield ListingPart(notes=notes, facts=InputFacts(labels=labels))

    def _check_masks(self, rows: pa.RecordBatch, notes: list[Note]) -> bool:
        """Check the first masks of rows, and return whether there are any.

        Args:
          rows: Rows with masks, or null.
          notes: List to which notes on the masks are added.

        Raises:
          ConfigError: The masks do not fit the options.
        """
        # Commands without masks import this module, too, and need no image decoders.
        from recordmill.transforms.sources.annotations.mask_sample import SAMPLED, check_mask_sample

        assert self.masks is not None
        some = rows.filter(rows[_MASK].is_valid()).slice(0, SAMPLED)
        keys, found = some[batch.KEY].to_pylist(), some.select(MASK_COLUMNS.names)
        where = str(self.files.input)
        notes += check_mask_sample(keys, found, self.masks, self.limits, where=where)
        return len(some) > 0

    def _join(self, rows: pa.RecordBatch, labels: ObjectLabels) -> Iterator[ListingPart]:
        names = rows.schema.names
        held = [OBJECTS if OBJECTS in names else _MASK]
        blank = rows[_MASK].is_null() if _MASK in names else np.zeros(len(rows), np.bool_)
        found = AnnotatedRows(rows.drop_columns(held), rows.select(held), blank=np.asarray(blank))
        text = f"no mask in feature {self.pixels.class_mask!r}"
        return found.parts(labels, self.unmasked, lambda _: text, keep="--unmasked")
