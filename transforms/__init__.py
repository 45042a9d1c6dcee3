"""The steps of Recordmill as Beam PTransforms, for custom pipelines.

A whole pipeline, from a folder of images to a published dataset::

    options = ImageOptions(size=(224, 224))
    run = RunSpec(
        output="out/",
        encoder=ImageEncoder(options=options),
        splits={"train": 0.8, "test": 0.2},
        seed=7,
    )
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | Read.from_source(FileTree(input="photos/"), run)
            | Check(check=HeaderCheck(options=options))
            | AssignSplits()
            | Analyze()
            | Rebalance("oversample")
            | Reshuffle()
            | WriteToTFRecord()
            | Publish()
        )

The commands are built of the same transforms (`pipelines/road.py`). Batches that a pipeline makes
itself enter with `StageBatches` in place of `Read`; `ReadBatches` leads back to batches in memory.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordmill.transforms.analyze import Analyze
    from recordmill.transforms.assign_splits import AssignSplits
    from recordmill.transforms.check import Check
    from recordmill.transforms.encode import EncodeExamples, SerializeExamples
    from recordmill.transforms.encoders.image_headers import DepthAnalysis, HeaderCheck
    from recordmill.transforms.encoders.images import ImageEncoder
    from recordmill.transforms.images import DecodeAndResizeImages
    from recordmill.transforms.imaging.image_options import ImageOptions
    from recordmill.transforms.model.run_spec import RunSpec
    from recordmill.transforms.publish import Publish
    from recordmill.transforms.read import Read, StageBatches
    from recordmill.transforms.read_batches import ReadBatches
    from recordmill.transforms.read_files import ReadArrays, ReadAudio, ReadImages, ReadVideo
    from recordmill.transforms.read_rows import ReadSeries, ReadTable, ReadText
    from recordmill.transforms.rebalance import Rebalance
    from recordmill.transforms.reshuffle import Reshuffle
    from recordmill.transforms.sources.files.folders import FileTree
    from recordmill.transforms.sources.rows.file_list import FileList
    from recordmill.transforms.staged.batch_records import BatchRecords
    from recordmill.transforms.tokenize_text import TokenizeText
    from recordmill.transforms.write import WriteToTFRecord

_MODULES = {
    "ArrayOptions": "encoders.array_options",
    "ArrayEncoder": "encoders.arrays",
    "AudioOptions": "audio.audio_options",
    "MelOptions": "audio.audio_options",
    "TableEncoder": "encoders.tables",
    "TableOptions": "encoders.table_options",
    "TextEncoder": "encoders.text.text",
    "TextOptions": "encoders.tokenization.text_options",
    "RowFormat": "sources.row_formats.row_format",
    "Analyze": "analyze",
    "AssignSplits": "assign_splits",
    "BatchRecords": "staged.batch_records",
    "Check": "check",
    "DecodeAndResizeImages": "images",
    "DepthAnalysis": "encoders.image_headers",
    "EncodeExamples": "encode",
    "FileList": "sources.rows.file_list",
    "FileTree": "sources.files.folders",
    "HeaderCheck": "encoders.image_headers",
    "ImageEncoder": "encoders.images",
    "ImageOptions": "imaging.image_options",
    "Publish": "publish",
    "Read": "read",
    "ReadBatches": "read_batches",
    "ReadArrays": "read_files",
    "ReadAudio": "read_files",
    "ReadImages": "read_files",
    "ReadSeries": "read_rows",
    "ReadTable": "read_rows",
    "ReadText": "read_rows",
    "ReadVideo": "read_files",
    "TokenizeText": "tokenize_text",
    "Rebalance": "rebalance",
    "Reshuffle": "reshuffle",
    "RunSpec": "model.run_spec",
    "SerializeExamples": "encode",
    "StageBatches": "read",
    "WriteToTFRecord": "write",
}

__all__ = [
    "Analyze",
    "ArrayEncoder",
    "ArrayOptions",
    "AssignSplits",
    "AudioOptions",
    "BatchRecords",
    "Check",
    "DecodeAndResizeImages",
    "DepthAnalysis",
    "EncodeExamples",
    "FileList",
    "FileTree",
    "HeaderCheck",
    "ImageEncoder",
    "ImageOptions",
    "MelOptions",
    "Publish",
    "Read",
    "ReadArrays",
    "ReadAudio",
    "ReadBatches",
    "ReadImages",
    "ReadSeries",
    "ReadTable",
    "ReadText",
    "ReadVideo",
    "Rebalance",
    "Reshuffle",
    "RowFormat",
    "RunSpec",
    "SerializeExamples",
    "StageBatches",
    "TableEncoder",
    "TableOptions",
    "TextEncoder",
    "TextOptions",
    "TokenizeText",
    "WriteToTFRecord",
]


def __getattr__(name: str) -> Any:  # encoder processes import what is below here, without Beam
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
