"""Choice of the source of texts for --input: rows of tables, or text files in folders."""

from __future__ import annotations

from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.config import COLUMNS
from recordmill.pipelines.options.inputs.file_inputs import path_labels
from recordmill.pipelines.options.inputs.rows import RowsConfig
from recordmill.pipelines.options.inputs.tfrecord_inputs import columns_of
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.model.source import RowSource
from recordmill.transforms.sources.media.input_shape import shape_of_texts
from recordmill.transforms.sources.rows.values.text_folders import Documents, TextFolder
from recordmill.transforms.sources.rows.values.text_rows import TextRows


def texts_of(
    config: RowsConfig,
    *,
    documents: Documents,
    text_column: str | None,
    options: TextOptions,
) -> RowSource:
    """Return the source of texts: `TextRows` for files of rows, `TextFolder` for text files.

    Raises:
      ConfigError: an option is given that does not apply to the input, or inputs are of both kinds.
    """
    inputs, rows = config.inputs, config.rows.make()
    columns = {name: getattr(config, name) for name in COLUMNS}
    columns |= {"text_column": text_column, "text_columns": options.text_columns}
    if options.template is not None:
        columns |= {"chat_column": options.chat_column, "chat_tokens": options.template.tokens}
    shape = shape_of_texts(inputs, rows, by_line=documents == "line")
    rules.check(config, shape=shape.payload, where=inputs)
    if shape.payload == "values":
        columns |= columns_of(config, kind="text")
        columns |= {"worker_limits": config.worker_limits, "label_type": config.label_type}
        return TextRows(input=inputs, format=rows, unlabelled=config.unlabelled, **columns)
    return TextFolder(
        input=inputs,
        documents=documents,
        encoding=rows.encoding,
        unlabelled=config.unlabelled,
        max_row_bytes=rows.max_row_bytes,
        **path_labels(config),
    )
