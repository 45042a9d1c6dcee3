"""How arrays come out."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from recordmill.errors import ConfigError
from recordmill.transforms.model.casts import Cast, check_target

ArrayFormat = Literal["raw", "values"]
Nan = Literal["keep", "reject", "zero"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """array_format: the bytes of the array, or a list of its numbers. dtype: what it is cast to,
    its own where None. cast: whether casts may round. nan: what becomes of NaN.

    Raises:
      ConfigError: a value that cannot work.
    """

    array_format: ArrayFormat = "raw"
    dtype: str | None = None
    cast: Cast = "safe"
    nan: Nan = "keep"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("--array-format", self.array_format, ArrayFormat),
            ("--cast", self.cast, Cast),
            ("--nan", self.nan, Nan),
        ):
            if value not in get_args(known):
                raise ConfigError(
                    f"{name}: expected one of {', '.join(get_args(known))}; got {value!r}"
                )
        check_target(self.dtype)
