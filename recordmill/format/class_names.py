"""Names of classes: their order, and which names are spellings of one name.

All comparisons of names that may be spelled differently are made here: of classes, of the names
that options give, of groups and of columns.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.unicode_tables import map_texts

SPELLING = "case, surrounding spaces, Unicode form and invisible characters"

BOOLS = ("true", "false")  # labels of booleans
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_CODE = re.compile(r"[+-]?0[0-9]")
_ZEROS = re.compile(r"^([+-]?)0+(?=[0-9])")
_NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,6})?")

# Characters without a glyph that mean nothing in a name: zero-width spaces and word joiners, marks
# and overrides of the writing direction, soft hyphens, byte order marks.
_HIDDEN = "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_JOINERS = "\u200c\u200d"  # they mean something between letters of some scripts, and in emoji
_SELECTORS = "\ufe00-\ufe0f"  # they choose between two forms of the character before them
_HIDDEN_ONE = re.compile(f"[{_HIDDEN}]")
_UNSEEN_ONE = re.compile(f"[{_HIDDEN}{_JOINERS}{_SELECTORS}]")
_SHOWN = 3  # names in a sentence
_NEEDLESS = re.compile(f"[{_HIDDEN}]|^[{_JOINERS}]+|[{_JOINERS}]+$")


def class_order(labels: Iterable[str]) -> list[str]:
    """Return classes in the order of their numbers: as numbers if all are, otherwise as text."""
    texts = sorted(labels)
    return sorted(texts, key=Decimal) if all(map(is_number, texts)) else texts


def are_integers(labels: Collection[str]) -> bool:
    """Return whether all labels are integers, in decimal digits."""
    return all(_INTEGER.fullmatch(label) for label in labels)


def is_number(name: str) -> bool:
    """Return whether a name is a finite number in decimal digits."""
    return (_NUMBER.fullmatch(name) or _INTEGER.fullmatch(name)) is not None


def is_code(name: str) -> bool:
    """Return whether a number has leading zeros, which codes have."""
    return _CODE.match(name) is not None


def number_text(value: float | np.floating[Any]) -> str | None:
    """Return a number as a label: 3.0 as `3`, others in the shortest form of their type.

    NaN is None.
    """
    if value != value:
        return None
    return str(int(value)) if value.is_integer() else str(value)


def canonical_name(name: str) -> str:
    """Return a number in the form of `number_text`; any other name unchanged.

    So are numbers with leading zeros, which may be codes, and whole numbers that a float would
    change.
    """
    if not is_number(name) or is_code(name):
        return name
    if _INTEGER.fullmatch(name):
        return str(int(name))
    value = float(name)
    text = number_text(value) if math.isfinite(value) else name
    return name if text is None or (value.is_integer() and int(text) != Decimal(name)) else text


def is_value(label: str) -> bool:
    """Return whether a label is that of a number or a boolean."""
    return label in BOOLS or (is_number(label) and canonical_name(label) == label)


def value_name(name: str) -> str:
    """Return the label of a number or a boolean, in whatever way it is written; others unchanged.

    It is for names beside labels that are values, so leading zeros mean nothing.
    """
    if name.lower() in BOOLS:
        return name.lower()
    return canonical_name(_ZEROS.sub(r"\1", name)) if is_number(name) else name


def fold_labels(labels: pa.Array) -> list[str]:
    """Return labels in lower case and Unicode's form NFC, without spaces around them.

    Invisible characters without a meaning are left out.
    """
    return map_texts(_fold, labels)


def spelling_keys(names: pa.Array) -> list[str]:
    """Return keys that are equal for names which differ only by their spelling.

    These are case, surrounding spaces, Unicode form and invisible characters; the
    notation of numbers is another matter, see `name_key`.
    """
    return map_texts(_spelling, names)


def name_key(name: str) -> Hashable:
    """Return a key that is equal for names which are spellings of one name or number."""
    text = spelling_keys(pa.array([name], pa.string()))[0]
    return Decimal(text) if is_number(text) else text


def alike_names(names: Sequence[str]) -> list[list[str]]:
    """Return the names of equal `spelling_keys`, those alike together."""
    alike: dict[str, list[str]] = {}
    for name, key in zip(names, spelling_keys(pa.array(names, pa.string())), strict=True):
        alike.setdefault(key, []).append(name)
    return [some for some in alike.values() if len(some) > 1]


def equal_numbers(names: Sequence[str]) -> list[list[str]]:
    """Return the names that are the same number in different notations, such as 1 and 1.0.

    Names that differ only by surrounding spaces count once.
    """
    alike: dict[Decimal, list[str]] = {}
    for name in sorted({name.strip() for name in names}, key=lambda name: (len(name), name)):
        if _NUMBER.fullmatch(name):
            alike.setdefault(Decimal(name), []).append(name)
    return [some for some in alike.values() if len(some) > 1]


def dotted_names(names: Collection[str]) -> list[list[str]]:
    """Return the names that have a full stop at the end, each with that name without it."""
    known = {*names}
    pairs = ((name[:-1], name) for name in sorted(known) if name[-1:] == ".")
    return [[bare, name] for bare, name in pairs if bare in known and not is_number(bare)]


def difference(name: str, other: str) -> str:
    """Return words for the difference between two names that are spellings of one."""
    if len({*spelling_keys(pa.array([name, other], pa.string()))}) > 1:
        return "the notation of a number"
    if len({unicodedata.normalize("NFC", one.strip().casefold()) for one in (name, other)}) == 1:
        return "case, spaces or Unicode form"
    points = dict.fromkeys(_UNSEEN_ONE.findall(name + other))
    return f"invisible characters ({', '.join(map(_code_point, points))})"


def hidden_text(names: Sequence[str]) -> str | None:
    """Return a sentence on names with invisible characters; None if no name has any.

    Those that mean something in a name count only if another name differs by nothing else.
    """
    alike = {name for some in alike_names(names) for name in some}
    holders = {}
    for name in names:
        found = (_UNSEEN_ONE if name in alike else _NEEDLESS).findall(name)
        if found:
            holders[name] = ", ".join(map(_code_point, dict.fromkeys("".join(found))))
    if not holders:
        return None
    some = "; ".join(f"{name!a} ({points})" for name, points in [*holders.items()][:_SHOWN])
    more = "; ..." if len(holders) > _SHOWN else ""
    return f"{len(holders)} of {len(names)} names hold invisible characters: {some}{more}"


def _code_point(character: str) -> str:
    """Return the code point and the name of a character: `U+200B zero width space`."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '').lower()}".rstrip()


def _fold(name: str) -> str:
    shown = _HIDDEN_ONE.sub("", name) or name
    return unicodedata.normalize("NFC", shown.strip().casefold())


def _spelling(name: str) -> str:
    return unicodedata.normalize("NFC", _UNSEEN_ONE.sub("", name).strip().casefold())
