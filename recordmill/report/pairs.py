"""Finds the records of near_duplicates.jsonl in the dataset, for pairs side by side."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.content_report import NEAR_DUPLICATES
from recordmill.format.manifest import Manifest
from recordmill.format.split_indexes import split_indexes
from recordmill.format.split_names import in_order
from recordmill.format.typed_json import damage_of, parse_json, read_as
from recordmill.storage.files import Location

_PAIRS = 12  # that are shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two similar records of the file near_duplicates.jsonl.

    places: {key: (split, record number)} of those that are in the dataset.
    measure: text of their distance or similarity.
    """

    keys: tuple[str, str]
    measure: str
    places: dict[str, tuple[str, int]]


def similar_pairs(dataset: Location, manifest: Manifest) -> list[Pair]:
    """Return the first pairs of similar records; empty if the dataset has none.

    Raises:
      DamageError, StorageError: a file is damaged, or cannot be read.
    """
    if NEAR_DUPLICATES not in manifest.files:
        return []
    with (dataset / NEAR_DUPLICATES).open_input() as file:
        found = []
        for number, line in enumerate(itertools.islice(file, _PAIRS), start=1):
            with damage_of(NEAR_DUPLICATES, line=number):
                found.append(_pair(read_as(_StoredPair, parse_json(line))))
    places = dict(_places(dataset, manifest, sorted({key for keys, _ in found for key in keys})))
    return [
        Pair(
            keys=keys,
            measure=measure,
            places={key: places[key] for key in keys if key in places},
        )
        for keys, measure in found
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredPair:
    """A line of near_duplicates.jsonl."""

    keys: tuple[str, str]
    distance: int | float | None = None
    similarity: int | float | None = None


def _pair(line: _StoredPair) -> tuple[tuple[str, str], str]:
    """Return the keys of a line, and their distance or similarity."""
    measures = {"distance": line.distance, "similarity": line.similarity}
    texts = [f"{name} {value}" for name, value in measures.items() if value is not None]
    return line.keys, ", ".join(texts)


def _places(
    dataset: Location, manifest: Manifest, keys: Sequence[str]
) -> Iterator[tuple[str, tuple[str, int]]]:
    wanted = pa.array(keys, pa.string())
    for split in in_order(manifest.splits):
        info = manifest.splits[split]
        for first, index in split_indexes(dataset, split, info, columns=["key", "copy"]):
            found = pc.and_(pc.equal(index["copy"], 0), pc.is_in(index["key"], wanted))
            for row in np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist():
                yield index["key"][row].as_py(), (split, first + row)
