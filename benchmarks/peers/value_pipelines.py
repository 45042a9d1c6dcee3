"""Records in memory to a dataset: with our WriteToTFRecord, or with Beam's own.

    python -m benchmarks.peers.value_pipelines images|table|dicts ours|beam SOURCE OUTPUT

Both pipelines have the same steps up to the writer.
"""

import sys
from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv

import recordmill
from benchmarks.rows import KEY, LABEL, NUMBERS
from recordmill.transforms import (
    AssignSplits,
    BatchRecords,
    DecodeAndResizeImages,
    ImageOptions,
    ReadImages,
    SerializeExamples,
    WriteToTFRecord,
)

_SIDE = 224  # pixels
_SCHEMA = pa.schema(
    [(KEY, pa.string()), *((name, pa.float32()) for name in NUMBERS), (LABEL, pa.string())]
)
_SPLITS = {"train": 0.8, "validation": 0.1, "test": 0.1}


def read_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV in batches, with the key and the class in their system columns."""
    options = pyarrow.csv.ConvertOptions(column_types=_SCHEMA)
    names = ["__key__", *NUMBERS, "__label__"]
    with pyarrow.csv.open_csv(path, convert_options=options) as reader:
        for rows in reader:
            yield rows.rename_columns(names)


def parse(line: str) -> dict[str, str | float]:
    """Return the row of a line."""
    key, *values, label = line.split(",")
    return {KEY: key, **dict(zip(NUMBERS, map(float, values), strict=True)), LABEL: label}


def main(kind: str, writer: str, source: str, output: str) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        if kind == "images":
            images = (
                pipeline
                | ReadImages(source)
                | DecodeAndResizeImages(ImageOptions(size=(_SIDE, _SIDE)))
            )
            # Our writer numbers classes and knows the rejects; Beam's takes the columns alone.
            values = images if writer == "ours" else images.batches
        elif kind == "table":
            values = pipeline | beam.Create([source]) | beam.FlatMap(read_batches)
        else:
            lines = pipeline | beam.io.ReadFromText(source, skip_header_lines=1)
            values = (
                lines
                | beam.Map(parse)
                | BatchRecords(key_column=KEY, label_column=LABEL, schema=_SCHEMA)
            )
        if writer == "ours":
            values | AssignSplits(_SPLITS, seed=7) | WriteToTFRecord(output)
        else:
            values | SerializeExamples() | beam.io.WriteToTFRecord(f"{output}/all.tfrecord")

    recordmill.run(build, progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
