"""The command `recordmill diff`: the differences between two finished datasets.

It raises ConfigError for wrong usage and RunError if one of them cannot be read.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Sequence

from recordmill import strict_json
from recordmill.checking.dataset_diff import FACTS, diff
from recordmill.checking.record_differences import KINDS
from recordmill.errors import ConfigError, RunError
from recordmill.notes import count_of
from recordmill.options import values
from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.storage.files import Location

_DATASETS = Group(10, "Datasets")
_OUTPUT = Group(30, "Output")
_ALL = "all"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiffConfig:
    """Options of `recordmill diff`."""

    before: str = option(
        group=_DATASETS,
        metavar="FOLDER",
        help="Folder of the earlier dataset: a path, or s3://, gs://.",
    )
    after: str = option(group=_DATASETS, metavar="FOLDER", help="Folder of the later dataset.")
    fail_on: tuple[str, ...] = option(
        (),
        group=_OUTPUT,
        parse=values.some_of(*KINDS, *FACTS, _ALL),
        repeat=True,
        metavar="KIND,...",
        help="Exit with 1 if there are differences of one of these kinds:"
        f" {', '.join((*KINDS, *FACTS))}; or of any (all).",
    )
    json: bool = option(False, group=_OUTPUT, help="Print JSON.")
    quiet: bool = option(False, group=_OUTPUT, help="Print nothing but the reason for exit code 1.")

    def __post_init__(self) -> None:
        if self.json and self.quiet:
            raise ConfigError("--quiet: contradicts --json, which prints: leave one of them out")


def diff_main(argv: Sequence[str]) -> int:
    """Shows which records, options, features and statistics differ between two datasets.

    Example:
      recordmill diff sets/2026-11-25 sets/2026-11-26
      recordmill diff sets/2026-11-25 sets/2026-11-26 --fail-on moved,removed
    """
    config = parse_command(DiffConfig, with_flags(argv), diff_main)
    try:
        found = diff(Location.parse(config.before), Location.parse(config.after))
    except RunError as error:
        if config.json:
            strict_json.show({"error": str(error)})
        raise
    if config.json:
        strict_json.show(found.to_json())
    elif not config.quiet:
        from recordmill.pipelines.terminal import differences, report

        report.show(differences.tables(found, before=config.before, after=config.after))
    failed = [
        f"{kind} {count:,}"
        for kind, count in found.counts().items()
        if count and not {kind, _ALL}.isdisjoint(config.fail_on)
    ]
    if not {"changed", _ALL}.isdisjoint(config.fail_on):
        failed += found.records.not_compared
    if failed:
        print(f"recordmill diff: error: --fail-on: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def with_flags(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the flags of the two folders, which may come first without them."""
    places = [*itertools.takewhile(lambda one: not one.startswith("-"), argv)]
    if not places:
        return [*argv]
    if len(places) != 2:
        raise ConfigError(
            "expected the folders of two datasets, recordmill diff BEFORE AFTER; got"
            f" {count_of(len(places), 'folder')}"
        )
    again = {one.partition("=")[0] for one in argv[2:]} & {"--before", "--after"}
    if again:
        raise ConfigError(
            f"{min(again)}: the two folders are given without it; leave out one or the other"
        )
    return ["--before", places[0], "--after", places[1], *argv[2:]]
