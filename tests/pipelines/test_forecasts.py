"""Windows for forecasts: targets, static columns, last windows, and scaling by series or window."""

import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recordmill
from recordmill.pipelines.cli import main
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.pipelines.test_sensor import OPTIONS as AIR_OPTIONS
from tests.pipelines.test_sensor import air_rows, windows
from tests.tensorflow_reads import parse

pytestmark = pytest.mark.usefixtures("encoders")

MINUTE = 60
TRAIN_ENDS = 60  # minutes after the start
BEGIN = 1767225600  # 2026-01-01


def plant() -> list[dict[str, Any]]:
    """Minutes of four machines; `b` has a gap, and `d` begins when train ends."""
    draw = np.random.default_rng(3)
    rows = []
    for name, first, last in (("a", 0, 100), ("b", 0, 90), ("c", 20, 70), ("d", 65, 95)):
        place, power = {"a": ("hall", 3), "b": ("yard", 7), "c": ("hall", 5)}.get(name, ("", 9))
        for minute in range(first, last):
            if name == "b" and 40 <= minute < 45:
                continue
            load = round(float(100 * ord(name) + draw.normal(0, 5)), 3)
            heat = "" if minute % 11 == 3 else round(float(draw.normal(20, 2)), 3)
            row = {"time": BEGIN + MINUTE * minute, "machine": name, "load": load, "heat": heat}
            rows.append(row | {"place": place, "power": power})
    return rows


def make(folder: pathlib.Path, *options: object, rows: list[dict[str, Any]] | None = None) -> Made:
    rows = plant() if rows is None else rows
    source = folder / "plant.csv"
    source.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(map(str, row.values())) for row in rows]
    source.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    splits = f"validation={stamp(TRAIN_ENDS)},test={stamp(TRAIN_ENDS + 15)}"
    made = make_any(
        folder / "out",
        *("--input", source, "--time-column", "time", "--series-column", "machine"),
        *("--split-by", "time", "--split-times", splits, "--max-reject-fraction", 1, *options),
        command="sensor",
    )
    assert main(["verify", "--dataset", str(made.folder), "--deep", "--quiet"]) == 0
    return made


def stamp(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00"


def number(text: object) -> float:
    return math.nan if text == "" else float(str(text))


def runs_of(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """(series, split, rows that follow each other)"""
    for series in "abcd":
        mine = [row for row in rows if row["machine"] == series]
        run: list[dict[str, Any]] = []
        for row, after in itertools.zip_longest(mine, mine[1:]):
            run.append(row)
            split = split_of(row)
            ends = after is None or after["time"] != row["time"] + MINUTE
            if ends or split_of(after) != split:
                yield series, split, run
                run = []


def split_of(row: dict[str, Any]) -> str:
    minute = (row["time"] - BEGIN) // MINUTE
    return "train" if minute < 60 else "validation" if minute < 75 else "test"


def expected(size: int, horizon: int, stride: int) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """{key: (split, rows of the window and of its target)}"""
    return {
        f"{series}@{stamp((run[at]['time'] - BEGIN) // MINUTE)}": (
            split,
            run[at : at + size + horizon],
        )
        for series, split, run in runs_of(plant())
        for at in range(0, len(run) - size - horizon + 1, stride)
    }


def test_targets_are_the_rows_after_the_window(tmp_path):
    options = ("--window", 8, "--stride", 3, "--horizon", 4, "--target", "load")
    made = make(tmp_path, *options)
    wanted = expected(8, 4, 3)
    found = windows(made)
    assert found.keys() == wanted.keys()
    for key, (split, rows) in wanted.items():
        np.testing.assert_array_equal(
            np.float32(found[key]["load"]), np.float32([row["load"] for row in rows[:8]])
        )
        np.testing.assert_array_equal(
            np.float32(found[key]["target"]), np.float32([row["load"] for row in rows[8:]])
        )
        assert key in made.keys(split)
    without = sum(len(range(0, len(run) - 7, 3)) for *_, run in runs_of(plant()))
    notes = notes_of(made)
    assert notes["horizon"] == (
        f"{without - len(wanted)} windows were not made, because the 4 rows after them (--horizon)"
        " would cross a gap or the end of the series, or of its split"
    )
    ledger = made.manifest.ledger
    covered = {(r["machine"], r["time"]) for _, rows in wanted.values() for r in rows}
    assert ledger.inputs.read == len(covered)
    assert ledger.inputs.filtered == len(plant()) - len(covered)
    assert made.manifest.features["target"].shape == (4,)


def test_the_same_bytes_with_two_workers_and_for_large_integers(tmp_path):
    rows = plant()
    for row in rows:
        row["heat"] = 2**60 + row["time"]  # which float64 has to round
    options = ("--window", 8, "--stride", 3, "--horizon", 4, "--target", "load,heat", "--zscore")
    options += ("load,heat", "--zscore-by", "series", "--static-columns", "place,power")
    options += ("--last-window", "test")
    made = make(tmp_path / "one", *options, rows=rows)
    other = make(tmp_path / "two", *options, "--workers", 2, rows=rows)
    assert (made.folder / "dataset.json").read_bytes() == (
        other.folder / "dataset.json"
    ).read_bytes()


def notes_of(made: Made) -> dict[str, str]:
    return {note.code: str(note) for note in made.manifest.notes}


def test_several_targets_and_what_reads_them(tmp_path):
    made = make_any(
        tmp_path / "out",
        *(*AIR_OPTIONS, "--window", 24, "--stride", 24, "--splits", "train=1", "--no-statistics"),
        *("--horizon", 12, "--target", "RH,T", "--unlabelled", "keep", "--zscore", "T"),
        command="sensor",
    )
    rows = air_rows()
    examples = windows(made)
    starts = range(0, len(rows) - 36 + 1, 24)
    assert len(examples) == len(starts)
    arrays = {}
    for at in starts:
        inside = [[values["RH"], values["T"]] for _, values in rows[at + 24 : at + 36]]
        arrays[f"AirQualityUCI.csv@{rows[at][0].isoformat()}"] = np.float32(inside)
    for key, array in arrays.items():
        np.testing.assert_array_equal(np.float32(examples[key]["target"]).reshape(12, 2), array)
    read = parse(made, "train")  # by TensorFlow's own parser
    assert {example["target"].shape for example in read} == {(12, 2)}
    loaded = recordmill.load(made.folder, "train", batch_size=8)
    tensors = next(iter(loaded))
    assert isinstance(tensors["target"], tf.Tensor)
    assert tensors["target"].shape == (8, 12, 2)
    inputs, targets, weights = next(
        iter(recordmill.load(made.folder, batch_size=8, label="target"))
    )
    assert targets.shape == (8, 12, 2)
    assert {*weights.numpy().tolist()} == {0, 1}  # some numbers are missing
    assert not np.isnan(targets).any()
    assert inputs["T"].shape == (8, 24)
    assert "target" not in inputs
    features = json.loads((made.folder / "features.json").read_text())
    assert "target" in json.dumps(features)


def test_windows_with_a_missing_number_in_their_target(tmp_path):
    options = ("--window", 4, "--horizon", 3, "--target", "load,heat", "--sequence-example")
    wanted = expected(4, 3, 4)
    lacking = {
        key: next(place for place, row in enumerate(rows[4:]) if row["heat"] == "")
        for key, (_, rows) in wanted.items()
        if any(row["heat"] == "" for row in rows[4:])
    }
    made = make(tmp_path / "reject", *options)
    assert windows(made).keys() == wanted.keys() - lacking.keys()
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    assert {one["key"]: (one["reason"], one["detail"]) for one in map(json.loads, lines)} == {
        key: (
            "unlabelled",
            f"column 'heat' has no number in row {place + 1} after the window (--horizon);"
            " --unlabelled keep writes NaN",
        )
        for key, place in lacking.items()
    }
    kept = make(tmp_path / "keep", *options, "--unlabelled", "keep")
    found = windows(kept)
    assert found.keys() == wanted.keys()
    for key, (_, rows) in wanted.items():
        target = np.float32([[number(row["load"]), number(row["heat"])] for row in rows[4:]])
        np.testing.assert_array_equal(np.float32(found[key]["target"]).reshape(3, 2), target)


def test_static_columns_are_one_value_of_each_window(tmp_path):
    made = make(
        tmp_path,
        *("--window", 6, "--step", "2min", "--static-columns", "place,power"),
        *("--vocabulary", "place", "--gap-policy", "fill", "--fill", "missing"),
    )
    features = made.manifest.features
    assert features["place"].shape == features["power"].shape == ()
    assert features["power"].dtype == "int64"  # no mean of resampled rows
    words = (made.folder / "vocabulary" / "place.txt").read_text().split()
    power = {row["machine"]: row["power"] for row in plant()}
    place = {row["machine"]: row["place"] for row in plant()}
    for example in windows(made).values():
        series = example["window/series"][0].decode()
        assert example["power"] == [power[series]]
        assert example["place"] == [2 + words.index(place[series]) if place[series] else 0]
        assert len(example["load"]) == 6


@pytest.mark.parametrize(("value", "shown"), [("yard", "'yard'"), ("", "no value")])
def test_a_column_that_varies_within_a_series_is_not_static(value, shown, tmp_path, capsys):
    rows = plant()
    rows[7]["place"] = value
    source = tmp_path / "plant.csv"
    lines = [",".join(map(str, row.values())) for row in rows]
    source.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    argv = ("--input", source, "--time-column", "time", "--series-column", "machine", "--window", 2)
    argv += ("--split-by", "time", "--static-columns", "place", "--output", tmp_path / "out")
    assert run("sensor", *argv) == 1
    assert (
        f"--static-columns place: series 'a' has 'hall' in plant.csv#1, and {shown} in plant.csv#8,"
        " but a static column has one value per series: leave it out"
    ) in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize("last", ["all", "test,validation"])
def test_the_last_window_of_each_series(last, tmp_path):
    options = ("--window", 5, "--stride", 2, "--horizon", 2, "--target", "load")
    made = make(tmp_path, *options, "--last-window", last)
    every: dict[tuple[str, str], str] = {}
    for key, (split, _) in expected(5, 2, 1).items():
        every[key.partition("@")[0], split] = key  # in the order of time
    wanted = {key for (_, split), key in every.items() if last == "all" or split in last}
    wanted |= {
        key for key, (split, _) in expected(5, 2, 2).items() if last != "all" and split not in last
    }
    assert windows(made).keys() == wanted
    ledger = made.manifest.ledger
    assert ledger.records.made == len(wanted)
    assert ledger.inputs.read + ledger.inputs.filtered == len(plant())


def test_zscores_by_series_are_learned_from_its_rows_in_train(tmp_path):
    options = ("--window", 6, "--stride", 4, "--zscore", "load,heat", "--zscore-by", "series")
    made = make(tmp_path, *options, "--impute", "heat=20")
    train = [row for row in plant() if split_of(row) == "train"]
    found = windows(made)
    wanted = expected(6, 0, 4)
    assert found.keys() == wanted.keys()
    for key, (_, rows) in wanted.items():
        series = key.partition("@")[0]
        for name in ("load", "heat"):
            raw = np.array([number(row[name]) for row in rows])
            mine = [number(row[name]) for row in train if row["machine"] == series]
            of = np.array(mine) if series != "d" else raw  # which has no row in train
            check_scaled(found[key], name, np.where(np.isnan(raw), 20, raw), of)
    assert notes_of(made)["scaled-by-window"] == (
        "1 series has no value of a --zscore column in train, so that each window is scaled by its"
        " own rows: 'd'"
    )


def check_scaled(example: dict[str, Any], name: str, raw: np.ndarray, of: np.ndarray) -> None:
    mean, scale = np.nanmean(of), np.nanstd(of)
    np.testing.assert_allclose(example[f"{name}/mean"], [mean], rtol=1e-6)
    np.testing.assert_allclose(example[f"{name}/scale"], [scale], rtol=1e-5)
    np.testing.assert_allclose(example[name], (raw - mean) / scale, rtol=1e-4, atol=1e-4)


def test_zscores_by_window_use_no_other_row(tmp_path, capsys):
    rows = plant()
    for row in rows[:12]:
        row["load"], row["heat"] = 5.5, ""  # of no deviation, and without a value
    options = ("--window", 6, "--stride", 3, "--zscore", "load,heat", "--zscore-by", "window")
    made = make(tmp_path, *options, "--log", "load", rows=rows)
    found = windows(made)
    flat = found[f"a@{stamp(0)}"]
    assert flat["load"] == [0] * 6
    np.testing.assert_allclose(flat["load/mean"] + flat["load/scale"], [np.log(6.5), 1], rtol=1e-6)
    assert flat["heat/mean"] + flat["heat/scale"] == [0, 1]
    assert np.isnan(flat["heat"]).all()
    for key, (_, inside) in expected(6, 0, 3).items():
        if key > f"a@{stamp(12)}":
            loads = np.log1p([row["load"] for row in inside])
            check_scaled(found[key], "load", loads, loads)
    assert not (made.folder / "learned.json").exists()
    argv = ["export-transform", "--dataset", str(made.folder), "--output", str(tmp_path / "model")]
    assert main(argv) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "column 'heat' was scaled by series or window" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--horizon", 3], "--horizon: requires --target"),
        (["--target", "load"], "--target: requires --horizon"),
        (["--horizon", 3, "--target", "lod"], "--target lod: no such column .did you mean 'load'"),
        (["--horizon", 3, "--target", "place"], "--target place: expected a column of numbers"),
        (["--static-columns", "time"], "--static-columns time: no such column"),
        (["--static-columns", "load,heat,place,power"], "at least one column that changes with t"),
        (["--zscore-by", "series"], "--zscore-by series: requires --zscore"),
        (
            ["--zscore-by", "series", "--zscore", "load"],
            "--zscore-by series: needs rows of every series in train, and with --split-by series",
        ),
        (["--last-window", "test"], "--last-window test: needs the splits of rows"),
        (
            ["--last-window", "tset", "--split-by", "time"],
            "--last-window names a split 'tset', expected one of train, validation, test",
        ),
        (
            ["--zscore-by", "window", "--zscore", "power", "--static-columns", "power"],
            "--zscore power: a column of --static-columns is constant in a series",
        ),
        (
            ["--window", 60, "--horizon", 60, "--target", "load", "--split-by", "time"],
            "a window and its target need 120 rows without a gap, and the longest run has 77 rows"
            " in 76min, in series 'a': lower --window or --horizon, or raise --max-gap",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_an_error(options, words, tmp_path, capsys):
    source = tmp_path / "plant.csv"
    rows = plant()
    lines = [",".join(map(str, row.values())) for row in rows]
    source.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    argv = ("--input", source, "--output", tmp_path / "out", "--time-column", "time")
    argv += ("--series-column", "machine")
    argv += () if "--window" in options else ("--window", 2)
    assert run("sensor", *argv, *options) in (1, 2)
    assert re.search(words, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out" / "dataset.json").exists()
