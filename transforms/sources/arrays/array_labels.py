"""Labels that arrays hold: one for each item, or one for each file."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, RecordError, Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import is_blank
from recordmill.transforms.sources.arrays.array_file import Span
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.arrays.npy import StoredArray
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.folders.number_labels import LabelType, NumberLabels
from recordmill.transforms.sources.folders.references import Unlabelled, label_problem, no_label

_IN_ARRAY = "the array of labels"


def check_labels(labels: StoredArray, count: int, unit: str, label_type: LabelType | None) -> None:
    """Raise RecordError if an array of labels does not fit a file.

    count: records of the file. unit: as of `ArraySlicing`. label_type: as of --label-type.
    """
    wanted = count if unit == "item" else 1
    one = labels.shape == () and wanted == 1 and unit != "item"
    if labels.numbers.kind == "f" and label_type is None:
        raise RecordError(
            Reason.BAD_VALUE,
            f"labels of {labels.numbers.name}: --label-type float reads them as numbers to predict,"
            " --label-type class keeps them as classes",
        )
    if labels.numbers.kind not in "biufUS":
        raise RecordError(
            Reason.BAD_VALUE,
            f"labels of {labels.numbers.name}: expected integers, bools, floats or text",
        )
    if labels.shape not in ((wanted,), (wanted, 1)) and not one:
        what = "items" if unit == "item" else "array"
        raise RecordError(
            Reason.BAD_VALUE,
            f"labels of shape {list(labels.shape)} for {wanted} {what}: expected one label each"
            + ("" if unit == "item" else " (--per-item makes a record of each item)"),
        )


def is_numeric(location: str) -> bool:
    """Return whether an array holds numbers or booleans. location: as of `read_labels`."""
    return StoredArray.from_text(json.loads(location)[3]).numbers.kind in "biuf"


def read_labels(
    location: str, cut: ArraySlicing, first: int, last: int, *, numbers: bool
) -> pa.Array:
    """Return the labels of the records `first` to `last` of a file: string[n], or numbers.

    location: JSON of path, size, mtime and `StoredArray`. numbers: return numbers unchanged, not as
    text.

    Raises:
      RecordError: the labels cannot be read.
    """
    path, size, mtime, stored = json.loads(location)
    with open_arrays(path, size=size, mtime=mtime) as opened:
        labels = StoredArray.from_text(stored)
        span = Span(0, first, last) if cut.unit == "item" else None
        found = opened.labels(labels, span, numbers=numbers)
    return found if cut.unit == "item" else pa.repeat(found[0], last - first)


def with_labels(
    rows: pa.RecordBatch,
    found: Sequence[pa.Array],
    *,
    numbers: NumberLabels | None,
    unlabelled: Unlabelled,
) -> tuple[pa.RecordBatch, list[Reject]]:
    """Return the rows with a valid label, and the rejects of the others.

    found: labels of the rows, per file, as texts or numbers of any type. numbers: converts labels
    to numbers to predict; None if labels are classes.
    """
    if len({one.type for one in found}) > 1:
        found = [one.cast(pa.string()) for one in found]
    labels = pa.concat_arrays(found)
    if numbers is not None:
        return numbers.convert(rows, labels, where=_IN_ARRAY)
    rows = batch.set_column(rows, batch.LABEL, _without_blanks(labels))
    rejects = []
    bad = np.zeros(len(rows), np.bool_)
    codes, texts = batch.encode(rows[batch.LABEL])
    problems: list[RejectCause | None] = [
        RejectCause(Reason.BAD_VALUE, why) if (why := label_problem(text)) else None
        for text in texts.to_pylist()
    ]
    problems.append(no_label(f"one in {_IN_ARRAY}") if unlabelled == "reject" else None)
    for code, problem in enumerate(problems):
        if problem is None:
            continue
        at = codes == (code if code < len(problems) - 1 else -1)
        bad |= at
        keys = rows[batch.KEY].filter(pa.array(at)).to_pylist()
        rejects += [Reject(key, "read", *problem) for key in keys]
    return (rows.filter(pa.array(~bad)) if bad.any() else rows), rejects


def _without_blanks(labels: pa.Array) -> pa.Array:
    """Return labels with nulls instead of texts that are empty or white space alone."""
    if not pa.types.is_string(labels.type):
        return labels
    return pc.if_else(is_blank(labels), None, labels)
