"""Extract the cause of a failed job from the Java stack trace around it."""

from __future__ import annotations

import dataclasses
import re

WORKER_ERROR_PREFIX = "Error received from SDK harness"
"""Text with which Flink introduces an exception that a Python worker has reported."""

REFUSAL = "recordmill refuses: "
"""Text with which a worker or its pool introduces why it does not work for a job."""

_REFUSAL = re.compile(rf"{REFUSAL}(.*?)(?=\n\s*\n?\tat |\nCaused by: |\Z)", re.DOTALL)
_WORKER_ERROR = re.compile(
    WORKER_ERROR_PREFIX + r" for instruction \S+: (.*?)(?=\n\s*\n?\tat |\nCaused by: |\Z)",
    re.DOTALL,
)
# An exception that was sent over the network has the name of its class twice.
_JAVA_CAUSE = re.compile(
    r"^(?:Caused by: )?((?:[\w$]+\.)+[\w$]+)(?:: \1)?(?:: (.*))?$", re.MULTILINE
)
_PYTHON_EXCEPTION = re.compile(r"^((?:\w+\.)*\w+)(?:: (.*))?\Z", re.DOTALL)
# Beam appends the stage to the message of an exception; users do not know stages.
_STAGE_SUFFIX = re.compile(r" \[while running '[^']*'\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobFailure:
    """The exception of a worker, or the error of the engine where no worker raised one.

    kind: qualified name of the exception's class. traceback: Python's, or ''. refusal: True if a
    worker or its pool does not work for the job, so that to try again has no effect.
    """

    kind: str
    message: str
    traceback: str = ""
    refusal: bool = False

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.kind.rpartition(".")[2], self.message)))


def parse_failure(text: str) -> JobFailure | None:
    """Return the root cause in a Java stack trace, or None if the text contains none."""
    refusal = _REFUSAL.search(text)
    if refusal is not None:
        return JobFailure(kind="", message=refusal[1].strip(), refusal=True)
    worker = _WORKER_ERROR.search(text)
    if worker is not None:
        return _parse_python_error(worker[1].strip())
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return None
    # Take the innermost cause with a message, or an outer one that repeats it with more detail.
    kind, message = next((cause for cause in reversed(causes) if cause[1]), causes[-1])
    for outer, detailed in reversed(causes):
        if message in detailed and not detailed.startswith(kind):
            kind, message = outer, detailed
    return JobFailure(kind=kind, message=message.strip())


def strip_stage(message: str) -> str:
    """Return a message without the stage name that Beam has appended."""
    return _STAGE_SUFFIX.sub("", message)


def _parse_python_error(text: str) -> JobFailure:
    if not text.startswith("Traceback "):
        return JobFailure(kind="", message=text)
    lines = text.splitlines()
    # The exception follows the last frame; frames are indented.
    last_frame = max(number for number, line in enumerate(lines) if line.startswith("  "))
    exception = _PYTHON_EXCEPTION.match(strip_stage("\n".join(lines[last_frame + 1 :])).strip())
    if exception is None:
        return JobFailure(kind="", message=lines[-1], traceback=text)
    return JobFailure(kind=exception[1], message=(exception[2] or "").strip(), traceback=text)
