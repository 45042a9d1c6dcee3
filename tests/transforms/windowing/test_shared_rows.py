"""Series with the same rows at the same times, which splits by series would divide."""

import random

import pyarrow as pa
import pytest

from recordmill.transforms.model import batch
from recordmill.transforms.windowing.shared_rows import RowSample, largest_rank
from recordmill.transforms.windowing.time_survey import SERIES, TIME
from tests.image_runs import make

NOISE = random.Random(1)
VALUES = [NOISE.gauss(0, 1) for _ in range(400)]


def rows(series: dict[str, list[tuple[int, float]]], group: str | None = None) -> pa.RecordBatch:
    found = [(name, *row) for name, some in sorted(series.items()) for row in some]
    return pa.record_batch(
        {
            SERIES: [name for name, *_ in found],
            batch.GROUP: pa.array([group] * len(found), pa.string()),
            TIME: [time for _, time, _ in found],
            "x": [value for *_, value in found],
            "y": [str(value) for *_, value in found],
        }
    )


def pairs(some: pa.RecordBatch, *, by_group: bool = False, without=(), total: int = 0):
    largest = largest_rank(max(total, len(some)))
    return RowSample.of(some, largest=largest, by_group=by_group, without=without).pairs()


def span(start: int, end: int, *, shift: int = 0) -> list[tuple[int, float]]:
    return [(60 * n, VALUES[n + shift]) for n in range(start, end)]


SERIES_ALIKE = [
    ({"a": span(0, 200), "b": span(0, 200)}, [("a", "b")]),
    ({"a": span(0, 200), "b": span(150, 350)}, [("a", "b")]),
    ({"a": span(0, 200), "b": span(200, 300)}, []),
    ({"a": span(0, 200), "b": span(0, 200, shift=1)}, []),  # the same values an hour later
    ({name: [(n, 5.0) for n in range(200)] for name in "ab"}, []),  # machines at rest
    ({name: [(n, float(n % 2)) for n in range(200)] for name in "ab"}, []),  # few values
    ({"a": [(n, float(n // 9)) for n in range(300)], "b": span(0, 200)}, []),
    ({"a": span(0, 200), "b": [*span(0, 100), *span(100, 200, shift=9)]}, []),
    ({name: [(n, float(n)) for n in range(300)] for name in "abc"},
     [("a", "b"), ("a", "c"), ("b", "c")]),
]  # fmt: skip


@pytest.mark.parametrize(("series", "found"), SERIES_ALIKE)
def test_series_that_share_rows(series, found):
    assert pairs(rows(series)) == found
    assert pairs(rows(series, group="machine"), by_group=True) == []
    assert pairs(rows(series), without=("x", "y")) == []


@pytest.mark.parametrize(("series", "found"), SERIES_ALIKE)
def test_the_sum_of_samples_is_the_sample_of_all_rows(series, found):
    parts = [RowSample.of(rows({name: some}), largest=largest_rank(0), by_group=False)
             for name, some in series.items()]  # fmt: skip
    assert RowSample.sum(parts).pairs() == RowSample.sum(reversed(parts)).pairs() == found


def test_a_sample_of_many_rows_finds_copies():
    some = rows({name: [(n, NOISE.random()) for n in range(5000)] for name in "abcd"})
    copies = rows({"copy": list(zip(range(5000), some["x"].to_pylist()[:5000], strict=True))})
    whole = batch.concat([some, copies])
    sample = RowSample.of(whole, largest=largest_rank(len(whole)), by_group=False)
    assert 3000 < len(sample.rows) <= 4096
    assert sample.pairs() == [("a", "copy")]


@pytest.fixture
def exports(tmp_path):
    (tmp_path / "in").mkdir()
    for name, start in (("jan.csv", 0), ("jan (1).csv", 0), ("feb.csv", 300)):
        lines = [f"{time},{value}" for time, value in span(start, min(start + 100, 400))]
        (tmp_path / "in" / name).write_text("\n".join(["time,x", *lines]))
    return "--input", tmp_path / "in", "--time-column", "time", "--window", "10"


@pytest.mark.parametrize(
    ("options", "noted"),
    [
        (("--splits", "train=0.5,test=0.5"), True),
        (("--split-by", "time"), False),
        (("--splits", "train=1"), False),
    ],
)
def test_exports_of_the_same_time_are_noted(exports, options, noted, tmp_path):
    made = make(tmp_path / "out", *exports, *options, command="sensor")
    notes = [str(note) for note in made.manifest.notes if note.code == "shared-rows"]
    assert len(notes) == noted
    assert all("same times: 'jan (1).csv' and 'jan.csv'. They may be in" in note for note in notes)
