"""Worker pool: a gRPC service that starts and stops Python workers on a runner's request.

It serves Beam's EXTERNAL environment, on clusters with one pool per machine, and inside the command
for an embedded Flink. Beam's own pool starts whatever `python` is in the path, listens on all
interfaces, and may hang if a worker prints more than a pipe holds.

Flink requests new workers for each stage of a job. The process of a worker that has ended is kept
for the next one of the same job, and one more waits for the first worker of the next job (ADR 58).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent import futures
from typing import IO, Any, Self

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from recordmill import strict_json
from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.runners.failures import REFUSAL
from recordmill.runners.workers import peers
from recordmill.runners.workers.forkserver import ACCEPTED, FINISHED

PORT = 50000
_TERMINATION_SECONDS = 10.0  # time that a worker has to end after SIGTERM
_FINISH_SECONDS = 1.0  # time that a worker has to finish after its runner has disconnected
_ANSWER_SECONDS = 10.0  # time that a waiting process has to accept a request
_SPARE_SECONDS = 1.0  # delay of the fork of the next spare process, while the first worker starts


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """gRPC service that runs inside its `with` block; all its workers end with the block.

    It runs code for processes of the same user on this machine, and for holders of the secret.

    host: address to listen at. port: 0 takes a free port.
    secret: None accepts processes of the same user only.
    imports: modules that are imported before the first worker is requested.
    log: file for the output of the workers; None means standard error.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        secret: str | None = None,
        imports: Sequence[str] = (),
        log: IO[bytes] | None = None,
    ) -> None:
        if secret is None and not peers.is_loopback(host):
            raise ConfigError(
                f"{option_name('host', host)}: anyone who can reach that address could run code"
                f" here: pass {option_name('secret_file')}, and {option_name('worker_secret_file')}"
                " to the jobs"
            )
        self.host = host
        self._secret = secret
        self._lock = threading.Lock()
        self._forkserver = _WorkerForkserver(imports, log)
        self._workers: dict[str, _WorkersOfOneId] = {}
        self._waiting: list[_Worker] = []  # for the next worker of their job, or of any job
        self._refill: threading.Timer | None = None
        self._server = grpc.server(
            futures.ThreadPoolExecutor(thread_name_prefix="worker-pool"),
            # Without this, a second pool could share the port and get some of the requests.
            options=[("grpc.so_reuseport", 0)],
        )
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, self._server)
        try:
            self.port = int(self._server.add_insecure_port(f"{host}:{port}"))
        except RuntimeError as error:
            self._forkserver.end()
            raise ConfigError(
                f"cannot listen at {host}:{port}: the port is in use, or this machine does not have"
                f" that address; choose another {option_name('host')} or {option_name('port')}"
            ) from error

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._server.start()
        self._fork_spare_in(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0)
        self._forkserver.kill()  # which releases the lock, if a fork holds it
        with self._lock:
            workers = self._all_workers() + self._waiting
            self._workers.clear()
            self._waiting = []
            if self._refill is not None:
                self._refill.cancel()
            self._forkserver.end()
        _terminate(workers)

    def kill(self) -> None:
        """Kill the workers without taking a lock or waiting; safe in a signal handler."""
        self._forkserver.kill()
        for worker in self._all_workers() + self._waiting:
            worker.send_signal(signal.SIGKILL)

    def _all_workers(self) -> list[_Worker]:
        return [worker for group in list(self._workers.values()) for worker in group.workers]

    def wait(self) -> None:
        """Block until the service is stopped."""
        self._server.wait_for_termination()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Start a worker that connects to the endpoints of the request."""
        caller = peers.Caller.of(context.peer(), port=self.port)
        if not caller.is_same_user and not peers.has_secret(request.params, self._secret):
            return beam_fn_api_pb2.StartWorkerResponse(error=_refusal(self._secret))
        flags = [
            f"--id={request.worker_id}",
            f"--provision_endpoint={request.provision_endpoint.url}",
            f"--control_endpoint={request.control_endpoint.url}",
            f"--logging_endpoint={request.logging_endpoint.url}",
            f"--artifact_endpoint={request.artifact_endpoint.url}",
        ]
        try:
            with self._lock:
                worker = self._start(flags, job=request.params.get(peers.JOB_PARAMETER, ""))
                group = self._workers.setdefault(request.worker_id, _WorkersOfOneId())
                group.reset_if_all_ended()
                group.workers.append(worker)
                if caller.is_known:
                    group.callers.add(caller)
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"cannot start a worker: {error}")
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Stop a worker; an unknown id is no error."""
        caller = peers.Caller.of(context.peer(), port=self.port)
        with self._lock:
            group = self._workers.get(request.worker_id, _WorkersOfOneId())
            # The request has no parameters for a secret.
            if group.workers and not caller.is_same_user and caller not in group.callers:
                return beam_fn_api_pb2.StopWorkerResponse(error=_refusal(self._secret))
            group.stops += 1
            if group.stops < len(group.workers):
                return beam_fn_api_pb2.StopWorkerResponse()
            self._workers.pop(request.worker_id, None)
        kept = [worker for worker in group.workers if worker.job and worker.finishes()]
        with self._lock:
            self._waiting += kept
        _terminate([worker for worker in group.workers if worker not in kept])
        return beam_fn_api_pb2.StopWorkerResponse()

    def _start(self, flags: Sequence[str], *, job: str) -> _Worker:
        """Start a worker, in a waiting process if there is one. Raises OSError."""
        for worker in [worker for worker in self._waiting if worker.has_ended]:
            self._waiting.remove(worker)
            worker.close()
        for wanted in (job, ""):  # a spare process has not run for any job
            for worker in [worker for worker in self._waiting if worker.job == wanted]:
                self._waiting.remove(worker)
                if not wanted:
                    self._fork_spare_in(_SPARE_SECONDS)
                if worker.start(flags, job=job):
                    return worker
                _terminate([worker])
        worker = self._forkserver.fork()
        if not worker.start(flags, job=job):
            _terminate([worker])
            raise ChildProcessError("the new process does not answer")
        return worker

    def _fork_spare_in(self, seconds: float) -> None:
        self._refill = threading.Timer(seconds, self._fork_spare)
        self._refill.daemon = True
        self._refill.start()

    def _fork_spare(self) -> None:
        with self._lock, contextlib.suppress(OSError):  # the next request reports an error
            self._waiting.append(self._forkserver.fork())


class _Worker:
    """A process that runs workers, one after the other.

    pidfd: of the process. job: of its last worker; '' if it has run none, or may run no other.
    """

    def __init__(self, process: int, channel: socket.socket) -> None:
        self.pidfd = os.pidfd_open(process)
        self.job = ""
        self._channel = channel

    @property
    def has_ended(self) -> bool:
        return bool(select.select([self.pidfd], [], [], 0)[0])

    @property
    def is_stopped(self) -> bool:
        """True if its worker has stopped: the process has ended, or waits."""
        return bool(select.select([self.pidfd, self._channel.fileno()], [], [], 0)[0])

    def start(self, flags: Sequence[str], *, job: str) -> bool:
        """Start a worker in the process, and return whether it was able to."""
        self.job = job
        try:
            self._channel.sendall(strict_json.to_text(list(flags)).encode() + b"\n")
            return self._answers(_ANSWER_SECONDS) == ACCEPTED
        except OSError:
            return False

    def finishes(self) -> bool:
        """Return whether the worker stops soon, and its process can run the next one of its job."""
        return self._answers(_FINISH_SECONDS) == FINISHED

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the process, and return whether it has ended."""
        return bool(select.select([self.pidfd], [], [], seconds)[0])

    def close(self) -> None:
        self._channel.close()
        os.close(self.pidfd)

    def _answers(self, seconds: float) -> bytes:
        """Return the next answer; b'' if the process has ended, or takes longer."""
        channel = self._channel.fileno()
        readable = select.select([channel, self.pidfd], [], [], seconds)[0]
        return self._channel.recv(1) if channel in readable else b""


@dataclasses.dataclass
class _WorkersOfOneId:
    """Workers with the same id, because each TaskManager that shares a pool counts from 1.

    A stop request does not identify the TaskManager. The worker that it means stops by itself,
    since its runner disconnects first; the rest is terminated once all workers of the id were
    stopped.

    callers: the TaskManagers, by user on this machine, or by address on others.
    """

    workers: list[_Worker] = dataclasses.field(default_factory=list)
    stops: int = 0
    callers: set[peers.Caller] = dataclasses.field(default_factory=set)

    def reset_if_all_ended(self) -> None:
        """Restart the count if all have ended: a TaskManager that dies requests no stops."""
        if all(worker.is_stopped for worker in self.workers):
            for worker in self.workers:
                worker.close()
            self.workers, self.stops = [], 0


class _WorkerForkserver:
    """The process from which workers are forked (`forkserver.main`)."""

    def __init__(self, imports: Sequence[str], log: IO[bytes] | None) -> None:
        start = (
            f"from recordmill.runners.workers import forkserver; forkserver.main({list(imports)!r})"
        )
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._requests, theirs = socket.socketpair()
        self._answers = self._requests.makefile("rb")
        self._process = subprocess.Popen(
            # -P: modules in the current folder must not shadow ours.
            [sys.executable, "-P", "-c", start],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=os.environ | {"PYTHONPATH": paths},
            process_group=0,
        )
        theirs.close()

    def fork(self) -> _Worker:
        """Fork a process that waits for its first worker. Raises OSError if this is impossible."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._requests, [b"\n"], [theirs.fileno()])
        answer = self._answers.readline()
        if not answer:
            ours.close()
            raise ChildProcessError(f"the forkserver ended with exit code {self._process.wait()}")
        return _Worker(int(answer), ours)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.wait()
        self._answers.close()
        self._requests.close()


def _refusal(secret: str | None) -> str:
    pool = f"{REFUSAL}the worker pool on {os.uname().nodename}"
    if secret is None:
        return (
            f"{pool} serves processes of its own user only: run the TaskManager as that"
            " user, or start the pool with --secret-file and the job with --worker-secret-file"
        )
    return (
        f"{pool} serves only jobs with its secret: pass --worker-secret-file with a copy of"
        " the pool's --secret-file"
    )


def _terminate(workers: Sequence[_Worker]) -> None:
    """End processes by SIGTERM, and those that ignore it by SIGKILL."""
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        if not worker.wait(_TERMINATION_SECONDS):
            worker.send_signal(signal.SIGKILL)
            worker.wait(_TERMINATION_SECONDS)
        worker.close()
