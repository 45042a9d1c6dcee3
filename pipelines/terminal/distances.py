"""Tables of skew between the splits of a dataset, and of drift from another dataset."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from recordmill.notes import count_of
from recordmill.pipelines.terminal.tables import name_of, new_table, stack
from recordmill.printable import printable
from recordmill.profile.drift import Comparison, Distance

_SHOWN = 5
_LEAST = 0.0005  # smaller distances would be shown as 0.000


def tables(
    skew: Comparison | None, drift: Comparison | None, *, other: str | None
) -> list[RenderableType]:
    """Return tables of the columns in which splits, and two datasets, differ most.

    Differences within the noise of their sample sizes are counted, but not shown.

    other: the name of the dataset that `drift` compares with.
    """
    found = []
    if skew is not None and skew.distances:
        found.append(_table("skew between splits", skew, of_splits=True))
    if drift is not None:
        lines = [f"Nothing was compared: {drift.nothing}."] if drift.nothing else []
        lines += [f"column {printable(name)} {why}" for name, why in drift.other]
        note = Text("\n".join([f"Drift is relative to {printable(other)}.", *lines]), style="dim")
        found.append(stack(_table("drift", drift, of_splits=False), note))
    return found


def _table(title: str, found: Comparison, *, of_splits: bool) -> RenderableType:
    before, here = ("before", "now")
    if of_splits:
        before, here = printable(found.distances[0].reference), "there"
    table = new_table(title, "distance", before, here, words=["largest difference"])
    differing = [one for one in found.beyond_noise if one.distance >= _LEAST]
    for one in differing[:_SHOWN]:
        table.add_row(_named(one, of_splits=of_splits), *_cells(one))
    if len(differing) > _SHOWN:
        table.add_row(Text(f"... {len(differing) - _SHOWN:,} more", style="dim"))
    quiet = len(found.distances) - len(differing)
    if quiet:
        table.add_row(Text(f"... {count_of(quiet, 'column')} within noise", style="dim"))
    return table


def _named(one: Distance, *, of_splits: bool) -> Text:
    name = name_of(one.column)
    return name.append(f" ({printable(one.records)})", style="dim") if of_splits else name


def _cells(one: Distance) -> Sequence[str]:
    (before, now), where = one.shares, printable(one.where)
    if not one.is_of_values:
        (before, now), where = one.missing, "missing"
    return f"{one.distance:.3f}", f"{before:.1%}", f"{now:.1%}", where
