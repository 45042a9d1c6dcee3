"""What went wrong in a job on another runner, dug out of the Java around it."""

from __future__ import annotations

import dataclasses
import re

SAID_BY_WORKER = "Error received from SDK harness"
"""How Flink introduces what the harness of a worker tells of a stage that raised."""

_FROM_WORKER = re.compile(
    SAID_BY_WORKER + r" for instruction \S+: (.*?)(?=\n\s*\n?\tat |\nCaused by: |\Z)",
    re.DOTALL,
)
_CAUSE = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)+[\w$]+)(?:: (.*))?$", re.MULTILINE)
_RAISED = re.compile(r"^((?:\w+\.)*\w+)(?:: (.*))?\Z", re.DOTALL)
# What Beam adds to the message of an error: the name of a stage, which is no user's concern.
_STEP = re.compile(r" \[while running '[^']*'\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """What a stage raised on a worker, or what the engine says where no stage did.

    kind: the class of the exception with its module. traceback: Python's, or ''.
    """

    kind: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.kind.rpartition(".")[2], self.message)))


def read_failure(text: str) -> Failure | None:
    """The first real cause in a Java stack trace; None where there is none to be found."""
    worker = _FROM_WORKER.search(text)
    if worker is not None:
        return _of_python(worker[1].strip())
    causes = _CAUSE.findall(text)
    if not causes:
        return None
    # The innermost cause that says something, or one around it that says the same and more.
    kind, message = next((cause for cause in reversed(causes) if cause[1]), causes[-1])
    for outer, more in reversed(causes):
        if message in more and not more.startswith(kind):
            kind, message = outer, more
    return Failure(kind=kind, message=message.strip())


def without_step(message: str) -> str:
    """A message without the name of the stage that Beam has put behind it."""
    return _STEP.sub("", message)


def _of_python(text: str) -> Failure:
    if not text.startswith("Traceback "):
        return Failure(kind="", message=text)
    lines = text.splitlines()
    # What was raised stands after the last frame, which is indented.
    last = max(number for number, line in enumerate(lines) if line.startswith("  "))
    raised = _RAISED.match(without_step("\n".join(lines[last + 1 :])).strip())
    if raised is None:
        return Failure(kind="", message=lines[-1], traceback=text)
    return Failure(kind=raised[1], message=(raised[2] or "").strip(), traceback=text)
