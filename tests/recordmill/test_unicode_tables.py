"""Texts come out the same under every Python, whatever the Unicode version of its tables."""

import hashlib
import sys
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill import unicode_tables
from recordmill.pipelines.options.inputs.adopt_input import named_split
from recordmill.transforms.encoders.text.duplicate_texts import duplicate_hash
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import lower, normalize
from recordmill.transforms.sources.folders.path_names import PathLayout
from recordmill.transforms.sources.splitters.segments import parse_seconds
from tests.texts import strings

CHARACTERS = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
_PLAIN = ((0x3400, 0x9FFF), (0xAC00, 0xF8FF), (0x20000, 0x2F7FF), (0x2FB00, sys.maxunicode))
LATER = [
    chr(point)
    for ranges in unicode_tables._ADDED.values()
    for first, last in ranges
    for point in range(first, last + 1)
]
MODIFIER = "\U0001e030"  # MODIFIER LETTER CYRILLIC SMALL A, of Unicode 15.0: NFKC makes it U+0430
DIGIT = "\U00011f51"  # KAWI DIGIT ONE, of Unicode 15.0


def assigned():
    """The characters that Unicode 14.0 assigns, as this Python's tables say."""
    added = set(LATER)
    return [c for c in CHARACTERS if unicodedata.category(c) != "Cn" and c not in added]


def nfkc(texts):
    return normalize(strings(texts), "nfkc").to_pylist()


def hash_of(texts):
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def test_tables_cover_the_unicode_version_of_this_python():
    # A Python that fails here needs its additions in the table, and the hashes below as they are.
    assert unicodedata.unidata_version in unicode_tables.SUPPORTED
    assert len(LATER) == len(set(LATER)) == 4489 + 627
    assert hash_of(assigned()) == (
        "9c58d143022f9da69ed8fa599a951e8f63f5172198ed19e6fbf09502ba8d1e0a"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("nfc", "959cbbe3daa4e45efc7f6cb24a749745ebdda672a94d20a344e1afdbd259109b"),
        ("nfkc", "7565a73c722d0af13b938ea585b689095f70455893bac629052f9c2dcabaa2ca"),
        ("lower", "1b2e3b3115ab70293dbec79fca55bdfb0e3fa1ce62a40cc200988b9722046c91"),
        ("dedup", "efb9fbf16449d95dbd16729c849ce63c23296d2becefeebcd8e23e4a07e558fd"),
    ],
)
def test_all_characters_come_out_as_under_python_3_11(function, expected):
    # Beside letters, so that composition, reordering and ends of words show. Ideographs, Hangul and
    # private characters are left out: they are most characters, and nothing here changes them.
    chosen = [c for c in CHARACTERS if not any(a <= ord(c) <= b for a, b in _PLAIN)] + LATER
    texts = strings([f"e{c}\u0301 AΣ{c}" for c in chosen])
    match function:
        case "lower":
            found = lower(texts)
        case "dedup":
            found = duplicate_hash(texts)
        case form:
            found = normalize(texts, form)
    assert hash_of(found.to_pylist()) == expected


def test_later_characters_stay_as_they_are_and_separate_runs():
    texts = strings([f"ﬁ e{character}\u0301" for character in LATER])
    assert normalize(texts, "nfc") == texts
    assert normalize(texts, "nfkc") == strings([f"fi e{character}\u0301" for character in LATER])
    lowered = lower(strings([f"AΣ{character}A{character}Σ" for character in LATER]))
    sigma, final_sigma = "\u03c3\u03c2"
    assert lowered == strings(
        [f"a{final_sigma}{character}a{character}{sigma}" for character in LATER]
    )


def test_later_forms_are_no_duplicates():
    first, second, third = duplicate_hash(
        strings([MODIFIER, "\u0430", f" {MODIFIER} "])
    ).to_pylist()
    assert first != second
    assert first == third


@given(st.lists(st.text(st.sampled_from([MODIFIER, DIGIT, "e", "\u0301", "Σ", "İ", "ﬁ", " "]))))
def test_texts_are_mapped_one_by_one(texts):
    assert nfkc(texts) == [one for text in texts for one in nfkc([text])]
    assert "".join(nfkc(texts)).count(MODIFIER) == "".join(texts).count(MODIFIER)


def test_patterns_do_not_take_later_characters_for_letters():
    assert PathLayout(labels=r"^(\w+)").facts(f"a{MODIFIER}/x.npy").label == "a"
    assert PathLayout(labels=r"^(.+)/").facts(f"a{DIGIT}/x.npy").label == f"a{DIGIT}"
    assert (
        PathLayout(labels=rf"^(\w{MODIFIER})/").facts(f"a{MODIFIER}/x.npy").label == f"a{MODIFIER}"
    )
    assert named_split(f"train{MODIFIER}/1.tfrecord") == "train"


def test_later_digits_are_no_numbers():
    seconds, faults = parse_seconds(pa.array(["1.5", DIGIT, "", None]), "begin")
    assert seconds.to_pylist() == [1.5, None, None, None]
    assert list(faults) == [1]


def test_manifest_names_the_unicode_version_of_the_tables():
    options = TextOptions(tokenizer="whitespace", unicode="nfc")
    assert TextEncoder(options=options).versions() == {"unicode": unicode_tables.VERSION}
