"""`recordmill sensor` on times in unlike spellings, units and time zones."""

import datetime
import pathlib
import re
import zoneinfo

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
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


EPOCH = datetime.datetime(2020, 1, 1)
ZONES = (None, "UTC", "America/New_York", "+05:30")


def stored(file: pathlib.Path, column: pa.Array, *, int96: bool = False) -> tuple[object, ...]:
    """A file of these times, and how it is read."""
    table = pa.table({"time": column, "v": pa.array(range(len(column)))})
    if file.suffix == ".arrow":
        pyarrow.feather.write_feather(table, str(file))
    else:
        pq.write_table(table, file, use_deprecated_int96_timestamps=int96)
    return (
        *("--input", file, "--time-column", "time", "--window", 1),
        *("--splits", "train=1", "--max-reject-fraction", 1),
    )


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_and_zone_are_read(tmp_path, unit, zone, suffix):
    moments = [EPOCH + datetime.timedelta(hours=9 * step) for step in range(3)]
    times = pa.array(moments, pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, zone))
    made = make(tmp_path / "out", *stored(tmp_path / f"in{suffix}", times), command="sensor")
    assert starts(made) == [one.isoformat() for one in moments]


def test_parts_of_a_microsecond_are_cut_off(tmp_path):
    times = pa.array([1_999, -1], pa.timestamp("ns"))
    made = make(tmp_path / "out", *stored(tmp_path / "in.parquet", times), command="sensor")
    assert starts(made) == ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00.000001"]


def test_timestamps_without_a_zone_are_clock_times_of_the_given_one(tmp_path):
    for name, zone in (("local", None), ("utc", "UTC")):
        times = pa.array([EPOCH], pa.timestamp("ns", zone))
        argv = stored(tmp_path / f"{name}.parquet", times)
        made = make(
            *(tmp_path / name, *argv, "--input-time-zone", "Europe/Berlin"), command="sensor"
        )
        assert starts(made) == ["2019-12-31T23:00:00" if zone is None else "2020-01-01T00:00:00"]


@pytest.mark.parametrize("command", ["sensor", "table"])
def test_int96_times_after_2262_do_not_wrap(tmp_path, command):
    times = pa.array([datetime.datetime(9999, 12, 31), EPOCH], pa.timestamp("us"))
    argv = stored(tmp_path / "in.parquet", times, int96=True)
    if command == "table":
        argv = (*argv[:2], "--splits", "train=1", "--label-type", "none")
    made = make(tmp_path / "out", *argv, command=command)
    if command == "sensor":
        assert starts(made) == ["2020-01-01T00:00:00", "9999-12-31T00:00:00"]
    else:
        found = sorted(one["time"][0] for one in made.examples().values())
        assert found == [time // 1000 for time in (1_577_836_800 * 10**9, 253_402_214_400 * 10**9)]


@pytest.mark.parametrize("command", ["sensor", "table"])
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_times_beyond_microseconds_are_rejected(tmp_path, unit, command):
    times = pa.array([0, 2**63 - 1, -(2**63) + 1, 1000], pa.int64()).cast(pa.timestamp(unit))
    argv = stored(tmp_path / "in.arrow", times)
    if command == "table":
        argv = (*argv[:2], "--splits", "train=1", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *argv, command=command)
    assert len(made.examples()) == 2
    rejects = (tmp_path / "out/rejects.jsonl").read_text()
    assert f"{2**63 - 1} {unit} since 1970 is a time beyond" in rejects
    assert f"-{2**63 - 1} {unit} since 1970" in rejects


@pytest.mark.parametrize(
    ("time", "start"),
    [
        ("2020-01-01T00:00:00.123456789Z", "2020-01-01T00:00:00.123456"),
        ("2020-01-01T00:00:00.1234567+01:00", "2019-12-31T23:00:00.123456"),
        ("2020-01-01t00:00:00.1234567891z", "2020-01-01T00:00:00.123456"),
        ("2020-01-01 00:00:00.123456789", "2020-01-01T00:00:00.123456"),
        ("2020-01-01 00:00:00 UTC", "2020-01-01T00:00:00"),
        ("2020-01-01 00:00:00.5 UTC", "2020-01-01T00:00:00.500000"),
        ("2020-01-01 00:00:00 +0100", "2019-12-31T23:00:00"),
        ("2020-01-01 24:00", "2020-01-02T00:00:00"),
        ("2020-02-29T24:00:00", "2020-03-01T00:00:00"),
        ("2020-12-31T24:00:00.000+01:00", "2020-12-31T23:00:00"),
        ("2020-02-30 24:00", None),
        ("2020-01-01 24:01", None),
        ("2020-01-01 25:00", None),
    ],
)
def test_spellings_of_iso_8601_are_read(tmp_path, time, start):
    argv = rows(tmp_path, [time, "2021-01-01 00:00"])
    made = make(tmp_path / "out", *argv, command="sensor")
    assert starts(made) == [*([] if start is None else [start]), "2021-01-01T00:00:00"]


def test_types_of_columns_take_the_same_times(tmp_path):
    (tmp_path / "in.csv").write_text("t,v\n2020-01-01T00:00:00.123456789,1\n2020-01-01 24:00,2\n")
    argv = ("--input", tmp_path / "in.csv", "--types", "t=timestamp", "--splits", "train=1")
    made = make(tmp_path / "out", *argv, "--label-type", "none", command="table")
    found = sorted(one["t"][0] for one in made.examples().values())
    assert found == [1_577_836_800_123_456, 1_577_923_200_000_000]


def test_hours_from_1_to_24_are_read(tmp_path):
    hours = [f"2018-01-31 {hour}" for hour in range(1, 25)]
    argv = (*rows(tmp_path, hours), "--time-format", "%Y-%m-%d %H")
    found = starts(make(tmp_path / "out", *argv, command="sensor"))
    assert [found[0], *found[-2:]] == [
        f"2018-{time}:00:00" for time in ("01-31T01", "01-31T23", "02-01T00")
    ]


@pytest.mark.parametrize(
    ("time", "time_format"),
    [
        ("2019-W02-1", "%G-W%V-%u"),
        ("2019-02", "%Y-%W"),
        ("2019-02", "%Y-%U"),
        ("19-02-1", "%g-%V-%u"),
    ],
)
def test_formats_that_give_no_date_are_refused(tmp_path, capsys, time, time_format):
    argv = (*rows(tmp_path, [time]), "--time-format", time_format)
    assert "gives no date, so that all times would be alike" in refused(capsys, tmp_path, *argv)


def test_weeks_with_a_weekday_are_read(tmp_path):
    argv = (*rows(tmp_path, ["2019-02-1"]), "--time-format", "%Y-%W-%w")
    assert starts(make(tmp_path / "out", *argv, command="sensor")) == ["2019-01-14T00:00:00"]


def test_days_of_matlab_are_noted_and_read(tmp_path, capsys):
    days = ["737791.0", "737791.0416666666"]
    noted = times_notes(capsys, tmp_path, days)
    assert "--time-unit matlab reads them as the days of MATLAB, from 2020-01-01 on" in noted
    assert not times_notes(capsys, tmp_path, days, "--time-unit", "s")
    argv = (*rows(tmp_path, days), "--time-unit", "matlab")
    assert starts(make(tmp_path / "out", *argv, command="sensor")) == [
        "2020-01-01T00:00:00",
        "2020-01-01T01:00:00",
    ]


@pytest.mark.parametrize(
    ("times", "options", "note"),
    [
        (["2024-07-01 12:00"], ("--time-unit", "ms"),
         "times in 'time' are dates, not numbers: --time-unit has no effect"),
        (["1719835200"], ("--input-time-zone", "Europe/Berlin"),
         "times in 'time' are numbers or have a zone: --input-time-zone has no effect"),
        (["2024-07-01T12:00Z"], ("--input-time-zone", "Etc/GMT+9"),
         "times in 'time' are numbers or have a zone: --input-time-zone has no effect"),
        (["01.07.2024 12:00 +0200"],
         ("--input-time-zone", "UTC", "--time-format", "%d.%m.%Y %H:%M %z"),
         "times in 'time' are numbers or have a zone: --input-time-zone has no effect"),
        (["2024-07-01 12:00", "2024-07-02T12:00Z"], ("--input-time-zone", "Europe/Berlin"), None),
        (["1719835200000"], ("--time-unit", "ms"), None),
    ],
)  # fmt: skip
def test_options_without_effect_on_times_are_noted(tmp_path, times, options, note):
    made = make(tmp_path / "out", *rows(tmp_path, times), *options, command="sensor")
    found = [str(one) for one in made.manifest.notes if "no effect" in str(one)]
    assert found == ([] if note is None else [note])


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("written", ["csv", "int64", "double"])
def test_numbers_too_large_for_seconds_name_the_unit_that_fits(unit, written, tmp_path, capsys):
    factor = {"us": 10**6, "ns": 10**9}[unit]
    times = [(1709510400 + 60 * i) * factor for i in range(20)]
    argv = rows(tmp_path, [str(time) for time in times])
    if written != "csv":
        table = pa.table({"time": pa.array(times).cast(written, safe=False), "v": range(20)})
        pq.write_table(table, tmp_path / "in.parquet")
        argv = ("--input", tmp_path / "in.parquet", *argv[2:])
    assert refused(capsys, tmp_path, *argv).endswith(
        "error: --time-unit: numbers in 'time' are too large for seconds since 1970; pass"
        f" --time-unit {unit}, which gives the year 2024"
    )
    assert "too large for days" in refused(capsys, tmp_path, *argv, "--time-unit", "excel")
    made = make(tmp_path / "out", *argv, "--time-unit", unit, command="sensor")
    assert starts(made)[1] == "2024-03-04T00:01:00"


def test_a_number_too_large_for_its_unit_is_rejected_as_a_number(tmp_path):
    argv = rows(tmp_path, [str(1709510400 + i) for i in range(9)] + ["9" * 14])
    make(tmp_path / "out", *argv, command="sensor")
    (reject,) = (tmp_path / "out/rejects.jsonl").read_text().splitlines()
    assert (
        "expected a time in 'time' such as 2026-01-31 18:00, or a number of the unit --time-unit"
        f" that int64 microseconds hold, got '{'9' * 14}'"
    ) in reject


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_columns_of_durations_have_the_unit_of_their_type(unit, tmp_path, capsys):
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = pa.array([2 * i * factor for i in range(12)], pa.duration(unit))
    steps = pa.array([2 * factor] * 12, pa.duration(unit))
    table = pa.table({"time": times, "every": steps, "v": pa.array(range(12), pa.float64())})
    pq.write_table(table, tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table, str(tmp_path / "b.arrow"))
    argv = ("--time-column", "time", "--step", "every", "--window", 4, "--splits", "train=1")
    for name in ("a.parquet", "b.arrow"):
        made = make(tmp_path / name[0], "--input", tmp_path / name, *argv, command="sensor")
        assert starts(made) == [f"1970-01-01T00:00:{second}" for second in ("00", "08", "16")]
        assert not [note for note in made.manifest.notes if note.code == "times"]
    options = (*argv, "--time-unit", "ms", "--output", tmp_path / "c", "--dry-run")
    assert main(["sensor", "--input", str(tmp_path / "a.parquet"), *map(str, options)]) == 0
    shown = " ".join("".join(capsys.readouterr()).split())
    assert "times in 'time' have the unit of their type: --time-unit has no effect" in shown


@pytest.mark.parametrize("logical", ["timestamp-nanos", "local-timestamp-nanos"])
def test_nanoseconds_of_avro_are_times(logical, tmp_path):
    time = {"name": "time", "type": ["null", {"type": "long", "logicalType": logical}]}
    fields = [time, {"name": "v", "type": "double"}]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    first = 1709510400 * 10**9
    with (tmp_path / "in.avro").open("wb") as file:
        found = [{"time": first + 1500 * i, "v": float(i)} for i in range(4)]
        fastavro.writer(file, schema, found)
    argv = ("--input", tmp_path / "in.avro", "--time-column", "time", "--window", 1)
    made = make(tmp_path / "out", *argv, "--splits", "train=1", command="sensor")
    assert starts(made) == [
        "2024-03-04T00:00:00",
        *(f"2024-03-04T00:00:00.{micros:06}" for micros in (1, 3, 4)),
    ]
