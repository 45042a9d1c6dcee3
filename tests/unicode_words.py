"""Words by the rules of UAX #29, one by one, with the properties that the package regex has.

Source: https://unicode.org/reports/tr29/#Word_Boundary_Rules
"""

import functools

import regex

_LETTER = {"ALetter", "Hebrew_Letter"}
_QUOTES = {"MidNumLet", "Single_Quote"}
_MARK = {"Extend", "Format", "ZWJ"}
_CLASSES = (
    *sorted(_LETTER | _QUOTES | _MARK),
    *("CR", "LF", "Newline", "Katakana", "Double_Quote", "MidLetter", "MidNum", "Numeric"),
    "ExtendNumLet",
)
_MEMBERS = {name: regex.compile(rf"\p{{WB={name}}}") for name in _CLASSES}
_WORDLIKE = regex.compile(r"[\p{L}\p{Nl}]")


@functools.cache
def break_class(character):
    return next((name for name, members in _MEMBERS.items() if members.match(character)), "Other")


def segments(text):
    """Text between two boundaries, as lists of (character with its marks, class)."""
    units = []
    for character in text:
        kind = break_class(character)
        if kind in _MARK and units and units[-1][1] not in ("CR", "LF", "Newline"):  # WB4
            units[-1] = (units[-1][0] + character, units[-1][1])
        else:
            units.append((character, kind))
    kinds = [None, *(kind for _, kind in units), None]
    found = []
    for place, unit in enumerate(units):
        if place and stay_together(*kinds[max(place - 1, 0) : place + 3]):
            found[-1].append(unit)
        else:
            found.append([unit])
    return found


def stay_together(before, left, right, after):
    """Return whether there is no boundary between `left` and `right`."""
    return (
        (left in _LETTER and right in _LETTER)  # WB5
        or (left in _LETTER and right in {"MidLetter"} | _QUOTES and after in _LETTER)  # WB6
        or (before in _LETTER and left in {"MidLetter"} | _QUOTES and right in _LETTER)  # WB7
        or (left == "Hebrew_Letter" and right == "Single_Quote")  # WB7a
        or (left == after == "Hebrew_Letter" and right == "Double_Quote")  # WB7b
        or (before == right == "Hebrew_Letter" and left == "Double_Quote")  # WB7c
        or (left in _LETTER | {"Numeric"} and right in _LETTER | {"Numeric"})  # WB8, 9, 10
        or (before == right == "Numeric" and left in {"MidNum"} | _QUOTES)  # WB11
        or (left == after == "Numeric" and right in {"MidNum"} | _QUOTES)  # WB12
        or (left == right == "Katakana")  # WB13
        or (
            left in _LETTER | {"Numeric", "Katakana", "ExtendNumLet"} and right == "ExtendNumLet"
        )  # WB13a
        or (left == "ExtendNumLet" and right in _LETTER | {"Numeric", "Katakana"})  # WB13b
    )


def words_by_unicode(text):
    """The segments that have a letter, a digit or Katakana."""
    wordlike = _LETTER | {"Numeric", "Katakana"}
    return [
        "".join(character for character, _ in segment)
        for segment in segments(text)
        if any(kind in wordlike or _WORDLIKE.match(character) for character, kind in segment)
    ]
