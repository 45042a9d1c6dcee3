"""Flink embedded in a process on this machine, for one job."""

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
from recordmill.option_names import option_name
from recordmill.runners.flink import parent_watchdog
from recordmill.runners.flink.jar import ENTRY_CLASS
from recordmill.runners.flink.rest import Cluster

_HOST = "127.0.0.1"
_MAIN_FAILED = b'\nException in thread "main"'
# Flink's serializers use reflection on classes of the JDK, which Java 17 forbids by default.
_OPEN_PACKAGES = ("java.lang", "java.net", "java.nio", "java.time", "java.util")


class EmbeddedFlink:
    """A Flink process that runs the jar of one job and ends with the job or with this process.

    folder: for its configuration and its log.
    """

    def __init__(self, folder: str, *, parallelism: int) -> None:
        self._folder = pathlib.Path(folder)
        self._parallelism = parallelism
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0  # bytes of the log that were searched for an exception
        port = _free_port()
        self.cluster = Cluster(f"http://{_HOST}:{port}")
        settings = {
            "rest.address": _HOST,
            "rest.bind-address": _HOST,
            "rest.port": port,
            "rest.bind-port": port,
            "web.submit.enable": "false",  # other users of this machine cannot submit programs
            "web.cancel.enable": "false",
            "jobmanager.bind-host": _HOST,
            "taskmanager.bind-host": _HOST,
            "taskmanager.numberOfTaskSlots": parallelism,
            "taskmanager.network.sort-shuffle.min-buffers": 64,  # per exchange; elements are small
            # Network buffers, which an embedded Flink hardly uses: all subtasks are in one process.
            "taskmanager.memory.network.min": "128m",
            "taskmanager.memory.network.max": "128m",
        }
        text = "".join(f"{name}: {value}\n" for name, value in settings.items())
        # Flink 2 reads the first, versions before 1.19 the second.
        for name in ("config.yaml", "flink-conf.yaml"):
            (self._folder / name).write_text(text)

    def start(self, jar: str, *, job_server: str) -> None:
        """Start the job of a jar, with the classes of the job server.

        Raises ConfigError if Java is missing.
        """
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPEN_PACKAGES]
        # The work is done in Python: the second compiler stage costs more time than it saves, and
        # so do the threads of the default garbage collector.
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        tmpdir = f"-Djava.io.tmpdir={self._folder}"
        class_path = os.pathsep.join((jar, os.path.abspath(job_server)))
        command = [find_java(), *flags, *opened, tmpdir, "-cp", class_path, ENTRY_CLASS]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", parent_watchdog.__file__, str(self._folder), *command,
                 "--flink-conf-dir", str(self._folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C is handled by this process alone
            )  # fmt: skip

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the job runs."""
        if self._process is None:
            return None
        code = self._process.poll()
        # Other threads of Flink may keep the process alive after the main thread has failed.
        return 1 if code is None and self._main_failed() else code

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """Kill the process; safe to call from a signal handler."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _main_failed(self) -> bool:
        with self._log.open("rb") as log:
            log.seek(self._log_offset)
            # An incomplete last line is read again by the next call.
            new = log.read().rpartition(b"\n")[0]
        self._log_offset += len(new)
        return _MAIN_FAILED in b"\n" + new

    @property
    def _log(self) -> pathlib.Path:
        return self._folder / "flink.log"


def find_java() -> str:
    """Return the path of the java program. Raises ConfigError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "in the PATH"
        raise ConfigError(
            f"{option_name('runner', 'flink')} without {option_name('flink_master')} runs Flink on"
            f" this machine, which needs Java 11 or 17, and there is none {where}: install it"
            " (Debian and Ubuntu: apt install openjdk-17-jre-headless), or name a cluster"
        )
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
