"""Work of encoder processes before the pipeline runs, while this process imports Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from recordmill.job.staging import Listing
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.transforms.model.data_type import Artifact, DataType
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.early_frames import early_frames
from recordmill.transforms.staged.early_reads import early_reads
from recordmill.transforms.staged.row_reader import RowReader


@contextlib.contextmanager
def early_work(
    config: CommonConfig,
    data_type: DataType,
    run: RunSpec,
    listing: Listing,
    reader: RowReader | None,
    *,
    artifacts: Mapping[str, Artifact],
) -> Iterator[None]:
    """Begin to read the rows of a listing, or to encode some of its records.

    reader: reads the rows; None if the listing holds them. artifacts: files for the encoder.
    """
    with contextlib.ExitStack() as begun:
        if config.runner == "direct":
            begun.enter_context(early_reads(reader, listing.parts, config.worker_limits))
            if reader is None and _ranks_follow(config, data_type):
                begun.enter_context(early_frames(run, listing, artifacts))
        yield


def _ranks_follow(config: CommonConfig, data_type: DataType) -> bool:
    """Return whether the splits and ranks of most records follow from the listing alone.

    If not, records would be encoded in vain.
    """
    later = (
        config.dry_run or config.infer_schema is not None,
        config.stratify or config.label_bins is not None or config.balance == "undersample",
        config.limit is not None or config.limit_per_class is not None,
        config.needs_content or data_type.analysis is not None or data_type.windows is not None,
    )
    return not any(later)
