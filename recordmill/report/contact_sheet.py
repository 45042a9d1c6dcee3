"""Contact sheets: images of a dataset in one image, a row per class and a block per split.

Copies are framed, and objects have their boxes. Clips are drawn as strips of some of their frames,
audio as its waveform or spectrogram.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont, ImageOps

from recordmill.errors import did_you_mean
from recordmill.format.image_files import UNREADABLE_IMAGE, open_image
from recordmill.format.manifest import Manifest
from recordmill.format.split_names import in_order
from recordmill.reading.reader import Records
from recordmill.report import sampling
from recordmill.report.audio_drawing import Drawing, audio_features, drawing_of
from recordmill.report.mask_drawing import masks_of, tinted
from recordmill.report.thumbnail_drawing import as_rgb
from recordmill.report.thumbnails import strip_of
from recordmill.storage.files import Location

NAME_WIDTH = 96  # least pixels for the names of the classes
GAP = 18  # between the blocks of two splits
HEAD, FOOT = 52, 34  # for the names of the splits, and for the legend
BACKGROUND, INK, FAINT, COPY = "#ffffff", "#1b1f24", "#6a737d", "#d9480f"
FRAME = 3
_LETTERS = 32  # of the name of a class
_NAMED = 10  # splits or classes that an error names
BOX_COLOURS = ("#e03131", "#2f9e44", "#1971c2", "#f08c00", "#9c36b5", "#0c8599")
BOX_FEATURES = (
    *(f"image/object/bbox/{name}" for name in ("xmin", "ymin", "xmax", "ymax")),
    "image/object/class/label",
)


Font = ImageFont.ImageFont | ImageFont.FreeTypeFont


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tile:
    """An image of the sheet, or frames of a clip; `copy` is 0 for the record itself.

    images: encoded, or drawings.
    boxes: (left, top, right, bottom) as fractions of its sides, and the number of the class.
    masks: as for `mask_drawing.tinted`.
    """

    key: str
    copy: int
    images: Sequence[bytes | Drawing]
    boxes: Sequence[tuple[float, float, float, float, int]] = ()
    masks: Sequence[tuple[bytes, int]] = ()


def contact_sheet(
    dataset: Location,
    *,
    splits: Collection[str] | None = None,
    labels: Collection[str] | None = None,
    size: int = 72,
    per_class: int = 12,
) -> Image.Image:
    """Draw up to `per_class` records of each class and split.

    splits, labels: those to draw; None for all. size: pixels of an image's side.

    Raises:
      ManifestError: the folder is not a dataset.
      ValueError: a split or a class does not exist, or there is nothing to draw.
    """
    opened = Records(dataset)
    manifest = opened.manifest
    for flag, given, known in (
        ("--split", splits, in_order(manifest.splits)),
        ("--label", labels, manifest.labels),
    ):
        for one in given or ():
            if one not in known:
                names = ", ".join(known[:_NAMED]) or "none"
                more = f", ... ({len(known):,})" if len(known) > _NAMED else ""
                raise ValueError(
                    f"{flag}: expected one of {names}{more}, got {one!r}{did_you_mean(one, known)}"
                )
    feature = _drawn_feature(manifest)
    wanted: list[str | None] = [*manifest.labels, None] if labels is None else [*labels]
    rows = {
        split: _read_tiles(dataset, split, opened, feature, dict.fromkeys(wanted, per_class))
        for split in (in_order(manifest.splits) if splits is None else in_order(splits))
    }
    return draw(rows, manifest, labels=labels, size=size)


def _drawn_feature(manifest: Manifest) -> str:
    """Return the name of the feature to draw. Raises ValueError if there is none."""
    usual = manifest.options.get("rename", {}).get("image/encoded", "image/encoded")
    images = [name for name, feature in manifest.features.items() if feature.kind == "image"]
    images = images or [*audio_features(manifest)]
    if not images:
        raise ValueError(
            "the dataset has no encoded images, waveforms or spectrograms; recordmill report shows"
            " raw pixels and other arrays"
        )
    return usual if usual in images else images[0]


def _read_tiles(
    dataset: Location,
    split: str,
    opened: Records,
    encoded: str,
    shown: Mapping[str | None, int],
) -> dict[str, list[Tile]]:
    """Return the tiles of a split by class, sorted by key, copies behind their record.

    encoded: name of the feature to draw.
    """
    manifest = opened.manifest
    renamed = manifest.options.get("rename", {})
    of_boxes = [renamed.get(name, name) for name in BOX_FEATURES]
    has_boxes = all(name in manifest.features for name in of_boxes)
    audio = audio_features(manifest).get(encoded, "")
    sample = sampling.choose(
        dataset, split, manifest, plotted=0, shown=shown, copies=max(shown.values())
    )
    chosen = {label: places[: shown[label]] for label, places in sample.shown.items()}
    numbers = sorted(place.number for places in chosen.values() for place in places)
    records = dict(sampling.read(opened, split, numbers))
    return {
        label or "": [
            Tile(
                key=place.key,
                copy=place.copy,
                images=_drawn(records[place.number][encoded], audio),
                boxes=tuple(
                    zip(*(records[place.number][name].tolist() for name in of_boxes), strict=True)
                )
                if has_boxes
                else (),
                masks=masks_of(records[place.number], manifest, objects=True),
            )
            for place in sorted(places, key=lambda place: (place.key, place.copy))
        ]
        for label, places in chosen.items()
    }


def _drawn(value: Any, audio: str) -> Sequence[bytes | Drawing]:
    """Return the images of a record, or the drawing of its audio.

    audio: the feature of an array of audio.
    """
    if audio:
        return [drawing_of(value, audio)] if value.size else [b""]
    if isinstance(value, bytes):
        return [value]
    return [value[number] for number in strip_of(len(value))]


def draw(
    splits: Mapping[str, Mapping[str, Sequence[Tile]]],
    manifest: Manifest,
    *,
    labels: Collection[str] | None,
    size: int,
) -> Image.Image:
    """Draw the sheet: splits from left to right, classes from top to bottom.

    labels: classes to draw; None for all. size: pixels of an image's side. Frames of a clip are
    side by side.
    """
    tiles = [tile for rows in splits.values() for row in rows.values() for tile in row]
    wide = size * max((len(tile.images) for tile in tiles), default=1)
    found = {label for rows in splits.values() for label in rows}
    names = [*(labels or (manifest.labels if found - {""} else ()))]
    if "" in found or not names:
        names.append("")
    columns = {name: max(map(len, rows.values()), default=0) for name, rows in splits.items()}
    widths = {name: max(count * wide, NAME_WIDTH + 24) for name, count in columns.items()}
    large, small = ImageFont.load_default(15), ImageFont.load_default(12)
    texts = [_shortened(label) or "(no class)" for label in names]
    start = max(NAME_WIDTH, *(int(small.getlength(text)) + 16 for text in texts))
    width = start + sum(widths.values()) + GAP * len(widths)
    sheet = Image.new("RGB", (width, HEAD + len(names) * size + FOOT), BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    for row, text in enumerate(texts):
        place = (8, HEAD + row * size + size // 2)
        pen.text(place, text, INK, font=small, anchor="lm")
    left = start
    for name, rows in splits.items():
        of_classes = manifest.splits[name].classes
        records = (
            manifest.splits[name].records
            if labels is None
            else sum(of_classes.get(label, 0) for label in labels)
        )
        pen.text((left, 6), name, INK, font=large)
        pen.text((left, 27), f"{records:,} records", FAINT, font=small)
        for row, label in enumerate(names):
            for column, tile in enumerate(rows.get(label, ())):
                place = (left + column * wide, HEAD + row * size)
                sheet.paste(_draw_tile(tile, size), place)
        left += widths[name] + GAP
    if any(tile.copy for tile in tiles):
        _draw_legend(pen, (start, sheet.height - FOOT // 2), font=small)
    return sheet


def _draw_tile(tile: Tile, size: int) -> Image.Image:
    strip = Image.new("RGB", (size * len(tile.images), size), BACKGROUND)
    for number, content in enumerate(tile.images):
        strip.paste(_draw_image(tile, content, size), (number * size, 0))
    return strip


def _draw_image(tile: Tile, content: bytes | Drawing, size: int) -> Image.Image:
    inner = (size - 2, size - 2)
    try:
        image = (
            tinted(as_rgb(open_image(content)), tile.masks)
            if isinstance(content, bytes)
            else content(inner)
        )
    except UNREADABLE_IMAGE:
        return _draw_undecodable(size)
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


def _draw_undecodable(size: int) -> Image.Image:
    """Return a crossed tile, for an image that cannot be decoded."""
    image = Image.new("RGB", (size, size), "#eaeef2")
    pen = ImageDraw.Draw(image)
    for corners in ((0, 0, size - 1, size - 1), (0, size - 1, size - 1, 0)):
        pen.line(corners, FAINT)
    return image


def _shortened(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}\u2026"


def _draw_legend(pen: ImageDraw.ImageDraw, place: tuple[int, int], *, font: Font) -> None:
    left, middle = place
    pen.rectangle((left, middle - 7, left + 14, middle + 7), outline=COPY, width=FRAME)
    text = "framed: an oversampled copy, beside the record that it repeats"
    pen.text((left + 22, middle), text, INK, font=font, anchor="lm")
