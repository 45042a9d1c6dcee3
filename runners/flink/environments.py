"""Where the Python workers of a Flink job run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Literal

from recordmill.errors import ConfigError
from recordmill.runners.flink.rest import Cluster
from recordmill.runners.workers.pool import PORT, WorkerPool

Environment = Literal["external", "process", "docker", "loopback"]
_PROGRAM = "recordmill-worker"


def choose(
    environment: Environment | None, *, cluster: Cluster | None, detach: bool, config: str | None
) -> Environment:
    """The given environment, or the one that suits the cluster; cluster None is embedded.

    Raises:
      ConfigError: it cannot work there.
    """
    if environment is None:
        if cluster is None:
            return "loopback"
        return "process" if cluster.is_local else "external"
    if environment == "loopback" and cluster is not None and not cluster.is_local:
        raise ConfigError(
            f"--environment loopback: the workers would run here, where the cluster at"
            f" {cluster.url} does not reach them: use external, with a recordmill worker-pool"
            " beside each TaskManager, or docker"
        )
    if environment == "loopback" and detach:
        raise ConfigError(
            "--environment loopback: the workers would end with this process, which --detach lets"
            " go: use process, external or docker"
        )
    here = cluster is None or cluster.is_local
    if environment == "docker":
        if not config:
            raise ConfigError(
                "--environment docker: expected the image of the workers in"
                " --environment-config, built of the Dockerfile in deploy/"
            )
        if here and shutil.which("docker") is None:
            raise ConfigError("--environment docker: there is no docker on this machine")
    if environment == "process" and config and here and shutil.which(config) is None:
        raise ConfigError(f"--environment process: there is no program {config!r} to run")
    if environment == "loopback" and config:
        raise ConfigError("--environment-config is of no use with --environment loopback")
    if environment == "external" and here:
        _check_pool(config or f"localhost:{PORT}")
    return environment


@contextlib.contextmanager
def serving(
    environment: Environment, *, config: str | None, imports: Sequence[str], log: IO[bytes]
) -> Iterator[tuple[str, str, WorkerPool | None]]:
    """Beam's (environment type, its config, the pool in this process where there is one)."""
    match environment:
        case "loopback":
            with WorkerPool(imports=imports, log=log) as pool:
                yield "EXTERNAL", pool.address, pool
        case "external":
            yield "EXTERNAL", config or f"localhost:{PORT}", None
        case "process":
            yield "PROCESS", json.dumps({"command": config or _worker_program()}), None
        case "docker":
            assert config is not None, "choose has seen to that"
            yield "DOCKER", config, None


def _worker_program() -> str:
    beside = os.path.dirname(sys.executable)
    found = shutil.which(_PROGRAM, path=beside) or shutil.which(_PROGRAM)
    if found is None:
        raise ConfigError(
            f"--environment process: there is no {_PROGRAM} in {beside}: install recordmill there"
            " with pip, or name the program in --environment-config"
        )
    return found


def _check_pool(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--environment-config: expected HOST:PORT of a pool, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--environment external: no worker pool answers at {address}: start one with"
            f" recordmill worker-pool --port {port}, or name it in --environment-config"
        ) from error
