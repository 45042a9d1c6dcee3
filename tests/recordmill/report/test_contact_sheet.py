import dataclasses
import io
import pathlib

import numpy as np
import pytest
from PIL import Image

from recordmill.report import contact_sheet, thumbnail_drawing
from recordmill.storage.files import Location
from tests.make_dataset import flower, make_dataset

ROWS = [flower("a", "rose"), flower("b", "tulip"), flower("b", "tulip", copy=1)]


def sheet_of(folder: pathlib.Path, **options: object) -> Image.Image:
    return contact_sheet.contact_sheet(Location.parse(str(folder)), size=20, **options)  # type: ignore[arg-type]


def rows_of(sheet: Image.Image) -> int:
    return (sheet.height - contact_sheet.HEAD - contact_sheet.FOOT) // 20


def test_only_the_classes_that_are_named_are_drawn(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", {"train": [ROWS], "validation": [], "test": []})
    assert rows_of(sheet_of(tmp_path / "out")) == 2
    assert rows_of(sheet_of(tmp_path / "out", labels=["tulip"])) == 1
    empty = sheet_of(tmp_path / "out", labels=["tulip"], splits=["validation"])
    assert rows_of(empty) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["tulp"]}, "--label: expected one of rose, tulip, got 'tulp'.*'tulip'"),
        ({"splits": ["dev"]}, "--split: expected one of train, validation, test, got 'dev'"),
    ],
)
def test_unknown_names(tmp_path: pathlib.Path, options: dict, message: str) -> None:
    make_dataset(tmp_path / "out", {"train": [ROWS], "validation": [], "test": []})
    with pytest.raises(ValueError, match=message):
        sheet_of(tmp_path / "out", **options)


def test_an_image_that_cannot_be_decoded_is_a_crossed_tile(tmp_path: pathlib.Path) -> None:
    rows = [flower("a", "rose").having(image__encoded=[b"no image"]), *ROWS[1:]]
    make_dataset(tmp_path / "out", {"train": [rows], "validation": [], "test": []})
    sheet = sheet_of(tmp_path / "out").convert("RGB")
    left, top = contact_sheet.NAME_WIDTH, contact_sheet.HEAD
    assert sheet.getpixel((left + 2, top + 10)) == (0xEA, 0xEE, 0xF2)


def test_names_of_classes_are_beside_the_images(tmp_path: pathlib.Path) -> None:
    for number, label in enumerate(("rose", "a very long name of a class")):
        rows = [dataclasses.replace(row, label=label) for row in ROWS]
        make_dataset(tmp_path / f"{number}", {"train": [rows]}, labels=(label,))
    short, long = (sheet_of(tmp_path / name) for name in "01")
    assert long.width > short.width
    more = long.width - short.width
    top = contact_sheet.HEAD
    box = (contact_sheet.NAME_WIDTH, top, short.width, top + 20)
    moved = (contact_sheet.NAME_WIDTH + more, top, long.width, top + 20)
    assert long.crop(moved).tobytes() == short.crop(box).tobytes()


def test_gray_of_16_bits_is_scaled_by_its_range_as_in_a_report(tmp_path: pathlib.Path) -> None:
    levels = np.linspace(0, 4095, 64).astype(np.uint16).reshape(8, 8)
    content = io.BytesIO()
    Image.fromarray(levels).save(content, "PNG")
    rows = [flower("a", "rose").having(image__encoded=[content.getvalue()])]
    make_dataset(tmp_path / "out", {"train": [rows], "validation": [], "test": []})
    sheet = np.asarray(sheet_of(tmp_path / "out", labels=["rose"]).convert("L"))
    left, top = contact_sheet.NAME_WIDTH, contact_sheet.HEAD
    tile = sheet[top + 2 : top + 18, left + 2 : left + 18]
    thumbnail = thumbnail_drawing.of_encoded(content.getvalue())
    assert thumbnail is not None
    assert tile.min() < 16
    assert tile.max() > 239
    assert abs(thumbnail.levels.mean() - tile.mean()) < 8
