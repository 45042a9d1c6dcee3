"""A record as text, and its image as a file, for the command line."""

from __future__ import annotations

import dataclasses
import io
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.format.image_files import UNREADABLE_IMAGE, open_image
from recordmill.tfrecord.decode import Value
from recordmill.tfrecord.features import Feature, Features

_VALUES = 8  # values shown per feature
_CHARACTERS = 200  # characters shown of a text
_PNG_BIT_DEPTH = 24  # offset of the bits per channel in a PNG
_EXTENSIONS = {"JPEG": ".jpg", "TIFF": ".tif"}  # if not the name of the format
# Modes of Pillow by (dtype, channels); it has no mode for colour with more than 8 bits.
_MODES = {("uint8", 1): "L", ("uint8", 2): "LA", ("uint8", 3): "RGB", ("uint8", 4): "RGBA"}
_MODES |= {("uint16", 1): "I;16"}


def describe_record(
    example: Mapping[str, Value],
    features: Features,
    *,
    labels: Sequence[str] = (),
    label_offset: int = 0,
) -> list[tuple[str, str]]:
    """Return (feature, its values as a line of text) for a decoded record, sorted by name."""
    names = {label_offset + place: label for place, label in enumerate(labels)}
    return [
        (name, _described(example.get(name), feature, names))
        for name, feature in sorted(features.items())
    ]


def _described(values: Value, feature: Feature, names: Mapping[int, str]) -> str:
    if values is None or not len(values):
        return "absent"
    shown = [_text(value, feature, names) for value in values[:_VALUES]]
    more = f", ... ({len(values)} values)" if len(values) > _VALUES else ""
    return ", ".join(shown) + more


def _text(value: Any, feature: Feature, names: Mapping[int, str]) -> str:
    match feature.kind:
        case "label":
            return f"{value} ({names.get(int(value), 'no class')})"
        case "image" | "mask":
            return _image_text(value)
        case "raw":
            shape = "x".join(str(size or "?") for size in feature.raw_shape or ())
            return f"{feature.raw_dtype} {shape or 'value'}, {len(value)} bytes"
    if isinstance(value, bytes):
        text = value.decode(errors="backslashreplace")
        return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."
    return f"{value:g}" if feature.dtype == "float32" else str(value)


def _image_text(content: bytes) -> str:
    try:
        with open_image(content) as image:
            what = f"{image.format} {image.width}x{image.height} {image.mode}"
            if image.format == "PNG" and content[_PNG_BIT_DEPTH] == 16:
                what += ", 16 bits per channel"
    except UNREADABLE_IMAGE:
        what = "not an image"
    return f"{what}, {len(content)} bytes"


def save_image(
    example: Mapping[str, Value],
    features: Features,
    path: pathlib.Path,
) -> pathlib.Path:
    """Write the image of a decoded record to a file and return its path.

    An encoded image is written unchanged. An array is written as PNG: uint8 and greyscale uint16 as
    they are, colours of uint16 by their high byte, and other dtypes scaled to 0..255. Of a clip the
    first frame is written. The extension of the path is replaced by that of the format.

    Raises:
      ValueError: the record has no image, or its array does not have the shape of one.
    """
    for name, feature in _image_features(features):
        values = example.get(name)
        if not isinstance(values, list) or not values:
            continue
        if feature.kind == "image":
            return _write(path, values[0])
        feature = _with_sizes(
            feature, [n for one in feature.shape_features for n in _sizes(example, one)]
        )
        image = _as_image(_array(values[0], feature, name), name)
        content = io.BytesIO()
        image.save(content, "PNG")
        return _write(path, content.getvalue())
    raise ValueError(
        "the record has no image: expected a feature of kind image, or raw with a shape,"
        f" got {', '.join(sorted(features))}"
    )


def _image_features(features: Features) -> Iterator[tuple[str, Feature]]:
    """Yield encoded images, then arrays, which may be images."""
    for kind in ("image", "raw"):
        yield from ((name, f) for name, f in sorted(features.items()) if f.kind == kind)


def _sizes(example: Mapping[str, Value], name: str) -> list[int | None]:
    values = example.get(name)
    return values.tolist() if isinstance(values, np.ndarray) and len(values) else [None]


def _with_sizes(feature: Feature, sizes: Sequence[int | None]) -> Feature:
    """Return the feature with its unknown dimensions replaced by those of the record."""
    shape = feature.raw_shape or ()
    if len(shape) != len(sizes):
        return feature
    stated = (a if a is not None else b for a, b in zip(shape, sizes, strict=True))
    return dataclasses.replace(feature, raw_shape=tuple(stated))


def _write(path: pathlib.Path, content: bytes) -> pathlib.Path:
    try:
        with open_image(content) as image:
            name = str(image.format)
    except UNREADABLE_IMAGE as error:
        raise ValueError("the record's image is not in a format that Recordmill writes") from error
    # `heron.2024` has no extension, only a name that contains a dot.
    stem = path.stem if path.suffix.lower() in Image.registered_extensions() else path.name
    target = path.with_name(stem + _EXTENSIONS.get(name, f".{name.lower()}"))
    target.write_bytes(content)
    return target


def _array(content: bytes, feature: Feature, name: str) -> npt.NDArray[Any]:
    """Return the array of a raw feature; one unknown dimension is derived from the bytes."""
    shape = feature.raw_shape or ()
    unknown = shape.count(None)
    if feature.raw_dtype is None or unknown > 1:
        raise ValueError(
            f"the shape of {name} is not known: {feature.raw_dtype} {list(shape)}; expected at most"
            f" one None, or features that hold it"
        )
    flat = np.frombuffer(content, np.dtype(feature.raw_dtype).newbyteorder("<"))
    known = math.prod(size for size in shape if size is not None)
    if flat.size % max(known, 1) or (not unknown and flat.size != known):
        raise ValueError(f"{name} has {flat.size} values, which do not fill {list(shape)}")
    return flat.reshape([-1 if size is None else size for size in shape])


def _as_image(array: npt.NDArray[Any], name: str) -> Image.Image:
    """Convert [height, width], [height, width, 1..4], or the first frame of [frames, ...]."""
    if array.ndim == 4 and len(array):
        array = array[0]
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    channels = array.shape[-1] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or channels > 4 or not array.size:
        raise ValueError(
            f"{name} is not an image: expected [height, width] or [height, width, 1 to 4],"
            f" got {list(array.shape)}"
        )
    if array.dtype == np.uint16 and channels > 1:
        array = (array >> 8).astype(np.uint8)
    elif (array.dtype.name, channels) not in _MODES:
        low, high = float(array.min()), float(array.max())
        array = ((array - low) * (255 / ((high - low) or 1))).astype(np.uint8)
    size = (array.shape[1], array.shape[0])
    return Image.frombytes(_MODES[array.dtype.name, channels], size, array.tobytes())
