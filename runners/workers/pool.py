"""Worker pool: a gRPC service that starts and stops Python workers on a runner's request.

It serves Beam's EXTERNAL environment, on clusters with one pool per machine, and inside the command
for an embedded Flink. Beam's own pool starts whatever `python` is in the path, listens on all
interfaces, and may hang if a worker prints more than a pipe holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent import futures
from typing import IO, Any, Self

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from recordmill.errors import ConfigError
from recordmill.runners.workers import peers

PORT = 50000
_TERMINATION_SECONDS = 10.0  # time that a worker has to end after SIGTERM


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
                f"--host {host}: anyone who can reach that address could run code here: pass"
                " --secret-file, and --worker-secret-file to the jobs"
            )
        self.host = host
        self._secret = secret
        self._lock = threading.Lock()
        self._forkserver = _WorkerForkserver(imports, log)
        self._workers: dict[str, _WorkersOfOneId] = {}
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
                " that address; choose another --host or --port"
            ) from error

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0)
        with self._lock:
            workers = self._all_workers()
            self._workers.clear()
        self._forkserver.end()
        _terminate(workers)

    def kill(self) -> None:
        """Kill the workers without taking a lock or waiting; safe in a signal handler."""
        self._forkserver.kill()
        for worker in self._all_workers():
            _signal(worker, signal.SIGKILL)

    def _all_workers(self) -> list[int]:
        return [worker for group in list(self._workers.values()) for worker in group.workers]

    def wait(self) -> None:
        """Block until the service is stopped."""
        self._server.wait_for_termination()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Start a worker that connects to the endpoints of the request."""
        peer = context.peer()
        accepted = peers.has_secret(request.params, self._secret)
        if not accepted and not peers.is_same_user(peer, port=self.port):
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
                worker = self._forkserver.fork(flags)
                group = self._workers.setdefault(request.worker_id, _WorkersOfOneId())
                group.reset_if_all_ended()
                group.workers.append(worker)
                group.hosts.add(peers.host_of(peer))
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"cannot start a worker: {error}")
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Stop a worker; an unknown id is no error."""
        peer = context.peer()
        same_user = peers.is_same_user(peer, port=self.port)
        with self._lock:
            group = self._workers.get(request.worker_id, _WorkersOfOneId())
            # The request has no parameters for a secret.
            if group.workers and not same_user and peers.host_of(peer) not in group.hosts:
                return beam_fn_api_pb2.StopWorkerResponse(error=_refusal(self._secret))
            group.stops += 1
            if group.stops < len(group.workers):
                return beam_fn_api_pb2.StopWorkerResponse()
            self._workers.pop(request.worker_id, None)
        _terminate(group.workers)
        return beam_fn_api_pb2.StopWorkerResponse()


@dataclasses.dataclass
class _WorkersOfOneId:
    """Workers with the same id, because each TaskManager that shares a pool counts from 1.

    A stop request does not identify the TaskManager. The worker that it means ends by itself, since
    its runner disconnects first; the rest is terminated once all workers of the id were stopped.

    workers: pidfds. hosts: addresses of the TaskManagers.
    """

    workers: list[int] = dataclasses.field(default_factory=list)
    stops: int = 0
    hosts: set[str] = dataclasses.field(default_factory=set)

    def reset_if_all_ended(self) -> None:
        """Restart the count if all have ended: a TaskManager that dies requests no stops."""
        if len(select.select(self.workers, [], [], 0)[0]) == len(self.workers):
            for worker in self.workers:
                os.close(worker)
            self.workers, self.stops = [], 0


class _WorkerForkserver:
    """The process from which workers are forked (`forkserver.main`)."""

    def __init__(self, imports: Sequence[str], log: IO[bytes] | None) -> None:
        start = (
            f"from recordmill.runners.workers import forkserver; forkserver.main({list(imports)!r})"
        )
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            # -P: modules in the current folder must not shadow ours.
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | {"PYTHONPATH": paths},
            process_group=0,
        )

    def fork(self, flags: Sequence[str]) -> int:
        """Start a worker and return its pidfd. Raises OSError if the forkserver has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(flags)).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise ChildProcessError(f"the forkserver ended with exit code {self._process.wait()}")
        return os.pidfd_open(int(answer))

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _refusal(secret: str | None) -> str:
    if secret is None:
        return (
            "the worker pool serves processes of its own user only: run the TaskManager as that"
            " user, or start the pool with --secret-file and the job with --worker-secret-file"
        )
    return (
        "the worker pool serves only jobs with its secret: pass --worker-secret-file with a copy of"
        " the pool's --secret-file"
    )


def _signal(worker: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, number)


def _terminate(workers: Sequence[int]) -> None:
    """Stop workers by SIGTERM, and those that ignore it by SIGKILL."""
    for worker in workers:
        _signal(worker, signal.SIGTERM)
    for worker in workers:
        if not select.select([worker], [], [], _TERMINATION_SECONDS)[0]:
            _signal(worker, signal.SIGKILL)
            select.select([worker], [], [], _TERMINATION_SECONDS)
        os.close(worker)
