"""A pytest plugin that divides the tests: one set of parameters of each slow test, and all others.

    pytest -p tests.one_of_each             make test: every fast test, and one of each slow one
    pytest -p tests.one_of_each --others    make test-others: what the first command leaves out

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
    """Add the option that selects the others."""
    parser.addoption("--others", action="store_true", help="run what is left out otherwise")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect one of the two groups."""
    chosen, others = divide(items)
    if config.option.others:
        chosen, others = others, chosen
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


def divide(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return one set of parameters of each slow test with all fast tests, and all other tests."""
    sets: dict[str, list[pytest.Item]] = {}
    for item in items:
        sets.setdefault(_name(item), []).append(item)
    chosen, others = [], []
    for item in items:
        alike = sets[_name(item)]
        is_one = alike[zlib.crc32(_name(item).encode()) % len(alike)] is item
        is_chosen = (is_one or not is_slow(item.path)) and not item.get_closest_marker("long")
        (chosen if is_chosen else others).append(item)
    return chosen, others


def _name(item: pytest.Item) -> str:
    """Return the identifier of a test without its parameters, but with their kind."""
    kind = item.get_closest_marker("kind")
    name = item.nodeid.partition("[")[0]
    return name if kind is None else f"{name}[{kind.args[0]}"
