"""Type of the records of a dataset of arrays, in the schema of their rows."""

from __future__ import annotations

import dataclasses
import json

import pyarrow as pa

from recordmill import strict_json
from recordmill.transforms.sources.arrays.chunking import Shape

ARRAY = "__array__"  # string: a `StoredArray`

_DECLARED = b"recordmill.arrays"  # metadata of the column ARRAY: dtype and shape of all records


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """Type of the records of a dataset.

    dtype: numpy's name. shape: with None for sizes that vary.
    """

    dtype: str
    shape: Shape

    @classmethod
    def of(cls, rows: pa.Schema) -> ArraySpec:
        """Return the type stored in the schema of rows."""
        spec = json.loads(rows.field(ARRAY).metadata[_DECLARED])
        return cls(dtype=spec["dtype"], shape=tuple(spec["shape"]))

    def field(self) -> pa.Field:
        """Return the column ARRAY with the type in its metadata."""
        text = strict_json.to_text(dataclasses.asdict(self), sort_keys=True).encode()
        return pa.field(ARRAY, pa.string(), metadata={_DECLARED: text})
