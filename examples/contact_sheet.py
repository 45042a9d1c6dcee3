"""Draws a dataset of images as one PNG: a row per class, a block per split, copies framed, and
the boxes of objects where they are. Of clips it draws strips of some of their frames.

    python examples/contact_sheet.py --dataset demo-out --output demo-out-sheet.png

It is also an example of reading a dataset without TensorFlow: the Examples of a split in order,
and beside them the index, which says where each of them comes from.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence

from PIL import Image, ImageDraw, ImageFont, ImageOps

import recordmill
from recordmill.errors import RunError
from recordmill.format.image_files import UNREADABLE_IMAGE, open_image
from recordmill.format.manifest import Manifest, load
from recordmill.format.split_names import in_order
from recordmill.storage.files import Location

NAME_WIDTH = 96  # pixels for the names of the classes
GAP = 18  # between the blocks of two splits
HEAD, FOOT = 52, 34  # for the names of the splits, and for the legend
BACKGROUND, INK, FAINT, COPY = "#ffffff", "#1b1f24", "#6a737d", "#d9480f"
FRAME = 3
STRIP = 4  # frames of a clip that are drawn
BOX_COLOURS = ("#e03131", "#2f9e44", "#1971c2", "#f08c00", "#9c36b5", "#0c8599")
BOX_FEATURES = (
    *(f"image/object/bbox/{name}" for name in ("xmin", "ymin", "xmax", "ymax")),
    "image/object/class/label",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tile:
    """An image of the sheet, or frames of a clip; `copy` is 0 for the record itself.

    boxes: (left, top, right, bottom) as fractions of its sides, and the number of the class.
    """

    key: str
    label: str
    copy: int
    images: Sequence[bytes]
    boxes: Sequence[tuple[float, float, float, float, int]] = ()


def read_tiles(dataset: Location, split: str, manifest: Manifest) -> Iterator[Tile]:
    """The records of a split in their order: the Example's image, and its row of the index."""
    renamed = manifest.options.get("rename", {})
    encoded = renamed.get("image/encoded", "image/encoded")
    of_boxes = [renamed.get(name, name) for name in BOX_FEATURES]
    has_boxes = all(name in manifest.features for name in of_boxes)
    if manifest.features[encoded].kind != "image":
        raise ValueError(f"{encoded} holds no encoded images: write jpeg or png, not raw")
    places = recordmill.open(dataset, split).places()
    for place, record in zip(places, recordmill.read(dataset, split), strict=True):
        boxes = zip(*(record[name].tolist() for name in of_boxes), strict=True) if has_boxes else ()
        yield Tile(
            key=place.key,
            label=place.label or "",
            copy=place.copy,
            images=some_frames(record[encoded]),
            boxes=tuple(boxes),
        )


def some_frames(encoded: bytes | Sequence[bytes]) -> Sequence[bytes]:
    """The image, or frames from all over a clip."""
    if isinstance(encoded, bytes):
        return [encoded]
    count = min(len(encoded), STRIP)
    return [encoded[number * len(encoded) // count] for number in range(count)]


def first_of_each_class(tiles: Iterator[Tile], limit: int) -> dict[str, list[Tile]]:
    """Up to `limit` records per class, copies behind the record that they repeat."""
    rows: dict[str, list[Tile]] = {}
    for tile in tiles:
        row = rows.setdefault(tile.label, [])
        if len(row) < limit:
            row.append(tile)
    return {
        label: sorted(row, key=lambda tile: (tile.key, tile.copy)) for label, row in rows.items()
    }


def draw(
    splits: Mapping[str, Mapping[str, Sequence[Tile]]], manifest: Manifest, *, size: int
) -> Image.Image:
    """The sheet: splits from left to right, classes from top to bottom, images of `size` pixels,
    frames of a clip side by side.
    """
    tiles = [tile for rows in splits.values() for row in rows.values() for tile in row]
    wide = size * max((len(tile.images) for tile in tiles), default=1)
    found = {label for rows in splits.values() for label in rows}
    labels = list(manifest.labels) if found - {""} else []
    if "" in found or not labels:
        labels.append("")
    columns = {name: max(map(len, rows.values()), default=0) for name, rows in splits.items()}
    widths = {name: max(count * wide, NAME_WIDTH + 24) for name, count in columns.items()}
    width = NAME_WIDTH + sum(widths.values()) + GAP * len(widths)
    sheet = Image.new("RGB", (width, HEAD + len(labels) * size + FOOT), BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(15), ImageFont.load_default(12)
    for row, label in enumerate(labels):
        place = (8, HEAD + row * size + size // 2)
        pen.text(place, label or "(no class)", INK, font=small, anchor="lm")
    left = NAME_WIDTH
    for name, rows in splits.items():
        records = manifest.splits[name].records
        pen.text((left, 6), name, INK, font=large)
        pen.text((left, 27), f"{records:,} records", FAINT, font=small)
        for row, label in enumerate(labels):
            for column, tile in enumerate(rows.get(label, ())):
                place = (left + column * wide, HEAD + row * size)
                sheet.paste(_draw_tile(tile, size), place)
        left += widths[name] + GAP
    if any(tile.copy for tile in tiles):
        _draw_legend(pen, middle=sheet.height - FOOT // 2, font=small)
    return sheet


def _draw_tile(tile: Tile, size: int) -> Image.Image:
    strip = Image.new("RGB", (size * len(tile.images), size), BACKGROUND)
    for number, content in enumerate(tile.images):
        strip.paste(_draw_image(tile, content, size), (number * size, 0))
    return strip


def _draw_image(tile: Tile, content: bytes, size: int) -> Image.Image:
    try:
        image = open_image(content)
        if image.mode.startswith("I"):  # gray of 16 bits, which convert() would clip at 255
            image = image.convert("I").point(lambda level: level * (1 / 256)).convert("L")
        image = image.convert("RGB")
    except UNREADABLE_IMAGE as error:
        raise ValueError("a record's image cannot be decoded: run recordmill verify") from error
    inner = (size - 2, size - 2)
    scale = min(inner[0] / image.width, inner[1] / image.height)
    width, height = round(image.width * scale), round(image.height * scale)
    image = ImageOps.pad(image, inner, method=Image.Resampling.LANCZOS, color=BACKGROUND)
    left, top = (inner[0] - width) // 2, (inner[1] - height) // 2
    for xmin, ymin, xmax, ymax, number in tile.boxes:
        corners = (left + xmin * width, top + ymin * height)
        opposite = (left + xmax * width - 1, top + ymax * height - 1)
        pen = ImageDraw.Draw(image)
        pen.rectangle(
            (*corners, max(opposite[0], corners[0]), max(opposite[1], corners[1])),
            outline=BOX_COLOURS[number % len(BOX_COLOURS)],
        )
    if tile.copy:
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 0, inner[0] - 1, inner[1] - 1), outline=COPY, width=FRAME)
    return ImageOps.expand(image, border=1, fill=BACKGROUND)


def _draw_legend(pen: ImageDraw.ImageDraw, *, middle: int, font: ImageFont.ImageFont) -> None:
    pen.rectangle((NAME_WIDTH, middle - 7, NAME_WIDTH + 14, middle + 7), outline=COPY, width=FRAME)
    text = "framed: an oversampled copy, beside the record that it repeats"
    pen.text((NAME_WIDTH + 22, middle), text, INK, font=font, anchor="lm")


def main(argv: Sequence[str] | None = None) -> int:
    """Draws the sheet and says where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", required=True, help="folder of the dataset")
    parser.add_argument("--output", required=True, help="the PNG to write")
    parser.add_argument("--size", type=int, default=72, help="pixels of an image's side")
    parser.add_argument("--per-class", type=int, default=12, help="records of a class and split")
    parser.add_argument("--palette", action="store_true", help="256 colours, a smaller file")
    options = parser.parse_args(argv)
    dataset = Location.parse(options.dataset)
    try:
        manifest = load(dataset)
        splits = {
            name: first_of_each_class(read_tiles(dataset, name, manifest), options.per_class)
            for name in in_order(manifest.splits)
        }
        sheet = draw(splits, manifest, size=options.size)
    except (RunError, ValueError) as error:
        print(f"contact_sheet: error: {error}", file=sys.stderr)
        return 1
    if options.palette:
        sheet = sheet.quantize(256)
    sheet.save(options.output, optimize=True)
    print(f"The contact sheet is in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
