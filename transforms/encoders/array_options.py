"""Options of the arrays that are written."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.option_checks import check_options
from recordmill.transforms.model.casts import Cast, check_target

ArrayFormat = Literal["raw", "values"]
Nan = Literal["keep", "reject", "zero"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """Format, dtype and NaN policy of the arrays that are written.

    Args:
      array_format: `raw`, the bytes of the array, or `values`, a list of its numbers.
      dtype: Dtype to cast to; None keeps the dtype of the array.
      cast: `safe` casts keep every number exactly; `same-kind` casts may round.
      nan: Whether to keep NaN, reject arrays with NaN, or replace NaN by zero.

    Raises:
        ConfigError: A value is invalid.
    """

    array_format: ArrayFormat = "raw"
    dtype: str | None = None
    cast: Cast = "safe"
    nan: Nan = "keep"

    def __post_init__(self) -> None:
        check_options(self, lambda: check_target(self.dtype))
