"""The table of records per class and split."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from recordmill.format.split_names import in_order
from recordmill.notes import repeats_many_times
from recordmill.pipelines.terminal.tables import name_of, new_table
from recordmill.printable import printable
from recordmill.report.counts import table_parts

Label = str | None
Stages = Mapping[str, Mapping[Label, int]]  # records per class, at each stage of _STAGE_LEGEND

_STAGE_LEGEND = {
    "found": "before balancing",
    "balanced": "planned after balancing",
    "written": "in the dataset",
}


def classes_table(
    splits: Mapping[str, Stages],
    *,
    labels: Iterable[str] = (),
    repeated: Collection[str] = (),
    weights: Mapping[str, Mapping[str, float]] | None = None,
) -> RenderableType | None:
    """Return a table of records per class and split.

    A long table begins with the records without a class, and with classes that need attention:
    those without a record in a split that has classes, and those whose records are repeated very
    often. Of the other classes it has the largest and the smallest. A line for each of these groups
    gives the number and the range of the classes that are not shown.

    labels: classes to show even if no split has records of them. repeated: classes that are known
      to be repeated very often. weights: {title of a column: {class: weight}}.
    """
    splits = {name: splits[name] for name in in_order(splits)}
    totals: Counter[Label] = Counter(dict.fromkeys(labels, 0))
    for stages in splits.values():
        for label in {label for counts in stages.values() for label in counts}:
            totals[label] += max(counts.get(label, 0) for counts in stages.values())
    named = [n for label, n in totals.items() if label is not None]
    if not named or (totals[None] and not any(named)):
        return None
    columns = [
        (printable(name) if len(stages) == 1 else f"{printable(name)}\n{stage}", counts)
        for name, stages in splits.items()
        for stage, counts in stages.items()
    ]
    table = new_table("class", *(title for title, _ in columns), *(weights or ()))

    def add(label: Label) -> None:
        cells = [f"{counts.get(label, 0):,}" for _, counts in columns]
        for of_class in (weights or {}).values():
            cells += ["" if label is None else f"{of_class.get(label, 0):.3g}"]
        table.add_row(name_of(label), *cells)

    rows = sorted(totals, key=lambda label: (-totals[label], label is None, label or ""))
    lines = []
    for shown, hidden, what in table_parts(rows, {*repeated, *_urgent(splits, totals)}):
        for label in shown:
            add(label)
        if hidden:
            table.add_row(Text(f"... {len(hidden):,} {what}", style="dim"))
            lines.append(f"{len(hidden):,} {what}: {_ranges(splits, hidden)}")
    used = {stage for stages in splits.values() if len(stages) > 1 for stage in stages}
    legend = [f"{stage}: {text}" for stage, text in _STAGE_LEGEND.items() if stage in used]
    lines += ["; ".join(legend)] if legend else []
    return Group(table, *(Text(line, style="dim") for line in lines)) if lines else table


def _urgent(splits: Mapping[str, Stages], labels: Collection[Label]) -> Iterable[Label]:
    """Yield classes that need attention: a split has only others, or records repeat very often."""
    for stages in splits.values():
        *_, last = stages.values()
        first = stages.get("found", last)
        if any(n for label, n in last.items() if label is not None):
            yield from (
                label
                for label in labels
                if not last.get(label) or repeats_many_times(last[label], first.get(label, 0))
            )


def _ranges(splits: Mapping[str, Stages], labels: Sequence[Label]) -> str:
    """Return the range of the last stage of each split, such as `train 3 to 40 records`."""
    ranges = []
    for name, stages in splits.items():
        *_, last = stages.values()
        counts = [last.get(label, 0) for label in labels]
        low, high = min(counts), max(counts)
        ranges.append(f"{printable(name)} {low:,}" + (f" to {high:,}" if high > low else ""))
    return f"{', '.join(ranges)} records each"


def stages_of(**stages: Mapping[Label, int]) -> Stages:
    """Return the stages that changed the counts; only the last one if all counts are equal."""
    *_, last = stages
    kept = {"found": stages["found"]}
    changed = False
    for (_, before), (stage, counts) in itertools.pairwise(stages.items()):
        differs = Counter(before) != Counter(counts)
        changed = changed or differs
        if differs or (changed and stage == last):
            kept[stage] = counts
    return kept if changed else {last: stages[last]}


def counts_of(classes: Mapping[Label, tuple[int, int]], place: Literal[0, 1]) -> dict[Label, int]:
    """Return the counts before balancing (0) or after it (1)."""
    return {label: counts[place] for label, counts in classes.items()}


def with_unlabelled(classes: Mapping[str, int], unlabelled: int) -> dict[Label, int]:
    """Return records per class; the label None stands for records without a class."""
    counts: dict[Label, int] = dict(classes.items())
    if unlabelled:
        counts[None] = unlabelled
    return counts
