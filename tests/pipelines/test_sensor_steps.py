"""`recordmill sensor` on series with different steps, and messages on times and short series."""

import datetime
import pathlib
import re
import zoneinfo
from collections import Counter

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made, run
from tests.image_runs import make as make_any

pytestmark = pytest.mark.usefixtures("encoders")

START = 1767225600  # 2026-01-01


def make(folder: pathlib.Path, *argv: object) -> Made:
    made = make_any(folder, *argv, command="sensor")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def written(folder: pathlib.Path, series: dict[str, list[int]], **every: str) -> tuple[object, ...]:
    """A table of {series: seconds of its rows}, interleaved in time, and how it is read."""
    rows = sorted((at, name) for name, times in series.items() for at in times)
    lines = [f"{START + at},{name},{at % 7},{every.get(name, '1h')}" for at, name in rows]
    (folder / "in.csv").write_text("\n".join(["time,machine,v,every", *lines]))
    return (
        *("--input", folder / "in.csv", "--time-column", "time", "--series-column", "machine"),
        *("--splits", "train=1"),
    )


def starts(made: Made) -> Counter[str]:
    return Counter(key.partition("@")[0] for key, _ in made.examples())


def notes(made: Made, code: str) -> list[str]:
    return [note for note in made.manifest.notes if getattr(note, "code", None) == code]


def refused(capsys, *argv: object) -> str:
    assert run("sensor", *argv) in (1, 2)
    return " ".join(capsys.readouterr().err.split())


UNLIKE = {
    "fast": [60 * i for i in range(240)],
    "slow": [3600 * i for i in range(24)],
    "short": [0, 60, 120],
    "torn": [7200 * (i // 3) + 60 * (i % 3) for i in range(30)],
}


def test_each_series_has_its_own_step_and_those_without_a_window_are_named(tmp_path):
    made = make(tmp_path / "out", *written(tmp_path, UNLIKE), "--window", 12)
    assert starts(made) == {"fast": 20, "slow": 2}
    assert notes(made, "no-window") == [
        "2 series have no window: 'short' (too short: 3 rows in 2min), 'torn' (gaps: the longest"
        " run has 3 of its 30 rows in 2min); a window needs 12 rows without a gap: lower --window,"
        " or raise --max-gap"
    ]
    ledger = made.manifest.ledger.inputs
    assert (ledger.read, ledger.filtered) == (264, 33)


def changing(*stretches: tuple[int, int]) -> list[int]:
    """Seconds of rows, in stretches of (rows, seconds from each to the next)."""
    times = [0]
    for rows, step in stretches:
        times += [times[-1] + step * (i + 1) for i in range(rows)]
    return times[:-1]


@pytest.mark.parametrize(
    ("series", "options", "words"),
    [
        ({"a": changing((300, 60), (200, 10))}, (),
         "1 series has rows at several steps: 'a' (its step is 1min, but 199 rows are 10s after the"
         " row before, and in windows that span less time); --step 1min resamples all rows to one"
         " step (--resample)"),
        ({"a": changing((200, 60), (300, 10)), "b": UNLIKE["fast"]}, (),
         "1 series has rows at several steps: 'a' (its step is 10s, but 200 rows are 1min after the"
         " row before, which is a gap of more than 15s); --step 1min resamples all rows to one step"
         " (--resample); --max-gap 1min joins them in windows that span unlike times"),
        ({"a": changing((200, 60), (300, 10))},
         ("--gap-policy", "fill", "--max-gap", "90s"), "and in windows that span more time"),
    ],
)  # fmt: skip
def test_series_whose_step_changes_are_noted(series, options, words, tmp_path):
    argv = (*written(tmp_path, series), "--split-by", "time", "--window", 12, *options)
    (note,) = notes(make(tmp_path / "out", *argv), "steps")
    assert words in note
    assert ("joins" in note) == ("joins" in words)


@pytest.mark.parametrize(
    ("times", "options"),
    [
        ([86400 * (7 * week + day) for week in range(9) for day in range(5)], ()),
        (UNLIKE["torn"], ()),
        (changing((300, 60), (6, 10)), ()),
        (changing((300, 60), (200, 10)), ("--step", "1min")),
    ],
    ids=["weekdays", "bursts", "few rows", "resampled"],
)
def test_series_of_one_step_with_gaps_are_not_noted(times, options, tmp_path):
    argv = (*written(tmp_path, {"a": times}), "--window", 3, *options)
    assert not notes(make(tmp_path / "out", *argv), "steps")


def test_gaps_are_filled_by_the_step_of_each_series(tmp_path):
    series = {
        "fast": [60 * i for i in range(12) if i not in (4, 5)],
        "slow": [3600 * i for i in range(12) if i not in (4, 5)],
    }
    made = make(tmp_path / "out", *written(tmp_path, series), *("--window", 12),
                *("--gap-policy", "fill"))  # fmt: skip
    assert starts(made) == {"fast": 1, "slow": 1}
    for (key, _), example in made.examples().items():
        step = 60 if key.startswith("fast") else 3600
        assert list(example["v"]) == [step * (3 if i in (4, 5) else i) % 7 for i in range(12)]


def test_a_column_gives_each_series_the_step_to_which_it_is_resampled(tmp_path):
    series = {"fast": UNLIKE["fast"], "slow": UNLIKE["slow"]}
    argv = written(tmp_path, series, fast="5min", slow="7200")
    made = make(tmp_path / "out", *argv, "--window", 12, "--step", "every")
    assert starts(made) == {"fast": 4, "slow": 1}
    assert "every" not in made.manifest.features
    example = made.examples()["fast@2026-01-01T00:00:00", 0]
    assert list(example["v"]) == pytest.approx(
        [sum((300 * i + 60 * k) % 7 for k in range(5)) / 5 for i in range(12)]
    )
    one = make(tmp_path / "one", *argv, "--window", 2, "--step", "2h")
    assert starts(one) == {"fast": 1, "slow": 6}


@pytest.mark.parametrize(
    ("steps", "options", "words"),
    [
        ({}, ("--step", "evry"), "--step: expected a duration, such as 10s, 500ms, 1h30m or 1d,"
         " auto, or one of the columns 'time', 'machine', 'v', 'every'; got 'evry'"),
        ({"fast": "soon"}, ("--step", "every"),
         "expected a step, such as 10min, or seconds, in 'every', got soon"),
    ],
)  # fmt: skip
def test_steps_that_are_none(steps, options, words, tmp_path, capsys):
    argv = written(tmp_path, {"fast": UNLIKE["fast"]}, **steps)
    out = tmp_path / "out"
    assert run("sensor", *argv, "--output", out, "--window", 12, *options) in (1, 2)
    told = " ".join(capsys.readouterr().err.split())
    kept = out / "rejects.jsonl"
    assert words in told + (kept.read_text() if kept.exists() else "")


def test_a_series_of_several_steps_is_refused(tmp_path, capsys):
    argv = written(tmp_path, {"fast": UNLIKE["fast"]})
    path = tmp_path / "in.csv"
    path.write_text(path.read_text().replace("1h", "5min", 1))
    told = refused(capsys, *argv, "--output", tmp_path / "out", "--window", 2, "--step", "every")
    assert "--step: series 'fast' has the step 5min in in.csv#1, and 1h in in.csv#" in told


def test_a_unit_that_gives_no_likely_year_is_refused_or_noted(tmp_path, capsys):
    lines = [f"{(START + 60 * i) * 1000},{i}" for i in range(100)]
    (tmp_path / "in.csv").write_text("\n".join(["time,v", *lines]))
    argv = ("--input", tmp_path / "in.csv", "--time-column", "time", "--splits", "train=1",
            "--window", 4)  # fmt: skip
    told = refused(capsys, *argv, "--output", tmp_path / "out")
    assert re.search(
        "--time-unit: numbers in 'time' are read as seconds since 1970, which gives the years? 5797"
        ".*; pass --time-unit ms, which gives the years? 202[56]",
        told,
    )
    right = make(tmp_path / "right", *argv, "--time-unit", "ms")
    assert not notes(right, "times")
    (tmp_path / "in.csv").write_text("\n".join(["time,v", f"-{9**11},0", *lines]))
    noted = make(tmp_path / "noted", *argv)
    (note,) = notes(noted, "times")
    assert note.startswith(
        "numbers in 'time' are read as seconds since 1970, which gives the years"
    )
    (tmp_path / "in.csv").write_text(
        "\n".join(["time,v", *(f"18{i}-01-01,{i}" for i in range(10, 90))])
    )
    assert not notes(make(tmp_path / "old", *argv), "times")
    (tmp_path / "in.csv").write_text("\n".join(["time,v", *(f"{START + i},{i}" for i in range(9))]))
    (note,) = notes(make(tmp_path / "small", *argv, "--time-unit", "ms"), "times")
    assert re.search("which gives the year 1970; --time-unit s gives the year 202[56]", note)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--split-by", "time", "--split-times", "validation=2026-01-01T01:30,test=2027-01-01"),
         "test"),
        (("--split-by", "time", "--splits", "train=0.9,validation=0.05,test=0.05"), "validation"),
    ],
)  # fmt: skip
def test_splits_without_a_window_are_noted(options, name, tmp_path):
    argv = written(tmp_path, {"fast": [60 * i for i in range(100)]})[:-2]
    made = make(tmp_path / "out", *argv, "--window", 8, *options)
    why = "because no window lies between its begin and its end"
    assert f"no record is in the split {name!r}, {why}" in notes(made, "empty-split")


def test_splits_for_which_there_are_too_few_series_are_noted(tmp_path):
    argv = written(tmp_path, {name: [60 * i for i in range(9)] for name in "abc"})[:-2]
    note = notes(make(tmp_path / "out", *argv, "--window", 8), "empty-split")[0]
    assert "a series never spans two splits: --split-by series-time divides every series" in note


def test_fractions_of_a_split_by_time_are_met_to_the_row(tmp_path):
    argv = written(tmp_path, {"fast": [60 * i for i in range(100)]})[:-2]
    made = make(tmp_path / "out", *argv, "--window", 1, "--split-by", "time",
                "--splits", "train=0.5,validation=0.25,test=0.25")  # fmt: skip
    assert {name: split.records for name, split in made.manifest.splits.items()} == {
        "train": 50, "validation": 25, "test": 25
    }  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--gap-policy", "fill"), ("--step", "1h")])
def test_parts_of_the_time_are_features_by_the_clock_of_a_zone(options, tmp_path):
    """Two days around the end of summer time in Berlin, at 01:00 UTC on 25 October 2026."""
    first = datetime.datetime(2026, 10, 24, tzinfo=datetime.UTC)
    hours = [i for i in range(48) if i != 30 or not options]
    lines = [f"{first + datetime.timedelta(hours=i):%Y-%m-%d %H:%M},{i}" for i in hours]
    (tmp_path / "in.csv").write_text("\n".join(["time,v", *lines]))
    argv = ("--input", tmp_path / "in.csv", "--time-column", "time", "--splits", "train=1",
            "--window", 8, "--date-parts", "time=hour+weekday")  # fmt: skip
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    for zone, flags in ((datetime.UTC, ()), (berlin, ("--time-zone", "Europe/Berlin"))):
        made = make(tmp_path / str(zone).replace("/", "-"), *argv, *flags, *options)
        found = made.examples()
        assert len(found) == (5 if options == ("--step", "1h") else 6)
        for example in found.values():
            start = datetime.timedelta(microseconds=int(example["window/start"][0]))
            clock = [
                (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + start
                 + datetime.timedelta(hours=i)).astimezone(zone)
                for i in range(8)
            ]  # fmt: skip
            assert list(example["time/hour"]) == [when.hour for when in clock]
            assert list(example["time/weekday"]) == [when.isoweekday() for when in clock]
            assert "time" not in example


def test_parts_of_timestamps_of_a_table_by_the_clock_of_a_zone(tmp_path, capsys):
    lines = [f"2026-{month:02}-28 23:30:00,{month}" for month in range(1, 13)]
    (tmp_path / "in.csv").write_text("\n".join(["at,v", *lines, ",13"]))
    argv = ("--input", tmp_path / "in.csv", "--splits", "train=1",
            "--types", "at=timestamp", "--date-parts", "at=day+hour")  # fmt: skip
    made = make_any(tmp_path / "out", *argv, "--time-zone", "Europe/Berlin", command="table")
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    for example in made.examples().values():
        month = int(example["v"][0])
        if month == 13:
            assert "at/hour" not in example
            continue
        when = datetime.datetime(2026, month, 28, 23, 30, tzinfo=datetime.UTC).astimezone(berlin)
        assert (list(example["at/day"]), list(example["at/hour"])) == ([when.day], [when.hour])
    for flags, words in (
        ((*argv, "--time-zone", "Europe/Berlyn"), "--time-zone: unknown zone 'Europe/Berlyn'"),
        ((*argv[:-2], "--time-zone", "UTC"), "--time-zone: requires --date-parts"),
    ):
        assert run("table", *flags, "--output", tmp_path / "none") == 2
        assert words in " ".join(capsys.readouterr().err.split())
    assert (
        main(
            [
                "export-transform",
                "--dataset",
                str(tmp_path / "out"),
                "--output",
                str(tmp_path / "m"),
            ]
        )
        == 2
    )
    assert "--time-zone" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["1min", "10min", "auto"])
def test_readings_that_share_a_step_and_zones_of_some_times_are_noted(step, tmp_path, capsys):
    """Readings about every minute: with --step 1min, two of them meet in one step."""
    times = [datetime.timedelta(minutes=n, seconds=-0.3 if n == 5 else 0.2) for n in range(40)]
    begin = datetime.datetime(2026, 1, 1)
    lines = [f"{begin + at}{'Z' * (n == 3)},{n}" for n, at in enumerate(times)]
    (tmp_path / "a.csv").write_text("\n".join(["time,v", *lines]))
    argv = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--time-column", "time")
    more = ("--window", "2", "--step", step, "--splits", "train=1", "--dry-run")
    assert main(["sensor", *map(str, (*argv, *more))]) == 0
    said = capsys.readouterr().err
    assert "only some times in 'time' have a time zone; those without are read as UTC" in said
    shared = "1 of 39 steps of 1min hold several rows, of which --resample mean makes one"
    assert (shared in said) == (step == "1min")
    assert ("hold several rows" in said) == (step == "1min")
