"""The command `recordmill export-index`: the index of a dataset in the format of another reader.

It raises ConfigError for wrong usage and RunError if the dataset cannot be read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, DamageError, RunError
from recordmill.format.file_names import index_name
from recordmill.format.manifest import load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.shard_index import read_index
from recordmill.notes import count_of
from recordmill.options.declaration import Group, option
from recordmill.pipelines.commands.dataset_options import DatasetConfig
from recordmill.pipelines.commands.new_folder import new_folder
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.storage.files import Location

_INDEX = Group(20, "Index")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportIndexConfig(DatasetConfig):
    """Options of `recordmill export-index`."""

    format: Literal["dali"] = option(
        "dali",
        group=_INDEX,
        help="Reader of the index: dali writes a file SHARD.idx for each shard, with a line OFFSET"
        " SIZE per record, as DALI's tfrecord2idx does.",
    )
    output: str = option(group=_INDEX, metavar="FOLDER", help="New local folder for the files.")


def export_index_main(argv: Sequence[str]) -> int:
    """Exports the index of a dataset for readers of TFRecord files that need one of their own.

    Example:
      recordmill export-index --dataset out --format dali --output out-idx
    """
    config = parse_command(ExportIndexConfig, argv, export_index_main)
    dataset = Location.parse(config.dataset)
    shards = 0
    try:
        with expect_unchanged(dataset), new_folder(config.output) as folder:
            manifest = load(dataset)
            if manifest.compression != "none":
                raise ConfigError(
                    "DALI does not read gzip, and records of a gzip shard have no offsets in the"
                    " file: write the dataset without --compression"
                )
            for name, split in manifest.splits.items():
                for number, shard in enumerate(split.shards):
                    index = read_index(
                        dataset / index_name(name, number, len(split.shards)),
                        columns=["offset", "length"],
                        records=shard.records,
                        frames=shard.bytes,
                    )
                    (folder / f"{shard.file}.idx").write_text(dali_index(index))
                    shards += 1
    except DamageError as error:
        raise RunError(f"no index was exported: {error}") from error
    print(f"the index of {count_of(shards, 'shard')} was written to {config.output}")
    return 0


def dali_index(index: pa.Table) -> str:
    """Return a line `OFFSET SIZE` for each record, in bytes of its whole frame.

    index: the columns `offset` and `length` of a shard.
    """
    numbers = (index[name].cast(pa.string()) for name in ("offset", "length"))
    lines = pc.binary_join_element_wise(*numbers, " ")
    return "".join(f"{line}\n" for line in lines.to_pylist())
