"""Vectorized search for the words that `word_pattern` defines.

Every byte is mapped to the class of its character; the bytes of a character after the first count
as marks. Two neighbouring characters then belong to one word depending on their classes, except for
the rare characters between two letters or digits.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Bytes, Ints
from recordmill.transforms.encoders.tokenization import word_pattern
from recordmill.transforms.model.ragged import (
    DictionaryStrings,
    Flat,
    blocks_of,
    byte_table,
    string_array,
    translate,
)

_Bools = npt.NDArray[np.bool_]


class _Class(enum.IntEnum):
    OTHER = 0
    EXTENDED = enum.auto()
    LETTER = enum.auto()
    HEBREW = enum.auto()
    DIGIT = enum.auto()
    KATAKANA = enum.auto()
    CONNECTOR = enum.auto()
    ALONE = enum.auto()
    BETWEEN_LETTERS = enum.auto()  # this and later classes may stand inside a word
    BETWEEN_DIGITS = enum.auto()
    BETWEEN_BOTH = enum.auto()
    QUOTE = enum.auto()


_CLASSES = len(_Class)


def _pairs() -> bytes:
    """Return a table of pairs, first * classes + second: 1 if the two belong to one word."""
    together = np.zeros((_CLASSES, _CLASSES), np.bool_)
    joining = (_Class.LETTER, _Class.HEBREW, _Class.DIGIT, _Class.CONNECTOR)
    together[np.ix_(joining, joining)] = True
    together[_Class.KATAKANA, _Class.KATAKANA] = True
    return byte_table(together)


def _members(*classes: _Class) -> _Bools:
    """Return a mask of classes, bool[classes]."""
    chosen = np.zeros(_CLASSES, np.bool_)
    chosen[list(classes)] = True
    return chosen


_TOGETHER = _pairs()
_MAKES_WORD = byte_table(
    _members(_Class.LETTER, _Class.HEBREW, _Class.DIGIT, _Class.KATAKANA, _Class.ALONE)
)
# Classes of a character inside a word, and the class required on both sides.
_BETWEEN = (
    (_members(_Class.BETWEEN_LETTERS, _Class.BETWEEN_BOTH), _Class.LETTER),
    (_members(_Class.BETWEEN_LETTERS, _Class.BETWEEN_BOTH, _Class.QUOTE), _Class.HEBREW),
    (_members(_Class.BETWEEN_DIGITS, _Class.BETWEEN_BOTH), _Class.DIGIT),
)


def find_words(texts: pa.StringArray) -> DictionaryStrings:
    """Return the words of texts (string[n], without nulls), with their case."""
    flat = Flat.of(texts)
    return flat.cut(*word_edges(flat))


def word_edges(flat: Flat) -> tuple[Ints, Ints]:
    """Return the byte offsets where words begin and end, int64[words] each."""
    if not flat.data.size:
        return flat.starts, flat.starts
    places, classes = _classes(flat.data)
    # Segments are maximal runs of characters that belong together; a space is a segment.
    begins = np.append(0, np.flatnonzero(~_together(classes)) + 1)
    words = np.flatnonzero(_wordlike(classes, begins))
    ends = np.append(begins, len(classes))[words + 1]
    return places[begins[words]], np.append(places, flat.data.size)[ends]


def _together(classes: Bytes) -> _Bools:
    """Return whether each character belongs together with the next one, bool[n - 1]."""
    pairs = classes[:-1] * np.uint8(_CLASSES) + classes[1:]
    together = translate(pairs, _TOGETHER).view(np.bool_)
    between = np.flatnonzero(classes[1:-1] >= _Class.BETWEEN_LETTERS) + 1
    before, middle, after = classes[between - 1], classes[between], classes[between + 1]
    for stands_between, sides in _BETWEEN:
        joined = between[stands_between[middle] & (before == sides) & (after == sides)]
        together[joined - 1] = together[joined] = True
    return together


def _wordlike(classes: Bytes, begins: Ints) -> _Bools:
    """Return which segments, given by their starts, are words, bool[segments]."""
    first = classes[begins]
    wordlike = translate(first, _MAKES_WORD).view(np.bool_)
    unsure = np.flatnonzero(first == _Class.CONNECTOR)  # others are clear by the first class
    if unsure.size:
        makes = np.append(translate(classes, _MAKES_WORD), 0)
        edges = np.append(begins, len(classes))[np.stack([unsure, unsure + 1], axis=1).ravel()]
        wordlike[unsure] = np.maximum.reduceat(makes, edges)[::2]
    return wordlike


# ---- Classes of characters

_MEMBERS = {  # later classes override earlier ones
    _Class.ALONE: word_pattern.ALONE,
    _Class.LETTER: word_pattern.LETTER,
    _Class.HEBREW: word_pattern.HEBREW,
    _Class.DIGIT: word_pattern.DIGIT,
    _Class.KATAKANA: word_pattern.KATAKANA,
    _Class.CONNECTOR: word_pattern.CONNECTOR,
    _Class.EXTENDED: word_pattern.EXTENDED,
}
_PAGE = 256
_UNKNOWN = 255
_SURROGATES = range(0xD800, 0xE000)  # not characters
_table = np.full(0x110000, _UNKNOWN, np.uint8)  # class by code point, filled page by page


def _classes(data: Bytes) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the offsets of characters other than marks, int32[k], and their classes, uint8[k]."""
    if _table[0] == _UNKNOWN:
        _learn_page(0)
    by_byte = _table[:128].tobytes().ljust(256, bytes([_Class.EXTENDED]))
    found = []
    for block in blocks_of(data):
        classes = translate(data[block], by_byte)
        heads = np.flatnonzero(data[block] >= 0xC0)
        if heads.size:
            classes[heads] = _classes_of(_code_points(data, heads + block.start))
        places = np.flatnonzero(classes != _Class.EXTENDED)
        found.append(((places + block.start).astype(np.int32), classes[places]))
    return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])


def _classes_of(points: Ints) -> Bytes:
    """Return the classes of code points, uint8[n]."""
    classes = _table[points]
    unknown = np.unique(points[classes == _UNKNOWN] // _PAGE)
    if not unknown.size:
        return classes
    for page in unknown.tolist():
        _learn_page(page)
    return _table[points]


def _code_points(data: Bytes, heads: Ints) -> Ints:
    """Return the code points of the multi-byte characters at these offsets, int64[k]."""
    first = data[heads].astype(np.int64)
    points = (first & 0x1F) << 6 | data[heads + 1] & 0x3F
    for length, least in ((3, 0xE0), (4, 0xF0)):
        longer = np.flatnonzero(first >= least)
        at = heads[longer]
        point = first[longer] & (0x7F >> length)
        for step in range(1, length):
            point = point << 6 | data[at + step] & 0x3F
        points[longer] = point
    return points


def _learn_page(page: int) -> None:
    """Fill a page of the table by matching with RE2, so that it agrees with the pattern.

    Both then use the same release of Unicode.
    """
    first = page * _PAGE
    points = [point for point in range(first, first + _PAGE) if point not in _SURROGATES]
    characters = string_array(list(map(chr, points)))

    def are(members: str) -> _Bools:
        return np.asarray(pc.match_substring_regex(characters, f"^(?:{members})$"))

    found = np.full(len(points), _Class.OTHER, np.uint8)
    for kind, members in _MEMBERS.items():
        found[are(members)] = kind
    letters, digits = are(word_pattern.BETWEEN_LETTERS), are(word_pattern.BETWEEN_DIGITS)
    found[letters] = _Class.BETWEEN_LETTERS
    found[digits] = _Class.BETWEEN_DIGITS
    found[letters & digits] = _Class.BETWEEN_BOTH
    found[are('"')] = _Class.QUOTE
    _table[points] = found
