"""The steps of docs/first-cluster.md run as they are, in a network of their own."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.doc_commands import blocks
from tests.paths import ROOT

# `unshare` also ends what the steps have started, and their ports are taken by nothing else.
ISOLATED = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.long
def test_the_steps_run(tmp_path):
    for name in ("build", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(pathlib.Path(sys.executable).parent.parent)
    steps = "".join(blocks(ROOT / "docs" / "first-cluster.md", "sh"))
    script = tmp_path / "steps.sh"
    script.write_text(f"set -eu\nip link set lo up\nmake() {{ :; }}\n{steps}")
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    result = subprocess.run(
        [*ISOLATED, *mapped, "bash", script],
        cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the digests are equal" in result.stdout
    assert "note:" not in result.stderr
