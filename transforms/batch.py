"""A batch: the element of every PCollection on the road, a `pyarrow.RecordBatch` of records.

Columns that start with two underscores are ours, all others the user's. A record's key is hashed
once; what orders, splits and balances it are ranks, mixed from that hash with a salt each.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

KEY = "__key__"  # string: unique and stable name of the record
LABEL = "__label__"  # string, nullable: the class as text
GROUP = "__group__"  # string, nullable: records of a group never part
SPLIT = "__split__"  # string, nullable: as the input says, or as assigned
COPY = "__copy__"  # int32: 0 the record, 1.. an oversampled copy
HASH = "__hash__"  # uint64: xxh3_64 of the key

# A reference to a file; a batch that has these is loaded inside the shard writer.
PATH = "__path__"  # string: where to open it
SIZE = "__size__"  # int64: bytes
MTIME = "__mtime__"  # int64: nanoseconds since the epoch

ROWS = 1 << 16  # rows of a batch, at most

UInt64Array = npt.NDArray[np.uint64]
