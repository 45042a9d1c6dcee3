"""Runs a program that ends with the process that asked for it, however that ends.

    python -I -S parent_watchdog.py FOLDER PROGRAM ARGUMENT ...

FOLDER goes where nobody is left to remove it. For programs that do not look after their parent
themselves, such as a JVM; it imports nothing but what it needs, for it stays as long as they do.
"""

import os
import shutil
import subprocess
import sys

_SECONDS = 1.0  # how often to look whether the parent is still there


def main(folder: str, command: list[str]) -> int:
    """Returns the exit code of the program."""
    parent = os.getppid()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while True:
        try:
            return process.wait(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                process.kill()
                process.wait()
                shutil.rmtree(folder, ignore_errors=True)
                return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
