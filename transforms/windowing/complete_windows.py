"""Rejection of windows without a label, or with missing numbers in their target."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import flat_list
from recordmill.transforms.sources.folders.number_labels import NumberLabels
from recordmill.transforms.windowing.window_layout import AHEAD


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompleteWindows:
    """Division of windows into those that have a label and a target, and rejects.

    labelled: whether windows without a class are rejected. numbers: converts labels to numbers to
      predict; None if labels are classes. targets: columns of the target in which a missing number
      is rejected. advice: end of the message for windows without a class.
    """

    labelled: bool
    numbers: NumberLabels | None = None
    targets: tuple[str, ...] = ()
    advice: str = ""

    def divide(self, windows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        """Return the windows to keep, with their labels converted, and the rejects."""
        windows, rejects = self._with_targets(windows)
        labels = windows[batch.LABEL]
        if self.numbers is not None:
            where = "the row that decides the label (--window-label)"
            windows, unlabelled = self.numbers.convert(windows, labels, where=where, stage="check")
            return windows, [*rejects, *unlabelled]
        if not self.labelled or not labels.null_count:
            return windows, rejects
        where = "the rows that decide the label (--window-label)"
        detail = f"expected a class in {where}, got none{self.advice}"
        keys = windows[batch.KEY].filter(labels.is_null()).to_pylist()
        rejects += [Reject(key, "check", Reason.UNLABELLED, detail) for key in keys]
        return windows.filter(labels.is_valid()), rejects

    def _with_targets(self, windows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        """Return the windows without missing numbers in their target, and rejects of the others."""
        if not self.targets:
            return windows, []
        values = np.asarray(flat_list(windows[AHEAD]).flatten())
        missing = np.isnan(values).reshape(len(windows), -1, len(self.targets))
        bad = missing.any(axis=(1, 2))
        if not bad.any():
            return windows, []
        rejects = []
        keys = windows[batch.KEY]
        for window in np.flatnonzero(bad).tolist():
            step, column = np.argwhere(missing[window])[0].tolist()
            detail = (
                f"column {self.targets[column]!r} has no number in row {step + 1} after the window"
                " (--horizon); --unlabelled keep writes NaN"
            )
            rejects.append(Reject(keys[window].as_py(), "check", Reason.UNLABELLED, detail))
        return windows.filter(pa.array(~bad)), rejects
