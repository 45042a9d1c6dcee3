"""A pytest plugin that divides the tests: one set of parameters of each slow test, and all others.

    pytest -p tests.one_of_each             make test: every fast test, and one of each slow one
    pytest -p tests.one_of_each --others    make test-others: what the first command leaves out
    pytest -p tests.one_of_each --others --part 1/4    every fourth of these
    pytest -p tests.one_of_each --fewest    one set of parameters of each test, fast or slow

A test is slow if its module is (`tests/fast_modules.py`). The set of parameters is chosen by a hash
of the name of the test, so that tests which take the same parameters run with different ones. If
sets are marked as a `kind`, one of each kind is chosen. Tests that are marked `long` are among the
others.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest

from tests.fast_modules import is_slow


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select others."""
    parser.addoption("--others", action="store_true", help="run what is left out otherwise")
    parser.addoption("--part", default="0/1", metavar="K/N", help="every Nth test, from the Kth on")
    parser.addoption("--fewest", action="store_true", help="one set also of each fast test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect one of the two groups."""
    chosen, others = divide(items, fewest=config.option.fewest)
    if config.option.others:
        chosen, others = others, chosen
    first, step = map(int, config.option.part.split("/"))
    items[:] = chosen[first::step]
    kept = {*map(id, items)}
    config.hook.pytest_deselected(items=[one for one in (*chosen, *others) if id(one) not in kept])


def divide(
    items: Sequence[pytest.Item], *, fewest: bool = False
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return one set of parameters of each slow test with all fast tests, and all other tests.

    fewest: one set also of each fast test.
    """
    sets: dict[str, list[pytest.Item]] = {}
    for item in items:
        sets.setdefault(_name(item), []).append(item)
    chosen, others = [], []
    for item in items:
        alike = sets[_name(item)]
        is_one = alike[zlib.crc32(_name(item).encode()) % len(alike)] is item
        is_chosen = is_one or (not fewest and not is_slow(item.path))
        is_chosen = is_chosen and not item.get_closest_marker("long")
        (chosen if is_chosen else others).append(item)
    return chosen, others


def _name(item: pytest.Item) -> str:
    """Return the identifier of a test without its parameters, but with their kind."""
    kind = item.get_closest_marker("kind")
    name = item.nodeid.partition("[")[0]
    return name if kind is None else f"{name}[{kind.args[0]}"
