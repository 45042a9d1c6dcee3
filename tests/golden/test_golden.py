"""Every command of the golden matrix gives what was recorded."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.golden import matrix
from tests.paths import ROOT

Ask = Callable[[str], matrix.Outcome]


@pytest.fixture(scope="session")
def outcome(tmp_path_factory) -> Iterator[Ask]:
    """A function from the name of a case to its outcome.

    A process of their own runs the commands: where TensorFlow is, Pillow would find another zlib.
    """
    runs = subprocess.Popen(
        [sys.executable, "-m", "tests.golden", "--serve", tmp_path_factory.mktemp("golden")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(name: str) -> matrix.Outcome:
        runs.stdin.write(f"{name}\n")
        runs.stdin.flush()
        return json.loads(runs.stdout.readline())

    yield ask
    runs.stdin.close()
    runs.wait()


RECORDED = matrix.recorded()
CASES = [
    pytest.param(name, marks=pytest.mark.kind(case.cell)) for name, case in matrix.cases().items()
]


@pytest.mark.parametrize("name", CASES)
def test_a_command_gives_what_was_recorded(name: str, outcome: Ask) -> None:
    assert matrix.differences(name, outcome(name), *RECORDED) == []


def test_every_recorded_case_is_one() -> None:
    assert set(RECORDED[1]) == set(matrix.cases())


def test_no_command_crashes() -> None:
    exits = {case["exit"] for case in RECORDED[1].values()}
    assert exits == {0, 1, 2}


def test_refused_commands_name_an_option_or_what_was_given() -> None:
    refused = [one for name, one in RECORDED[1].items() if "/refused/" in name]
    assert len(refused) > 40
    assert all(one["exit"] and (one["options"] or one["names"]) for one in refused)
    assert sum(bool(one["options"]) for one in refused) > 0.8 * len(refused)


def differences_of(**changed: object) -> list[str]:
    given = {"exit": 0, "digest": "d", "notes": ["leak"], "encoders": {"lib": "1"}}
    recorded = {"x": {key: value for key, value in given.items() if key != "encoders"}}
    return matrix.differences("x", {**given, **changed}, {"lib": "1"}, recorded)


def test_digests_are_compared_if_the_libraries_are_those_of_the_recording() -> None:
    assert differences_of() == []
    assert differences_of(digest="e") == ["digest: d became e"]
    assert differences_of(digest="e", encoders={"lib": "2"}) == []
    assert differences_of(notes=[], encoders={"lib": "2"}) == ["notes: ['leak'] became []"]
