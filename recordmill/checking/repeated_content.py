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

from recordmill.format.content_report import EXAMPLES, LISTED, ContentCounts, ContentReport

COLUMNS = ("key", "label", "copy", "content")  # of an index, that are needed
_SHOWN = 100  # records of a content that its line lists

UInt64Array = npt.NDArray[np.uint64]


def content_halves(index: pa.Table) -> UInt64Array:
    """Return the first half of each hash in an index, without copies: uint64[n]."""
    if "content" not in index.column_names:
        return np.zeros(0, np.uint64)
    hashes = _originals(index)["content"].drop_null().combine_chunks()
    if isinstance(hashes, pa.ChunkedArray):  # of no chunks
        return np.zeros(0, np.uint64)
    return _halves(hashes)


def repeated_halves(halves: UInt64Array) -> UInt64Array:
    """Return the values that occur at least twice: uint64[m], sorted, each once."""
    values = np.sort(halves)
    return np.unique(values[1:][values[1:] == values[:-1]])


def records_with(index: pa.Table, halves: UInt64Array, *, split: str) -> pa.Table:
    """Return the records of an index whose hashes begin with one of these halves, without copies.

    halves: uint64[m], sorted.

    Returns:
      A table with the columns content, split, key and label.
    """
    if "content" not in index.column_names:
        index = index.slice(0, 0).append_column("content", pa.array([], pa.binary(16)))
    originals = _originals(index)
    originals = originals.filter(pc.is_valid(originals["content"]))
    if originals.num_rows:
        found = np.isin(_halves(originals["content"].combine_chunks()), halves)
        originals = originals.filter(pa.array(found))
    columns = {
        "content": originals["content"],
        "split": pa.repeat(split, originals.num_rows),
        "key": originals["key"],
        "label": originals["label"],
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
    found = found.sort_by([(name, "ascending") for name in ("content", "split", "key")])
    codes = np.asarray(pc.dictionary_encode(found["content"]).combine_chunks().indices)
    counts = np.bincount(codes)
    in_splits = _distinct_values(codes, found["split"])
    labels = _distinct_values(codes, found["label"])
    splits: Counter[str] = Counter()
    lines: list[dict[str, Any]] = []
    starts = np.cumsum(counts) - counts
    for code in np.flatnonzero((in_splits > 1) | (labels > 1)).tolist():
        some = found.slice(int(starts[code]), int(counts[code]))
        if in_splits[code] > 1:
            splits["+".join(some["split"].unique().to_pylist())] += 1
        if len(lines) < LISTED:
            lines.append(_line(some))
    report = ContentReport(
        records=records,
        repeated=_counted(counts, counts > 1),
        leaks=_counted(counts, in_splits > 1),
        splits=dict(sorted(splits.items())),
        conflicts=_counted(counts, labels > 1),
        examples=tuple(lines[:EXAMPLES]),
    )
    return report, lines


def _line(records: pa.Table) -> dict[str, Any]:
    shown = records.slice(0, _SHOWN)
    line: dict[str, Any] = {
        "content": records["content"][0].as_py().hex(),
        "records": shown.select(["key", "label", "split"]).to_pylist(),
    }
    if records.num_rows > _SHOWN:
        line["more"] = records.num_rows - _SHOWN
    return line


def _originals(index: pa.Table) -> pa.Table:
    return index.filter(pc.equal(index["copy"], 0))


def _halves(hashes: pa.Array) -> UInt64Array:
    """Return the first 8 bytes of hashes of 16 bytes, big-endian, so that the order is the same."""
    words = np.frombuffer(hashes.buffers()[1], ">u8", 2 * len(hashes), 16 * hashes.offset)
    return words[::2].astype(np.uint64)


def _distinct_values(codes: npt.NDArray[Any], values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the number of distinct values of each code; null is no value."""
    encoded = pc.dictionary_encode(values).combine_chunks()
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    width = len(encoded.dictionary) + 1
    pairs = np.unique(codes * width + numbers + 1)
    return np.bincount(pairs[pairs % width > 0] // width, minlength=codes.max(initial=-1) + 1)


def _counted(counts: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> ContentCounts:
    return ContentCounts(contents=int(chosen.sum()), records=int(counts[chosen].sum()))
