"""A Flink cluster of several machines, which share nothing but the network (`hosts`).

They are a JobManager, two TaskManagers with a worker pool each, a store, and one that submits jobs.
Seconds are measured here; the tests wait for conditions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Self

import yaml

from benchmarks.flink_cluster import (
    HOME,
    JOB_SERVER,
    WORKERS,
    check_programs,
    flink_environment,
    flink_settings,
    make_library,
    parent,
    wait_until,
)
from recordmill.runners.flink.rest import Cluster, ClusterError
from tests.cluster.hosts import Host, Network
from tests.s3_server import BUCKET
from tests.s3_store import S3Store

JOB_MANAGER, STORE, SUBMITTER = "jobmanager", "store", "submitter"
TASK_MANAGERS = ("taskmanager-1", "taskmanager-2")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "operator", "AWS_SECRET_ACCESS_KEY": "not checked"}
SLOTS = 2  # of each TaskManager
_REST_PORT, _STORE_PORT, _POOL_PORT = 8081, 9000, 50000
_FLINK_USER, _POOL_USER, _SUBMITTER_USER = 21000, 22000, 23000  # plus the number of the TaskManager
_SECRET_FILE = "/tmp/pool.secret"
SECRET, OTHER_SECRET = (
    "a secret of 32 characters, or so it is",
    "another one of 32 characters, as it is",
)
_LIMIT = 300  # s, far more than a job takes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool:
    """A worker pool. credentials: whether it has those of the store. version: of recordmill, that
    it believes to have; None for the true one.
    """

    secret: str = SECRET
    credentials: bool = True
    version: str | None = None


_POOL = Pool()


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended. seconds: from its start to its end."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def last(self) -> str:
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


class Command:
    """A command of recordmill that runs on the machine of the submitter."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        out: pathlib.Path,
        err: pathlib.Path,
        on_end: Callable[[Ended], None],
    ) -> None:
        self.process = process
        self._out, self._err, self._on_end = out, err, on_end
        self._start = time.monotonic()

    @property
    def written(self) -> int:
        """Number of bytes that it has printed so far."""
        return self._out.stat().st_size + self._err.stat().st_size

    @property
    def err(self) -> str:
        """Its messages so far."""
        return self._err.read_text()

    def end(self, seconds: float = _LIMIT) -> Ended:
        """Wait for its end."""
        self.process.wait(seconds)
        seconds = time.monotonic() - self._start
        code = self.process.returncode
        ended = Ended(code, self._out.read_text(), self._err.read_text(), seconds)
        self._on_end(ended)
        return ended

    def signal(self, number: signal.Signals) -> None:
        # Its id is that of the process that was started: each program on the way replaced the last.
        os.kill(self.process.pid, number)


class Machines:
    """All machines, from the start to the end of a `with` block.

    settings: of Flink, in place of those of `flink_settings`.
    """

    def __init__(self, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        check_programs()
        self._settings = settings
        self._stack = contextlib.ExitStack()
        self._network = Network((STORE, JOB_MANAGER, *TASK_MANAGERS, SUBMITTER))
        self._pools: dict[str, tuple[Pool, subprocess.Popen[bytes]]] = {}
        self._flinks: dict[str, subprocess.Popen[bytes]] = {}  # JobManager and TaskManagers
        self._commands = 0
        self.runs: list[tuple[str, str]] = []  # exit codes and seconds of commands

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._network = stack.enter_context(self._network)
            self.hosts = self._network.hosts
            listener = self.hosts[STORE].listen(_STORE_PORT)
            key = CREDENTIALS["AWS_ACCESS_KEY_ID"]
            self.store = stack.enter_context(S3Store(listener, access_key=key))
            self._start_all()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_all(self) -> None:
        self._lib = make_library(self._network.folder / "lib")
        for name in (JOB_MANAGER, *TASK_MANAGERS):
            self._configure(self.hosts[name])
        self.hosts[SUBMITTER].write(_SECRET_FILE, SECRET.encode(), user=_SUBMITTER_USER)
        self.start_jobmanager()
        for name in TASK_MANAGERS:
            self.start_taskmanager(name)
        for name in TASK_MANAGERS:
            self.use_pool(name)
        self.wait_for_taskmanagers()

    def _configure(self, host: Host) -> None:
        settings = flink_settings(
            jobmanager=JOB_MANAGER, taskmanager=host.name, slots=SLOTS, memory="1600m"
        ) | {
            "jobmanager.bind-host": "0.0.0.0",
            "rest.bind-address": "0.0.0.0",
            "taskmanager.bind-host": "0.0.0.0",
            **self._settings,
        }
        shutil.copytree(HOME / "conf", host.tmp / "conf")
        (host.tmp / "conf" / "config.yaml").write_text(yaml.safe_dump(settings))
        shutil.copytree(self._lib, host.tmp / "lib", symlinks=True, copy_function=os.link)
        for name in ("logs", "."):
            (host.tmp / name).mkdir(exist_ok=True)
            (host.tmp / name).chmod(0o1777)

    def start_jobmanager(self) -> None:
        self._start_flink(JOB_MANAGER, "jobmanager", user=_FLINK_USER)

    def start_taskmanager(self, name: str) -> None:
        self._start_flink(name, "taskmanager", user=_FLINK_USER + _number(name))

    def use_pool(self, name: str, pool: Pool | None = _POOL) -> None:
        """Start this worker pool for a TaskManager in place of the present one; None for none."""
        running = self._pools.get(name)
        if running is not None:
            if running[0] == pool and running[1].poll() is None:
                return
            del self._pools[name]
            running[1].terminate()
            running[1].wait(_LIMIT)
        if pool is not None:
            self._pools[name] = pool, self._start_pool(name, pool)

    def _start_pool(self, name: str, pool: Pool) -> subprocess.Popen[bytes]:
        host, user = self.hosts[name], _POOL_USER + _number(name)
        host.write(_SECRET_FILE, pool.secret.encode(), user=user)
        environment = dict(CREDENTIALS) if pool.credentials else {}
        if pool.version is not None:
            folder = host.tmp / "other" / f"recordmill-{pool.version}.dist-info"
            folder.mkdir(parents=True, exist_ok=True)
            text = f"Metadata-Version: 2.1\nName: recordmill\nVersion: {pool.version}\n"
            (folder / "METADATA").write_text(text)
            environment["PYTHONPATH"] = "/tmp/other"
        with self._log(name, "pool") as log:
            process = host.start(
                *_recordmill("worker-pool", "--port", str(_POOL_PORT)),
                *("--secret-file", _SECRET_FILE),
                user=user, environment=environment, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"listening for workers"), self.logs(name)
        return process

    def kill_pool(self, name: str) -> None:
        """SIGKILL for the worker pool of a TaskManager."""
        process = self._pools.pop(name)[1]
        process.kill()
        process.wait(_LIMIT)

    def kill_flink(self, name: str) -> None:
        """SIGKILL for the JobManager or the TaskManager of a machine, and for nothing else."""
        process = self._flinks.pop(name)
        process.kill()
        process.wait(_LIMIT)

    def workers(self, name: str) -> list[int]:
        """Return the ids of the Python workers of a machine, and of their encoder processes.

        The process that they are forked from is not one of them.
        """
        pool = self._pools[name][1].pid if name in self._pools else 0
        return [pid for pid in self.hosts[name].processes(*WORKERS) if parent(pid) not in (0, pool)]

    def switch_off(self, name: str) -> None:
        """End all that runs on the machine of a TaskManager."""
        self.hosts[name].kill()
        self._pools.pop(name)[1].wait(_LIMIT)

    def switch_on(self, name: str) -> None:
        self.start_taskmanager(name)
        self.use_pool(name)

    def wait_for_taskmanagers(self) -> None:
        """Wait until all slots of all TaskManagers are free."""
        wanted = len(TASK_MANAGERS) * SLOTS

        def there() -> bool:
            with contextlib.suppress(ClusterError), self.flink() as flink:
                return flink.free_slots() == (wanted, wanted, len(TASK_MANAGERS))
            return False

        wait_until(there, "free slots of all TaskManagers")

    @contextlib.contextmanager
    def flink(self) -> Iterator[Cluster]:
        """Give the cluster, for requests from the submitter's machine."""
        with self.hosts[SUBMITTER].entered():
            yield Cluster(f"http://{self.hosts[JOB_MANAGER].address}:{_REST_PORT}")

    def recordmill(self, *arguments: str, credentials: Mapping[str, str] = CREDENTIALS) -> Command:
        """Start a command on the submitter's machine."""
        self._commands += 1
        host, number = self.hosts[SUBMITTER], self._commands
        paths = (host.folder / f"{number}.out", host.folder / f"{number}.err")
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            process = host.start(
                *_recordmill(*arguments), user=_SUBMITTER_USER, environment=credentials,
                stdout=out, stderr=err,
            )  # fmt: skip
        return Command(process, *paths, self._add_run)

    def submit(self, kind: str, *options: str, source: str, output: str) -> Command:
        """Start a command that runs its pipeline on the cluster."""
        return self.recordmill(
            kind, "--input", source, "--output", output, *options,
            *("--runner", "flink", "--flink-master", f"{JOB_MANAGER}:{_REST_PORT}"),
            *("--flink-job-server-jar", str(JOB_SERVER), "--worker-secret-file", _SECRET_FILE),
        )  # fmt: skip

    def uri(self, key: str) -> str:
        options = f"scheme=http&endpoint_override={STORE}:{_STORE_PORT}&region=us-east-1"
        return f"s3://{BUCKET}/{key}?{options}"

    def fill(self, key: str, source: pathlib.Path) -> str:
        """Put a file or a folder into the store, and return its URI."""
        if source.is_file():
            self.store.put(f"{BUCKET}/{key}/{source.name}", source.read_bytes())
        for path in source.rglob("*"):
            if path.is_file():
                name = path.relative_to(source).as_posix()
                self.store.put(f"{BUCKET}/{key}/{name}", path.read_bytes())
        return self.uri(f"{key}/{source.name}" if source.is_file() else key)

    def objects(self, key: str) -> dict[str, str]:
        """Return {name: hash of the content} of all objects below a key."""
        found = {}
        for name in self.store.names(f"{BUCKET}/{key}/"):
            one = self.store.get(name)
            assert one is not None, f"{name} was deleted meanwhile"
            found[name.removeprefix(f"{BUCKET}/{key}/")] = hashlib.sha256(one.content).hexdigest()
        return _comparable(found)

    def wait_for_shards(self, command: Command, key: str, number: int = 2) -> None:
        """Wait until a job is in the middle of writing."""

        def is_writing() -> bool:
            assert command.process.poll() is None, command.end()
            names = self.store.names(f"{BUCKET}/{key}/.recordmill/")
            return sum("/info/" in name and name.endswith(".json") for name in names) >= number

        wait_until(is_writing, f"{number} finished shards")

    @contextlib.contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """Inside the block, no packet reaches a machine or leaves it."""
        self.hosts[name].disconnect()
        try:
            yield
        finally:
            self.hosts[name].connect()

    def logs(self, name: str) -> str:
        """All that the programs of a machine have written."""
        host = self.hosts[name]
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')}"
            for path in sorted([*host.folder.glob("*.log"), *host.tmp.glob("logs/*")])
        )

    def _add_run(self, ended: Ended) -> None:
        self.runs.append((str(ended.code), f"{ended.seconds:.1f} s"))

    def _log(self, name: str, program: str) -> IO[bytes]:
        return (self.hosts[name].folder / f"{program}.log").open("ab")

    def _start_flink(self, name: str, program: str, *, user: int) -> None:
        environment = flink_environment("/tmp", lib=pathlib.Path("/tmp/lib"))
        if "JAVA_HOME" in os.environ:
            environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
        with self._log(name, program) as log:
            self._flinks[name] = self.hosts[name].start(
                str(HOME / "bin" / f"{program}.sh"), "start-foreground",
                user=user, environment=environment, stdout=log, stderr=log,
            )  # fmt: skip


def last_for(seconds: float) -> None:
    """Let a fault last."""
    threading.Event().wait(seconds)


def hashes(folder: pathlib.Path) -> dict[str, str]:
    """Return {name: hash of the content} of all files in a folder, as `Machines.objects`."""
    return _comparable(
        {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
            if path.is_file()
        }
    )


def _comparable(found: dict[str, str]) -> dict[str, str]:
    """Leave out files that name places and times, and the empty object that stands for a folder."""
    unlike = ("", "job.json", "recipes.parquet")
    return {name: one for name, one in found.items() if name not in unlike}


def _number(taskmanager: str) -> int:
    return 1 + TASK_MANAGERS.index(taskmanager)


def _recordmill(*arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", "recordmill", *arguments)
