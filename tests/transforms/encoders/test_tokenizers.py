"""Texts split, joined to n-grams, normalised, hashed and varied, many rows at a time."""

import collections
import itertools
import string
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from recordmill.transforms.encoders.farmhash import fingerprint64
from recordmill.transforms.encoders.text.duplicate_texts import SameText, duplicate_hash
from recordmill.transforms.encoders.text.text_augment import augment_words
from recordmill.transforms.encoders.tokenization.terms import count_by_row, terms_of
from recordmill.transforms.encoders.tokenization.tokenizers import (
    characters,
    lower,
    normalize,
    split_whitespace,
    tokenize,
)
from recordmill.transforms.model import batch
from recordmill.transforms.model.ragged import Flat, string_array, string_bytes
from tests.texts import SAMPLES, is_assigned, listed, rows_of, sms, strings

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\t"), max_size=30)
TEXTS = st.lists(TEXT, max_size=6)


@given(TEXTS)
@example(SAMPLES)
def test_whitespace_is_that_of_tensorflow(texts):
    expected = tf.strings.split(tf.constant(texts, tf.string)).to_list()
    found = [[piece.encode() for piece in row] for row in listed(split_whitespace(strings(texts)))]
    assert found == expected


def test_whitespace_is_that_of_ascii():
    text = "a\x1cb\u00a0c\u3000d\u2028e f\x0bg"
    assert listed(split_whitespace(strings([text]))) == [["a\x1cb\u00a0c\u3000d\u2028e", "f", "g"]]


@given(TEXTS)
@example(SAMPLES)
def test_characters_are_code_points(texts):
    assert listed(characters(strings(texts))) == [list(text) for text in texts]


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "chars"])
@given(texts=TEXTS, more=TEXTS)
def test_rows_do_not_know_of_each_other(tokenizer, texts, more):
    together = listed(tokenize(strings(texts + more), tokenizer))
    apart = [listed(tokenize(strings(some), tokenizer)) for some in (texts, more)]
    assert together == apart[0] + apart[1]
    sliced = strings([*texts, *more]).slice(len(texts))
    assert listed(tokenize(sliced, tokenizer)) == apart[1]


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "chars"])
def test_no_token_is_there_twice_and_codes_are_whole_numbers(tokenizer):
    coded = tokenize(strings(SAMPLES), tokenizer)
    distinct = coded.distinct.to_pylist()
    assert len(set(distinct)) == len(distinct)
    assert (coded.codes.dtype, coded.offsets.dtype) == (np.int64, np.int64)


@given(TEXTS)
@example(SAMPLES)
def test_lower_case_is_that_of_python(texts):
    # Letters that later versions of Unicode added are lower case in Arrow only.
    texts = ["".join(filter(is_assigned, text)) for text in texts]
    assert lower(strings(texts)).to_pylist() == [text.lower() for text in texts]


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_normal_forms(form):
    texts = [*SAMPLES, "e\u0301", "ﬁ ½ ①", "\u1100\u1161", "plain"]
    expected = [unicodedata.normalize(form.upper(), text) for text in texts]
    assert normalize(strings(texts), form).to_pylist() == expected
    assert normalize(strings(texts), "none").to_pylist() == texts


@given(TEXTS, st.integers(0, 3))
def test_arrays_from_and_to_bytes(texts, start):
    array = string_array(texts)
    assert array.to_pylist() == texts
    assert array.type == pa.string()
    part = array.slice(start)
    data, edges = string_bytes(part)
    found = [bytes(data[a:b]).decode() for a, b in itertools.pairwise(edges)]
    assert found == texts[start:]
    flat = Flat.of(part)
    assert bytes(flat.data).decode() == "".join(f"{text} " for text in texts[start:])


# ---- n-grams


def grams(tokens, most):
    return [
        " ".join(tokens[start : start + length])
        for length in range(1, most + 1)
        for start in range(len(tokens) - length + 1)
    ]


@given(st.lists(st.text("ab ", max_size=12), max_size=5), st.integers(1, 5))
def test_ngrams(texts, most):
    coded = split_whitespace(strings(texts))
    terms = terms_of(coded, ngrams=most)
    found = [[] for _ in texts]
    items = terms.distinct.take(pa.array(terms.codes)).to_pylist()
    for row, item in zip(terms.rows.tolist(), items, strict=True):
        found[row].append(item)
    expected = [grams(tokens, most) for tokens in listed(coded)]
    assert [sorted(row) for row in found] == [sorted(row) for row in expected]
    distinct = terms.distinct.to_pylist()
    assert len(set(distinct)) == len(distinct)


def test_counts_by_row():
    codes, rows = np.array([2, 0, 2, 1, 2]), np.array([0, 0, 0, 2, 2])
    counts = count_by_row(codes, rows, size=3, number=4)
    assert counts.offsets.tolist() == [0, 2, 2, 4, 4]
    assert counts.indices.tolist() == [0, 2, 1, 2]
    assert counts.counts.tolist() == [1, 2, 1, 1]
    none = count_by_row(codes[:0], rows[:0], size=0, number=2)
    assert none.offsets.tolist() == [0, 0, 0]


# ---- FarmHash


def by_tensorflow(texts):
    # Buckets of two primes tell almost all of 64 bits.
    return [
        tf.strings.to_hash_bucket_fast(tf.constant(texts, tf.string), prime).numpy()
        for prime in (2**62 - 57, 2**61 - 1)
    ]


def agrees(texts):
    hashes = fingerprint64(strings(texts))
    for prime, expected in zip((2**62 - 57, 2**61 - 1), by_tensorflow(texts), strict=True):
        np.testing.assert_array_equal(hashes % np.uint64(prime), expected.astype(np.uint64))


def test_fingerprints_of_every_length_are_those_of_tensorflow():
    letters = string.ascii_letters + string.digits
    agrees([(letters * 8)[start : start + length] for start in (0, 7) for length in range(330)])


@given(st.lists(TEXT | st.text(min_size=60, max_size=300), min_size=1, max_size=8))
def test_fingerprints_of_any_text_are_those_of_tensorflow(texts):
    texts = [text.encode(errors="replace").decode() for text in texts]
    agrees(texts)


def test_fingerprints_stay_what_they_are():
    # Literal, as datasets hang on them.
    hashes = fingerprint64(strings(["", "a", "hello", "x" * 20, "y" * 50, "z" * 200]))
    assert [f"{value:016x}" for value in hashes.tolist()] == [
        *("9ae16a3b2f90404f", "b3454265b6df75e3", "b48be5a931380ce8"),
        *("7241ce1f8ef74dc4", "155117882c131013", "79233f659ccc235c"),
    ]


# ---- what is the same


def test_texts_that_differ_in_case_whitespace_or_form_are_the_same():
    same = ["Straße  é ﬁ", "STRASSE e\u0301\nfi", " strasse \u00e9\u00a0fi\t", "strasse É FI"]
    others = ["strasse e fi", "strasseé fi", "", " ", "a b", "ab"]
    hashes = duplicate_hash(strings(same + others)).to_pylist()
    assert len(set(hashes[:4])) == 1
    assert len(set(hashes[4:])) == 5  # nothing and a space are the same
    assert hashes[0] not in hashes[4:]
    assert all(len(one) == 32 and set(one) <= set(string.hexdigits) for one in hashes)
    # Literal, as splits hang on it.
    assert duplicate_hash(strings(["a b"])).to_pylist() == ["e932d71afddc92588044f8a624582c4c"]


@given(TEXT)
def test_ascii_is_folded_as_all_text_is(text):
    ascii_only = text.encode("ascii", "ignore").decode()
    folded = unicodedata.normalize("NFKC", ascii_only).casefold()
    expected = duplicate_hash(strings([" ".join(folded.split())]))
    assert duplicate_hash(strings([ascii_only])) == expected


def test_names_of_rows():
    rows = rows_of(["A", "a ", "b"])
    names = SameText(mode="drop").names(rows).to_pylist()
    assert names[0] == names[1] != names[2]
    assert names == duplicate_hash(rows["text"]).to_pylist()


# ---- copies


def varied(texts, names, *, copies=None, seed=3, keys=None):
    rows = rows_of(texts, copies=copies or [1] * len(texts), keys=keys)
    return augment_words(rows["text"], rows, names, seed=seed).to_pylist()


MESSAGES = [text for _, text in sms()][:2000]


def test_only_copies_are_varied():
    copies = [0, 1, 2, 0] * 500
    found = varied(MESSAGES, ("word-dropout", "word-swap"), copies=copies)
    for copy, text, changed in zip(copies, MESSAGES, found, strict=True):
        assert copy or changed == text
    changes = sum(
        changed.split() != text.split() for text, changed in zip(MESSAGES, found, strict=True)
    )
    assert changes > 700
    assert varied(MESSAGES, ()) == MESSAGES


def test_what_is_drawn_is_of_seed_key_and_copy_alone():
    names = ("word-dropout", "word-swap")
    keys = [f"k{row}" for row in range(len(MESSAGES))]
    all_of_them = varied(MESSAGES, names, keys=keys)
    assert varied(MESSAGES[700:720], names, keys=keys[700:720]) == all_of_them[700:720]
    assert varied(MESSAGES, names[::-1], keys=keys) == all_of_them
    assert varied(MESSAGES, names, keys=keys, seed=4) != all_of_them
    assert varied(MESSAGES, names, keys=keys, copies=[2] * len(MESSAGES)) != all_of_them
    assert varied(MESSAGES, names, keys=keys[::-1]) != all_of_them


def test_dropout_drops_one_word_in_ten_and_never_all():
    texts = ["w " * 200] * 100 + ["one"] * 300 + ["a b"] * 300 + ["", " \n"] * 10
    found = varied(texts, ("word-dropout",))
    kept = sum(len(text.split()) for text in found[:100]) / 20_000
    assert abs(kept - 0.9) < 0.01
    assert found[100:400] == ["one"] * 300
    assert set(found[400:700]) == {"a b", "a", "b"}
    assert set(found[700:]) == {""}


def test_swapping_moves_words_by_one_place():
    words = [str(number) for number in range(500)]
    found = varied([" ".join(words)] * 50, ("word-swap",))
    moved = 0
    for text in found:
        places = np.array(text.split(), int) - np.arange(500)
        assert np.abs(places).max() == 1
        assert sorted(text.split(), key=int) == words
        moved += (places == 1).sum()
    assert 0.07 < moved / (50 * 500) < 0.11
    assert varied(["", "x", "a b"], ("word-swap",), copies=[1, 1, 1])[:2] == ["", "x"]


def test_draws_stay_what_they_are():
    # Literal, as datasets hang on them.
    text = "one two three four five six seven eight nine ten"
    keys = [f"k{number}" for number in range(3)]
    assert varied([text] * 3, ("word-dropout", "word-swap"), keys=keys) == [
        "one two four five seven eight nine",
        "one two four five six seven eight ten",
        "one two three four five six seven eight nine ten",
    ]
    (swapped,) = varied([text], ("word-swap",), keys=["k3"])
    assert swapped == "one three two four five six seven eight nine ten"


def test_text_without_spaces_varies_by_character():
    texts = [
        "今天天气很好我们去公园散步吧",
        "ひらがなとコンピューターの文です",
        "ภาษาไทยไม่มีช่องว่าง",
    ] * 30
    dropped = varied(texts, ("word-dropout",))
    swapped = varied(texts, ("word-swap",))
    assert sum(a != b for a, b in zip(texts, dropped, strict=True)) > 50
    assert sum(a != b for a, b in zip(texts, swapped, strict=True)) > 50
    for text, fewer, moved in zip(texts, dropped, swapped, strict=True):
        assert 0 < len(fewer) <= len(text)
        assert " " not in fewer + moved
        assert sorted(moved) == sorted(text)
        whole = "コンピューター"  # a run of Katakana is a word
        assert (whole in moved) == (whole in text)


SPACED = st.text("ab é한.,- \n")
MIXED = st.text("ab. 你好カナก\u0e31 \n")


@given(st.lists(SPACED), st.lists(MIXED, min_size=1), st.integers(0, 99))
def test_other_texts_of_a_batch_do_not_matter_to_copies(spaced, mixed, seed):
    names = ("word-dropout", "word-swap")
    keys = [f"k{place}" for place in range(len(spaced) + len(mixed))]
    together = varied(spaced + mixed, names, keys=keys, seed=seed)
    assert together[: len(spaced)] == varied(spaced, names, keys=keys[: len(spaced)], seed=seed)
    for text, found in zip(spaced + mixed, together, strict=True):
        assert bool(found) == bool(text.split())
        assert not (collections.Counter("".join(found.split())) - collections.Counter(text))
        assert found.split(" ") == found.split() or not found
        assert len(found.split()) <= len(text.split())


@given(st.lists(MIXED))
def test_spaces_stay_where_they_are_between_swapped_words(texts):
    found = varied(texts, ("word-swap",))
    assert [len(one.split()) for one in found] == [len(one.split()) for one in texts]


def test_a_column_of_hashes_is_taken_as_it_is():
    rows = rows_of(["a b c d e f g h"] * 50, copies=[1] * 50)
    with_hash = batch.with_hash(rows)
    names = ("word-dropout",)
    assert augment_words(rows["text"], rows, names, seed=1) == augment_words(
        rows["text"], with_hash, names, seed=1
    )
