"""Facts in the path of a file, and the errors of options that name a fact."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.processes import pool
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


@pytest.mark.parametrize("place", ["main thread", "other thread", "other handler"])
def test_a_search_that_takes_long_is_stopped(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_facts, "SEARCH_SECONDS", 0.05)
    if place == "other handler":
        monkeypatch.setattr(path_facts, "_handles_timer", lambda: False)
    fact = PathFact.parse("group_from", f"((a+)+)$|{place}")
    with ThreadPoolExecutor(1) as executor:

        def of(name: str) -> str | None:
            if place == "other thread":
                return executor.submit(fact.of, [], name).result()
            return fact.of([], name)

        assert [of(name) for name in ("a", "aa", "aaa", "b")] == ["a", "aa", "aaa", None]
        stopped = r"the search in 'a{40}b' was stopped after 0\.05 s \(those in 'aaa' and 'b' were"
        with pytest.raises(ConfigError, match=stopped):
            of("a" * 40 + "b")
        assert of("aaa") == "aaa"


def test_most_searches_in_threads_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "shared_pool", None)
    with ThreadPoolExecutor(1) as executor:
        for pattern, fact in (
            ("([^_]+)_", "p1"),
            (r"p(\d+)_(?:left|right)", "1"),
            ("_(.*)[.]", "left"),
        ):
            of = PathFact.parse("group_from", pattern).of
            assert executor.submit(of, [], "p1_left.png").result() == fact
