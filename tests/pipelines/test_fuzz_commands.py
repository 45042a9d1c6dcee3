"""A short part of the fuzzing of commands, of which `make soak` runs more."""

import pytest

from tests.soak.fuzz_commands import fuzz_kind

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("kind", "count"), [("images", 20), ("table", 3)])
def test_mutated_inputs_do_no_harm_and_give_the_same_twice(kind, count, tmp_path) -> None:
    findings = fuzz_kind(kind, seed=0, first=0, count=count, place=tmp_path)
    assert findings.problems == []
    assert findings.outcomes
