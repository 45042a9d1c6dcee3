"""Search for contents that several records have, by the column `content` of indexes.

First only half of each hash is compared, 8 bytes per record. Only the records whose halves repeat,
which are few, are then compared one by one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.content_hashes import hash_halves
from recordmill.format.content_report import EXAMPLES, LISTED, ContentCounts, ContentReport
from recordmill.format.label_texts import label_texts
from recordmill.tfrecord.flat_arrays import Ints, offsets_of, stable_order

COLUMNS = ("label", "labels", "copy", "content")  # columns of an index that are compared
NAMES = ("key", "source")  # columns that are read for shown records only
_SHOWN = 10  # records of a content that its line lists
_LINES_AT_ONCE = 1 << 13  # lines that are in memory as text
_ESCAPED = r'[\x00-\x1f"\\]'  # characters that JSON strings hold as escape sequences

_DENSE = 16  # entries per row, at most, of a table that is indexed by number

UInt64Array = npt.NDArray[np.uint64]


def content_halves(index: pa.Table) -> UInt64Array:
    """Return the first half of each hash in an index, without copies: uint64[n]."""
    if "content" not in index.column_names:
        return np.zeros(0, np.uint64)
    return _first_halves(_hashed(index)[1])


def repeated_halves(halves: UInt64Array) -> UInt64Array:
    """Return the values that occur at least twice: uint64[m], sorted, each once."""
    values = np.sort(halves)
    again = values[1:][values[1:] == values[:-1]]
    starts = np.flatnonzero(again[1:] != again[:-1]) + 1
    distinct: UInt64Array = again[np.append(0, starts)] if len(again) else again
    return distinct


def are_among(halves: UInt64Array, some: UInt64Array) -> npt.NDArray[np.bool_]:
    """Return whether each of the halves occurs in `some`: bool[n]."""
    # Hashing takes a fraction of the time of np.isin, which sorts.
    return np.asarray(pc.is_in(pa.array(halves), value_set=pa.array(some)))


class Suspects(NamedTuple):
    """Records of an index whose contents may be repeated, without copies.

    records: a table with the columns content, split, label, and half, the index of the first half
      of the hash among the repeated halves. rows: their rows in the index.
    read_names: returns the columns key and source of some rows of the index; their numbers have to
      ascend. The source is null, or missing, if the key names the place of the record.
    """

    records: pa.Table
    rows: Ints
    read_names: Callable[[Ints], pa.Table]


def records_with(
    index: pa.Table,
    halves: UInt64Array,
    *,
    split: str,
    read_names: Callable[[Ints], pa.Table] | None = None,
) -> Suspects:
    """Return the records of an index whose hashes begin with one of these halves.

    halves: sorted, the same for all indexes of a dataset.
    read_names: as in `Suspects`; by default, `index` has these columns.
    """
    if "content" not in index.column_names:
        index = index.slice(0, 0).append_column("content", pa.array([], pa.binary(16)))
    rows, contents = _hashed(index)
    found = pc.index_in(pa.array(_first_halves(contents)), value_set=pa.array(halves))
    among = np.flatnonzero(found.is_valid())
    rows = rows[among]
    columns = {
        "content": _choose(contents, among),
        "half": _choose(found, among),
        "split": pa.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), pa.array([split])),
        "label": _choose(label_texts(index), rows).dictionary_encode(),
    }
    names = index.select([name for name in NAMES if name in index.column_names])
    return Suspects(
        pa.table(columns), rows, read_names or (lambda some: names.take(pa.array(some)))
    )


def report_on(records: int, suspects: Sequence[Suspects]) -> tuple[ContentReport, Iterator[bytes]]:
    """Return the report on some contents, and the leaks and conflicts in the order of their hashes.

    Leaks and conflicts are blocks of lines of leaks.jsonl.

    records: number of all records. suspects: every record of a repeated content; contents of a
      single record do not matter.
    """
    if not suspects:
        return ContentReport(records=records), iter(())
    found = pa.concat_tables([one.records for one in suspects])
    codes = _content_codes(found)
    counts = np.bincount(codes)
    split_numbers, splits = _numbered(found["split"])
    label_numbers, labels = _numbered(found["label"])
    # The first record of each (content, split, label), in the order of these triples.
    width = len(labels) + 1
    triples = (codes * len(splits) + split_numbers) * width + label_numbers + 1
    firsts = _first_of_each(triples, len(counts) * len(splits) * width)
    of_splits, of_labels = (
        _distinct_pairs(codes[firsts], numbers[firsts])
        for numbers in (split_numbers, label_numbers)
    )
    in_splits = np.bincount(of_splits[0], minlength=len(counts))
    in_labels = np.bincount(of_labels[0], minlength=len(counts))
    reported = np.flatnonzero((in_splits > 1) | (in_labels > 1))[:LISTED]
    contents, numbers = (one[in_splits[of_splits[0]] > 1] for one in of_splits)
    rows, sizes = _shown_rows(codes, counts, reported, firsts)
    lines = list(zip(sizes.tolist(), counts[reported].tolist(), strict=True))
    examples = _lines(suspects, found, rows[: sizes[:EXAMPLES].sum()], lines[:EXAMPLES])
    report = ContentReport(
        records=records,
        repeated=_counted(counts, counts > 1),
        leaks=_counted(counts, in_splits > 1),
        splits=_splits_of_leaks(contents, numbers, splits),
        conflicts=_counted(counts, in_labels > 1),
        examples=tuple(map(json.loads, b"".join(examples).splitlines())),
    )
    return report, _lines(suspects, found, rows, lines)


def _content_codes(found: pa.Table) -> Ints:
    """Return the rank of the hash of each row among the distinct hashes: int64[n].

    Numbers of halves that no row has count, too.
    """
    codes: Ints = found["half"].to_numpy().astype(np.int64)
    second = np.concatenate([hash_halves(chunk)[:, 1] for chunk in found["content"].chunks])
    of_half = np.zeros(codes.max(initial=-1) + 1, np.uint64)
    of_half[codes] = second
    if (of_half[codes] == second).all():
        return codes
    # Different hashes have the same first half.
    encoded = found["content"].dictionary_encode().combine_chunks()
    first, second = hash_halves(encoded.dictionary).T
    order = np.lexsort((second, first))
    ranks: Ints = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return cast("Ints", ranks[encoded.indices.to_numpy()])


def _shown_rows(codes: Ints, counts: Ints, reported: Ints, firsts: Ints) -> tuple[Ints, Ints]:
    """Return the rows that the lines list, in their order, and the number of rows of each line.

    codes: int64[n], code of the content of each row. counts: rows of each content. reported: codes.
    firsts: the first row of each (content, split, label); a line lists these before other rows.
    """
    is_reported = np.zeros(len(counts), np.bool_)
    is_reported[reported] = True
    rows = np.flatnonzero(is_reported[codes])
    rows = rows[stable_order(codes[rows])]
    begins = offsets_of(counts[reported])
    ranks = np.arange(len(rows)) - np.repeat(begins[:-1], counts[reported])
    is_first = np.zeros(len(codes), np.bool_)
    is_first[firsts] = True
    some = np.flatnonzero(is_first[rows] | (ranks < _SHOWN))
    rows, lines = rows[some], np.searchsorted(begins, some, side="right") - 1
    order = np.lexsort((~is_first[rows], lines))
    rows, lines = rows[order], lines[order]
    places = np.arange(len(rows)) - np.searchsorted(lines, lines)
    kept = places < _SHOWN
    return rows[kept], np.bincount(lines[kept], minlength=len(reported))


def _lines(
    suspects: Sequence[Suspects], found: pa.Table, rows: Ints, lines: Sequence[tuple[int, int]]
) -> Iterator[bytes]:
    """Yield lines of JSON, in blocks: per content a record of each split and label, then others.

    found: the records of all suspects. rows: those that the lines list.
    lines: (number of rows of a line, number of records of its content).
    """
    if not lines:
        return
    shown = found.take(pa.array(rows))
    columns = dict(zip(NAMES, _names(suspects, rows).columns, strict=True))
    columns |= {name: shown[name] for name in ("label", "split")}
    begins = offsets_of(np.array([size for size, _ in lines]))
    contents = shown["content"].take(pa.array(begins[:-1]))
    for first in range(0, len(lines), _LINES_AT_ONCE):
        some = lines[first : first + _LINES_AT_ONCE]
        ends = begins[first : first + len(some) + 1]
        records = pa.ListArray.from_arrays(
            pa.array(ends - ends[0], pa.int32()),
            _records(
                {name: one.slice(ends[0], ends[-1] - ends[0]) for name, one in columns.items()}
            ),
        )
        hashes = contents.slice(first, len(some)).to_pylist()
        heads = [
            f'{{"content": "{content.hex()}", '
            + (f'"more": {count - size}, ' if count > size else "")
            for content, (size, count) in zip(hashes, some, strict=True)
        ]
        joined = pc.binary_join(records, ", ")
        made = pc.binary_join_element_wise(pa.array(heads), '"records": [', joined, "]}\n", "")
        yield made.buffers()[2].to_pybytes()


def _records(columns: Mapping[str, pa.ChunkedArray]) -> pa.Array:
    """Return records as JSON objects: string[n]. A missing source is left out."""
    texts = {name: _as_json(column) for name, column in columns.items()}
    sources = pc.binary_join_element_wise(', "source": ', texts["source"], "")
    return pc.binary_join_element_wise(
        '{"key": ',
        *(texts["key"], ', "label": ', texts["label"].fill_null("null")),
        *(sources.fill_null(""), ', "split": ', texts["split"], "}", ""),
    )


def _as_json(column: pa.ChunkedArray) -> pa.Array:
    """Return texts as JSON strings: string[n], nullable."""
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        return _as_json(pa.chunked_array([column.dictionary])).take(column.indices)
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    escaped = pc.match_substring_regex(column, _ESCAPED).fill_null(False)
    odd = [json.dumps(one, ensure_ascii=False) for one in column.filter(escaped).to_pylist()]
    return pc.replace_with_mask(quoted, escaped, pa.array(odd, pa.string())) if odd else quoted


def _names(suspects: Sequence[Suspects], rows: Ints) -> pa.Table:
    """Return the columns key and source of rows of the joined suspects, in the order of `rows`."""
    order = np.argsort(rows)
    ascending = rows[order]
    begins = offsets_of(np.array([len(one.rows) for one in suspects]))
    found = []
    for one, begin, (start, end) in zip(
        suspects,
        begins.tolist(),
        itertools.pairwise(np.searchsorted(ascending, begins).tolist()),
        strict=False,
    ):
        if start < end:
            names = one.read_names(one.rows[ascending[start:end] - begin])
            if "source" not in names.column_names:
                names = names.append_column("source", pa.nulls(len(names), pa.string()))
            found.append(names.select(NAMES))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return pa.concat_tables(found).take(pa.array(places))


def _hashed(index: pa.Table) -> tuple[Ints, pa.ChunkedArray]:
    """Return the rows of an index that are no copies and have a content hash, and the hashes."""
    chosen = pc.and_(pc.equal(index["copy"], 0), pc.is_valid(index["content"]))
    rows = np.flatnonzero(chosen)
    return rows, _choose(index["content"], rows)


def _choose(values: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Return the values of some rows, without a copy if they are all rows."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def _first_halves(contents: pa.ChunkedArray) -> UInt64Array:
    halves = [hash_halves(chunk)[:, 0] for chunk in contents.chunks]
    return np.concatenate(halves) if halves else np.zeros(0, np.uint64)


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


def _distinct_pairs(codes: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs of a code and a number, in order; negative numbers are left out."""
    valid = numbers >= 0
    width = int(numbers.max(initial=0)) + 1
    pairs = np.unique(codes[valid] * width + numbers[valid])
    return pairs // width, pairs % width


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
