"""`recordmill sensor` from end to end: real series in, read back by TensorFlow."""

import csv
import datetime
import itertools
import json
import math
import pathlib
import re

import numpy as np
import pytest

from recordmill.pipelines.cli import main
from recordmill.profile.schema_rules import load as load_rules
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.paths import AIR
from tests.tensorflow_reads import parse_at_once

pytestmark = pytest.mark.usefixtures("encoders")

OPTIONS = (
    *("--input", AIR, "--delimiter", ";", "--decimal", ",", "--missing", "-200"),
    *("--time-column", "Date,Time", "--time-format", "%d/%m/%Y %H.%M.%S"),
)
HOUR = datetime.timedelta(hours=1)


def make(folder: pathlib.Path, *argv: object) -> Made:
    made = make_any(folder, *argv, command="sensor")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def windows(made: Made) -> dict[str, dict]:
    return {
        key: example
        for split in made.manifest.splits
        for (key, copy), example in made.examples(split).items()
        if copy == 0
    }


def air_rows() -> list[tuple[datetime.datetime, dict[str, float]]]:
    """As Python's own parser reads the file: (time, values), NaN for what was not measured."""
    text = re.sub(",+$", "", AIR.read_text(), flags=re.MULTILINE)
    lines = [row for row in csv.DictReader(text.splitlines(), delimiter=";") if row["Date"]]
    rows = []
    for line in lines:
        when = datetime.datetime.strptime(f"{line['Date']} {line['Time']}", "%d/%m/%Y %H.%M.%S")
        values = {
            name: float(text.replace(",", "."))
            for name, text in line.items()
            if name not in ("Date", "Time", "", None)
        }
        rows.append((when, {name: math.nan if v == -200 else v for name, v in values.items()}))
    return rows


@pytest.fixture(scope="module")
def air(tmp_path_factory) -> Made:
    folder = tmp_path_factory.mktemp("air") / "out"
    return make(folder, *OPTIONS, "--window", 24, "--stride", 6, "--splits", "train=1")


def test_windows_are_what_loops_over_the_file_find(air):
    rows = air_rows()
    assert len(rows) == 9357
    assert all(two - one == HOUR for (one, _), (two, _) in itertools.pairwise(rows))
    found = windows(air)
    starts = range(0, len(rows) - 24 + 1, 6)
    assert len(found) == len(starts) == 1556
    for start in starts:
        when = rows[start][0]
        example = found[f"AirQualityUCI.csv@{when.isoformat()}"]
        assert example["window/series"] == [b"AirQualityUCI.csv"]
        since = when - datetime.datetime(1970, 1, 1)
        assert example["window/start"] == [since // datetime.timedelta(microseconds=1)]
        for name in rows[0][1]:
            expected = np.float32([values[name] for _, values in rows[start : start + 24]])
            np.testing.assert_array_equal(np.float32(example[name]), expected)


def test_the_ledger_closes_over_rows_and_windows(air):
    ledger = air.manifest.ledger
    assert ledger.unit == "window"
    covered = (1556 - 1) * 6 + 24
    assert ledger.inputs.read == covered
    assert ledger.inputs.filtered == 114 + 9357 - covered  # blank rows, and the last rows
    assert ledger.records.made == ledger.records.written == 1556


def test_tensorflow_reads_it(air):
    assert parse_at_once(air, "train")["T"].shape == (1556, 24)


def test_rows_out_of_a_schema_are_rejects_and_leave_gaps(air, tmp_path):
    """The schema that is inferred rejects nothing; then each sensor is broken in three ways."""
    options = ("--window", 24, "--stride", 6, "--splits", "train=1", "--max-reject-fraction", 1)
    schema = tmp_path / "air.pbtxt"
    argv = [*OPTIONS, *options, "--output", tmp_path / "none", "--infer-schema", schema]
    assert run("sensor", *argv) == 0
    kept = make(tmp_path / "kept", *OPTIONS, *options, "--schema", schema)
    assert kept.manifest.digest == air.manifest.digest

    rows = air_rows()
    rules = load_rules(str(schema))
    sensors = list(rows[0][1])
    assert len(sensors) == 13
    lines = AIR.read_text().splitlines()
    broken: dict[int, str] = {}  # row, and what is said of it
    invalid = itertools.product(sensors, ("below", "above", "text"))
    for row, (name, how) in zip(itertools.count(100, 230), invalid, strict=False):
        domain = rules.columns[name].domain
        value, said = {
            "below": (f"{domain.least - 1:g}", f"column '{name}': {domain.least - 1:g}, but the"),
            "above": (f"{domain.most + 1:g}", f"column '{name}': {domain.most + 1:g}, but the"),
            "text": ("wet", f"row {row}: column '{name}': expected"),
        }[how]
        cells = lines[row].split(";")
        cells[2 + sensors.index(name)] = value.replace(".", ",")
        lines[row] = ";".join(cells)
        broken[row] = said
    source = tmp_path / AIR.name
    source.write_text("\n".join(lines))
    made = make(tmp_path / "out", "--input", source, *OPTIONS[2:], *options, "--schema", schema)
    rejects = (made.folder / "rejects.jsonl").read_text().splitlines()
    found = {one["key"]: one["detail"] for one in map(json.loads, rejects)}
    assert found.keys() == {f"{AIR.name}#{row}" for row in broken}
    for row, said in broken.items():
        assert found[f"{AIR.name}#{row}"].startswith(said)

    edges = [0, *sorted(broken), len(rows) + 1]  # rows are numbered from 1
    starts = [
        start
        for before, after in itertools.pairwise(edges)
        for start in range(before, after - 1 - 24 + 1, 6)
    ]
    written = windows(made)
    assert written.keys() == {f"{AIR.name}@{rows[start][0].isoformat()}" for start in starts}
    for start in starts:
        example = written[f"{AIR.name}@{rows[start][0].isoformat()}"]
        for name in sensors:
            expected = np.float32([values[name] for _, values in rows[start : start + 24]])
            np.testing.assert_array_equal(np.float32(example[name]), expected)


def tail(folder: pathlib.Path) -> tuple[object, ...]:
    """A series by the minute, whose last ten rows are unlike all others, and how it is read."""
    rows = [f"{i % 7},a" if i < 480 else "1000,zz" for i in range(490)]
    lines = [f"{1767225600 + 60 * i},{row}" for i, row in enumerate(rows)]
    (folder / "tail.csv").write_text("\n".join(["time,v,s", *lines]))
    return ("--input", folder / "tail.csv", "--time-column", "time")


@pytest.mark.parametrize(
    "options", [("--window", 4, "--step", "5min"), ("--window", 24)], ids=["means", "in no window"]
)
def test_the_rows_keep_the_schema_that_is_inferred_of_them(options, tmp_path):
    argv = (*tail(tmp_path), *options, "--splits", "train=1")
    schema = tmp_path / "s.pbtxt"
    assert run("sensor", *argv, "--output", tmp_path / "none", "--infer-schema", schema) == 0
    rules = load_rules(str(schema))
    assert (rules.columns["v"].domain.least, rules.columns["v"].domain.most) == (0, 1000)
    assert rules.columns["s"].domain.values == ("a", "zz")
    for how in ("reject", "keep", "fail"):
        made = make(tmp_path / how, *argv, "--schema", schema, "--on-violation", how)
        assert made.rejects == {}
        assert not [note for note in made.manifest.notes if "schema" in note]


def test_limits_of_the_dataset_are_about_the_rows_too(tmp_path, capsys):
    """The last two rows, which are in no window, have the second text."""
    lines = [f"{60 * i},{'b' if i > 7 else 'a'}" for i in range(10)]
    (tmp_path / "s.csv").write_text("\n".join(["time,s", *lines]))
    argv = ("--input", tmp_path / "s.csv", "--time-column", "time", "--splits", "train=1",
            "--window", 4, "--schema", tmp_path / "s.pbtxt")  # fmt: skip
    feature = 'feature { name: "s" unique_constraints { min: 2 max: 2 } }'
    (tmp_path / "s.pbtxt").write_text(f"{feature} dataset_constraints {{ max_examples_count: 10 }}")
    make(tmp_path / "kept", *argv)
    (tmp_path / "s.pbtxt").write_text(f"{feature} dataset_constraints {{ max_examples_count: 9 }}")
    assert run("sensor", *argv, "--output", tmp_path / "out") == 1
    assert "10 records, but the schema allows 0 to 9" in capsys.readouterr().err


@pytest.mark.parametrize("step", [(), ("--step", "2min")], ids=["as they are", "means"])
def test_the_same_rows_are_out_of_a_schema_whatever_becomes_of_them(step, tmp_path, capsys):
    schema = tmp_path / "s.pbtxt"
    schema.write_text(
        'feature { name: "v" type: INT int_domain { min: 0 max: 6 } }'
        ' feature { name: "s" type: BYTES }'
    )
    argv = (*tail(tmp_path), *step, "--window", 10, "--stride", 3, "--schema", schema,
            "--splits", "train=0.5,test=0.5", "--split-by", "time")  # fmt: skip
    rejected = make(tmp_path / "reject", *argv, "--max-reject-fraction", 1).rejects
    assert rejected == {f"tail.csv#{row}": "out_of_schema" for row in range(481, 491)}
    why = "1000, but the schema allows 0 to 6"
    told = (
        "10 records violate the schema, by column 'v' of 10, such as"
        f" tail.csv#481: {why}, tail.csv#482: {why}, tail.csv#483: {why}"
    )
    kept = make(tmp_path / "keep", *argv, "--on-violation", "keep")
    assert told in kept.manifest.notes
    capsys.readouterr()
    assert run("sensor", *argv, "--output", tmp_path / "fail", "--on-violation", "fail") == 1
    assert f"{told}: correct the input" in capsys.readouterr().err


def test_the_same_bytes_with_any_number_of_workers(air, tmp_path):
    again = make(
        tmp_path / "out",
        *(*OPTIONS, "--window", 24, "--stride", 6, "--splits", "train=1"),
        *("--workers", 2, "--spill-above", "10kB"),
    )
    assert (again.folder / "dataset.json").read_bytes() == (
        air.folder / "dataset.json"
    ).read_bytes()


def test_splits_by_time_with_a_purge_and_what_is_learned_of_train(tmp_path):
    made = make(
        tmp_path / "out",
        *(*OPTIONS, "--window", 24, "--stride", 24, "--split-by", "time", "--purge", "2d"),
        *("--split-times", "validation=2005-01-01,test=2005-03-01T12:00", "--zscore", "T"),
    )
    rows = air_rows()
    begins = {
        "train": datetime.datetime.min,
        "validation": datetime.datetime(2005, 1, 1),
        "test": datetime.datetime(2005, 3, 1, 12),
        "": datetime.datetime.max,
    }
    purge = datetime.timedelta(days=2)
    names = list(begins)
    learned = json.loads((made.folder / "learned.json").read_text())["T"]
    values = []
    for split, following in itertools.pairwise(names):
        first = begins[split] if split == "train" else begins[split] + purge
        mine = [row for row in rows if first <= row[0] < begins[following]]
        examples = {key: e for (key, _), e in made.examples(split).items()}
        starts = [mine[at][0] for at in range(0, len(mine) - 23, 24)]
        assert sorted(examples) == [f"AirQualityUCI.csv@{when.isoformat()}" for when in starts]
        if split == "train":
            values = [v["T"] for _, v in mine[: 24 * len(starts)] if not math.isnan(v["T"])]
        for at, when in enumerate(starts):
            example = examples[f"AirQualityUCI.csv@{when.isoformat()}"]
            raw = np.array([v["T"] for _, v in mine[at * 24 : at * 24 + 24]])
            expected = np.float32((raw - learned["mean"]) / learned["deviation"])
            np.testing.assert_array_equal(np.float32(example["T"]), expected)
    assert math.isclose(learned["mean"], np.mean(values), rel_tol=1e-12)
    assert math.isclose(learned["deviation"], np.std(values), rel_tol=1e-12)


PLANT = """time,machine,heat,state
2026-01-01 00:00,a,1,ok
2026-01-01 00:20,a,3,ok
2026-01-01 00:10,a,2,ok
2026-01-01 00:10,a,2,ok
2026-01-01 00:40,a,5,fault
2026-01-01 00:50,a,6,ok
yesterday,b,0,ok
2026-01-01 00:00,b,10,ok
2026-01-01 00:10,b,20,ok
2026-01-01 00:10,b,21,ok
2026-01-01 00:20,b,30,ok
2026-01-01 00:30,,30,ok
"""


def plant(tmp_path, *options: object) -> Made:
    source = tmp_path / "plant.csv"
    source.write_text(PLANT)
    return make(
        tmp_path / "out",
        *("--input", source, "--time-column", "time", "--series-column", "machine"),
        *("--label-column", "state", "--splits", "train=1", "--max-reject-fraction", 1, *options),
    )


def rejects(made: Made) -> dict[str, str]:
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    return {reject["key"]: reject["detail"] for reject in map(json.loads, lines)}


BAD = {
    "plant.csv#7": "row 7: expected a time in 'time' such as 2026-01-31 18:00, or a number"
    " (--time-format names another format), got 'yesterday'",
    "plant.csv#10": "series 'b' has different values at 2026-01-01 00:10:00 in plant.csv#9",
    "plant.csv#12": "row 12: no series name in 'machine'",
}
A, B = "a@2026-01-01T00:", "b@2026-01-01T00:"


@pytest.mark.parametrize(
    ("options", "expected", "more"),
    [
        (["--window", 2], {f"{A}00:00": [1, 2], f"{A}40:00": [5, 6], f"{B}00:00": [10, 20]}, {}),
        (
            ["--window", 3, "--stride", 1, "--gap-policy", "fill"],
            {
                f"{A}00:00": [1, 2, 3],
                f"{A}10:00": [2, 3, 3],
                f"{A}20:00": [3, 3, 5],
                f"{A}30:00": [3, 5, 6],
                f"{B}00:00": [10, 20, 30],
            },
            {},
        ),
        (
            ["--window", 3, "--stride", 2, "--gap-policy", "fill", "--fill", "missing"],
            {
                f"{A}00:00": [1, 2, 3],
                f"{A}20:00": [3, math.nan, 5],
                f"{B}00:00": [10, 20, 30],
            },
            {},
        ),
        (
            ["--window", 3, "--gap-policy", "reject"],
            {f"{B}00:00": [10, 20, 30]},
            {
                f"plant.csv#{row}": "series 'a' has a gap between 2026-01-01 00:20:00 and"
                " 2026-01-01 00:40:00, which --gap-policy reject rejects"
                for row in (1, 2, 3, 5, 6)
            },
        ),
        (
            ["--window", 1, "--step", "20min", "--resample", "max"],
            {
                f"{A}00:00": [2], f"{A}20:00": [3], f"{A}40:00": [6],
                f"{B}00:00": [20], f"{B}20:00": [30],
            },
            {},
        ),
    ],
)  # fmt: skip
def test_gaps_repeats_and_late_rows(options, expected, more, tmp_path):
    made = plant(tmp_path, *options)
    found = {
        key: [str(float(v)) for v in example["heat"]] for key, example in windows(made).items()
    }
    assert found == {key: [str(float(v)) for v in values] for key, values in expected.items()}
    told = rejects(made)
    assert told == {**BAD, **more}
    ledger = made.manifest.ledger.inputs
    assert ledger.read + ledger.rejected + ledger.filtered == 12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--time-column is required"),
        (["--time-column", "time", "--window", 0], "--window: expected more than 0, got 0"),
        (["--time-column", "when", "--window", 2], "no column 'when' in"),
        (["--time-column", "machine", "--window", 2], "expected a time in 'machine'"),
        (
            ["--time-column", "time", "--window", 2],
            "expected at least one series for each of the splits",
        ),
        (["--time-column", "time", "--window", 2, "--step", "soon"], "expected a duration"),
        (["--time-column", "time", "--window", 2, "--window-label", "ahead:x"], "ahead:ROWS"),
        (
            ["--time-column", "time", "--window", 2, "--window-label", "majority"],
            "--window-label majority needs classes",
        ),
        (["--time-column", "time", "--window", 2, "--stride", 0], "--stride: expected more than 0"),
        (
            ["--time-column", "time", "--window", 2, "--key-column", "time"],
            "--key-column gives keys to rows, and windows have keys of their own",
        ),
        (
            [
                *("--time-column", "time", "--series-column", "machine", "--window", 2),
                *("--group-column", "heat"),
            ],
            "groups: series '.' has group '.*' in plant.csv#.*, and '.*' in plant",
        ),
        (
            ["--time-column", "time", "--series-column", "machine", "--window", 99],
            "nothing is left to write: of 1[0-9] inputs .* were filtered by --window; a window"
            " needs 99 rows without a gap, and the longest run has 3 rows in 20min, in series 'a':"
            " lower --window, or raise --max-gap",
        ),
    ],
)
def test_what_cannot_work_is_told(options, words, tmp_path, capsys):
    source = tmp_path / "plant.csv"
    source.write_text(PLANT)
    extra = ["--splits", "train=1"] if "--series-column" in options else []
    argv = ("--input", source, "--output", tmp_path / "out", "--max-reject-fraction", 1)
    assert run("sensor", *argv, *options, *extra) in (1, 2)
    assert re.search(words, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_options_that_never_apply_are_not_in_the_help(capsys):
    """They are refused with the reason, and job files leave them out, too."""
    refused = ("key-column", "weight-column", "label-separator", "conflicts", "dedup",
               "exclude-like", "near-duplicates", "near-distance", "near-similarity")  # fmt: skip
    texts = []
    for option in ("--help", "--print-config"):
        with pytest.raises(SystemExit):
            main(["sensor", option])
        texts.append(capsys.readouterr().out)
    shown, printed = texts
    assert "--group-column" in shown
    assert "group-column:" in printed
    for name in refused:
        assert f"--{name} " not in shown
        assert f"\n{name}:" not in printed.replace("# ", "")
    argv = ("--input", "x.csv", "--output", "y", "--time-column", "t", "--window", "3")
    assert main(["sensor", *argv, "--near-distance", "3"]) == 2
    assert "--near-distance compares records by their content" in capsys.readouterr().err
