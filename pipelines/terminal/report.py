"""Tables that commands print when they are done: plans, datasets, rejects and damages.

Pure functions that return objects for rich to print.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from recordmill.checking.inspection import RejectSummary, Summary
from recordmill.checking.verify import VerificationReport
from recordmill.errors import Reject
from recordmill.format.manifest import Manifest
from recordmill.format.split_names import in_order
from recordmill.notes import count_of, most_frequent, repeats_many_times
from recordmill.pipelines.terminal.classes import (
    Label,
    classes_table,
    counts_of,
    stages_of,
    with_unlabelled,
)
from recordmill.pipelines.terminal.ledger import filtered_table, ledger
from recordmill.pipelines.terminal.tables import line, name_of, new_table, stack
from recordmill.printable import printable
from recordmill.reading.reader import RecordPlace
from recordmill.runners.progress import duration

_EXAMPLES = 3  # rejects shown per reason
_DAMAGES = 20
_FILE_WIDTH = 100  # columns, if the output is not a terminal


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanSplit:
    """A planned split.

    records: number of records, copies included. bytes: estimated size of all shards.
    classes: {label: (records before, records after balancing)}; the label None stands for records
      without a class.
    """

    records: int
    copies: int
    shards: int
    bytes: int
    classes: Mapping[Label, tuple[int, int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanView:
    """The plan of a job, and an estimate of the seconds that writing takes."""

    splits: Mapping[str, PlanSplit]
    seconds: float

    @classmethod
    def from_json(cls, plan: Mapping[str, Any], *, workers: int = 1) -> PlanView:
        """Return the plan in the content of plan.json, whose seconds are those of one worker."""
        splits = {}
        for name, split in plan["splits"].items():
            before, after = dict(split["before"]), dict(split["after"])
            if "held" in split:  # records with several classes; of copies it is not known yet
                before = after = split["held"]
            splits[name] = PlanSplit(
                records=split["records"],
                copies=split["copies"],
                shards=split["shards"],
                bytes=split["bytes"],
                classes={
                    label: (before.get(label, 0), after.get(label, 0))
                    for label in {**before, **after}
                },
            )
        seconds = sum(split["seconds"] for split in plan["splits"].values())
        return cls(splits=splits, seconds=seconds / workers)


def show(*parts: RenderableType, stream: IO[str] | None = None) -> None:
    """Print to a stream, by default stdout; if it is not a terminal, with 100 columns."""
    stream = sys.stdout if stream is None else stream
    width = None if stream.isatty() else _FILE_WIDTH
    console = Console(file=stream, highlight=False, markup=False, emoji=False, width=width)
    for part in parts:
        # Lines with paths may be wider than the console, so that the paths can be copied.
        console.print(part, crop=False)


def plan_table(plan: PlanView, *, rejects: Iterable[Reject] = ()) -> RenderableType:
    """Return the tables of --dry-run. rejects: those that reading and checks found."""
    table = new_table("split", "records", "of them copies", "shards", "approx. size")
    for name in in_order(plan.splits):
        split = plan.splits[name]
        table.add_row(
            name_of(name),
            f"{split.records:,}",
            f"{split.copies:,}",
            f"{split.shards:,}",
            decimal(split.bytes),
        )
    last = Text(f"Writing takes about {duration(plan.seconds)}.")
    classes = {
        name: stages_of(found=counts_of(split.classes, 0), balanced=counts_of(split.classes, 1))
        for name, split in plan.splits.items()
    }
    return stack(table, classes_table(classes), rejects_table(sum_up(rejects)), last)


def closing(
    manifest: Manifest,
    *,
    output: object,
    plan: PlanView | None = None,
    rejects: Iterable[Reject] = (),
    seconds: float | None = None,
    distances: Sequence[RenderableType | None] = (),
    reused: int | None = None,
    compared: Sequence[str] = (),
) -> RenderableType:
    """Return the tables that a job prints at its end.

    plan: adds the classes before balancing. distances: tables of skew and drift. reused: number of
    records that were taken from earlier datasets; None if none could be. compared: as in `ledger`.
    """
    rates = manifest.fill_rates
    table = new_table("split", "records", "shards", "size", *(["filled"] if rates else []))
    for name in in_order(manifest.splits):
        split = manifest.splits[name]
        table.add_row(
            name_of(name),
            f"{split.records:,}",
            f"{len(split.shards):,}",
            decimal(split.bytes),
            *_filled(rates, name),
        )
    classes = {}
    for name, split in manifest.splits.items():
        unlabelled = split.records - sum(split.classes.values())
        planned = plan.splits[name].classes if plan and name in plan.splits else {}
        if manifest.multi_label:  # the plan counts each record under one of its classes
            unlabelled, planned = 0, {}
        written = with_unlabelled(split.classes, unlabelled)
        classes[name] = stages_of(
            found=counts_of(planned, 0) or written,
            balanced=counts_of(planned, 1) or written,
            written=written,
        )
    took = "" if seconds is None else f" in {duration(seconds)}"
    records = sum(split.records for split in manifest.splits.values())
    how = "" if reused is None else f" ({reused:,} reused, {records - reused:,} encoded)"
    last = line(
        f"{count_of(records, 'record')} written to ", (printable(output), "bold"), took, how
    )
    return stack(
        table,
        None if rates else classes_table(classes, labels=manifest.labels),
        ledger(manifest, compared),
        filtered_table(manifest.ledger),
        rejects_table(sum_up(rejects)),
        *distances,
        *_notes(manifest),
        last,
    )


def sum_up(rejects: Iterable[Reject]) -> dict[str, RejectSummary]:
    """Return rejects by reason, the most frequent first, with the first of each as examples."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for reject in rejects:
        counts[reject.reason] += 1
        if counts[reject.reason] <= _EXAMPLES:
            examples[reject.reason].append(dataclasses.asdict(reject))
    return {
        reason: RejectSummary(count=count, examples=tuple(examples[reason]))
        for reason, count in most_frequent(counts)
    }


def rejects_table(rejects: Mapping[str, RejectSummary]) -> RenderableType | None:
    """Return a table of rejects by reason, with examples; None without rejects."""
    if not rejects:
        return None
    table = new_table("reject reason", "records", words=["examples"])
    for reason, some in rejects.items():
        lines = [
            Text.assemble(printable(one["key"]), (f"  {printable(one['detail'])}", "dim"))
            for one in some.examples[:_EXAMPLES]
        ]
        table.add_row(reason, f"{some.count:,}", Text("\n").join(lines))
    return table


def inspection(
    summary: Summary,
    *,
    dataset: object,
    distances: Sequence[RenderableType | None] = (),
    compared: Sequence[str] = (),
) -> RenderableType:
    """Return the tables of `recordmill inspect`. compared: as in `ledger`."""
    manifest = summary.manifest
    facts = Table.grid(padding=(0, 2))
    options = ", ".join(f"{name}={value}" for name, value in sorted(manifest.options.items())
                        if value not in (None, False, [], {}))  # fmt: skip
    for fact, value in [
        ("dataset", dataset),
        ("digest", manifest.digest),
        ("seed", manifest.seed),
        ("options", options),
        ("encoders", ", ".join(f"{name} {v}" for name, v in sorted(manifest.encoders.items()))),
    ]:
        facts.add_row(Text(fact, style="dim"), Text(printable(value), overflow="fold"))

    titles = ["records", "of them copies", "shards", "size", "size of a shard"]
    splits = new_table("split", *titles, *(["filled"] if manifest.fill_rates else []))
    for name in in_order(summary.splits):
        split = summary.splits[name]
        least, middle, most = split.shard_bytes
        each = decimal(middle) if least == most else f"{decimal(least)} to {decimal(most)}"
        splits.add_row(
            name_of(name),
            f"{split.records:,}",
            f"{split.copies:,}",
            f"{split.shards:,}",
            decimal(split.bytes),
            each if split.shards else "",
            *_filled(manifest.fill_rates, name),
        )

    features = new_table("feature", words=["type", "shape", "kind"])
    for name, feature in sorted(manifest.features.items()):
        features.add_row(
            name_of(name),
            feature.raw_dtype or feature.dtype,
            _shape(feature.shape if feature.raw_shape is None else feature.raw_shape),
            feature.kind,
        )
    classes = {
        name: {"written": with_unlabelled(split.classes, summary.splits[name].unlabelled.records)}
        for name, split in manifest.splits.items()
    }
    return stack(
        facts,
        splits,
        classes_table(
            classes,
            labels=manifest.labels,
            repeated=_repeated(summary),
            weights=_weights(manifest),
        ),
        features,
        ledger(manifest, compared),
        filtered_table(manifest.ledger),
        rejects_table(summary.rejects),
        *distances,
        *_notes(manifest),
    )


def record(found: RecordPlace, values: Sequence[tuple[str, str]]) -> RenderableType:
    """Return the tables of one record: its origin, and its features.

    values: (feature, text), as `describe_record` returns them.
    """
    facts = Table.grid(padding=(0, 2))
    copy = f", copy {found.copy}" if found.copy else ""
    for fact, value in [
        ("key", found.key + copy),
        ("label", "(no class)" if found.label is None else found.label),
        ("stored in", f"{found.file}, record {found.number} ({found.split})"),
    ]:
        facts.add_row(Text(fact, style="dim"), Text(printable(value), overflow="fold"))
    table = new_table("feature", words=["value"])
    for name, value in values:
        table.add_row(name_of(name), Text(printable(value), overflow="fold"))
    return stack(facts, table)


def verification(report: VerificationReport, *, dataset: object) -> RenderableType:
    """Return the output of `recordmill verify`: the damages, and a line that sums them up."""
    damages = [line(printable(damage)) for damage in report.damages[:_DAMAGES]]
    more = len(report.damages) - len(damages)
    if more:
        damages.append(Text(f"... and {more:,} more; --json lists all", style="dim"))
    verdict = ("no damage", "green")
    if report.damages:
        count = len(report.damages)
        verdict = (f"{count:,} problem{'s' if count > 1 else ''}", "bold red")
    read = count_of(report.records, "record") + f", {count_of(report.shards, 'shard')}"
    last = line(
        f"{printable(dataset)}: {read}, {decimal(report.bytes)}"
        f"{', every image decoded' if report.deep else ''}: ",
        verdict,
    )
    notes = list(report.damaged_images.notes())
    if report.content is not None:
        notes += report.content.notes(["--dedup drop"])
    return Group(*damages, *(Text(f"Note: {printable(note)}") for note in notes), last)


def _weights(manifest: Manifest) -> dict[str, Mapping[str, float]]:
    """Return the columns of weights: of what was written, and of the source if it differs."""
    weights = {"weight": manifest.class_weights, "weight in\nthe source": manifest.source_weights}
    if not manifest.class_weights or manifest.source_weights == manifest.class_weights:
        del weights["weight in\nthe source"]
    return weights if manifest.class_weights else {}


def _repeated(summary: Summary) -> set[str]:
    """Return the classes whose records oversampling repeated very often."""
    return {
        label
        for split in summary.splits.values()
        for label, count in split.classes.items()
        if repeats_many_times(count.records, count.records - count.copies)
    }


def _filled(rates: Mapping[str, float], split: str) -> list[str]:
    """Return the cell of the column `filled`, which only datasets of packed records have."""
    if not rates:
        return []
    return [f"{rates[split]:.1%}" if split in rates else ""]


def _notes(manifest: Manifest) -> list[RenderableType]:
    return [Text(f"Note: {printable(note)}") for note in manifest.notes]


def _shape(shape: Sequence[int | None]) -> str:
    return " x ".join("any" if size is None else str(size) for size in shape)
