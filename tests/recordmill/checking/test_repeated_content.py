import functools
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from recordmill.checking import repeated_content
from recordmill.checking.repeated_content import records_with, repeated_halves, report_on
from recordmill.format.content_hashes import content_hash, hash_halves
from recordmill.format.content_report import LISTED


def index_of(rows):
    columns = zip(*rows, strict=True)
    names = ("key", "label", "copy", "content", "source")
    types = (pa.string(), pa.string(), pa.int32(), pa.binary(16), pa.string())
    return pa.table(
        {name: pa.array(c, t) for name, c, t in zip(names, columns, types, strict=True)}
    )


def report(indexes, *, listed=LISTED):
    halves = np.concatenate([repeated_content.content_halves(index) for _, index in indexes])
    repeated = repeated_halves(halves)
    suspects = [records_with(index, repeated, split=split) for split, index in indexes]
    found, lines = report_on(len(halves), repeated, suspects, listed=listed)
    return found, [json.loads(line) for line in b"".join(lines).splitlines()]


def naive_lines(indexes):
    """{content: [(split, label, key)]} of leaks and conflicts, in the order of the lines."""
    records = {}
    for split, index in indexes:
        for row in index.to_pylist():
            if row["content"] is not None and row["copy"] == 0:
                records.setdefault(row["content"], []).append((split, row["label"], row["key"]))
    found = {}
    for content, several in sorted(records.items()):
        splits = {split for split, _, _ in several}
        labels = {label for _, label, _ in several} - {None}
        if len(splits) > 1 or len(labels) > 1:
            first = {one[:2]: one for one in reversed(several)}.values()
            found[content] = [one for one in several if one in first]
            found[content] += [one for one in several if one not in first]
    return found


@pytest.mark.parametrize("distinct", [1, 40, 10_000])
def test_halves_that_several_records_have(distinct):
    """Few distinct ones are counted, and many are sorted."""
    halves = np.random.default_rng(0).integers(0, distinct, 500).astype(np.uint64) << np.uint64(50)
    expected = sorted(half for half, count in Counter(halves.tolist()).items() if count > 1)
    assert len(expected) > 0
    assert repeated_halves(halves).tolist() == expected


def random_indexes(splits):
    random = np.random.default_rng(0)
    rows = [
        (
            f"key {number}",
            (None, "a", "b", 'é"\\\n\x7f')[random.integers(4)],
            int(random.random() < 0.1),
            None if random.random() < 0.05 else content_hash(b"%d" % random.integers(200)),
            None if number % 2 else f"file\t#{number}",
        )
        for number in range(900)
    ]
    cuts = np.array_split(np.arange(len(rows)), splits)
    return [(f"split{n:02d}", index_of([rows[i] for i in some])) for n, some in enumerate(cuts)]


@pytest.mark.parametrize("splits", [3, 70])
@pytest.mark.parametrize("at_once", [1, 100, 1000])
def test_leaks_and_conflicts_are_those_of_a_comparison_of_all_records(at_once, splits, monkeypatch):
    monkeypatch.setattr(repeated_content, "_RECORDS_AT_ONCE", at_once)
    indexes = random_indexes(splits)
    found, lines = report(indexes)
    expected = naive_lines(indexes)
    assert [line["content"] for line in lines] == [content.hex() for content in expected]
    for line, records in zip(lines, expected.values(), strict=True):
        shown = [(one["split"], one["label"], one["key"]) for one in line["records"]]
        assert shown == records[:10]
        assert line.get("more", 0) == len(records[10:])
        assert all(("source" in one) == (int(one["key"][4:]) % 2 == 0) for one in line["records"])
    leaks = {content: {one[0] for one in records} for content, records in expected.items()}
    sets = Counter("+".join(sorted(some)) for some in leaks.values() if len(some) > 1)
    assert found.splits == sets
    assert found.leaks.contents == sum(sets.values())
    assert found.examples == tuple(lines[:5])


def test_the_listed_lines_are_the_first_ones(monkeypatch):
    monkeypatch.setattr(repeated_content, "_RECORDS_AT_ONCE", 20)
    indexes = random_indexes(3)
    found, lines = report(indexes)
    few, first = report(indexes, listed=7)
    assert len(lines) > 7
    assert (few, first) == (found, lines[:7])


def test_nothing_repeats():
    found, lines = report([("train", index_of([("a", None, 0, content_hash(b"a"), None)]))])
    assert (found.records, found.repeated.contents, lines) == (1, 0, [])


def test_hashes_that_share_their_first_half_are_not_equal():
    same = np.array([7], ">u8").tobytes()
    contents = [same + bytes(8), same + bytes([1] * 8)]
    assert hash_halves(pa.array(contents, pa.binary(16)))[0, 0] == 7
    rows = [(str(number), "a", 0, content, None) for number, content in enumerate(contents)]
    found, lines = report([("train", index_of(rows[:1])), ("test", index_of(rows[1:]))])
    assert (found.repeated.contents, lines) == (0, [])


def test_names_are_read_only_of_records_that_are_listed():
    rows = [(f"key {number}", "a", 0, content_hash(b"same"), None) for number in range(50)]
    read = []

    def names_of(index, some):
        read.append(len(some))
        return index.select(["key"]).take(pa.array(some))

    suspects = []
    for split, index in (("test", index_of(rows[:5])), ("train", index_of(rows[5:]))):
        halves = repeated_content.content_halves(index)
        read_names = functools.partial(names_of, index)
        suspects.append(records_with(index, halves, split=split, read_names=read_names))
    _, lines = report_on(50, halves, suspects)
    (line,) = map(json.loads, b"".join(lines).splitlines())
    shown = [record["key"] for record in line["records"]]
    assert shown == ["key 0", "key 5", *(f"key {n}" for n in (1, 2, 3, 4, 6, 7, 8, 9))]
    assert sum(read) == len(shown)
