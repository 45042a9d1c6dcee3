"""The tutorial: its pipelines run as scripts, and models train on their datasets."""

import subprocess
import sys

import pytest

from recordmill.format.manifest import load
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.tutorial import DATASETS, scripts, trainings


@pytest.mark.long
def test_the_tutorial_leads_from_a_folder_to_training(tmp_path, monkeypatch):
    for script in scripts(tmp_path):
        ended = subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
    monkeypatch.chdir(tmp_path)
    for name, training in zip(DATASETS.values(), trainings(), strict=True):
        assert main(["verify", "--dataset", name, "--deep"]) == 0
        train = load(Location.parse(name)).splits["train"]
        assert len({*train.classes.values()}) == 1
        namespace: dict = {}
        exec(training, namespace)
        assert len(namespace["model"].history.history["val_accuracy"]) == 2
