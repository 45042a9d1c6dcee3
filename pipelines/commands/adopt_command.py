"""The command `recordmill adopt`, which describes existing TFRecord files as a dataset."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recordmill.pipelines.options.arguments.command_line import (
    parse_command,
    temporary_outputs,
)
from recordmill.pipelines.options.inputs.adopt_config import AdoptConfig
from recordmill.runners.progress import Snapshot, Watcher

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recordmill.adopt.adoption import AdoptedShard
    from recordmill.adopt.file_scan import Scan
    from recordmill.format.manifest import Manifest
    from recordmill.pipelines.commands.adopt_job import AdoptOutcome

_ROWS = 20  # file name patterns shown


def adopt_main(argv: Sequence[str]) -> int:
    """Makes a dataset of existing TFRecord files, without rewriting them: every file is read once,
    linked into the output folder, and described in a manifest.

    Example:
      recordmill adopt --input 'data/*.tfrecord' --output out
    """
    with temporary_outputs() as temporary:
        return _adopt(parse_command(AdoptConfig, _spread(argv), adopt_main, temporary=temporary))


def _adopt(config: AdoptConfig) -> int:
    from recordmill.pipelines.commands.adopt_job import AdoptJob
    from recordmill.pipelines.jobs.execution import exit_on_signals

    started = time.monotonic()
    job = AdoptJob(config)
    counted = _Counted()
    watcher = Watcher(counted.snapshot, quiet=config.quiet)
    with exit_on_signals(watcher, None, "recordmill adopt"), watcher:
        outcome = job.run(on_listed=counted.begin, on_scanned=counted.add)
    if not config.quiet:
        _print_outcome(outcome, config, seconds=time.monotonic() - started)
    if not config.dry_run:
        from recordmill.pipelines.earlier.report_file import update_report

        update_report(job.output, wanted=config.report, prog="recordmill adopt", quiet=config.quiet)
    return 0


def _spread(argv: Sequence[str]) -> list[str]:
    """Insert --input before every file, because a shell expands an unquoted pattern to many."""
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
    """Progress in files read."""

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


def _print_outcome(outcome: AdoptOutcome, config: AdoptConfig, *, seconds: float) -> None:
    from recordmill.checking.verify import decodes_images
    from recordmill.notes import count_of
    from recordmill.pipelines.terminal import report
    from recordmill.pipelines.terminal.tables import stack

    if outcome.status == "described":
        print(f"the card of {config.output} was replaced; its shards are as before")
        return
    if outcome.status == "unchanged":
        if outcome.resumed:
            print("Publishing of an interrupted run was completed; there is nothing else to do")
        else:
            checked = "the contents of its files are those of its manifest"
            if config.verify is None:
                checked = "sizes agree; run recordmill verify, or add --verify, to check contents"
            elif config.verify == "deep":
                checked += ", and every image can be decoded"
            print(f"nothing has changed since {config.output} was written: {checked}")
            for note in outcome.damaged_images.notes():
                print(f"Note: {note}")
        return
    tables = stack(files_table(outcome.adopted), features_table(outcome.manifest))
    if outcome.status == "planned":
        from rich.text import Text

        records = sum(split.records for split in outcome.manifest.splits.values())
        last = f"{count_of(records, 'record')} in these files can be adopted; nothing was written."
        notes = [f"Note: {note}" for note in outcome.manifest.notes]
        report.show(stack(tables, Text("\n".join([*notes, last]))))
        return
    report.show(
        stack(tables, report.closing(outcome.manifest, output=config.output, seconds=seconds))
    )
    if config.verify != "deep" and decodes_images(outcome.manifest.features):
        print(
            "Images were not decoded, only recognized by their first bytes: run recordmill verify"
            " --deep, or adopt with --verify deep, to decode all"
        )
    for note in outcome.damaged_images.notes():
        print(f"Note: {note}")
    if outcome.copied:
        print(
            f"{outcome.copied:,} of {count_of(len(outcome.adopted), 'file')} had to be copied,"
            " because the output's file system cannot hard-link them"
        )


def files_table(adopted: Sequence[AdoptedShard]) -> RenderableType:
    """Return a table of files and their splits; names that differ only in numbers share a row."""
    from rich.text import Text

    from recordmill.pipelines.terminal.tables import name_of, new_table

    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in adopted:
        key = one.source.key
        groups[one.source.split, re.sub(r"[0-9]+", "*", key)].append(key)
    table = new_table("file", "files", words=["split"])
    for place, ((split, pattern), keys) in enumerate(groups.items()):
        if place == _ROWS:
            table.add_row(Text(f"... {len(groups) - _ROWS:,} more", style="dim"))
            break
        name = pattern if len(keys) > 1 else keys[0]
        table.add_row(name_of(name), f"{len(keys):,}", Text(split))
    return table


def features_table(manifest: Manifest) -> RenderableType:
    """Return a table of the inferred features."""
    from recordmill.pipelines.terminal.tables import name_of, new_table

    table = new_table("feature", words=["type", "shape", "kind"])
    for name, feature in sorted(manifest.features.items()):
        shape = feature.shape if feature.raw_shape is None else feature.raw_shape
        sizes = " x ".join("any" if size is None else str(size) for size in shape)
        kind = f"{feature.kind}, sequence" if feature.sequence else feature.kind
        table.add_row(name_of(name), feature.raw_dtype or feature.dtype, sizes, kind)
    return table
