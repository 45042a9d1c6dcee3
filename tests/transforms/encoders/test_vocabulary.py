"""What is learned from train, and the ids and weights that it gives, against TensorFlow and
scikit-learn.
"""

import io
import math
import random
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from recordmill.errors import RunError
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.tokenization.text_options import LEARNING, TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from recordmill.transforms.encoders.tokenization.vocabulary import (
    IDF_FILE,
    TOKENS_FILE,
    Vocabulary,
    VocabularyAnalysis,
    load_vocabulary,
)
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Analysis
from tests.texts import SAMPLES, context_of, listed, rows_of, sms, store, strings
from tests.transforms.encoders.test_words import standardize

MESSAGES = [text for _, text in sms()]


def learned(texts, **options):
    analysis = VocabularyAnalysis(options=TextOptions(**options))
    counts = analysis.count(rows_of(texts))
    return analysis.learn(analysis.select(counts), records=len(texts))


def lines_of(files):
    return files[TOKENS_FILE].decode().split("\n")[:-1]


def encoded(texts, folder, files, **options):
    encoder = TextEncoder(options=TextOptions(**options))
    return encoder.encode(rows_of(texts), context_of(folder, files)).columns


def ids_of(texts, folder, files, **options):
    return encoded(texts, folder, files, features=("tokens",), **options)["tokens"].to_pylist()


# ---- what is learned


def test_an_analysis_it_is():
    analysis = VocabularyAnalysis(options=TextOptions(tokenizer="words"))
    assert isinstance(analysis, Analysis)
    assert analysis.columns == ("text",)


@pytest.mark.parametrize("tokenizer", LEARNING)
@pytest.mark.parametrize("ngrams", [1, 3])
def test_counts_are_right(tokenizer, ngrams):
    texts = [*SAMPLES, *MESSAGES[:300]]
    options = TextOptions(tokenizer=tokenizer, features=("tfidf",), ngrams=ngrams)
    counts = VocabularyAnalysis(options=options).count(rows_of(texts))
    times, documents = Counter(), Counter()
    for tokens in listed(tokenize(strings(texts), tokenizer)):
        terms = [
            " ".join(tokens[at : at + size])
            for size in range(1, ngrams + 1)
            for at in range(len(tokens) - size + 1)
        ]
        times.update(terms)
        documents.update(set(terms))
    found = {row["item"]: (row["count"], row["documents"]) for row in counts.to_pylist()}
    assert len(found) == len(counts)
    broken = {term for term in times if "\n" in term or "\r" in term}
    assert bool(broken) == (tokenizer == "chars")
    assert found == {
        term: (times[term], documents[term]) for term in times.keys() - broken - {"[UNK]"}
    }
    assert counts.schema.types == [pa.string(), pa.int64(), pa.int64()]


def test_documents_are_counted_only_for_tfidf():
    counts = VocabularyAnalysis(options=TextOptions(tokenizer="words")).count(rows_of(["a b a"]))
    assert counts.schema.names == ["item", "count"]


def test_the_order_is_by_count_and_then_by_utf8():
    texts = ["b b ä a 😀 ﬁ z", "z Z b"]
    assert lines_of(learned(texts, tokenizer="whitespace")) == ["b", "z", "Z", "a", "ä", "ﬁ", "😀"]
    assert lines_of(learned(texts, tokenizer="words")) == ["b", "z", "a", "ä", "ﬁ"]
    assert lines_of(learned(texts, tokenizer="words", vocab_size=3)) == ["b", "z", "a"]
    assert lines_of(learned(texts, tokenizer="words", min_frequency=3)) == ["b", "z"]


def test_special_tokens_come_first_and_once():
    texts = ["[SEP] a a b [UNK] [UNK]"]
    options = {"tokenizer": "whitespace", "special_tokens": ("[CLS]", "[SEP]")}
    assert lines_of(learned(texts, **options)) == ["[CLS]", "[SEP]", "a", "b"]
    assert lines_of(learned(texts, **options, min_frequency=2, vocab_size=1)) == [
        *("[CLS]", "[SEP]", "a")
    ]


def test_line_breaks_are_no_lines():
    assert lines_of(learned(["a\nb\r\na c"], tokenizer="chars")) == ["a", " ", "b", "c"]


@pytest.mark.parametrize("texts", [[], ["", " \n"], ["😀 ..."]])
def test_nothing_to_learn(texts):
    with pytest.raises(RunError, match=f"no token in the {len(texts)} records of train"):
        learned(texts, tokenizer="words")


def test_nothing_is_frequent_enough():
    with pytest.raises(RunError, match="occurs 3 times: lower --min-frequency"):
        learned(["a b"], tokenizer="words", min_frequency=3)


def add_up(parts):
    table = pa.Table.from_batches(parts)
    sums = [name for name in table.column_names if name != "item"]
    grouped = table.group_by("item").aggregate([(name, "sum") for name in sums])
    columns = [grouped["item"], *(grouped[f"{name}_sum"] for name in sums)]
    return pa.table(columns, names=["item", *sums]).combine_chunks().to_batches()[0]


@given(
    texts=st.lists(st.text("abc ", max_size=12), min_size=1, max_size=12),
    parts=st.integers(1, 4),
    seed=st.integers(0, 100),
    vocab_size=st.integers(1, 6),
    min_frequency=st.integers(1, 3),
)
def test_parts_and_buckets_do_not_matter(texts, parts, seed, vocab_size, min_frequency):
    options = {
        "tokenizer": "whitespace",
        "features": ("tfidf",),
        "vocab_size": vocab_size,
        "min_frequency": min_frequency,
        "special_tokens": ("abc",),
    }
    analysis = VocabularyAnalysis(options=TextOptions(**options))
    try:
        at_once = learned(texts, **options)
    except RunError:
        return
    counted = [analysis.count(rows_of(texts[part::parts])) for part in range(parts)]
    counts = add_up(counted)
    buckets = batch.scale(batch.hash_strings(counts["item"]), 3)
    selected = [analysis.select(counts.filter(pa.array(buckets == number))) for number in range(3)]
    random.Random(seed).shuffle(selected)
    assert analysis.learn(batch.concat(selected), records=len(texts)) == at_once


def test_the_inverse_document_frequency_is_that_which_is_documented():
    files = learned(
        ["a b a", "b", "c [CLS]"],
        tokenizer="whitespace",
        features=("tfidf",),
        special_tokens=("[CLS]", "[X]"),
    )
    assert lines_of(files) == ["[CLS]", "[X]", "a", "b", "c"]
    weights = np.load(io.BytesIO(files[IDF_FILE]))
    assert weights.dtype == np.float64
    expected = [math.log(4 / (1 + documents)) + 1 for documents in (1, 0, 1, 2, 1)]
    np.testing.assert_allclose(weights, expected, rtol=1e-15)


# ---- ids


def vectorize(folder, files, texts, *, split, prepare, **options):
    (path,) = [
        artifact.path for artifact in store(folder, {TOKENS_FILE: files[TOKENS_FILE]}).values()
    ]
    layer = tf.keras.layers.TextVectorization(
        standardize=prepare, split=split, vocabulary=path, ragged=True, **options
    )
    return layer(tf.constant(texts, tf.string)).to_list()


@pytest.mark.parametrize(
    ("tokenizer", "split", "prepare"),
    [
        ("words", "whitespace", standardize),
        ("whitespace", "whitespace", None),
        ("chars", "character", None),
    ],
)
def test_ids_are_those_of_text_vectorization(tmp_path, tokenizer, split, prepare):
    texts = [*MESSAGES, *SAMPLES, "[CLS] [UNK] unheard-of"]
    options = {"tokenizer": tokenizer, "vocab_size": 900, "special_tokens": ("[CLS]", "x")}
    files = learned(MESSAGES[:3000] + SAMPLES, **options)
    ids = ids_of(texts, tmp_path, files, **options)
    assert ids == vectorize(tmp_path, files, texts, split=split, prepare=prepare)
    assert max(map(max, filter(None, ids))) == 1 + len(lines_of(files))  # all of it is in use
    assert sum(row.count(1) for row in ids) > 10


def test_ids_of_plain_english_are_those_of_the_layer_as_it_comes(tmp_path):
    """Without our pattern, where punctuation is of ASCII and stands between words only."""
    texts = ["Free entry in a weekly comp, to win!", "Ok... (lol)", "FREE entry"]
    files = learned(texts, tokenizer="words")
    layer = {"split": "whitespace", "prepare": "lower_and_strip_punctuation"}
    assert ids_of(texts, tmp_path, files, tokenizer="words") == vectorize(
        tmp_path, files, texts, **layer
    )


@pytest.mark.parametrize("buckets", [1, 2, 7, 1000])
def test_ids_are_those_of_string_lookup_for_any_number_of_buckets(tmp_path, buckets):
    options = {"tokenizer": "words", "vocab_size": 50, "oov_buckets": buckets}
    texts = [*MESSAGES[:1000], *SAMPLES]
    files = learned(texts, **options)
    artifacts = store(tmp_path, files)
    layer = tf.keras.layers.StringLookup(
        vocabulary=artifacts[TOKENS_FILE].path, mask_token="", num_oov_indices=buckets
    )
    tokens = listed(tokenize(strings(texts), "words"))
    expected = layer(tf.ragged.constant(tokens, dtype=tf.string)).to_list()
    ids = ids_of(texts, tmp_path, files, **options)
    assert ids == expected
    in_use = {one for row in ids for one in row if one <= buckets}
    assert len(in_use) == buckets or (buckets == 1000 and len(in_use) > 900)


def test_padding_is_no_token(tmp_path):
    files = learned(["a"], tokenizer="words")
    found = encoded(["a a b", "", "a"], tmp_path, files, tokenizer="words", max_length=2)
    assert found["tokens"].to_pylist() == [[2, 2], [0, 0], [2, 0]]
    assert found["tokens/mask"].to_pylist() == [[1, 1], [0, 0], [1, 0]]
    assert found["tokens/length"].to_pylist() == [2, 0, 1]


def test_words_that_train_has_not_are_unknown(tmp_path):
    files = learned(["seen"], tokenizer="words")
    assert ids_of(["seen unseen"], tmp_path, files, tokenizer="words") == [[2, 1]]


# ---- terms


def fitted(texts, analyzer, **options):
    return TfidfVectorizer(analyzer=analyzer, dtype=np.float64, **options).fit(texts)


def analyzer_of(tokenizer, ngrams):
    def analyze(text):
        (tokens,) = listed(tokenize(strings([text]), tokenizer))
        return [
            " ".join(tokens[at : at + size])
            for size in range(1, ngrams + 1)
            for at in range(len(tokens) - size + 1)
        ]

    return analyze


@pytest.mark.parametrize("norm", ["l2", "none"])
@pytest.mark.parametrize(("tokenizer", "ngrams"), [("words", 1), ("words", 2), ("whitespace", 1)])
def test_weights_are_those_of_scikit_learn(tmp_path, tokenizer, ngrams, norm):
    train, texts = MESSAGES[:400], [*MESSAGES[300:500], "", "unheard-of"]
    options = {"features": ("tfidf",), "ngrams": ngrams, "tfidf_norm": norm}
    options |= {"tokenizer": tokenizer, "vocab_size": 10**6}
    files = learned(train, **options)
    theirs = fitted(train, analyzer_of(tokenizer, ngrams), norm=None if norm == "none" else norm)
    assert sorted(lines_of(files)) == sorted(theirs.vocabulary_)
    expected = theirs.transform(texts).toarray()[
        :, [theirs.vocabulary_[t] for t in lines_of(files)]
    ]
    found = encoded(texts, tmp_path, files, **options)
    dense = np.zeros(expected.shape)
    for row, (indices, values) in enumerate(
        zip(found["tfidf/indices"].to_pylist(), found["tfidf/values"].to_pylist(), strict=True)
    ):
        assert indices == sorted(set(indices))
        dense[row, indices] = values
    limit = 1e-6 * max(1, expected.max())
    np.testing.assert_allclose(dense, expected, rtol=0, atol=limit)


def test_dense_weights_are_the_sparse_ones(tmp_path):
    options = {"features": ("tfidf",), "vocab_size": 300}
    files = learned(MESSAGES[:500], **options)
    sparse = encoded(MESSAGES[:200], tmp_path, files, **options)
    dense = encoded(MESSAGES[:200], tmp_path, files, **options, tfidf="dense")["tfidf"]
    assert dense.type == pa.list_(pa.float32(), 300)
    table = np.asarray(dense.values).reshape(200, 300)
    for row, (indices, values) in enumerate(
        zip(sparse["tfidf/indices"].to_pylist(), sparse["tfidf/values"].to_pylist(), strict=True)
    ):
        assert np.flatnonzero(table[row]).tolist() == indices
        assert table[row, indices].tolist() == values


@pytest.mark.parametrize("ngrams", [1, 3])
def test_a_bag_is_what_text_vectorization_counts(tmp_path, ngrams):
    options = {"features": ("bow",), "ngrams": ngrams, "vocab_size": 500}
    texts = [*MESSAGES[:400], *SAMPLES]
    files = learned(texts, **options)
    found = encoded(texts, tmp_path, files, **options)
    path = store(tmp_path, files)[TOKENS_FILE].path
    layer = tf.keras.layers.TextVectorization(
        standardize=standardize, vocabulary=path, output_mode="count", ngrams=ngrams
    )
    expected = layer(tf.constant(texts)).numpy()[:, 1:]  # the first is of unknown ones
    bags = zip(found["bow/indices"].to_pylist(), found["bow/counts"].to_pylist(), strict=True)
    for (indices, counts), row in zip(bags, expected, strict=True):
        assert np.flatnonzero(row).tolist() == indices
        assert row[indices].tolist() == counts


# ---- files


def test_files_are_read_once_per_process(tmp_path):
    artifacts = store(tmp_path, learned(["a b"], features=("tfidf",)))
    one = load_vocabulary(artifacts)
    assert load_vocabulary(dict(artifacts)) is one
    assert one.lines.to_pylist() == ["a", "b"]
    assert one.idf is not None


def test_a_file_that_changed_ends_the_run(tmp_path):
    artifacts = store(tmp_path, learned(["changing"], tokenizer="words"))
    with open(artifacts[TOKENS_FILE].path, "a") as file:
        file.write("more\n")
    message = f"{artifacts[TOKENS_FILE].path} changed while the job ran"
    with pytest.raises(RunError, match=re.escape(message)):
        load_vocabulary(artifacts)


def test_nothing_to_find():
    vocabulary = Vocabulary(lines=strings(["a"]))
    assert vocabulary.ids(strings([]), oov_buckets=3).tolist() == []
    assert vocabulary.find(strings(["b", "a"])).tolist() == [-1, 0]
