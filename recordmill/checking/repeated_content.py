"""Search for contents that several records have, by the column `content` of indexes.

First only half of each hash is compared, 8 bytes per record. Only the records whose halves repeat,
which are few, are then compared one by one.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill import strict_json
from recordmill.format.content_hashes import hash_halves
from recordmill.format.content_report import EXAMPLES, LISTED, ContentCounts, ContentReport
from recordmill.format.label_texts import label_texts
from recordmill.tfrecord.flat_arrays import Ints, offsets_of, stable_order

COLUMNS = ("label", "labels", "copy", "content")  # columns of an index that are compared
NAMES = ("key", "source")  # columns that are read for shown records only
_SHOWN = 10  # records of a content that its line lists
_SAMPLED = 1 << 14  # hashes that show whether most repeat
_LINES_AT_ONCE = 1 << 13  # lines that are in memory as text
_RECORDS_AT_ONCE = 1 << 16  # records of repeated contents that are sorted at a time, about
_ESCAPED = r'[\x00-\x1f"\\]'  # characters that JSON strings hold as escape sequences

UInt64Array = npt.NDArray[np.uint64]


def content_halves(index: pa.Table) -> UInt64Array:
    """Return the first half of each hash in an index, without copies: uint64[n]."""
    if "content" not in index.column_names:
        return np.zeros(0, np.uint64)
    return _halves(_hashed(index)[1], 0)


def repeated_halves(halves: UInt64Array) -> UInt64Array:
    """Return the values that occur at least twice: uint64[m], sorted, each once."""
    some = halves[:_SAMPLED]
    if 2 * len(pc.unique(pa.array(some))) < len(some):  # a hash table is small, and faster
        counted = pc.value_counts(pa.array(halves))
        again = pc.greater(counted.field("counts"), 1)
        return np.sort(counted.field("values").filter(again).to_numpy())
    values = np.sort(halves)
    again = values[1:][values[1:] == values[:-1]]
    starts = np.flatnonzero(again[1:] != again[:-1]) + 1
    distinct: UInt64Array = again[np.append(0, starts)] if len(again) else again
    return distinct


class Suspects(NamedTuple):
    """Records of an index whose contents may be repeated.

    split: their split. rows: their rows in the index. halves: the index of the first half of each
      hash among the repeated halves, int32[n]. seconds: the second halves. labels: string[n], a
      dictionary.
    read_names: returns the columns key and source of some rows of the index; their numbers have to
      ascend. The source is null, or missing, if the key names the place of the record.
    """

    split: str
    rows: Ints
    halves: npt.NDArray[np.int32]
    seconds: UInt64Array
    labels: pa.DictionaryArray
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
    found = pc.index_in(pa.array(_halves(contents, 0)), value_set=pa.array(halves))
    seconds = _halves(contents, 1)
    if found.null_count:
        among = np.flatnonzero(found.is_valid())
        found, rows, seconds = found.take(pa.array(among)), rows[among], seconds[among]
    labels = _choose(label_texts(index), rows).dictionary_encode()
    names = index.select([name for name in NAMES if name in index.column_names])
    return Suspects(
        split=split,
        rows=rows,
        halves=found.to_numpy(),
        seconds=seconds,
        labels=labels.unify_dictionaries().combine_chunks(),
        read_names=read_names or (lambda some: names.take(pa.array(some))),
    )


def report_on(
    records: int, halves: UInt64Array, suspects: Sequence[Suspects], *, listed: int = LISTED
) -> tuple[ContentReport, Iterator[bytes]]:
    """Return the report on some contents, and the leaks and conflicts in the order of their hashes.

    Leaks and conflicts are blocks of lines of leaks.jsonl.

    records: number of all records. halves: as in `records_with`. suspects: every record of a
      repeated content; contents of a single record do not matter. listed: lines, at most.
    """
    if not any(len(one.rows) for one in suspects):
        return ContentReport(records=records), iter(())
    joined = _joined(suspects, halves)
    parts = []
    for start, end in joined.ranges():
        parts.append(_report_on_range(joined, start, end, listed=listed))
        listed -= len(parts[-1].contents)
    reports, *arrays = zip(*parts, strict=True)
    report = ContentReport.sum([ContentReport(records=records), *reports])
    contents, rows, shown, more = map(np.concatenate, arrays)
    if not len(rows):
        return report, iter(())
    columns = _names(suspects, rows) | joined.classes(rows)
    blocks = _lines(joined.hashes[contents], shown, more, columns)
    first = next(blocks)
    examples = tuple(map(json.loads, itertools.islice(io.BytesIO(first), EXAMPLES)))
    return dataclasses.replace(report, examples=examples), itertools.chain([first], blocks)


class _Joined(NamedTuple):
    """The records of all suspects.

    numbers: int64[n]. That of a (content, split, label) is ((content * splits) + split) * (labels +
      1) + label + 1, with a label of -1 for none. splits, labels: the distinct ones. hashes: of
      contents, uint64[m, 2], ascending; there may be some that no record has.
    """

    numbers: Ints
    splits: pa.Array
    labels: pa.Array
    hashes: UInt64Array

    @property
    def per_content(self) -> int:
        """Number of (split, label) pairs, and so of numbers, per content."""
        return len(self.splits) * (len(self.labels) + 1)

    def divide(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the contents, splits and labels of numbers."""
        pairs, labels = np.divmod(numbers, len(self.labels) + 1)
        return *np.divmod(pairs, len(self.splits)), labels - 1

    def classes(self, rows: Ints) -> dict[str, pa.Array]:
        """Return the columns label and split of some records."""
        _, splits, labels = self.divide(self.numbers[rows])
        found = pa.array(labels, pa.int32(), mask=labels < 0)
        return {
            "label": pa.DictionaryArray.from_arrays(found, self.labels),
            "split": pa.DictionaryArray.from_arrays(splits, self.splits),
        }

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (first content, end) of about `_RECORDS_AT_ONCE` records, if none has more."""
        counts = np.bincount(self.numbers // self.per_content, minlength=len(self.hashes))
        parts = (np.cumsum(counts) - counts) // _RECORDS_AT_ONCE
        starts = np.flatnonzero(np.diff(parts, prepend=-1)).tolist()
        for start, end in itertools.pairwise([*starts, len(counts)]):
            if counts[start:end].any():
                yield start, end


class _RangeReport(NamedTuple):
    """The report on a range of contents, without examples, and what its lines list.

    contents: of the lines. rows: of all lines, in the joined records. shown, more: numbers of
      records that each line lists, and of others.
    """

    report: ContentReport
    contents: Ints
    rows: Ints
    shown: Ints
    more: Ints


def _report_on_range(joined: _Joined, start: int, end: int, *, listed: int) -> _RangeReport:
    """Report on contents from `start` to `end`. listed: lines, at most."""
    first, last = start * joined.per_content, end * joined.per_content
    order = np.flatnonzero((joined.numbers >= first) & (joined.numbers < last))
    order = order[stable_order(joined.numbers[order])]
    found = joined.numbers[order] - first
    starts = np.append(0, np.flatnonzero(found[1:] != found[:-1]) + 1)
    sizes = np.diff(starts, append=len(order))
    codes, splits, labels = joined.divide(found[starts])
    counts = np.bincount(codes, sizes, end - start).astype(np.int64)
    of_splits = _distinct_pairs(codes, splits)
    of_labels = _distinct_pairs(codes, labels)
    in_splits = np.bincount(of_splits[0], minlength=end - start)
    in_labels = np.bincount(of_labels[0], minlength=end - start)
    is_reported = (in_splits > 1) | (in_labels > 1)
    reported = np.flatnonzero(is_reported)[:listed]
    some = np.flatnonzero(is_reported[codes] & (codes <= reported.max(initial=-1)))
    lines = np.searchsorted(reported, codes[some])
    rows, shown = _shown_rows(lines, starts[some], sizes[some], order)
    contents, numbers = (one[in_splits[of_splits[0]] > 1] for one in of_splits)
    report = ContentReport(
        repeated=_counted(counts, counts > 1),
        leaks=_counted(counts, in_splits > 1),
        splits=_splits_of_leaks(contents, numbers, joined.splits),
        conflicts=_counted(counts, in_labels > 1),
    )
    return _RangeReport(report, start + reported, rows, shown, counts[reported] - shown)


def _joined(suspects: Sequence[Suspects], halves: UInt64Array) -> _Joined:
    """Number the content, split and label of each record."""
    numbers, hashes = _content_numbers(suspects, halves)
    splits = sorted({one.split for one in suspects})
    labels = pa.chunked_array([one.labels for one in suspects]).unify_dictionaries().chunks
    names = labels[0].dictionary
    numbers *= len(splits) * (len(names) + 1)
    begins = offsets_of(np.array([len(one.rows) for one in suspects]))
    for one, codes, (start, end) in zip(suspects, labels, itertools.pairwise(begins), strict=True):
        part = numbers[start:end]
        part += codes.indices.fill_null(-1).to_numpy()
        part += splits.index(one.split) * (len(names) + 1) + 1
    return _Joined(numbers, pa.array(splits), names, hashes)


def _content_numbers(suspects: Sequence[Suspects], halves: UInt64Array) -> tuple[Ints, UInt64Array]:
    """Return the rank of the hash of each record, int64[n], and the hashes, uint64[m, 2]."""
    numbers: Ints = np.concatenate([one.halves for one in suspects], dtype=np.int64)
    of_half = np.zeros(len(halves), np.uint64)
    for one in suspects:
        of_half[one.halves] = one.seconds
    if all((of_half[one.halves] == one.seconds).all() for one in suspects):
        return numbers, np.stack([halves, of_half], axis=1)
    # Different hashes have the same first half.
    seconds = np.concatenate([one.seconds for one in suspects])
    hashes, ranks = np.unique(
        np.stack([halves[numbers], seconds], axis=1), axis=0, return_inverse=True
    )
    return ranks.reshape(-1), hashes


def _shown_rows(lines: Ints, starts: Ints, sizes: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the rows that the lines list, in their order, and the number of rows of each line.

    Each (content, split, label) is a range of `order`, from a start; lines: the lines of these. A
    line lists the first rows of its ranges, then others, each by row.
    """
    candidates = np.minimum(sizes, _SHOWN)
    begins = offsets_of(candidates)
    places = np.arange(begins[-1]) - np.repeat(begins[:-1], candidates)
    rows = order[np.repeat(starts, candidates) + places]
    # One number for (line, whether it is not the first of its range, row) is sorted fastest.
    is_other = np.repeat(2 * lines, candidates) + (places > 0)
    width = int(order.max(initial=0)) + 1
    keys, rows = np.divmod(np.sort(is_other * width + rows), width)
    found = keys // 2
    begins = offsets_of(np.bincount(found))
    kept = np.arange(len(found)) - begins[found] < _SHOWN
    return rows[kept], np.minimum(np.diff(begins), _SHOWN)


def _lines(
    hashes: UInt64Array, shown: Ints, more: Ints, columns: Mapping[str, pa.Array]
) -> Iterator[bytes]:
    """Yield lines of JSON, in blocks.

    hashes: of the content of each line, uint64[n, 2]. shown, more: numbers of its records that it
    lists, and of others. columns: key, source, label and split of the listed records.
    """
    begins = offsets_of(shown)
    digits = hashes.astype(">u8").tobytes().hex()
    for first in range(0, len(shown), _LINES_AT_ONCE):
        ends = begins[first : first + _LINES_AT_ONCE + 1]
        records = pa.ListArray.from_arrays(
            pa.array(ends - ends[0], pa.int32()),
            _records(
                {name: one.slice(ends[0], ends[-1] - ends[0]) for name, one in columns.items()}
            ),
        )
        heads = [
            f'{{"content": "{digits[32 * line : 32 * line + 32]}", '
            + (f'"more": {rest}, ' if rest else "")
            for line, rest in enumerate(more[first : first + len(records)].tolist(), first)
        ]
        joined = pc.binary_join(records, ", ")
        made = pc.binary_join_element_wise(pa.array(heads), '"records": [', joined, "]}\n", "")
        yield made.buffers()[2].to_pybytes()


def _records(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return records as JSON objects: string[n]. A missing source is left out."""
    texts = {name: _as_json(column) for name, column in columns.items()}
    sources = pc.binary_join_element_wise(', "source": ', texts["source"], "")
    return pc.binary_join_element_wise(
        '{"key": ',
        *(texts["key"], ', "label": ', texts["label"].fill_null("null")),
        *(sources.fill_null(""), ', "split": ', texts["split"], "}", ""),
    )


def _as_json(column: pa.Array) -> pa.Array:
    """Return texts as JSON strings: string[n], nullable."""
    if pa.types.is_dictionary(column.type):
        return _as_json(column.dictionary).take(column.indices)
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    escaped = pc.match_substring_regex(column, _ESCAPED).fill_null(False)
    odd = [strict_json.to_text(one) for one in column.filter(escaped).to_pylist()]
    return pc.replace_with_mask(quoted, escaped, pa.array(odd, pa.string())) if odd else quoted


def _names(suspects: Sequence[Suspects], rows: Ints) -> dict[str, pa.Array]:
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
    names = pa.concat_tables(found).combine_chunks().take(pa.array(places))
    return {name: names[name].combine_chunks() for name in NAMES}


def _hashed(index: pa.Table) -> tuple[Ints, pa.ChunkedArray]:
    """Return the rows of an index that are no copies and have a content hash, and the hashes."""
    chosen = pc.and_(pc.equal(index["copy"], 0), pc.is_valid(index["content"]))
    rows = np.flatnonzero(chosen)
    return rows, _choose(index["content"], rows)


def _choose(values: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Return the values of some rows, without a copy if they are all rows."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def _halves(contents: pa.ChunkedArray, number: int) -> UInt64Array:
    """Return the first (0) or second (1) halves of hashes, without nulls: uint64[n]."""
    halves = [hash_halves(chunk)[:, number] for chunk in contents.chunks]
    return np.concatenate(halves) if halves else np.zeros(0, np.uint64)


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
