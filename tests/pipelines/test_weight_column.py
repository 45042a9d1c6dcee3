"""Weights of records from a column, through the command line and the loader."""

import json

import pytest
import tensorflow as tf

import recordmill
from recordmill.pipelines.cli import main
from tests.folders import make_picture
from tests.image_runs import make, run

pytestmark = pytest.mark.usefixtures("encoders")

ROWS = [
    "id,w,x,label,text,path",
    "1,1,0.5,a,one,1.png",
    "2,0,1.5,b,two,2.png",
    "3,2.5,2.5,a,three,3.png",
    "4,,1,b,four,4.png",
    "5,-1,2,a,five,5.png",
    "6,nan,3,b,six,6.png",
    "7,many,3,b,seven,7.png",
    "8,1e39,3,b,eight,8.png",
]
REASONS = [
    "row 4: column 'w': expected a weight of 0 or more, got none",
    "row 5: column 'w': expected a weight of 0 or more, got -1",
    "row 6: column 'w': expected a weight of 0 or more, got none",
    "row 7: column 'w': expected a number, got 'many'",
    "row 8: column 'w': expected a weight of 0 or more, got 1e+39",
]


@pytest.fixture
def source(tmp_path):
    (tmp_path / "rows.csv").write_text("\n".join(ROWS))
    for n in range(1, 9):
        make_picture(tmp_path / f"{n}.png", n)
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("command", ["images", "table", "text"])
def test_weights_are_those_of_the_loader(command, source, tmp_path):
    more = {"images": ["--size", 8], "table": [], "text": ["--text-column", "text"]}[command]
    argv = ["--input", source, "--splits", "train=1", "--weight-column", "w", *more]
    argv += ["--drop-columns", "path"] if command != "images" else []
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", 1, command=command)
    assert main(["verify", "--dataset", str(made.folder)]) == 0
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["detail"] for line in lines) == REASONS
    feature = made.manifest.features["weight"]
    assert (feature.dtype, feature.shape) == ("float32", ())
    assert "w" not in made.manifest.features
    wanted = {1: (0, 1.0), 2: (1, 0.0), 3: (0, 2.5)}
    records = recordmill.load(made.folder, batch_size=2, inputs="id")
    found = {}
    for x, y, weight in records:
        assert weight.dtype == tf.float32
        for number, label, one in zip(
            x.numpy().reshape(-1), y.numpy(), weight.numpy(), strict=True
        ):
            found[int(number)] = (label, one)
    assert found == wanted
    every = recordmill.load(made.folder, as_supervised=False)
    assert {one["id"].numpy().reshape(-1)[0]: float(one["weight"]) for one in every} == {
        number: weight for number, (_, weight) in wanted.items()
    }
    if command == "table":
        assert "weight" not in recordmill.load(made.folder).element_spec[0]


def test_class_weights_and_the_name_of_the_feature(source, tmp_path):
    argv = ["--input", source, "--splits", "train=1", "--weight-column", "w", "--rename", "w=mass"]
    argv += ["--max-reject-fraction", 1, "--drop-columns", "path"]
    made = make(tmp_path / "out", *argv, command="table")
    assert "mass" in made.manifest.features
    weights = made.manifest.class_weights
    records = recordmill.load(made.folder, inputs="id", class_weights=True)
    assert {int(x): float(weight) for x, _, weight in records} == {
        1: pytest.approx(weights["a"]),
        2: 0.0,
        3: pytest.approx(2.5 * weights["a"]),
    }


def test_a_corrected_weight_moves_no_record(source, tmp_path):
    argv = ["--weight-column", "w", "--max-reject-fraction", 1, "--drop-columns", "path"]
    made = make(tmp_path / "out", "--input", source, *argv, command="table")
    source.write_text("\n".join([ROWS[0], ROWS[1].replace(",1,", ",9,"), *ROWS[2:]]))
    again = make(tmp_path / "again", "--input", source, *argv, command="table")
    for split in made.manifest.splits:
        assert made.keys(split) == again.keys(split)


@pytest.mark.parametrize(
    ("command", "argv", "message"),
    [
        ("table", ["--weight-column", "ww"], "no column 'ww' in"),
        ("images", ["--weight-column", "ww"], "no column 'ww' in"),
        ("table", ["--weight-column", "label"], "has another role (label"),
        ("table", ["--weight-column", "w", "--zscore", "w"], "makes a feature of it"),
        ("text", ["--weight-column", "w", "--features", "tokens", "--tokenizer", "whitespace",
                  "--pack", "8", "--end-token", "[END]", "--special-tokens", "[END]"],
         "packed texts have no label and no weight"),
        ("sensor", ["--weight-column", "w", "--time-column", "id", "--window", "2"],
         "gives weights to rows, and records are windows"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(command, argv, message, source, tmp_path, capsys):
    assert run(command, "--input", source, "--output", tmp_path / "out", *argv) == 2
    assert message in capsys.readouterr().err
