"""The ledger of a dataset: how many inputs, records and copies were read, written or left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from recordmill.format.typed_json import Count, Presence, StatedCount
from recordmill.option_checks import Between


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputCounts:
    """Numbers of listed inputs (files or rows): listed = read + rejected + filtered.

    read: inputs that the listing accepted.
    rejected: inputs that it could not use.
    filtered: files that their name excludes, such as hidden ones.
    """

    read: StatedCount = 0
    rejected: StatedCount = 0
    filtered: StatedCount = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordCounts:
    """Numbers of records without copies: made = written + rejected + filtered + dropped.

    dropped: records removed by undersampling.
    """

    made: StatedCount = 0
    written: StatedCount = 0
    rejected: StatedCount = 0
    filtered: StatedCount = 0
    dropped: StatedCount = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class CopyCounts:
    """Numbers of oversampled copies: planned = written + rejected.

    rejected: copies of records that were rejected or filtered while they were written.
    """

    planned: StatedCount = 0
    written: StatedCount = 0
    rejected: StatedCount = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectCounts:
    """Numbers of objects, such as boxes, in written records and copies: made = written + dropped.

    dropped: the sum of those below, which manifests of earlier versions lack.
    class_left_out: boxes of classes that `--label-map`, `--include-labels` or `--exclude-labels`
      leave out.
    no_area: boxes whose width or height is 0 in the annotations.
    outside: boxes of which nothing is inside the written image.
    too_small: boxes below `--min-box`.
    crossing: boxes that cross the edge, with `--boxes drop`.
    augmented: boxes that only an augmentation made small or moved out of the image.
    """

    made: StatedCount = 0
    written: StatedCount = 0
    dropped: StatedCount = 0
    class_left_out: Count = 0
    no_area: Count = 0
    outside: Count = 0
    too_small: Count = 0
    crossing: Count = 0
    augmented: Count = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilterReasons:
    """Numbers of filtered inputs and records by reason, such as an option."""

    inputs: Annotated[Mapping[str, Count], Presence.REQUIRED] = dataclasses.field(
        default_factory=dict
    )
    records: Annotated[Mapping[str, Count], Presence.REQUIRED] = dataclasses.field(
        default_factory=dict
    )


INPUT = "input"
WINDOW = "window"  # the unit of `recordmill sensor`
_QUARTER = 1 << 14  # of the levels of 16 bits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ledger:
    """Account of every input, record and copy of a run.

    unit: what one record stands for: `input`, or a part of one, such as a chunk; only with `input`
      the number of records equals the number of inputs.
    packs: records of the dataset, if several counted records are packed into one; otherwise None.
    objects: counts of objects, if records have any; otherwise None.
    filtered: the reasons for filtered inputs and records; None in manifests of earlier versions.
    """

    inputs: InputCounts
    records: RecordCounts
    copies: CopyCounts
    unit: str = INPUT
    packs: Count | None = None
    objects: ObjectCounts | None = None
    filtered: FilterReasons | None = None

    def open_items(self) -> list[str]:
        """Return a sentence for every sum that does not add up; empty if nothing was lost."""
        records, copies = self.records, self.copies
        items = []
        if self.unit == INPUT and self.inputs.read != records.made:
            items.append(
                f"{self.inputs.read} inputs were read, but {records.made} records were made of them"
            )
        accounted = records.written + records.rejected + records.filtered + records.dropped
        if records.made != accounted:
            items.append(
                f"{records.made} records were made, but {accounted} are accounted for"
                f" ({records.written} written, {records.rejected} rejected,"
                f" {records.filtered} filtered, {records.dropped} dropped)"
            )
        accounted = copies.written + copies.rejected
        if copies.planned != accounted:
            items.append(
                f"{copies.planned} copies were planned, but {accounted} are accounted for"
                f" ({copies.written} written, {copies.rejected} rejected)"
            )
        objects = self.objects
        if objects is not None and objects.made != objects.written + objects.dropped:
            items.append(
                f"{objects.made} objects were made, but {objects.written + objects.dropped} are"
                f" accounted for ({objects.written} written, {objects.dropped} dropped)"
            )
        return items

    def to_json(self) -> dict[str, Any]:
        """Return the ledger as it is stored in dataset.json."""
        found = dataclasses.asdict(self)
        for name in ("objects", "filtered"):
            if getattr(self, name) is None:
                del found[name]
        return found


Level = Annotated[int, Between(0, (1 << 16) - 1)]
Bits = Annotated[int, Between(1, 64)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reduced:
    """Records, without copies, with images of more bits per channel than were read.

    key: the smallest of their keys.
    narrow: records among them that use less than a quarter of the range of their type.
    highest: the highest level in images of those, scaled to 0 to 65535.
    bits: bits per channel of the written images.
    """

    records: Count = 0
    key: str = ""
    narrow: Count = 0
    highest: Level = 0
    bits: Bits = 8

    @classmethod
    def one(cls, key: str, highest: int, bits: int) -> Reduced:
        """Return the counts of one record."""
        is_narrow = highest < _QUARTER
        highest = highest if is_narrow else 0
        return cls(records=1, key=key, narrow=int(is_narrow), highest=highest, bits=bits)

    def plus(self, other: Reduced) -> Reduced:
        """Return the sum."""
        if not self.records or not other.records:
            return other if other.records else self
        return Reduced(
            records=self.records + other.records,
            key=min(self.key, other.key),
            narrow=self.narrow + other.narrow,
            highest=max(self.highest, other.highest),
            bits=self.bits,
        )


# Findings on an image, for notes: bands were not read or have an unknown meaning, levels of HDR
# were not mapped to SDR, further pages or frames were not read, --intensity-window does not apply
# to it or reaches beyond its 8 bits, or boxes reach beyond it (boxes are counted). For audio:
# samples are far beyond the full scale.
Noted = Literal[
    "damaged_image",
    "unread_bands",
    "unknown_band",
    "high_range",
    "pages",
    "window_unused",
    "window_beyond",
    "boxes_beyond",
    "samples_beyond",
]

# {reason: (number of records or objects, smallest key of a record with one)}
Counted = Mapping[str, tuple[Count, str]]


def add_counted(one: Counted, other: Counted) -> dict[str, tuple[int, str]]:
    """Return the sum of two counts, with the smaller of their keys."""
    found = dict(one)
    for reason, (count, key) in other.items():
        known = found.get(reason, (0, key))
        found[reason] = (known[0] + count, min(known[1], key))
    return found
