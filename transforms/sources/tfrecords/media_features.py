"""Feature names of records with media: content, class, and properties of the pixels."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.notes import Note
from recordmill.option_checks import list_text
from recordmill.option_names import option_name
from recordmill.transforms.model.usual_columns import quoted
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes

MEDIA = (
    *("image/encoded", "image", "image_raw", "image/image", "img", "encoded", "image_bytes"),
    *("audio/encoded", "audio", "video/encoded", "video", "array", "data"),
)
CLASS_TEXT, CLASS_NUMBER = "image/class/text", "image/class/label"
LABEL_NAMES = (CLASS_TEXT, CLASS_NUMBER, "label", "class")
# Features that describe the encoding of an image; they are computed again.
ENCODING = (
    *("image/format", "image/filename", "image/height", "image/width", "image/channels"),
    "image/key/sha256",
)
MADE = (*ENCODING, "image/colorspace", CLASS_NUMBER, CLASS_TEXT)
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
            f" {', '.join(MEDIA)}; it has {quoted(names)}; name it with"
            f" {option_name('bytes_column')}"
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
            f" be read here{why}leave them out with"
            f" {option_name('drop_columns', shlex.quote(list_text(moving)))}"
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


class PairedNumbers:
    """Numbers of the classes that have both a name and a number in each record.

    numbers: {class: number}, to which classes are added.
    """

    field = pa.field(CLASS_NUMBER, pa.int64())

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self._problem: str | None = None

    @classmethod
    def of(cls, label: str | None, types: ColumnTypes, numbers: dict[str, int]) -> Self | None:
        """Return the collector; None if the label feature is another one, or has no numbers.

        types: of the features. numbers: as in the class.
        """
        known = types.get(CLASS_NUMBER) if label == CLASS_TEXT else None
        is_number = known is not None and known.field(CLASS_NUMBER).type == cls.field.type
        return cls(numbers) if is_number else None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the classes of records."""
        if pa.types.is_integer(rows[CLASS_NUMBER].type):  # it is text if it has another role
            found = collect_numbers(rows[CLASS_TEXT], rows[CLASS_NUMBER], self._numbers)
            self._problem = found or self._problem

    def end(self) -> tuple[Note, ...]:
        """Drop the numbers, and return a note, unless each class has a distinct number."""
        names: dict[int, str] = {}
        for name in sorted(self._numbers):
            first = names.setdefault(self._numbers[name], name)
            if first != name:
                self._problem = f"{first!r} and {name!r} have the number {self._numbers[name]}"
        if self._problem is None:
            return ()
        self._numbers.clear()
        text = f"integer labels are not the numbers in {CLASS_NUMBER!r}, where {self._problem}"
        return (Note("class-numbers", f"{text}: classes are numbered in the order of their names"),)


def collect_numbers(names: pa.Array, values: pa.Array, numbers: dict[str, int]) -> str | None:
    """Add classes to {class: its least number}, given the name and the number of each object.

    Returns:
      A sentence on a class with several numbers; None without one.
    """
    pairs = pa.table([names, values], ["name", "number"]).drop_null()
    problem = None
    for pair in pairs.group_by("name").aggregate([("number", "min_max")]).to_pylist():
        name, found = pair["name"], pair["number_min_max"]
        low = min(found["min"], numbers.get(name, found["min"]))
        high = max(found["max"], numbers.get(name, found["max"]))
        if low != high:
            problem = f"{name!r} has the numbers {low} and {high}"
        numbers[name] = low
    return problem
