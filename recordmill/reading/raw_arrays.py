"""Arrays that records of others hold as bytes: `uint8:28x28x1`, or `uint8:?x28`, of any height.

What their bytes mean nothing in the records says, so that it has to be told.
"""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np

from recordmill.format.decode import Value

_SHAPE = re.compile(r"(?:\?|[0-9]+)(?:x(?:\?|[0-9]+))*")
_KINDS = "biufc"  # of numpy: bool, integers, floats, complex


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawArray:
    """dtype: numpy's name of it. shape: None where a size varies from record to record."""

    dtype: str
    shape: tuple[int | None, ...]

    @classmethod
    def parse(cls, text: str) -> RawArray:
        """Reads `DTYPE:AxBxC`. Raises ValueError."""
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
            raise ValueError(f"bytes tell one size that varies, not more; got {text!r}")
        shape = tuple(None if size == "?" else int(size) for size in sizes.split("x"))
        return cls(dtype=name, shape=shape)

    def __str__(self) -> str:
        return f"{self.dtype}:{'x'.join('?' if n is None else str(n) for n in self.shape)}"

    def check(self, name: str, value: Value) -> None:
        """Raises ValueError where a record's value is no such array."""
        if not isinstance(value, list) or len(value) != 1:
            count = "no value" if value is None or not len(value) else f"{len(value)} values"
            got = count if value is None or isinstance(value, list) else f"{value.dtype}"
            raise ValueError(f"feature {name!r}: expected the bytes of one array, got {got}")
        unit = np.dtype(self.dtype).itemsize * math.prod(n for n in self.shape if n is not None)
        size = len(value[0])
        whole = size % unit == 0 if unit else not size
        if not whole or (None not in self.shape and size != unit):
            raise ValueError(f"feature {name!r}: {size} bytes are no array of {self}")
