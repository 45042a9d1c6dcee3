"""Labels as classes, as numbers, and as columns like any other, through the command line."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms.sources.rows.references.file_list import FileList
from tests.image_runs import Made, run
from tests.labelled import OPTIONS, write_labelled

pytestmark = pytest.mark.usefixtures("encoders")


def write(tmp_path: pathlib.Path, values: list[str], name: str = "target") -> pathlib.Path:
    rows = [f"{number}.5,{value}" for number, value in enumerate(values)]
    (tmp_path / "rows.csv").write_text(f"x,{name}\n" + "\n".join(rows) + "\n")
    return tmp_path / "rows.csv"


def made(source: pathlib.Path, *argv: object) -> Made:
    out = source.parent / "out"
    assert run("table", "--input", source, "--output", out, "--splits", "train=1", *argv) == 0
    return Made(out)


def error(source: pathlib.Path, capsys, *argv: object, code: int) -> str:
    out = source.parent / "out"
    assert run("table", "--input", source, "--output", out, *argv) == code
    assert not (out / "dataset.json").exists()
    return capsys.readouterr().err


def numbers(dataset: Made, feature: str = "label") -> list[float]:
    """The numbers of a feature in the order of the rows, which `x` counts."""
    examples = sorted(dataset.examples().values(), key=lambda example: example["x"][0])
    return [example[feature][0] for example in examples]


MANY = [str(number * 7) for number in range(60)]


def test_many_whole_numbers_are_an_error_that_names_both_readings(tmp_path, capsys):
    assert (
        "the column 'target' has 60 classes, and all are integers: --label-type int reads them as"
        " numbers to predict, --label-type class keeps them as classes"
    ) in error(write(tmp_path, MANY), capsys, code=1)


def test_decimals_are_an_error_that_names_both_readings(tmp_path, capsys):
    source = write(tmp_path, ["1.5", "2.25", "0.5"])
    message = error(source, capsys, code=2)
    assert "--label-type float reads them as numbers to predict, --label-type class" in message


@pytest.mark.parametrize("name", ["target", "label"])
@pytest.mark.parametrize(
    ("label_type", "values", "dtype"),
    [("int", MANY, "int64"), ("float", ["1.5", "2", "-0.25"], "float32")],
)
def test_a_number_to_predict_is_the_feature_label(name, label_type, values, dtype, tmp_path):
    dataset = made(write(tmp_path, values, name), "--label-type", label_type)
    assert dataset.manifest.labels == ()
    assert set(dataset.manifest.features) == {"x", "label"}
    assert dataset.manifest.features["label"].dtype == dtype
    assert numbers(dataset) == [float(value) for value in values]


def test_a_number_to_predict_may_have_another_name(tmp_path):
    options = ("--label-type", "int", "--rename", "target=price")
    assert numbers(made(write(tmp_path, MANY), *options), "price")[:2] == [0, 7]


def test_rows_without_a_number_are_rejected_or_kept(tmp_path):
    source = write(tmp_path, ["1.5", "", "much", "2.5"])
    options = ("--label-type", "float", "--max-reject-fraction", 1)
    dataset = made(source, *options)
    assert dataset.rejects == {"rows.csv#2": "unlabelled", "rows.csv#3": "bad_value"}
    assert dataset.manifest.features["label"].shape == ()
    kept = made(source, *options, "--unlabelled", "keep", "--overwrite")
    assert sorted(example["x"][0] for example in kept.examples().values()) == [0.5, 1.5, 3.5]


def test_numbers_can_be_classes(tmp_path):
    dataset = made(write(tmp_path, MANY), "--label-type", "class")
    assert dataset.manifest.labels == tuple(MANY)


def test_decimals_can_be_classes(tmp_path):
    dataset = made(write(tmp_path, ["1.5", "2.5", "1.5"]), "--label-type", "class")
    assert dataset.manifest.labels == ("1.5", "2.5")


def test_none_makes_a_column_as_any_other(tmp_path):
    dataset = made(write(tmp_path, ["a", "b", "a"]), "--label-type", "none")
    assert set(dataset.manifest.features) == {"x", "target"}
    assert dataset.manifest.labels == ()


def test_a_number_needs_a_column(tmp_path, capsys):
    message = error(write(tmp_path, MANY, "price"), capsys, "--label-type", "int", code=2)
    assert "--label-type int: no label column was found in" in message
    assert "name it with --label-column" in message


def test_the_label_of_a_window_may_be_a_channel(tmp_path):
    source = write_labelled(tmp_path / "in", "sensor", MANY[:50])
    argv = ("--input", source, "--output", tmp_path / "out", *OPTIONS["sensor"])
    argv += ("--splits", "train=1")
    assert run("sensor", *argv, "--label-type", "none") == 0
    assert set(Made(tmp_path / "out").manifest.features) >= {"x", "label"}
    assert Made(tmp_path / "out").manifest.labels == ()


def listed(tmp_path: pathlib.Path, command: str, labels: list[str]) -> pathlib.Path:
    """An input of a data type with a label column."""
    if command in ("text", "sensor"):
        return write_labelled(tmp_path / "in", command, labels)
    folder = write_labelled(tmp_path / "in", command, [f"f{n}" for n in range(len(labels))])
    files = sorted(folder.rglob("*.*"))
    lines = [f"{path},{label}" for path, label in zip(files, labels, strict=True)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *lines]) + "\n")
    return tmp_path / "list.csv"


@pytest.mark.parametrize("command", ["images", "arrays", "video", "text"])
def test_numbers_of_a_listing_and_of_texts(command, tmp_path):
    source = listed(tmp_path, command, ["1.5", "2", "", "much", "1e39", "-0.25"])
    argv = ("--input", source, "--output", tmp_path / "out", *OPTIONS[command])
    argv += ("--splits", "train=1", "--label-type", "float", "--max-reject-fraction", "1")
    assert run(command, *argv) == 0
    dataset = Made(tmp_path / "out")
    assert dataset.manifest.labels == ()
    feature = dataset.manifest.features["label"]
    assert (feature.dtype, feature.shape, feature.kind) == ("float32", (), "value")
    found = {example["label"][0] for example in dataset.examples().values()}
    assert found == {1.5, 2.0, -0.25}
    assert sorted(dataset.rejects.values()) == ["bad_value", "bad_value", "unlabelled"]


@pytest.mark.parametrize(
    ("command", "labels", "said"),
    [
        ("images", MANY[:51], "the column 'label' has 51 classes, and all are integers:"
         " --label-type int reads them"),
        ("text", ["1.5", "2", "-.5"], "the column 'label' has 3 classes, and all are decimal"
         " numbers: --label-type float reads them"),
        ("sensor", MANY[:51], "and all are integers: --label-type int reads them as numbers to"
         " predict, --label-type none reads them as a channel"),
    ],
)  # fmt: skip
def test_numbers_without_the_option(command, labels, said, tmp_path, capsys):
    source = listed(tmp_path, command, labels)
    argv = ("--input", source, "--output", tmp_path / "out", "--splits", "train=1")
    assert run(command, *argv, *OPTIONS[command]) == 1
    assert said in capsys.readouterr().err


def test_too_few_bins(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    given = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--label-type", "int")
    assert run("table", *given, "--label-bins", 1, "--stratify") == 2
    assert "--label-bins: expected 2 or more" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_integers_of_listings_of_any_format(form, tmp_path):
    values = [1, 0, 2]
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(b"x")
    rows = pa.table({"path": [f"{n}.png" for n in range(3)], "y": pa.array(values, pa.int16())})
    path = tmp_path / f"list.{form}"
    if form == "parquet":
        pq.write_table(rows, path)
    elif form == "csv":
        path.write_text("path,y\n0.png,1\n1.png,0\n2.png,2\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    part, _ = FileList(path=str(path), label_column="y", label_type="int").scan()
    assert part.rows is not None
    assert part.rows.schema.field("y") == pa.field("y", pa.int64(), False)
    assert part.rows["y"].to_pylist() == values


def test_a_listing_whose_label_is_no_number(tmp_path):
    pq.write_table(pa.table({"path": ["a.png"], "y": [[1, 2]]}), tmp_path / "list.parquet")
    source = FileList(path=str(tmp_path / "list.parquet"), label_column="y", label_type="int")
    with pytest.raises(ConfigError, match=r"'y' of .* has the type list<.*, not numbers: name"):
        next(source.scan())


@pytest.mark.parametrize("command", OPTIONS)
def test_classes_that_are_integers_are_in_the_order_of_numbers(command, tmp_path):
    source = write_labelled(tmp_path / "in", command, ("10", "2", "-1", "2"))
    flags = ("--input", source, "--splits", "train=1", *OPTIONS[command])
    assert run(command, "--output", tmp_path / "out", *flags) == 0
    assert Made(tmp_path / "out").manifest.labels == ("-1", "2", "10")
