"""Flat NumPy forms of ragged rows."""

import numpy as np
import pytest

from recordmill.transforms.model import ragged
from recordmill.transforms.model.ragged import DictionaryStrings, Flat, string_array

TEXTS = ["a bb a", "", "seven77 eight888 nine99999 eight888", "\0 \0\0 a\0 a", "äöü äöüß größer a"]


def cut_at_spaces(texts: list[str]) -> DictionaryStrings:
    flat = Flat.of(string_array(texts))
    spaces = np.flatnonzero(flat.data == ord(" "))
    starts = np.append(0, spaces[:-1] + 1)
    return flat.cut(starts.astype(np.int32), spaces.astype(np.int32))


@pytest.mark.parametrize("copies", [1, 50])  # many strings are long, or few of them
def test_strings_encoded_as_numbers_equal_those_that_arrow_encodes(
    copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, *["a b c"] * copies]
    expected = cut_at_spaces(texts)
    monkeypatch.setattr(ragged, "_MANY", 0)
    found = cut_at_spaces(texts)
    assert found.codes.tolist() == expected.codes.tolist()
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.distinct.equals(expected.distinct)
    words = [found.distinct[code].as_py() for code in found.codes.tolist()]
    assert words == [word for text in texts for word in text.split(" ")]
