"""A worker pool: starts and stops Python workers when a runner asks for them.

The EXTERNAL environment of Beam, for clusters whose machines run one pool each; the local runner of
Flink starts one in this process. Beam's own starts whatever `python` is, listens on all interfaces
and may hang when a worker prints much.
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

PORT = 50000
_GRACE = 10.0  # s that a worker has to end by itself


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Serves inside its `with` block; all its workers end with it.

    host: the address it listens at; all who reach it can run code here. port: 0 for a free one.
    imports: modules to have ready before the first worker is asked for.
    log: where the workers' output goes; standard error where None.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        imports: Sequence[str] = (),
        log: IO[bytes] | None = None,
    ) -> None:
        self.host = host
        self._lock = threading.Lock()
        self._zygote = _Zygote(imports, log)
        self._namesakes: dict[str, _Namesakes] = {}  # by their id
        self._server = grpc.server(
            futures.ThreadPoolExecutor(thread_name_prefix="worker-pool"),
            # Two pools on one port would each get some of the workers.
            options=[("grpc.so_reuseport", 0)],
        )
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self, self._server)
        try:
            self.port = int(self._server.add_insecure_port(f"{host}:{port}"))
        except RuntimeError as error:
            self._zygote.end()
            raise ConfigError(
                f"cannot listen at {host}:{port}: another program does, or it is no address of"
                " this machine; choose another --host or --port"
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
            workers = self._all()
            self._namesakes.clear()
        self._zygote.end()
        for worker in workers:
            _signal(worker, signal.SIGTERM)
        for worker in workers:
            _end(worker)

    def kill(self) -> None:
        """Ends the workers from a signal handler: takes no lock, and waits for nothing."""
        self._zygote.kill()
        for worker in self._all():
            _signal(worker, signal.SIGKILL)

    def _all(self) -> list[int]:
        return [worker for some in list(self._namesakes.values()) for worker in some.workers]

    def wait(self) -> None:
        """Serves until somebody stops it."""
        self._server.wait_for_termination()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Starts a worker that reports to the endpoints of the request."""
        flags = [
            f"--id={request.worker_id}",
            f"--provision_endpoint={request.provision_endpoint.url}",
            f"--control_endpoint={request.control_endpoint.url}",
            f"--logging_endpoint={request.logging_endpoint.url}",
            f"--artifact_endpoint={request.artifact_endpoint.url}",
        ]
        try:
            with self._lock:
                worker = self._zygote.fork(flags)
                some = self._namesakes.setdefault(request.worker_id, _Namesakes())
                some.forget_if_ended()
                some.workers.append(worker)
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"cannot start a worker: {error}")
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Ends a worker; nothing happens where there is none of that id."""
        with self._lock:
            some = self._namesakes.get(request.worker_id, _Namesakes())
            some.stops += 1
            if some.stops < len(some.workers):
                return beam_fn_api_pb2.StopWorkerResponse()
            self._namesakes.pop(request.worker_id, None)
        for worker in some.workers:
            _signal(worker, signal.SIGTERM)
        for worker in some.workers:
            _end(worker)
        return beam_fn_api_pb2.StopWorkerResponse()


@dataclasses.dataclass
class _Namesakes:
    """Workers of one id: TaskManagers that share a pool each count theirs from 1.

    A stop does not say which of them is meant. That one ends by itself, as its runner has hung up
    on it; whoever has not ended is killed once as many were stopped as were started.

    workers: their pidfds.
    """

    workers: list[int] = dataclasses.field(default_factory=list)
    stops: int = 0

    def forget_if_ended(self) -> None:
        """Begins to count anew: who dies with its TaskManager is never stopped."""
        if len(select.select(self.workers, [], [], 0)[0]) == len(self.workers):
            for worker in self.workers:
                os.close(worker)
            self.workers, self.stops = [], 0


class _Zygote:
    """The process that the workers are forked from."""

    def __init__(self, imports: Sequence[str], log: IO[bytes] | None) -> None:
        start = (
            f"from recordmill.runners.workers import forkserver; forkserver.main({list(imports)!r})"
        )
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            # -P: a module in the folder where somebody stands is not the one we mean.
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | {"PYTHONPATH": paths},
            process_group=0,
        )

    def fork(self, flags: Sequence[str]) -> int:
        """Starts a worker and returns its pidfd. Raises OSError where that is impossible."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(flags)).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise ChildProcessError(f"it ended with exit code {self._process.wait()}")
        return os.pidfd_open(int(answer))

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _signal(worker: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, number)


def _end(worker: int) -> None:
    """Waits for the end of a worker that was told to, and tells it more clearly."""
    if not select.select([worker], [], [], _GRACE)[0]:
        _signal(worker, signal.SIGKILL)
        select.select([worker], [], [], _GRACE)
    os.close(worker)
