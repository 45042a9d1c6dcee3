"""Tests of the end of a command's process."""

from __future__ import annotations

import subprocess
import sys

_END = "from recordmill.processes.process_end import end_process; end_process(3)"


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_output_and_exit_handlers_precede_the_end() -> None:
    code = (
        "import atexit, sys; atexit.register(print, 'handler', end='');"
        f" print('out', end=' '); print('err', end='', file=sys.stderr); {_END}"
    )
    done = _run(code)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out handler", "err")


def test_the_interpreter_is_not_torn_down() -> None:
    code = "class Kept:\n  def __del__(self): print('freed')\nkept = Kept()"
    assert _run(f"{code}\nraise SystemExit(3)").stdout == "freed\n"
    assert _run(f"{code}\n{_END}").stdout == ""


def test_threads_end_before() -> None:
    code = (
        "import threading; main = threading.main_thread();"
        " threading.Thread(target=lambda: (main.join(), print('thread'))).start();"
        f" {_END}"
    )
    done = _run(code)
    assert (done.returncode, done.stdout) == (3, "thread\n")
