"""Texts for `benchmarks.text`: real SMS, again and again, each with some words of no language."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np

from benchmarks.measure import DATA

FILE = "documents.tsv"
TOKENIZER_FILE = "tokenizer.json"
VOCABULARY = 20_000  # tokens, at most
LENGTH = 64  # ids of a record

_EXTRA_WORDS = 25_000  # that exist; most of them are rare
_EXTRA_PER_TEXT = 6
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"


def write_documents(count: int, path: pathlib.Path) -> None:
    """A TSV with the columns label and text. No value has tabs, line breaks or double quotes, on
    which readers differ.
    """
    lines = (DATA / "sms_spam" / "SMSSpamCollection").read_text(encoding="utf-8").split("\n")
    # Below the header, above what follows the last line break.
    messages = [line.replace('"', "'") for line in lines[1:-1]]
    words = _words()
    generator = np.random.default_rng(0)
    drawn = (_EXTRA_WORDS * generator.random((count, _EXTRA_PER_TEXT)) ** 2).astype(np.int64)
    with path.open("w", encoding="utf-8", newline="\n") as sink:
        sink.write("label\ttext\n")
        for message, extra in zip(itertools.cycle(messages), drawn.tolist(), strict=False):
            sink.write(f"{message} {' '.join(words[i] for i in extra)}\n")


def train_tokenizer(path: pathlib.Path, target: pathlib.Path) -> None:
    """A tokenizer.json learned from such a TSV: BPE of words and punctuation, as the library's
    quick tour has it; [PAD] is 0, [UNK] 1.
    """
    import tokenizers

    _, *rows = path.read_text(encoding="utf-8").split("\n")[:-1]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["[PAD]", "[UNK]"],
        show_progress=False,
    )
    tokenizer.train_from_iterator((row.split("\t")[1] for row in rows), trainer)
    tokenizer.save(str(target))


def _words() -> list[str]:
    """Different ones, of three syllables each; which are frequent is left to chance."""
    syllables = [a + b for a, b in itertools.product(_CONSONANTS, _VOWELS)]
    chosen = np.random.default_rng(0).permutation(len(syllables) ** 3)[:_EXTRA_WORDS].tolist()
    size = len(syllables)
    return [
        syllables[i % size] + syllables[i // size % size] + syllables[i // size**2] for i in chosen
    ]
