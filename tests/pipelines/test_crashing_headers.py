"""Files that crash the library which reads their headers: each is a reject, and the job goes on."""

import os
import subprocess
import sys

import numpy as np
import pytest

from recordmill.errors import Reason, RecordError
from recordmill.processes.task_watch import TaskLimits
from recordmill.transforms.sources.files.header_tasks import read_headers
from tests.crash_probe import probe
from tests.image_runs import Made, encoders_kept
from tests.paths import ROOT
from tests.video_files import make_film

pytestmark = pytest.mark.long

# Python imports a module of this name when it starts.
CRASH_ON_OPEN = """
import os, signal, sys

def crash(event, arguments):
    if event == "open" and os.path.basename(str(arguments[0])).startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)

sys.addaudithook(crash)
"""


@pytest.mark.parametrize("kind", ["arrays", "video"])
def test_a_file_that_crashes_its_reader_costs_that_file(kind, tmp_path) -> None:
    names = ("a", "crash", "z")
    for number, name in enumerate(names):
        if kind == "arrays":
            (tmp_path / "in").mkdir(exist_ok=True)
            np.save(tmp_path / "in" / f"{name}.npy", np.full(4, number))
        else:
            make_film(tmp_path / "in" / f"{name}.mp4", 4 + number)
    (tmp_path / "sitecustomize.py").write_text(CRASH_ON_OPEN)
    options = ("--unlabelled", "keep", "--splits", "train=1", "--max-reject-fraction", "0.5")
    options = (*options, "--workers", "1")
    more = ("--clip-frames", "4") if kind == "video" else ()
    command = ("--input", tmp_path / "in", "--output", tmp_path / "out", *options, *more)
    result = subprocess.run(
        [sys.executable, "-m", "recordmill", kind, *map(str, command)],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    made = Made(tmp_path / "out")
    assert [*made.rejects.values()] == ["crashed_decoder"]
    assert next(iter(made.rejects)).startswith("crash")
    assert len(made.keys("train")) == 2


@pytest.mark.parametrize("remote", [False, True])
def test_headers_come_in_order_with_the_errors_of_files_that_end_the_process(remote) -> None:
    tasks = [(["a", "crash", "b"], remote), (["grow"], remote), (["c"], remote)]
    with encoders_kept():
        found = [*read_headers(probe, tasks, task_limits=TaskLimits(memory=200 << 20))]
    reasons = [one.reason if isinstance(one, RecordError) else one for one in found]
    assert reasons == ["A", Reason.CRASHED_DECODER, "B", Reason.TOO_LARGE, "C"]
