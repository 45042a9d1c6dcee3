"""Statistics, schemas and drift from end to end, through the command line."""

import functools
import itertools
import json
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from google.protobuf import text_format
from PIL import Image
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from recordmill.checking.verify import verify
from recordmill.pipelines.cli import main
from recordmill.profile.schema_rules import load as load_rules
from recordmill.storage.files import Location
from tests.image_runs import Made, make, run
from tests.paths import AIR, CLOTHING
from tests.row_keys import places_of_keys

pytestmark = pytest.mark.usefixtures("encoders")

SENSORS = ("CO(GT)", "PT08.S1(CO)", "NMHC(GT)", "C6H6(GT)", "PT08.S2(NMHC)", "NOx(GT)",
           "PT08.S3(NOx)", "NO2(GT)", "PT08.S4(NO2)", "PT08.S5(O3)", "T", "RH", "AH")  # fmt: skip
INTEGERS = ("PT08.S1(CO)", "NMHC(GT)", "PT08.S2(NMHC)", "NOx(GT)", "PT08.S3(NOx)", "NO2(GT)",
            "PT08.S4(NO2)", "PT08.S5(O3)")  # fmt: skip


def table(folder: pathlib.Path, *argv: object) -> Made:
    return make(folder, *argv, command="table")


def messages(made: Made) -> statistics_pb2.DatasetFeatureStatisticsList:
    content = (made.folder / "statistics.pb").read_bytes()
    return statistics_pb2.DatasetFeatureStatisticsList.FromString(content)


def slices(made: Made) -> dict[str, dict[str, statistics_pb2.FeatureNameStatistics]]:
    return {d.name: {f.name: f for f in d.features} for d in messages(made).datasets}


def details(made: Made) -> dict[str, tuple[str, str, str]]:
    """{key: (stage, reason, detail)} of the rejects."""
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    rejects = [json.loads(line) for line in lines]
    return {one["key"]: (one["stage"], one["reason"], one["detail"]) for one in rejects}


@functools.cache
def air_rows() -> list[dict[str, str]]:
    lines = AIR.read_text().splitlines()
    names = lines[0].rstrip(",").split(";")
    return [dict(zip(names, line.split(";"), strict=False)) for line in lines[1:]]


@functools.cache
def complete_rows() -> list[dict[str, str]]:
    """Those in which no sensor was out of order."""
    rows = [row for row in air_rows() if all(row.get(name) for name in SENSORS)]
    return [row for row in rows if all(float(row[n].replace(",", ".")) != -200 for n in SENSORS)]


def write(path: pathlib.Path, rows: list[dict[str, str]]) -> pathlib.Path:
    names = ("Time", *SENSORS)
    lines = [";".join(names), *(";".join(row[name] for name in names) for row in rows)]
    path.write_text("\n".join(lines))
    return path


AIR_OPTIONS = ("--delimiter", ";", "--decimal", ",", "--max-reject-fraction", 1)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    """(rows of thirteen sensors, the schema that is inferred from them)."""
    folder = tmp_path_factory.mktemp("sound")
    rows = write(folder / "air.csv", complete_rows())
    schema = folder / "schema.pbtxt"
    assert run("table", "--input", rows, "--output", folder / "out", *AIR_OPTIONS,
               "--infer-schema", schema) == 0  # fmt: skip
    assert not (folder / "out").exists(), "a schema is all that is made"
    return rows, schema


# --- Statistics ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("air") / "out"
    return table(folder, "--input", AIR, *AIR_OPTIONS, "--missing", "-200")


def test_thirteen_sensors_by_split(air):
    found = slices(air)
    assert set(found) == {"All Examples", "train", "validation", "test"}
    places = places_of_keys("table", "--input", AIR, *AIR_OPTIONS, "--missing", "-200")
    keys = {split: {places[key] for key in air.keys(split)} for split in air.manifest.splits}
    keys["All Examples"] = set().union(*keys.values())
    rows = {
        f"AirQualityUCI.csv#{n}": row for n, row in enumerate(air_rows(), 1) if any(row.values())
    }
    for name, sensor in itertools.product(found, SENSORS):
        values = [float(rows[key][sensor].replace(",", ".")) for key in keys[name]]
        there = np.array([value for value in values if value != -200])
        one = found[name][sensor]
        stats = one.num_stats
        assert one.type == (0 if sensor in INTEGERS else 1)
        assert stats.common_stats.num_missing == len(values) - len(there)
        assert stats.common_stats.num_non_missing == len(there)
        assert stats.mean == pytest.approx(there.mean())
        assert stats.std_dev == pytest.approx(there.std())
        assert (stats.min, stats.max) == (there.min(), there.max())
        assert stats.num_zeros == (there == 0).sum()
        median = np.quantile(there, 0.5, method="inverted_cdf")
        assert stats.median == pytest.approx(median, rel=1 / 128)
        distinct = {custom.name: custom.num for custom in one.custom_stats}["num_unique"]
        assert distinct == pytest.approx(len(set(there.tolist())), rel=0.1)


def test_statistics_are_a_file_of_the_dataset(air):
    assert "statistics.pb" in air.manifest.files
    assert verify(Location.parse(str(air.folder))).ok


def test_the_same_bytes_with_any_number_of_workers(air, tmp_path):
    again = table(tmp_path / "out", "--input", AIR, *AIR_OPTIONS, "--missing", "-200",
                  "--workers", 2)  # fmt: skip
    for name in ("statistics.pb", "dataset.json"):
        assert (again.folder / name).read_bytes() == (air.folder / name).read_bytes()


def test_records_are_counted_before_they_are_balanced(tmp_path):
    lines = [f"{n},{'rare' if n % 10 == 0 else 'often'}" for n in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["x,label", *lines]))
    made = table(tmp_path / "out", "--input", tmp_path / "t.csv", "--balance", "oversample")
    counts = {one.name: one.num_examples for one in messages(made).datasets}
    assert counts["All Examples"] == 300
    assert sum(n for name, n in counts.items() if name.endswith("label=rare")) == 30
    assert made.manifest.ledger.copies.written > 100


def test_they_can_be_left_out(tmp_path, sound):
    rows, _ = sound
    made = table(tmp_path / "out", "--input", rows, *AIR_OPTIONS, "--statistics=false")
    assert "statistics.pb" not in made.manifest.files
    assert not (made.folder / "statistics.pb").exists()


def test_pictures_have_some_if_they_are_asked_for(tmp_path):
    photos = sorted(CLOTHING.rglob("*.jpg"))[:20]
    lines = [f"{path},{path.parent.name},{place}" for place, path in enumerate(photos)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,price", *lines]))
    flags = ("--input", tmp_path / "list.csv", "--size", 16)
    without = make(tmp_path / "without", *flags)
    assert "statistics.pb" not in without.manifest.files
    made = make(tmp_path / "out", *flags, "--statistics")
    found = slices(made)["All Examples"]
    assert set(found) == {"label", "price", "image/height", "image/width", "image/channels",
                          "image/format"}  # fmt: skip
    assert found["image/channels"].num_stats.max == 3
    assert found["image/height"].num_stats.min > 100, "of the pictures as they were"
    assert [top.value for top in found["image/format"].string_stats.top_values] == ["jpeg"]
    assert made.manifest.digest == without.manifest.digest


# --- Schemas ------------------------------------------------------------------------------------


def test_the_schema_that_is_inferred(sound):
    _, schema = sound
    rules = load_rules(str(schema))
    assert tuple(rules.columns) == ("Time", *SENSORS)
    assert {name: one.type for name, one in rules.columns.items() if name in SENSORS} == {
        name: "INT" if name in INTEGERS else "FLOAT" for name in SENSORS
    }
    for name in SENSORS:
        values = [float(row[name].replace(",", ".")) for row in complete_rows()]
        domain = rules.columns[name].domain
        assert (domain.least, domain.most) == tuple(np.float32([min(values), max(values)]))
        assert rules.columns[name].required
        assert rules.columns[name].values == (1, 1)
    times = {row["Time"] for row in complete_rows()}
    assert set(rules.columns["Time"].domain.values) == times


def test_the_input_keeps_its_own_schema(tmp_path, sound):
    rows, schema = sound
    made = table(tmp_path / "out", "--input", rows, *AIR_OPTIONS, "--schema", schema)
    without = table(tmp_path / "without", "--input", rows, *AIR_OPTIONS)
    assert made.rejects == {}
    assert made.manifest.digest == without.manifest.digest


def broken_rows(rules) -> Iterator[tuple[dict[str, str], tuple[str, str, str]]]:
    """(what to change in a row, what is said of it), for all that a schema can ask of a number."""
    for name in SENSORS:
        domain = rules.columns[name].domain
        least, most = domain.least, domain.most
        whole = name in INTEGERS
        low, high = (f"{int(least)}", f"{int(most)}") if whole else (
            str(np.float32(least)), str(np.float32(most)))  # fmt: skip
        between = f", but the schema allows {low} to {high}"
        below, above = least - 1, most + 1
        for value in (below, above):
            shown = str(int(value)) if whole else f"{value:g}"
            written = shown if whole else f"{value:.6f}".replace(".", ",")
            yield {name: written}, ("check", "out_of_schema", f"column '{name}': {shown}{between}")
        missing = f"column '{name}': no value, but the schema requires min_fraction 1"
        yield {name: ""}, ("check", "out_of_schema", missing)
        yield {name: "none"}, ("read", "bad_value", f"column '{name}'.*'none'")
        if whole:
            yield {name: "1,5"}, ("read", "bad_value", f"column '{name}'.*'1,5'")
            yield {name: f"{2**64}"}, ("read", "bad_value", f"column '{name}'.*'{2**64}'")
        else:
            yield {name: "nan"}, ("check", "out_of_schema", missing)
            yield (
                {name: "inf"},
                ("check", "bad_value", f"column '{name}': inf is not a finite float32"),
            )
    yield {"Time": "24.00.00"}, ("check", "out_of_schema", "column 'Time': '24.00.00', but .*'00")
    yield {"Time": ""}, ("check", "out_of_schema", "column 'Time': no value")


def test_every_row_that_is_broken_on_purpose_is_a_reject_and_no_other(tmp_path, sound):
    """Thirteen sensors, each broken in every way."""
    rows, schema = sound
    good = complete_rows()
    broken = list(broken_rows(load_rules(str(schema))))
    assert len(broken) == 13 * 4 + 2 * 13 + 2
    changed = [{**good[place % len(good)], **change} for place, (change, _) in enumerate(broken)]
    source = write(tmp_path / "air.csv", [*good, *changed])
    made = table(tmp_path / "out", "--input", source, *AIR_OPTIONS, "--schema", schema)
    found = details(made)
    keys = [f"air.csv#{number}" for number in range(len(good) + 1, len(good) + len(broken) + 1)]
    assert set(found) == set(keys)
    for key, (change, (stage, reason, detail)) in zip(keys, broken, strict=True):
        assert found[key][:2] == (stage, reason), (change, found[key])
        pattern = ".*".join(re.escape(piece) for piece in detail.split(".*"))
        assert re.search(pattern, found[key][2]), (change, found[key])
    alone = table(tmp_path / "alone", "--input", rows, *AIR_OPTIONS, "--schema", schema)
    for split in ("train", "validation", "test"):
        assert made.examples(split) == alone.examples(split)


def test_a_schema_that_contradicts_every_column(tmp_path, sound, capsys):
    rows, _ = sound
    features = [f'feature {{ name: "{name}" type: FLOAT float_domain {{ min: 1e9 }} }}'
                for name in SENSORS]  # fmt: skip
    (tmp_path / "s.pbtxt").write_text("\n".join([*features, 'feature { name: "Time" type: INT }']))
    flags = ("--input", rows, "--output", tmp_path / "out", "--delimiter", ";", "--decimal", ",")
    assert run("table", *flags, "--schema", tmp_path / "s.pbtxt") == 1
    assert "827 of 827 inputs were rejected (100.0%)" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()


def small(folder: pathlib.Path, lines: list[str], schema: str) -> tuple[object, ...]:
    """The options of a run over a table and a schema."""
    (folder / "t.csv").write_text("\n".join(lines))
    (folder / "s.pbtxt").write_text(schema)
    return ("--input", folder / "t.csv", "--schema", folder / "s.pbtxt")


LINES = ["x,word", *(f"{n},{'abc'[n % 3]}" for n in range(200))]
SCHEMA = """
feature { name: "x" type: INT int_domain { max: 197 } }
feature { name: "word" type: BYTES string_domain { value: "a" value: "b" value: "c" } }
"""


def test_on_violation_fail_names_the_first(tmp_path, capsys):
    flags = small(tmp_path, LINES, SCHEMA)
    assert run("table", *flags, "--output", tmp_path / "out", "--on-violation", "fail") == 1
    error = capsys.readouterr().err
    assert (
        "2 records violate the schema, by column 'x' of 2, such as t.csv#199: 198, but the"
        " schema allows at most 197, t.csv#200: 199, but the schema allows at most 197: correct the"
        " input, or edit the schema"
    ) in error
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_on_violation_keep_tells_and_keeps(tmp_path):
    flags = small(tmp_path, LINES, SCHEMA)
    made = table(tmp_path / "out", *flags, "--on-violation", "keep")
    assert made.manifest.ledger.records.written == 200
    assert made.rejects == {}
    (note,) = [note for note in made.manifest.notes if "schema" in note]
    assert note.startswith("2 records violate the schema, by column 'x' of 2, such as t.csv#199")


def test_on_violation_reject_is_the_default(tmp_path):
    made = table(tmp_path / "out", *small(tmp_path, LINES, SCHEMA))
    assert made.rejects == {"t.csv#199": "out_of_schema", "t.csv#200": "out_of_schema"}
    assert made.manifest.ledger.records.rejected == 2
    assert slices(made)["All Examples"]["x"].num_stats.max == 197


def test_a_dataset_is_judged_as_a_whole(tmp_path, capsys):
    schema = SCHEMA.replace(
        'value: "c" }', '} distribution_constraints { min_domain_mass: 0.7 }'
    )  # fmt: skip
    flags = small(tmp_path, LINES, schema)
    assert run("table", *flags, "--output", tmp_path / "out") == 1
    assert (
        "column 'word': 132 of 198 values are in its domain, but the schema requires"
        " min_domain_mass 0.7: correct the input, or edit the schema"
    ) in capsys.readouterr().err
    flags = small(tmp_path, LINES, schema.replace("0.7", "0.6"))
    assert len(table(tmp_path / "out", *flags).rejects) == 2


def test_a_column_of_text_is_read_as_the_schema_says(tmp_path):
    lines = ["x,zip,n", *(f"{n if n != 50 else 'fifty'},0{n:04},{n}" for n in range(200))]
    schema = ('feature { name: "x" type: FLOAT } feature { name: "zip" type: INT }'
              'feature { name: "n" type: BYTES }')  # fmt: skip
    made = table(tmp_path / "out", *small(tmp_path, lines, schema))
    assert {name: one.dtype for name, one in made.manifest.features.items()} == {
        "x": "float32",
        "zip": "int64",
        "n": "string",
    }
    assert made.rejects == {"t.csv#51": "bad_value"}


def test_a_column_of_a_parquet_file_is_what_it_is(tmp_path, capsys):
    pa.parquet.write_table(pa.table({"x": [1, 2, 3] * 50}), tmp_path / "t.parquet")
    (tmp_path / "s.pbtxt").write_text('feature { name: "x" type: BYTES }')
    flags = ("--input", tmp_path / "t.parquet", "--schema", tmp_path / "s.pbtxt")
    assert run("table", *flags, "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "column 'x' has type int64, and the schema says type: BYTES" in error
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_lists_keep_rules_too(tmp_path):
    nan = float("nan")
    lists = [[1.0, 2.0]] * 200 + [[1.0], [1.0, nan], [1.0, float("-inf")], [1.0, -5.0], None]
    column = pa.array(lists, pa.list_(pa.float64()))
    pa.parquet.write_table(pa.table({"x": column}), tmp_path / "t.parquet")
    (tmp_path / "s.pbtxt").write_text(
        'feature { name: "x" type: FLOAT presence { min_fraction: 1 } value_count { min: 2 max: 2 }'
        " float_domain { min: 0 disallow_nan: true disallow_inf: true } }"
    )
    flags = ("--input", tmp_path / "t.parquet", "--schema", tmp_path / "s.pbtxt")
    made = table(tmp_path / "out", *flags, "--max-reject-fraction", 1)
    assert {key: detail for key, (_, _, detail) in details(made).items()} == {
        "t.parquet#201": "column 'x': 1 value, but the schema allows 2",
        "t.parquet#202": "column 'x': nan, which the schema disallows",
        "t.parquet#203": "row 203: column 'x': -inf is not a finite float32",
        "t.parquet#204": "column 'x': -5, but the schema allows at least 0.0",
        "t.parquet#205": "column 'x': no value, but the schema requires min_fraction 1",
    }


def test_a_column_that_never_has_a_value(tmp_path):
    lines = ["x,none", *(f"{n}," for n in range(100))]
    schema = 'feature { name: "x" } feature { name: "none" type: FLOAT presence { min_count: 0 } }'
    made = table(tmp_path / "out", *small(tmp_path, lines, schema))
    stats = slices(made)["All Examples"]["none"].num_stats
    assert stats.common_stats.num_missing == 100


def test_classes_are_a_column_of_the_schema(tmp_path):
    lines = ["x,label", *(f"{n},{'ham' if n else 'eggs'}" for n in range(200))]
    schema = ('feature { name: "x" type: INT }'
              'feature { name: "label" type: BYTES string_domain { value: "ham" } }')  # fmt: skip
    made = table(tmp_path / "out", *small(tmp_path, lines, schema))
    assert {key: detail for key, (_, _, detail) in details(made).items()} == {
        "t.csv#1": "column 'label': 'eggs', but the schema allows 'ham'"
    }
    assert made.manifest.labels == ("ham",)


def test_texts_keep_a_schema(tmp_path):
    lines = ["text,stars", *(f"review {n},{n % 7}" for n in range(200))]
    schema = ('feature { name: "text" type: BYTES presence { min_fraction: 1 } }'
              'feature { name: "stars" type: INT int_domain { max: 5 } }')  # fmt: skip
    flags = small(tmp_path, lines, schema)
    made = make(tmp_path / "out", *flags, "--max-reject-fraction", 1, command="text")
    assert set(made.rejects.values()) == {"out_of_schema"}
    assert len(made.rejects) == 28


def test_pictures_keep_a_schema_by_their_headers(tmp_path):
    photos = sorted(CLOTHING.rglob("*.jpg"))[:12]
    heights = {}
    for path in photos:
        with Image.open(path) as picture:
            heights[str(path)] = picture.height
    limit = sorted(set(heights.values()))[-2]
    (tmp_path / "bad.jpg").write_text("no picture")
    rows = [f"{path},a" for path in [*photos, tmp_path / "bad.jpg"]]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    (tmp_path / "s.pbtxt").write_text(
        f'feature {{ name: "image/height" type: INT int_domain {{ max: {limit} }} }}'
        'feature { name: "image/format" string_domain { value: "jpeg" } }'
        'feature { name: "label" string_domain { value: "a" } }'
    )
    flags = ("--input", tmp_path / "list.csv", "--schema", tmp_path / "s.pbtxt", "--size", 8)
    made = make(tmp_path / "out", *flags, "--max-reject-fraction", 1)
    tall = {path for path, height in heights.items() if height > limit}
    reasons = made.rejects
    assert sorted(reasons.values()) == ["not_an_image"] + ["out_of_schema"] * len(tall)
    assert made.manifest.ledger.records.written == 12 - len(tall)


WRONG = {
    ("--schema", "nowhere.pbtxt"): "nowhere.pbtxt: it or its folder does not exist",
    ("--on-violation", "drop"): "expected one of reject, fail, keep; got 'drop'",
    ("--compare-with", "nowhere"): "--compare-with nowhere: no dataset",
}


@pytest.mark.parametrize("flags", WRONG)
def test_options_that_cannot_work(tmp_path, capsys, monkeypatch, flags):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join(LINES))
    assert run("table", "--input", "t.csv", "--output", "out", *flags) == 2
    assert WRONG[flags] in capsys.readouterr().err


def test_a_schema_that_is_there_is_not_written_over(tmp_path, sound, capsys):
    rows, schema = sound
    before = schema.read_bytes()
    flags = ("--input", rows, *AIR_OPTIONS, "--output", tmp_path / "out")
    assert run("table", *flags, "--infer-schema", schema) == 2
    assert "the file exists: name another one" in capsys.readouterr().err
    assert schema.read_bytes() == before


def test_a_column_with_the_name_of_the_class(tmp_path, capsys):
    photo = next(CLOTHING.rglob("*.jpg"))
    (tmp_path / "list.csv").write_text(f"path,kind,label\n{photo},a,b\n")
    flags = ("--input", tmp_path / "list.csv", "--label-column", "kind", "--statistics")
    assert run("images", *flags, "--output", tmp_path / "out") == 2
    assert "column 'label' has the name that is reserved for the class" in capsys.readouterr().err


# --- Drift --------------------------------------------------------------------------------------


def test_drift_between_datasets_and_skew_between_splits(tmp_path, capsys):
    before = [f"{n % 10},{'ab'[n % 2]}" for n in range(400)]
    after = [f"{n % 10 + 5},{'a' if n % 4 else 'c'}" for n in range(400)]
    for name, lines in {"before": before, "after": after}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["n,word", *lines]))
    table(tmp_path / "old", "--input", tmp_path / "before.csv")
    capsys.readouterr()
    flags = ["--input", tmp_path / "after.csv", "--compare-with", tmp_path / "old"]
    assert main(["table", *map(str, flags), "--output", str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert re.search(r"skew between splits +distance", said)
    assert re.search(r"\nword +0\.500 +50\.0% +0\.0% +b\b", said)
    assert re.search(r"\nn +0\.500 +0\.0% +50\.0% +9\.06. and above", said)
    inspected = ["inspect", "--dataset", str(tmp_path / "new")]
    assert main([*inspected, "--compare-with", str(tmp_path / "old")]) == 0
    assert re.search(r"\nword +0\.500 ", capsys.readouterr().out)
    assert main([*inspected, "--compare-with", str(tmp_path / "old"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["drift"]["distances"][0]["infinity_norm"] == 0.5
    assert {one["records"] for one in found["skew"]["distances"]} == {"validation", "test"}
    assert main([*inspected, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drift"] is None


def test_drift_within_noise_is_counted_but_not_shown(tmp_path, capsys):
    """Gates and JSON take it as it is."""
    generator = np.random.default_rng(0)
    for name, share in (("old", 0.5), ("new", 0.5)):
        rows = [
            f"{n},{a},{'x' if b < share else 'y'}"
            for n, a, b in zip(
                generator.normal(size=300),
                generator.choice(["r", "g", "b"], 300),
                generator.random(300) + (name == "new") * 0.2,
                strict=True,
            )
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["n,colour,moved", *rows]))
    table(tmp_path / "old", "--input", tmp_path / "old.csv", "--label-type", "none")
    argv = ["table", "--input", tmp_path / "new.csv", "--label-type", "none", "--compare-with"]
    argv += [tmp_path / "old", "--output", tmp_path / "new"]
    capsys.readouterr()
    assert main([*map(str, argv)]) == 0
    said = capsys.readouterr().out
    drifted = said[re.search(r"\ndrift +distance", said).start() :]
    assert re.search(r"\nmoved +0\.[12]", drifted)
    assert not re.search(r"\n(n|colour) +0\.", said)
    assert "\n... 2 columns within noise" in drifted
    inspected = ["inspect", "--dataset", str(tmp_path / "new"), "--compare-with"]
    assert main([*inspected, str(tmp_path / "old"), "--json"]) == 0
    distances = json.loads(capsys.readouterr().out)["drift"]["distances"]
    small = {one["column"]: one["distance"] for one in distances}
    assert small.keys() == {"n", "colour", "moved"}
    assert 0 < small["colour"] < 0.1
    limit = f"1,colour={small['colour'] / 2}"
    argv[-1] = tmp_path / "gated"
    assert main([*map(str, argv), "--max-drift", limit]) == 1
    assert "column 'colour' has a drift of" in capsys.readouterr().err


def test_values_that_went_missing_are_drift(tmp_path, capsys):
    for name, lost in {"before": 0, "after": 2}.items():
        lines = [f"{'' if lost and n % lost else n % 10},{'ab'[n % 2]}" for n in range(400)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["n,word", *lines]))
    table(tmp_path / "old", "--input", tmp_path / "before.csv")
    capsys.readouterr()
    flags = ["--input", tmp_path / "after.csv", "--compare-with", tmp_path / "old"]
    assert main(["table", *map(str, flags), "--output", str(tmp_path / "new")]) == 0
    row = r"\nn +0\.500 +0\.0% +50\.0% +missing\b"
    assert re.search(row, capsys.readouterr().out)
    inspected = ["inspect", "--dataset", str(tmp_path / "new"), "--compare-with"]
    assert main([*inspected, str(tmp_path / "old")]) == 0
    assert re.search(row, capsys.readouterr().out)
    assert main([*inspected, str(tmp_path / "old"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["drift"]["distances"][0]
    assert (found["column"], found["distance"], found["missing"]) == ("n", 0.5, [0, 0.5])


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> Made:
    """A dataset to compare with, of numbers that stay and words that change."""
    folder = tmp_path_factory.mktemp("before")
    rows = [f"{n},{'ab'[n % 2]}" for n in range(400)]
    (folder / "before.csv").write_text("\n".join(["n,word", *rows]))
    return table(folder / "out", "--input", folder / "before.csv")


@pytest.mark.parametrize("on_violation", ["reject", "fail", "keep"])
def test_limits_of_drift_and_skew(before, tmp_path, capsys, on_violation):
    schema = """
    feature { name: "n" skew_comparator { jensen_shannon_divergence { threshold: 0.0001 } } }
    feature { name: "word" drift_comparator { infinity_norm { threshold: 0.3 } } }
    """
    lines = ["n,word", *(f"{n},c" for n in range(400))]
    flags = (*small(tmp_path, lines, schema), "--compare-with", before.folder,
             "--on-violation", on_violation, "--output", tmp_path / "new")  # fmt: skip
    code = main(["table", *map(str, flags)])
    said = capsys.readouterr()
    drift = "column 'word' has a drift from --compare-with of 1 (infinity_norm), but the schema"
    skew = "column 'n' has a skew between train and test of"
    if on_violation == "fail":
        assert code == 1
        assert drift in said.err
        assert skew in said.err
        return
    assert code == 0
    assert f"Warning: {drift}" in said.out.replace("\n", " ")
    notes = Made(tmp_path / "new").manifest.notes
    assert any(note.startswith(skew) for note in notes)
    assert not any(drift in note for note in notes), "it is not about this dataset alone"


def test_a_limit_of_drift_that_nobody_looks_at_is_told(tmp_path, capsys):
    limit = "drift_comparator { infinity_norm { threshold: 0.3 } }"
    flags = small(tmp_path, LINES, f'feature {{ name: "x" }} feature {{ name: "word" {limit} }}')
    argv = ["table", *map(str, flags), "--output", str(tmp_path / "old")]
    assert main(argv) == 0
    said = "Note: the schema limits the drift of 'word', but drift is only checked with --compare"
    assert said in " ".join(capsys.readouterr().out.split())
    compared = [*argv[:-1], str(tmp_path / "new"), "--compare-with", str(tmp_path / "old")]
    assert main(compared) == 0
    assert "drift is only checked" not in capsys.readouterr().out


def test_a_dataset_without_statistics_cannot_be_compared_with(tmp_path, sound, capsys):
    rows, _ = sound
    table(tmp_path / "old", "--input", rows, *AIR_OPTIONS, "--statistics=false")
    flags = ("--input", rows, *AIR_OPTIONS, "--output", tmp_path / "new")
    assert run("table", *flags, "--compare-with", tmp_path / "old") == 2
    assert "the dataset has no statistics.pb" in capsys.readouterr().err
    assert main(["inspect", "--dataset", str(tmp_path / "old"), "--compare-with", "x"]) == 2
    assert "has no statistics.pb" in capsys.readouterr().err
    assert main(["inspect", "--dataset", str(tmp_path / "old"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skew"] is None


def test_the_schema_of_the_field_reads_what_is_written(sound):
    _, schema = sound
    message = text_format.Parse(schema.read_text(), schema_pb2.Schema())
    assert [feature.name for feature in message.feature] == ["Time", *SENSORS]


@pytest.mark.parametrize("content", [b"", None])
def test_statistics_that_are_not_those_of_the_dataset_are_damage(content, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    rows.write_text("x,label\n1,a\n2,b\n3,a\n")
    made = table(tmp_path / "out", "--input", rows, "--splits", "train=1")
    file = made.folder / "statistics.pb"
    file.write_bytes(file.read_bytes()[:-1] + b"\0" if content is None else content)
    assert main(["inspect", "--dataset", str(made.folder)]) == 1
    assert "statistics.pb is damaged" in capsys.readouterr().err
    out = str(tmp_path / "report.html")
    assert main(["report", "--dataset", str(made.folder), "--output", out]) == 1
    assert "statistics.pb is damaged" in capsys.readouterr().err
