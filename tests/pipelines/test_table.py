"""`recordmill table` from end to end: real tables in, read back by TensorFlow."""

import csv
import itertools
import json
import math
import pathlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.paths import AIR, IMBALANCED
from tests.row_keys import by_row, places_of_keys
from tests.tensorflow_reads import parse_at_once

_AN_ID = " (if it is an id such as 7E70, --types n=string keeps the text)"

pytestmark = pytest.mark.usefixtures("encoders")

PLAIN = ("CO(GT)", "PT08.S1(CO)", "NMHC(GT)", "C6H6(GT)", "PT08.S2(NMHC)", "NOx(GT)",
         "PT08.S3(NOx)", "NO2(GT)", "PT08.S4(NO2)", "PT08.S5(O3)")  # fmt: skip


def make(folder: pathlib.Path, *argv: object) -> Made:
    made = make_any(folder, *argv, command="table")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def table(path: pathlib.Path, lines: str | bytes) -> pathlib.Path:
    path.write_bytes(lines.encode() if isinstance(lines, str) else lines)
    return path


def records(made: Made) -> dict[str, dict]:
    """{key: features} of all splits, copies left aside."""
    return {
        key: example
        for split in made.manifest.splits
        for (key, copy), example in made.examples(split).items()
        if copy == 0
    }


@pytest.fixture(scope="module")
def air_file(tmp_path_factory) -> pathlib.Path:
    """The first third of the file, and the 114 empty rows at its end."""
    path = tmp_path_factory.mktemp("air") / AIR.name
    lines = AIR.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3001], *lines[-114:]]))
    return path


@pytest.fixture(scope="module")
def air_options(air_file) -> tuple[object, ...]:
    return ("--input", air_file, "--delimiter", ";", "--decimal", ",", "--missing", "-200")


@pytest.fixture(scope="module")
def air(air_options, tmp_path_factory) -> Made:
    return make(
        tmp_path_factory.mktemp("air") / "out",
        *(*air_options, "--zscore", "T,RH,AH", "--seed", 7, "--num-shards", "train=2"),
    )


def air_rows(path: pathlib.Path) -> list[dict[str, str]]:
    """As Python's own parser reads the file."""
    lines = path.read_text().splitlines()
    names = lines[0].rstrip(",").split(";")
    rows = [dict(zip(names, line.split(";"), strict=False)) for line in lines[1:]]
    return [row for row in rows if any(row.values())]


def test_every_row_is_there_once_with_all_its_numbers(air, air_file, air_options):
    rows = air_rows(air_file)
    found = by_row(records(air), "table", *air_options)
    assert len(rows) == len(found) == 3000
    assert air.manifest.ledger.inputs.filtered == 114
    for number, row in enumerate(rows, 1):
        example = found[f"AirQualityUCI.csv#{number}"]
        assert example["Date"] == [row["Date"].encode()]
        for name in PLAIN:
            value = float(row[name].replace(",", "."))
            if value == -200:
                assert name not in example
            else:
                assert math.isclose(example[name][0], value, rel_tol=1e-6)


def test_zscores_are_of_train(air, air_file, air_options):
    for name in ("T", "RH", "AH"):
        train = [e[name][0] for e in air.examples("train").values() if name in e]
        assert abs(np.mean(train, dtype=np.float64)) < 1e-5
        assert abs(np.std(train, dtype=np.float64) - 1) < 1e-5
    learned = json.loads((air.folder / "learned.json").read_text())
    rows = {f"AirQualityUCI.csv#{number}": row for number, row in enumerate(air_rows(air_file), 1)}
    places = places_of_keys("table", *air_options)
    for split in ("validation", "test"):
        for (key, _), example in air.examples(split).items():
            value = float(rows[places[key]]["T"].replace(",", "."))
            if value != -200:
                expected = (value - learned["T"]["mean"]) / learned["T"]["deviation"]
                assert math.isclose(example["T"][0], expected, rel_tol=1e-6, abs_tol=1e-6)


def test_tensorflow_reads_it(air):
    columns = parse_at_once(air, "test").values()
    assert {column.shape[0] for column in columns} == {air.manifest.splits["test"].records}


def test_the_same_bytes_with_any_number_of_workers(air, air_options, tmp_path):
    again = make(
        tmp_path / "out",
        *(*air_options, "--zscore", "T,RH,AH", "--seed", 7, "--num-shards", "train=2"),
        *("--workers", 2, "--spill-above", "10kB"),
    )
    assert again.manifest.digest == air.manifest.digest
    assert (again.folder / "dataset.json").read_bytes() == (
        air.folder / "dataset.json"
    ).read_bytes()


def test_classes_are_balanced_in_train(tmp_path):
    columns = "area,grey,gradient,noise,contrast,moment,label"
    lines = IMBALANCED.read_text().splitlines()[::4]
    source = table(tmp_path / "imbalanced.csv", "\n".join(lines))
    made = make(
        tmp_path / "out",
        *("--input", source, "--columns", columns, "--balance", "oversample"),
        *("--zscore", "area", "--bucketize", "grey=10", "--minmax", "noise"),
    )
    classes = Counter(row[-1] for row in csv.reader(lines))
    assert sorted(classes.values()) == [66, 2730]
    assert (
        Counter(
            row["label"] for s in made.manifest.splits for row in made.index(s) if not row["copy"]
        )
        == classes
    )
    assert len(set(made.manifest.splits["train"].classes.values())) == 1
    assert not any(row["copy"] for split in ("validation", "test") for row in made.index(split))
    train = [
        example["area"][0] for (_, copy), example in made.examples("train").items() if copy == 0
    ]
    assert abs(np.mean(train, dtype=np.float64)) < 1e-5
    assert abs(np.std(train, dtype=np.float64) - 1) < 1e-5


def test_columns_with_a_value_in_every_row_have_a_fixed_shape(tmp_path):
    rows = "".join(f"{n},{n * 0.5},x{n % 3},{n if n % 2 else ''}\n" for n in range(30))
    source = table(tmp_path / "t.csv", f"a,b,c,d\n{rows}")
    made = make(tmp_path / "out", "--input", source, "--one-hot", "c", "--indicator", "d")
    features = {name: (f.dtype, f.shape) for name, f in made.manifest.features.items()}
    assert features == {
        "a": ("int64", ()),
        "b": ("float32", ()),
        "c": ("float32", (3,)),
        "d": ("int64", (None,)),
        "d/missing": ("int64", ()),
    }
    for place, example in by_row(records(made), "table", "--input", source).items():
        number = int(place.partition("#")[2]) - 1
        assert example["d/missing"][0] == 1 - number % 2
        assert sum(example["c"]) == 1


@pytest.mark.parametrize(
    ("name", "content", "options", "values", "rejects"),
    [
        pytest.param(
            "t.csv",
            "n,x\n1,a\n2.5,b\n,c\n1e3,d\n9223372036854775808,e\n",
            ["--types", "n=int"],
            [1, None],
            {
                "t.csv#2": "row 2: column 'n': expected a 64-bit integer, got '2.5'",
                "t.csv#4": "row 4: column 'n': expected a 64-bit integer, got '1e3'",
                "t.csv#5": "row 5: column 'n': expected a 64-bit integer, got "
                "'9223372036854775808'",
            },
            id="no integers",
        ),
        pytest.param(
            "t.csv",
            "n,x\n12345678901234567890,a\n1,b\n",
            [],
            [b"12345678901234567890", b"1"],
            {},
            id="integers beyond int64 stay text",
        ),
        pytest.param(
            "t.csv",
            "n,x\n1.5,a\nnan,b\ninf,c\n-1e300,d\n",
            [],
            [1.5, None],
            {
                "t.csv#3": f"column 'n': inf is not a finite float32{_AN_ID}",
                "t.csv#4": f"column 'n': -1e+300 is not a finite float32{_AN_ID}",
            },
            id="NaN is nothing, infinity no number",
        ),
        pytest.param(
            "t.csv",
            b"n,x\n1,a\n\xff,b\n2,\xe9\n3,d\n",
            ["--types", "n=int"],
            [1, 3],
            {
                "t.csv#2": "row 2: not UTF-8: name the encoding with --encoding",
                "t.csv#3": "row 3: not UTF-8: name the encoding with --encoding",
            },
            id="several encodings",
        ),
        pytest.param(
            "t.csv",
            "# made by hand\nn;x\n1,5;a;;\n\n2;b\n# not this\n-1;c;,\n3;d;e\n;;;\n?;f\n",
            ["--delimiter", ";", "--decimal", ",", "--comment", "#", "--missing", "n=-1,?"],
            [1.5, 2, None, None],
            {"t.csv#4": "row 4: expected 2 columns, got 3"},
            id="decimal commas, comments, ragged rows, spellings of nothing",
        ),
        pytest.param(
            "t.jsonl",
            '{"n": 1, "x": "a"}\n{"n": -1.0, "x": "b"}\n{"x": "c"}\n{"n": 2.5}\n',
            ["--missing", "n=-1"],
            [1, None, None, 2.5],
            {},
            id="spellings of nothing in JSON",
        ),
        pytest.param(
            "t.jsonl",
            '{"n": 1, "x": "a"}\n{"n": "one"}\n{"n": 2.5}\n{"n": null}\n{"n": "-1"}\n{"n": "7"}\n',
            ["--types", "n=int", "--missing", "n=-1"],
            [1, None, None, 7],
            {
                "t.jsonl#2": "row 2: column 'n': expected a 64-bit integer, got 'one'",
                "t.jsonl#3": "row 3: column 'n': expected a 64-bit integer, got '2.5'",
            },
            id="no integers in JSON",
        ),
        pytest.param(
            "t.csv",
            "n,x\n2024-01-31,a\n2024-02-30,b\n1970-01-02,c\n",
            ["--types", "n=date"],
            [19753, 1],
            {"t.csv#2": "row 2: column 'n': expected a date such as 2026-01-31, got '2024-02-30'"},
            id="dates",
        ),
    ],
)  # fmt: skip
def test_values(name, content, options, values, rejects, tmp_path):
    source = table(tmp_path / name, content)
    made = make(tmp_path / "out", "--input", source, *options, "--max-reject-fraction", 1)
    found = by_row(records(made), "table", "--input", source, *options)
    in_order = sorted(found, key=lambda key: int(key.partition("#")[2]))
    assert [found[key]["n"][0] if "n" in found[key] else None for key in in_order] == values
    told = [json.loads(line) for line in (made.folder / "rejects.jsonl").read_text().splitlines()]
    assert {reject["key"]: reject["detail"] for reject in told} == rejects


def test_files_with_types_are_read_the_same_way(tmp_path):
    """Parquet: what is missing, what is always there, what is declared to be something else."""
    columns = {
        "whole": [1, 2, 3, 4],  # as pandas writes it: null could be there
        "part": [0.5, math.nan, -200.0, 1.5],
        "text": ["a", "?", None, "b"],
        "number": ["1", "2", "three", "4"],
    }
    source = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), source)
    options = ("--missing", "-200,?", "--types", "number=int,whole=float")
    made = make(tmp_path / "out", "--input", source, *options, "--max-reject-fraction", 1)
    features = {name: (f.dtype, f.shape) for name, f in made.manifest.features.items()}
    assert features == {
        "whole": ("float32", ()),
        "part": ("float32", (None,)),
        "text": ("string", (None,)),
        "number": ("int64", ()),
    }
    assert by_row(records(made), "table", "--input", source, *options) == {
        "t.parquet#1": {"whole": [1.0], "part": [0.5], "text": [b"a"], "number": [1]},
        "t.parquet#2": {"whole": [2.0], "number": [2]},
        "t.parquet#4": {"whole": [4.0], "part": [1.5], "text": [b"b"], "number": [4]},
    }
    (told,) = (made.folder / "rejects.jsonl").read_text().splitlines()
    expected = "row 3: column 'number': expected a 64-bit integer, got 'three'"
    assert json.loads(told)["detail"] == expected


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(
    ("thirds", "options", "shapes"),
    [
        (
            {"a": "nan", "b": "-nan", "c": "-200.0", "d": "-0200", "e": "5"},
            [
                *("--types", "a=float,b=float,c=float,d=int,e=float", "--zscore", "b"),
                *("--missing", "c=-200", "--missing", "d=-200", "--missing", "e=-200"),
            ],
            {**dict.fromkeys("abcd", (None,)), "e": ()},
        ),
        ({"a": "nan"}, ["--types", "a=int"], {"a": ()}),
        (
            {"a": "nan"},
            ["--label-column", "a", "--label-type", "float", "--unlabelled", "keep"],
            {"label": (None,)},
        ),
        ({"a": "nan"}, ["--label-column", "a", "--label-type", "float"], {"label": ()}),
    ],
)
def test_texts_that_are_missing_as_numbers(tmp_path, name, thirds, options, shapes):
    """A text makes the column text, until options say that it holds numbers."""
    columns = {column: ["01", "text", third, "3", "4"] for column, third in thirds.items()}
    columns["y"] = [*"abcde"]
    source = tmp_path / name
    if name == "t.csv":
        rows = [[*columns], *zip(*columns.values(), strict=True)]
        table(source, "".join(",".join(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.table(columns), source)
    made = make(tmp_path / "out", "--input", source, *options, "--max-reject-fraction", 1)
    features = made.manifest.features
    assert {feature: features[feature].shape for feature in shapes} == shapes
    assert main(["verify", "--dataset", str(made.folder), "--workers", "1"]) == 0


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("a,b\n1,2\n", ["--zscore", "c"], "column 'c' of .* does not exist"),
        (
            "a,b\n1,2\n",
            ["--zscore", "b", "--label-column", "b"],
            "column 'b' of .* is not a feature column",
        ),
        ("a,b\n1,2\n", ["--types", "a=integer"], "--types a=integer: expected one of int, float"),
        ("a,a\n1,2\n", [], "has duplicate column names"),
        ("a;b\n1;2\n", [], "has one column, 'a;b': if it holds several, pass --delimiter ';'"),
        ("a\tb\n1\t2\n", [], "if it holds several, pass --delimiter tab"),
        ("", [], "found no rows in"),
        ("a,b\nx,2\ny,3\n", ["--zscore", "a"], "--zscore a: expected a column of numbers, got str"),
        ("a,b\n,2\n,3\n", ["--zscore", "a"], "column 'a' of .* has no value in any row"),
        (
            "a,b\n1,2\n",
            ["--date-parts", "a=year"],
            "--date-parts a: expected a column of dates, got .*; --types a=date reads dates such as"
            " 2026-01-31 and rejects others: write them so",
        ),
        ("a,label\n1,2.5\n2,3.25\n", [], "the classes of column 'label' are decimal numbers"),
        ("a,b\n1,2\n", ["--impute", "a=many"], "--impute a=many: expected a value of the column"),
        (
            "a,b\n1.5,2\n,3\n",
            ["--impute", "a=1.0", "--hash", "a=9"],
            "--impute a=1.0: the column of type double .* as 1: use --impute a=1",
        ),
        ("a,b\n2026-01-01,2\n", ["--types", "a=date", "--log", "a"], "--date-parts a=year"),
        ("a,b\n1,2\n", ["--bucketize", "a=x"], "--bucketize a=x: expected a whole number, got 'x'"),
        ("a,b\n1,2\n", ["--clip", "a=5:1"], "--clip a=5:1: .* 5 is not less than 1"),
        ("label/x,label\n1,2\n", ["--rename", "label/x=label"], "would both be named"),
        (
            "age,label\n1,2\n",
            ["--label-type", "float", "--label-column", "age"],
            "the label of a record, in the column 'age', becomes the feature 'label', but another"
            r" column has this name: leave it out \(--drop-columns label\), or rename it"
            r" \(--rename label=NAME\)",
        ),
        ("a,a/missing\n1,5\n,6\n", ["--indicator", "a"], "'a/missing' .* that the pipeline writes"),
        ("a/missing,a\n5,1\n6,\n", ["--indicator", "a"], "'a/missing' .* that the pipeline writes"),
        ("ab,b\n1,2\n", ["--missing", "a=-1"], "--missing a=-1: no column 'a' .*did you mean 'ab'"),
        (
            "a,a/year\n2026-01-01,2\n",
            ["--types", "a=date", "--date-parts", "a=year"],
            "'a/year' of the input has the name of a feature",
        ),
    ],
)
def test_invalid_input_is_reported(content, options, words, tmp_path, capsys):
    source = table(tmp_path / "t.csv", content)
    assert run("table", "--input", source, "--output", tmp_path / "out", *options) in (1, 2)
    assert_matches(capsys.readouterr().err, words)
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hash", "b=10"], "--hash b: expected a column of text or numbers, got binary; "),
        (
            ["--one-hot", "b"],
            "--one-hot b: .* --types b=string reads UTF-8 and rejects other bytes",
        ),
        (["--vocabulary", "b"], "--vocabulary b: expected a column of text"),
        (["--zscore", "l"], "'l' has lists, .* to keep the lists"),
        (["--types", "b=string"], r"expected text in UTF-8, got b'.x00"),
    ],
)
def test_transforms_that_a_type_does_not_support_are_reported(options, words, tmp_path, capsys):
    source = tmp_path / "t.parquet"
    pq.write_table(pa.table({"b": [b"\x00\xff"], "l": [[1, 2]]}), source)
    assert run("table", "--input", source, "--output", tmp_path / "out", *options) in (1, 2)
    assert_matches(capsys.readouterr().err, words)


def assert_matches(told: str, words: str) -> None:
    import re

    assert re.search(words, " ".join(told.split())), told


def test_a_binary_file_is_no_table(tmp_path, capsys):
    source = table(tmp_path / "t.csv", bytes(itertools.chain(range(256), range(256))) * 20)
    assert run("table", "--input", source, "--output", tmp_path / "out") in (1, 2)
    assert "t.csv" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["table", "text"])
def test_classes_of_hub_exports_have_names(command, tmp_path):
    """As for images; -1 is no class, and --where compares the numbers."""
    feature = {"_type": "ClassLabel", "names": ["no", "yes"]}
    table = pa.table({"text": ["a", "b", "c", "d", "e"], "label": [0, 1, 1, -1, 7]})
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "in.parquet")
    argv = ("--input", tmp_path / "in.parquet", "--splits", "train=1", "--max-reject-fraction", 1)
    made = make_any(tmp_path / "out", *argv, command=command)
    assert made.manifest.labels == ("no", "yes")
    assert Counter(row["label"] for row in made.index("train")) == {"no": 1, "yes": 2}
    assert made.rejects == {"in.parquet#4": "unlabelled", "in.parquet#5": "bad_value"}
    some = make_any(tmp_path / "some", *argv, "--where", "label == 1", command=command)
    assert [row["label"] for row in some.index("train")] == ["yes", "yes"]
