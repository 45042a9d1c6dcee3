"""Splits and balance by bins of a number to predict, through the command line."""

import pathlib

import numpy as np
import pyarrow as pa
import pytest

from recordmill.pipelines.cli import main
from recordmill.transforms.balancing.label_bins import bin_names, with_bins
from recordmill.transforms.model import batch
from tests.image_runs import Made, run
from tests.labelled import write_labelled

pytestmark = pytest.mark.usefixtures("encoders")


def of_bins(dataset: Made, split: str, feature: str = "label") -> dict[str, list[float]]:
    """{bin: a feature of its records without copies}, from the index and the Examples."""
    labels = {(row["key"], row["copy"]): row["label"] for row in dataset.index(split)}
    found: dict[str, list[float]] = {}
    for name, example in dataset.examples(split).items():
        if name[1] == 0:
            found.setdefault(labels[name], []).append(example[feature][0])
    return found


def test_a_table_is_stratified_and_balanced_by_exact_bins(tmp_path):
    rng = np.random.default_rng(3)
    values = np.round(1000 + rng.exponential(0.05, 300), 6)  # all in few bins of a histogram
    rows = [f"{n},{value!r}" for n, value in enumerate(values.tolist())]
    (tmp_path / "a.csv").write_text("\n".join(["x,target", *rows]))
    argv = ["--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--label-type", "float"]
    argv += ["--label-bins", "4", "--stratify", "--splits", "train=0.8,test=0.2"]
    assert run("table", *argv, "--balance", "oversample", "--balance-target", "90") == 0
    dataset = Made(tmp_path / "out")
    assert main(["verify", "--dataset", str(tmp_path / "out")]) == 0
    assert dataset.manifest.labels == ()
    assert {*dataset.manifest.features} == {"x", "label"}
    edges = np.sort(values)[[75, 150, 225]]
    names = bin_names(edges)
    assert dict(dataset.manifest.splits["train"].classes) == dict.fromkeys(names, 90)
    assert dict(dataset.manifest.splits["test"].classes) == dict.fromkeys(names, 15)
    for split, count in (("train", 60), ("test", 15)):
        found = of_bins(dataset, split, "x")  # the number of the row, as float32 rounds the label
        for place, name in enumerate(names):
            assert len(found[name]) == count
            bins = np.searchsorted(edges, values[found[name]], side="right")
            assert {*bins.tolist()} == {place}
        for example in dataset.examples(split).values():
            assert example["label"][0] == np.float32(values[example["x"][0]])


@pytest.mark.parametrize("command", ["text", "arrays"])
def test_other_data_types_and_numbers_that_are_equal(command, tmp_path):
    """14 of the 20 numbers are equal, so two of the four bins stay empty."""
    numbers = [*range(3), *[7] * 14, *range(8, 11)]
    if command == "text":
        source = write_labelled(tmp_path / "in", command, [str(one) for one in numbers])
    else:
        source = listing(tmp_path, numbers)
    argv = ["--input", source, "--output", tmp_path / "out", "--label-type", "int"]
    argv += ["--label-bins", 4, "--balance", "undersample", "--splits", "train=1"]
    assert run(command, *argv, *(("--text-column", "x") if command == "text" else ())) == 0
    dataset = Made(tmp_path / "out")
    names = ["bin 1: (-inf, 7)", "bin 2: [7, 8)", "bin 3: [8, inf)"]
    assert dict(dataset.manifest.splits["train"].classes) == dict.fromkeys(names, 3)
    found = of_bins(dataset, "train")
    assert [sorted(found[name]) for name in names] == [[0, 1, 2], [7, 7, 7], [8, 9, 10]]
    (note,) = [note for note in dataset.manifest.notes if note.code == "few-buckets"]
    assert str(note) == (
        "--label-bins 4: the label 'label' has 3 bins, because many values are equal"
    )


def test_no_note_on_bins_if_all_rows_are_rejected(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("x,y\n1,abc\n2,abc\n")
    argv = ["--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--label-column", "y"]
    argv += ["--label-type", "float", "--label-bins", 3, "--stratify"]
    assert run("table", *argv, "--max-reject-fraction", 1) == 1
    said = capsys.readouterr().err
    assert "nothing is left to write: of 2 inputs 2 were rejected" in said
    assert "--label-bins" not in said


def listing(tmp_path: pathlib.Path, numbers: list[int]) -> pathlib.Path:
    lines = []
    for place, number in enumerate(numbers):
        np.save(tmp_path / f"{place}.npy", np.arange(place + 1))
        lines.append(f"{place}.npy,{number}")
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *lines]))
    return tmp_path / "list.csv"


def test_bins_of_rows():
    rows = pa.RecordBatch.from_pydict({"y": pa.array([1, 3, None, 2, 2**60], pa.int64())})
    names = ["bin 1: (-inf, 2)", "bin 2: [2, 2.5)", "bin 3: [2.5, inf)"]
    edges = np.array([2.0, 2.5])
    assert bin_names(edges) == names
    first, middle, last = names
    assert with_bins(rows, "y", edges)[batch.LABEL].to_pylist() == [
        first, last, None, middle, last,
    ]  # fmt: skip
    assert bin_names(np.zeros(0)) == ["bin 1: (-inf, inf)"]
    many = bin_names(np.arange(10.0))
    assert sorted(many) == many
