"""Several texts per record: joined as `tokenizers` joins pairs, or as features of their own."""

import csv
import json
import math
import pathlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tokenizers

import recordmill
from recordmill.pipelines.cli import main
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.tensorflow_reads import parse
from tests.text_models import MESSAGES, save_bpe, save_byte_bpe, save_sentencepiece

pytestmark = pytest.mark.usefixtures("encoders")

Pair = tuple[str, str]


def pairs() -> dict[str, Pair]:
    """{key: (question, answer)} of very different lengths."""
    found = {}
    for number, message in enumerate(MESSAGES[:240]):
        words = message.split()
        cut = max(1, len(words) * (number % 5) // 4)
        answer = " ".join(words[cut:]) or "no, é 日本 [SEP]"
        found[f"k{number}"] = (" ".join(words[:cut]), answer)
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("pairs") / "qa.csv"
    with path.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink)
        writer.writerow(["id", "question", "answer", "score", "where"])
        for number, (key, pair) in enumerate(pairs().items()):
            writer.writerow([key, *pair, number / 8, "sms"])
    return path


def arguments(source: pathlib.Path, *options: object) -> tuple[object, ...]:
    return (
        *("--input", source, "--key-column", "id", "--drop-columns", "score"),
        *("--text-columns", "question,answer", *options),
    )


def make(folder: pathlib.Path, source: pathlib.Path, *options: object) -> Made:
    made = make_any(folder, *arguments(source, *options), command="text")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def examples(made: Made) -> dict[str, dict[str, Any]]:
    return {
        key: example
        for split in made.manifest.splits
        for (key, _), example in made.examples(split).items()
    }


def cut(first: list[int], second: list[int], room: int | None) -> tuple[list[int], list[int]]:
    """As `longest_first` of tokenizers does: if both are cut, the longer one keeps an odd token."""
    if room is None or len(first) + len(second) <= room:
        return first, second
    lengths = [len(first), len(second)]
    short, long = (1, 0) if lengths[0] > lengths[1] else (0, 1)
    if lengths[short] <= room - lengths[short]:
        lengths[long] = room - lengths[short]
    else:
        lengths[short], lengths[long] = room // 2, room // 2 + room % 2
    return first[: lengths[0]], second[: lengths[1]]


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "whitespace": str.split,
    "chars": list,
    "bytes": lambda text: [chr(byte) for byte in text.encode()],
}


@pytest.mark.parametrize("length", [None, 14])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_joined_texts_are_what_a_loop_makes(name, length, source, tmp_path):
    options = () if length is None else ("--max-length", length)
    made = make(tmp_path / "out", source, "--tokenizer", name, *options)
    split = TOKENIZERS[name]
    if name == "bytes":
        ids = {"[CLS]": 1, "[SEP]": 2, **{chr(byte): byte + 3 for byte in range(256)}}
    else:
        lines = (made.folder / "vocabulary/tokens.txt").read_text(encoding="utf-8").split("\n")
        assert lines[:2] == ["[CLS]", "[SEP]"]
        ids = {line: 2 + number for number, line in enumerate(lines[:-1])}
        train = [text for key in made.keys("train") for text in pairs()[key]]
        counts = Counter(token for text in train for token in split(text))
        del counts["[SEP]"]
        wanted = sorted(counts, key=lambda token: (-counts[token], token.encode()))
        assert lines[2:-1] == wanted
    for key, example in examples(made).items():
        first, second = ([ids.get(token, 1) for token in split(text)] for text in pairs()[key])
        first, second = cut(first, second, None if length is None else length - 3)
        tokens = [ids["[CLS]"], *first, ids["[SEP]"], *second, ids["[SEP]"]]
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        if length is None:
            assert (example["tokens"], example["tokens/type_ids"]) == (tokens, types)
            continue
        padding = [0] * (length - len(tokens))
        assert example["tokens"] == tokens + padding
        assert example["tokens/type_ids"] == types + padding
        assert example["tokens/mask"] == [1] * len(tokens) + padding
        assert example["tokens/length"] == [len(tokens)]


def save_with_pairs(folder: pathlib.Path, kind: str) -> pathlib.Path:
    """A tokenizer file with special tokens for pairs."""
    path = save_byte_bpe(folder) if kind == "roberta" else save_bpe(folder)
    model = tokenizers.Tokenizer.from_file(str(path))
    if kind == "bert":
        model.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
        )
    elif kind == "roberta":
        model.add_special_tokens(["<s>", "</s>"])
        ends = [(token, model.token_to_id(token)) for token in ("</s>", "<s>")]
        model.post_processor = tokenizers.processors.RobertaProcessing(*ends)
    else:  # the second text comes first
        model.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A [SEP]",
            pair="$B:1 [SEP]:1 $A:0 [SEP]:0",
            special_tokens=[("[SEP]", 2)],
        )
    model.save(str(path))
    return path


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bert", ()),
        ("bert", ("--max-length", 13)),
        ("bert", ("--max-length", 16, "--edge-tokens", "no")),
        ("roberta", ("--max-length", 24)),
        ("swapped", ("--max-length", 12)),
    ],
)
def test_pairs_are_those_of_tokenizers(kind, options, source, tmp_path):
    """The library's own encoding of pairs, for files with and without the cache of pieces."""
    path = save_with_pairs(tmp_path, kind)
    made = make(tmp_path / "out", source, "--tokenizer", path, *options)
    model = tokenizers.Tokenizer.from_file(str(path))
    length = options[1] if options else None
    model.no_padding()
    model.no_truncation()
    if length is not None:
        model.enable_truncation(length, strategy="longest_first")
        padded = tokenizers.Tokenizer.from_file(str(path)).padding
        model.enable_padding(length=length, pad_id=padded["pad_id"] if padded else 0)
    for key, example in examples(made).items():
        found = model.encode(*pairs()[key], add_special_tokens="no" not in options)
        assert example["tokens"] == found.ids
        assert example["tokens/type_ids"] == found.type_ids
        if length is not None:
            assert example["tokens/mask"] == found.attention_mask


def test_pairs_of_a_sentencepiece_model(source, tmp_path):
    path = save_sentencepiece(tmp_path)
    model = sentencepiece.SentencePieceProcessor(str(path))
    made = make(tmp_path / "out", source, "--tokenizer", path, "--max-length", 20)
    end = model.eos_id()
    for key, example in examples(made).items():
        first, second = cut(*map(model.encode, pairs()[key]), 18)
        tokens = [*first, end, *second, end]
        assert example["tokens"][: len(tokens)] == tokens
        types = [0] * (len(first) + 1) + [1] * (len(second) + 1)
        assert example["tokens/type_ids"] == types + [0] * (20 - len(tokens))


def test_byte_pairs_are_learned_from_both_texts(source, tmp_path):
    made = make(tmp_path / "out", source, "--tokenizer", "bpe", "--vocab-size", 600)
    path = made.folder / "vocabulary/sentencepiece.model"
    model = sentencepiece.SentencePieceProcessor(str(path))
    begin, separator = map(model.piece_to_id, ("[CLS]", "[SEP]"))
    for key, example in examples(made).items():
        first, second = map(model.encode, pairs()[key])
        assert example["tokens"] == [begin, *first, separator, *second, separator]


def test_texts_that_are_not_joined_have_features_of_their_own(source, tmp_path):
    made = make(
        tmp_path / "out",
        source,
        *("--text-pairs", "separate", "--tokenizer", "whitespace", "--max-length", 6),
        *("--features", "text,tokens,tfidf", "--tfidf-norm", "none", "--max-chars", 100),
    )
    features = made.manifest.features
    assert {"question", "answer", "question/tokens", "answer/tokens/mask"} <= features.keys()
    assert "tokens" not in features
    lines = (made.folder / "vocabulary/tokens.txt").read_text(encoding="utf-8").split("\n")[:-1]
    train = [text for key in made.keys("train") for text in pairs()[key]]
    documents = Counter(token for text in train for token in {*text.split()})
    found = examples(made)
    assert found.keys() == {key for key, pair in pairs().items() if max(map(len, pair)) <= 100}
    for key, example in found.items():
        for name, text in zip(("question", "answer"), pairs()[key], strict=True):
            assert example[name] == [text.encode()]
            ids = [lines.index(t) + 2 if t in lines else 1 for t in text.split()][:6]
            assert example[f"{name}/tokens"] == ids + [0] * (6 - len(ids))
            terms = Counter(token for token in text.split() if token in lines)
            weights = {
                lines.index(t): n * (math.log((1 + len(train)) / (1 + documents[t])) + 1)
                for t, n in terms.items()
            }
            indices = example[f"{name}/tfidf/indices"]
            assert indices == sorted(weights)
            values = [weights[index] for index in indices]
            np.testing.assert_allclose(example[f"{name}/tfidf/values"], values, rtol=1e-6)
    statistics = (made.folder / "features.json").read_text()
    assert "question" in statistics


def test_raw_texts_with_numbers_to_predict_and_what_reads_them(source, tmp_path):
    made = make_any(
        tmp_path / "out",
        *("--input", source, "--key-column", "id", "--text-columns", "question,answer"),
        *("--label-column", "score", "--label-type", "float", "--statistics"),
        *("--features", "text,tokens", "--tokenizer", "words", "--max-length", 12),
        *("--splits", "train=1"),
        command="text",
    )
    scores = {key: number / 8 for number, key in enumerate(pairs())}
    for key, example in examples(made).items():
        texts = tuple(example[name][0].decode() for name in ("question", "answer"))
        assert texts == pairs()[key]
        assert example["label"] == [np.float32(scores[key])]
        assert example["where"] == [b"sms"]
    read = parse(made, "train")
    assert {example["tokens/type_ids"].shape for example in read} == {(12,)}
    inputs, labels = next(iter(recordmill.load(made.folder, batch_size=8, label="label")))
    assert {name: tensor.shape for name, tensor in inputs.items()} == {
        "tokens": (8, 12),
        "tokens/type_ids": (8, 12),
    }
    assert labels.dtype == tf.float32
    described = (made.folder / "croissant.json").read_text()
    assert "question" in described
    assert b"question" in (made.folder / "statistics.pb").read_bytes()


def test_pairs_are_equal_if_both_texts_are(tmp_path):
    path = tmp_path / "qa.csv"
    path.write_text("id,question,answer\n1,a b,c\n2,A  b,C\n3,a,b c\n4,a b,d\n", encoding="utf-8")
    options = ("--splits", "train=1", "--dedup", "drop", "--drop-columns", "id")
    made = make_any(
        tmp_path / "out",
        *("--input", path, "--text-columns", "question,answer", *options),
        command="text",
    )
    found = {(e["question"][0], e["answer"][0]) for e in examples(made).values()}
    assert len(found) == 3
    assert {(b"a", b"b c"), (b"a b", b"d")} <= found


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_with_any_number_of_workers(workers, source, tmp_path):
    outputs = []
    for number in (1, workers):
        out = tmp_path / f"out{number}-{len(outputs)}"
        options = arguments(source, "--tokenizer", "words", "--balance", "none", "--num-shards", 1)
        argv = ["text", "--quiet", "--workers", number, "--output", out, *options]
        assert main([*map(str, argv)]) == 0
        outputs.append((out / "dataset.json").read_bytes())
    assert outputs[0] == outputs[1]


def test_rows_without_one_of_the_texts_are_rejected(tmp_path):
    path = tmp_path / "qa.jsonl"
    rows = [
        {"q": "a", "a": "b"},
        {"q": "", "a": "b"},
        {"q": "a", "a": " \t"},
        {"q": "a", "a": None},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = make_any(
        tmp_path / "out",
        *("--input", path, "--text-columns", "q,a", "--splits", "train=1"),
        *("--max-reject-fraction", 1),
        command="text",
    )
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["detail"] for line in lines) == [
        "row 2: no text in column 'q'",
        "row 3: only white space in column 'a'",
        "row 4: no text in column 'a'",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--text-columns", "question"], "--text-columns question: expected two or more different"),
        (["--text-columns", "answer,answer"], "--text-columns answer,answer: expected two or more"),
        (["--text-columns", "question,anser"], "no column 'anser' in"),
        (
            ["--text-columns", "question,answer,where", "--tokenizer", "words"],
            "only two texts can be joined; use --text-pairs separate",
        ),
        (["--text-pairs", "separate"], "--text-pairs separate: requires --text-columns"),
        (
            ["--text-columns", "question,answer", "--pack", 9, "--tokenizer", "words"],
            "--pack: divi",
        ),
        (
            ["--text-columns", "question,answer", "--chunk", 9, "--tokenizer", "words"],
            "--chunk: divides single texts",
        ),
        (
            ["--text-columns", "question,answer", "--features", "tokens,bow"],
            "--features bow: needs single texts",
        ),
        (
            ["--text-columns", "question,answer", "--text-pairs", "join", "--features", "bow"],
            "--features bow: needs single texts",
        ),
        (
            ["--text-columns", "question,answer", "--tokenizer", "words", "--max-length", 4],
            "--max-length 4: expected 5 or more",
        ),
    ],
)
def test_what_cannot_be_made_is_an_error(options, words, source, tmp_path, capsys):
    assert run("text", "--input", source, "--output", tmp_path / "out", *options) == 2
    assert re.search(words, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_tokenizer_files_that_do_not_separate_texts(source, tmp_path, capsys):
    path = save_bpe(tmp_path)  # it has a template for single texts only
    argv = arguments(source, "--tokenizer", path, "--output", tmp_path / "out")
    assert run("text", *argv) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "the file has no special tokens that separate two texts" in message
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("a b")
    argv = ("--input", folder, "--output", tmp_path / "out", "--text-columns", "a,b")
    assert run("text", *argv) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "--text-columns: applies only to files of rows, but --input" in message


def test_an_exported_model_has_one_input(source, tmp_path, capsys):
    made = make(tmp_path / "out", source, "--tokenizer", "whitespace")
    argv = ["export-transform", "--dataset", str(made.folder), "--output", str(tmp_path / "model")]
    assert main(argv) == 2
    assert "several texts per record (--text-columns)" in " ".join(capsys.readouterr().err.split())
