"""Feature names of records with media: content, class, and properties of the pixels."""

from __future__ import annotations

from collections.abc import Sequence

from recordmill.errors import ConfigError
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.rows.column_roles import quoted

MEDIA = (
    *("image/encoded", "image", "image_raw", "image/image", "img", "encoded", "image_bytes"),
    *("audio/encoded", "audio", "video/encoded", "video", "array", "data"),
)
LABEL_NAMES = ("image/class/text", "image/class/label", "label", "class")
# Features that describe the encoding of an image; they are computed again.
ENCODING = (
    *("image/format", "image/filename", "image/height", "image/width", "image/channels"),
    "image/key/sha256",
)
MADE = (*ENCODING, "image/colorspace", "image/class/label", "image/class/text")
_MOVING = ("image/object/", "image/segmentation/")  # features that belong to pixels


def find_media(names: Sequence[str], inputs: Inputs) -> str:
    """Return the feature that holds files, by its usual name.

    Raises:
      ConfigError: there is none.
    """
    found = next((name for name in MEDIA if name in names), None)
    if found is None:
        raise ConfigError(
            f"found no feature with the content of files in {inputs}: expected one of"
            f" {', '.join(MEDIA)}; it has {quoted(names)}; name it with --bytes-column"
        )
    return found


def refuse_moving(names: Sequence[str], inputs: Inputs) -> None:
    """Raise ConfigError for features that would have to move with the pixels."""
    moving = [name for name in names if name.startswith(_MOVING)]
    if moving:
        raise ConfigError(
            f"{inputs} has objects or masks ({', '.join(moving[:3])}, ...), which are not read from"
            " TFRecords, because they would have to move with the pixels: make the dataset from"
            " the images, or leave these features out with --drop-columns"
            f" {','.join(moving)}"
        )
