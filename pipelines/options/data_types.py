"""The data types, whose modules are imported only when one of them is used."""

from __future__ import annotations

from typing import NamedTuple


class DataTypeCommand(NamedTuple):
    """A command that builds a dataset.

    module, config: of the data type, and the class of its options.
    content: the data that the hash of a record covers; datasets that cover other data have no equal
      records. None if records have no content of their own.
    help: a line for the overview of commands.
    """

    module: str
    config: str
    content: str | None
    help: str


# By the name of the command.
DATA_TYPES = {
    "images": DataTypeCommand(
        "recordmill.pipelines.images",
        "ImagesConfig",
        "file",
        "build a dataset of images, with or without boxes and captions",
    ),
    "text": DataTypeCommand(
        "recordmill.pipelines.text",
        "TextConfig",
        "columns",
        "build a dataset of text, tokens, TF-IDF or embeddings",
    ),
    "table": DataTypeCommand(
        "recordmill.pipelines.table",
        "TableConfig",
        "columns",
        "build a dataset of the columns of CSV, JSONL, Parquet, ...",
    ),
    "sensor": DataTypeCommand(
        "recordmill.pipelines.sensor",
        "SensorConfig",
        None,
        "build a dataset of windows of time series",
    ),
    "arrays": DataTypeCommand(
        "recordmill.pipelines.arrays",
        "ArraysConfig",
        "numbers",
        "build a dataset of arrays from .npy, .npz and HDF5 files",
    ),
    "video": DataTypeCommand(
        "recordmill.pipelines.video",
        "VideoConfig",
        "frames",
        "build a dataset of video clips",
    ),
    "audio": DataTypeCommand(
        "recordmill.pipelines.audio",
        "AudioConfig",
        "samples",
        "build a dataset of waveforms, spectrograms or encoded audio",
    ),
}


def content_of(command: str) -> str | None:
    """Return the data that the hash of a record covers; None if it is not known."""
    found = DATA_TYPES.get(command)
    return None if found is None else found.content
