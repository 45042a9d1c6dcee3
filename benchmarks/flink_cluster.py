"""A real Flink cluster on loopback: a JobManager, and TaskManagers that come and go.

It runs the programs of `make flink`, which stand in build/flink, beside them Beam's job server.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import yaml

from benchmarks.measure import ROOT, python
from recordmill.runners.flink.jar import write_library
from recordmill.runners.flink.rest import Cluster, ClusterError

HOME = ROOT / "build" / "flink" / "pyflink"
JOB_SERVER = ROOT / "build" / "flink-job-server.jar"
# A Python worker, its forkserver, and its encoder processes.
WORKERS = (
    "recordmill-worker",
    "recordmill.runners.workers import",
    "recordmill.processes.child_process",
)
_JAVA_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PATIENCE = 120  # s, far more than a start takes
# Inherited by processes that are started from here, not by those of tests that run in parallel.
os.environ["RECORDMILL_STARTED_BY"] = str(os.getpid())
_MARK = f"RECORDMILL_STARTED_BY={os.getpid()}"


def check_programs() -> None:
    """Fails where something is missing that a cluster needs."""
    for needed in (HOME, JOB_SERVER):
        assert needed.exists(), f"{needed} is missing: make flink-job-server flink"
    assert shutil.which("java"), "there is no java: install it (openjdk-17-jre-headless)"


def flink_settings(*, jobmanager: str, taskmanager: str, slots: int, memory: str) -> dict[str, Any]:
    """Settings of a cluster, as docs/flink.md has them; the names are those of the hosts."""
    shipped = yaml.safe_load((HOME / "conf" / "config.yaml").read_text())
    return {
        "env.java.opts.all": f"{shipped['env']['java']['opts']['all']} {_JAVA_FLAGS}",
        "env.java.opts.taskmanager": "-XX:+ExitOnOutOfMemoryError",
        "jobmanager.rpc.address": jobmanager,
        "jobmanager.memory.process.size": "1g",
        "rest.address": jobmanager,
        "taskmanager.host": taskmanager,
        "taskmanager.numberOfTaskSlots": slots,
        "taskmanager.memory.process.size": memory,
        "taskmanager.network.sort-shuffle.min-buffers": 64,
        "slotmanager.requirement-check.delay": "0 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": "1 s",
        "heartbeat.interval": 1000,
        "heartbeat.timeout": 10000,
    }


def flink_environment(folder: pathlib.Path | str, *, lib: pathlib.Path) -> dict[str, str]:
    """Variables of Flink's scripts for a folder with its configuration."""
    return {
        "FLINK_HOME": str(HOME),
        "FLINK_CONF_DIR": f"{folder}/conf",
        "FLINK_LIB_DIR": str(lib),
        "FLINK_LOG_DIR": f"{folder}/logs",
        "FLINK_PID_DIR": str(folder),
    }


def make_library(folder: pathlib.Path) -> pathlib.Path:
    """Makes a lib folder of Flink with the jar of `recordmill flink-library`."""
    folder.mkdir()
    for jar in (HOME / "lib").iterdir():
        (folder / jar.name).symlink_to(jar)
    write_library(str(folder), job_server=str(JOB_SERVER))
    return folder


class FlinkCluster:
    """Starts and ends with its `with` block.

    folder: for configuration and logs. memory: of each TaskManager, as Flink writes it.
    library: whether its lib folder has that of `recordmill flink-library`. settings: of Flink, in
    place of these.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        taskmanagers: int = 1,
        slots: int = 2,
        memory: str = "2g",
        library: bool = True,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        check_programs()
        self._folder = folder
        self._wanted = taskmanagers
        rest, rpc = _free_ports(2)
        self.cluster = Cluster(f"http://127.0.0.1:{rest}")
        self.master = f"127.0.0.1:{rest}"
        conf = folder / "conf"
        shutil.copytree(HOME / "conf", conf)
        ours = flink_settings(
            jobmanager="127.0.0.1", taskmanager="127.0.0.1", slots=slots, memory=memory
        ) | {
            "jobmanager.rpc.port": rpc,
            "jobmanager.bind-host": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": rest,
            "taskmanager.bind-host": "127.0.0.1",
            "io.tmp.dirs": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()
        self._lib = make_library(folder / "lib") if library else HOME / "lib"
        (conf / "config.yaml").write_text(yaml.safe_dump({**ours, **settings}))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.taskmanagers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> FlinkCluster:
        self._start("jobmanager")
        for _ in range(self._wanted):
            self.start_taskmanager()
        try:
            self.wait_for_taskmanagers(self._wanted)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            kill(process)

    def start_taskmanager(self) -> subprocess.Popen[bytes]:
        self.taskmanagers.append(self._start("taskmanager"))
        return self.taskmanagers[-1]

    def wait_for_taskmanagers(self, number: int) -> None:
        def there() -> bool:
            with contextlib.suppress(ClusterError):
                return self.cluster.free_slots()[2] == number
            return False

        wait_until(there, f"{number} TaskManagers")

    def processes(self) -> Mapping[str, list[int]]:
        """Who works for it: {"JobManager", "TaskManagers", "Python workers": their ids}."""
        return {
            "JobManager": [self._processes[0].pid],
            "TaskManagers": [process.pid for process in self.taskmanagers],
            "Python workers": list(processes(*WORKERS)),
        }

    def logs(self) -> str:
        """All that the cluster has written; for a person to read where a test fails."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')}"
            for path in sorted((self._folder / "logs").glob("*"))
        )

    def _start(self, what: str) -> subprocess.Popen[bytes]:
        logs = self._folder / "logs"
        logs.mkdir(exist_ok=True)
        environment = os.environ | flink_environment(self._folder, lib=self._lib)
        with (logs / f"{what}-{len(self._processes)}.txt").open("wb") as log:
            process = subprocess.Popen(
                [HOME / "bin" / f"{what}.sh", "start-foreground"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process


@contextlib.contextmanager
def worker_pool() -> Iterator[str]:
    """A pool as a machine of a cluster runs it; gives its address."""
    process = subprocess.Popen(
        python("recordmill", "worker-pool", "--port", 0),
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening for workers at 127.0.0.1:"), line
        yield line.split()[-1]
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0


def on_flink(master: str, pool: str) -> dict[str, Any]:
    """The options that take a job to a cluster of ours and its pool of workers."""
    return {
        "runner": "flink",
        "flink_master": master,
        "environment": "external",
        "environment_config": pool,
        "flink_job_server_jar": str(JOB_SERVER),
    }


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, for the process alone: what it has started must end by itself."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    process.wait()


def wait_until(happened: Callable[[], bool], what: str, *, seconds: float = _PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not come to {what}"
        time.sleep(0.1)


def wait_for_end_of_workers() -> None:
    """Waits until no Python worker runs that was started from here.

    Encoder processes of this very process, which tests keep for the next job, are none.
    """
    left: list[str] = []

    def ended() -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one ended meanwhile
            ids = [one for one in processes(*WORKERS) if parent(one) != os.getpid()]
            left[:] = map(command_line, ids)
            return not left
        return False

    try:
        wait_until(ended, "the end of all workers")
    except AssertionError as error:
        raise AssertionError("these did not end: " + "; ".join(left)) from error


def processes(*patterns: str, variable: str = _MARK) -> Iterator[int]:
    """The ids of processes whose command line holds one of the patterns.

    variable: NAME=VALUE, an environment variable with which they were started; by default of all
    that were started from here.
    """
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            line = command_line(int(folder.name))
            named = any(pattern in line for pattern in patterns)
            if named and variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def parent(process: int) -> int:
    """Return the id of the parent of a process, 0 if the process has ended."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(state.rpartition(")")[2].split()[1])


def command_line(process: int) -> str:
    """Return the command line of a process, '' if the process has ended."""
    try:
        line = pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return line.replace(b"\0", b" ").decode(errors="replace")


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
