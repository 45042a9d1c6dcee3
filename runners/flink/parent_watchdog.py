"""Run a program and kill it when the parent process ends, even if that was killed.

    python -I -S parent_watchdog.py FOLDER PROGRAM ARGUMENT ...

FOLDER is removed after the parent's end. For programs that do not watch their parent themselves,
such as a JVM. The watchdog stays as long as the program, so it imports as little as possible.
"""

import os
import shutil
import subprocess
import sys

_CHECK_SECONDS = 1.0  # interval of the checks for the parent


def main(folder: str, command: list[str]) -> int:
    """Run the program and return its exit code, or 1 if the parent ended first."""
    parent = os.getppid()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while True:
        try:
            return process.wait(timeout=_CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                process.kill()
                process.wait()
                shutil.rmtree(folder, ignore_errors=True)
                return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
