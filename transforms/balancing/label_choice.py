"""The class and the stratum of records with several labels.

Each record is balanced as a record of its rarest class, the label that the fewest records have, so
the counts of balancing are exact. All records are counted, each under all of its labels, which are
in the column `__all_labels__`.
"""

import collections
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping

import apache_beam as beam
import numpy as np
import pyarrow as pa

from recordmill.format.label_texts import join_labels
from recordmill.job.staging import Staging, to_json
from recordmill.transforms.balancing.held_labels import HeldLabels
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import label_cells
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.staged.batches import RowScan


@dataclasses.dataclass(frozen=True)
class ChooseClass:
    """Assigns records with several labels to a class, and to a stratum if there are strata.

    name: of the file of staging that `store_held` wrote. only_stratum: records have a class.
    """

    name: str
    only_stratum: bool = False

    def __call__(self, rows: pa.RecordBatch, staging: Staging) -> pa.RecordBatch:
        ordered, alike = _load(self.name, staging)
        if self.only_stratum:
            texts = _texts_of_sets(rows)
            return rows if texts is None else _with_strata(rows, texts, alike)
        if batch.LABELS not in rows.schema.names:
            return rows
        at, codes, names = label_cells(rows[batch.LABELS])
        places = {name: place for place, name in enumerate(ordered.to_pylist())}
        ranks = np.array([places[name] for name in names.to_pylist()], np.int64)
        best = np.full(len(rows), len(ordered), np.int64)
        np.minimum.at(best, at, ranks[codes])
        labels = ordered.take(pa.array(best, mask=best == len(ordered)))
        if alike:
            rows = _with_strata(rows, rows[batch.LABEL], alike)
        return batch.set_column(rows, batch.LABEL, labels)


def _with_strata(rows: pa.RecordBatch, texts: pa.Array, alike: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows with their strata. texts: of their labels. alike: {text: stratum}."""
    codes, names = batch.encode(texts)
    found = pa.array([*(alike[text] for text in names.to_pylist()), None], pa.string())
    return batch.set_column(rows, batch.STRATUM, found.take(pa.array(codes % len(found))))


def _texts_of_sets(rows: pa.RecordBatch) -> pa.Array | None:
    """Return the label sets of rows with a class as text; those of boxes are strata already."""
    if batch.LABELS in rows.schema.names:
        return join_labels(rows[batch.LABELS])
    return rows[batch.STRATUM] if batch.STRATUM in rows.schema.names else None


def _count_sets(rows: pa.RecordBatch) -> HeldLabels:
    """Count the label sets of rows with a class."""
    texts = _texts_of_sets(rows)
    if texts is None:
        return HeldLabels()
    if batch.LABELS in rows.schema.names:
        return HeldLabels.of(batch.set_column(rows, batch.LABEL, texts), sets=True)
    counts = collections.Counter(texts.drop_null().to_pylist())
    return HeldLabels(by_set={text: (tuple(json.loads(text)), n) for text, n in counts.items()})


def count_held(scan: RowScan, *, sets: bool) -> beam.PCollection[HeldLabels]:
    """Return the counts of all records as the only element of a PCollection.

    scan: reads the labels of all batches, and their text if `sets`.
    """
    count = functools.partial(HeldLabels.of, sets=sets)
    return _summed(scan, count, of="Held")


def count_sets(scan: RowScan) -> beam.PCollection[HeldLabels]:
    """Return the same of records that have a class, with the label sets; empty without sets."""
    return _summed(scan, _count_sets, of="Selected")


def _summed(
    scan: RowScan, count: Callable[[pa.RecordBatch], HeldLabels], *, of: str
) -> beam.PCollection[HeldLabels]:
    return (
        scan(f"Read{of}")
        | f"Count{of}" >> beam.Map(count).with_output_types(HeldLabels)
        | f"AddUp{of}" >> beam.CombineGlobally(HeldLabels.sum)
    )


def store_held(counts: HeldLabels, *, staging: Staging, least: int | None) -> str:
    """Write classes from the rarest on, and strata, into staging; return the name of the file.

    least: minimum number of records of a stratum; None without strata.
    """
    ordered = sorted(counts.by_class, key=lambda name: (counts.by_class[name], name.encode()))
    content = to_json([ordered, {} if least is None else counts.strata(least)])
    name = f"strata/labels-{hashlib.sha256(content).hexdigest()[:16]}.json"
    staging.place("strata").make_dirs()
    staging.place(name).write_bytes(content)
    return name


@functools.lru_cache(maxsize=4)
def _load(name: str, staging: Staging) -> tuple[pa.StringArray, Mapping[str, str]]:
    """Read the file of `store_held`, once in each process."""
    ordered, alike = json.loads(staging.place(name).read_bytes())
    return string_array(ordered), alike
