"""The rules of --dedup and --near-duplicates for a data type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from recordmill.errors import ConfigError
from recordmill.notes import FAILABLE
from recordmill.options.declaration import value_of
from recordmill.pipelines.options.common.duplicates import DuplicateConfig
from recordmill.transforms.model.data_type import DataType, NearDuplicates
from recordmill.transforms.model.same_content import SameContent
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.sources.rows.columns.record_columns import TEXT
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout

if TYPE_CHECKING:
    from recordmill.pipelines.options.common.config import CommonConfig

_DEFAULTS = {"distance": 4, "similarity": 0.8}


def check_rules(config: CommonConfig, data_type: DataType) -> None:
    """Raise ConfigError if the data type has no rule for an option that is given."""
    for option, rule in (("dedup", data_type.duplicates), ("near-duplicates", data_type.near)):
        if rule is None and getattr(config, option.replace("-", "_")) != "none":
            raise ConfigError(f"--{option}: {data_type.name} has no rule to compare records by")
    _check_fail_on(config, data_type)


def _not_compared(config: CommonConfig, data_type: DataType) -> str | None:
    """Return the plural noun of records whose contents have no hashes; None for others."""
    if data_type.windows is not None:
        return "windows"
    if data_type.chunker is not None:
        return "chunks"
    return None if value_of(config, "pack") is None else "packed texts"


def _check_fail_on(config: CommonConfig, data_type: DataType) -> None:
    """Raise ConfigError for notes of --fail-on that this run cannot have.

    `all` stands for the notes that it can have.
    """
    if not config.fail_on or config.fail_on == FAILABLE:
        return
    why = None
    if config.dry_run:
        why = "--dry-run does not compare the contents of records: leave one of them out"
    elif (unit := _not_compared(config, data_type)) is not None:
        why = f"the contents of {unit} are not compared, so there is no such note: leave it out"
    for code, problem in (
        ("leak", why),
        ("conflict", why),
        (
            "near-duplicates",
            "similar records are found only with --near-duplicates: add it"
            if config.near_duplicates == "none"
            else None,
        ),
    ):
        if code in config.fail_on and problem is not None:
            raise ConfigError(f"--fail-on {code}: {problem}")


def same_content(config: DuplicateConfig) -> SameContent | None:
    """Return the rule by which records are duplicates; None without --dedup."""
    return None if config.dedup == "none" else SameContent(mode=config.dedup)


def near_duplicates(
    config: DuplicateConfig, measure: Literal["distance", "similarity"]
) -> NearDuplicates | None:
    """Return the rule by which records are near duplicates; None without --near-duplicates.

    measure: the one by which records of the data type are compared.
    """
    if config.near_duplicates == "none":
        return None
    given = getattr(config, f"near_{measure}")
    limit = _DEFAULTS[measure] if given is None else given
    if measure == "distance":
        return NearDuplicates(mode=config.near_duplicates, distance=int(limit))
    return NearDuplicates(mode=config.near_duplicates, similarity=limit)


def compared_columns(config: CommonConfig, data_type: DataType, rows: Layout) -> tuple[str, ...]:
    """Return the columns whose values are the content of records; none if records are no rows.

    They are those that `RecordRows.content_hashes` hashes. The column of texts is the last.
    """
    if _not_compared(config, data_type) is not None or not isinstance(rows, RowLayout):
        return ()
    others = (rows.roles.weight, rows.roles.target)
    names = [field.name for field in user_fields(rows.columns) if field.name not in others]
    return tuple(sorted(names, key=lambda name: name == TEXT and data_type.name == "text"))
