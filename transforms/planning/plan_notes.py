"""Notes on a plan, made from the numbers of records in splits and classes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from recordmill.format.class_names import class_order
from recordmill.format.split_names import TRAIN, canonical_split, in_order, misspelt_split
from recordmill.notes import MANY_COPIES, Note, count_of, repeats_many_times
from recordmill.option_checks import list_text
from recordmill.transforms.balancing.quotas import Quota
from recordmill.transforms.model.annotations import OBJECTS
from recordmill.transforms.model.label_rules import alike_classes, read_keys
from recordmill.transforms.model.placeholders import is_placeholder
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.duplicate_notes import counted, left_out_of_splits
from recordmill.transforms.planning.split_fractions import fraction_notes
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.staged.listing import NO_LISTING
from recordmill.transforms.windowing.series_report import SeriesReport

_SHOWN = 3  # classes in a note
_ENOUGH = 10  # expected records or groups of a split, from which it is empty for another reason
_FEW_MORE = 0.02  # further classes per record, up to which several are likely to be mistakes
_SEPARATORS = "|,;/+"
_KEPT_WHOLE = {"group": "groups are kept whole", "file": "all records of a file share a split"}


def plan_notes(
    survey: Survey,
    quotas: Mapping[str, Quota],
    labels: Sequence[str],
    left_out: Mapping[str, int],
    run: RunSpec,
    series: SeriesReport,
) -> Iterator[Note]:
    """Yield the notes.

    labels: the classes of all records, sorted. left_out: {option: number of records or inputs}.
    series: series that yield no window.
    """
    if not survey.counts:
        return  # nothing is left to remark on
    if run.windows is not None:
        yield from series.notes(run.windows)
    yield from _unused_intervals(labels, run)
    yield from alike_classes(labels)
    yield from run.numbered(labels).notes(custom=run.is_custom)
    if run.group_noun not in (None, "file") and survey.groups is not None:
        records = sum(sum(counts.values()) for counts in survey.counts.values())
        yield from survey.groups.notes(records, run.group_noun)
    yield from _missing_classes(survey, labels)
    yield from _split_classes(labels)
    yield from _only_class(survey, labels, run)
    yield from _misread_lists(labels, run)
    yield from _joined_labels(survey, labels, run)
    yield from _few_lists(survey)
    yield from _unknown_keys(survey, left_out, run)
    if run.presplit:
        yield from _odd_splits(survey)
    yield from _empty_splits(survey, run)
    if all(note.code != "stratify" for note in survey.notes):
        sizes = {name: sum(counts.values()) for name, counts in survey.counts.items()}
        yield from fraction_notes(sizes, run, labelled=bool(labels))
    yield from _empty_classes(survey, labels, run)
    yield from _lost_classes(survey, labels, left_out, run)
    yield from _many_copies(survey, quotas)


def _unused_intervals(labels: Sequence[str], run: RunSpec) -> Iterator[Note]:
    """Yield a note for classes of intervals that no window has; their times may be misread."""
    for label, interval in () if run.windows is None else run.windows.interval_classes:
        names = run.rules.renamed({label: 1})  # none if it is left out
        if not names.keys() <= {*labels}:
            yield Note(
                "intervals",
                f"no window has the class {label!r} of --intervals (such as {interval}): check the"
                " unit and the time zone of these times, and the rows that --window-label takes",
            )


def _missing_classes(survey: Survey, labels: Sequence[str]) -> Iterator[Note]:
    """Yield a note on classes whose names usually stand for a missing value."""
    found = [label for label in labels if is_placeholder(label)]
    if "+" in labels:  # '-' is its opposite
        found = [label for label in found if label.strip() != "-"]
    if not found:
        return
    counts: Counter[str | None] = Counter()
    for classes in (survey.held or survey.counts).values():
        counts.update(classes)
    some = ", ".join(f"{name!r} ({count_of(counts[name], 'record')})" for name in found[:_SHOWN])
    more = ", ..." if len(found) > _SHOWN else ""
    names = shlex.quote(list_text(found))
    yield Note(
        "missing-class",
        f"{'a class has a name' if len(found) == 1 else f'{len(found)} classes have names'} that"
        f" may stand for a missing value: {some}{more}; if they do, --missing {names} reads them as"
        " missing in all columns of rows and listings, so that their records have no class, and"
        f" --exclude-labels {names} leaves their records out",
    )


def _split_classes(labels: Sequence[str]) -> Iterator[Note]:
    """Yield a note if the classes are names of splits."""
    if len(labels) > 1 and all(map(canonical_split, labels)):
        yield Note(
            "splits",
            f"all classes have names of splits ({', '.join(labels[:_SHOWN])}): if they are the"
            " splits, --split-from, --split-column or --input SPLIT=WHERE takes them, and"
            " --label-from or --label-column the classes",
        )


def _only_class(survey: Survey, labels: Sequence[str], run: RunSpec) -> Iterator[Note]:
    """Yield a note if all records have the same class, which options do not name."""
    records = {label for counts in survey.counts.values() for label in counts}
    rules = run.rules
    by_option = run.labels or rules.allowed or rules.included or rules.excluded
    noted = any(note.code == "no-classes" for note in run.notes)
    if len(labels) == 1 and records == {*labels} and not (by_option or _has_objects(run) or noted):
        yield Note(
            "one-class",
            f"all records have the same class, {labels[0]!r}: if it is not a class, --label-from or"
            " --label-column takes the classes from elsewhere, --label-type none writes none",
        )


def _has_objects(run: RunSpec) -> bool:
    """Return whether classes are those of annotated objects."""
    return run.layout is not None and OBJECTS in run.layout.columns.names


def _misread_lists(labels: Sequence[str], run: RunSpec) -> Iterator[Note]:
    """Yield a note if lists of labels were read as names, or vectors as lists of labels."""
    if run.multi_label and labels and {*labels} <= {"0", "1"}:
        yield Note(
            "label-lists",
            f"the labels in lists are {' and '.join(map(repr, labels))}: if the lists are vectors"
            " with a 1 for each class of a record, name the column with --label-columns",
        )
    lists = [label for label in labels if label[:1] == "[" and label[-1:] == "]"]
    if lists:
        yield Note(
            "label-lists",
            f"names of classes look like lists: {_some(lists)}; for several labels per record write"
            " lists in JSON lines or Parquet, or texts such as a|b with --label-separator '|'",
        )


def _joined_labels(survey: Survey, labels: Sequence[str], run: RunSpec) -> Iterator[Note]:
    """Yield a note if some classes consist of other classes with a separator between them."""
    of_column = run.number_labels is not None and run.number_labels.startswith("the column ")
    if not of_column or run.multi_label or run.windows is not None:
        return  # an option says how to read them, or they cannot be lists
    names = {*labels}
    by_separator = {
        separator: [
            label
            for label in labels
            if separator in label and names.issuperset(map(str.strip, label.split(separator)))
        ]
        for separator in _SEPARATORS
    }
    separator, joined = max(by_separator.items(), key=lambda item: len(item[1]))
    counts: Counter[str | None] = Counter()
    for classes in survey.counts.values():
        counts.update(classes)
    records = sum(counts[label] for label in joined)
    if joined and (len(joined) > 1 or records > _FEW_MORE * counts.total()):
        yield Note(
            "label-lists",
            f"{len(joined)} of {len(labels)} classes"
            f" {'joins' if len(joined) == 1 else 'join'} other classes with {separator!r}"
            f" ({count_of(records, 'record')}): {_some(joined)}; --label-separator '{separator}'"
            " gives their records several classes, --label-type class keeps these classes",
        )


def _few_lists(survey: Survey) -> Iterator[Note]:
    """Yield a note if almost all records that may have several classes have one."""
    labelled = sum(sum(counts.values()) - counts.get(None, 0) for counts in survey.counts.values())
    more = sum(sum(held.values()) for held in survey.held.values()) - labelled
    if 0 < more <= _FEW_MORE * labelled:
        yield Note(
            "label-lists",
            f"{labelled:,} records have {labelled + more:,} classes in all: each gets a list of"
            " classes, because a few have several; if each should have one, correct the input",
        )


def _unknown_keys(survey: Survey, left_out: Mapping[str, int], run: RunSpec) -> Iterator[Note]:
    """Yield a note if some keys of --exclude-keys belong to no record."""
    if run.rules.excluded_keys is None:
        return
    keys = read_keys(run.rules.excluded_keys)
    count = len(keys)
    found = left_out.get("exclude-keys", 0)
    if found < count:
        belong = "belongs" if count - found == 1 else "belong"
        text = (
            f"{count - found} of {count_of(count, 'key')} of --exclude-keys {belong} to no record"
        )
        if not found:
            sample = next(sample for sample in survey.samples.values() if len(sample))
            text += (
                f"; keys of records look like {sample['key'][0].as_py()!r}, not {keys[0].as_py()!r}"
            )
        yield Note("unknown-keys", text)


def _odd_splits(survey: Survey) -> Iterator[Note]:
    """Yield a note for each split whose name seems misspelt, or a missing value."""
    for name in in_order(survey.counts):
        if canonical_split(name) == name:
            continue
        records = count_of(sum(survey.counts[name].values()), "record")
        if (near := misspelt_split(name)) is not None:
            yield Note("splits", f"the input names a split {name!r} ({records}): is it {near!r}?")
        elif is_placeholder(name):
            yield Note("splits", f"a split {name!r} has {records}: is it a missing value?")


def _empty_splits(survey: Survey, run: RunSpec) -> Iterator[Note]:
    """Yield a note for each requested split without records; of given splits, for train alone.

    Given splits of which records were left out as duplicates have a note, too.
    """
    left_out = left_out_of_splits(survey.parts, run.staging) if run.presplit else {}
    for name in dict.fromkeys([*run.splits, *in_order(left_out)]):
        if name in survey.counts:
            continue
        if name in left_out:
            why = f"because its records were left out: {counted(left_out[name])}"
        elif run.windows is not None and run.windows.divides_time:
            why = "because no window lies between its begin and its end"
        elif run.windows is not None and not run.presplit:
            why = (
                "because there are too few series, and a series never spans two splits: --split-by"
                " series-time divides every series"
            )
        elif not run.presplit:
            why = _too_few(survey, run, run.splits[name])
        elif name == TRAIN:
            why = "because the input names other splits"
            if _excludes_any(survey, run):  # whose splits are not counted
                why += ", or its records were rejected or left out"
        else:
            continue
        yield Note("empty-split", f"no record is in the split {name!r}, {why}")


def _excludes_any(survey: Survey, run: RunSpec) -> bool:
    """Return whether records were rejected or left out."""
    listing = run.staging.listing() or NO_LISTING
    return bool(listing.rejects or any(listing.filtered.values())) or any(
        part.rejected + part.filtered + part.unread for part in survey.parts
    )


def _too_few(survey: Survey, run: RunSpec, fraction: float) -> str:
    """Return why a split of this fraction has no record."""
    number, noun = sum(sum(counts.values()) for counts in survey.counts.values()), "record"
    groups = survey.groups
    if run.group_noun in _KEPT_WHOLE and groups is not None and not groups.capped:
        number, noun = len(groups.names) + groups.missing, run.group_noun
        whole = _KEPT_WHOLE[noun]
    elif run.group_noun is not None or run.grouped:
        whole = "groups, such as the records of one file, are kept whole"
    else:
        whole = "records of equal content or key share a split"
    # Among so many independent records or groups, an empty split is very unlikely.
    if number * fraction >= _ENOUGH:
        return f"because {whole}"
    few = f"there are too few {noun}s ({number:,} for a fraction of {fraction:g})"
    return f"because {few if noun == 'record' else f'{whole}, and {few}'}"


def _empty_classes(survey: Survey, labels: Sequence[str], run: RunSpec) -> Iterator[Note]:
    """Yield notes on classes that only train has, and on other classes that a split lacks.

    Splits without any class are left out.
    """
    there = {name: {*survey.classes[name]} & {*labels} for name in in_order(survey.counts)}
    there = {name: held for name, held in there.items() if held}
    alone: list[str] = []
    if TRAIN in there and len(there) > 1:
        others = set().union(*(held for name, held in there.items() if name != TRAIN))
        alone = [label for label in labels if label in there[TRAIN] - others]
    if alone:
        counts = (survey.held or survey.counts)[TRAIN]
        some = ", ".join(
            f"{label!r} ({count_of(counts[label], 'record')})" for label in alone[:_SHOWN]
        )
        more = ", ..." if len(alone) > _SHOWN else ""
        classes = "a class" if len(alone) == 1 else f"{len(alone)} of {len(labels)} classes"
        names = "" if more else f" {shlex.quote(list_text(alone))}"
        left_out = "boxes" if _has_objects(run) else "records"
        yield Note(
            "empty-class",
            f"train alone has {classes}: {some}{more}; --exclude-labels{names} leaves their"
            f" {left_out} out",
        )
    lacking = []
    for name, held in there.items():
        missing = [label for label in labels if label not in held and label not in alone]
        if missing:
            noted = 0 if name == TRAIN else len(alone)
            also = f" and the {'one' if noted == 1 else noted} of train alone" if noted else ""
            lacking.append(f"{name} lacks {len(missing) + noted} ({_some(missing)}{also})")
    if lacking:
        text = f"of {len(labels)} classes, {'; '.join(lacking)}"
        yield Note("empty-class", text)


def _lost_classes(
    survey: Survey, labels: Sequence[str], left_out: Mapping[str, int], run: RunSpec
) -> Iterator[Note]:
    """Yield a note on classes of the listing of which no file is left, such as undecodable ones."""
    if "limit" in left_out:
        return  # it may have left out a class
    counts = Counter(run.listed_classes)
    for part in survey.parts:
        counts.update(part.lost_classes)
    lost = class_order({*counts}.difference(labels))
    if lost:
        some = ", ".join(f"{name!r} ({counts[name]:,})" for name in lost[:_SHOWN])
        more = ", ..." if len(lost) > _SHOWN else ""
        yield Note(
            "empty-class",
            f"no record is left of {some}{more}: all files of"
            f" {'this class' if len(lost) == 1 else 'these classes'} were rejected or left out",
        )


def _many_copies(survey: Survey, quotas: Mapping[str, Quota]) -> Iterator[Note]:
    """Yield a note if balancing copies the records of some class very often."""
    counts = survey.counts.get(TRAIN, {})
    copies = {
        label: quota.size / counts[label]
        for label, quota in quotas.items()
        if repeats_many_times(quota.size, counts.get(label, 0))
    }
    if not copies:
        return
    most = min(copies, key=lambda label: (-copies[label], label))
    classes = "a class is" if len(copies) == 1 else f"{len(copies)} classes are"
    text = (
        f"{classes} repeated {MANY_COPIES} times or more: {most!r} has"
        f" {count_of(counts[most], 'record')} in train, each written {copies[most]:.0f} times;"
        " --balance-target limits it"
    )
    yield Note("many-copies", text)


def _some(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels[:_SHOWN])) + (", ..." if len(labels) > _SHOWN else "")
