"""Places of rejected records, FILE#ROW, for details of rejects whose keys do not name them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

import pyarrow as pa

from recordmill.errors import Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart


def with_places(rejects: Iterable[Reject], rows: pa.RecordBatch) -> list[Reject]:
    """Return rejects of rows, with the place of the row before the detail.

    Rejects are unchanged if rows have no places in files of rows. Of rows with the same key, each
    gives its place to one reject, in order.

    rows: the rows that were processed; the key of a reject is that of a row, or KEY#NUMBER.
    """
    rejects = list(rejects)
    name = batch.SOURCE if batch.SOURCE in rows.schema.names else batch.PLACE
    if not rejects or name not in rows.schema.names:
        return rejects
    if name == batch.PLACE and rows[name].type != batch.PLACES:
        return rejects  # the offset of a member of an archive, whose path is the key
    places: dict[str, list[str]] = collections.defaultdict(list)
    of_rows = batch.place_names(rows[name]).to_pylist()
    for key, place in zip(batch.keys(rows).to_pylist(), of_rows, strict=True):
        places[key].append(place)
    given: collections.Counter[str] = collections.Counter()
    found = []
    for reject in rejects:
        key = reject.key if reject.key in places else reject.key.rpartition("#")[0]
        of_key = places.get(key, [])
        place = of_key[min(given[reject.key], len(of_key) - 1)] if of_key else None
        given[reject.key] += 1
        if place is not None and place != key:
            reject = dataclasses.replace(reject, detail=f"{place}: {reject.detail}")
        found.append(reject)
    return found


def part_with_places(part: ListingPart, rows: pa.RecordBatch) -> ListingPart:
    """Return a part of a listing that was made of rows, with places as in `with_places`."""
    return dataclasses.replace(
        part, rejects=with_places(part.rejects, rows), invalid=with_places(part.invalid, rows)
    )
