"""One set of machines for all tests, and a table of the seconds that each case took."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.faults import local_files, wait_for_machines
from tests.cluster.machines import Machines

_seconds: dict[str, float] = {}
_runs: dict[str, list[tuple[str, Any]]] = {}


@pytest.fixture(scope="session")
def started() -> Iterator[Machines]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # which ends the fixtures
    with Machines() as machines:
        yield machines
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def machines(started: Machines, request: pytest.FixtureRequest) -> Iterator[Machines]:
    """All machines, with all slots free. Tests may have left other pools behind."""
    started.runs.clear()
    yield started
    request.node.user_properties.extend(started.runs)


@pytest.fixture
def sound(machines: Machines) -> Machines:
    """All machines, with a worker pool beside each TaskManager."""
    wait_for_machines(machines)
    return machines


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of an undisturbed run of LONG on one machine."""
    return local_files(tmp_path_factory.mktemp("long"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    case = report.nodeid.rpartition("/")[2]
    _seconds[case] = _seconds.get(case, 0.0) + report.duration
    if report.when == "teardown":
        _runs[case] = report.user_properties


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line("| case | s | commands, with their exit codes and seconds |")
    terminalreporter.write_line("|---|--:|---|")
    for case, seconds in _seconds.items():
        runs = "; ".join(f"{name} {what}" for name, what in _runs.get(case, ()))
        terminalreporter.write_line(f"| {case} | {seconds:.1f} | {runs} |")
    terminalreporter.write_line(f"| all | {sum(_seconds.values()):.1f} | |")
