"""Choice of the source of texts for --input: rows of tables, text files in folders, listings."""

from __future__ import annotations

from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.config import COLUMNS
from recordmill.pipelines.options.inputs.file_inputs import path_labels
from recordmill.pipelines.options.inputs.rows import ListingConfig
from recordmill.pipelines.options.inputs.tfrecord_inputs import columns_of
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.model.source import RowSource
from recordmill.transforms.sources.media.input_shape import shape_of_texts
from recordmill.transforms.sources.rows.columns.row_options import named_columns
from recordmill.transforms.sources.rows.values.text_folders import Documents, TextFolder
from recordmill.transforms.sources.rows.values.text_rows import TextRows
from recordmill.transforms.sources.splitters.listed_documents import listed_documents


def texts_of(
    config: ListingConfig,
    *,
    documents: Documents,
    text_column: str | None,
    options: TextOptions,
) -> RowSource:
    """Return the source of texts in files of rows, in text files, or in listed text files.

    Raises:
      ConfigError: an option does not apply to the input, or inputs are of several kinds.
    """
    inputs, rows = config.inputs, config.rows.make()
    columns = {name: getattr(config, name) for name in COLUMNS}
    chat_column = None if options.template is None else options.chat_column
    shape = shape_of_texts(
        inputs,
        rows,
        by_line=documents == "line",
        by_path=(config.path_column, config.path_template, config.input_root) != (None,) * 3,
        of_texts=(text_column, options.text_columns, chat_column) != (None, (), None),
        others=named_columns(columns),
    )
    rules.check(config, shape=shape.payload, where=inputs)
    columns |= {"label_type": config.label_type, "unlabelled": config.unlabelled}
    if shape.payload == "named":
        return listed_documents(
            inputs,
            rows,
            worker_limits=config.worker_limits,
            path_column=config.path_column or shape.column,
            path_template=config.path_template,
            input_root=config.input_root,
            confine=config.confine,
            stores=config.allow_store,
            conflicts=config.conflicts,
            **columns,
        )
    if shape.payload == "values":
        columns |= {"text_column": text_column, "text_columns": options.text_columns}
        if options.template is not None:
            columns |= {"chat_column": chat_column, "chat_tokens": options.template.tokens}
        columns |= columns_of(config, kind="text")
        return TextRows(input=inputs, format=rows, worker_limits=config.worker_limits, **columns)
    return TextFolder(
        input=inputs,
        documents=documents,
        encoding=rows.encoding,
        unlabelled=config.unlabelled,
        max_row_bytes=rows.max_row_bytes,
        **path_labels(config),
    )
