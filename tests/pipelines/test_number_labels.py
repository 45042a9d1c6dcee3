"""Numbers to predict that arrays, folders and file names give, through the command line."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tests.image_runs import Made, run
from tests.labelled import OPTIONS, write_labelled

pytestmark = pytest.mark.usefixtures("encoders")

NAN = float("nan")


def made(command: str, source: pathlib.Path, *argv: object) -> Made:
    out = source.parent / "out"
    assert run(command, *given(command, source, out), *argv) == 0
    return Made(out)


def given(command: str, source: pathlib.Path, out: pathlib.Path) -> tuple[object, ...]:
    shaped = OPTIONS[command] if command == "video" else ()
    return ("--input", source, "--output", out, "--splits", "train=1", *shaped)


def error(command: str, source: pathlib.Path, capsys, *argv: object, code: int = 2) -> str:
    out = source.parent / "out"
    assert run(command, *given(command, source, out), *argv) == code
    assert not (out / "dataset.json").exists()
    return capsys.readouterr().err


def numbers(dataset: Made, feature: str = "label") -> list[float]:
    assert dataset.manifest.labels == ()
    return sorted(number for one in dataset.examples().values() for number in one.get(feature, ()))


def folders(tmp_path: pathlib.Path, command: str, labels: list[str]) -> pathlib.Path:
    if command != "text":
        return write_labelled(tmp_path / "in", command, labels)
    for place, label in enumerate(labels):
        (tmp_path / "in" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / label / f"{place}.txt").write_text(f"text number {place}")
    return tmp_path / "in"


def archive(tmp_path: pathlib.Path, **arrays: object) -> pathlib.Path:
    np.savez(tmp_path / "in.npz", **arrays)
    return tmp_path / "in.npz"


ITEMS = np.arange(12.0).reshape(6, 2)
TARGETS = np.array([1.5, 2, NAN, 1e39, -0.25, 0])
PER_ITEM = ("--array", "x", "--label-array", "y", "--per-item", "--max-reject-fraction", 1)


@pytest.mark.parametrize("command", ["images", "arrays", "video", "text"])
def test_folders_named_by_numbers(command, tmp_path):
    source = folders(tmp_path, command, ["1.5", "2", "much", "1e39", "-3"])
    dataset = made(command, source, "--label-type", "float", "--max-reject-fraction", 1)
    feature = dataset.manifest.features["label"]
    assert (feature.dtype, feature.shape, feature.kind) == ("float32", (), "value")
    assert numbers(dataset) == [-3, 1.5, 2]
    assert sorted(dataset.rejects.values()) == ["bad_value", "bad_value"]
    assert not any("class" in name for name in dataset.manifest.features)
    assert dict(dataset.manifest.splits["train"].classes) == {}
    assert not any("no record" in note for note in dataset.manifest.notes)


def test_numbers_in_file_names(tmp_path):
    source = folders(tmp_path, "images", ["a", "a", "b"])
    for path in [*source.rglob("*.png")]:
        path.rename(path.with_name(f"face_age{int(path.stem) + 20}.png"))
    (source / "a" / "face.png").write_bytes((source / "b" / "face_age22.png").read_bytes())
    options = ("--label-from", r"_age([0-9]+)\.", "--label-type", "int")
    dataset = made("images", source, *options, "--max-reject-fraction", 1)
    assert numbers(dataset) == [20, 21, 22]
    assert dataset.manifest.features["label"].dtype == "int64"
    assert dataset.rejects == {"a/face.png": "unlabelled"}
    dataset = made("images", source, *options, "--unlabelled", "keep", "--overwrite")
    assert numbers(dataset) == [20, 21, 22]
    assert dataset.manifest.splits["train"].records == 4
    assert dataset.manifest.features["label"].shape == (None,)


@pytest.mark.parametrize("command", ["images", "arrays", "video", "text"])
def test_folders_that_are_neither_classes_nor_numbers(command, tmp_path):
    dataset = made(command, folders(tmp_path, command, ["1", "2"]), "--label-type", "none")
    assert dataset.manifest.labels == ()
    assert not any("label" in name for name in dataset.manifest.features)


def test_an_array_of_numbers_for_items(tmp_path):
    source = archive(tmp_path, x=ITEMS, y=TARGETS)
    dataset = made("arrays", source, *PER_ITEM, "--label-type", "float")
    assert numbers(dataset) == [-0.25, 0, 1.5, 2]
    assert dataset.manifest.features["label"].dtype == "float32"
    assert dataset.rejects == {"in.npz#2": "unlabelled", "in.npz#3": "bad_value"}
    kept = made(
        "arrays", source, *PER_ITEM, "--label-type", "float", "--unlabelled", "keep", "--overwrite"
    )
    assert numbers(kept) == [-0.25, 0, 1.5, 2]
    assert kept.rejects == {"in.npz#3": "bad_value"}


@pytest.mark.parametrize(
    ("values", "label_type", "expected"),
    [
        (np.arange(6, dtype=np.uint8), "int", [0, 1, 2, 3, 4, 5]),
        (np.array([True, False] * 3), "float", [0, 0, 0, 1, 1, 1]),
        (np.array([1, 2, 2.5, 3, 4, 5], np.float16), "int", [1, 2, 3, 4, 5]),
        (np.array(["7", "-1", "x", "", "2.5", "3"]), "float", [-1, 2.5, 3, 7]),
        (np.arange(6).reshape(6, 1) / 2, "float", [0, 0.5, 1, 1.5, 2, 2.5]),
        (np.array([2**64 - 1, 1, 2, 3, 4, 5], np.uint64), "int", [1, 2, 3, 4, 5]),
    ],
)
def test_arrays_of_labels_of_any_type(values, label_type, expected, tmp_path):
    source = archive(tmp_path, x=ITEMS, y=values)
    assert numbers(made("arrays", source, *PER_ITEM, "--label-type", label_type)) == expected


def test_one_number_for_each_file_and_its_chunks(tmp_path):
    """The labels of the files have different types; the folders give no classes."""
    (tmp_path / "in" / "sick").mkdir(parents=True)
    for place, label in enumerate([np.float32(0.5), np.array([3]), np.array("2")]):
        np.savez(tmp_path / "in" / "sick" / f"{place}.npz", x=ITEMS + place, y=label)
    options = ("--array", "x", "--label-array", "y", "--label-type", "float", "--chunk", 3)
    dataset = made("arrays", tmp_path / "in", *options)
    assert numbers(dataset) == [0.5, 0.5, 2, 2, 3, 3]


def test_a_file_of_numbers_and_numbers_in_names_of_arrays(tmp_path):
    np.save(tmp_path / "x.npy", ITEMS)
    np.save(tmp_path / "y.npy", np.arange(6) * 2)
    options = ("--label-input", tmp_path / "y.npy", "--per-item", "--label-type", "int")
    assert numbers(made("arrays", tmp_path / "x.npy", *options)) == [0, 2, 4, 6, 8, 10]
    (tmp_path / "in").mkdir()
    for name in ("dose2.5_0.npy", "dose40_1.npy", "dosex_2.npy", "none.npy"):
        shutil.copy(tmp_path / "x.npy", tmp_path / "in" / name)
    options = ("--label-from", r"dose([^_]+)_", "--label-type", "float")
    dataset = made("arrays", tmp_path / "in", *options, "--max-reject-fraction", 1, "--overwrite")
    assert numbers(dataset) == [2.5, 40]
    assert dataset.rejects == {"dosex_2.npy": "bad_value", "none.npy": "unlabelled"}


def test_bins_of_an_array_of_numbers(tmp_path):
    source = archive(tmp_path, x=ITEMS[:4], y=np.array([1, 2, 3, 4.5]))
    options = ("--label-type", "float", "--label-bins", 2, "--splits", "train=0.5,test=0.5")
    dataset = made("arrays", source, *PER_ITEM, *options, "--stratify")
    for split in ("train", "test"):
        bins = {"bin 1: (-inf, 3)": 1, "bin 2: [3, inf)": 1}
        assert dict(dataset.manifest.splits[split].classes) == bins


def test_decimals_in_arrays_name_both_readings(tmp_path, capsys):
    source = archive(tmp_path, x=ITEMS, y=np.array([1, 2, 2.5, 2.5, NAN, 1], np.float32))
    message = error("arrays", source, capsys, *PER_ITEM)
    assert "labels of float32: --label-type float reads them as numbers to predict" in message
    assert "--label-type class keeps them as classes" in message
    dataset = made("arrays", source, *PER_ITEM, "--label-type", "class")
    assert dataset.manifest.labels == ("1", "2", "2.5")
    assert dataset.rejects == {"in.npz#4": "unlabelled"}


def test_many_integers_in_arrays_name_both_readings(tmp_path, capsys):
    source = archive(tmp_path, x=np.zeros((60, 1)), y=np.arange(60))
    message = error("arrays", source, capsys, *PER_ITEM, code=1)
    assert "the array 'y' has 60 classes, and all are integers: --label-type int" in message
    assert len(made("arrays", source, *PER_ITEM, "--label-type", "class").manifest.labels) == 60


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--label-type", "int"), "no folder gives a number: name the folders by the numbers, or"),
        (("--label-type", "int", "--label-from", "(i)"), "no file has a number to predict; the"
         " first: in.npz: its path: expected a 64-bit integer, got 'i'"),
        (("--label-type", "int", "--label-array", "y"), "labels of complex64: expected integers"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_numbers(argv, said, tmp_path, capsys):
    source = archive(tmp_path, x=ITEMS, y=np.zeros(1, np.complex64))
    assert said in error("arrays", source, capsys, "--array", "x", *argv)


def test_a_listing_with_a_column_of_the_same_name(tmp_path, capsys):
    archive(tmp_path, x=ITEMS, y=np.array([2]))
    (tmp_path / "list.csv").write_text("path,label\nin.npz,9\n")
    options = ("--array", "x", "--label-array", "y", "--label-type", "int")
    message = error("arrays", tmp_path / "list.csv", capsys, *options)
    assert "the listing has a column 'label'" in message
    assert "add --drop-columns label" in message
    dataset = made("arrays", tmp_path / "list.csv", *options, "--drop-columns", "label")
    assert numbers(dataset) == [2]


@pytest.mark.parametrize(
    ("argv", "source"),
    [(("--label-from", "parent"), "the folders around the files"), ((), "the top folders")],
)
def test_the_block_names_the_source_of_the_number(argv, source, tmp_path):
    made("images", folders(tmp_path, "images", ["1", "2"]), "--label-type", "int", *argv)
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    expected = f"none; the number to predict comes from {source}"
    assert job["interpretation"]["classes"] == expected


def series(tmp_path: pathlib.Path, values: list[str]) -> pathlib.Path:
    """Series a and b with a column of numbers to predict, y."""
    lines = [
        f"2026-01-01 00:{number:02}:00,{name},{number}.5,{value}"
        for name in "ab"
        for number, value in enumerate(values)
    ]
    (tmp_path / "in.csv").write_text("time,s,x,y\n" + "\n".join(lines))
    return tmp_path / "in.csv"


WINDOWS = ("--time-column", "time", "--series-column", "s", "--window", 2, "--stride", 1)
VALUES = ["0.5", "1.25", "much", "", "-3", "1e39", "7"]


@pytest.mark.parametrize(
    ("rule", "expected", "reasons"),
    [
        ("last", [-3, -3, 1.25, 1.25, 7, 7], ["bad_value"] * 4 + ["unlabelled"] * 2),
        ("ahead:2", [-3, -3, 7, 7], ["bad_value"] * 2 + ["unlabelled"] * 2),
    ],
)
def test_the_row_that_decides_a_window_gives_the_number(rule, expected, reasons, tmp_path):
    options = (*WINDOWS, "--label-column", "y", "--label-type", "float", "--window-label", rule)
    dataset = made("sensor", series(tmp_path, VALUES), *options, "--max-reject-fraction", 1)
    assert numbers(dataset) == expected
    assert sorted(dataset.rejects.values()) == reasons
    features = dataset.manifest.features
    assert (features["label"].dtype, features["label"].shape) == ("float32", ())
    assert "y" not in features  # as the class of rows, it is no channel
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    expected_fact = "none; the number to predict comes from the column 'y'"
    assert job["interpretation"]["classes"] == expected_fact


def test_windows_with_decimal_commas_in_bins(tmp_path):
    source = series(tmp_path, [f"{number}.5" for number in range(9)])
    text = source.read_text().replace(",", ";").replace(".", ",")
    source.write_text(text)
    options = (*WINDOWS, "--label-column", "y", "--label-type", "float", "--delimiter", ";")
    options += ("--decimal", ",", "--zscore", "x", "--label-bins", 2, "--balance", "undersample")
    dataset = made("sensor", source, *options, "--sequence-example")
    bins = {"bin 1: (-inf, 5.5)": 8, "bin 2: [5.5, inf)": 8}
    assert dict(dataset.manifest.splits["train"].classes) == bins


def test_windows_whose_number_cannot_be_found(tmp_path, capsys):
    source = series(tmp_path, ["1", "2", "3"])
    options = (*WINDOWS, "--label-type", "float")
    message = error("sensor", source, capsys, *options)
    assert "--label-type float: no label column was found: name it with --label-column" in message
    options += ("--label-column", "y")
    message = error("sensor", source, capsys, *options, "--window-label", "majority")
    assert "--window-label majority: cannot be combined with --label-type float" in message
    source.write_text(source.read_text().replace(",x,", ",label,"))
    message = error("sensor", source, capsys, *options)
    assert "column 'label' has the name" in message
