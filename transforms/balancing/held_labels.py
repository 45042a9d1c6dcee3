"""Numbers of records by class, and by set of labels."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from recordmill.transforms.balancing.stratum_division import ALL, Shares
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import held
from recordmill.transforms.model.label_sets import LabelSet, strata

_MOST_STRATA = 4096  # a histogram of each is in memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldLabels:
    """Number of records with each class, and with each label set if these are counted.

    by_set: {text of the labels: (label set, number of records)}.
    """

    by_class: Mapping[str, int] = dataclasses.field(default_factory=dict)
    by_set: Mapping[str, tuple[LabelSet, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.RecordBatch, *, sets: bool) -> HeldLabels:
        """Count rows. sets: whether to count label sets; rows then have their labels as text."""
        codes, names = batch.encode(held(rows))
        by_class = _counts(codes, names)
        if not sets:
            return cls(by_class=by_class)
        codes, texts = batch.encode(rows[batch.LABEL])
        found, first = np.unique(codes, return_index=True)
        lists = rows[batch.LABELS].take(pa.array(first[found >= 0])).to_pylist()
        by_text = dict(zip(texts.to_pylist(), map(tuple, lists), strict=True))
        counts = _counts(codes, texts)
        return cls(
            by_class=by_class, by_set={text: (by_text[text], n) for text, n in counts.items()}
        )

    @staticmethod
    def sum(parts: Iterable[HeldLabels]) -> HeldLabels:
        """Add the counts of several parts; their order does not matter."""
        by_class: Counter[str] = Counter()
        of_texts: Counter[str] = Counter()
        sets: dict[str, LabelSet] = {}
        for part in parts:
            by_class.update(part.by_class)
            for text, (labels, n) in part.by_set.items():
                sets[text] = labels
                of_texts[text] += n
        return HeldLabels(
            by_class=by_class, by_set={text: (sets[text], n) for text, n in of_texts.items()}
        )

    def strata(self, least: int) -> dict[str, str]:
        """Return {text of labels: stratum}, of at least `least` records each if possible."""
        counts = dict(self.by_set.values())
        least = max(least, -(-sum(counts.values()) // _MOST_STRATA))
        alike = strata(counts, least=least)
        return {text: alike[labels] for text, (labels, _) in sorted(self.by_set.items())}

    def shares(self, least: int) -> Shares:
        """Return the shares of the strata, for `divide_strata`."""
        found: dict[str, Counter[str]] = {}
        for text, stratum in self.strata(least).items():
            labels, n = self.by_set[text]
            found.setdefault(stratum, Counter()).update(dict.fromkeys((*labels, ALL), n))
        return found


def _counts(codes: np.ndarray, names: pa.Array) -> dict[str, int]:
    numbers = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return dict(zip(names.to_pylist(), numbers, strict=True))
