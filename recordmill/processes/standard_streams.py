"""Standard output and error output that can be closed, full or without a reader.

A job must not fail because a terminal is gone: what cannot be written to one of the two streams is
dropped, and reported on the other one at the end.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class _LossyOutput(io.RawIOBase):
    """The descriptor of a standard stream. The first error of a write is kept, not raised.

    must_reach: whether a pipe without a reader raises BrokenPipeError, because nothing else than
    the output is wanted.
    """

    def __init__(self, descriptor: int, *, must_reach: bool) -> None:
        self._descriptor = descriptor
        self.must_reach = must_reach
        self.error: str | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self.error is None:
            try:
                return os.write(self._descriptor, data)
            except BrokenPipeError as error:
                if self.must_reach:
                    self.error = "its reader is gone"
                    raise
                self.error = str(error.strerror).lower()
            except OSError as error:
                self.error = str(error.strerror).lower()
        return size


_outputs: dict[int, _LossyOutput] = {}


def make_lossy() -> None:
    """Replace the standard streams of this process; closed ones are opened on nothing."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        closed = _open_if_closed(descriptor)
        if descriptor == 0:
            if closed:
                sys.stdin = open(0, closefd=False)  # noqa: SIM115
            continue
        raw = _LossyOutput(descriptor, must_reach=name == "stdout")
        raw.error = "it is closed" if closed else None
        before: TextIO | None = getattr(sys, name)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=before.encoding if before is not None else "utf-8",
            errors="backslashreplace" if name == "stderr" or before is None else before.errors,
            line_buffering=name == "stderr" or raw.isatty(),
        )
        _outputs[descriptor] = raw
        setattr(sys, name, stream)


def _open_if_closed(descriptor: int) -> bool:
    """Open a closed descriptor, or the next file that is opened would get its number."""
    try:
        os.fstat(descriptor)
    except OSError:
        found = open_null()
        if found != descriptor:
            os.dup2(found, descriptor)
            os.close(found)
        os.set_inheritable(descriptor, True)
        return True
    return False


def open_null() -> int:
    """Return a descriptor that drops what is written; /dev/null may be missing."""
    try:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return os.memfd_create("null")


def make_stdout_optional() -> None:
    """Declare that the work of this process is done, whether its output reaches a reader or not."""
    if 1 in _outputs:
        _outputs[1].must_reach = False


def report_lost_output(prog: str, code: int) -> int:
    """Report on the other stream that output was lost, and return the exit code of the process.

    code: that of the work. It becomes 1 if the output itself was wanted.
    """
    if not _outputs:
        return code
    sys.stdout.flush()
    out, err = _outputs[1], _outputs[2]
    if out.error is not None:
        print(f"{prog}: warning: stdout could not be written: {out.error}", file=sys.stderr)
        code = code or (1 if out.must_reach else 0)
    sys.stderr.flush()
    if err.error is not None and (code or not out.must_reach):
        print(f"{prog}: warning: stderr could not be written: {err.error}", flush=True)
    return code
