"""Options of a job on Flink, checked against Beam's own flags of the same meaning."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, get_args

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
)

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.runners.flink.environments import Environment
from recordmill.runners.flink.rest import Cluster

_NO_CLUSTER = ("", "[local]", "[auto]")  # Beam's values for a Flink embedded in this machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlinkOptions:
    """Options of a job on Flink.

    An option that is None takes the value of Beam's flag of the same meaning, if that is given.

    master: REST address of the cluster; None embeds a Flink in this machine.
    environment, environment_config: where the Python workers run; None chooses by the cluster.
    token_file, ca_file: of the cluster's REST interface, see `Cluster.parse`.
    worker_secret_file: file with the secret of the worker pools.
    parallelism: None uses all free slots.
    whole_jar: copy all but Flink's own classes from the job server into the job's jar.
    stall_seconds: time without any progress after which the job is cancelled.
    retries: how often a job is submitted again that the cluster has lost, or that has stalled.
    imports: modules that workers started on this machine import in advance.
    version: of the embedded Flink.
    beam: Beam's own options, as flags.

    Raises:
      ConfigError: an option is invalid or contradicts Beam's flag of the same meaning.
    """

    master: str | None = None
    environment: Environment | None = None
    environment_config: str | None = None
    worker_secret_file: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    parallelism: int | None = None
    job_name: str = "recordmill"
    job_server_jar: str | None = None
    job_server_sha256: str | None = None
    whole_jar: bool = False
    detach: bool = False
    stall_seconds: float = 420.0
    retries: int = 0
    imports: Sequence[str] = ()
    version: str | None = None
    beam: Sequence[str] = ()

    def __post_init__(self) -> None:
        options = PipelineOptions(list(self.beam))
        flink = options.view_as(FlinkRunnerOptions)
        portable = options.view_as(PortableOptions)
        if portable.environment_options:
            raise ConfigError(f"--environment_options: use {option_name('environment_config')}")
        parallelism = flink.parallelism if flink.parallelism > 0 else None
        kind = portable.environment_type.lower() if portable.environment_type else None
        if kind not in (None, *get_args(Environment)):
            raise ConfigError(
                "--environment_type: expected external, process, docker or loopback, got"
                f" {portable.environment_type!r}"
            )
        setup = options.view_as(SetupOptions)
        for name in ("requirements_file", "setup_file", "extra_packages"):
            given = getattr(setup, name) or []
            for file in [given] if isinstance(given, str) else given:
                if "://" not in file and not os.path.isfile(file):
                    raise ConfigError(f"--{name.rstrip('s')}: there is no file {file!r}")
        object.__setattr__(self, "master", _cluster_url(self.master))
        self._merge("master", _cluster_url(flink.flink_master), option="flink-master")
        self._merge("environment", kind)
        self._merge("environment_config", portable.environment_config)
        self._merge("parallelism", parallelism)
        jar = flink.flink_job_server_jar
        self._merge("job_server_jar", jar, option="flink-job-server-jar")
        self._merge("version", flink.flink_version)

    @property
    def cluster(self) -> Cluster | None:
        """The cluster, None for an embedded Flink. Raises ConfigError."""
        if self.master is None:
            if self.token_file is not None or self.ca_file is not None:
                raise ConfigError(
                    f"{option_name('flink_token_file')}, {option_name('flink_ca_file')}: need"
                    f" {option_name('flink_master')}"
                )
            return None
        return Cluster.parse(self.master, token_file=self.token_file, ca_file=self.ca_file)

    def _merge(self, name: str, beam_value: Any, *, option: str = "") -> None:
        value = getattr(self, name)
        if value is None:
            object.__setattr__(self, name, beam_value)
        elif beam_value is not None and beam_value != value:
            raise ConfigError(
                f"--{option or name.replace('_', '-')} {value} contradicts Beam's option of the"
                f" same meaning, {beam_value}: remove one of them"
            )


def _cluster_url(master: str | None) -> str | None:
    """Return the URL of a cluster, or None if the value means an embedded Flink."""
    return None if master is None or master in _NO_CLUSTER else Cluster.parse(master).url
