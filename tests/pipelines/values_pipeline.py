"""A script whose pipeline makes a dataset of values: images, of which one cannot be decoded.

Arguments: a folder of images, the output, and options of `recordmill.run` as JSON.
"""

import json
import sys

import apache_beam as beam

import recordmill
from recordmill.transforms import (
    AssignSplits,
    DecodeAndResizeImages,
    ImageOptions,
    ReadImages,
    Rebalance,
    Reshuffle,
    WriteToTFRecord,
)

photos, output, *rest = sys.argv[1:]


def build(pipeline: beam.Pipeline) -> None:
    (
        pipeline
        | ReadImages(photos)
        | DecodeAndResizeImages(ImageOptions(size=(16, 16)))
        | AssignSplits({"train": 0.7, "test": 0.3}, seed=7)
        | Rebalance("oversample")
        | Reshuffle()
        | WriteToTFRecord(output, num_shards={"train": 2, "test": 1}, max_reject_fraction=0.5)
    )


recordmill.run(build, **json.loads(rest[0] if rest else "{}"))
