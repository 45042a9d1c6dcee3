"""Commands on hostile input, in processes of their own with a limit on memory."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Mapping

from tests.image_runs import Made
from tests.paths import ROOT

MEMORY = 4 << 30  # bytes of address space of each process; libraries alone take more than 1 GiB
SECONDS = 300  # until a command counts as hanging


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostileRun:
    """Result of a command. made: the dataset, if its exit code is 0."""

    code: int
    errors: str
    made: Made | None

    @property
    def digest(self) -> str | None:
        """Digest of the dataset, if there is one."""
        return None if self.made is None else self.made.manifest.digest


def run_limited(
    *argv: object,
    output: pathlib.Path,
    memory: int = MEMORY,
    environment: Mapping[str, str] | None = None,
) -> HostileRun:
    """Run a command that writes a dataset. A crash, a hang or a traceback is an AssertionError."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", "recordmill", *map(str, argv)),
            *("--output", str(output), "--quiet", "--max-reject-fraction", "1"),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    said = result.stdout + result.stderr
    assert result.returncode in (0, 1, 2), (result.returncode, said[-3000:])
    assert "Traceback" not in said, said[-3000:]
    assert "MemoryError" not in said, said[-3000:]
    assert "died" not in said, said[-3000:]
    made = Made(output) if result.returncode == 0 else None
    return HostileRun(code=result.returncode, errors=result.stderr, made=made)
