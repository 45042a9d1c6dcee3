"""Hugging Face's road: datasets reads and maps in batches, tokenizers makes the ids with all cores,
padded and masked by itself, and TFRecordWriter writes.

Nothing is left from one run to the next: the cache of datasets is a folder of this run.
"""

from __future__ import annotations

import csv
import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "HF_HUB_OFFLINE": "1"}

import datasets  # type: ignore[import-untyped]
import tensorflow as tf  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from benchmarks.documents import LENGTH
from benchmarks.peers.text_work import make_example

_BATCH = 1000


def main(source: str, output: str, tokenizer: str) -> None:
    encoder = Tokenizer.from_file(tokenizer)
    encoder.enable_truncation(LENGTH)
    encoder.enable_padding(length=LENGTH, pad_id=encoder.token_to_id("[PAD]"))
    pathlib.Path(output).mkdir()
    with tempfile.TemporaryDirectory(dir=output) as cache:
        rows = datasets.load_dataset(
            "csv",
            data_files=source,
            split="train",
            cache_dir=cache,
            delimiter="\t",
            quoting=csv.QUOTE_NONE,
            keep_default_na=False,
        )
        numbers = {label: i for i, label in enumerate(sorted(rows.unique("label")))}

        def encode(batch: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
            found = encoder.encode_batch_fast(batch["text"])
            masks = [one.attention_mask for one in found]
            return {
                "tokens": [one.ids for one in found],
                "mask": masks,
                "length": [sum(mask) for mask in masks],
                "number": [numbers[label] for label in batch["label"]],
            }

        rows = rows.map(encode, batched=True, remove_columns=rows.column_names)
        with tf.io.TFRecordWriter(f"{output}/all.tfrecord") as writer:
            for batch in rows.iter(_BATCH):
                columns = (batch[name] for name in ("tokens", "mask", "length", "number"))
                for row in zip(*columns, strict=True):
                    writer.write(make_example(*row).SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
