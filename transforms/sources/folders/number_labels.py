"""Conversion of the labels of paths, arrays and windows to numbers to predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reason, Reject, Stage
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.folders.references import Unlabelled, no_label
from recordmill.transforms.sources.row_formats.values.value_parsing import (
    ValueParser,
    value_mismatch,
)

LabelType = Literal["class", "int", "float", "none"]

NUMBERS: Mapping[str, pa.DataType] = {"int": pa.int64(), "float": pa.float64()}
TARGET = "label"  # column of the numbers
_LARGEST = float(np.finfo(np.float32).max)


class NumberedRows(NamedTuple):
    """Rows with a number, and rejects of rows without one."""

    rows: pa.RecordBatch
    rejects: list[Reject]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberLabels:
    """Converts labels to numbers in the column `TARGET`; the records then have no class.

    label_type: type of the numbers.
    unlabelled: whether to reject or keep records without a number.
    parser: reads texts, with the decimal separator and the spellings of missing values.
    """

    label_type: Literal["int", "float"]
    unlabelled: Unlabelled = "reject"
    parser: ValueParser = ValueParser()  # noqa: RUF009, it is frozen

    @property
    def field(self) -> pa.Field:
        """The field of the numbers."""
        return pa.field(TARGET, NUMBERS[self.label_type], self.unlabelled == "keep")

    def convert(
        self, rows: pa.RecordBatch, labels: pa.Array, *, where: str, stage: Stage = "read"
    ) -> NumberedRows:
        """Return the rows with a number instead of a class.

        Args:
          labels: texts or numbers, [n]. NaN is a missing number.
          where: source of the labels, named in rejects. stage: stage of the rejects.
        """
        kind = self.field.type
        given = self.parser.mask_missing(TARGET, labels)
        values, unfit = self.parser.cast_or_null(given, kind)
        values = self.parser.mask_missing(TARGET, values)
        large = beyond_float32(values)
        missing = np.asarray(values.is_null()) & ~unfit & (self.unlabelled == "reject")
        bad = unfit | large | missing
        rejects = []
        for row in np.flatnonzero(bad).tolist():
            if missing[row]:
                problem = no_label(f"a number in {where}")
            elif unfit[row]:
                problem = RejectCause(
                    Reason.BAD_VALUE, f"{where}: {value_mismatch(kind, given[row].as_py())}"
                )
            else:
                problem = RejectCause(
                    Reason.BAD_VALUE, f"{where}: {values[row].as_py():g} is not a finite float32"
                )
            rejects.append(Reject(rows[batch.KEY][row].as_py(), stage, *problem))
        columns = {name: rows[name] for name in rows.schema.names}
        columns |= {batch.LABEL: pa.nulls(len(rows), pa.string()), TARGET: values}
        fields = [field for field in rows.schema if field.name != TARGET]
        made = pa.record_batch(
            [columns[field.name] for field in (*fields, self.field)],
            schema=pa.schema([*fields, self.field]),
        )
        return NumberedRows(made.filter(pa.array(~bad)) if bad.any() else made, rejects)

    def convert_part(self, part: ListingPart, *, where: str) -> ListingPart:
        """Return a part with numbers instead of the classes of its rows."""
        if part.rows is None:
            return part
        rows, rejects = self.convert(part.rows, part.rows[batch.LABEL], where=where)
        return dataclasses.replace(
            part, rows=rows if len(rows) else None, rejects=[*part.rejects, *rejects]
        )


def beyond_float32(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return True for numbers that float32 cannot hold: bool[n]; False for nulls and integers."""
    if not pa.types.is_floating(values.type):
        return np.zeros(len(values), np.bool_)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    large: npt.NDArray[np.bool_] = ~(np.abs(numbers) <= _LARGEST)
    return large
