"""Decimal commas and semicolons, as spreadsheets of many countries write them."""

import json

import pytest

from tests import sounds
from tests.folders import make_folder, make_picture
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

HINT = "; --decimal , reads decimal commas"
ADVICE = "most of them are numbers with decimal commas, which --decimal , reads"
SEMICOLONS = ("--delimiter", ";")
COMMA = (*SEMICOLONS, "--decimal", ",")


def examples(made: Made) -> list[dict]:
    return [one for split in made.manifest.splits for one in made.examples(split).values()]


def test_classes_with_decimal_commas_are_numbers(tmp_path, capsys):
    rows = "".join(f"a{n};{n},{n % 10}5\n" for n in range(9))
    (tmp_path / "a.csv").write_text("name;label\n" + rows)
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert run("table", *given, *SEMICOLONS) == 1
    assert (
        "the column 'label' has 9 classes, and all look like numbers with decimal commas: --decimal"
        " , --label-type float reads them as numbers to predict" in capsys.readouterr().err
    )
    assert run("table", *given, *SEMICOLONS, "--label-type", "float") == 1
    assert ADVICE in capsys.readouterr().err
    made = make(tmp_path / "out", *given[:2], *COMMA, "--label-type", "float", command="table")
    expected = [n + n / 10 + 0.05 for n in range(9)]
    assert sorted(one["label"][0] for one in examples(made)) == pytest.approx(expected)
    assert make(tmp_path / "b", *given[:2], *SEMICOLONS, "--label-type", "class", command="table")


def test_targets_and_weights_of_listings(tmp_path, capsys):
    make_folder(tmp_path / "photos", {"ant": 4})
    files = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("photos/*/*"))
    rows = "".join(f"{name};{n},5;{n},25\n" for n, name in enumerate(files))
    (tmp_path / "a.csv").write_text("path;age;weight\n" + rows)
    given = ("--input", tmp_path / "a.csv", "--label-column", "age", "--label-type", "float")
    given = (*given, "--weight-column", "weight", "--size", 16)
    assert run("images", *given, *SEMICOLONS, "--output", tmp_path / "out") == 2
    assert f"expected a number, got '0,5'{HINT}" in capsys.readouterr().err
    made = make(tmp_path / "out", *given, *COMMA)
    found = sorted((one["label"][0], one["weight"][0]) for one in examples(made))
    assert found == [(n + 0.5, n + 0.25) for n in range(4)]


@pytest.mark.parametrize("more", ["", "x.wav;no;\n"])  # with it, the columns are text
def test_segments_of_listings(more, tmp_path, capsys):
    sounds.write(tmp_path / "x.wav", sounds.say("go", speaker=1), 16000)
    rows = "x.wav;0;0,05\nx.wav;0,05;0,1\n"
    (tmp_path / "a.csv").write_text("path;start;end\n" + rows + more)
    given = ("--input", tmp_path / "a.csv", "--start-column", "start", "--end-column", "end")
    given = (*given, "--unlabelled", "keep", "--max-reject-fraction", 1)
    assert run("audio", *given, *SEMICOLONS, "--output", tmp_path / "out") == 2
    assert f"end: expected seconds as a number, got '0,05'{HINT}" in capsys.readouterr().err
    made = make(tmp_path / "out", *given, *COMMA, command="audio")
    keys = {row["key"] for split in made.manifest.splits for row in made.index(split)}
    assert keys == {"x.wav@0-0.05", "x.wav@0.05-0.1"}


def test_numeric_times_and_steps_of_series(tmp_path, capsys):
    rows = "".join(f"{n // 2},{n % 2 * 5};{n},5;0,5\n" for n in range(40))
    (tmp_path / "a.csv").write_text("time;x;step\n" + rows)
    given = ("--input", tmp_path / "a.csv", "--time-column", "time", "--window", 4)
    assert run("sensor", *given, *SEMICOLONS, "--output", tmp_path / "out") == 2
    assert f"expected a time in 'time' such as 2026-01-31 18:00, or a number{HINT}" in (
        capsys.readouterr().err
    )
    step = ("--step", "step", "--split-by", "time")
    made = make(tmp_path / "out", *given, *COMMA, *step, command="sensor")
    assert len(examples(made)) >= 6
    assert {value % 1 for one in examples(made) for value in one["x"]} == {0.5}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_boxes_in_csv_files(delimiter, tmp_path, capsys):
    for number in range(3):
        make_picture(tmp_path / "photos" / f"{number}.png", number, size=(40, 30))
    header = ["filename", "class", "xmin", "ymin", "xmax", "ymax"]
    lines = [header, *([f"{n}.png", "cat", "2,5", "3,5", "20,5", "10"] for n in range(3))]
    (tmp_path / "boxes.csv").write_text("".join(f"{delimiter.join(line)}\n" for line in lines))
    given = ("--input", tmp_path / "photos", "--annotations", tmp_path / "boxes.csv")
    given = (*given, "--image-format", "png")
    assert run("images", *given, "--output", tmp_path / "out") == 1
    assert ADVICE in capsys.readouterr().err
    made = make(tmp_path / "out", *given, "--decimal", ",")
    one = examples(made)[0]
    assert one["image/object/bbox/xmin"] == [pytest.approx(2.5 / 40)]
    assert one["image/object/bbox/ymin"] == [pytest.approx(3.5 / 30)]


def test_decimal_is_refused_for_other_annotations(tmp_path, capsys):
    make_picture(tmp_path / "photos" / "1.png", 1)
    (tmp_path / "boxes.json").write_text(json.dumps({"images": [], "annotations": []}))
    given = ("--input", tmp_path / "photos", "--annotations", tmp_path / "boxes.json")
    assert run("images", *given, "--output", tmp_path / "out", "--decimal", ",") == 2
    assert "--decimal ,: applies to CSV, and --annotations are of coco" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["old;new\nx;y, z\nv;w\n", "x\ty, z\nv\tw\n", 'x,"y, z"\nv,w\n']
)
def test_files_of_label_map_have_any_usual_delimiter(content, tmp_path):
    (tmp_path / "map.csv").write_text(content)
    (tmp_path / "a.csv").write_text("text,label\n" + "one,x\ntwo,v\n" * 9)
    given = ("--input", tmp_path / "a.csv", "--label-map", tmp_path / "map.csv")
    assert make(tmp_path / "out", *given, command="text").manifest.labels == ("w", "y, z")
