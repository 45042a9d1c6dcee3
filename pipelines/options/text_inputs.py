"""Choice of the source of texts for --input: rows of tables, or text files in folders."""

from __future__ import annotations

from recordmill.errors import ConfigError
from recordmill.pipelines.options import rules
from recordmill.pipelines.options.config import COLUMNS
from recordmill.pipelines.options.file_inputs import path_labels
from recordmill.pipelines.options.rows import RowsConfig
from recordmill.pipelines.options.tfrecord_inputs import columns_of
from recordmill.transforms.model.source import RowSource
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import find_roots
from recordmill.transforms.sources.rows.row_inputs import holds_rows
from recordmill.transforms.sources.rows.text_folders import Documents, TextFolder
from recordmill.transforms.sources.rows.text_rows import TextRows


def texts_of(
    config: RowsConfig,
    *,
    documents: Documents,
    text_column: str | None,
    text_columns: tuple[str, ...],
) -> RowSource:
    """Return the source of texts: `TextRows` for files of rows, `TextFolder` for text files.

    Raises:
      ConfigError: an option is given that does not apply to the input, or inputs are of both kinds.
    """
    inputs, rows = config.inputs, config.rows.make()
    columns = {name: getattr(config, name) for name in COLUMNS}
    columns |= {"text_column": text_column, "text_columns": text_columns}
    if rows.format != "auto" or _hold_rows(inputs):
        rules.check(config, shape="rows", where=inputs)
        columns |= columns_of(config, kind="text")
        columns |= {"worker_limits": config.worker_limits, "label_type": config.label_type}
        return TextRows(input=inputs, format=rows, unlabelled=config.unlabelled, **columns)
    rules.check(config, shape="texts", where=inputs)
    return TextFolder(
        input=inputs,
        documents=documents,
        encoding=rows.encoding,
        unlabelled=config.unlabelled,
        max_row_bytes=rows.max_row_bytes,
        **path_labels(config),
    )


def _hold_rows(inputs: Inputs) -> bool:
    """Return whether the inputs hold files of rows, not text files.

    Raises:
      ConfigError: some inputs hold files of rows, and others text files.
    """
    roots = find_roots(inputs, archives=True)
    kinds = [not root.archive and (root.file or holds_rows(root)) for root in roots]
    if len(set(kinds)) > 1:
        one, other = (roots[kinds.index(kind)].given.path for kind in (True, False))
        raise ConfigError(
            f"expected only files of rows or only text files, got files of rows in {one} and text"
            f" files in {other}: make two datasets"
        )
    return kinds[0]
