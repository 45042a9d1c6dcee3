"""Choice of the source for tables that hold files: Parquet, Arrow, JSON lines with bytes."""

from __future__ import annotations

from collections.abc import Collection

from recordmill.pipelines.options import rules
from recordmill.pipelines.options.rows import FilesConfig
from recordmill.transforms.sources.files.number_labels import LabelType
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.media.media_tables import find_bytes_column

_SAMPLED_FILES = 10_000


def media_rows(
    config: FilesConfig,
    *,
    leave_out: Collection[str],
    unlabelled: Unlabelled,
    label_type: LabelType | None,
) -> MediaRows | None:
    """Return the source for tables that hold files; None if --input is something else.

    leave_out, unlabelled: as for `files_of`. label_type: reading of the label column.

    Raises:
      ConfigError: some inputs are such tables, and others are not; or an option does not apply.
    """
    column = config.bytes_column
    if column is None:
        if config.path_column is not None:
            return None
        column = find_bytes_column(
            config.inputs,
            encoding=config.rows["encoding"],
            dropped=config.drop_columns,
            leave_out=leave_out,
        )
        if column is None:
            return None
    rules.check(config, shape="held", where=config.inputs)
    return MediaRows(
        input=config.inputs,
        format=config.rows.make(),
        bytes_column=column,
        label_column=config.label_column,
        split_column=config.split_column,
        group_column=config.group_column,
        key_column=config.key_column,
        drop_columns=config.drop_columns,
        label_type=label_type,
        unlabelled=unlabelled,
        where=config.where,
        weight_column=config.weight_column,
        label_separator=config.label_separator,
        input_root=config.input_root,
        confine=config.confine,
        stores=config.allow_store,
        worker_limits=config.worker_limits,
    )
