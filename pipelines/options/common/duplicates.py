"""Options on records of equal content."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import Group, option

DUPLICATES = Group(24, "Duplicates", shapes_bytes=True)

_MOST_BITS = 12
_LEAST_SIMILAR = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicateConfig:
    """Handling of records of equal content, in the input or in another dataset."""

    HEADING: ClassVar[Group] = DUPLICATES

    dedup: Literal["none", "drop", "group"] = option(
        "none",
        help="Handling of records of equal content. drop: keep one of them, the one of train only"
        " if all are in train; if their labels differ, drop all, unless --conflicts first. group:"
        " keep all of them, in the same split.",
    )
    conflicts: Literal["reject", "first", "error"] = option(
        "reject",
        help="If rows of a listing, or rows with --key-column, differ but have the same key: reject"
        " all of them, keep the first, or stop with an error. Equal rows count once. With --dedup"
        " drop, first also keeps one of equal records with several labels.",
    )
    exclude_like: tuple[str, ...] = option(
        (),
        shapes_bytes=False,
        parse=values.each(str),
        repeat=True,
        metavar="DATASET",
        help="Leave out records that have the same content as a record of this dataset, such as the"
        " test set of a benchmark; with --near-duplicates also similar ones. duplicates.jsonl lists"
        " them. May be repeated.",
    )

    near_duplicates: Literal["none", "drop", "group"] = option(
        "none",
        help="Handling of images, clips or texts of similar content, as --dedup handles equal ones."
        " near_duplicates.jsonl lists the pairs.",
    )
    near_distance: int | None = option(
        None,
        metavar="BITS",
        help="Images or clips are similar if their 64-bit perceptual hashes differ in at most this"
        " many bits, 0 to 12. Default: 4.",
    )
    near_similarity: float | None = option(
        None,
        help="Texts are similar if they share this fraction of their word 5-grams, 0.5 to 1, as"
        " estimated by MinHash. Default: 0.8.",
    )

    def _check_duplicates(self) -> None:
        if not 0 <= (self.near_distance or 0) <= _MOST_BITS:
            raise ConfigError(
                f"--near-distance: expected 0 to {_MOST_BITS} bits, got {self.near_distance}"
            )
        if not _LEAST_SIMILAR <= (1 if self.near_similarity is None else self.near_similarity) <= 1:
            raise ConfigError(
                f"--near-similarity: expected {_LEAST_SIMILAR} to 1, got {self.near_similarity:g}"
            )

    @property
    def needs_content(self) -> bool:
        """True if contents must be known before splits are assigned."""
        return self.dedup != "none" or self.near_duplicates != "none" or bool(self.exclude_like)
