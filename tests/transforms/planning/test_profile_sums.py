"""Profiles of groups of columns, summed by group, inline or in files of staging."""

import numpy as np
import pyarrow as pa
import pytest

from recordmill.job.staging import Staging
from recordmill.profile.schema_rules import SchemaRules
from recordmill.storage.files import Location
from recordmill.transforms.model import limits
from recordmill.transforms.planning import part_task, profile_sums
from recordmill.transforms.planning.part_task import DataProfiler
from recordmill.transforms.planning.profile_sums import Profile
from recordmill.transforms.statistics.infer_schema import infer_schema
from recordmill.transforms.statistics.statistics_proto import join_messages

ROWS = 40


@pytest.fixture
def staging(tmp_path):
    return Staging.of(Location.parse(str(tmp_path)), "job")


def parts():
    """Return parts of the same columns, in another order in each."""
    generator = np.random.default_rng(0)
    for number in range(3):
        columns = {
            "int": pa.array(generator.integers(0, 9, ROWS)),
            "text": pa.array(generator.choice(["a", "b", "c"], ROWS)),
            "float": pa.array(generator.normal(size=ROWS), mask=generator.random(ROWS) < 0.2),
            "bytes": pa.array([b"x" * (n % 5) for n in range(ROWS)]),
            "list": pa.array([[1.0] * (n % 3) for n in range(ROWS)]),
            "other": pa.array(generator.normal(size=ROWS)),
        }
        names = [*columns][number:] + [*columns][:number]
        system = {
            "__key__": pa.array([f"{number}/{row}" for row in range(ROWS)]),
            "__split__": pa.array(np.resize(["train", "test"], ROWS)),
            "__label__": pa.array(generator.choice(["yes", "no"], ROWS)),
        }
        yield pa.RecordBatch.from_pydict(system | {name: columns[name] for name in names})


def profiled(staging):
    """Return the joined profile of all parts, and the number of groups."""
    profiler = DataProfiler(labelled=True, rules=SchemaRules(columns={}))
    by_group = {}
    for rows in parts():
        pieces = part_task.write_pieces(profiler.profile(rows), staging)
        for group, piece in enumerate(pieces):
            by_group.setdefault(group, []).append(piece)
    found = []
    for group, pieces in by_group.items():
        halves = [profile_sums.sum_group(pieces[:2], staging), *pieces[2:]]
        piece = profile_sums.sum_group(halves, staging)
        found.append((group, profile_sums.conclude_group(piece, staging, whole=True)))
    return Profile.join(found[::-1], staging), len(found)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_groups_of_columns_give_the_statistics_of_all_columns(monkeypatch, staging, columns):
    expected, groups = profiled(staging)
    assert groups == 1
    monkeypatch.setattr(limits, "PROFILED_COLUMNS", columns)
    found, groups = profiled(staging)
    assert groups == -(-7 // columns)  # one more for the label
    assert join_messages(found.messages) == join_messages(expected.messages)
    assert infer_schema(found.whole) == infer_schema(expected.whole)
    assert [*found.whole.columns] == [*expected.whole.columns]
    assert found.profile.violations == expected.profile.violations


@pytest.mark.parametrize("inline", ["none", "one part"])
def test_large_profiles_and_sums_are_in_files(monkeypatch, staging, inline):
    """Flink fails on elements of the pipeline that exceed its sort buffer."""
    expected, _ = profiled(staging)
    profiles = [[*DataProfiler(labelled=True).profile(rows)] for rows in parts()]
    pieces = [piece for one in profiles for piece in part_task.write_pieces(one, staging)]
    assert all(data for data, *_ in pieces)
    largest = max(len(data) for data, *_ in pieces)
    monkeypatch.setattr(limits, "INLINE_BYTES", largest if inline == "one part" else 0)
    pieces = [piece for one in profiles for piece in part_task.write_pieces(one, staging)]
    assert all(bool(data) == (inline == "one part") for data, *_ in pieces)
    total = profile_sums.sum_group(pieces, staging)
    assert total[0] == b""
    assert total[3] > largest
    found, _ = profiled(staging)
    assert join_messages(found.messages) == join_messages(expected.messages)


def test_no_records_have_no_statistics(staging):
    profile = Profile.join([], staging)
    assert profile.whole is None
    assert join_messages(profile.messages) == b""


def test_rows_without_columns_are_counted(staging):
    rows = next(parts()).select(["__key__", "__split__", "__label__"])
    pieces = part_task.write_pieces(DataProfiler(labelled=False).profile(rows), staging)
    piece = profile_sums.conclude_group(*pieces, staging, whole=True)
    profile = Profile.join([(0, piece)], staging)
    assert profile.whole.records == ROWS
    assert not profile.whole.columns
