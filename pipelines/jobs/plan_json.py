"""Outcome of a dry run as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from recordmill.pipelines.jobs.interpretation import class_range
from recordmill.pipelines.jobs.job_outcome import JobOutcome


def plan_json(outcome: JobOutcome) -> dict[str, Any]:
    """Return how the input was understood, the plan, the rejects, the notes and the error."""
    splits = {} if outcome.plan is None else outcome.plan["splits"]
    classes: Counter[str] = Counter()
    for split in splits.values():
        classes.update({label: count for label, count in split["before"] if label is not None})
    return {
        "interpretation": outcome.interpretation,
        "classes": _classes(classes),
        "splits": {name: _split(split) for name, split in splits.items()},
        "rejects": dict(sorted(Counter(str(one.reason) for one in outcome.rejects).items())),
        "notes": [note.to_json() for note in outcome.notes],
        "error": None if outcome.verdict is None else outcome.verdict.message,
    }


def _classes(counts: Mapping[str, int]) -> dict[str, Any]:
    if not counts:
        return {"number": 0}
    smallest, largest = class_range(counts)
    return {
        "number": len(counts),
        "smallest": {"name": smallest, "records": counts[smallest]},
        "largest": {"name": largest, "records": counts[largest]},
    }


def _split(split: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a split; records without a class count in no class.

    Records with several classes count in each, as before balancing.
    """
    classes = {label: count for label, count in split["after"] if label is not None}
    classes = split.get("held", classes)
    facts = {name: split[name] for name in ("records", "copies", "shards")}
    return facts | {"bytes": round(split["bytes"]), "classes": classes}
