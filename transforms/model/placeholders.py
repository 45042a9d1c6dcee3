"""Texts that usually stand for a missing value."""

from __future__ import annotations

_PLACEHOLDERS = {
    *("-", "--", "---", ".", "..", "?", "\u2013", "\u2014"),
    *("na", "n/a", "#n/a", "n.a.", "nan", "none", "null", "nil"),
}


def is_placeholder(text: str) -> bool:
    """Return whether a text such as - or n/a, in any case, usually stands for a missing value.

    Not words that are also names of classes, such as unknown.
    """
    return text.strip().casefold() in _PLACEHOLDERS
