"""Reasons why nothing is written: too many rejects, nothing left, options that fit no split."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from recordmill.errors import Reject
from recordmill.format.class_names import are_integers, equal_numbers
from recordmill.format.ledger import INPUT
from recordmill.format.split_names import UNMAPPED, is_split_name
from recordmill.gates import fraction, is_within
from recordmill.job.staging import Verdict
from recordmill.notes import count_of, most_frequent
from recordmill.option_names import option_name
from recordmill.transforms.model.window_options import EVERY_SPLIT, WindowOptions
from recordmill.transforms.sources.row_formats.where.condition_syntax import WHERE

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHOWN = 2  # rejects in a message
_NAMES = 5  # names of a file in a message
_MANY_NUMBERS = 50  # largest number of integer classes without --label-type


def refusal_of(
    rejected: int,
    seen: int,
    max_fraction: float,
    *,
    invalid: int,
    records: int,
    made: int,
    unit: str = INPUT,
    examples: Sequence[Reject] | None = None,
) -> Verdict | None:
    """Return the verdict if too many inputs, or too many records, were rejected.

    Where an input is one record, the second fraction never exceeds the first. Windows are fewer
    than the rows that they are cut from, so only the second one judges them.

    rejected: number of rejects: inputs, and records, of which `invalid` are records of inputs that
      have several. seen: number of inputs. records: number of rejected records. made: number of
      records that inputs should have given. unit: name of a record in the ledger. examples: as in
      `refusal`.
    """
    found = refusal(rejected - invalid, seen, max_fraction, examples=examples)
    if found is None:
        found = refusal(records, made, max_fraction, noun=records_of(unit), examples=examples)
    return found


def records_of(unit: str) -> str:
    """Return the plural noun for records. unit: name of a record in the ledger."""
    return "records" if unit == INPUT else f"{unit}s"


def refusal(
    rejected: int,
    seen: int,
    max_fraction: float,
    *,
    noun: str = "inputs",
    examples: Sequence[Reject] | None = None,
) -> Verdict | None:
    """Return the verdict if more than `max_fraction` of the inputs were rejected, else None.

    noun: plural noun for what was rejected. examples: the rejects of a custom pipeline, of which
      the message shows the first; None for a command, which reports them itself.
    """
    share = fraction(rejected, seen)
    if not rejected or is_within(share, most=max_fraction):
        return None
    option = "--max-reject-fraction" if examples is None else "max_reject_fraction"
    shown = ", ".join(f"{one.key!r} ({one.detail})" for one in (examples or ())[:_SHOWN])
    percent = "" if share is None else f" ({share:.1%})"
    return Verdict(
        f"{rejected:,} of {seen:,} {noun} were rejected{percent}, more than"
        f" {option} {max_fraction:g} allows: correct the input, or raise {option}"
        f"{'; the first rejects: ' if shown else ''}{shown}"
    )


def unlike_classes(names: Sequence[str]) -> str:
    """Return a sentence on a file of class names of which no record has one."""
    some = ", ".join(map(repr, names[:_NAMES])) + (", ..." if len(names) > _NAMES else "")
    return (
        f"no record has a class of --labels-file, which holds {some}: expected one class name per"
        " line, without numbers, commas or a header"
    )


def unusable_splits(names: Collection[str]) -> list[str]:
    """Return a sentence for each split of the input whose name cannot be part of a file name.

    Values that --split-map does not name are in one sentence.
    """
    unmapped = sorted(name for name in names if name.startswith(UNMAPPED))
    if unmapped:
        values = [repr(name.removeprefix(UNMAPPED)) for name in unmapped]
        more = f" and {len(values) - _NAMES} more" if len(values) > _NAMES else ""
        return [
            f"{option_name('split_map')}: no split for {', '.join(values[:_NAMES])}{more}: add the"
            " values, or *=train for all other values (*=none leaves them out)"
        ]
    return [
        f"the input names a split {name!r}, expected letters, digits, _ and -, because files are"
        " named after it: rename it in the input"
        for name in sorted(names)
        if not is_split_name(name)
    ]


def nothing_left(
    seen: int, *, rejected: int, filtered: Mapping[str, int], runs: str | None = None
) -> Verdict:
    """Return the verdict on a run without a record to write.

    seen: number of inputs. filtered: {option: number of inputs that it excluded}.
    runs: a sentence on the runs of time series if all are too short for a window.
    """
    reasons = [f"{rejected} were rejected"] if rejected else []
    filtered = {option: count for option, count in most_frequent(filtered) if count}
    reasons += [f"{count} were filtered by --{option}" for option, count in filtered.items()]
    todo = ["correct the input"] if rejected else []
    todo += [f"relax --{option}" for option in filtered]
    if runs is not None:
        counts = ", ".join(reasons) or "none was kept"
        runs += f", or relax --{WHERE}" if WHERE in filtered else ""
        return Verdict(f"nothing is left to write: of {count_of(seen, 'input')} {counts}; {runs}")
    return Verdict(
        f"nothing is left to write: of {count_of(seen, 'input')}"
        f" {', '.join(reasons) or 'none was kept'}:"
        f" {', or '.join(todo) or 'check the input'}"
    )


def numbers_as_classes(
    labels: Sequence[str], where: str | None, *, windows: bool = False
) -> list[str]:
    """Return a sentence if classes are decimal numbers or very many integers.

    where: the column or array of labels, if no option says how to read it. windows: the records are
    windows of rows.
    """
    if where is None or not labels:
        return []
    points = [label.replace(",", ".") for label in labels]
    if are_integers(labels):
        kind, name, few = "integers", "int", len(labels) <= _MANY_NUMBERS
    else:
        kind, name, few = "decimal numbers", "float", not all(map(_NUMBER.fullmatch, points))
    if few:
        return []
    if points != [*labels]:
        return [
            f"{where} has {len(labels)} classes, and all look like numbers with decimal commas:"
            " --decimal , --label-type float reads them as numbers to predict, --label-separator ,"
            " as lists of labels, --label-type class keeps them as classes"
        ]
    equal = equal_numbers(labels)
    same = f"; {' and '.join(map(repr, equal[0]))} are the same number" if equal else ""
    channel = "--label-type none reads them as a channel, " if windows else ""
    return [
        f"{where} has {len(labels)} classes, and all are {kind}: --label-type {name} reads them as"
        f" numbers to predict, {channel}--label-type class keeps them as classes{same}"
    ]


def unknown_splits(
    num_shards: int | Mapping[str, int] | None,
    windows: WindowOptions | None,
    known: Collection[str],
    *,
    custom: bool = False,
) -> list[str]:
    """Return a sentence for each split that an option names and that does not exist.

    custom: whether the options are those of a custom pipeline, not of a command.
    """
    shards = list(num_shards) if isinstance(num_shards, Mapping) else []
    last = [] if windows is None else [n for n in windows.last_window if n != EVERY_SPLIT]
    return [
        f"{flag} names a split {name!r}, expected one of {', '.join(known)}"
        for flag, names in (
            ("num_shards" if custom else "--num-shards", shards),
            ("last_window" if custom else "--last-window", last),
        )
        for name in names
        if name not in known
    ]
