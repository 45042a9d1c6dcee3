"""Words, against the published pattern in TensorFlow, and the rules of Unicode."""

import unicodedata

import pyarrow.compute as pc
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from recordmill.transforms.encoders.tokenization.tokenizers import words
from recordmill.transforms.encoders.tokenization.word_pattern import (
    SPLIT_WORDS,
    SPLIT_WORDS_REWRITE,
)
from recordmill.transforms.encoders.tokenization.words import find_words
from tests.texts import SAMPLES, is_assigned, listed, sms, strings
from tests.unicode_words import break_class, words_by_unicode

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# What stands side by side decides, so that few characters meet often.
KNOTS = st.text(st.sampled_from("aA1_'\".:,; -\n\u4e00\u3042\u0e01\u0301\u200d\u0663\U0001f600"))
KNOTS_THAT_DIFFER = st.text(st.sampled_from("a1_'\". \u05d0\u05b8\u30ab\u30fc\uff9e"))

_BLOCKS = {*range(0x3400, 0xA000), *range(0xAC00, 0xD7A4), *range(0x17000, 0x19000)}
_BLOCKS |= {*range(0x20000, 0x33480)}


def standardize(texts):
    """Normalize as a model does before it splits at whitespace."""
    no_nul = tf.strings.regex_replace(texts, r"\x00", " ")  # TensorFlow would end the text there
    lowered = tf.strings.lower(no_nul, encoding="utf-8")
    return tf.strings.regex_replace(lowered, SPLIT_WORDS, SPLIT_WORDS_REWRITE)


def by_tensorflow(texts):
    rows = tf.strings.split(standardize(tf.constant(texts, tf.string))).to_list()
    return [[token.decode() for token in row] for row in rows]


def by_pattern(texts):
    """The pattern's words without TensorFlow, case as it is."""
    spaced = pc.replace_substring_regex(
        strings(texts), pattern=SPLIT_WORDS, replacement=SPLIT_WORDS_REWRITE
    )
    return [[word for word in text.split(" ") if word] for text in spaced.to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("don't DON\u2019T 'quoted'", ["don't", "don\u2019t", "quoted"]),
        ("3.14 1,000.50 10:30 5. a.m. e.g", ["3.14", "1,000.50", "10", "30", "5", "a.m", "e.g"]),
        ("snake_case __init__ ___", ["snake_case", "__init__"]),
        ("foo.bar@example.com", ["foo.bar", "example.com"]),
        ("中文 ABC中", ["中", "文", "abc", "中"]),
        ("ひらがなカタカナ", ["ひ", "ら", "が", "な", "カタカナ"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("cafe\u0301 हिन्दी", ["cafe\u0301", "हिन्दी"]),
        ('צה"ל', ['צה"ל']),
        ("😀👍🏽 ½ €", []),
        ("ΟΔΥΣΣΕΥΣ İ", ["οδυσσευς", "i\u0307"]),
        ("a\0b", ["a", "b"]),
        ("", []),
    ],
)
def test_words(text, expected):
    assert listed(words(strings([text]))) == [expected]


@pytest.mark.long
def test_words_are_those_of_tensorflow():
    texts = [*SAMPLES, *(text for _, text in sms())]
    for text, found, expected in zip(
        texts, listed(words(strings(texts))), by_tensorflow(texts), strict=True
    ):
        assert found == expected, text


def is_public(character):
    return is_assigned(character) and unicodedata.category(character) not in ("Cs", "Co")


@given(st.lists(TEXTS | KNOTS | KNOTS_THAT_DIFFER, max_size=5))
def test_words_of_any_text_are_those_of_tensorflow(texts):
    # Letters that later versions of Unicode added are lower case in one library only.
    texts = ["".join(filter(is_public, text)) for text in texts]
    assert listed(words(strings(texts))) == by_tensorflow(texts)


@given(st.lists(TEXTS | KNOTS | KNOTS_THAT_DIFFER, max_size=5))
@example(SAMPLES)
def test_words_of_any_text_are_those_of_the_pattern(texts):
    assert listed(find_words(strings(texts))) == by_pattern(texts)


@pytest.mark.parametrize("text", SAMPLES)
def test_words_are_those_of_unicode(text):
    assert listed(find_words(strings([text]))) == [words_by_unicode(text)]


@given(KNOTS)
def test_words_of_any_knot_are_those_of_unicode(text):
    assert listed(find_words(strings([text]))) == [words_by_unicode(text)]


@pytest.mark.long
def test_characters_are_of_the_class_that_unicode_says_but_for_the_documented():
    # Of the large blocks of letters every 32nd.
    points = (chr(point) for point in range(0x110000) if point % 32 == 0 or point not in _BLOCKS)
    # RE2 and the package regex have other versions of Unicode, which add characters.
    known = [one for one in points if is_public(one)]
    differ = set()
    for around in "a1 ":
        texts = [around + one + around for one in known]
        found = listed(find_words(strings(texts)))
        expected = map(words_by_unicode, texts)
        differ |= {
            one for one, *both in zip(known, found, expected, strict=True) if both[0] != both[1]
        }
    by_class = {}
    for one in differ:
        kind = f"{break_class(one)} {unicodedata.category(one)}"
        by_class.setdefault(kind, set()).add(one)
    assert by_class.pop("ALetter Lm") <= set("\u3005\u303b\U00016fe0\U00016fe1\U00016fe3")
    assert by_class.keys() <= {
        *("ALetter Sk", "ALetter Po", "ALetter Pd", "ALetter Cf"),
        *("Numeric Cf", "Numeric No"),
    }
    assert len(by_class["ALetter Sk"]) < 60
    assert len(differ) < 100


def test_a_text_has_the_same_words_whatever_stands_beside_it():
    together = listed(words(strings(SAMPLES)))
    assert together == [listed(words(strings([text])))[0] for text in SAMPLES]
    sliced = strings(["x y", *SAMPLES, "z"]).slice(1, len(SAMPLES))
    assert listed(words(sliced)) == together


@pytest.mark.parametrize("unit", ["_", "a.", "a_", "'", "1,", "\u0301", "_\u0301", '\u05d0"', "中"])
def test_long_runs_take_no_squared_time(unit):
    (found,) = listed(words(strings([unit * 300_000])))
    assert len(found) in (0, 1, 300_000)


@pytest.mark.parametrize("unit", ["_", "a.", "a_", "'", "1,", "_\u0301", '\u05d0"', "中"])
def test_long_runs_take_the_pattern_no_squared_time(unit):
    (found,) = by_pattern([unit * 20_000])
    assert len(found) in (0, 1, 20_000)
