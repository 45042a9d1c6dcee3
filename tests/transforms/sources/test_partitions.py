"""Folders KEY=VALUE, and names of splits with a year or a key."""

import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.split_names import canonical_split
from recordmill.transforms.sources.files.partitions import find_partitions, values_of
from recordmill.transforms.sources.files.path_facts import partition_of

VALUES = st.text(min_size=1).filter(lambda text: text != "__HIVE_DEFAULT_PARTITION__")


@given(value=VALUES)
def test_a_quoted_value_is_read_as_it_was(value: str) -> None:
    name = f"kind={urllib.parse.quote(value, safe='')}"
    assert partition_of(name) == ("kind", value)
    assert values_of(f"{name}/file=1.csv") == {"kind": value}


@pytest.mark.parametrize("name", ["kind", "=cat", "1=cat", "", "a+b=1"])
def test_other_names(name: str) -> None:
    assert partition_of(name) is None


def test_levels_of_partitions() -> None:
    tree = {"": ["a=1", "a=2"], "a=1": ["b=3", "b="], "a=1/b=3": ["x", "y"]}
    found = find_partitions(tree[""], lambda path: tree.get(path, []))
    assert found.keys == (("a", ("1", "2")), ("b", ("3",)))
    assert found.below == ("x", "y")
    assert find_partitions(["a=1", "b=1"], lambda path: []) == ((), ())


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train2017", "train"),
        ("Val-2014", "validation"),
        ("test_1999", "test"),
        ("Split-train", "train"),
        ("split-eval", "test"),
        ("subset=Test", "test"),
        ("train2117", None),
        ("train17", None),
        ("unlabeled2017", None),
        ("trainval2017", None),
        ("splittrain", None),
        ("kind=cat", None),
    ],
)
def test_names_of_splits(name: str, split: str | None) -> None:
    assert canonical_split(name) == split
