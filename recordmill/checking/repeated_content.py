"""Search for contents that several records have, by the column `content` of indexes.

First only half of each hash is compared, 8 bytes per record. Only the records whose halves repeat,
which are few, are then compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.content_hashes import hash_halves
from recordmill.format.content_report import EXAMPLES, LISTED, ContentCounts, ContentReport
from recordmill.tfrecord.flat_arrays import Ints, offsets_of, stable_order

COLUMNS = ("key", "label", "copy", "content", "source")  # of an index, that are needed
_SHOWN = 10  # records of a content that its line lists

_DENSE = 16  # entries per row, at most, of a table that is indexed by number

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


def are_among(halves: UInt64Array, some: UInt64Array) -> npt.NDArray[np.bool_]:
    """Return whether each of the halves occurs in `some`: bool[n]."""
    # Hashing takes a fraction of the time of np.isin, which sorts.
    return np.asarray(pc.is_in(pa.array(halves), value_set=pa.array(some)))


def records_with(index: pa.Table, halves: UInt64Array, *, split: str) -> pa.Table:
    """Return the records of an index whose hashes begin with one of these halves, without copies.

    Returns:
      A table with the columns content, split, key, label and source; the source is null if the key
      names the place of the record.
    """
    if "content" not in index.column_names:
        index = index.slice(0, 0).append_column("content", pa.array([], pa.binary(16)))
    originals = _originals(index)
    if originals["content"].null_count:
        originals = originals.filter(pc.is_valid(originals["content"]))
    if originals.num_rows:
        found = are_among(hash_halves(originals["content"].combine_chunks())[:, 0], halves)
        originals = originals if found.all() else originals.filter(pa.array(found))
    count = originals.num_rows
    columns = {
        "content": originals["content"],
        "split": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([split])),
        "key": originals["key"],
        "label": originals["label"].dictionary_encode(),
        "source": originals["source"]
        if "source" in originals.column_names
        else pa.nulls(count, pa.string()),
    }
    return pa.table(columns)


def report_on(
    records: int, suspects: Sequence[pa.Table]
) -> tuple[ContentReport, Iterator[dict[str, Any]]]:
    """Return the report on some contents, and the leaks and conflicts in the order of their hashes.

    records: number of all records. suspects: results of `records_with` that include every record
      of a repeated content; contents of a single record do not matter.
    """
    if not suspects:
        return ContentReport(records=records), iter(())
    found = pa.concat_tables(suspects)
    codes = _content_codes(found["content"])
    counts = np.bincount(codes)
    of_splits, split_numbers, splits = _pairs(codes, found["split"])
    of_labels, _, _ = _pairs(codes, found["label"])
    in_splits = np.bincount(of_splits, minlength=len(counts))
    labels = np.bincount(of_labels, minlength=len(counts))
    reported = np.flatnonzero((in_splits > 1) | (labels > 1))[:LISTED]
    is_leak = in_splits[of_splits] > 1
    report = ContentReport(
        records=records,
        repeated=_counted(counts, counts > 1),
        leaks=_counted(counts, in_splits > 1),
        splits=_splits_of_leaks(of_splits[is_leak], split_numbers[is_leak], splits),
        conflicts=_counted(counts, labels > 1),
        examples=tuple(_lines(found, codes, counts, reported[:EXAMPLES])),
    )
    return report, _lines(found, codes, counts, reported)


def _content_codes(contents: pa.ChunkedArray) -> Ints:
    """Return the rank of the hash of each row among the distinct hashes: int64[n]."""
    encoded = contents.dictionary_encode().combine_chunks()
    first, second = hash_halves(encoded.dictionary).T
    order = np.lexsort((second, first))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    codes: Ints = ranks[encoded.indices.to_numpy()]
    return codes


def _lines(found: pa.Table, codes: Ints, counts: Ints, reported: Ints) -> Iterator[dict[str, Any]]:
    """Yield a line per reported content: one record of each split and label, then other records.

    codes: int64[n], code of the content of each row. counts: rows of each content. reported: codes.
    """
    if not len(reported):
        return
    rows = _shown_rows(found, codes, counts, reported)
    shown = found.take(pa.array(rows))
    # Arrow converts dictionaries to Python values one by one.
    label, split = (shown[name].cast(pa.string()) for name in ("label", "split"))
    columns = [one.to_pylist() for one in (shown["key"], label, split, shown["source"])]
    records = [
        {"key": key, "label": label, "split": split}
        if source is None
        else {"key": key, "label": label, "split": split, "source": source}
        for key, label, split, source in zip(*columns, strict=True)
    ]
    starts = np.searchsorted(codes[rows], reported)
    hashes = shown["content"].take(pa.array(starts)).to_pylist()
    ends = np.append(starts[1:], len(rows))
    others = counts[reported] - (ends - starts)
    for content, start, end, more in zip(
        hashes, starts.tolist(), ends.tolist(), others.tolist(), strict=True
    ):
        line: dict[str, Any] = {"content": content.hex(), "records": records[start:end]}
        if more:
            line["more"] = more
        yield line


def _shown_rows(found: pa.Table, codes: Ints, counts: Ints, reported: Ints) -> Ints:
    """Return the indices of the rows that the lines list, in the order of the lines."""
    is_reported = np.zeros(len(counts), np.bool_)
    is_reported[reported] = True
    at = np.flatnonzero(is_reported[codes])
    at = at[stable_order(codes[at])]
    pairs = codes[at]
    size = len(counts)
    for name in ("split", "label"):
        numbers, values = _numbered(found[name])
        pairs = pairs * (len(values) + 1) + numbers[at] + 1
        size *= len(values) + 1
    is_first = np.zeros(len(at), np.bool_)
    is_first[_first_of_each(pairs, size)] = True
    # Place of each row in its line: the first of each split and label precede all others.
    firsts = np.cumsum(is_first)
    begins = offsets_of(counts[reported])
    before = np.append(0, firsts)[begins]
    line = np.repeat(np.arange(len(reported)), counts[reported])
    own_firsts = firsts - before[line]
    others = np.arange(1, len(at) + 1) - begins[line] - own_firsts
    places = np.where(is_first, own_firsts - 1, np.diff(before)[line] + others - 1)
    kept = np.flatnonzero(places < _SHOWN)
    return at[kept[np.argsort(line[kept] * _SHOWN + places[kept])]]


def _originals(index: pa.Table) -> pa.Table:
    is_original = pc.equal(index["copy"], 0)
    return index if pc.all(is_original).as_py() else index.filter(is_original)


def _numbered(values: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return the code of each value, -1 for null, and the distinct values."""
    encoded = values.unify_dictionaries().combine_chunks()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary


def _first_of_each(numbers: Ints, size: int) -> Ints:
    """Return the index of the first of each number, by ascending number, which is below `size`."""
    if size > _DENSE * len(numbers):
        return np.unique(numbers, return_index=True)[1]
    first = np.full(size, -1)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last assignment counts
    return first[first >= 0]


def _pairs(codes: Ints, values: pa.ChunkedArray) -> tuple[Ints, Ints, pa.Array]:
    """Return the distinct pairs of a code and the index of a value, and the distinct values.

    Rows whose value is null are left out.
    """
    numbers, distinct = _numbered(values)
    valid = numbers >= 0
    if not valid.all():
        codes, numbers = codes[valid], numbers[valid]
    width = max(len(distinct), 1)
    pairs = codes * width + numbers
    pairs = pairs[_first_of_each(pairs, (int(codes.max(initial=-1)) + 1) * width)]
    return pairs // width, pairs % width, distinct


def _splits_of_leaks(codes: Ints, numbers: Ints, splits: pa.Array) -> dict[str, int]:
    """Return {names of splits, joined by "+": number of contents that are in exactly these splits}.

    codes, numbers: int64[n], pairs of a content and the index of a split, sorted by content.
    """
    if not len(codes):
        return {}
    names = splits.to_pylist()
    bits = np.array([1 << number for number in range(len(names))], object)
    if len(names) < 64:  # Python's numbers are slower
        bits = bits.astype(np.int64)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    sets, counts = np.unique(np.bitwise_or.reduceat(bits[numbers], starts), return_counts=True)
    return dict(
        sorted(
            ("+".join(sorted(name for bit, name in zip(bits, names, strict=True) if bit & one)), n)
            for one, n in zip(sets.tolist(), counts.tolist(), strict=True)
        )
    )


def _counted(counts: Ints, chosen: npt.NDArray[np.bool_]) -> ContentCounts:
    return ContentCounts(contents=int(chosen.sum()), records=int(counts[chosen].sum()))
