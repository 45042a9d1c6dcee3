"""Text made safe to print: one line, without secrets and without control characters."""

from __future__ import annotations

from recordmill.storage.redaction import shown

_JOINERS = "\u200c\u200d"  # not printable by themselves, but used within words of many scripts


def printable(value: object) -> str:
    """Return a value as one line of printable text, with escapes for control characters.

    Names come from users' files and may contain any characters, those that drive a terminal too.
    """
    return escaped(shown(value), keep=_JOINERS)


def escaped(text: str, *, keep: str) -> str:
    """Return text with escapes for characters that are not printable, such as marks of direction.

    keep: such characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def printable_lines(value: object) -> str:
    """Return a message of several lines, each as `printable` returns it."""
    return "\n".join(map(printable, str(value).split("\n")))
