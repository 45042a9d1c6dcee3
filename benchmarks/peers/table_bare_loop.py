"""One process, nothing around the fastest parts that there are elsewhere: the floor.

pyarrow reads, NumPy scales, tfx_bsl's encoder in C++ makes Examples, which are framed with their
checksums. All rows stay in memory and in their order. No splits, shuffle, check of values, resume,
index or sums of files.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from tfx_bsl.coders.example_coder import (  # type: ignore[import-untyped]
    RecordBatchToExamplesEncoder,
)

from benchmarks.rows import LABEL, LABELS, NUMBERS
from recordmill.tfrecord.checksums import mask_crcs
from recordmill.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, frame_headers

_ROWS = 1 << 14  # Examples encoded at once


def scale(column: pa.ChunkedArray) -> pa.Array:
    """float32[n] of mean 0 and deviation 1."""
    values = column.to_numpy()
    return pa.array(((values - values.mean()) / values.std()).astype(np.float32))


def as_lists(column: pa.Array) -> pa.ListArray:
    """As the encoder takes values: one to a list."""
    return pa.ListArray.from_arrays(np.arange(len(column) + 1, dtype=np.int32), column)


def frame_all(payloads: Sequence[bytes]) -> bytes:
    """Frames one after another."""
    heads = frame_headers(np.fromiter(map(len, payloads), np.int64, len(payloads))).tobytes()
    crcs = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
    tails = mask_crcs(crcs).astype("<u4").tobytes()
    pieces = [b""] * (3 * len(payloads))
    pieces[::3] = [heads[i : i + HEADER_BYTES] for i in range(0, len(heads), HEADER_BYTES)]
    pieces[1::3] = payloads
    pieces[2::3] = [tails[i : i + FOOTER_BYTES] for i in range(0, len(tails), FOOTER_BYTES)]
    return b"".join(pieces)


def main(source: str, output: str) -> None:
    wanted = csv.ConvertOptions(include_columns=[*NUMBERS, LABEL])
    rows = csv.read_csv(source, convert_options=wanted)
    columns = {name: scale(rows[name]) for name in NUMBERS}
    columns["label"] = pc.equal(rows[LABEL], LABELS[1]).cast(pa.int64()).combine_chunks()
    table = pa.RecordBatch.from_pydict(columns)
    encoder = RecordBatchToExamplesEncoder()
    pathlib.Path(output).mkdir()
    with open(f"{output}/all.tfrecord", "wb") as sink:
        for start in range(0, len(table), _ROWS):
            part = table.slice(start, _ROWS)
            lists = [as_lists(column) for column in part.columns]
            batch = pa.RecordBatch.from_arrays(lists, names=part.schema.names)
            sink.write(frame_all(encoder.encode(batch)))


if __name__ == "__main__":
    main(*sys.argv[1:])
