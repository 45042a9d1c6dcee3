"""MinHash signatures: fixed values, and estimates as good as their number of values allows."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from recordmill.transforms.near_duplicates import text_minhash
from recordmill.transforms.near_duplicates.text_minhash import estimate_similarity, minhash


def similarity(one, other):
    signatures = minhash(pa.array([one, other]))
    return estimate_similarity(signatures[0], signatures[1])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("One two THREE four five six", "one, two: three four\nfive six!", True),
        ("ﬁne straße", "fine STRASSE", True),
        ("a b", "A  b.", True),
        ("a b", "b a", False),
        ("a b", "a b c", False),
        ("one", "one", True),
        ("", " \n", True),
        ("!!", "! !", True),
        ("!!", "??", False),
        ("!!", "", False),
        ("one two three four", "one two three four one", False),
    ],
)
def test_texts_that_are_the_same(one, other, same):
    assert similarity(one, other) == same


def test_a_text_is_signed_alike_in_any_company(monkeypatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["a", "b", "c", "dé"], size)) for size in range(60)]
    together = minhash(pa.array(texts))
    alone = np.concatenate([minhash(pa.array([text])) for text in texts])
    assert np.array_equal(together, alone)
    monkeypatch.setattr(text_minhash, "_BLOCK", 7)
    assert np.array_equal(minhash(pa.array(texts)), together)


def test_values_stay():
    signatures = minhash(pa.array(["", "one", "The quick brown fox jumps over the lazy dog."]))
    assert signatures.dtype == np.uint32
    assert signatures.shape == (3, 128)
    assert text_minhash.TEXT_HASH == "minhash-128-words-5/1"
    assert xxhash.xxh3_64_hexdigest(signatures.astype("<u4").tobytes()) == "91f8c3bd367988fa"


def test_no_texts():
    assert minhash(pa.array([], pa.string())).shape == (0, 128)


def test_estimates_have_the_error_of_128_values():
    rng = np.random.default_rng(1)
    texts, similarities = [], []
    for _ in range(200):
        words = rng.integers(0, 10_000, 300).astype(str)
        other = words.copy()
        other[rng.integers(0, 300, rng.integers(1, 60))] = "other"
        one, two = (
            {tuple(shingle) for shingle in np.lib.stride_tricks.sliding_window_view(text, 5)}
            for text in (words, other)
        )
        texts += [" ".join(words), " ".join(other)]
        similarities.append(len(one & two) / len(one | two))
    signatures = minhash(pa.array(texts))
    expected = np.array(similarities)
    errors = estimate_similarity(signatures[::2], signatures[1::2]) - expected
    deviation = np.sqrt((expected * (1 - expected) / 128).mean())
    assert abs(errors.mean()) < 4 * deviation / np.sqrt(200)
    assert 0.85 * deviation < errors.std() < 1.15 * deviation
