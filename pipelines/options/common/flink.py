"""The options of jobs that run on Flink."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from recordmill.options.declaration import Group, option

FLINK = Group(85, "Flink", local=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlinkConfig:
    """The cluster of a job, and how it is submitted."""

    HEADING: ClassVar[Group] = FLINK

    flink_master: str | None = option(
        None,
        metavar="HOST:PORT",
        help="REST address of the cluster. Default: a Flink that is started on this machine for"
        " this job.",
    )
    flink_token_file: str | None = option(
        None,
        metavar="FILE",
        help="File with the token of the cluster's REST interface, or with USER:PASSWORD; only its"
        " owner may be able to read it. For a cluster on another machine --flink-master must be"
        " https://HOST:PORT.",
    )
    flink_ca_file: str | None = option(
        None,
        metavar="FILE",
        help="PEM file of the certificate authorities to trust for an https:// cluster. Default:"
        " those of the system.",
    )
    environment: Literal["external", "process", "docker", "loopback"] | None = option(
        None,
        metavar="external|process|docker|loopback",
        help="Where the Python workers run. loopback: as processes of this command (default without"
        " a cluster). process: each TaskManager starts them, from the same path as on this machine"
        " (default for a cluster on this machine). external: a recordmill worker-pool beside each"
        " TaskManager starts them (default for other clusters). docker: each TaskManager starts"
        " them as containers.",
    )
    environment_config: str | None = option(
        None,
        metavar="TEXT",
        help="external: HOST:PORT of the worker pool, as seen from a TaskManager (default:"
        " localhost:50000). docker: the image. process: the program.",
    )
    worker_secret_file: str | None = option(
        None,
        metavar="FILE",
        help="external: file with the secret of the worker pools (their --secret-file); only its"
        " owner may be able to read it. Needed if a pool runs as another user than its"
        " TaskManager, or listens on an address other than loopback.",
    )
    parallelism: int | None = option(None, help="Task slots to use. Default: all free slots.")
    job_name: str | None = option(
        None,
        metavar="NAME",
        help="Name of the job in Flink. Default: the command and the name of the output folder.",
    )
    detach: bool = option(
        False,
        help="Submit the job and exit; the job publishes the dataset by itself. Follow it with"
        " recordmill status.",
    )
    stall_timeout: int = option(
        420,
        metavar="SECONDS",
        help="Cancel the job if it makes no progress for this long.",
    )
    retries: int = option(
        0,
        metavar="N",
        help="Submit a job again, up to N times, after --stall-timeout or if the cluster has lost"
        " it.",
    )
    flink_job_server_jar: str | None = option(
        None,
        metavar="PATH|URL",
        help="Jar of Beam's Flink job server. Default: Beam downloads the jar for the cluster's"
        " version, which needs --flink-job-server-sha256.",
    )
    flink_job_server_sha256: str | None = option(
        None,
        metavar="HEX",
        help="sha256 of that jar, checked before it runs; required for a download.",
    )
    flink_whole_jar: bool = option(
        False,
        help="Copy all but Flink's own classes from the job server into the job's jar. Default:"
        " only the libraries that jobs with Python workers use.",
    )
