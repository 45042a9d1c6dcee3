"""Byte pair encoding that is learned from train."""

import io
import json
import pathlib
import random
from itertools import pairwise

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from recordmill.transforms.encoders.tokenization import bpe
from recordmill.transforms.encoders.tokenization.bpe import BpeAnalysis
from recordmill.transforms.encoders.tokenization.subwords import MODEL_FILE
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from tests.image_runs import Made, run
from tests.paths import SMS
from tests.pipelines.test_text import make
from tests.texts import rows_of

pytestmark = pytest.mark.usefixtures("encoders")

INPUT = ("--input", SMS, "--format", "tsv", "--seed", 7, "--tokenizer", "bpe")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return make(
        tmp_path_factory.mktemp("bpe") / "out",
        *(*INPUT, "--features", "text,tokens", "--vocab-size", 1000),
        *("--special-tokens", "<bos>,<eos>", "--splits", "train=0.5,test=0.5"),
    )


def model_of(made: Made) -> sentencepiece.SentencePieceProcessor:
    content = (made.folder / MODEL_FILE).read_bytes()
    return sentencepiece.SentencePieceProcessor(model_proto=content)


def test_ids_are_those_of_the_published_model(made):
    model = model_of(made)
    assert model.get_piece_size() == made.manifest.features["tokens"].size == 1000
    assert [model.id_to_piece(i) for i in range(4)] == ["<pad>", "<unk>", "<bos>", "<eos>"]
    for split in ("train", "test"):
        for example in made.examples(split).values():
            text = example["text"][0].decode()
            assert example["tokens"] == model.encode(text)
            assert 1 not in example["tokens"]
            assert model.decode(example["tokens"]) == text


def test_it_is_learned_from_train_alone(made):
    texts = [example["text"][0].decode() for example in made.examples("train").values()]
    options = TextOptions(tokenizer="bpe", vocab_size=1000, special_tokens=("<bos>", "<eos>"))
    analysis = BpeAnalysis(options=options)
    learned = analysis.learn(analysis.count(rows_of(texts)), records=len(texts))
    assert learned[MODEL_FILE] == (made.folder / MODEL_FILE).read_bytes()
    everything = [*texts, *(e["text"][0].decode() for e in made.examples("test").values())]
    other = analysis.learn(analysis.count(rows_of(everything)), records=len(everything))
    assert other != learned


def test_whatever_the_text_it_comes_back(tmp_path):
    texts = ["plain words " * 30, "a  b\n\tc  ", " 日本語 😀 \u00e4 a\u0308", "x" * 5000, "", " "]
    analysis = BpeAnalysis(options=TextOptions(tokenizer="bpe", vocab_size=512))
    model = analysis.learn(analysis.count(rows_of(texts[:1] * 9)), records=9)[MODEL_FILE]
    loaded = sentencepiece.SentencePieceProcessor(model_proto=io.BytesIO(model).getvalue())
    for text in texts:
        assert loaded.decode(loaded.encode(text)) == text


CHARACTERS = [chr(0x4E00 + place) for place in range(200)]


def long_texts(folder: pathlib.Path) -> pathlib.Path:
    """Texts of 400 characters without a space, with pairs that are frequent."""
    draw = random.Random(1)
    pairs = [draw.choice(CHARACTERS) + draw.choice(CHARACTERS) for _ in range(100)]
    texts = ["".join(draw.choice(pairs) for _ in range(200)) for _ in range(60)]
    file = folder / "in.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


def test_texts_without_spaces_are_learned(tmp_path):
    argv = ("--input", long_texts(tmp_path), "--tokenizer", "bpe", "--features", "text,tokens")
    made = make(tmp_path / "out", *argv, "--vocab-size", 900, "--splits", "train=1")
    found = list(made.examples().values())
    characters = sum(len(one["text"][0].decode()) for one in found)
    assert sum(len(one["tokens"]) for one in found) < 0.6 * characters
    assert not [note for note in made.manifest.notes if note.code == "unlearned"]


@given(st.text(st.sampled_from("aé中\U0001f600"), min_size=200, max_size=2000), st.integers(1, 3))
def test_long_words_are_cut_between_characters(word, times):
    analysis = BpeAnalysis(options=TextOptions(tokenizer="bpe", vocab_size=512))
    (row,) = rows_of([word]).to_pylist()
    counts = analysis.count(rows_of([word] * times)).to_pylist()
    assert sum(len(one["item"]) * one["count"] for one in counts) == times * len(row["text"])
    assert all(len(one["item"].encode()) <= 1000 for one in counts)
    assert len({one["item"] for one in counts}) == len(counts)
    assert all(one["item"] in word for one in counts)


def test_words_that_are_left_out_are_noted(tmp_path):
    words = [f"word{place}" for place in range(400)]
    file = tmp_path / "in.txt"
    file.write_text("".join(f"often {word} {other}\n" for word, other in pairwise(words)))
    argv = ("--input", file, "--tokenizer", "bpe", "--vocab-size", 600, "--splits", "train=1")
    for least, notes in ((1, 0), (3, 1)):
        made = make(tmp_path / f"{least}", *argv, "--min-frequency", least)
        found = [str(note) for note in made.manifest.notes if note.code == "unlearned"]
        assert len(found) == notes
    assert found == [
        "byte pairs are learned without 66.7% of the words of train, those that occur fewer than 3"
        " times (--min-frequency)"
    ]


def test_distinct_words_beyond_the_most_frequent_are_noted(monkeypatch):
    monkeypatch.setattr(bpe, "_WORDS", 300)
    analysis = BpeAnalysis(options=TextOptions(tokenizer="bpe", vocab_size=512))
    texts = [f"often word{place}" for place in range(400)]
    selected = analysis.select(analysis.count(rows_of(texts)))
    assert len(analysis.learn(selected, records=400)) == 1
    (note,) = analysis.notes({}, selected)
    assert note == (
        "byte pairs are learned without 12.6% of the words of train, because they are learned from"
        " the 300 most frequent distinct words"
    )


def test_the_same_bytes_with_one_worker(made, tmp_path):
    argv = (*INPUT, "--features", "text,tokens", "--vocab-size", 1000, "--workers", 1)
    special = ("--special-tokens", "<bos>,<eos>", "--splits", "train=0.5,test=0.5")
    assert run("text", *argv, *special, "--output", tmp_path / "out") == 0
    assert Made(tmp_path / "out").manifest.digest == made.manifest.digest


def test_packed_with_an_end(tmp_path):
    argv = (*INPUT, "--pack", 128, "--special-tokens", "<eos>", "--end-token", "<eos>")
    packed = make(tmp_path / "out", *argv, "--vocab-size", 600)
    ids = [i for split in packed.manifest.splits for e in packed.examples(split).values()
           for i in e["tokens"]]  # fmt: skip
    assert ids.count(2) == 5574


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("--vocab-size", "511"), 2, "--vocab-size 511: expected 512 or more"),
        (("--special-tokens", "<eot>,<0x41>"), 2, "--special-tokens: <0x41> already has an id"),
        (("--oov-buckets", "3"), 2, "--oov-buckets: requires a learned vocabulary"),
        (("--chunk", "9"), 2, "--chunk: not available with --tokenizer bpe"),
        (("--min-tokens", "9"), 2, "use --min-chars or --max-chars"),
        (("--features", "bow"), 2, "--features bow: requires a learned vocabulary"),
        (("--min-frequency", "99999"), 1, "no word in the"),
    ],
)
def test_invalid_options_are_reported(tmp_path, capsys, argv, code, message):
    assert run("text", *INPUT, *argv, "--output", tmp_path / "out") == code
    assert message in capsys.readouterr().err
