"""Two processes, half of the rows each, nothing around the calls of our tokenizer and encoder: the
floor.

No splits, shuffle, resume or checksums of files: two files in the order of the rows. The vocabulary
is of all rows. With the path of a tokenizer.json, ids are of that.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from benchmarks.documents import LENGTH, VOCABULARY
from benchmarks.peers.processes import FORK, PROCESSES, finish, shard, started
from recordmill.tfrecord.example import encode_frames
from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize

_ROWS = 1 << 14  # Examples encoded at once

Ragged = tuple[Ints, Ints]  # ids of rows one after another, and of how many each has


def find_words(batches: Sequence[pa.RecordBatch], others: Connection) -> Iterator[Ragged]:
    """Ids 2 and up for words of the vocabulary, 1 for the others."""
    found = [tokenize(batch["text"], "words") for batch in batches]
    counts: Counter[str] = Counter()
    for words in found:
        times = np.bincount(words.codes, minlength=len(words.distinct))
        counts.update(dict(zip(words.distinct.to_pylist(), times.tolist(), strict=True)))
    others.send(counts)
    vocabulary = pa.array(others.recv(), pa.string())
    for words in found:
        places = pc.index_in(words.distinct, value_set=vocabulary).fill_null(-1)
        yield (np.asarray(places).astype(np.int64) + 2)[words.codes], words.counts


def find_subwords(batches: Sequence[pa.RecordBatch], tokenizer: str) -> Iterator[Ragged]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes take the cores already
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(tokenizer)
    encoder.enable_truncation(LENGTH)
    for batch in batches:
        rows = [one.ids for one in encoder.encode_batch_fast(batch["text"].to_pylist())]
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        yield np.fromiter(itertools.chain.from_iterable(rows), np.int64, sizes.sum()), sizes


def write(
    batches: Sequence[pa.RecordBatch],
    labels: pa.StringArray,
    target: str,
    tokenizer: str | None,
    others: Connection,
) -> None:
    """Writes one TFRecord file."""
    found = find_subwords(batches, tokenizer) if tokenizer else find_words(batches, others)
    with open(target, "wb") as sink:
        for batch, (ids, sizes) in zip(batches, found, strict=True):
            kept = np.minimum(sizes, LENGTH)
            mask = np.arange(LENGTH) < kept[:, None]
            places = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            tokens = np.zeros(mask.shape, np.int64)
            tokens[mask] = ids[places < LENGTH]
            columns = {
                "tokens": lists(tokens),
                "tokens/mask": lists(mask.astype(np.int64)),
                "tokens/length": pa.array(kept),
                "label": pc.index_in(batch["label"], value_set=labels),
            }
            sink.write(encode_frames(pa.RecordBatch.from_pydict(columns)).data)


def lists(table: Ints) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), LENGTH)


def main(source: str, output: str, tokenizer: str | None = None) -> None:
    quotes_are_data = csv.ParseOptions(delimiter="\t", quote_char=False)
    rows = csv.read_csv(source, parse_options=quotes_are_data).combine_chunks()
    labels = pc.unique(rows["label"]).sort()
    pathlib.Path(output).mkdir()
    share = -(-len(rows) // PROCESSES)
    processes, pipes = [], []
    for i in range(PROCESSES):
        here, there = FORK.Pipe()
        batches = rows.slice(i * share, share).to_batches(max_chunksize=_ROWS)
        processes.append(started(write, batches, labels, shard(output, i), tokenizer, there))
        there.close()
        pipes.append(here)
    if not tokenizer:
        counts = sum((pipe.recv() for pipe in pipes), Counter())
        vocabulary = [word for word, _ in counts.most_common(VOCABULARY)]
        for pipe in pipes:
            pipe.send(vocabulary)
    finish(processes)


if __name__ == "__main__":
    main(*sys.argv[1:])
