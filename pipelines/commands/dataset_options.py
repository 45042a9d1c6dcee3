"""Options of the commands on a finished dataset: which one, and which one to compare it with."""

from __future__ import annotations

import dataclasses

from recordmill.options.declaration import Group, option

DATASET = Group(10, "Dataset")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """The option of every command on a finished dataset."""

    dataset: str = option(
        group=DATASET, metavar="FOLDER", help="Folder of the dataset: a path, or s3://, gs://."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedDatasetConfig(DatasetConfig):
    """Options of commands that compare a dataset with another one."""

    compare_with: str | None = option(
        None,
        group=DATASET,
        metavar="FOLDER",
        help="Also show the drift from another dataset; both datasets need statistics.",
    )
