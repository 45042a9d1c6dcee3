"""Records of TFRecord files that have the same key: --conflicts decides them, as for rows."""

import io
import json

import pytest
from PIL import Image

from tests.image_runs import Made, run
from tests.tfrecord_inputs import write_records

pytestmark = pytest.mark.usefixtures("encoders")


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(out, "PNG")
    return out.getvalue()


def record(name: str, colour: str, label: str) -> dict[str, list[bytes]]:
    return {"image/encoded": [png(colour)], "id": [name.encode()], "label": [label.encode()]}


@pytest.fixture
def folder(tmp_path):
    first = [record("1", "red", "a"), record("2", "green", "b"), record("3", "blue", "a")]
    second = [record("1", "red", "a"), record("3", "blue", "b"), record("2", "black", "b")]
    write_records(tmp_path / "in" / "x.tfrecord", first)
    write_records(tmp_path / "in" / "y.tfrecord", [*second, record("4", "gray", "a")])
    return tmp_path / "in"


def made(folder, *argv: object, code: int = 0) -> Made:
    out = folder.with_name("out")
    fixed = ("--input", folder, "--output", out, "--splits", "train=1", "--overwrite")
    assert run("images", *fixed, "--max-reject-fraction", 1, *argv) == code
    return Made(out)


def test_equal_records_count_once_and_contradicting_ones_are_rejected(folder):
    dataset = made(folder, "--key-column", "id")
    assert dataset.keys("train") == {"1", "4"}
    inputs = dataset.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected, inputs.filtered) == (2, 4, 1)
    lines = (dataset.folder / "rejects.jsonl").read_text().splitlines()
    first = "--conflicts first keeps the first row, and the values of the others are lost"
    assert {(one["key"], one["detail"]) for one in map(json.loads, lines)} == {
        ("2", f"x.tfrecord#1 has the same key as y.tfrecord#2, but the content differs; {first}"),
        ("2", f"y.tfrecord#2 has the same key as x.tfrecord#1, but the content differs; {first}"),
        (
            "3",
            "x.tfrecord#2 has the same key as y.tfrecord#1, but the label differs: 'a' and 'b';"
            f" {first}",
        ),
        (
            "3",
            "y.tfrecord#1 has the same key as x.tfrecord#2, but the label differs: 'b' and 'a';"
            f" {first}",
        ),
    }


def test_the_first_record_is_kept(folder):
    dataset = made(folder, "--key-column", "id", "--conflicts", "first")
    assert {row["key"]: row["label"] for row in dataset.index("train")} == {
        "1": "a",
        "2": "b",
        "3": "a",
        "4": "a",
    }
    assert dataset.manifest.ledger.inputs.filtered == 3


def test_conflicts_are_an_error(folder, capsys):
    made(folder, "--key-column", "id", "--conflicts", "error", code=2)
    assert "has the same key as" in capsys.readouterr().err


def test_without_keys_there_is_nothing_to_decide(folder, capsys):
    made(folder, "--conflicts", "first", code=2)
    assert "--conflicts first: has no effect without --key-column, --dedup drop or" in (
        capsys.readouterr().err
    )
    assert len(made(folder, "--conflicts", "first", "--dedup", "drop").keys("train")) == 5
