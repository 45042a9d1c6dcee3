"""Declarations of arrays stored as bytes: `uint8:28x28x1`, or `uint8:?x28` for any height.

Records of other tools do not describe such bytes, so `recordmill adopt --raw` declares them.
"""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np

from recordmill.tfrecord.decode import Value

_SHAPE = re.compile(r"(?:\?|[0-9]+)(?:x(?:\?|[0-9]+))*")
_KINDS = "biufc"  # numpy's kinds: bool, integers, floats, complex


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawArray:
    """The dtype and shape of arrays.

    dtype: numpy's name of it, such as "uint8".
    shape: with None for a dimension that varies from record to record.
    """

    dtype: str
    shape: tuple[int | None, ...]

    @classmethod
    def parse(cls, text: str) -> RawArray:
        """Parse `DTYPE:AxBxC`, with ? for a dimension that varies.

        Raises:
          ValueError: the text is invalid, or more than one dimension varies.
        """
        name, _, sizes = text.partition(":")
        try:
            dtype = np.dtype(name)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in _KINDS or dtype.name != name or not _SHAPE.fullmatch(sizes):
            raise ValueError(
                f"expected DTYPE:SHAPE, such as uint8:28x28x1 or float32:?x3; got {text!r}"
            )
        if sizes.count("?") > 1:
            raise ValueError(f"expected at most one dimension that varies (?), got {text!r}")
        shape = tuple(None if size == "?" else int(size) for size in sizes.split("x"))
        return cls(dtype=name, shape=shape)

    def __str__(self) -> str:
        return f"{self.dtype}:{'x'.join('?' if n is None else str(n) for n in self.shape)}"

    def check(self, name: str, value: Value) -> None:
        """Check the value of feature `name` in one record.

        Raises:
          ValueError: it is not one array of this dtype and shape.
        """
        if not isinstance(value, list) or len(value) != 1:
            count = "no value" if value is None or not len(value) else f"{len(value)} values"
            got = count if value is None or isinstance(value, list) else f"{value.dtype}"
            raise ValueError(f"feature {name!r}: expected the bytes of one array, got {got}")
        unit = np.dtype(self.dtype).itemsize * math.prod(n for n in self.shape if n is not None)
        size = len(value[0])
        whole = size % unit == 0 if unit else not size
        if not whole or (None not in self.shape and size != unit):
            raise ValueError(f"feature {name!r}: {size} bytes do not fill an array of {self}")
