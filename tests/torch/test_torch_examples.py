"""The examples for PyTorch and Grain run, and continue."""

import json
import os
import subprocess
import sys

import pytest

import recordmill
from recordmill.pipelines.cli import main
from tests.paths import ROOT
from tests.test_examples import as_they_are, lay_photos

PHOTOS = 8  # every eighth of 852


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    lay_photos(folder, as_they_are, every=PHOTOS)
    argv = ["--input", str(folder / "photos"), "--output", str(folder / "dataset"), "--size", "48"]
    splits = ["--stratify", "--splits", "train=0.6,validation=0.2,test=0.2", "--quiet"]
    assert main(["images", *argv, *splits]) == 0
    return folder


def run(name: str, folder, *arguments: object, **variables: str) -> str:
    command = [ROOT / "examples" / "torch" / f"{name}.py", "--dataset", folder / "dataset"]
    done = subprocess.run(
        [sys.executable, *map(str, [*command, *arguments])],
        check=False, capture_output=True, text=True, env=os.environ | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_loop_of_pytorch_continues(folder, tmp_path) -> None:
    checkpoint = ("--checkpoint", tmp_path / "run.pt", "--save-every", 3)
    said = run("train_images", folder, *checkpoint, "--epochs", 2, "--workers", 1)
    assert "test accuracy" in said
    records = len(recordmill.open(folder / "dataset", "train"))
    steps = -(-records // 32)
    assert f"after {2 * steps} steps" in said
    saved = 2 * steps // 3 * 3
    said = run("train_images", folder, *checkpoint, "--epochs", 3, "--workers", 0)
    epoch, step = divmod(saved, steps)
    assert f"continues in epoch {epoch} after {step * 32} records" in said
    assert f"after {3 * steps - saved} steps" in said


def test_keras_trains_without_tensorflow(folder) -> None:
    said = run("train_keras", folder, "--epochs", 1, KERAS_BACKEND="torch")
    assert "backend torch, test accuracy" in said


def test_grain_continues_on_other_hosts(folder, tmp_path) -> None:
    state = tmp_path / "run.json"
    records = len(recordmill.open(folder / "dataset", "train"))
    run("read_with_grain", folder, "--state", state, "--steps", 2)
    assert json.loads(state.read_text())["records"] == 32 % records
    for host in (1, 0):  # the first host writes the state last
        run("read_with_grain", folder, "--state", state, "--hosts", 2, "--host", host, "--steps", 3)
    found = json.loads(state.read_text())
    assert (found["epoch"], found["records"]) == divmod(32 + 3 * 2 * 16, records)
