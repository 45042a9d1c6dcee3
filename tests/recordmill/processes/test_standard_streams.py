"""Output of a process that has no /dev/null."""

import os
import pathlib
import subprocess
import sys

from recordmill.processes.standard_streams import open_null
from tests.paths import ROOT


def test_output_is_dropped_without_a_null_device(monkeypatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(os, "devnull", str(tmp_path / "missing"))
    descriptor = open_null()
    try:
        assert os.write(descriptor, b"dropped") == 7
    finally:
        os.close(descriptor)


def test_closed_streams_need_no_null_device(tmp_path: pathlib.Path) -> None:
    code = (
        "import os; os.devnull = '/missing'; from recordmill.pipelines.cli import main;"
        " raise SystemExit(main(['unknown']))"
    )
    command = f'exec {sys.executable} -c "{code}" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, check=False)
    assert done.returncode == 2
