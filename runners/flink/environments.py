"""Environments: the places where the Python workers of a Flink job run."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any, Literal

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from recordmill import strict_json
from recordmill.errors import ConfigError, RunError
from recordmill.option_names import option_name
from recordmill.runners.flink.rest import Cluster
from recordmill.runners.workers import peers
from recordmill.runners.workers.pool import PORT, WorkerPool

Environment = Literal["external", "process", "docker", "loopback"]
_WORKER_PROGRAM = "recordmill-worker"


def choose_environment(
    environment: Environment | None, *, cluster: Cluster | None, detach: bool, config: str | None
) -> Environment:
    """Return the given environment, or the default for the cluster (None: an embedded Flink).

    Raises:
      ConfigError: the environment cannot work with this cluster.
      RunError: the worker pool of this machine does not answer.
    """
    if environment is None:
        if cluster is None:
            return "loopback"
        return "process" if cluster.is_local else "external"
    if environment == "loopback" and cluster is not None and not cluster.is_local:
        raise ConfigError(
            f"{option_name('environment', 'loopback')}: the workers would run here, where the"
            f" cluster at {cluster.url} does not reach them: use external, with a recordmill"
            " worker-pool on the machine of each TaskManager, or docker"
        )
    if environment == "loopback" and detach:
        raise ConfigError(
            f"{option_name('environment', 'loopback')}: the workers would end with this command,"
            f" which {option_name('detach')} does not keep running: use process, external or docker"
        )
    here = cluster is None or cluster.is_local
    if environment == "docker":
        if not config:
            raise ConfigError(
                f"{option_name('environment', 'docker')}: expected the image of the workers in"
                f" {option_name('environment_config')}, built from the Dockerfile in deploy/"
            )
        if here and shutil.which("docker") is None:
            raise ConfigError(
                f"{option_name('environment', 'docker')}: docker is not installed on this machine"
            )
    if environment == "process" and config and here and shutil.which(config) is None:
        raise ConfigError(
            f"{option_name('environment', 'process')}: there is no program {config!r} to run"
        )
    if environment == "loopback" and config:
        raise ConfigError(
            f"{option_name('environment_config')} has no effect with"
            f" {option_name('environment', 'loopback')}"
        )
    if environment == "external" and here:
        _check_pool(config or f"localhost:{PORT}")
    return environment


@contextlib.contextmanager
def serve_environment(
    environment: Environment,
    *,
    config: str | None,
    secret: str,
    imports: Sequence[str],
    log: IO[bytes],
) -> Iterator[tuple[str, str, WorkerPool | None]]:
    """Yield Beam's environment type, its config, and the worker pool if it is in this process.

    secret: that pool serves holders of it only, besides processes of this user.
    """
    match environment:
        case "loopback":
            with WorkerPool(secret=secret, imports=imports, log=log) as pool:
                yield "EXTERNAL", pool.address, pool
        case "external":
            yield "EXTERNAL", config or f"localhost:{PORT}", None
        case "process":
            yield "PROCESS", strict_json.to_text({"command": config or _worker_program()}), None
        case "docker":
            assert config is not None, "checked by choose_environment"
            yield "DOCKER", config, None


def add_secret(pipeline: Any, secret: str, *, job: str) -> None:
    """Add the secret of a worker pool, and a job's id, to a pipeline's external environments.

    Flink passes these parameters on to the pool. They are not pipeline options, because Flink
    displays those.
    """
    for environment in pipeline.components.environments.values():
        if environment.urn == common_urns.environments.EXTERNAL.urn:
            payload = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
            payload.params[peers.PARAMETER] = secret
            payload.params[peers.JOB_PARAMETER] = job
            environment.payload = payload.SerializeToString()


def _worker_program() -> str:
    beside = os.path.dirname(sys.executable)
    found = shutil.which(_WORKER_PROGRAM, path=beside) or shutil.which(_WORKER_PROGRAM)
    if found is None:
        raise ConfigError(
            f"{option_name('environment', 'process')}: {_WORKER_PROGRAM} is not in {beside}:"
            " install recordmill there with pip, or give the path of the program as"
            f" {option_name('environment_config')}"
        )
    return found


def _check_pool(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(
            f"{option_name('environment_config')}: expected HOST:PORT of a pool, got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        start = f"recordmill worker-pool --port {port}"
        raise RunError(
            f"{option_name('environment', 'external')}: no worker pool answers at {address}: start"
            f" one with {start}, or give its address as {option_name('environment_config')}"
        ) from error
