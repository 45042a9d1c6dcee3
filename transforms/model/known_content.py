"""Contents of other datasets: records that equal one of them are left out."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.content_hashes import find_halves, hash_halves
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.left_out import LeftOut, left_out_lines
from recordmill.transforms.near_duplicates.known_hashes import KnownHashes
from recordmill.transforms.staged.mapped_files import map_array

OPTION = "exclude-like"  # the option that filters known contents
SIMILAR = "similar to exclude-like"  # reason in duplicates.jsonl, beside the option itself


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownContents:
    """The contents of the records of other datasets, as a file of hashes.

    place: the file in staging. It holds the halves of the contents as uint64[n, 2], in ascending
      order, each once.
    similar: hashes of the same records for near duplicates; None if these are not compared.
    """

    place: Location
    similar: KnownHashes | None = None

    def contains(self, hashes: pa.Array) -> npt.NDArray[np.bool_]:
        """Return whether each content is known: bool[n]. hashes: binary(16)[n]."""
        known = _load(self.place)
        return find_halves(hash_halves(hashes), known[:, 0], known[:, 1]) >= 0


def without_known(
    rows: pa.RecordBatch, known: KnownContents | None
) -> tuple[pa.RecordBatch, list[LeftOut]]:
    """Leave out the rows of known content, and the rows that resemble known records.

    Returns:
      The other rows, and a line of duplicates.jsonl for each row that was left out.
    """
    if known is None or not len(rows):
        return rows, []
    if batch.CONTENT not in rows.schema.names:
        raise ConfigError(
            f"{option_name('exclude_like')}: the source does not give the content of records"
        )
    equal = known.contains(rows[batch.CONTENT])
    lines = left_out_lines(rows.filter(pa.array(equal)), OPTION) if equal.any() else []
    if equal.any():
        rows = rows.filter(pa.array(~equal))
    if known.similar is None:
        return rows, lines
    found = known.similar.most_similar(rows[batch.NEAR])
    similar = np.zeros(len(rows), np.bool_)
    similar[found.rows] = True
    more = left_out_lines(rows.filter(pa.array(similar)), SIMILAR)
    pairs = zip(more, found.keys.to_pylist(), found.measures.tolist(), strict=True)
    measure = known.similar.bands.measure
    lines += [{**line, "like": key, measure: round(value, 4)} for line, key, value in pairs]
    return rows.filter(pa.array(~similar)), lines


@functools.lru_cache(maxsize=1)
def _load(place: Location) -> npt.NDArray[np.uint64]:
    return map_array(place, "<u8").reshape(-1, 2)
