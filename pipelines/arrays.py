"""Builds a balanced, shuffled, sharded TFRecord dataset from .npy, .npz and HDF5 files.

    recordmill arrays --input 'volumes/*.npy' --output out/ --chunk 16

The input is a folder of `class/...` or `split/class/...`, a glob pattern, a single file, or a
listing: a CSV, JSONL or Parquet file that names the array files. It may also be an archive, a table
that holds the files, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.ledger import INPUT
from recordmill.options import values
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.duplicate_rules import same_content
from recordmill.pipelines.options.config import MEANING
from recordmill.pipelines.options.file_inputs import (
    FilesConfig,
    check_record_bytes,
    files_of,
)
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.arrays import ArrayEncoder
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.arrays.array_headers import ArrayProbe
from recordmill.transforms.sources.arrays.array_source import NOT_ARRAYS, ArraySource
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.arrays.table_arrays import TableArrays
from recordmill.transforms.sources.media.media_rows import MediaRows

ARRAYS = Group(30, "Arrays", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraysConfig(FilesConfig):
    """The options of `recordmill arrays`."""

    array: str | None = option(
        None,
        group=MEANING,
        metavar="NAME",
        help="Name of the array in an .npz or HDF5 file. Default: the only one.",
    )
    label_array: str | None = option(
        None,
        group=MEANING,
        metavar="NAME",
        help="Name of the array with the label of each file or, with --per-item, of each item.",
    )
    label_input: str | None = option(
        None,
        group=MEANING,
        metavar="FILE",
        help="If the input is a single file: another file with the labels of its items.",
    )
    per_item: bool = option(
        False,
        group=ARRAYS,
        help="Make a record of every item along the first axis.",
    )
    chunk: int | None = option(
        None,
        group=ARRAYS,
        metavar="N",
        help="Cut arrays into records of N steps along --chunk-axis; all chunks of a file go to the"
        " same split.",
    )
    chunk_axis: int = option(0, group=ARRAYS, help="Axis of --chunk; -1 is the last axis.")
    chunk_stride: int | None = option(
        None,
        group=ARRAYS,
        metavar="N",
        help="Steps from the start of one chunk to the start of the next. Default: --chunk.",
    )
    chunk_rest: Literal["keep", "drop"] = option(
        "keep",
        group=ARRAYS,
        help="Keep or drop a last chunk that is shorter than the others.",
    )
    arrays: GroupValues[ArrayOptions] = option_group(ArrayOptions, group=ARRAYS)
    max_array_bytes: int = option(
        1 << 28,
        group=ARRAYS,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject larger records, judged by the header before the data is read.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunk is not None:
            self._refuse_group_of_parts("the chunks of an array", "--dedup drop")
        options = self.arrays.make()
        self.array_cut()
        check_record_bytes("--max-array-bytes", self.max_array_bytes)
        if options.cast != "safe" and options.dtype is None:
            raise ConfigError("--cast: has no effect without --dtype, the dtype to cast to")
        if self.label_input is not None and not self.per_item:
            raise ConfigError(
                "--label-input holds a class per item: add --per-item, which makes a record of"
                " every item"
            )
        given = [
            f"--{name.replace('_', '-')}"
            for name in ("label_array", "label_column")
            if getattr(self, name) is not None
        ]
        if self.label_input is not None and not given:
            given.append("--label-input")
        if self.label_type == "none" and given:
            raise ConfigError(f"--label-type none: contradicts {given[0]}: leave one of them out")
        if len(given) > 1:
            raise ConfigError(
                f"expected one source of classes, got {' and '.join(given)}; leave one out"
            )

    def array_cut(self) -> ArraySlicing:
        """Return how arrays are cut into records. Raises ConfigError."""
        if self.chunk is None:
            for name in ("chunk_axis", "chunk_stride", "chunk_rest"):
                if getattr(self, name) != getattr(ArraysConfig, name, None):
                    raise ConfigError(f"--{name.replace('_', '-')}: has no effect without --chunk")
            return ArraySlicing(unit="item" if self.per_item else "array")
        if self.per_item:
            raise ConfigError(
                "expected one of --per-item and --chunk; --chunk 1 makes items that keep the axis"
            )
        return ArraySlicing(
            unit="chunk",
            size=self.chunk,
            axis=self.chunk_axis,
            stride=self.chunk if self.chunk_stride is None else self.chunk_stride,
            rest=self.chunk_rest,
        )


def data_type(config: ArraysConfig) -> DataType:
    """Return the source and encoder of arrays."""
    # With these options the classes are not known yet when the files are listed.
    labelled_later = bool(config.label_array or config.label_input)
    files = files_of(
        config,
        leave_out=NOT_ARRAYS,
        unlabelled="keep" if labelled_later else config.unlabelled,
        labelled=not labelled_later,
        raw="arrays",
    )
    if isinstance(files, MediaRows) and config.label_input is not None:
        raise ConfigError(
            f"--label-input holds the labels of one file, but --input {config.inputs} is tables"
            " whose rows hold files: put labels into each file (--label-array)"
        )
    config.refuse_near_duplicates("arrays")
    options = config.arrays.make()
    encoder = ArrayEncoder(
        options=options,
        cut=config.array_cut(),
        unlabelled=config.unlabelled == "keep",
    )
    kind: type[ArraySource] = TableArrays if isinstance(files, MediaRows) else ArraySource
    return DataType(
        name="arrays",
        source=kind(
            files=files,
            probe=ArrayProbe(
                cut=config.array_cut(),
                array=config.array,
                label_array=config.label_array,
                label_input=config.label_input,
                label_type=config.label_type,
                unlabelled=config.unlabelled,
                max_bytes=config.max_array_bytes,
            ),
            dtype=options.dtype,
            cast=options.cast,
            worker_limits=config.worker_limits,
        ),
        encoder=encoder,
        duplicates=same_content(config),
        content=encoder,
        unit=INPUT if config.chunk is None else "chunk",
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["arrays", *sys.argv[1:]])
