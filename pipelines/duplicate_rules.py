"""The rules of --dedup and --near-duplicates for a data type."""

from __future__ import annotations

from recordmill.errors import ConfigError
from recordmill.pipelines.options.duplicates import DuplicateConfig
from recordmill.transforms.model.data_type import NearDuplicates
from recordmill.transforms.model.same_content import SameContent

_DISTANCE, _SIMILARITY = 4, 0.8


def same_content(config: DuplicateConfig) -> SameContent | None:
    """Return the rule by which records are duplicates; None without --dedup."""
    return None if config.dedup == "none" else SameContent(mode=config.dedup)


def similar_images(config: DuplicateConfig) -> NearDuplicates | None:
    """Return the rule by which images are near duplicates; None without --near-duplicates.

    Raises:
      ConfigError: an option is for texts.
    """
    if config.near_similarity is not None:
        raise ConfigError("--near-similarity is for texts: use --near-distance for images")
    if config.near_duplicates == "none":
        return None
    given = config.near_distance
    return NearDuplicates(
        mode=config.near_duplicates, distance=_DISTANCE if given is None else given
    )


def similar_texts(config: DuplicateConfig) -> NearDuplicates | None:
    """Return the rule by which texts are near duplicates; None without --near-duplicates.

    Raises:
      ConfigError: an option is for images.
    """
    if config.near_distance is not None:
        raise ConfigError("--near-distance is for images: use --near-similarity for texts")
    if config.near_duplicates == "none":
        return None
    given = config.near_similarity
    return NearDuplicates(
        mode=config.near_duplicates, similarity=_SIMILARITY if given is None else given
    )
