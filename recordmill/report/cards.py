"""A card shows one record: its images, lines of its series, its boxes and its texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from recordmill.format.manifest import Manifest
from recordmill.report import charts, masks, thumbnails
from recordmill.report.sampling import SampledRecord
from recordmill.report.thumbnails import Thumbnail
from recordmill.tfrecord.features import Feature

_LINES = 16  # series of one record that are drawn
_VALUES = 8  # numbers of one feature that are listed
_CHARACTERS = 280  # characters of a text that are shown
_TOKENS = 48  # tokens that are shown
_OF_IMAGES = ("images", "video")  # commands whose arrays are pixels
_MASKED = 64  # masks of one image that are drawn
_SERIES = 8  # from this many numbers on, they are drawn as a line
_BOX = "image/object/bbox/"
_NAMES = "image/object/class/text"
_CAPTION = "image/caption"
_MASKS = "image/object/segmentation"
_TRANSFORM = "image/object/segmentation/transform"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box:
    """A box as fractions of the image, its class, and the number of its colour."""

    left: float
    top: float
    width: float
    height: float
    label: str
    colour: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """A record as it is shown.

    polygons: outlines of its masks, as points of an SVG of the size of its thumbnail, and the
      colour of each.
    lines: (name, range of the values, drawing) of its series.
    padding: the number of padding zeros after its tokens.
    """

    place: SampledRecord
    images: Sequence[Thumbnail]
    boxes: Sequence[Box]
    polygons: Sequence[tuple[str, int]]
    caption: str
    lines: Sequence[tuple[str, str, Markup]]
    tokens: Sequence[tuple[str, bool]]  # and whether each is known to the vocabulary
    padding: int
    values: Sequence[tuple[str, str]]

    @property
    def encoded(self) -> list[Thumbnail]:
        """The images that are no arrays."""
        return [image for image in self.images if image.mode != thumbnails.ARRAY]


class CardMaker:
    """Makes cards of the records of a dataset."""

    def __init__(self, manifest: Manifest, vocabularies: Mapping[str, Mapping[int, str]]) -> None:
        """Prepare for a dataset. vocabularies: {feature: {number: token}}."""
        self._features = manifest.features
        self._drawn = {
            name: one for name, one in self._features.items() if one.kind in ("image", "raw")
        }
        self._manifest = manifest
        self._renamed: Mapping[str, str] = manifest.options.get("rename") or {}
        self._tokens = {
            name: vocabularies.get(name, {})
            for name, feature in manifest.features.items()
            if feature.kind == "index" and feature.shape != ()
        }
        # Prefixes of features such as masks and positions of tokens, which need no drawing.
        self._beside_tokens = tuple(f"{name}/" for name in self._tokens)
        self._box_classes: dict[str, int] = {}

    @property
    def box_classes(self) -> Mapping[str, int]:
        """The classes of the boxes and masks of all cards, and the numbers of their colours."""
        return self._box_classes

    def thumbnails(self, record: Mapping[str, Any]) -> dict[str, list[Thumbnail]]:
        """Return the thumbnails of a record's images, clips and arrays, by feature."""
        if not self._drawn:
            return {}
        from recordmill.report import audio_drawing, thumbnail_drawing  # Pillow takes 0.02 s

        found: dict[str, list[Thumbnail]] = {}
        audio = audio_drawing.audio_features(self._manifest)
        is_alone = len(self._drawn) == 1
        for name, feature in self._drawn.items():
            small: Iterable[Thumbnail | None] = ()
            if feature.kind == "image":
                value = record[name]
                frames = [value] if isinstance(value, bytes) else list(np.ravel(value))
                is_large = is_alone and len(frames) == 1
                masks = self._masks(record) if is_large else ()
                side = thumbnail_drawing.LARGE_SIDE if is_large else thumbnail_drawing.SIDE
                small = (
                    thumbnail_drawing.of_encoded(frames[number], side=side, masks=masks)
                    for number in thumbnails.strip_of(len(frames))
                    if frames[number]
                )
            elif feature.kind == "raw" and isinstance(record[name], np.ndarray):
                array = record[name]
                if audio.get(name) == audio_drawing.WAVEFORM and array.ndim == 2 and len(array):
                    size = (thumbnail_drawing.LARGE_SIDE, thumbnail_drawing.SIDE // 2)
                    small = [thumbnail_drawing.of_drawing(audio_drawing.draw_waveform(array, size))]
                elif audio.get(name) == audio_drawing.SPECTROGRAM and array.size:
                    small = [thumbnail_drawing.of_array(audio_drawing.upright(array))]
                else:
                    is_image = self._manifest.command in _OF_IMAGES
                    small = [thumbnail_drawing.of_array(array, is_image=is_image)]
            if drawn := [one for one in small if one is not None]:
                found[name] = drawn
        return found

    def card(
        self,
        place: SampledRecord,
        record: Mapping[str, Any],
        images: Mapping[str, Sequence[Thumbnail]],
    ) -> Card:
        """Return the card of a record, with the thumbnails that were made of it."""
        lines: list[tuple[str, str, Markup]] = []
        tokens: list[tuple[str, bool]] = []
        padding = 0
        values: list[tuple[str, str]] = []
        for name, feature in self._features.items():
            value = record[name]
            if name in images or feature.kind in ("label", "mask") or name.startswith(_BOX):
                continue
            if name in self._tokens:
                tokens, padding = self._shown_tokens(name, np.ravel(value))
            elif not images and len(lines) < _LINES and _is_series(feature, value):
                if not name.startswith(self._beside_tokens):
                    series = np.asarray(value, np.float64).reshape(-1)
                    title = f"{name}: {len(series)} values"
                    lines.append((name, _range(series), charts.sparkline(series, title=title)))
            else:
                values.append((name, _text(value)))
        drawn = [one for some in images.values() for one in some]
        return Card(
            place=place,
            images=drawn,
            boxes=self._boxes(record),
            polygons=self._polygons(record, drawn[0].scale) if len(drawn) == 1 else (),
            caption=_text(self._of(record, _CAPTION, b"")),
            lines=lines,
            tokens=tokens,
            padding=padding,
            values=[(name, text) for name, text in values if text],
        )

    def _of(self, record: Mapping[str, Any], name: str, default: Any) -> Any:
        return record.get(self._renamed.get(name, name), default)

    def _masks(self, record: Mapping[str, Any]) -> Sequence[tuple[bytes, int]]:
        from recordmill.report import mask_drawing  # Pillow takes 0.02 s

        has_outlines = len(self._of(record, _MASKS, ())) > 0
        return mask_drawing.masks_of(record, self._manifest, objects=not has_outlines)

    def _colour(self, label: str) -> int:
        return self._box_classes.setdefault(label, len(self._box_classes) % charts.COLOURS)

    def _polygons(self, record: Mapping[str, Any], scale: float) -> list[tuple[str, int]]:
        """Return the outlines of masks (docs/images.md), and their colours.

        scale: thumbnail pixels per pixel of the image.
        """
        matrix = np.ravel(self._of(record, _TRANSFORM, ()))
        if len(matrix) != len("abcdef"):
            return []
        a, b, c, d, e, f = (matrix * scale).tolist()
        found: list[tuple[str, int]] = []
        texts = self._of(record, _MASKS, ())[:_MASKED]
        labels = self._box_labels(record, len(texts))
        for text, label in zip(texts, labels, strict=False):
            for points in masks.outlines(text):
                places = (f"{a * x + b * y + c:.1f},{d * x + e * y + f:.1f}" for x, y in points)
                found.append((" ".join(places), self._colour(label)))
        return found

    def _box_labels(self, record: Mapping[str, Any], count: int) -> list[str]:
        """Return the classes of boxes or masks; empty names if the record has none."""
        texts = self._of(record, _NAMES, ())
        return [*(one.decode(errors="replace") for one in texts)] or [""] * count

    def _boxes(self, record: Mapping[str, Any]) -> list[Box]:
        names = (_BOX + side for side in ("xmin", "ymin", "xmax", "ymax"))
        sides = [some for name in names if (some := self._of(record, name, None)) is not None]
        if len(sides) < 4:
            return []
        labels = self._box_labels(record, len(sides[0]))
        return [
            Box(
                left=x,
                top=y,
                width=max(right - x, 0),
                height=max(low - y, 0),
                label=label,
                colour=self._colour(label),
            )
            for x, y, right, low, label in zip(
                *(side.tolist() for side in sides), labels, strict=True
            )
        ]

    def _shown_tokens(
        self, name: str, numbers: npt.NDArray[Any]
    ) -> tuple[list[tuple[str, bool]], int]:
        """Return the first tokens, and the number of padding zeros after the last one."""
        vocabulary = self._tokens[name]
        used = len(numbers)
        if 0 not in vocabulary:
            used = int(np.max(np.flatnonzero(numbers), initial=-1)) + 1
        some = numbers[: min(used, _TOKENS)].tolist()
        padding = len(numbers) - used
        if not vocabulary:
            return [(str(one), True) for one in some], padding
        return [
            (vocabulary[one], True) if one in vocabulary else (f"#{one}", False) for one in some
        ], padding


def _is_series(feature: Feature, value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and feature.kind in ("value", "raw")
        and value.dtype.kind in "buif"
        and value.ndim == 1
        and len(value) >= _SERIES
    )


def _range(series: npt.NDArray[np.float64]) -> str:
    """Return the range of the finite values of a series as text."""
    finite = series[np.isfinite(series)]
    if not len(finite):
        return "no values"
    low, high = (charts.number_text(float(one)) for one in (finite.min(), finite.max()))
    return low if low == high else f"{low} to {high}"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode(errors="backslashreplace")
        return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."
    if isinstance(value, list):
        return f"{len(value)} steps"
    if isinstance(value, np.ndarray):
        if value.ndim > 1:
            return f"{value.dtype} {' x '.join(map(str, value.shape))}"
        shown = [_text(one) if isinstance(one, bytes) else _number(one) for one in value[:_VALUES]]
        more = f", ... ({len(value)})" if len(value) > _VALUES else ""
        return ", ".join(shown) + more
    return _number(value)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
