"""Arrays to a balanced, shuffled, verified TFRecord dataset.

    python -m recordmill arrays --input='volumes/*.npy' --output=out/ --balance=oversample

The input is a folder of `class/...` or `split/class/...`, a pattern, a single file, or a CSV, JSONL
or Parquet listing that names files: .npy, .npz or HDF5. `recordmill arrays` is the same command.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.manifest import INPUT
from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import MEANING
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.file_inputs import FilesConfig, check_record_bytes, files_of
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.arrays import ArrayEncoder
from recordmill.transforms.model.casts import DTYPES
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.arrays.array_headers import ArrayLook
from recordmill.transforms.sources.arrays.arrays import Arrays
from recordmill.transforms.sources.arrays.chunking import ArrayCut
from recordmill.transforms.sources.files.folders import NOT_PICTURES
from recordmill.transforms.sources.rows.text_trees import NOT_TEXTS

ARRAYS = Group(30, "Arrays")
NOT_ARRAYS = tuple(
    sorted({*NOT_PICTURES, *NOT_TEXTS} - {"npy", "npz", "h5", "hdf5", "mat", "bin", "bak"})
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraysConfig(FilesConfig):
    """The options of `recordmill arrays`."""

    array: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="NAME",
        help="Which array of an .npz or HDF5 file. Default: the only one.",
    )
    label_array: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="NAME",
        help="Which array of each file holds the classes: one, or with --per-item one per item.",
    )
    label_input: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="FILE",
        help="A file with the classes of all items, where the input is one file.",
    )
    label_pattern: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="REGEX",
        help="Finds the class in the path of a file, as the first group of a regular expression.",
    )
    per_item: bool = option(
        False,
        group=ARRAYS,
        shapes_bytes=True,
        help="Files are stacks: every item along the first axis is a record.",
    )
    chunk: int | None = option(
        None,
        group=ARRAYS,
        shapes_bytes=True,
        metavar="N",
        help="Cut arrays into records of N along --chunk-axis; those of a file stay in one split.",
    )
    chunk_axis: int = option(
        0, group=ARRAYS, shapes_bytes=True, help="The axis that is cut; -1 is the last."
    )
    chunk_stride: int | None = option(
        None,
        group=ARRAYS,
        shapes_bytes=True,
        metavar="N",
        help="From the beginning of a chunk to that of the next. Default: --chunk, side by side.",
    )
    chunk_rest: Literal["keep", "drop"] = option(
        "keep",
        group=ARRAYS,
        shapes_bytes=True,
        help="What becomes of a last chunk that is shorter than the others.",
    )
    array_format: Literal["raw", "values"] = option(
        "raw",
        group=ARRAYS,
        shapes_bytes=True,
        help="raw is the bytes of the array, for tf.io.decode_raw; values is a list of its numbers,"
        " int64 or float32.",
    )
    dtype: str | None = option(
        None,
        group=ARRAYS,
        shapes_bytes=True,
        parse=values.one_of(*DTYPES),
        metavar="DTYPE",
        help="Cast arrays to this. Default: as they are; most decide, others are rejects.",
    )
    cast: Literal["safe", "same-kind"] = option(
        "safe",
        group=ARRAYS,
        shapes_bytes=True,
        help="safe casts where every number stays what it is; same-kind also where numbers are"
        " rounded. What is too large is a reject either way.",
    )
    nan: Literal["keep", "reject", "zero"] = option(
        "keep", group=ARRAYS, shapes_bytes=True, help="What becomes of NaN."
    )
    max_array_bytes: int = option(
        1 << 28,
        group=ARRAYS,
        shapes_bytes=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject larger records, by the header, before memory is spent on them.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.array_options()
        self.array_cut()
        check_record_bytes("--max-array-bytes", self.max_array_bytes)
        if self.cast != "safe" and self.dtype is None:
            raise ConfigError("--cast: says how --dtype casts; name what to cast to")
        if self.label_input is not None and not self.per_item:
            raise ConfigError(
                "--label-input has a class per item: add --per-item, which makes items records"
            )
        given = [
            f"--{name.replace('_', '-')}"
            for name in ("label_array", "label_pattern", "label_column")
            if getattr(self, name) is not None
        ]
        if self.label_input is not None and "--label-pattern" in given:
            given.append("--label-input")
        if len(given) > 1:
            raise ConfigError(f"expected one place for classes, got {' and '.join(given)}")

    def array_options(self) -> ArrayOptions:
        """How arrays shall come out."""
        names = [field.name for field in dataclasses.fields(ArrayOptions)]
        return ArrayOptions(**{name: getattr(self, name) for name in names})

    def array_cut(self) -> ArrayCut:
        """What a record is."""
        if self.chunk is None:
            for name in ("chunk_axis", "chunk_stride", "chunk_rest"):
                if getattr(self, name) != getattr(ArraysConfig, name, None):
                    raise ConfigError(f"--{name.replace('_', '-')}: says nothing without --chunk")
            return ArrayCut(unit="item" if self.per_item else "array")
        if self.per_item:
            raise ConfigError("expected one of --per-item and --chunk; --chunk 1 keeps the axis")
        return ArrayCut(
            unit="chunk",
            size=self.chunk,
            axis=self.chunk_axis,
            stride=self.chunk if self.chunk_stride is None else self.chunk_stride,
            rest=self.chunk_rest,
        )


def kind(config: ArraysConfig) -> DataType:
    """What arrays put on the road."""
    elsewhere = config.label_array or config.label_input or config.label_pattern
    files = files_of(
        config, leave_out=NOT_ARRAYS, unlabelled="keep" if elsewhere else config.unlabelled
    )
    return DataType(
        name="arrays",
        source=Arrays(
            files=files,
            look=ArrayLook(
                cut=config.array_cut(),
                array=config.array,
                label_array=config.label_array,
                label_input=config.label_input,
                label_pattern=config.label_pattern,
                unlabelled=config.unlabelled,
                max_bytes=config.max_array_bytes,
            ),
            dtype=config.dtype,
            cast=config.cast,
        ),
        encoder=ArrayEncoder(
            options=config.array_options(),
            cut=config.array_cut(),
            unlabelled=config.unlabelled == "keep",
        ),
        unit=INPUT if config.chunk is None else "chunk",
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import main

    sys.exit(main(["arrays", *sys.argv[1:]]))
