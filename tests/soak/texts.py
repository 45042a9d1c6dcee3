"""Texts at size: ids against the libraries' own, packs against texts, and memory against length.

python -m tests.soak.texts                         50,000 documents, 2 GB of text
python -m tests.soak.texts --documents 2000 --megabytes 0,50
"""

from __future__ import annotations

import argparse
import os
import pathlib
import tempfile
from collections.abc import Sequence

import sentencepiece
import tokenizers

from benchmarks.documents import FILE, TOKENIZER_FILE, train_tokenizer, write_documents
from benchmarks.measure import python, run
from recordmill.format.manifest import load
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from tests.soak.command import DifferenceError

_PACK = 2048
_LENGTH = 256


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--megabytes", default="200,2000", help="of text whose memory is measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
        folder = pathlib.Path(name)
        source = folder / FILE
        write_documents(arguments.documents, source)
        train_tokenizer(source, folder / TOKENIZER_FILE)
        compare("tokenizer.json", folder / TOKENIZER_FILE, folder, source)
        compare("SentencePiece", _train_sentencepiece(source, folder), folder, source)
    for megabytes in map(int, arguments.megabytes.split(",")):
        if megabytes:
            with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
                measure(megabytes, pathlib.Path(name))


def compare(what: str, tokenizer: pathlib.Path, folder: pathlib.Path, source: pathlib.Path) -> None:
    """Makes a dataset and a packed one, and holds both against the library."""
    plain, packed = folder / f"{tokenizer.stem}-plain", folder / f"{tokenizer.stem}-packed"
    common = ("--input", source, "--tokenizer", tokenizer, "--splits", "train=0.9,test=0.1")
    _make(plain, *common, "--features", "text,tokens")
    _make(packed, *common, "--pack", _PACK)
    texts, ids = [], []
    manifest = load(Location.parse(str(packed)))
    for split in ("train", "test"):
        in_order = []
        for example in read(plain, split):
            texts.append(example["text"].decode())
            ids.append(example["tokens"].tolist())
            in_order += ids[-1]
        found = [
            i
            for example in read(packed, split)
            for i, segment in zip(example["tokens"], example["tokens/segments"], strict=True)
            if segment
        ]
        if found != in_order:
            raise DifferenceError(f"{what}: the packs of {split} hold other ids than its texts")
    expected = _encode(tokenizer, texts)
    differ = sum(mine != theirs for mine, theirs in zip(ids, expected, strict=True))
    rates = ", ".join(f"{split} {rate:.2%}" for split, rate in manifest.fill_rates.items())
    print(
        f"{what}: {len(texts):,} documents, {differ} of other ids than the library's;"
        f" {sum(map(len, ids)):,} ids packed into {_PACK} each, all there and in order, filled:"
        f" {rates}",
        flush=True,
    )
    if differ:
        raise DifferenceError(f"{what}: {differ} documents have other ids")


def measure(megabytes: int, folder: pathlib.Path) -> None:
    """Peak memory over texts of so many megabytes in all."""
    source = folder / FILE
    each = 20_000
    write_documents(each, folder / "some.tsv")
    head, _, some = (folder / "some.tsv").read_bytes().partition(b"\n")
    with source.open("wb") as sink:
        sink.write(head + b"\n")
        for _ in range(megabytes * 10**6 // len(some) + 1):
            sink.write(some)
    command = python(
        *(
            "recordmill.pipelines.cli",
            "text",
            "--input",
            source,
            "--output",
            folder / "out",
            "--quiet",
        ),
        *("--tokenizer", "words", "--max-length", _LENGTH),
    )
    measured = run(command, memory=True)
    records = load(Location.parse(str(folder / "out"))).ledger.records.written
    print(
        f"{megabytes:,} MB of text, {records:,} documents: {measured.wall:.0f} s, peak"
        f" {measured.peak / 2**20:.0f} MiB",
        flush=True,
    )


def _make(output: pathlib.Path, *options: object) -> None:
    run(
        python("recordmill", "text", "--output", output, "--quiet", *options),
        memory=False,
    )


def _encode(tokenizer: pathlib.Path, texts: Sequence[str]) -> list[list[int]]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if tokenizer.suffix == ".json":
        model = tokenizers.Tokenizer.from_file(str(tokenizer))
        return [encoding.ids for encoding in model.encode_batch(list(texts))]
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    return [pieces.encode(text) for text in texts]


def _train_sentencepiece(source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    _, *rows = source.read_text(encoding="utf-8").split("\n")[:-1]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(row.split("\t")[1] for row in rows),
        model_prefix=str(folder / "sentencepiece"),
        vocab_size=8000,
        num_threads=1,
        minloglevel=2,
    )
    return folder / "sentencepiece.model"


if __name__ == "__main__":
    main()
