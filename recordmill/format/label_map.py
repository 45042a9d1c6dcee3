"""label_map.pbtxt: the classes as the TensorFlow Object Detection API reads them.

Source: https://github.com/tensorflow/models/blob/master/research/object_detection/protos/
string_int_label_map.proto (StringIntLabelMap). Its readers reserve the number 0 for the background.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recordmill.format.schema import escaped

# Strings, braces, and words or numbers; a string without an end takes the rest of the text.
_TOKEN = re.compile(
    r"""\#[^\n]*|"((?:[^"\\]|\\.)*)(?:"|\\?\Z)|'((?:[^'\\]|\\.)*)(?:'|\\?\Z)|[{}]|\w+""", re.DOTALL
)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def label_map(labels: Sequence[str], *, label_offset: int) -> bytes:
    """Return a StringIntLabelMap in protobuf's text format.

    labels: class names in the order of their numbers. label_offset: the number of the first class.
    """
    return "".join(
        f'item {{\n  name: "{name}"\n  id: {number}\n  display_name: "{name}"\n}}\n'
        for number, name in enumerate(map(escaped, labels), start=label_offset)
    ).encode()


def parse_label_map(text: str) -> dict[str, int]:
    """Return {class: number} of a StringIntLabelMap; none if a name or a number repeats.

    Items without a name or a number are left out.
    """
    found: list[tuple[str, int]] = []
    field, depth = "", 0
    item: dict[str, str] = {}
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            if depth == 0 and {"id", "name"} <= item.keys():
                found.append((item["name"], int(item["id"])))
        elif word[0] in "\"'":
            if depth == 1 and field == "name":
                item[field] = _unescaped(token[1] if token[1] is not None else token[2])
        elif depth == 1 and field == "id" and word.isdecimal() and len(word) < 10:
            item[field] = word
        elif word[0] != "#":
            field = word
            item = {} if word == "item" and depth == 0 else item
    names, numbers = ({pair[place] for pair in found} for place in (0, 1))
    return dict(found) if len(names) == len(numbers) == len(found) else {}


def _unescaped(content: str) -> str:
    """Return the text of the content of a string literal: the inverse of `escaped`, and more."""

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 0xFF]) if code[:1].isdigit() else _ESCAPES.get(code, code)

    return re.sub(rb"\\([0-7]{1,3}|.)", byte, content.encode()).decode(errors="replace")
