"""The rules of --dedup and --near-duplicates for a data type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options.duplicates import DuplicateConfig
from recordmill.transforms.model.data_type import DataType, NearDuplicates
from recordmill.transforms.model.same_content import SameContent
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.sources.rows.record_columns import TEXT
from recordmill.transforms.sources.rows.record_layout import RowLayout

if TYPE_CHECKING:
    from recordmill.pipelines.options.config import CommonConfig

_DEFAULTS = {"distance": 4, "similarity": 0.8}
_RECORDS = {"distance": "images and clips", "similarity": "texts"}


def check_rules(config: DuplicateConfig, data_type: DataType) -> None:
    """Raise ConfigError if the data type has no rule for an option that is given."""
    for option, rule in (("dedup", data_type.duplicates), ("near-duplicates", data_type.near)):
        if rule is None and getattr(config, option.replace("-", "_")) != "none":
            raise ConfigError(f"--{option}: {data_type.name} has no rule to compare records by")


def same_content(config: DuplicateConfig) -> SameContent | None:
    """Return the rule by which records are duplicates; None without --dedup."""
    return None if config.dedup == "none" else SameContent(mode=config.dedup)


def near_duplicates(
    config: DuplicateConfig, measure: Literal["distance", "similarity"]
) -> NearDuplicates | None:
    """Return the rule by which records are near duplicates; None without --near-duplicates.

    measure: the one by which records of the data type are compared.

    Raises:
      ConfigError: the option of the other measure is given.
    """
    [other] = _DEFAULTS.keys() - {measure}
    if getattr(config, f"near_{other}") is not None:
        raise ConfigError(
            f"--near-{other} is for {_RECORDS[other]}: use --near-{measure} for {_RECORDS[measure]}"
        )
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
    parts = data_type.windows is not None or data_type.chunker is not None
    if parts or not isinstance(rows, RowLayout) or getattr(config, "pack", None) is not None:
        return ()
    others = (rows.roles.weight, rows.roles.target)
    names = [field.name for field in user_fields(rows.columns) if field.name not in others]
    return tuple(sorted(names, key=lambda name: name == TEXT and data_type.name == "text"))
