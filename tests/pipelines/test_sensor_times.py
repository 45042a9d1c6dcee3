"""`recordmill sensor` on times in unlike spellings, units and time zones."""

import datetime
import pathlib
import re
import zoneinfo

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")


def rows(folder: pathlib.Path, times: list[str]) -> tuple[object, ...]:
    """A table of these times, and how it is read."""
    lines = [f'"{time}",{place}' for place, time in enumerate(times)]
    (folder / "in.csv").write_text("\n".join(["time,v", *lines]) + "\n")
    return (
        *("--input", folder / "in.csv", "--time-column", "time", "--window", 1),
        *("--splits", "train=1", "--max-reject-fraction", 1),
    )


def starts(made: Made) -> list[str]:
    return sorted(key.partition("@")[2] for key, _ in made.examples())


def refused(capsys, folder: pathlib.Path, *argv: object) -> str:
    assert run("sensor", *argv, "--output", folder / "out") in (1, 2)
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("time", "options", "message"),
    [
        ("30.03.24 12:00", (), "is it --time-format '%d.%m.%y %H:%M'?"),
        ("30.03.24 12:00", ("--time-format", "%d.%m.%Y %H:%M"), "is it '%d.%m.%y %H:%M'?"),
        ("30.03.2024 12:00:00,5", (), "is it --time-format '%d.%m.%Y %H:%M:%S,%f'?"),
        ("2024-07-01 12:00 EST", ("--time-format", "%Y-%m-%d %H:%M %Z"),
         "%Z is UTC, GMT, UT or Z, because other names belong to several time zones: write offsets"
         " such as -0500, which %z reads"),
    ],
)  # fmt: skip
def test_times_of_another_format_are_refused(tmp_path, capsys, time, options, message):
    assert message in refused(capsys, tmp_path, *rows(tmp_path, [time]), *options)


def test_fractions_and_names_of_utc_are_read(tmp_path):
    times = ["1.3.2024 12:00:00.5 UTC", "1.3.2024 12:00:00.123456789 GMT", "1.3.2024 12:00:01 UTC"]
    argv = (*rows(tmp_path, times), "--time-format", "%d.%m.%Y %H:%M:%S.%f %Z")
    made = make(tmp_path / "out", *argv, command="sensor")
    assert starts(made) == ["2024-03-01T12:00:00.123456", "2024-03-01T12:00:00.500000"]
    assert len((tmp_path / "out/rejects.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("numbers", "time_format"),
    [
        (["20240330", "20240331", "20240401"], "%Y%m%d"),
        (["20240330235959", "20240331000000"], "'%Y%m%d%H%M%S'"),
        (["2504030000", "2504030005"], "%y%m%d%H%M"),
        (["250403000000", "250403000005"], "%y%m%d%H%M%S"),
    ],
)
def test_numbers_that_look_like_dates_are_refused(tmp_path, capsys, numbers, time_format):
    assert f"--time-format {time_format}" in refused(capsys, tmp_path, *rows(tmp_path, numbers))


def times_notes(capsys, folder: pathlib.Path, numbers: list[str], *options: str) -> str:
    """The notes of a plan on times."""
    plan = ("sensor", *map(str, rows(folder, numbers)), "--output", str(folder / "out"))
    assert main([*plan, "--dry-run", "--workers", "1", *options]) == 0
    out = " ".join("".join(capsys.readouterr()).split())
    return out if "are read as" in out else ""


def test_years_and_days_of_excel_are_noted(tmp_path, capsys):
    assert not times_notes(capsys, tmp_path, ["0", "1", "2"])
    years = ["1998", "1999", "2000"]
    noted = times_notes(capsys, tmp_path, years)
    assert "--time-format %Y reads them as years, from 1998 to 2000" in noted
    assert not times_notes(capsys, tmp_path, years, "--time-unit", "s")
    noted = times_notes(capsys, tmp_path, ["45381.5", "45381.541666667"])
    assert "--time-unit excel reads them as the days of Excel, from 2024-03-30 on" in noted


def test_days_of_excel_are_read_to_the_millisecond(tmp_path):
    argv = (*rows(tmp_path, ["45381.5", "45381.541666667", "25569"]), "--time-unit", "excel")
    made = make(tmp_path / "out", *argv, command="sensor")
    assert starts(made) == ["1970-01-01T00:00:00", "2024-03-30T12:00:00", "2024-03-30T13:00:00"]


def test_clock_times_of_a_zone_are_read(tmp_path, capsys):
    autumn = [f"2024-10-27 {clock}" for clock in ("01:40", "02:10", "02:40", "02:10", "02:40")]
    spring = ["2024-03-31 02:30", "2024-07-01T12:00+00:00", "1735689600"]
    argv = rows(tmp_path, [*autumn, *spring])
    made = make(tmp_path / "out", *argv, "--input-time-zone", "Europe/Berlin", command="sensor")
    passes = ("26T23:40", "27T00:10", "27T00:40", "27T01:10", "27T01:40")
    assert starts(made) == [
        "2024-07-01T12:00:00",
        *(f"2024-10-{one}:00" for one in passes),
        "2025-01-01T00:00:00",
    ]
    (reject,) = (tmp_path / "out/rejects.jsonl").read_text().splitlines()
    assert "'2024-03-31 02:30' does not exist in Europe/Berlin" in reject
    told = refused(capsys, tmp_path, *argv, "--input-time-zone", "Europe/Berlni")
    assert "--input-time-zone: unknown zone 'Europe/Berlni' (did you mean" in told


def test_rejects_of_a_repeated_hour_name_the_option(tmp_path):
    autumn = [f"2024-10-27 {clock}" for clock in ("02:10", "02:40", "02:10")]
    make(tmp_path / "out", *rows(tmp_path, autumn), command="sensor")
    assert (
        "daylight saving time), --input-time-zone tells"
        in (tmp_path / "out/rejects.jsonl").read_text()
    )


def berlin_autumn() -> list[str]:
    """Clock times in Berlin, every 5 minutes, from 25 October 2025 on, when clocks are set back."""
    begin, berlin = datetime.datetime(2025, 10, 25, tzinfo=datetime.UTC), "Europe/Berlin"
    moments = (begin + datetime.timedelta(minutes=5 * step) for step in range(400))
    return [f"{one.astimezone(zoneinfo.ZoneInfo(berlin)):%Y-%m-%d %H:%M}" for one in moments]


@pytest.mark.parametrize(
    ("repeats", "options", "dropped"),
    [
        (1, (), 12),
        (1, ("--input-time-zone", "Europe/Berlin"), 0),
        (2, (), 0),  # an export with every row twice
    ],
)
def test_rows_of_a_repeated_hour_that_are_dropped_name_the_option(
    repeats, options, dropped, tmp_path
):
    times = [time for time in berlin_autumn() for _ in range(repeats)]
    argv = list(rows(tmp_path, times))
    lines = [f"{time},{time[11:13] > '12':d}" for time in times]  # a signal of 0 and 1
    (tmp_path / "in.csv").write_text("\n".join(["time,v", *lines]) + "\n")
    made = make(tmp_path / "out", *argv, *options, command="sensor")
    assert len(made.examples()) == 400 - (0 if options else 12)
    found = [str(note) for note in made.manifest.notes if note.code == "times"]
    assert found == [
        f"{dropped} rows were dropped as repeated, because others have the same time and values:"
        " the first is in series 'in.csv' at 2025-10-26 02:00:00: if clocks were set back then"
        " (daylight saving time), --input-time-zone tells the two hours apart"
    ] * bool(dropped)


def test_the_ledger_says_why_rows_are_filtered(tmp_path, capsys):
    argv = ("sensor", *map(str, rows(tmp_path, ["0", "1", "1", "2"])), "--output", tmp_path / "out")
    assert main([*map(str, argv), "--window", "2", "--workers", "1"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "4 inputs: 2 read, 1 rejected, 1 filtered" in printed
    assert re.search(r"filter reason inputs records ─+ in no window 1 0", printed)
