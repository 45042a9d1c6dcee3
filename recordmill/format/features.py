"""What an Example holds: the declaration that encoder, schema, verification and loader share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from recordmill.errors import ConfigError

DType = Literal["int64", "float32", "string"]
Kind = Literal["value", "text", "label", "image", "raw", "index"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of an Example.

    dtype: the list an Example stores it in: int64, float32, or string (bytes).
    shape: () one value; (3,) three; (None,) any number of them, none included (a nullable value is
      written as (None,) and absent from the Example where it is null).
    kind: what the values mean. `text` is UTF-8; `label` a class number into labels.txt; `image`
      an encoded picture; `raw` the bytes of one array, little-endian, C order; `index` numbers from
      0 to `size` - 1, such as those of tokens (None: it is not known yet).
    raw_dtype, raw_shape: what the array is, or what the picture decodes to; a dimension is None
      where it varies from record to record.
    shape_features: those of the same record that say the whole shape: one that has all of it, or a
      dimension each.
    sequence: it is a feature list of a SequenceExample, whose steps are the first dimension.

    Raises:
      ConfigError: a dtype or a kind that there is not.
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
        """Whether the bytes of an array do not tell its shape: more than one dimension varies, or
        one beside a dimension of 0.
        """
        shape = self.raw_shape or ()
        return shape.count(None) > 1 or (None in shape and 0 in shape)

    def to_json(self) -> dict[str, Any]:
        """The feature as it stands in dataset.json."""
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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Feature:
        """The inverse of `to_json`."""
        raw_shape = data.get("raw_shape")
        return cls(
            dtype=data["dtype"],
            shape=tuple(data["shape"]),
            kind=data["kind"],
            raw_dtype=data.get("raw_dtype"),
            raw_shape=None if raw_shape is None else tuple(raw_shape),
            shape_features=tuple(data.get("shape_features", ())),
            size=data.get("size"),
            sequence=data.get("sequence", False),
        )


Features = Mapping[str, Feature]
