"""How long a dataset of texts takes, against the same work done in other ways.

    python -m benchmarks.text                          200,000 documents, 5 runs of each
    python -m benchmarks.text --documents 2000 --runs 1 --only words,bare

The documents are real SMS with some words of no language added, so that their vocabulary is larger
than the 20,000 tokens that are kept. Everybody makes the same four features of 64 ids each: of a
vocabulary that it learns, or of a BPE tokenizer.json that was trained on the documents beforehand.
A first round, which is not timed, measures memory; what is written is checked after every run. Then
whole processes run in alternation, on two cores, and the median of each counts. Needs
`make peers`.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import pathlib
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.contest import (
    Command,
    Contender,
    Results,
    add_options,
    alternate,
    medians,
    payloads,
    table,
)
from benchmarks.documents import (
    FILE,
    LENGTH,
    TOKENIZER_FILE,
    VOCABULARY,
    train_tokenizer,
    write_documents,
)
from benchmarks.measure import PEERS, FailedError, bar, machine, python, two_cores
from recordmill.tfrecord.decode import Value, decode_example

_FEATURES = {"tokens": LENGTH, "tokens/mask": LENGTH, "tokens/length": 1, "label": 1}  # integers
_LABELS = 2
_LARGEST_ID = VOCABULARY + 1  # after padding and the unknown
_AT_ONCE = 10_000  # records checked

# What was asked for.
_LEAST = 200_000  # documents; with fewer, starting Python and its libraries is much of it
_OURS = {"words": "bare", "json": "bare-json"}  # and the floor of each
_BARE_BAR = 3  # median of wall time: ours over the floor's, at most
_CPU_BARS = {"tft": 5, "hf": 3}  # medians of CPU time: theirs over ours, at least


def _ours(*options: object, given: bool = False) -> Command:
    """given: the tokenizer.json, instead of words."""

    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        places = ("--input", source, "--output", output)
        tokens = ("--tokenizer", source.with_name(TOKENIZER_FILE) if given else "words")
        how = (*tokens, *options, "--max-length", LENGTH)
        splits = ("--splits", "train=0.8,validation=0.1,test=0.1", "--seed", 7)
        return python("recordmill", "text", *places, *how, *splits, "--quiet")

    return command


def _bare(*, given: bool = False) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        tokenizer = [source.with_name(TOKENIZER_FILE)] if given else []
        return python("benchmarks.peers.text_bare_loop", source, output, *tokenizer)

    return command


def _peer(module: str, *, given: bool = False) -> Command:
    """By the environment that has its libraries."""

    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        tokenizer = [source.with_name(TOKENIZER_FILE)] if given else []
        return python(f"benchmarks.peers.{module}", source, output, *tokenizer, interpreter=PEERS)

    return command


_CONTENDERS = (
    Contender(
        name="words", what="recordmill text, words", command=_ours("--vocab-size", VOCABULARY)
    ),
    Contender(name="json", what="recordmill text, tokenizer.json", command=_ours(given=True)),
    Contender(name="bare", what="bare loop, words", command=_bare()),
    Contender(name="bare-json", what="bare loop, tokenizer.json", command=_bare(given=True)),
    Contender(name="tfdata", what="tf.data + TextVectorization", command=_peer("text_tf_data")),
    Contender(name="tft", what="tensorflow-transform on Beam", command=_peer("text_tft")),
    Contender(
        name="hf",
        what="Hugging Face datasets, tokenizer.json",
        command=_peer("text_hugging_face", given=True),
    ),
)
_GIVEN = {"json", "bare-json", "hf"}  # who takes the tokenizer.json
_ELSEWHERE = {"tfdata", "tft", "hf"}  # whose libraries are not ours


class Check:
    """Raises FailedError unless every frame is whole and every Example as it should be.

    Bytes that were found right once are right: they are known by their digest.
    """

    def __init__(self, documents: int) -> None:
        self._documents = documents
        self._right: set[bytes] = set()

    def __call__(self, output: pathlib.Path) -> None:
        digest = hashlib.sha256()
        for path in sorted(output.glob("*.tfrecord*")):
            digest.update(path.read_bytes())
        if digest.digest() not in self._right:
            self._read(output)
            self._right.add(digest.digest())

    def _read(self, output: pathlib.Path) -> None:
        written = 0
        records = payloads(output)
        while some := [decode_example(payload) for payload in itertools.islice(records, _AT_ONCE)]:
            if problem := _problem(some):
                raise FailedError(f"{output.name}, records from {written} on: {problem}")
            written += len(some)
        if written != self._documents:
            raise FailedError(f"{output.name}: expected {self._documents} records, got {written}")


def _problem(examples: Sequence[Mapping[str, Value]]) -> str | None:
    """Ids come first, padding after them, mask and length say the same."""
    for example in examples:
        if set(example) != set(_FEATURES):
            return f"expected {', '.join(_FEATURES)}, got {', '.join(sorted(example))}"
    table = {}
    for name, size in _FEATURES.items():
        column = [np.asarray(example[name]) for example in examples]
        if any(values.shape != (size,) or values.dtype != np.int64 for values in column):
            return f"expected {size} integers of {name}"
        table[name] = np.stack(column)
    given = np.arange(LENGTH) < table["tokens/length"]
    if not np.array_equal(table["tokens"] > 0, given):
        return "expected as many ids above 0 as the length says, then 0"
    if not np.array_equal(table["tokens/mask"], given):
        return "expected a mask that says what the length says"
    if (largest := int(table["tokens"].max())) > _LARGEST_ID:
        return f"expected ids up to {_LARGEST_ID}, got {largest}"
    if not np.isin(table["label"], range(_LABELS)).all():
        return f"expected labels below {_LABELS}"
    return None


def bars(results: Results, documents: int) -> list[str]:
    """What was got, and what was asked for; below 200,000 documents nothing was."""
    asked = documents >= _LEAST
    wall, cpu = medians(results), medians(results, of="cpu")
    lines = []
    for ours, floor in _OURS.items():
        if ours not in results:
            continue
        for name, at_least in _CPU_BARS.items():
            if name in results:
                what, got = f"CPU, {name} / {ours}", cpu[name] / cpu[ours]
                lines.append(bar(what, got, at_least=at_least if asked else None))
        if floor in results:
            what, got = f"wall, {ours} / {floor}", wall[ours] / wall[floor]
            lines.append(bar(what, got, at_most=_BARE_BAR if asked else None))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=_LEAST)
    add_options(parser, _CONTENDERS)
    arguments = parser.parse_args()
    documents, contenders = arguments.documents, arguments.only
    names = {contender.name for contender in contenders}
    if names & _ELSEWHERE and not PEERS.exists():
        parser.error(f"{', '.join(sorted(names & _ELSEWHERE))}: run `make peers` first")
    two_cores()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source = pathlib.Path(folder, FILE)
        write_documents(documents, source)
        if names & _GIVEN:
            train_tokenizer(source, source.with_name(TOKENIZER_FILE))
        check = Check(documents)
        results = alternate(contenders, source=source, check=check, runs=arguments.runs)
    print(f"\n{documents:,} documents, {arguments.runs} runs of each in alternation\n")
    print(table(contenders, results, records=documents, unit="documents"))
    print(*["", *bars(results, documents)], sep="\n", flush=True)


if __name__ == "__main__":
    main()
