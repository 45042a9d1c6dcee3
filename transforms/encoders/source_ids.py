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

from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import IMAGE_ID, IMAGE_ID_LIMIT
from recordmill.transforms.model.ragged import binary_array

_TEXT = Feature(dtype="string", kind="text")
SOURCE_FEATURES: Features = {"image/source_id": _TEXT, "image/key/sha256": _TEXT}


def source_ids(rows: pa.RecordBatch) -> pa.Array:
    """Return a number for the image of each row: int64[n].

    It is the id in the annotations, or else a number made from the key: it has 52 bits of the
    key's hash and one bit more, so that it is no id, and a float64 holds it.
    """
    low = batch.hashes(rows) & np.uint64(IMAGE_ID_LIMIT - 1)
    made = pa.array((low + np.uint64(IMAGE_ID_LIMIT)).astype(np.int64))
    return pc.coalesce(rows[IMAGE_ID], made) if IMAGE_ID in rows.schema.names else made


def source_id_columns(rows: pa.RecordBatch, encoded: Sequence[bytes]) -> dict[str, pa.Array]:
    """Return the columns of `SOURCE_FEATURES`. encoded: the written image of each row."""
    return {
        "image/source_id": source_ids(rows).cast(pa.string()),
        "image/key/sha256": binary_array(
            [hashlib.sha256(data).hexdigest().encode() for data in encoded]
        ),
    }
