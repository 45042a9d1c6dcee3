"""Classes of images by the classes of their objects, for rows with a column of objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.notes import Note, count_of
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.annotations import BOX_FIELDS, CLASS, OBJECTS
from recordmill.transforms.model.label_sets import (
    ImageClass,
    LabelCounts,
    LabelSet,
    largest,
    rarest,
    sets_of,
    strata,
)
from recordmill.transforms.model.source import ListingPart

WithoutBoxes = Literal["keep", "drop"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectRules:
    """Rules for images with objects.

    without_boxes: whether to keep or drop images without objects.
    classes: allowed classes in the order of their numbers; by default those of the objects.
    image_class: which class of its objects becomes the class of an image.
    with_classes: whether rows list all classes of an image, if its class is the rarest.
    stratum_size: minimum number of images of a stratum; None if splits are not stratified.
    """

    without_boxes: WithoutBoxes = "keep"
    classes: tuple[str, ...] | None = None
    image_class: ImageClass | None = None
    with_classes: bool = False
    stratum_size: int | None = None

    def __post_init__(self) -> None:
        if self.without_boxes not in get_args(WithoutBoxes):
            raise ConfigError(
                f"--without-boxes: expected one of {', '.join(get_args(WithoutBoxes))}, got"
                f" {self.without_boxes!r}"
            )

    @property
    def need_counts(self) -> bool:
        """True if all objects have to be counted before the first row is labelled."""
        return self.image_class == "rarest" or self.stratum_size is not None


class ObjectLabels:
    """Labels images by rules, in one scan of a source."""

    def __init__(self, rules: ObjectRules) -> None:
        self._rules = rules
        self._counts = LabelCounts()
        self._strata: Mapping[LabelSet, str] | None = None
        self._repeated = 0
        self._of_repeated = ""

    def count(self, columns: pa.RecordBatch) -> None:
        """Count the classes and label sets of images, before any is labelled."""
        self._counts.add(sets_of(columns))

    def end_count(self) -> None:
        """Form the strata, if splits are stratified."""
        if self._rules.stratum_size is not None:
            by_set = {(): 0, **self._counts.by_set}
            self._strata = strata(by_set, least=self._rules.stratum_size)

    def faults(self, columns: pa.RecordBatch) -> dict[int, str]:
        """Return the images with an object of a class that is not allowed, as {row: why}."""
        if self._rules.classes is None or OBJECTS not in columns.schema.names:
            return {}
        objects = columns[OBJECTS]
        names = objects.flatten().field(CLASS)
        allowed = pa.array(self._rules.classes, pa.string())
        strange = pc.invert(pc.is_in(names, value_set=allowed))
        rows = np.asarray(pc.list_parent_indices(objects))
        return {
            int(rows[at]): f"an object of class {names[at].as_py()!r}, which is not in the labels"
            " file"
            for at in np.flatnonzero(np.asarray(strange)).tolist()
        }

    def finish(self, rows: pa.RecordBatch, columns: pa.RecordBatch) -> Iterator[ListingPart]:
        """Yield rows with their annotations, in parts of about `limits.PART_BYTES`.

        columns: annotations, with or without objects.
        """
        has_objects = OBJECTS in columns.schema.names
        if has_objects:
            self._count_repeated(rows[batch.KEY], columns[OBJECTS])
            if batch.LABELS in rows.schema.names:
                rows = rows.drop_columns([batch.LABELS])
            for name, values in self._classify(columns).items():  # replaces labels of folders
                rows = batch.set_column(rows, name, values)
        joined = pa.record_batch(
            [*rows.columns, *columns.columns], schema=pa.schema([*rows.schema, *columns.schema])
        )
        if self._rules.without_boxes == "drop" and has_objects:
            some = pc.greater(pc.list_value_length(columns[OBJECTS]), 0)
            dropped = len(joined) - pc.sum(some).as_py() if len(joined) else 0
            joined = joined.filter(some)
            if dropped:
                yield ListingPart(filtered={"without-boxes": dropped})
        parts = max(-(-joined.nbytes // limits.PART_BYTES), 1)
        step = max(-(-len(joined) // parts), 1)
        for start in range(0, len(joined), step):
            yield ListingPart(rows=joined.slice(start, step))

    def notes(self, where: str) -> tuple[Note, ...]:
        """Return a note if boxes are repeated. where: name of the annotations."""
        if not self._repeated:
            return ()
        repeats = f"{count_of(self._repeated, 'box', 'boxes')} in {where}"
        repeats += f" {'repeats' if self._repeated == 1 else 'repeat'} a box of the same class and"
        repeats += f" image, such as in {self._of_repeated!r}, and are kept"
        return (Note("annotations", repeats),)

    def _count_repeated(self, keys: pa.Array, objects: pa.ListArray) -> None:
        """Count the boxes that repeat a box of the same class in their image."""
        boxes, images = objects.flatten(), pc.list_parent_indices(objects)
        columns = [boxes.field(number) for number in range(len(BOX_FIELDS))]
        table = pa.table([images, *columns], ["image", *(field.name for field in BOX_FIELDS)])
        same = table.group_by(table.column_names).aggregate([([], "count_all")])
        several = same.filter(pc.greater(same["count_all"], 1))
        if len(several):
            self._repeated += pc.sum(several["count_all"]).as_py() - len(several)
            name = keys[pc.min(several["image"]).as_py()].as_py()
            self._of_repeated = self._of_repeated or name

    def _classify(self, columns: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns for the classes of images: the label, nullable string[n].

        With rules, also all classes of each image and its stratum.
        """
        rules = self._rules
        labels: Sequence[str | None] = [None] * len(columns)
        if rules.image_class == "largest":
            labels = largest(columns)
        if not rules.need_counts:
            return {batch.LABEL: pa.array(labels, pa.string())}
        sets = sets_of(columns)
        if rules.image_class == "rarest":
            labels = rarest(sets, self._counts)
        found = {batch.LABEL: pa.array(labels, pa.string())}
        if rules.with_classes and rules.image_class == "rarest":
            found[batch.CLASSES] = pa.array(sets, pa.list_(pa.string()))
        if self._strata is not None:
            strata_of = [self._strata[one] for one in sets]
            found[batch.STRATUM] = pa.array(strata_of, pa.string())
        return found
