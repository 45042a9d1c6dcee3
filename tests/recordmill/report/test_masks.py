import json

import numpy as np
import pytest
from PIL import Image, ImageDraw

from recordmill.report.masks import outlines


def runs(mask: np.ndarray) -> list[int]:
    """The run lengths of a mask, bool[height, width]."""
    flat = mask.ravel("F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    first = [0] if flat[0] else []
    return [*first, *np.diff([0, *edges, flat.size]).tolist()]


def as_text(counts: list[int]) -> str:
    """Run lengths as COCO's rleToString writes them."""
    text = ""
    for place, count in enumerate(counts):
        rest = count - counts[place - 2] if place > 2 else count
        while True:
            bits, rest = rest & 0x1F, rest >> 5
            is_last = rest == (-1 if bits & 0x10 else 0)
            text += chr(48 + bits + (0 if is_last else 0x20))
            if is_last:
                break
    return text


def filled(found: list[list[list[float]]], height: int, width: int) -> np.ndarray:
    """The pixels whose centres are in an outline."""
    image = Image.new("1", (8 * width, 8 * height))
    for points in found:
        ImageDraw.Draw(image).polygon([(8 * x, 8 * y) for x, y in points], fill=1)
    return np.asarray(image)[4::8, 4::8]


def test_runs_in_neighbouring_columns_are_one_outline() -> None:
    mask = {"size": [4, 5], "counts": [5, 2, 2, 2, 9]}
    assert outlines(json.dumps(mask).encode()) == [[[1, 1], [2, 1], [3, 1], [3, 3], [2, 3], [1, 3]]]


@pytest.mark.parametrize("encode", [list, as_text])
def test_outlines_cover_the_mask(encode) -> None:
    rows, columns = np.mgrid[:50, :90]
    ring = np.hypot(rows - 25, columns - 30)
    masks = {
        "ring": (ring < 20) & (ring > 9),
        "corners": (rows + columns < 20) | (rows + columns > 120),
        "stripes": (rows // 5 % 2 == 0) & (columns > 3),
        "all": rows >= 0,
    }
    for name, mask in masks.items():
        counts = runs(mask)
        text = json.dumps({"size": [50, 90], "counts": encode(counts)})
        difference = filled(outlines(text.encode()), 50, 90) != mask
        assert difference.mean() < 0.03, name


def test_a_large_mask_has_few_points() -> None:
    counts = [1000, *[1000, 2000] * 3999, 1000, 1000]
    mask = {"size": [3000, 4000], "counts": counts}
    (points,) = outlines(json.dumps(mask).encode())
    assert len(points) < 250
    assert points[0] == [0, 1000]
    assert [4000, 2000] in points


@pytest.mark.parametrize(
    "text",
    [
        "{}", '{"size": [2, 2]}', '{"size": [2, 2], "counts": []}', "3", "null", '"a"', "[1]",
        '{"size": [2, 2], "counts": [3]}', '{"size": [2, 2], "counts": [-1, 5]}',
        '{"size": [2, 2], "counts": [1e999]}', '{"size": [2], "counts": [4]}',
        '{"size": [99999999, 99999999], "counts": [4]}', '{"size": [2, 2], "counts": "oooooo"}',
        '{"size": [2, 2], "counts": "o"}', '{"size": [2, 2], "counts": "\\ud800"}',
        '{"size": [2, 2], "counts": [[1], [2, 3]]}', '{"size": [2, 2], "counts": {"a": 1}}',
        '{"size": [0, 0], "counts": [0]}', '{"size": [2, 2], "counts": [4]}',
        '{"size": [1, 4], "counts": [9223372036854775807, 9223372036854775807, 6]}',
    ],
)  # fmt: skip
def test_other_content_has_no_outline(text: str) -> None:
    assert outlines(text.encode()) == []
