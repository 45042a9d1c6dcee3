"""The data types, whose modules are imported only when one of them is used."""

# Command: (module of the data type, its config class, help).
DATA_TYPES = {
    "images": (
        "recordmill.pipelines.images",
        "ImagesConfig",
        "build a dataset of images, with or without boxes and captions",
    ),
    "text": (
        "recordmill.pipelines.text",
        "TextConfig",
        "build a dataset of text, tokens, TF-IDF or embeddings",
    ),
    "table": (
        "recordmill.pipelines.table",
        "TableConfig",
        "build a dataset of the columns of CSV, JSONL, Parquet, ...",
    ),
    "sensor": (
        "recordmill.pipelines.sensor",
        "SensorConfig",
        "build a dataset of windows of time series",
    ),
    "arrays": (
        "recordmill.pipelines.arrays",
        "ArraysConfig",
        "build a dataset of arrays from .npy, .npz and HDF5 files",
    ),
    "video": (
        "recordmill.pipelines.video",
        "VideoConfig",
        "build a dataset of video clips",
    ),
}
