"""Compressed run lengths of COCO's masks.

Source: https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c (rleFrString)
"""

from __future__ import annotations

from collections.abc import Sequence

_BITS = 5  # bits of a number in each character
_LONGEST = 13 * _BITS  # bits


def decode_runs(text: str) -> Sequence[int]:
    """Decode COCO's compressed run lengths: from the fourth on, differences to the last but one.

    Raises:
      ValueError: a number is cut off or too long.
    """
    numbers: list[int] = []
    value = shift = 0
    for code in text.encode():
        value |= (code - 48 & 0x1F) << shift
        shift += _BITS
        if shift > _LONGEST:
            break
        if code - 48 & 0x20:
            continue
        if code - 48 & 0x10:  # the sign
            value -= 1 << shift
        numbers.append(value + (numbers[-2] if len(numbers) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("a run length is cut off or too long")
    return numbers
