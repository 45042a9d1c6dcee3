"""Checks of the classes that options name against the classes of the input."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import pyarrow as pa

from recordmill.errors import did_you_mean
from recordmill.format.class_names import class_order, difference, fold_labels, name_key
from recordmill.job.staging import Staging
from recordmill.notes import Note
from recordmill.option_checks import list_text
from recordmill.option_names import are_flags, option_name
from recordmill.transforms.model.label_rules import LabelRules

SEEN = "labels"  # folder of staging: the labels of each part before rules changed them
_SHOWN = 20  # classes in an error
_SOME = 3  # names in a note


class NameCheck(NamedTuple):
    """The outcome of a check: an error, or a note; None without one."""

    problem: str | None = None
    note: Note | None = None


def check_names(
    option: str,
    names: Mapping[str, str],
    classes: Collection[str],
    *,
    noun: str = "record",
    unchanged: Collection[str] = (),
    elsewhere: Collection[str] = (),
) -> NameCheck:
    """Check the names of an option.

    It is an error if no name is that of a class, or if a name differs from that of a class by its
    spelling alone, unless the option names this class, too.

    option: as it is typed. names: {name as given: name as it is compared}. noun: of the items that
      have classes.
    unchanged: classes that a name may be a spelling of, because the option gives them this name.
    elsewhere: names of other options, which decide on the other spellings of a class.
    """
    unnamed = {*classes}.difference(names.values(), unchanged)
    if not unnamed:
        return NameCheck()
    there = f"the classes are {shown_classes(classes)}"
    others = {name_key(one): one for one in sorted(unnamed)}
    beside = {name_key(one): one for one in sorted(unnamed.difference(elsewhere))}
    unknown = []
    for given, name in names.items():
        is_known = name in classes
        near = (beside if is_known else others).get(name_key(name))
        if near is not None:
            how = f"{near!r} differs from it only by {difference(name, near)}"
            what = "the class" if is_known else f"no {noun} has this class, but"
            todo = f": {_joins(name, near)}" if is_known and are_flags() else ""
            return NameCheck(f"{option} {given}: {what} {how}{todo}; {there}")
        if not is_known:
            unknown.append(given)
    if not unknown:
        return NameCheck()
    # A name whose records already have the wanted class counts as a match.
    wanted = {name_key(one) for one in {*classes}.intersection(unchanged)}
    fulfilled = any(name_key(names[given]) in wanted for given in unknown)
    if len(unknown) == len(names) and not fulfilled:
        near_text = did_you_mean(unknown[0], classes) if len(unknown) == 1 else ""
        which = "this class" if len(unknown) == 1 else "any of these classes"
        some = list_text(unknown[:_SOME]) + (",..." if len(unknown) > _SOME else "")
        return NameCheck(f"{option} {some}: no {noun} has {which}{near_text}; {there}")
    some = ", ".join(map(repr, unknown[:_SOME])) + (", ..." if len(unknown) > _SOME else "")
    what = "a class" if option != "--label-map" else "an old class"
    return NameCheck(note=Note("unknown-class", f"no {noun} has {what} of {option}: {some}"))


def check_rules(
    rules: LabelRules, window_class: str, seen: Collection[str], *, noun: str = "record"
) -> list[NameCheck]:
    """Check the classes that rules name, and that of --window-label.

    window_class: empty without one. seen: the labels of the input before the rules. noun: what has
      labels.
    """
    labels = pa.array(sorted(seen), pa.string())
    checks = []
    news = {new for _, new in rules.mapping}
    selected = {*rules.selected(rules.included), *rules.selected(rules.excluded)}
    if rules.mapping:
        olds = zip(rules.mapping, rules.olds, strict=True)
        names = {f"{old}={new}": name for (old, new), name in olds}
        found = {*rules.folded(labels)}
        check = check_names(
            "--label-map", names, found, noun=noun, unchanged=news, elsewhere=selected
        )
        checks.append(check)
    after = {name for name in rules.outcomes(labels)[0] if name is not None}
    for option, given in (
        ("--include-labels", rules.included),
        ("--exclude-labels", rules.excluded),
    ):
        names = dict(zip(given, rules.selected(given), strict=True))
        checks.append(check_names(option, names, after, noun=noun, elsewhere=selected | news))
    if window_class:
        of_rows = {name for name in rules.of_rows.outcomes(labels)[0] if name is not None}
        option = option_name("label", flag="window-label")
        checks.append(check_names(option, {window_class: window_class}, of_rows, elsewhere=news))
    return checks


def _joins(name: str, near: str) -> str:
    """Return what to do about a class beside one that an option names, for an error."""
    folded = fold_labels(pa.array([name, near], pa.string()))
    join = "--fold-labels" if folded[0] == folded[1] else f"--label-map '{near}={name}'"
    apart = f"--label-map '{near}={near}' keeps them apart"
    if near != near.strip() or "," in near or not near.isprintable():
        return f"{join} joins them, {apart}"  # lists of names cannot hold it
    return f"name both, or else {join} joins them, {apart}"


def read_seen(staging: Staging) -> set[str]:
    """Return the labels of all parts before rules changed them."""
    files = staging.place(SEEN).list_dir()
    found = (staging.read_json(f"{SEEN}/{one.name}", list[str]) for one in files)
    return {label for labels in found for label in labels or ()}


def shown_classes(classes: Collection[str]) -> str:
    """Return classes for a message, the first ones if there are many."""
    ordered = class_order(classes)
    some = ", ".join(map(repr, ordered[:_SHOWN]))
    return f"{some}, ... ({len(ordered):,})" if len(ordered) > _SHOWN else some or "none"
