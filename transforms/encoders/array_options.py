"""Options of the arrays that are written."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.option_checks import check_options
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.transforms.model.casts import DTYPES, Cast, check_target

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

    array_format: ArrayFormat = option(
        "raw",
        help="raw: the bytes of the array, for tf.io.decode_raw. values: a list of its numbers, as"
        " int64 or float32.",
    )
    dtype: str | None = option(
        None,
        parse=values.one_of(*DTYPES),
        metavar="DTYPE",
        help="Cast arrays to this dtype. Default: the most frequent dtype; arrays of another dtype"
        " are rejected.",
    )
    cast: Cast = option(
        "safe",
        help="Casts that --dtype may do. safe: only those that keep every number exactly."
        " same-kind: also those that round. Arrays with a number out of range are rejected.",
    )
    nan: Nan = option("keep", help="Keep NaN, reject records with NaN, or replace NaN by 0.")

    def __post_init__(self) -> None:
        check_options(self, lambda: check_target(self.dtype))
