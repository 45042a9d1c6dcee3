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
from recordmill.option_names import option_name
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.annotations import BOX_FIELDS, CLASS, OBJECTS, grouped
from recordmill.transforms.model.label_lists import held
from recordmill.transforms.model.label_rules import LabelRules, alike_classes
from recordmill.transforms.model.label_sets import (
    ImageClass,
    LabelCounts,
    LabelSet,
    largest,
    rarest,
    sets_of,
    strata,
)
from recordmill.transforms.model.named_classes import NameCheck, check_rules
from recordmill.transforms.model.ragged import list_array
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
    labels: rules that rename classes of objects, or leave objects out.
    """

    without_boxes: WithoutBoxes = "keep"
    classes: tuple[str, ...] | None = None
    image_class: ImageClass | None = None
    with_classes: bool = False
    stratum_size: int | None = None
    labels: LabelRules = LabelRules()  # noqa: RUF009, it is frozen

    def __post_init__(self) -> None:
        if self.without_boxes not in get_args(WithoutBoxes):
            raise ConfigError(
                f"{option_name('without_boxes')}: expected one of"
                f" {', '.join(get_args(WithoutBoxes))}, got {self.without_boxes!r}"
            )

    @property
    def need_counts(self) -> bool:
        """True if all objects have to be counted before the first row is labelled."""
        return self.image_class == "rarest" or self.stratum_size is not None


class ObjectLabels:
    """Labels images and their objects by rules, in one scan of a source.

    An object that is left out loses its class, and is dropped by the encoder: masks and objects
    stay in the same order until then.
    """

    def __init__(self, rules: ObjectRules) -> None:
        self._rules = rules
        self._allowed = None
        if rules.classes is not None:
            new, _ = rules.labels.outcomes(pa.array(rules.classes, pa.string()))
            self._allowed = tuple(dict.fromkeys(name for name in new if name is not None))
        self._counts = LabelCounts()
        self._strata: Mapping[LabelSet, str] | None = None
        self._repeated = 0
        self._of_repeated = ""
        self._olds: set[str] = set()
        self._labelled: Literal["box", "image"] = "box"

    def count(self, columns: pa.RecordBatch) -> None:
        """Count the classes and label sets of images, before any is labelled."""
        self._counts.add(sets_of(_without_left_out(self._renamed(columns))))

    def end_count(self) -> None:
        """Form the strata, if splits are stratified."""
        if self._rules.stratum_size is not None:
            by_set = {(): 0, **self._counts.by_set}
            self._strata = strata(by_set, least=self._rules.stratum_size)

    def faults(self, columns: pa.RecordBatch) -> dict[int, str]:
        """Return the images with an object of a class that is not allowed, as {row: why}."""
        if self._allowed is None or OBJECTS not in columns.schema.names:
            return {}
        objects = self._renamed(columns)[OBJECTS]
        names = objects.flatten().field(CLASS)
        allowed = pa.array([*self._allowed, None], pa.string())
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
        for name in {batch.LABEL, batch.LABELS}.intersection(columns.schema.names):
            rows = batch.set_column(rows, name, columns[name])  # replaces labels of folders
            columns = columns.drop_columns([name])
        if has_objects:
            columns = self._renamed(columns)
            left = _without_left_out(columns)
            self._count_repeated(rows[batch.KEY], columns[OBJECTS])
            if batch.LABELS in rows.schema.names:
                rows = rows.drop_columns([batch.LABELS])
            for name, values in self._classify(left).items():  # replaces labels of folders
                rows = batch.set_column(rows, name, values)
        joined = pa.record_batch(
            [*rows.columns, *columns.columns], schema=pa.schema([*rows.schema, *columns.schema])
        )
        if not has_objects:  # captions: the rules are for the labels of images
            self._labelled = "image"
            self._olds.update(held(joined).unique().to_pylist())
            selected = self._rules.labels.apply(joined)
            joined = selected.rows
            yield ListingPart(rejects=selected.rejects, filtered=selected.filtered)
        elif self._rules.without_boxes == "drop":
            some = pc.greater(pc.list_value_length(left[OBJECTS]), 0)
            dropped = len(joined) - pc.sum(some).as_py() if len(joined) else 0
            joined = joined.filter(some)
            if dropped:
                yield ListingPart(filtered={"without-boxes": dropped})
        parts = max(-(-joined.nbytes // limits.PART_BYTES), 1)
        step = max(-(-len(joined) // parts), 1)
        for start in range(0, len(joined), step):
            yield ListingPart(rows=joined.slice(start, step))

    def classes(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the classes in the order of their numbers, with their new names.

        found: those of the annotations. Call it after the scan.

        Raises:
          ConfigError: an option names a class that no object has.
        """
        rules = self._rules.labels
        for check in self._checks():
            if check.problem is not None:
                raise ConfigError(check.problem)
        new, why = rules.outcomes(pa.array(found, pa.string()))
        kept = (name for name, reason in zip(new, why, strict=True) if reason is None)
        return self._allowed or tuple(dict.fromkeys(name for name in kept if name is not None))

    def notes(self, where: str) -> Iterator[Note]:
        """Yield notes on repeated boxes and on the names of classes. where: of the annotations."""
        if self._repeated:
            repeats = f"{count_of(self._repeated, 'box', 'boxes')} in {where}"
            repeats += f" {'repeats' if self._repeated == 1 else 'repeat'} a box of the same class"
            are = "is" if self._repeated == 1 else "are"
            repeats += f" and image, such as in {self._of_repeated!r}, and {are} kept"
            yield Note("annotations", repeats)
        rules, found = self._rules.labels, pa.array(sorted(self._olds), pa.string())
        new, why = rules.outcomes(found)
        kept = {name for name, reason in zip(new, why, strict=True) if reason is None}
        if self._labelled == "box":  # for classes of images there is a note anyway
            yield from alike_classes(sorted(name for name in kept if name is not None))
        yield from (check.note for check in self._checks() if check.note is not None)

    def _checks(self) -> list[NameCheck]:
        """Return the checks of the classes that options name."""
        rules = self._rules.labels
        return check_rules(rules, "", self._olds, noun=self._labelled)

    def _renamed(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return annotations with the new classes of objects, null for those left out."""
        objects = columns[OBJECTS]
        boxes = objects.flatten()
        codes, names = batch.encode(boxes.field(CLASS))
        self._olds.update(names.to_pylist())
        new, why = self._rules.labels.outcomes(names)
        kept = [name if reason is None else None for name, reason in zip(new, why, strict=True)]
        if kept == names.to_pylist():
            return columns
        fields = [*boxes.type]
        arrays = [boxes.field(number) for number in range(len(fields))]
        arrays[boxes.type.get_field_index(CLASS)] = batch.decode(codes, kept)
        renamed = pa.StructArray.from_arrays(arrays, fields=fields)
        lengths = np.asarray(pc.list_value_length(objects)).astype(np.int64)
        return batch.set_column(columns, OBJECTS, list_array(renamed, offsets_of(lengths)))

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


def _without_left_out(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Return annotations without the objects that have no class."""
    objects = columns[OBJECTS]
    boxes = objects.flatten()
    if not boxes.field(CLASS).null_count:
        return columns
    kept = boxes.field(CLASS).is_valid()
    rows = np.asarray(pc.list_parent_indices(objects)).astype(np.int64)[np.asarray(kept)]
    lists = grouped(boxes.filter(kept), rows, len(objects))
    return batch.set_column(columns, OBJECTS, lists)
