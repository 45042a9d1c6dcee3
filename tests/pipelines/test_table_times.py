"""Dates and times of tables in formats that options name."""

import shlex

import apache_beam as beam
import pytest

from recordmill.transforms import ReadTable, WriteToTFRecord
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

DAYS = [f"{n % 28 + 1:02}" for n in range(30)]


def rows(form: str, *more: str) -> str:
    return "\n".join(["x,t,label", *(f"{n},{form.format(d)},{'ab'[n % 2]}" for n, d in
                                     enumerate(DAYS)), *more]) + "\n"  # fmt: skip


@pytest.mark.parametrize(
    ("form", "time_format", "iso", "kind"),
    [
        ("{}.02.2024", "%d.%m.%Y", "2024-02-{}", "date"),
        ("202402{}", "%Y%m%d", "2024-02-{}", "date"),
        ("{} Feb 2024", "%d %b %Y", "2024-02-{}", "date"),
        ("02/{}/24 05:07 PM", "%m/%d/%y %I:%M %p", "2024-02-{} 17:07", "timestamp"),
        ("{}.02.2024 24:00", "%d.%m.%Y %H:%M", None, "timestamp"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_times_of_a_format_become_what_iso_times_become(
    tmp_path, form, time_format, iso, kind, name
):
    (tmp_path / "in.csv").write_text(rows(form))
    if name == "a.jsonl":
        lines = [line.split(",") for line in rows(form).splitlines()[1:]]
        objects = [
            f'{{"x": {x}, "t": {t if t.isdecimal() else chr(34) + t + chr(34)}, "label": "{y}"}}'
            for x, t, y in lines
        ]
        (tmp_path / "in.csv").write_text("\n".join(objects))
    (tmp_path / "in.csv").rename(tmp_path / name)
    argv = ("--input", tmp_path / name, "--time-format", f"t={time_format}")
    dataset = make(tmp_path / "out", *argv, command="table")
    assert not dataset.rejects
    if iso is None:
        return
    (tmp_path / "iso.csv").write_text(rows(iso))
    argv = ("--input", tmp_path / "iso.csv", "--types", f"t={kind}")
    assert dataset.manifest.digest == make(tmp_path / "iso", *argv, command="table").manifest.digest


def test_zones_become_utc(tmp_path):
    (tmp_path / "a.csv").write_text(rows("2024/02/{} 01:30 +0200"))
    argv = ("--input", tmp_path / "a.csv", "--time-format", "t=%Y/%m/%d %H:%M %z")
    dataset = make(tmp_path / "out", *argv, "--date-parts", "t=day+hour", command="table")
    hours = {one["t/hour"][0] for one in dataset.examples("train").values()}
    assert hours == {23}


def test_other_values_are_rejected_and_missing_ones_are_missing(tmp_path):
    (tmp_path / "a.csv").write_text(rows("{}.02.2024", "30,31.02.2024,a", "31,,b", "32,soon,a"))
    argv = ("--input", tmp_path / "a.csv", "--time-format", "t=%d.%m.%Y")
    dataset = make(tmp_path / "out", *argv, "--max-reject-fraction", "0.2", command="table")
    assert dataset.rejects == {"a.csv#31": "bad_value", "a.csv#33": "bad_value"}
    why = "row 31: column 't': expected a time as %d.%m.%Y, got '31.02.2024'"
    assert why in (dataset.folder / "rejects.jsonl").read_text()


def test_patterns_and_conditions_apply_to_times(tmp_path):
    (tmp_path / "a.csv").write_text(rows("{}.02.2024"))
    argv = ("--input", tmp_path / "a.csv", "--time-format", "t*=%d.%m.%Y")
    dataset = make(tmp_path / "out", *argv, "--where", 't < "2024-02-03"', command="table")
    assert sum(split.records for split in dataset.manifest.splits.values()) == 4


def test_a_note_names_the_format(tmp_path):
    (tmp_path / "a.csv").write_text(rows("{}.02.2024"))
    dataset = make(tmp_path / "out", "--input", tmp_path / "a.csv", command="table")
    [note] = [str(note) for note in dataset.manifest.notes if note.code == "text-column"]
    assert "--time-format t=%d.%m.%Y" in note


def test_python_takes_formats(tmp_path):
    (tmp_path / "a.csv").write_text(rows("{}.02.2024"))
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | ReadTable(str(tmp_path / "a.csv"), time_format={"t": "%d.%m.%Y"})
            | WriteToTFRecord(str(tmp_path / "python"))
        )
    argv = ("--input", tmp_path / "a.csv", "--time-format", "t=%d.%m.%Y")
    dataset = make(tmp_path / "out", *argv, command="table")
    assert Made(tmp_path / "python").manifest.digest == dataset.manifest.digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--time-format tt=%d", "column 'tt' of"),
        ("--time-format t=day", "--time-format t=day: expected a format such as %d.%m.%Y"),
        ("--time-format t=%V", "%V gives no date"),
        ("--time-format t=%d --types t=date", "--types t: --time-format gives the type"),
        ("--time-format t", "expected COLUMN=VALUE,..., got 't'"),
    ],
)
def test_formats_that_cannot_apply_are_refused(tmp_path, capsys, options, message):
    (tmp_path / "a.csv").write_text(rows("{}.02.2024"))
    argv = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out", *shlex.split(options))
    assert run("table", *argv) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_note_names_no_format_where_no_option_takes_one_for_a_column(tmp_path):
    lines = [f"2024-01-01T{n:02}:00,{n},{n + 1:02}.01.2024" for n in range(20)]
    (tmp_path / "s.csv").write_text("\n".join(["time,x,day", *lines]))
    given = ("--time-column", "time", "--window", 4, "--splits", "train=1")
    made = make(tmp_path / "out", "--input", tmp_path / "s.csv", *given, command="sensor")
    (note,) = [str(one) for one in made.manifest.notes if one.code == "text-column"]
    assert note.startswith("column 'day' is text because of '01.01.2024' in s.csv#1; correct")
    assert "--time-format" not in note
