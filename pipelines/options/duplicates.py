"""Options on records of equal content."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options.declaration import Group, option

if TYPE_CHECKING:
    from recordmill.transforms.model.same_content import SameContent

DUPLICATES = Group(24, "Duplicates")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicateConfig:
    """Handling of records of equal content, in the input or in another dataset."""

    dedup: Literal["none", "drop", "group"] = option(
        "none",
        group=DUPLICATES,
        shapes_bytes=True,
        help="Handling of records of equal content. drop: keep one of them, rather of another split"
        " than train; if their labels differ, drop all of them, unless --conflicts first. group:"
        " keep all of them, in the same split.",
    )
    exclude_like: tuple[str, ...] = option(
        (),
        group=DUPLICATES,
        parse=tuple,
        repeat=True,
        metavar="DATASET",
        help="Leave out records that have the same content as a record of this dataset, such as the"
        " test set of a benchmark; duplicates.jsonl lists them. May be repeated.",
    )

    def _check_duplicates(self, group_column: str | None) -> None:
        if self.dedup == "group" and group_column is not None:
            raise ConfigError(
                "--dedup group: cannot be combined with --group-column, because a record has one"
                " group: leave one of them out, or use --dedup drop"
            )

    @property
    def needs_content(self) -> bool:
        """True if contents must be known before splits are assigned."""
        return self.dedup != "none" or bool(self.exclude_like)

    @property
    def same_content(self) -> SameContent | None:
        """The rule by which records are duplicates; None without --dedup."""
        if self.dedup == "none":
            return None
        from recordmill.transforms.model.same_content import SameContent  # it takes 0.1 s

        return SameContent(mode=self.dedup)
