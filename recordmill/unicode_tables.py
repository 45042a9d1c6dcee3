"""Unicode's properties of characters, the same under every Python.

Each Python has the tables of another Unicode version: 3.11 has 14.0, 3.12 has 15.0, 3.13 has 15.1.
They agree on all characters that 14.0 assigns, and differ in the characters that 15.0 and 15.1 add.
Here such later characters keep the properties that 14.0 gives to unassigned code points: they have
no other case and no decomposition, compose with nothing, and are neither letters nor digits. A text
falls apart into runs at later characters, and the functions used here carry nothing from one run to
the next.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VERSION: Final = "14.0.0"

# First and last code points, from DerivedAge.txt of https://www.unicode.org/Public/15.1.0/ucd/.
_ADDED = {
    "15.0.0": (
        (0x0CF3, 0x0CF3), (0x0ECE, 0x0ECE), (0x10EFD, 0x10EFF), (0x1123F, 0x11241),
        (0x11B00, 0x11B09), (0x11F00, 0x11F10), (0x11F12, 0x11F3A), (0x11F3E, 0x11F59),
        (0x1342F, 0x1342F), (0x13439, 0x13455), (0x1B132, 0x1B132), (0x1B155, 0x1B155),
        (0x1D2C0, 0x1D2D3), (0x1DF25, 0x1DF2A), (0x1E030, 0x1E06D), (0x1E08F, 0x1E08F),
        (0x1E4D0, 0x1E4F9), (0x1F6DC, 0x1F6DC), (0x1F774, 0x1F776), (0x1F77B, 0x1F77F),
        (0x1F7D9, 0x1F7D9), (0x1FA75, 0x1FA77), (0x1FA87, 0x1FA88), (0x1FAAD, 0x1FAAF),
        (0x1FABB, 0x1FABD), (0x1FABF, 0x1FABF), (0x1FACE, 0x1FACF), (0x1FADA, 0x1FADB),
        (0x1FAE8, 0x1FAE8), (0x1FAF7, 0x1FAF8), (0x2B739, 0x2B739), (0x31350, 0x323AF),
    ),
    "15.1.0": ((0x2FFC, 0x2FFF), (0x31EF, 0x31EF), (0x2EBF0, 0x2EE5D)),
}  # fmt: skip
SUPPORTED: Final = (VERSION, *_ADDED)

_RANGES = [edges for added in _ADDED.values() for edges in added]
_LATER = re.compile("([" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "])")
_LATER_RE2 = "[" + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in _RANGES) + "]"
_NEVER_ASSIGNED = "\uffff"


def has_later(text: str) -> bool:
    """Return whether a text has characters that Unicode 14.0 does not assign."""
    return not text.isascii() and _LATER.search(text) is not None


def map_texts(function: Callable[[str], str], texts: pa.StringArray) -> list[str]:
    """Apply `str.lower`, `str.casefold`, a normalisation or several of them to texts.

    texts: string[n], no null.
    """
    found = texts.to_pylist()
    if unicodedata.unidata_version == VERSION:
        return list(map(function, found))
    # RE2 finds in 4 ns a character what takes re 80 ns, longer than normalisation itself.
    later = np.asarray(pc.match_substring_regex(texts, _LATER_RE2))
    return [
        _map_runs(function, text) if is_later else function(text)
        for text, is_later in zip(found, later.tolist(), strict=True)
    ]


def _map_runs(function: Callable[[str], str], text: str) -> str:
    runs = _LATER.split(text)  # every second one is a later character
    runs[::2] = map(function, runs[::2])
    return "".join(runs)


def mask_later(text: str, *, keep: str = "") -> str:
    r"""Replace later characters by one that `\w` and `\d` match under no Python.

    keep: characters to leave as they are. Positions in the text stay the same.
    """
    if text.isascii():
        return text
    return _LATER.sub(lambda found: found[0] if found[0] in keep else _NEVER_ASSIGNED, text)
