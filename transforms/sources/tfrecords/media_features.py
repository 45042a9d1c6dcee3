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
OBJECT = "image/object/"  # before the names of features of objects
CLASS_MASK = "image/segmentation/class/encoded"
MASK_FORMAT = "image/segmentation/class/format"
CAPTION = "image/caption"
_MOVING = (OBJECT, "image/segmentation/")  # features that belong to pixels


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


def refuse_moving(names: Sequence[str], inputs: Inputs, why: str = ": ") -> None:
    """Raise ConfigError for features that would have to move with the pixels, and cannot.

    why: the reason, for the message, up to the advice to leave them out.
    """
    moving = [name for name in names if name.startswith(_MOVING)]
    if moving:
        raise ConfigError(
            f"{inputs} has features that belong to the pixels ({', '.join(moving[:3])}), and cannot"
            f" be read here{why}leave them out with --drop-columns {','.join(moving)}"
        )
