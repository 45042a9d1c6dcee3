"""A script whose pipeline makes a dataset of each of several data types.

Arguments: a folder of inputs, the folder of the outputs, and options of `recordmill.run` as JSON.
"""

import json
import sys

import apache_beam as beam

import recordmill
from recordmill.transforms import (
    AssignSplits,
    EncodeExamples,
    ImageOptions,
    ReadImages,
    ReadSeries,
    ReadTable,
    ReadText,
    Rebalance,
    TableEncoder,
    TableOptions,
    TokenizeText,
    WriteToTFRecord,
)

data, output, options = sys.argv[1:]
zscores = TableEncoder(options=TableOptions(zscore=("height",), impute=(("age", "mean"),)))
small = ImageOptions(size=(16, 16))

STEPS = {
    "text": [ReadText(f"{data}/sms.tsv"), TokenizeText("words"), Rebalance("oversample")],
    "table": [ReadTable(f"{data}/people.csv", label_column="team"), EncodeExamples(zscores)],
    "series": [ReadSeries(f"{data}/hours.csv", time_column="time", window=12, split_by="time")],
    "images": [ReadImages(f"{data}/images.parquet", options=small), Rebalance("undersample")],
}


def build(pipeline: beam.Pipeline) -> None:
    for name, (read, *steps) in STEPS.items():
        records = pipeline | f"Read_{name}" >> read
        for number, step in enumerate([AssignSplits(seed=3), *steps]):
            records |= f"Step_{name}_{number}" >> step
        records | f"Write_{name}" >> WriteToTFRecord(f"{output}/{name}")


recordmill.run(build, **json.loads(options))
