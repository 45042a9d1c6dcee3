"""The outcome of a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from recordmill.errors import Reject
from recordmill.job.staging import Verdict
from recordmill.notes import Note

Status = Literal[
    "published",
    "unchanged",
    "described",
    "repaired",
    "planned",
    "inferred",
    "refused",
    "detached",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """The outcome of a job.

    status: `published`; `unchanged`, the output was up to date; `described`, only its card was
      replaced; `repaired`, damaged shards were written again; `planned`, a dry run; `inferred`,
      only a schema was inferred; `refused`, with a verdict; or `detached`, the job continues on a
      cluster.
    resumed: whether this run finished the publishing of an interrupted one.
    repaired: the shards that were written again.
    leftovers: a sentence on what failed after publishing, such as the removal of staging.
    verdict: the reason for `refused`. plan: content of plan.json. rejects: sorted by key.
    notes: remarks on the input and the dataset, the same as in its manifest.
    interpretation: how the input was understood, as `interpret` returns it.
    """

    status: Status
    resumed: bool = False
    repaired: tuple[str, ...] = ()
    leftovers: str = ""
    verdict: Verdict | None = None
    plan: Mapping[str, Any] | None = None
    rejects: tuple[Reject, ...] = ()
    notes: tuple[Note, ...] = ()
    interpretation: Mapping[str, str] = dataclasses.field(default_factory=dict)
