"""Patches of Beam: for the versions they were checked with, and only while they are switched on."""

import json
import os
import subprocess
import sys

import pytest

from recordmill.runners import beam_patches
from tests.paths import DEMO, ROOT

STATE = (
    "from recordmill.runners.beam_patches import permanent_imports\n"
    "with permanent_imports():\n"
    "    import recordmill.pipelines.run, sys\n"
    "from apache_beam.transforms import core\n"
    "from apache_beam.runners.worker import statesampler\n"
    "print(hasattr(core.get_function_args_defaults, '__wrapped__'), 'pymongo' in sys.modules,\n"
    "      statesampler.StateSampler.__init__.__defaults__[0])"
)


def printed(program: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    """The answer is cached in a process."""
    beam_patches.enabled.cache_clear()
    yield
    beam_patches.enabled.cache_clear()


def test_the_switch_leaves_beam_as_it_is():
    assert printed(STATE, RECORDMILL_BEAM_PATCHES="1") == "True False 5\n"
    assert printed(STATE, RECORDMILL_BEAM_PATCHES="0") == "False True 200\n"


def test_another_beam_is_not_patched(monkeypatch):
    monkeypatch.delenv(beam_patches.SWITCH, raising=False)
    assert beam_patches.enabled()
    beam_patches.enabled.cache_clear()
    monkeypatch.setattr(beam_patches.importlib.metadata, "version", lambda name: "2.78.0")
    assert not beam_patches.enabled()


def test_datasets_are_the_same_without_patches(tmp_path):
    digests = []
    for value in "01":
        output = tmp_path / value
        subprocess.run(
            [
                *(sys.executable, "-m", "recordmill", "images", "--input", DEMO / "hat"),
                *("--output", output, "--size", "16", "--quiet"),
            ],
            cwd=ROOT, env=os.environ | {beam_patches.SWITCH: value}, check=True,
        )  # fmt: skip
        digests.append(json.loads((output / "dataset.json").read_text())["digest"])
    assert digests[0] == digests[1]
