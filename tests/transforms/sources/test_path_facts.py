"""Facts in the path of a file, and the errors of options that name a fact."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.transforms.sources.files import path_facts
from recordmill.transforms.sources.files.path_facts import PathFact

PATH = "site=9/subject_01/left eye/0017.a.png"
FACTS = {
    "top": "site=9",
    "parent": "left eye",
    "folder:1": "site=9",
    "folder:2": "subject_01",
    "folder:3": "left eye",
    "folder:4": None,
    "folder:-1": "left eye",
    "folder:-3": "site=9",
    "folder:-4": None,
    "file": "0017.a",
    "site=": "9",
    "place=": None,
    r"subject_(\d+)/": "01",
    r"/(\d+)\.": "0017",
    r"(x)": None,
}


@pytest.mark.parametrize("text", FACTS)
def test_a_fact_in_a_path(text: str) -> None:
    *folders, name = PATH.split("/")
    assert PathFact.parse("group_from", text).of(folders, name) == FACTS[text]


@pytest.mark.parametrize(
    ("name", "stem"), [("a.png", "a"), ("a", "a"), (".png", ".png"), ("a.", "a"), ("a.b.c", "a.b")]
)
def test_names_without_extension(name: str, stem: str) -> None:
    assert PathFact.parse("label_from", "file").of([], name) == stem


@given(folders=st.lists(st.text("abc", min_size=1), max_size=5), level=st.integers(1, 6))
def test_folders_are_counted_from_both_ends(folders: list[str], level: int) -> None:
    from_top = PathFact.parse("label_from", f"folder:{level}").of(folders, "x")
    from_file = PathFact.parse("label_from", f"folder:-{level}").of(folders[::-1], "x")
    assert from_top == from_file == (folders[level - 1] if level <= len(folders) else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folder:0", ": expected 1 for the first folder"),
        ("folders", ": expected top, parent, folder:N, file, KEY=, or a"),
        ("a(", ": not a valid regular expression: missing ), unterminated subpattern"),
        ("=", ": expected top"),
    ],
)
def test_other_values_are_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        PathFact.parse("group_from", text)


def test_the_first_match_counts() -> None:
    assert PathFact.parse("group_from", r"p([0-9]+)").of(["p1"], "p2_p3.png") == "1"


def test_a_search_that_takes_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_facts, "SEARCH_SECONDS", 0.05)
    fact = PathFact.parse("group_from", "((a+)+)$")
    assert fact.of([], "aaa") == "aaa"
    with pytest.raises(ConfigError, match=r"the search in 'a{40}b' was stopped after 0\.05 s"):
        fact.of([], "a" * 40 + "b")
    assert fact.of([], "aaa") == "aaa"
