"""Statistics of records, and what of a schema they do not keep: a task of encoder processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pyarrow as pa

from recordmill.schema_rules import Rules
from recordmill.staging import Staging
from transforms import batch
from transforms.kind import Headers
from transforms.listing import read_part
from transforms.statistics import Statistics, columns_of
from transforms.violations import Violations
from transforms.windows import rows_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """What was found in records."""

    statistics: Statistics = Statistics()  # noqa: RUF009, it is frozen
    violations: Violations = Violations()  # noqa: RUF009

    @classmethod
    def sum(cls, several: Iterable[Findings]) -> Findings:
        """Adds them up, in whatever order they come."""
        parts = list(several)
        return cls(
            statistics=Statistics.sum(part.statistics for part in parts),
            violations=Violations.sum(part.violations for part in parts),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examiner:
    """What is to be found out.

    labelled: whether there are classes. headers: reads what files that rows name say of
    themselves. rules: of a schema, if there is one. inside: the columns of rows, where parts hold
    windows of them, which are about no rules.
    """

    staging: Staging
    labelled: bool
    headers: Headers | None = None
    rules: Rules | None = None
    inside: pa.Schema | None = None

    def examine(self, part: str, splits: pa.Array) -> Findings:
        """A part of the listing, by its name. splits: string[n], of its rows."""
        rows = read_part(part, staging=self.staging)
        rows = batch.set_column(rows, batch.SPLIT, splits)
        if self.inside is not None:
            rows = rows_of(rows, self.inside)
        made = None
        if self.headers is not None:
            read, made = self.headers.read(rows)  # what cannot be read will be a reject
            rows = rows.take(pa.array(read.kept))
        columns = columns_of(rows, made, labelled=self.labelled)
        violations = Violations()
        if self.rules is not None:
            violations = Violations.of(rows[batch.KEY], columns, self.rules)
        return Findings(statistics=Statistics.of(rows, columns), violations=violations)


def examine_rows(examiner: Examiner, part: str, splits: bytes) -> Findings:
    """The task; splits: a batch (as IPC bytes) of that column alone."""
    return examiner.examine(part, batch.from_bytes(splits)[batch.SPLIT])
