"""`recordmill adopt`: TFRecord files that others wrote, as a dataset, without writing them anew."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recordmill.pipelines.commands.adopt_config import AdoptConfig
from recordmill.pipelines.options.declaration import parse_command
from recordmill.runners.progress import Snapshot, Watcher

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recordmill.adopt.adoption import Adopted
    from recordmill.adopt.file_scan import Scan
    from recordmill.format.manifest import Manifest
    from recordmill.pipelines.commands.adopt_job import AdoptOutcome

_ROWS = 20  # patterns of names shown


def adopt_main(argv: Sequence[str]) -> int:
    """Makes a dataset of TFRecord files that others wrote: they get further names in a folder,
    are read once, to their ends, and described; not a byte of them is written anew.

    Example:
      recordmill adopt --input 'data/*.tfrecord' --output out
    """
    config = parse_command(AdoptConfig, _spread(argv), adopt_main)
    from recordmill.pipelines.commands.adopt_job import AdoptJob

    started = time.monotonic()
    job = AdoptJob(config)
    counted = _Counted()
    with Watcher(counted.snapshot, quiet=config.quiet):
        outcome = job.run(on_listed=counted.begin, on_scanned=counted.add)
    if not config.quiet:
        _say(outcome, config, seconds=time.monotonic() - started)
    return 0


def _spread(argv: Sequence[str]) -> list[str]:
    """With --input before every file: of a pattern without quotes a shell makes many."""
    spread: list[str] = []
    flag = ""
    for word in argv:
        if word.startswith("--"):
            flag = word
        elif flag == "--input" and spread[-1] != flag:
            spread.append(flag)
        spread.append(word)
    return spread


class _Counted:
    """Counts files as they are read."""

    def __init__(self) -> None:
        self._total: int | None = None
        self._scans: list[Scan] = []

    def begin(self, files: int) -> None:
        self._total = files

    def add(self, done: Scan) -> None:
        self._scans.append(done)

    def snapshot(self) -> Snapshot | None:
        if self._total is None:
            return None
        done = self._scans[:]
        return Snapshot(
            phase="reading",
            done=len(done),
            total=self._total,
            records=sum(one.records for one in done),
            bytes=sum(one.bytes for one in done),
            rejects=None,
            unit="files",
        )


def _say(outcome: AdoptOutcome, config: AdoptConfig, *, seconds: float) -> None:
    from recordmill.pipelines.terminal import report
    from recordmill.pipelines.terminal.tables import count_of, stack

    if outcome.status == "unchanged":
        if outcome.resumed:
            print("This run finished the publishing of an interrupted one; nothing is left to do")
        else:
            print(f"nothing has changed since {config.output} was made; nothing to do")
        return
    tables = stack(files_table(outcome.adopted), features_table(outcome.manifest))
    if outcome.status == "planned":
        from rich.text import Text

        records = sum(split.records for split in outcome.manifest.splits.values())
        last = f"{count_of(records, 'record')} of these files can be adopted; nothing was written."
        notes = [f"Note: {note}" for note in outcome.manifest.notes]
        report.show(stack(tables, Text("\n".join([*notes, last]))))
        return
    report.show(
        stack(tables, report.closing(outcome.manifest, output=config.output, seconds=seconds))
    )
    if outcome.copied:
        print(
            f"{count_of(outcome.copied, 'file')} of {len(outcome.adopted)} had to be copied: no"
            " hard link can be made there"
        )


def files_table(adopted: Sequence[Adopted]) -> RenderableType:
    """Which files are of which split, those whose names differ in numbers only as one row."""
    from rich.text import Text

    from recordmill.pipelines.terminal.tables import name_of, new_table

    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in adopted:
        key = one.original.key
        groups[one.original.split, re.sub(r"[0-9]+", "*", key)].append(key)
    table = new_table("file", "files", words=["split"])
    for place, ((split, pattern), keys) in enumerate(groups.items()):
        if place == _ROWS:
            table.add_row(Text(f"... {len(groups) - _ROWS:,} more", style="dim"))
            break
        name = pattern if len(keys) > 1 else keys[0]
        table.add_row(name_of(name), f"{len(keys):,}", Text(split))
    return table


def features_table(manifest: Manifest) -> RenderableType:
    """What was inferred of each feature."""
    from recordmill.pipelines.terminal.tables import name_of, new_table

    table = new_table("feature", words=["type", "shape", "kind"])
    for name, feature in sorted(manifest.features.items()):
        shape = feature.shape if feature.raw_shape is None else feature.raw_shape
        sizes = " x ".join("any" if size is None else str(size) for size in shape)
        kind = f"{feature.kind}, in steps" if feature.sequence else feature.kind
        table.add_row(name_of(name), feature.raw_dtype or feature.dtype, sizes, kind)
    return table
