import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.checking import record_diff
from recordmill.checking.record_diff import diff_records
from recordmill.checking.record_differences import KINDS, RecordDiff
from recordmill.format.content_hashes import digest_halves
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests.make_dataset import Row, flower, make_dataset

Splits = Mapping[str, Sequence[Sequence[Row]]]


def compared(folder: pathlib.Path, before: Splits, after: Splits) -> RecordDiff:
    for name, splits in (("before", before), ("after", after)):
        make_dataset(folder / name, splits)
    places = [Location.parse(str(folder / name)) for name in ("before", "after")]
    one, two = [(place, load(place)) for place in places]
    return diff_records(one, two)


def counts(found: RecordDiff) -> dict[str, int]:
    return {kind: one.count for kind, one in found.kinds.items() if one.count}


def test_each_kind_is_found(tmp_path: pathlib.Path) -> None:
    a, b, c, d, e = (flower(key, "rose") for key in "abcde")
    before = {"train": [[a, b], [c, d]], "test": [[e]]}
    after = {
        "train": [
            [dataclasses.replace(b, label="tulip"), e.having(caption=[b"other"])],
            [c, dataclasses.replace(c, copy=1), flower("f", "tulip")],
        ],
        "test": [[a]],
    }
    found = compared(tmp_path, before, after)
    # e moved, and its bytes have changed.
    assert counts(found) == {
        "added": 1, "removed": 1, "moved": 2, "relabelled": 1, "changed": 1, "copies": 1
    }  # fmt: skip
    assert found.same == 0
    assert found.by == "frames"
    examples = {kind: [one.key for one in found.kinds[kind].examples] for kind in KINDS}
    assert examples["added"] == ["f"]
    assert examples["removed"] == ["d"]
    assert sorted(examples["moved"]) == ["a", "e"]
    assert examples["copies"] == ["c"]
    assert found.kinds["moved"].pairs == {("train", "test"): 1, ("test", "train"): 1}
    assert found.kinds["relabelled"].pairs == {("rose", "tulip"): 1}
    [relabelled] = found.kinds["relabelled"].examples
    assert relabelled.before is not None
    assert relabelled.after is not None
    assert (relabelled.before.label, relabelled.before.number) == ("rose", 1)
    assert (relabelled.after.label, relabelled.after.number) == ("tulip", 0)
    [copied] = found.kinds["copies"].examples
    assert copied.before is not None
    assert copied.after is not None
    assert (copied.before.copies, copied.after.copies) == (0, 1)


def test_equal_datasets_have_no_difference(tmp_path: pathlib.Path) -> None:
    rows = {"train": [[flower("a", "rose"), flower("b", "tulip")]]}
    found = compared(tmp_path, rows, rows)
    assert counts(found) == {}
    assert found.same == 2


def test_frames_of_gzip_shards_are_read_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [flower(key, "rose") for key in "abcdef"]
    make_dataset(tmp_path / "before", {"train": [rows[:5], rows[5:]]}, compression="gzip")
    rows[3] = rows[3].having(caption=[b"other"])
    make_dataset(tmp_path / "after", {"train": [rows]}, compression="gzip")
    monkeypatch.setattr(record_diff, "_BATCH", 2)
    opened = []
    read = record_diff.Records.payloads

    def payloads(*arguments: Any) -> Iterator[bytes]:
        opened.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(record_diff.Records, "payloads", payloads)
    places = [Location.parse(str(tmp_path / name)) for name in ("before", "after")]
    found = diff_records(*((place, load(place)) for place in places))
    assert counts(found) == {"changed": 1}
    assert [one.key for one in found.kinds["changed"].examples] == ["d"]
    assert len(opened) == 2


def test_an_empty_dataset(tmp_path: pathlib.Path) -> None:
    found = compared(tmp_path, {"train": []}, {"train": [[flower("a", "rose")]]})
    assert counts(found) == {"added": 1}


keyed = st.dictionaries(
    st.sampled_from("abcdefghijkl"),
    st.tuples(
        st.sampled_from(["train", "test"]), st.sampled_from(["rose", "tulip"]), st.integers(0, 2)
    ),
)


@settings(max_examples=25, deadline=None)
@given(before=keyed, after=keyed, rows=st.sampled_from([1, 3, 1 << 19]))
def test_counts_are_those_of_sets(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, tuple[str, str, int]],
    after: dict[str, tuple[str, str, int]],
    rows: int,
) -> None:
    """However many temporary files there are."""
    made = []
    for states in (before, after):
        splits: dict[str, list[list[Row]]] = {"train": [], "test": []}
        for key, (split, label, copies) in states.items():
            # A shard per record and its copies, so that copies and keys are in any order.
            splits[split].append([flower(key, label, copy=n) for n in reversed(range(copies + 1))])
        made.append(splits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_diff, "_FILE_ROWS", rows)
        found = compared(tmp_path_factory.mktemp("diff"), *made)
    both = before.keys() & after.keys()
    differ = [sum(before[key][place] != after[key][place] for key in both) for place in range(3)]
    assert [found.kinds[kind].count for kind in ("added", "removed")] == [
        len(after.keys() - before.keys()), len(before.keys() - after.keys())
    ]  # fmt: skip
    assert [found.kinds[kind].count for kind in ("moved", "relabelled", "copies")] == differ
    # A class is not content; but the caption, which b does not have, names it.
    named = sum(before[key][1] != after[key][1] for key in both - {"b"})
    assert found.kinds["changed"].count == named
    assert found.same == sum(before[key] == after[key] for key in both)
    assert found.uncompared == 0


def test_hashes_are_split_into_halves_in_their_order() -> None:
    high, low = digest_halves(bytes(range(32))).T
    assert [hex(value) for value in np.concatenate([high, low]).tolist()] == [
        "0x1020304050607", "0x1011121314151617", "0x8090a0b0c0d0e0f", "0x18191a1b1c1d1e1f"
    ]  # fmt: skip
