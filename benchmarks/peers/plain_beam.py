"""The pipeline that Beam's own parts make: Create, Reshuffle, Map, WriteToTFRecord.

On the same runner as ours and with the same decoder. As Beam comes it has one worker; more are
threads.
"""

import sys
from collections.abc import Mapping

import apache_beam as beam

from benchmarks.peers.work import list_keys, make_example, make_picture, number_labels
from recordmill.runners import direct


def encode(key: str, folder: str, numbers: Mapping[str, int]) -> bytes:
    return make_example(key, make_picture(folder, key), numbers)


def main(source: str, output: str, workers: str = "1") -> None:
    keys = list_keys(source)
    numbers = number_labels(keys)

    def build(pipeline: beam.Pipeline) -> None:
        (
            pipeline
            | "Files" >> beam.Create(keys)
            | "Spread" >> beam.Reshuffle()
            | "Encode" >> beam.Map(encode, folder=source, numbers=numbers)
            | "Write" >> beam.io.WriteToTFRecord(f"{output}/all.tfrecord")
        )

    direct.run(build, workers=int(workers))


if __name__ == "__main__":
    main(*sys.argv[1:])
