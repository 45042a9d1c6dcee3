"""`--split-by time` and `series-time`: the splits of series of different periods."""

import itertools
import json
import pathlib
from collections import Counter

import pytest

from recordmill.pipelines.cli import main
from recordmill.transforms.model import limits
from tests.image_runs import Made, run
from tests.image_runs import make as make_any

pytestmark = pytest.mark.usefixtures("encoders")

START = 1767225600  # 2026-01-01
HOUR = 3600
# (first hour, rows) of each series: one period after another, and two that are too short.
PERIODS = {
    "a": (0, 100),
    "b": (100, 40),
    "c": (140, 61),
    "d": (201, 250),
    "e": (0, 5),
    "f": (451, 9),
}
PERIODS_AT_ONCE = dict.fromkeys("abcdefg", (0, 60))
SPLITS = ("--splits", "train=0.6,validation=0.2,test=0.2")


def table(folder: pathlib.Path, periods: dict[str, tuple[int, int]]) -> tuple[object, ...]:
    """A file with a row an hour of each series, and the options that read it."""
    rows = [
        (START + HOUR * (first + row), name, row, "ab"[row % 10 > 6])
        for name, (first, count) in periods.items()
        for row in range(count)
    ]
    lines = [f"{time},{name},{row},{label}" for time, name, row, label in sorted(rows)]
    (folder / "in.csv").write_text("\n".join(["time,machine,v,label", *lines]))
    return (
        *("--input", folder / "in.csv", "--time-column", "time", "--series-column", "machine"),
        *SPLITS,
    )


def make(folder: pathlib.Path, *argv: object) -> Made:
    made = make_any(folder, *argv, command="sensor")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def rows_by_split(made: Made) -> dict[str, dict[str, list[int]]]:
    """{series: {split: rows in its windows, in order}}"""
    found: dict[str, dict[str, list[int]]] = {}
    for split in made.manifest.splits:
        for (key, _), example in made.examples(split).items():
            of = found.setdefault(key.partition("@")[0], {})
            of.setdefault(split, []).extend(map(int, example["v"]))
    return {
        series: {split: sorted({*rows}) for split, rows in of.items()}
        for series, of in found.items()
    }


def notes(made: Made, code: str) -> list[str]:
    return [str(note) for note in made.manifest.notes if note.code == code]


@pytest.mark.parametrize("purge", [0, 2])
def test_series_time_divides_each_series_by_its_own_rows(purge, tmp_path):
    options = ("--split-by", "series-time", "--window", 2, "--stride", 1)
    options += ("--purge", f"{purge}h") if purge else ()
    made = make(tmp_path / "out", *table(tmp_path, PERIODS), *options)
    for series, of in rows_by_split(made).items():
        count = PERIODS[series][1]
        begins = [0, round(0.6 * count), round(0.8 * count), count]
        for number, split in enumerate(("train", "validation", "test")):
            first = begins[number] + (purge if number else 0)
            expected = [*range(first, begins[number + 1])]
            assert of.get(split, []) == (expected if len(expected) > 1 else [])


@pytest.mark.parametrize(
    ("split_by", "options"),
    [
        ("series-time", ()),
        ("series-time", ("--step", "2h")),
        ("series-time", ("--gap-policy", "fill", "--max-gap", "2h")),
        ("series-time", ("--horizon", 2, "--target", "v", "--last-window", "test")),
        ("time", ()),
    ],
)
def test_windows_never_span_two_splits(split_by, options, tmp_path):
    argv = (*table(tmp_path, PERIODS), "--split-by", split_by, "--window", 4, "--stride", 1)
    made = make(tmp_path / "out", *argv, *options)
    for of in rows_by_split(made).values():
        in_order = [of[split] for split in ("train", "validation", "test") if split in of]
        for before, after in itertools.pairwise(in_order):
            assert before[-1] < after[0]


def test_time_divides_all_series_at_one_moment(tmp_path):
    argv = (*table(tmp_path, PERIODS), "--split-by", "time", "--window", 1)
    made = make(tmp_path / "out", *argv)
    hours = {
        split: [PERIODS[series][0] + row for series, of in rows_by_split(made).items()
                for row in of.get(split, [])]
        for split in ("train", "validation", "test")
    }  # fmt: skip
    assert max(hours["train"]) < min(hours["validation"])
    assert max(hours["validation"]) < min(hours["test"])
    rows = sum(count for _, count in PERIODS.values())
    assert len(hours["train"]) == round(0.6 * rows)


def test_series_of_one_split_are_counted_and_named(tmp_path):
    argv = (*table(tmp_path, PERIODS), "--window", 4)
    made = make(tmp_path / "time", *argv, "--split-by", "time")
    assert notes(made, "one-split") == [
        "5 of 6 series have windows in one split only: 4 in train ('a', 'b', 'c', ...), 1 in test"
        " ('f'); --split-by time divides all series at the same times, --split-by series-time"
        " each series by its own time"
    ]
    made = make(tmp_path / "series-time", *argv, "--split-by", "series-time")
    assert notes(made, "one-split") == [
        "1 of 5 series has windows in one split only: 1 in train ('f'); they are too short for a"
        " window in each split, or have gaps: lower --window"
    ]
    argv = (*table(tmp_path, PERIODS_AT_ONCE), "--window", 4)
    for split_by in ("time", "series-time", "series"):
        made = make(tmp_path / f"at once {split_by}", *argv, "--split-by", split_by)
        assert not notes(made, "one-split")


def test_copies_of_a_series_are_noted_with_series_time(tmp_path):
    """The test rows of one series may be in train of another."""
    argv = (*table(tmp_path, {"a": (0, 300), "copy": (0, 150)}), "--window", 4)
    made = make(tmp_path / "out", *argv, "--split-by", "series-time")
    assert len(notes(made, "shared-rows")) == 1
    assert not notes(make(tmp_path / "time", *argv, "--split-by", "time"), "shared-rows")


def test_the_same_bytes_with_any_workers_and_sizes_of_cells(tmp_path, monkeypatch):
    argv = (*table(tmp_path, PERIODS), "--split-by", "series-time", "--window", 3, "--purge", "1h")
    argv += ("--label-column", "label", "--balance", "oversample", "--zscore", "v")
    argv += ("--zscore-by", "series", "--step", "1h")
    made = make(tmp_path / "out", *argv)
    monkeypatch.setattr(limits, "CELL_ROWS", 16)
    again = make(tmp_path / "again", *argv, "--workers", 2, "--spill-above", 1)
    one, other = ((m.folder / "dataset.json").read_bytes() for m in (made, again))
    assert one == other


def test_balance_and_scaling_use_the_rows_of_train(tmp_path):
    argv = (*table(tmp_path, PERIODS), "--split-by", "series-time", "--window", 1)
    argv += ("--label-column", "label", "--balance", "oversample", "--zscore", "v")
    made = make(tmp_path / "out", *argv, "--zscore-by", "series")
    train = made.manifest.splits["train"].classes
    assert train["a"] == train["b"]
    held = Counter(copy for split in ("validation", "test") for _, copy in made.examples(split))
    assert set(held) == {0}
    for series, (_, count) in PERIODS.items():
        kept = [e for (key, _), e in made.examples("test").items() if key.startswith(f"{series}@")]
        for example in kept:
            assert example["v/mean"][0] == pytest.approx((round(0.6 * count) - 1) / 2)
    assert not notes(made, "scaled-by-window")


def test_intervals_give_classes_to_rows_of_every_split(tmp_path):
    argv = (*table(tmp_path, PERIODS_AT_ONCE), "--drop-columns", "label")
    lines = [f"{name},{START + 10 * HOUR},{START + 55 * HOUR},fault" for name in PERIODS_AT_ONCE]
    (tmp_path / "intervals.csv").write_text("\n".join(["series,start,end,label", *lines]))
    made = make(tmp_path / "out", *argv, "--split-by", "series-time", "--window", 1, "--intervals",
                tmp_path / "intervals.csv", "--outside-label", "normal")  # fmt: skip
    classes = {name: split.classes for name, split in made.manifest.splits.items()}
    assert all(
        set(of) == {"fault", "normal"} for name, of in classes.items() if name != "validation"
    )
    assert classes["validation"] == {"fault": 12 * len(PERIODS_AT_ONCE)}


def test_a_dataset_of_series_time_is_learned_from(tmp_path):
    argv = (*table(tmp_path, PERIODS), "--window", 4, "--zscore", "v")
    argv += ("--split-by", "series-time")
    before = make(tmp_path / "out", *argv)
    made = make(tmp_path / "new", *argv, "--learned-from", before.folder, "--seed", 5)
    learned = json.loads((before.folder / "learned.json").read_text())
    assert json.loads((made.folder / "learned.json").read_text()) == learned
    assert made.manifest.features == before.manifest.features


def test_times_of_splits_contradict_series_time(tmp_path, capsys):
    argv = (*table(tmp_path, PERIODS_AT_ONCE), "--split-by", "series-time", "--window", 4)
    argv = (*(one for one in argv if one not in SPLITS), "--split-times", "test=2026-01-02")
    assert run("sensor", *argv, "--output", tmp_path / "out") == 2
    assert "--split-times: requires --split-by time" in " ".join(capsys.readouterr().err.split())


def test_the_splits_are_described_before_the_run(tmp_path, capsys):
    argv = (*table(tmp_path, PERIODS_AT_ONCE), "--window", 4, "--output", tmp_path / "out")
    assert main(["sensor", "--dry-run", *map(str, argv), "--split-by", "series-time"]) == 0
    out = capsys.readouterr()
    assert "each series by its own time" in " ".join((out.out + out.err).split())
