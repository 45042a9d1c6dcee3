"""Builds a balanced, shuffled, sharded TFRecord dataset from .npy, .npz and HDF5 files.

    recordmill arrays --input 'volumes/*.npy' --output out/ --chunk 16

The input is a folder of `class/...` or `split/class/...`, a glob pattern, a single file, or a
listing: a CSV, JSONL or Parquet file that names the array files. It may also be an archive, a table
that holds the files, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import ClassVar, Literal

from recordmill.format.ledger import INPUT
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.jobs.duplicate_rules import same_content
from recordmill.pipelines.options.common.paths import MEANING
from recordmill.pipelines.options.inputs.file_inputs import check_record_bytes, files_of
from recordmill.pipelines.options.inputs.rows import FilesConfig
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.arrays import ArrayEncoder
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.arrays.array_headers import ArrayProbe
from recordmill.transforms.sources.arrays.array_splitter import NOT_ARRAYS, ArraySplitter
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.splitters.split_files import split_files

ARRAYS = Group(30, "Arrays", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraysConfig(FilesConfig):
    """The options of `recordmill arrays`."""

    HEADING: ClassVar[Group] = ARRAYS

    headers: GroupValues[ArrayProbe] = option_group(
        ArrayProbe, group=MEANING, max_array_bytes={"group": ARRAYS, "after": "nan"}
    )
    per_item: bool = option(
        False,
        help="Make a record of every item along the first axis.",
    )
    chunk: int | None = option(
        None,
        metavar="N",
        help="Cut arrays into records of N steps along --chunk-axis; all chunks of a file go to the"
        " same split.",
    )
    chunk_axis: int = option(0, help="Axis of --chunk; -1 is the last axis.")
    chunk_stride: int | None = option(
        None,
        metavar="N",
        help="Steps from the start of one chunk to the start of the next. Default: --chunk.",
    )
    chunk_rest: Literal["keep", "drop"] = option(
        "keep",
        help="Keep or drop a last chunk that is shorter than the others.",
    )
    arrays: GroupValues[ArrayOptions] = option_group(ArrayOptions, group=ARRAYS)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arrays.make()
        self.array_cut()
        check_record_bytes("--max-array-bytes", self.headers["max_array_bytes"])

    def array_cut(self) -> ArraySlicing:
        """Return how arrays are cut into records. Raises ConfigError."""
        return ArraySlicing.of(
            per_item=self.per_item,
            chunk=self.chunk,
            axis=self.chunk_axis,
            stride=self.chunk_stride,
            rest=self.chunk_rest,
        )


def data_type(config: ArraysConfig) -> DataType:
    """Return the source and encoder of arrays."""
    # With these options the classes are not known yet when the files are listed.
    headers = config.headers
    labelled_later = any(headers[name] for name in ("label_array", "label_input"))
    files = files_of(
        config,
        leave_out=NOT_ARRAYS,
        unlabelled="keep" if labelled_later else config.unlabelled,
        labelled=not labelled_later,
        raw="arrays",
    )
    options = config.arrays.make()
    encoder = ArrayEncoder(
        options=options,
        cut=config.array_cut(),
        unlabelled=config.unlabelled == "keep",
    )
    return DataType(
        name="arrays",
        source=split_files(
            files.source,
            ArraySplitter(
                probe=headers.make(
                    cut=config.array_cut(),
                    label_type=config.label_type,
                    unlabelled=config.unlabelled,
                ),
                dtype=options.dtype,
                cast=options.cast,
            ),
            worker_limits=config.worker_limits,
        ),
        encoder=encoder,
        duplicates=same_content(config),
        content=encoder,
        unit=INPUT if config.chunk is None else "chunk",
        shape=files.shape,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["arrays", *sys.argv[1:]])
