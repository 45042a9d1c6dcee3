"""The options for the memory, the time and the processes of a job."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from recordmill.option_checks import expect_seconds, expect_whole
from recordmill.options import values
from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.common.reporting import RUN
from recordmill.processes.task_watch import MAX_MEMORY, MAX_SECONDS, TaskLimits


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResourceConfig:
    """Options for the memory, the time and the processes of a job."""

    HEADING: ClassVar[Group] = RUN

    max_worker_memory: int = option(
        MAX_MEMORY,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject a record for which an encoder process needs more resident memory than this;"
        " 0 is no limit.",
    )
    max_worker_seconds: float = option(
        MAX_SECONDS,
        parse=values.number,
        metavar="SECONDS",
        help="Reject a record for which an encoder process needs more CPU time than this; 0"
        " is no limit.",
    )
    spill_above: int = option(
        4 * 2**20,
        local=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Shuffle through temporary files if the rows to shuffle take more memory than this.",
    )
    scratch: str | None = option(
        None,
        local=True,
        metavar="FOLDER|store",
        help="Folder on this machine for intermediate files, if the output is in a store; store"
        " keeps them there. Default: the cache folder of this user.",
    )
    workers: int = option(
        0,
        local=True,
        help="Encoder processes on this machine (on Flink: per Python worker); 0 is one per core.",
    )

    @property
    def worker_limits(self) -> TaskLimits:
        """The limits of a task of an encoder process."""
        return TaskLimits(self.max_worker_memory, self.max_worker_seconds)

    def _check_resources(self) -> None:
        expect_whole("--workers", self.workers, least=0)
        expect_seconds("--max-worker-seconds", self.max_worker_seconds)
