"""Our encoder of Examples and tfx_bsl's, by themselves, on the same record batches in alternation.

Ours frames what it makes, with checksums; theirs returns an object of Python's per Example. Every
column is of lists with one value, which is what theirs takes; ours takes plain columns, too. For
both memory is allocated as in our encoder processes.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from tfx_bsl.coders.example_coder import (  # type: ignore[import-untyped]
    RecordBatchToExamplesEncoder,
)

from benchmarks.measure import bar, two_cores
from benchmarks.peers.table_bare_loop import as_lists
from benchmarks.rows import NUMBERS
from recordmill.processes.environment import VARIABLES
from recordmill.tfrecord.example import encode_examples, encode_frames

_ROWS = 1 << 14  # of a record batch
_AT_LEAST = 3  # ours over theirs, rows a second
_WORDS = ("Private", "Self-emp-not-inc", "Local-gov", "Husband", "Not-in-family", "Bachelors")


def seven_columns(generator: np.random.Generator) -> pa.RecordBatch:
    """As `benchmarks.tables` writes them: scaled numbers, and a label."""
    columns = {name: floats(generator) for name in NUMBERS}
    return pa.RecordBatch.from_pydict(columns | {"label": integers(generator, 2)})


def fourteen_columns(generator: np.random.Generator) -> pa.RecordBatch:
    """Five of numbers, five of integers of one byte to four, four of words."""
    columns = {f"number-{i}": floats(generator) for i in range(5)}
    most = (2, 100, 10_000, 1_000_000, 100_000_000)
    columns |= {f"integer-{i}": integers(generator, top) for i, top in enumerate(most)}
    words = pa.array(_WORDS, pa.binary())  # theirs takes no strings
    columns |= {f"word-{i}": words.take(integers(generator, len(words))) for i in range(4)}
    return pa.RecordBatch.from_pydict(columns)


def floats(generator: np.random.Generator) -> pa.Array:
    return pa.array(generator.standard_normal(_ROWS).astype(np.float32))


def integers(generator: np.random.Generator, end: int) -> pa.Array:
    return pa.array(generator.integers(end, size=_ROWS))


def listed(plain: pa.RecordBatch) -> pa.RecordBatch:
    """The same, a list to a value."""
    lists = [as_lists(column) for column in plain.columns]
    return pa.RecordBatch.from_arrays(lists, names=plain.schema.names)


def compare(name: str, plain: Sequence[pa.RecordBatch], runs: int) -> str:
    """Lines: rows a second of each, the bar."""
    lists = [listed(batch) for batch in plain]
    theirs = RecordBatchToExamplesEncoder()
    for batch in lists:
        _agree(batch, theirs.encode(batch))
    contenders: dict[str, tuple[Callable[[pa.RecordBatch], object], Sequence[pa.RecordBatch]]] = {
        "recordmill": (encode_frames, lists),
        "recordmill, without frames": (encode_examples, lists),
        "recordmill, plain columns": (encode_frames, plain),
        "tfx_bsl": (theirs.encode, lists),
    }
    rates: dict[str, list[float]] = {contender: [] for contender in contenders}
    rows = sum(map(len, plain))
    for _ in range(runs + 1):
        for contender, (encode, batches) in contenders.items():
            began = time.thread_time()
            for batch in batches:
                encode(batch)
            rates[contender].append(rows / (time.thread_time() - began))
    lines = [f"{name}, {rows:,} rows, {runs} runs of each in alternation", ""]
    lines += ["| | rows/s of a core, median (least-most) |", "|---|--:|"]
    medians = {}
    for contender, (_, *timed) in rates.items():  # the first is not
        medians[contender] = statistics.median(timed)
        spread = f"{min(timed):,.0f}-{max(timed):,.0f}"
        lines.append(f"| {contender} | {medians[contender]:,.0f} ({spread}) |")
    got = medians["recordmill"] / medians["tfx_bsl"]
    return "\n".join([*lines, "", bar("recordmill / tfx_bsl", got, at_least=_AT_LEAST)])


def _agree(batch: pa.RecordBatch, theirs: Sequence[bytes]) -> None:
    """Features may come in another order; all else has to be the same."""
    ours = encode_examples(batch)
    if sorted(ours.data) != sorted(b"".join(theirs)):
        sys.exit("the two encoders disagree")


def main(rows: str, runs: str) -> None:
    if not os.environ.items() >= VARIABLES.items():  # it is looked at as a process starts
        os.environ |= VARIABLES
        os.execv(
            sys.executable, [sys.executable, "-m", "benchmarks.peers.table_encoders", *sys.argv[1:]]
        )
    two_cores()
    generator = np.random.default_rng(0)
    count = -(-int(rows) // _ROWS)
    for name, make in (("seven columns", seven_columns), ("fourteen columns", fourteen_columns)):
        print(compare(name, [make(generator) for _ in range(count)], int(runs)), end="\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
