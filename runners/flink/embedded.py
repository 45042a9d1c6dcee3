"""A Flink in a process of this machine, for one job."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

from recordmill.errors import ConfigError
from recordmill.runners.flink import parent_watchdog
from recordmill.runners.flink.jar import ENTRY
from recordmill.runners.flink.rest import Cluster

_HOST = "127.0.0.1"
_FAILED = b'\nException in thread "main"'
# Flink's serializers look into classes of Java's own, which Java 17 closes.
_OPENED = ("java.lang", "java.net", "java.nio", "java.time", "java.util")


class EmbeddedFlink:
    """Starts with the jar of a job, and ends with the job or with us.

    folder: where it keeps its configuration and its log.
    """

    def __init__(self, folder: str, *, parallelism: int) -> None:
        self._folder = pathlib.Path(folder)
        self._parallelism = parallelism
        self._process: subprocess.Popen[bytes] | None = None
        self._read = 0  # bytes of the log
        port = _free_port()
        self.cluster = Cluster(f"http://{_HOST}:{port}")
        settings = {
            "rest.address": _HOST,
            "rest.bind-address": _HOST,
            "rest.port": port,
            "rest.bind-port": port,
            "jobmanager.bind-host": _HOST,
            "taskmanager.bind-host": _HOST,
            "taskmanager.numberOfTaskSlots": parallelism,
            "taskmanager.network.sort-shuffle.min-buffers": 64,  # of an exchange; names are small
            # Buffers for each pair of subtasks that exchange anything; embedded, the two are one.
            "taskmanager.memory.network.min": "128m",
            "taskmanager.memory.network.max": "128m",
        }
        text = "".join(f"{name}: {value}\n" for name, value in settings.items())
        # Flink 2 reads the one, versions before 1.19 the other.
        for name in ("config.yaml", "flink-conf.yaml"):
            (self._folder / name).write_text(text)

    def start(self, jar: str) -> None:
        """Raises ConfigError where there is no Java."""
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        # What computes is Python: to compile Flink's classes to the last costs more than it gives.
        quick = "-XX:TieredStopAtLevel=1"
        command = [java(), quick, *opened, f"-Djava.io.tmpdir={self._folder}", "-cp", jar, ENTRY]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", parent_watchdog.__file__, str(self._folder), *command,
                 "--flink-conf-dir", str(self._folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C is ours to understand
            )  # fmt: skip

    def exit_code(self) -> int | None:
        """None while it runs."""
        if self._process is None:
            return None
        code = self._process.poll()
        # Flink's threads may outlive the one that waited for the job, and failed.
        return 1 if code is None and self._main_failed() else code

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """Ends it at once; a signal handler may call this."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _main_failed(self) -> bool:
        with self._log.open("rb") as log:
            log.seek(self._read)
            # A line that is being written is read again.
            new = log.read().rpartition(b"\n")[0]
        self._read += len(new)
        return _FAILED in b"\n" + new

    @property
    def _log(self) -> pathlib.Path:
        return self._folder / "flink.log"


def java() -> str:
    """The path of the java program. Raises ConfigError where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "in the PATH"
        raise ConfigError(
            f"--runner flink without --flink-master runs Flink on this machine, which needs Java 11"
            f" or 17, and there is none {where}: install it (Debian and Ubuntu: apt install"
            " openjdk-17-jre-headless), or name a cluster"
        )
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
