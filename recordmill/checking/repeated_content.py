"""Search for contents that several records have, by the column `content` of indexes.

First only half of each hash is compared, 8 bytes per record. Only the records whose halves repeat,
which are few, are then compared one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.content_hashes import hash_halves
from recordmill.format.content_report import EXAMPLES, LISTED, ContentCounts, ContentReport

COLUMNS = ("key", "label", "copy", "content", "source")  # of an index, that are needed
_SHOWN = 10  # records of a content that its line lists

UInt64Array = npt.NDArray[np.uint64]


def content_halves(index: pa.Table) -> UInt64Array:
    """Return the first half of each hash in an index, without copies: uint64[n]."""
    if "content" not in index.column_names:
        return np.zeros(0, np.uint64)
    hashes = _originals(index)["content"].drop_null().combine_chunks()
    if isinstance(hashes, pa.ChunkedArray):  # of no chunks
        return np.zeros(0, np.uint64)
    return hash_halves(hashes)[:, 0]


def repeated_halves(halves: UInt64Array) -> UInt64Array:
    """Return the values that occur at least twice: uint64[m], sorted, each once."""
    values = np.sort(halves)
    return np.unique(values[1:][values[1:] == values[:-1]])


def records_with(index: pa.Table, halves: UInt64Array, *, split: str) -> pa.Table:
    """Return the records of an index whose hashes begin with one of these halves, without copies.

    halves: uint64[m], sorted.

    Returns:
      A table with the columns content, split, key, label and source; the source is null if the key
      names the place of the record.
    """
    if "content" not in index.column_names:
        index = index.slice(0, 0).append_column("content", pa.array([], pa.binary(16)))
    originals = _originals(index)
    originals = originals.filter(pc.is_valid(originals["content"]))
    if originals.num_rows:
        found = np.isin(hash_halves(originals["content"].combine_chunks())[:, 0], halves)
        originals = originals.filter(pa.array(found))
    columns = {
        "content": originals["content"],
        "split": pa.repeat(split, originals.num_rows),
        "key": originals["key"],
        "label": originals["label"],
        "source": originals["source"]
        if "source" in originals.column_names
        else pa.nulls(originals.num_rows, pa.string()),
    }
    return pa.table(columns)


def report_on(
    records: int, suspects: Sequence[pa.Table]
) -> tuple[ContentReport, list[dict[str, Any]]]:
    """Return the report on some contents, and the leaks and conflicts in the order of their hashes.

    records: number of all records. suspects: results of `records_with` that include every record
      of a repeated content; contents of a single record do not matter.
    """
    if not suspects:
        return ContentReport(records=records), []
    found = pa.concat_tables(suspects).combine_chunks()
    hashes = found["content"].combine_chunks()
    first, second = hash_halves(hashes).T
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    begins = np.append(True, (first[1:] != first[:-1]) | (second[1:] != second[:-1]))
    codes = np.cumsum(begins[: len(order)]) - 1  # of the contents, in the order of their hashes
    counts = np.bincount(codes)
    in_splits = _distinct_values(codes, found["split"], order)
    labels = _distinct_values(codes, found["label"], order)
    reported = np.flatnonzero((in_splits > 1) | (labels > 1))[:LISTED]
    lines = _lines(found, order, codes, counts, reported)
    report = ContentReport(
        records=records,
        repeated=_counted(counts, counts > 1),
        leaks=_counted(counts, in_splits > 1),
        splits=_splits_of_leaks(codes, found["split"], order, in_splits > 1),
        conflicts=_counted(counts, labels > 1),
        examples=tuple(lines[:EXAMPLES]),
    )
    return report, lines


def _lines(
    found: pa.Table,
    order: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    reported: npt.NDArray[np.int64],
) -> list[dict[str, Any]]:
    """Return the lines of some contents: first some record of each split and label, then others.

    order: int64[n], the rows by content. codes: int64[n], of the content of each of these.
    """
    if not len(reported):
        return []
    at = np.flatnonzero(np.isin(codes, reported))
    pairs = codes[at]
    for name in ("split", "label"):
        encoded = pc.dictionary_encode(found[name]).combine_chunks()
        numbers = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        pairs = pairs * (len(encoded.dictionary) + 1) + numbers[order[at]]
    is_other = np.ones(len(at), np.bool_)
    is_other[np.unique(pairs, return_index=True)[1]] = False
    at = at[np.lexsort((at, is_other, codes[at]))]
    places = np.arange(len(at)) - np.searchsorted(codes[at], codes[at])
    at = at[places < _SHOWN]
    shown = found.take(pa.array(order[at]))
    hashes = shown["content"].to_pylist()
    records = shown.select(["key", "label", "split", "source"]).to_pylist()
    for record in records:
        if record["source"] is None:
            del record["source"]
    lines = []
    starts = np.searchsorted(codes[at], reported).tolist()
    for code, start, end in zip(reported.tolist(), starts, [*starts[1:], len(at)], strict=True):
        line: dict[str, Any] = {"content": hashes[start].hex(), "records": records[start:end]}
        if counts[code] > end - start:
            line["more"] = int(counts[code]) - (end - start)
        lines.append(line)
    return lines


def _originals(index: pa.Table) -> pa.Table:
    return index.filter(pc.equal(index["copy"], 0))


def _pairs(
    codes: npt.NDArray[np.int64], values: pa.ChunkedArray, order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pa.Array]:
    """Return the distinct pairs of a code and the index of a value, and the values.

    codes: int64[n], of the rows in the given order. A null is no value.
    """
    encoded = pc.dictionary_encode(values).combine_chunks()
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)[order]
    width = max(len(encoded.dictionary), 1)
    pairs = np.unique((codes * width + numbers)[numbers >= 0])
    return pairs // width, pairs % width, encoded.dictionary


def _distinct_values(
    codes: npt.NDArray[np.int64], values: pa.ChunkedArray, order: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the number of distinct values of each code."""
    of, _, _ = _pairs(codes, values, order)
    return np.bincount(of, minlength=codes.max(initial=-1) + 1)


def _splits_of_leaks(
    codes: npt.NDArray[np.int64],
    splits: pa.ChunkedArray,
    order: npt.NDArray[np.int64],
    leaks: npt.NDArray[np.bool_],
) -> dict[str, int]:
    """Return {names of splits, joined by "+": number of contents that are in all of these}."""
    of, numbers, values = _pairs(codes, splits, order)
    names = values.to_pylist()
    sets: dict[int, list[str]] = {}
    inside = leaks[of]
    for code, number in zip(of[inside].tolist(), numbers[inside].tolist(), strict=True):
        sets.setdefault(code, []).append(names[number])
    counted = Counter("+".join(sorted(one)) for one in sets.values())
    return dict(sorted(counted.items()))


def _counted(counts: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> ContentCounts:
    return ContentCounts(contents=int(chosen.sum()), records=int(counts[chosen].sum()))
