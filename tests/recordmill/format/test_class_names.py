"""The order of classes, and names that are spellings of one name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.class_names import (
    class_order,
    difference,
    hidden_text,
    name_key,
)

numbers = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1000, 1000).map("{:.3f}".format),
)


@given(st.sets(numbers))
def test_numbers_are_in_numeric_order(names):
    assert [float(one) for one in class_order(names)] == sorted(map(float, names))


@given(st.sets(st.one_of(numbers, st.text())), st.randoms())
def test_the_order_does_not_depend_on_the_order_given(names, random):
    shuffled = list(names)
    random.shuffle(shuffled)
    assert class_order(shuffled) == class_order(names)
    assert sorted(class_order(names)) == sorted(names)


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["12.0", "1.0", "2.0", "10.0"], ["1.0", "2.0", "10.0", "12.0"]),
        (["10", "9", "-1", "1e1"], ["-1", "9", "10", "1e1"]),
        (["10", "9", "x"], ["10", "9", "x"]),
        (["true", "false"], ["false", "true"]),
        (["9" * 4000, "1" + "0" * 4000], ["1" + "0" * 4000, "9" * 4000]),
    ],
)
def test_class_order(names, ordered):
    assert class_order(names) == ordered


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("Cat", " cat", "case, spaces or Unicode form"),
        ("\u00e4", "a\u0308", "case, spaces or Unicode form"),
        ("cat\u200b", "cat", "invisible characters (U+200B zero width space)"),
        ("\u2764\ufe0f", "\u2764", "invisible characters (U+FE0F variation selector-16)"),
        (" 1", "1.0", "the notation of a number"),
        ("007", "7", "the notation of a number"),
    ],
)
def test_spellings_of_one_name(one, other, words):
    assert name_key(one) == name_key(other)
    assert difference(one, other) == words


@pytest.mark.parametrize(("one", "other"), [("1", "10"), ("1.1", "1.01"), ("a b", "ab")])
def test_different_names(one, other):
    assert name_key(one) != name_key(other)


def test_characters_with_a_meaning_are_named_only_beside_a_name_without_them():
    heart, family, persian = (
        "\u2764\ufe0f",
        "\U0001f468\u200d\U0001f469",
        "\u0645\u06cc\u200c\u062e",
    )
    assert hidden_text([heart, family, persian, "cat"]) is None
    assert "U+FE0F" in str(hidden_text([heart, "\u2764"]))
    assert "'cat\\u200d' (U+200D zero width joiner)" in str(hidden_text(["cat\u200d"]))
