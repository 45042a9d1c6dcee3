import subprocess
import sys

import pytest

from tests.paths import ROOT

# Prints the MiB that the process still has of 64 MiB that it has freed, with small blocks between.
KEPT = """
import pathlib, re, sys
from recordmill.processes import environment

def resident():
    found = re.search(r"RssAnon:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())
    return int(found[1]) / 1024

environment.set_up()
if sys.argv[1] == "low":
    environment.keep_memory_low()
before = resident()
blocks = [(bytearray(1 << 20), bytearray(1000)) for _ in range(64)]
small = [one for _, one in blocks]
assert resident() - before > 60
del blocks
print(resident() - before)
"""


@pytest.mark.parametrize(("memory", "is_kept"), [("as ever", True), ("low", False)])
def test_freed_memory_is_kept_unless_it_is_to_be_low(memory, is_kept):
    done = subprocess.run(
        [sys.executable, "-c", KEPT, memory], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (float(done.stdout) > 50) == is_kept
    assert is_kept or float(done.stdout) < 10
