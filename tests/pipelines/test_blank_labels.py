"""Labels of white space alone are missing labels, wherever they come from."""

import json

import numpy as np
import pytest

from tests.folders import make_picture
from tests.image_runs import Made, run

pytestmark = pytest.mark.usefixtures("encoders")

BLANK = ("  ", "\t", "\u3000")
LABELS = ("a", "b", *BLANK, "")


def make(tmp_path, command: str, *argv: object) -> Made:
    out = tmp_path / "out"
    given = ("--output", out, "--max-reject-fraction", 1, "--splits", "train=1", "--overwrite")
    assert run(command, *given, *argv) == 0
    return Made(out)


def check(tmp_path, command: str, *argv: object, blank: int = len(BLANK) + 1) -> None:
    made = make(tmp_path, command, *argv)
    assert made.manifest.labels == ("a", "b")
    assert list(made.rejects.values()) == ["unlabelled"] * blank
    kept = make(tmp_path, command, *argv, "--unlabelled", "keep")
    assert kept.manifest.labels == ("a", "b")
    assert sorted(str(row["label"]) for row in kept.index("train")) == ["None"] * blank + ["a", "b"]


def write_rows(tmp_path, suffix: str, column: str, values: list[str]):
    rows = [{column: value, "label": label} for value, label in zip(values, LABELS, strict=True)]
    if suffix == "csv":
        lines = [f"{column},label", *(f'{row[column]},"{row["label"]}"' for row in rows)]
    else:
        lines = [json.dumps(row) for row in rows]
    place = tmp_path / f"rows.{suffix}"
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("command", ["text", "table"])
def test_of_rows(command, suffix, tmp_path):
    values = [f"text {n}" for n in range(len(LABELS))]
    check(tmp_path, command, "--input", write_rows(tmp_path, suffix, "text", values))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_of_listings(suffix, tmp_path):
    names = [f"{n}.png" for n in range(len(LABELS))]
    for n, name in enumerate(names):
        make_picture(tmp_path / name, n)
    check(tmp_path, "images", "--input", write_rows(tmp_path, suffix, "path", names))


def test_of_lists(tmp_path):
    rows = [["a", " "], ["b"], ["  "], ["\t", ""], []]
    place = tmp_path / "rows.jsonl"
    lines = [json.dumps({"text": f"text {n}", "label": row}) for n, row in enumerate(rows)]
    place.write_text("\n".join(lines) + "\n")
    made = make(tmp_path, "text", "--input", place)
    assert made.manifest.labels == ("a", "b")
    assert list(made.rejects.values()) == ["unlabelled"] * 3


def test_of_folders(tmp_path):
    for n, label in enumerate(("a", "b", *BLANK)):
        make_picture(tmp_path / "in" / label / f"{n}.png", n)
    check(tmp_path, "images", "--input", tmp_path / "in", blank=len(BLANK))


def test_of_arrays(tmp_path):
    values = np.arange(2 * len(LABELS)).reshape(-1, 2)
    np.savez(tmp_path / "x.npz", x=values, y=np.array(LABELS))
    given = ("--array", "x", "--label-array", "y", "--per-item")
    check(tmp_path, "arrays", "--input", tmp_path / "x.npz", *given)


def test_of_names_of_arrays(tmp_path):
    for n, label in enumerate(("a", "b", "  ")):
        np.save(tmp_path / f"{label}_{n}.npy", np.full(3, n))
    given = ("--input", tmp_path / "*.npy", "--label-from", "(.*)_[0-9]")
    check(tmp_path, "arrays", *given, blank=1)
