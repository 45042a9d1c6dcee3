"""Feature names of records with media: content, class, and properties of the pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

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
# Usual names of the features that hold the height, width and depth of raw pixels.
_SIZES = (("height", "rows"), ("width", "columns", "cols"), ("depth", "channels"))
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


def refuse_raw_pixels(columns: pa.RecordBatch, sizes: np.ndarray, feature: str, where: str) -> None:
    """Raise ConfigError if the size of each value is the product of its height, width and depth.

    columns: features of the records. sizes: int64[n], bytes of each value. feature: name of the
    feature that holds the values. where: the input, for messages.
    """
    shape = [
        next((name for name in names if name in columns.schema.names), None) for names in _SIZES
    ]
    found = [name for name in shape if name is not None]
    if None in shape[:2] or not all(pa.types.is_integer(columns[name].type) for name in found):
        return
    values = [np.asarray(columns[name].fill_null(0)) for name in found]
    if not len(sizes) or not (sizes > 0).all() or (np.prod(values, axis=0) != sizes).any():
        return
    texts = [str(one[0]) if (one == one[0]).all() else "?" for one in values]
    texts += ["1"] * (len(shape) - len(texts))  # without depth there is one channel
    adopt = ""
    if texts.count("?") < 2:
        adopt = (
            f"make a dataset of them with recordmill adopt --raw {feature}=uint8:{'x'.join(texts)},"
            " and pass that as --input, or "
        )
    raise ConfigError(
        f"{where}: the feature {feature!r} holds no files, but raw pixels (as many bytes as"
        f" {' x '.join(found)}), which cannot be read without a manifest: {adopt}write the pixels"
        " of each record to a .npy file"
    )
