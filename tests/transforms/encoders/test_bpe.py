"""Byte pair encoding that is learned from train."""

import io

import pytest
import sentencepiece

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
