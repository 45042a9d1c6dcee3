"""The options for the memory and the processes of a job."""

from __future__ import annotations

import dataclasses

from recordmill.option_checks import expect_whole
from recordmill.pipelines.options import values
from recordmill.pipelines.options.declaration import option
from recordmill.pipelines.options.reporting import RUN
from recordmill.processes.row_tasks import MAX_MEMORY


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResourceConfig:
    """Options for the memory and the processes of a job."""

    max_worker_memory: int = option(
        MAX_MEMORY,
        group=RUN,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject a record for which an encoder process needs more resident memory than this;"
        " 0 is no limit.",
    )
    spill_above: int = option(
        4 * 2**20,
        group=RUN,
        local=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Shuffle through temporary files in the output folder if the rows to shuffle take more"
        " memory than this.",
    )
    workers: int = option(
        0,
        group=RUN,
        local=True,
        help="Encoder processes on this machine (on Flink: per Python worker); 0 is one per core.",
    )

    def _check_resources(self) -> None:
        expect_whole("--workers", self.workers, least=0)
