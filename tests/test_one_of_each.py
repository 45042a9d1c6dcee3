"""Division of the tests between `make test` and `make test-others`."""

import pathlib
import subprocess
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fast_modules import is_slow
from tests.one_of_each import divide
from tests.paths import ROOT

SLOW = "tests/test_one_of_each.py"
FAST = "tests/test_fast_modules.py"


def item(module: str, test: str, *, is_long: bool = False, kind: str = "") -> Any:
    markers = {"long": object()} if is_long else {}
    if kind:
        markers["kind"] = SimpleNamespace(args=(kind,))
    return SimpleNamespace(
        nodeid=f"{module}::{test}", path=ROOT / module, get_closest_marker=markers.get
    )


def names(items: Iterable[Any]) -> list[str]:
    return [item.nodeid.partition("::")[2] for item in items]


def test_one_set_of_parameters_of_each_slow_test_is_chosen():
    assert is_slow(ROOT / SLOW)
    items = [item(SLOW, f"test_{name}[{n}]") for name in "abcdef" for n in range(3)]
    chosen, others = divide(items)
    assert [name[:6] for name in names(chosen)] == [f"test_{name}" for name in "abcdef"]
    assert len({name[6:] for name in names(chosen)}) > 1  # not the first of each
    assert sorted(names(chosen + others)) == sorted(names(items))
    assert divide(items) == (chosen, others)


def test_slow_tests_without_parameters_and_fast_tests_are_chosen():
    assert not is_slow(ROOT / FAST)
    items = [item(SLOW, "test_a"), *(item(FAST, f"test_b[{n}]") for n in range(3))]
    assert divide(items) == (items, [])


def test_one_set_of_each_fast_test_is_chosen_if_the_fewest_are_asked_for():
    items = [item(FAST, f"test_{name}[{n}]") for name in "ab" for n in range(3)]
    chosen, others = divide(items, fewest=True)
    assert [name[:6] for name in names(chosen)] == ["test_a", "test_b"]
    assert len(others) == 4


def test_one_set_of_each_kind_is_chosen():
    items = [item(SLOW, f"test_a[{n}]", kind="xyz"[n % 3]) for n in range(12)]
    chosen, others = divide(items)
    assert sorted(one.get_closest_marker("kind").args[0] for one in chosen) == ["x", "y", "z"]
    assert len(others) == 9


@pytest.mark.parametrize("module", [SLOW, FAST])
def test_long_tests_are_others(module):
    items = [item(module, "test_a"), item(module, "test_b", is_long=True)]
    assert names(divide(items)[1]) == ["test_b"]


def test_both_commands_together_run_every_test(tmp_path: pathlib.Path):
    test = tmp_path / "test_it.py"
    test.write_text(
        "import subprocess, pytest\n"
        "@pytest.mark.parametrize('n', range(4))\ndef test_a(n): pass\n"
        "@pytest.mark.long\ndef test_b(): pass\n"
    )

    def collected(*arguments: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments, str(test)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return {line.partition("::")[2] for line in result.stdout.splitlines() if "::" in line}

    plugin = ("-p", "tests.one_of_each")
    chosen, others = collected(*plugin), collected(*plugin, "--others")
    assert len(chosen) == 1
    assert not chosen & others
    assert chosen | others == collected()
    parts = [collected(*plugin, "--others", "--part", f"{number}/3") for number in range(3)]
    assert [len(part) for part in parts] == [2, 1, 1]
    assert set.union(*parts) == others
