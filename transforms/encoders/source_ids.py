"""Features by which other programs identify the image of a record.

Sources: https://github.com/tensorflow/models, official/vision/dataloaders (TfExampleDecoder needs
`image/source_id`, and process_source_id needs a number in it) and research/object_detection/
dataset_tools/create_coco_tf_record.py (`image/key/sha256` in hex).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import IMAGE_ID, IMAGE_ID_LIMIT
from recordmill.transforms.model.ragged import binary_array

_TEXT = Feature(dtype="string", kind="text")
SOURCE_ID = "image/source_id"
_HASH = "image/key/sha256"
SOURCE_FEATURES: Features = {SOURCE_ID: _TEXT, _HASH: _TEXT}


def check_source_ids(rows: pa.Schema) -> None:
    """Check the user's column of source ids, if there is one.

    Raises:
        ConfigError: its type is not that of ids.
    """
    if SOURCE_ID not in rows.names:
        return
    type_ = rows.field(SOURCE_ID).type
    if not any(is_type(type_) for is_type in (_is_text, pa.types.is_integer, pa.types.is_null)):
        raise ConfigError(
            f"column {SOURCE_ID!r}: expected ids of images, text or whole numbers, got {type_}:"
            f" rename the column, or pass {option_name('drop_columns', SOURCE_ID)}"
        )


def _is_text(type_: pa.DataType) -> bool:
    return any(is_type(type_) for is_type in (pa.types.is_string, pa.types.is_binary))


def source_ids(rows: pa.RecordBatch) -> pa.Array:
    """Return the id of the image of each row: binary[n].

    It is the value of the user's column, or else the id in the annotations, or else a number made
    from the key: it has 52 bits of the key's hash and one bit more, so that it is no id, and a
    float64 holds it.
    """
    low = batch.hashes(rows) & np.uint64(IMAGE_ID_LIMIT - 1)
    made = pa.array((low + np.uint64(IMAGE_ID_LIMIT)).astype(np.int64))
    names = rows.schema.names
    ids = pc.coalesce(rows[IMAGE_ID], made) if IMAGE_ID in names else made
    ids = ids.cast(pa.string()).cast(pa.binary())
    if SOURCE_ID not in names:
        return ids
    given = rows[SOURCE_ID]
    given = (given if _is_text(given.type) else given.cast(pa.string())).cast(pa.binary())
    return pc.if_else(pc.fill_null(pc.greater(pc.binary_length(given), 0), False), given, ids)


def source_id_columns(rows: pa.RecordBatch, encoded: Sequence[bytes]) -> dict[str, pa.Array]:
    """Return the columns of `SOURCE_FEATURES`. encoded: the written image of each row."""
    return {
        SOURCE_ID: source_ids(rows),
        _HASH: binary_array([hashlib.sha256(data).hexdigest().encode() for data in encoded]),
    }
