"""Declaration of a dataset's features, shared by encoders, schema, verification and loader."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from recordmill.errors import ConfigError

DType = Literal["int64", "float32", "string"]
Kind = Literal["value", "text", "label", "image", "mask", "raw", "index"]

_RAW_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


_DIMENSIONS = 32  # that NumPy and TensorFlow can represent


def shape_text(shape: Iterable[int | None]) -> str:
    """Return a shape for messages; None is a dimension that varies."""
    return "x".join("?" if size is None else str(size) for size in shape) or "one value"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of an Example.

    dtype: the type of list that stores it in an Example: int64, float32, or string (bytes).
    shape: () for one value; (3,) for three; (None,) for any number, zero included. A nullable value
      has the shape (None,) and is absent from the Example if it is null.
    kind: the meaning of the values. `text` is UTF-8; `label` is a class number (see labels.txt);
      `image` is an encoded image; `mask` is a gray PNG of class ids; `raw` is the bytes of one
      array, little-endian, C order; `index` is integers from 0 to `size` - 1, such as token ids.
    raw_dtype, raw_shape: dtype and shape of the array, or of the decoded image; a dimension is None
      if it varies from record to record.
    shape_features: the features of the same record that hold the array's shape: one feature with
      all dimensions, or one feature per dimension; of a mask those of height and width.
    size: the number of possible values of kind `index`; None if it is not known yet.
    sequence: whether it is a feature list of a SequenceExample; its steps are the first dimension.

    Raises:
      ConfigError: the dtype or the kind is unknown.
    """

    dtype: DType
    shape: tuple[int | None, ...] = ()
    kind: Kind = "value"
    raw_dtype: str | None = None
    raw_shape: tuple[int | None, ...] | None = None
    shape_features: tuple[str, ...] = ()
    size: int | None = None
    sequence: bool = False

    def __post_init__(self) -> None:
        for what, value, known in (("dtype", self.dtype, DType), ("kind", self.kind, Kind)):
            if value not in get_args(known):
                names = ", ".join(get_args(known))
                raise ConfigError(f"expected the {what} to be one of {names}, got {value!r}")

    @property
    def shape_is_open(self) -> bool:
        """True if the shape of an array cannot be derived from its number of bytes.

        This is so if more than one dimension varies, or one varies and another is 0.
        """
        shape = self.raw_shape or ()
        return shape.count(None) > 1 or (None in shape and 0 in shape)

    def to_json(self) -> dict[str, Any]:
        """Return the feature as it is stored in dataset.json."""
        out: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape), "kind": self.kind}
        if self.raw_dtype is not None and self.raw_shape is not None:
            out |= {"raw_dtype": self.raw_dtype, "raw_shape": list(self.raw_shape)}
        if self.shape_features:
            out["shape_features"] = list(self.shape_features)
        if self.size is not None:
            out["size"] = self.size
        if self.sequence:
            out["sequence"] = True
        return out


def stored_feature(feature: Feature) -> Feature:
    """Return a feature that a file states, after checking its ranges.

    Raises:
      ValueError: the name of a dtype is unknown, or a dimension is out of range.
    """
    if feature.raw_dtype is not None and feature.raw_dtype not in _RAW_DTYPES:
        raise ValueError(f"expected the name of a dtype, got {feature.raw_dtype[:80]!r}")
    if (feature.raw_dtype is None) != (feature.raw_shape is None):
        raise ValueError("expected both of raw_dtype and raw_shape, or neither")
    sizes = {"shape": feature.shape, "raw_shape": feature.raw_shape or (), "size": (feature.size,)}
    for name, dimensions in sizes.items():
        if len(dimensions) > _DIMENSIONS:
            raise ValueError(
                f"expected {name} to have {_DIMENSIONS} dimensions at most, got {len(dimensions)}"
            )
        for one in dimensions:
            if one is not None and not 0 <= one < 2**63:
                raise ValueError(
                    f"expected {name} to hold integers from 0 on or null, got {one:.3g}"
                )
    return feature


Features = Mapping[str, Feature]
