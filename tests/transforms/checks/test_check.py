"""Parts are prepared side by side, the largest first, whatever bundle they are in."""

import threading

import apache_beam as beam
import pytest

from recordmill.errors import RunError
from recordmill.job.staging import StagedPart
from recordmill.transforms.checks.prepare_parts import PrepareParts
from tests.beam_results import results

_begun: list[str] = []
_all = threading.Barrier(4)
_slow_begun = threading.Event()
_failed = threading.Event()
_written: list[str] = []


def part(name, reads=0):
    return StagedPart(name=name, rows=1, bytes=1, reads=reads)


def prepared(make, parts, **options):
    def build(pipeline):
        return {"parts": pipeline | beam.Create(parts) | PrepareParts(make, **options)}

    return results(build, workers=1).get("parts", [])


def note(part):
    _begun.append(part.name)
    return [part, part]


def meet(part):
    _all.wait(timeout=60)
    return [part]


def fail_or_write(part):
    if part.name == "bad":
        assert _slow_begun.wait(timeout=60)  # what has not begun is cancelled
        _failed.set()
        raise RunError("a disk is full")
    if part.name == "slow":
        _slow_begun.set()
    assert _failed.wait(timeout=60)
    _written.append(part.name)
    return [part]


def test_the_largest_is_begun_first():
    _begun.clear()
    parts = [part("b", 5), part("small", 1), part("large", 9), part("a", 5)]
    found = prepared(note, parts)
    assert _begun == ["large", "a", "b", "small"]
    assert sorted(found, key=str) == sorted(2 * parts, key=str)


def test_parts_of_a_bundle_are_prepared_side_by_side():
    _all.reset()
    parts = [part(str(number)) for number in range(8)]
    assert sorted(prepared(meet, parts, at_once=4), key=str) == parts


def test_nobody_writes_any_more_when_one_has_failed():
    _slow_begun.clear()
    _failed.clear()
    _written.clear()
    with pytest.raises(RunError, match="a disk is full"):
        prepared(fail_or_write, [part("bad", 9), part("slow", 8), part("late")], at_once=2)
    assert "slow" in _written
