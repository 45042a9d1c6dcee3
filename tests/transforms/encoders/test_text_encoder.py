"""Rows of text as columns of Examples."""

import dataclasses
import json
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
import tensorflow as tf
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.format.schema import feature_spec
from recordmill.tfrecord.example import encode_examples
from recordmill.tfrecord.features import Feature
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.text.text_lengths import TextCheck
from recordmill.transforms.encoders.tokenization import subwords
from recordmill.transforms.encoders.tokenization.subwords import read_tokenizer_file
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.vocabulary import VocabularyAnalysis
from recordmill.transforms.model.data_type import Context, Encoder, RowCheck
from tests.paths import ROOT
from tests.text_models import MESSAGES, save_bpe, save_sentencepiece
from tests.texts import SAMPLES, context_of, rows_of

EVERYTHING = ("text", "tokens", "bow", "tfidf")


@pytest.fixture(scope="session")
def tokenizer_json(tmp_path_factory):
    return save_bpe(tmp_path_factory.mktemp("bpe"))


@pytest.fixture(scope="session")
def sentencepiece_model(tmp_path_factory):
    return save_sentencepiece(tmp_path_factory.mktemp("sentencepiece"))


def learned(texts, options):
    analysis = VocabularyAnalysis(options=options)
    return analysis.learn(analysis.select(analysis.count(rows_of(texts))), records=len(texts))


def given_by(path):
    file = read_tokenizer_file(str(path))
    return file.tokenizer, {file.name: file.content}


def encode(folder, texts, *, labels=(), rows=None, files=None, **options):
    """(declared features, encoded columns) of texts whose vocabulary is learned from them."""
    encoder = TextEncoder(options=TextOptions(**options))
    if files is None:
        files = learned(texts, encoder.options) if encoder.options.learns else {}
    context = context_of(folder, files, labels=labels)
    rows = rows_of(texts) if rows is None else rows
    encoded = encoder.encode(rows, context)
    assert encoded.rows.kept.tolist() == list(range(len(rows)))
    return encoder.features(rows.schema, context), encoded.columns


# ---- columns


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"text": Feature(dtype="string", kind="text")}),
        (
            {"tokenizer": "words"},
            {"tokens": Feature(dtype="int64", shape=(None,), kind="index", size=6)},
        ),
        (
            {"tokenizer": "bytes", "max_length": 5, "special_tokens": ("[CLS]",)},
            {
                "tokens": Feature(dtype="int64", shape=(5,), kind="index", size=258),
                "tokens/mask": Feature(dtype="int64", shape=(5,)),
                "tokens/length": Feature(dtype="int64"),
            },
        ),
        (
            {"features": ("bow", "tfidf", "text"), "special_tokens": ("[CLS]",)},
            {
                "text": Feature(dtype="string", kind="text"),
                "bow/indices": Feature(dtype="int64", shape=(None,), kind="index", size=5),
                "bow/counts": Feature(dtype="int64", shape=(None,)),
                "tfidf/indices": Feature(dtype="int64", shape=(None,), kind="index", size=5),
                "tfidf/values": Feature(dtype="float32", shape=(None,)),
            },
        ),
        (
            {"features": ("tfidf",), "tfidf": "dense"},
            {"tfidf": Feature(dtype="float32", shape=(4,))},
        ),
    ],
)
def test_columns_are_what_was_declared(tmp_path, options, expected):
    features, columns = encode(tmp_path, ["a b", "c d a"], **options)
    assert features == expected
    assert columns.schema.names == list(expected)


def test_all_of_it_is_what_tensorflow_parses(tmp_path):
    texts = [*SAMPLES, *MESSAGES[:50]]
    labels = [("ham", "spam", "x")[row % 3] for row in range(len(texts))]
    rows = rows_of(texts, labels=labels, extra={"score": pa.array(range(len(texts)))})
    features, columns = encode(
        tmp_path, texts, rows=rows, labels=("ham", "spam", "x"), features=EVERYTHING, max_length=9
    )
    examples = encode_examples(columns)
    assert len(examples.offsets) == len(texts) + 1
    spec = {
        name: tf.io.RaggedFeature(one.dtype)
        if one.shape is None
        else tf.io.FixedLenFeature(one.shape, one.dtype)
        for name, one in feature_spec(features).items()
    }
    table = columns.to_pydict()
    for row in range(len(texts)):
        data = examples.data[examples.offsets[row] : examples.offsets[row + 1]]
        parsed = tf.io.parse_single_example(data, spec)
        assert parsed.keys() == table.keys()
        for name, values in table.items():
            value = values[row].encode() if isinstance(values[row], str) else values[row]
            np.testing.assert_array_equal(parsed[name].numpy(), value)


def test_no_rows(tmp_path):
    for options in ({"features": EVERYTHING, "max_length": 3}, {"tokenizer": "bytes"}):
        encoder = TextEncoder(options=TextOptions(**options))
        files = learned(["a"], encoder.options) if encoder.options.learns else {}
        context = context_of(tmp_path, files, labels=("x",))
        rows = rows_of(["a"]).slice(0, 0)
        columns = encoder.encode(rows, context).columns
        assert columns.num_rows == 0
        assert columns.schema.names == list(encoder.features(rows.schema, context))
        assert len(encode_examples(columns).offsets) == 1


def test_texts_without_any_token(tmp_path):
    texts = ["", " ", "...", "one"]
    _, columns = encode(tmp_path, texts, features=EVERYTHING, vocab_size=1, oov_buckets=2)
    table = columns.to_pydict()
    assert table["text"] == texts
    assert table["tokens"] == [[], [], [], [3]]
    assert table["bow/indices"] == [[], [], [], [0]]
    assert table["tfidf/values"] == [[], [], [], [1]]
    assert len(encode_examples(columns).offsets) == 5


def test_slices_are_encoded_as_what_they_are(tmp_path):
    options = {"features": EVERYTHING, "max_length": 4}
    rows = rows_of([*SAMPLES, *MESSAGES[:30]])
    _, whole = encode(tmp_path, rows["text"].to_pylist(), rows=rows, **options)
    files = learned(rows["text"].to_pylist(), TextOptions(**options))
    _, part = encode(tmp_path, [], rows=rows.slice(7, 11), files=files, **options)
    assert part.to_pylist() == whole.slice(7, 11).to_pylist()


@pytest.mark.parametrize("unicode", ["none", "nfc", "nfkc"])
def test_the_text_is_normalised_before_all_else(tmp_path, unicode):
    text = "cafe\u0301 ﬁne"
    expected = {"none": text, "nfc": "café ﬁne", "nfkc": "café fine"}[unicode]
    options = TextOptions(features=("text", "tokens"), unicode=unicode)
    files = learned([text], options)
    assert files["vocabulary/tokens.txt"].decode().split("\n")[:2] == expected.split()
    encoder = TextEncoder(options=options)
    columns = encoder.encode(rows_of([text]), context_of(tmp_path, files)).columns
    assert columns.to_pylist() == [{"text": expected, "tokens": [2, 3]}]
    kept = TextCheck(options=TextOptions(max_chars=len(expected), unicode=unicode))
    assert kept.check(rows_of([text])).kept.tolist() == [0]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), max_size=4))
def test_bytes_are_those_of_utf8(texts):
    encoder = TextEncoder(options=TextOptions(tokenizer="bytes", special_tokens=("[CLS]", "[SEP]")))
    columns = encoder.encode(rows_of(texts), Context(seed=0)).columns
    assert columns["tokens"].to_pylist() == [[byte + 3 for byte in t.encode()] for t in texts]


# ---- padding


@given(
    texts=st.lists(st.text("ab", max_size=8), max_size=5),
    length=st.integers(1, 6),
)
def test_padding_truncation_and_mask(texts, length):
    def tokens(**options):
        encoder = TextEncoder(options=TextOptions(tokenizer="bytes", **options))
        return encoder.encode(rows_of(texts), Context(seed=0)).columns

    padded = tokens(max_length=length)
    for ids, fixed, mask, size in zip(
        tokens()["tokens"].to_pylist(),
        *(padded[name].to_pylist() for name in ("tokens", "tokens/mask", "tokens/length")),
        strict=True,
    ):
        assert fixed == (ids + [0] * length)[:length]
        assert mask == ([1] * len(ids) + [0] * length)[:length]
        assert size == min(len(ids), length) == sum(mask)


# ---- labels and user columns


def test_labels_are_numbers(tmp_path):
    rows = rows_of(["a", "b", "c"], labels=["spam", None, "ham"])
    encoder = TextEncoder(options=TextOptions(), unlabelled=True)
    context = Context(seed=0, labels=("ham", "spam"), label_offset=1)
    feature = encoder.features(rows.schema, context)["label"]
    assert feature == Feature(dtype="int64", shape=(None,), kind="label")
    assert encoder.encode(rows, context).columns["label"].to_pylist() == [2, None, 1]
    strict = dataclasses.replace(encoder, unlabelled=False).features(rows.schema, context)
    assert strict["label"] == Feature(dtype="int64", kind="label")
    assert "label" not in encoder.features(rows.schema, Context(seed=0))


def test_user_columns_come_along():
    extra = {"age": pa.array([1, None], pa.int8()), "tokens": pa.array([[1], [2, 3]])}
    rows = rows_of(["a", "b"], extra=extra)
    encoder = TextEncoder(options=TextOptions())
    features = encoder.features(rows.schema, Context(seed=0))
    assert list(features) == ["text", "age", "tokens"]
    assert features["age"] == Feature(dtype="int64", shape=(None,))
    assert encoder.encode(rows, Context(seed=0)).columns.to_pylist() == [
        {"text": "a", "age": 1, "tokens": [1]},
        {"text": "b", "age": None, "tokens": [2, 3]},
    ]


@pytest.mark.parametrize("name", ["tokens", "tokens/mask", "bow/indices", "tfidf/values", "label"])
def test_user_column_of_a_name_that_is_taken(name):
    rows = rows_of(["a"], extra={name: pa.array([3])})
    encoder = TextEncoder(options=TextOptions(features=EVERYTHING, max_length=3))
    with pytest.raises(ConfigError, match=f"column '{name}' of the input has the name of"):
        encoder.features(rows.schema, Context(seed=0, labels=("",)))


def test_what_is_not_known_yet_is_not_declared():
    encoder = TextEncoder(options=TextOptions(features=("tokens", "bow", "tfidf"), tfidf="dense"))
    features = encoder.features(rows_of([]).schema, Context(seed=0))
    assert {name: feature.size for name, feature in features.items()} == dict.fromkeys(features)
    assert features["tfidf"].shape == (None,)


# ---- copies


def test_copies_are_varied_in_text_and_tokens(tmp_path):
    texts = [MESSAGES[0]] * 4
    rows = rows_of(texts, copies=[0, 1, 2, 3], keys=["k"] * 4)
    options = {"features": ("text", "tokens"), "augment": ("word-dropout", "word-swap")}
    _, columns = encode(tmp_path, texts, rows=rows, **options)
    found = columns["text"].to_pylist()
    assert found[0] == texts[0]
    assert len(set(found)) > 2
    again = rows_of(found)  # as if these were the texts
    files = learned(texts, TextOptions(**options))
    _, expected = encode(tmp_path, [], rows=again, files=files, **options)
    assert columns["tokens"] == expected["tokens"]


# ---- tokenizers of the user's


@pytest.mark.parametrize("edges", ["auto", "yes", "no"])
def test_ids_are_those_of_hugging_face(tmp_path, tokenizer_json, edges):
    texts = [*MESSAGES, *SAMPLES]
    theirs = tokenizers.Tokenizer.from_file(str(tokenizer_json))
    theirs.no_padding()
    theirs.no_truncation()
    expected = theirs.encode_batch(texts, add_special_tokens=edges != "no")
    name, files = given_by(tokenizer_json)
    features, columns = encode(tmp_path, texts, files=files, tokenizer=name, edge_tokens=edges)
    assert columns["tokens"].to_pylist() == [one.ids for one in expected]
    assert features["tokens"].size == theirs.get_vocab_size()


def test_ids_of_hugging_face_are_cut_off_and_padded_as_it_does(tmp_path, tokenizer_json):
    theirs = tokenizers.Tokenizer.from_file(str(tokenizer_json))
    theirs.enable_truncation(12)
    theirs.enable_padding(length=12, pad_id=3, pad_token="[PAD]")
    expected = theirs.encode_batch(MESSAGES[:500])
    name, files = given_by(tokenizer_json)
    _, columns = encode(tmp_path, MESSAGES[:500], files=files, tokenizer=name, max_length=12)
    assert columns["tokens"].to_pylist() == [one.ids for one in expected]
    assert columns["tokens/mask"].to_pylist() == [one.attention_mask for one in expected]
    ends = {ids[-1] for ids in columns["tokens"].to_pylist()}
    assert ends == {2, 3}  # where it is cut off, the end is still told


@pytest.mark.parametrize("edges", ["auto", "yes", "no"])
def test_ids_are_those_of_sentencepiece(tmp_path, sentencepiece_model, edges):
    texts = [*MESSAGES, *SAMPLES]
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_model))
    expected = theirs.encode(texts, add_bos=edges == "yes", add_eos=edges == "yes")
    name, files = given_by(sentencepiece_model)
    features, columns = encode(tmp_path, texts, files=files, tokenizer=name, edge_tokens=edges)
    assert columns["tokens"].to_pylist() == expected
    assert features["tokens"].size == 1500


@pytest.mark.parametrize("edges", ["no", "yes"])
def test_ids_of_sentencepiece_are_cut_off_and_padded(tmp_path, sentencepiece_model, edges):
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_model))
    name, files = given_by(sentencepiece_model)
    options = {"tokenizer": name, "edge_tokens": edges, "max_length": 12}
    _, columns = encode(tmp_path, MESSAGES[:200], files=files, **options)
    for text, ids in zip(MESSAGES[:200], columns["tokens"].to_pylist(), strict=True):
        pieces = theirs.encode(text)
        if edges == "no":
            expected = pieces[:12]
        else:
            expected = [theirs.bos_id(), *pieces[:10], theirs.eos_id()]
        assert ids == (expected + [theirs.pad_id()] * 12)[:12]


@pytest.mark.parametrize("max_length", [1, 2])
def test_shorter_than_the_edges(tmp_path, tokenizer_json, sentencepiece_model, max_length):
    for path in (tokenizer_json, sentencepiece_model):
        name, files = given_by(path)
        options = {"tokenizer": name, "edge_tokens": "yes", "max_length": max_length}
        _, columns = encode(tmp_path, ["hello you", ""], files=files, **options)
        assert columns["tokens"].type.list_size == max_length


def test_a_file_without_padding_pads_with_its_usual_token_or_with_0(tmp_path):
    for vocabulary, padding in (({"a": 0, "b": 1}, 0), ({"a": 0, "b": 1, "<pad>": 2}, 2)):
        model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="a"))
        model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        path = tmp_path / "words.json"
        path.write_text(model.to_str())
        name, files = given_by(path)
        _, columns = encode(tmp_path, ["b"], files=files, tokenizer=name, max_length=3)
        assert columns["tokens"].to_pylist() == [[1, padding, padding]]
        assert columns["tokens/length"].to_pylist() == [1]


def test_a_file_is_told_by_its_name_or_its_content(tmp_path, tokenizer_json, sentencepiece_model):
    for path, kind in ((tokenizer_json, "huggingface"), (sentencepiece_model, "sentencepiece")):
        other = tmp_path / "any name"
        other.write_bytes(path.read_bytes())
        file = read_tokenizer_file(str(other))
        assert file == read_tokenizer_file(str(path))
        assert file.tokenizer == kind
        assert file.content == path.read_bytes()


@pytest.mark.parametrize("name", ["t.json", "t.model", "t"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"version": "1.0"',
        json.dumps({"vocab": {"a": 1}}).encode(),
        b"\xff\xfe\x00not a model",
        b"plain words",
        bytes(1000),
    ],
)
def test_a_file_that_is_no_tokenizer(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    message = f"--tokenizer {path}: expected a Hugging Face tokenizer.json or a SentencePiece"
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_tokenizer_file(str(path))


@pytest.mark.parametrize(("name", "package"), [("t.json", "tokenizers"), ("t", "sentencepiece")])
def test_a_library_that_is_not_there(tmp_path, monkeypatch, name, package):
    path = tmp_path / name
    path.write_bytes(b"x")
    monkeypatch.setitem(sys.modules, package, None)
    message = f"needs the package {package}, which is not installed: install recordmill"
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_tokenizer_file(str(path))


def test_tokenizers_are_made_once_per_process(tmp_path, tokenizer_json):
    name, files = given_by(tokenizer_json)
    context = context_of(tmp_path, files)
    options = TextOptions(tokenizer=name)
    one = subwords.load_subwords(options, context.artifacts)
    assert subwords.load_subwords(options, dict(context.artifacts)) is one
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"


# ---- lengths


def test_lengths(tmp_path):
    texts = ["", "ab", "a b c", "aé日", "a b c d e", "xxxxxxxxxx"]
    options = TextOptions(tokenizer="whitespace", min_chars=1, max_chars=9, max_tokens=3)
    check = TextCheck(options=options)
    assert isinstance(check, RowCheck)
    outcome = check.check(rows_of(texts, keys=list("abcdef")))
    assert outcome.kept.tolist() == [1, 2, 3]
    assert outcome.filtered == [("a", "min-chars"), ("e", "max-tokens"), ("f", "max-chars")]
    assert outcome.rejects == ()


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [("words", [0, 2, 5]), ("whitespace", [0, 2, 3]), ("chars", [0, 5, 8]), ("bytes", [0, 5, 13])],
)
def test_lengths_in_tokens(tokenizer, expected):
    rows = rows_of(["", "a, b!", "x-y é 日日"])
    for row, length in enumerate(expected):
        for limit, stays in ((length, True), (length + 1, False)):
            check = TextCheck(options=TextOptions(tokenizer=tokenizer, min_tokens=limit))
            assert (row in check.check(rows).kept) == stays
        if length:
            check = TextCheck(options=TextOptions(tokenizer=tokenizer, max_tokens=length - 1))
            assert row not in check.check(rows).kept


def test_lengths_of_no_rows():
    check = TextCheck(options=TextOptions(min_chars=3, tokenizer="words", min_tokens=1))
    outcome = check.check(rows_of([]))
    assert (outcome.kept.tolist(), outcome.filtered) == ([], [])


# ---- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "word"}, "--tokenizer: expected one of words, whitespace, chars, bytes"),
        ({"features": ("text", "ids")}, "--features: expected some of text, tokens, bow, tfidf"),
        ({"unicode": "nfd"}, "--unicode: expected one of none, nfc, nfkc, got 'nfd'"),
        ({"augment": ("blur",)}, "--augment: expected some of word-dropout, word-swap"),
        ({"tokenizer": "words", "vocab_size": 0}, "--vocab-size: expected 1 to"),
        ({"tokenizer": "words", "max_length": 0}, "--max-length: expected 1 to"),
        ({"tokenizer": "words", "oov_buckets": 0}, "--oov-buckets: expected 1 to"),
        ({"features": ("bow",), "ngrams": 6}, "--ngrams: expected 1 to 5, got 6"),
        ({"min_chars": 5, "max_chars": 4}, "--min-chars 5: expected at most --max-chars 4"),
        ({"min_chars": -1}, "--min-chars: expected 0 to"),
        ({"min_tokens": 2}, "--min-tokens, --max-tokens: require --tokenizer"),
        ({"tokenizer": "huggingface", "max_tokens": 2}, "use --min-chars or --max-chars"),
        ({"tokenizer": "words", "special_tokens": ("a\n",)}, "without line breaks, got 'a"),
        ({"tokenizer": "words", "special_tokens": ("",)}, "without line breaks, got ''"),
        ({"tokenizer": "words", "special_tokens": ("[UNK]",)}, r"\[UNK\] already has the id 1"),
        ({"tokenizer": "words", "special_tokens": ("a", "a")}, "'a' is given twice"),
        ({"special_tokens": ("a",)}, "--special-tokens: requires a built-in tokenizer"),
        ({"tokenizer": "bytes", "features": ("tfidf",)}, "--features tfidf: requires a learned"),
        (
            {"tokenizer": "huggingface", "features": ("bow",)},
            "--tokenizer huggingface does not have",
        ),
        ({"tokenizer": "words", "features": ("text",)}, "--tokenizer words: has no effect with"),
        ({"max_length": 3}, "--max-length: has no effect without the feature tokens; add it"),
        ({"tokenizer": "words", "ngrams": 2}, "--ngrams: has no effect without"),
        ({"features": ("bow",), "tfidf": "dense"}, "--tfidf dense: has no effect without"),
        ({"features": ("bow",), "tfidf_norm": "none"}, "--tfidf-norm none: has no effect without"),
        ({"tokenizer": "bytes", "vocab_size": 9}, "--vocab-size: requires a learned vocabulary"),
        ({"min_frequency": 9}, "--min-frequency: requires .* --tokenizer words, whitespace, ch"),
        ({"tokenizer": "words", "edge_tokens": "no"}, "--edge-tokens no: requires a tokenizer"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ConfigError, match=message):
        TextOptions(**options)


@pytest.mark.parametrize(
    ("options", "outcome", "splitter", "learns"),
    [
        ({}, {"text"}, None, False),
        ({"tokenizer": "words"}, {"tokens"}, "words", True),
        ({"features": ("tfidf",)}, {"tfidf"}, "words", True),
        ({"tokenizer": "bytes"}, {"tokens"}, "bytes", False),
        ({"tokenizer": "sentencepiece"}, {"tokens"}, "sentencepiece", False),
        (
            {"tokenizer": "chars", "features": ("text",), "max_tokens": 9},
            {"text"},
            "chars",
            False,
        ),
    ],
)
def test_what_options_mean(options, outcome, splitter, learns):
    found = TextOptions(**options)
    assert (found.output_features, found.splitter, found.learns) == (outcome, splitter, learns)
    assert found.filters == ("max_tokens" in options)


# ---- where it runs


def test_versions_name_what_shapes_bytes():
    def names(**options):
        return set(TextEncoder(options=TextOptions(**options)).versions())

    assert names() == names(tokenizer="bytes") == names(tokenizer="chars") == set()
    assert names(tokenizer="words") == {"pyarrow"}
    assert names(tokenizer="whitespace", unicode="nfc") == {"unicode"}
    assert names(tokenizer="huggingface") == {"tokenizers"}
    assert names(tokenizer="sentencepiece") == {"sentencepiece"}


def test_travels_to_encoder_processes():
    encoder = TextEncoder(options=TextOptions(features=EVERYTHING))
    assert isinstance(encoder, Encoder)
    assert pickle.loads(pickle.dumps(encoder)) == encoder


def test_imports_no_more_than_it_takes():
    code = (
        "import sys, recordmill.transforms.encoders.text.text\n"
        "import recordmill.transforms.encoders.text.text_lengths\n"
        "import recordmill.transforms.encoders.text.duplicate_texts\n"
        "heavy = {'apache_beam', 'tensorflow', 'pandas', 'tokenizers', 'sentencepiece', 'PIL'}\n"
        "print(*heavy & sys.modules.keys())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""
