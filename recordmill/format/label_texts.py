"""Several labels of a record as one text, and the classes that records hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import offsets_of

_BETWEEN = "|"


def join_labels(lists: pa.ListArray) -> pa.StringArray:
    """Return lists of labels as text, such as `cat|dog`; null without a label: string[n].

    Other labels have another text, because `|` and backslashes inside of labels get a backslash.
    """
    names = pc.list_flatten(lists)
    for special in ("\\", _BETWEEN):
        names = pc.replace_substring(names, special, f"\\{special}")
    counts = pc.list_value_length(lists).fill_null(0)
    edges = offsets_of(np.asarray(counts).astype(np.int64)).astype(np.int32)
    texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges), names), _BETWEEN)
    return pc.if_else(pc.equal(counts, 0), None, texts)


def label_texts(index: pa.Table) -> pa.ChunkedArray:
    """Return the class of each record of an index, or all of its labels as one text: string[n].

    index: with the column `label`, and `labels` if its records may have several.
    """
    if "labels" not in index.column_names:
        return index["label"]
    return pa.chunked_array([join_labels(index["labels"].combine_chunks())])


def held_classes(index: pa.Table) -> pa.ChunkedArray:
    """Return the classes that the records of an index hold, all labels of each record.

    index: as for `label_texts`.
    """
    return pc.list_flatten(index["labels"]) if "labels" in index.column_names else index["label"]
