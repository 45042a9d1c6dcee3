"""Finds the classes in adopted records: the feature with the class numbers, and their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from recordmill.adopt.feature_inference import FeatureSummary, single_number
from recordmill.errors import did_you_mean
from recordmill.tfrecord.decode import Value

CONVENTIONAL = ("image/class/label", "label")  # names of features that usually hold the class
NAMES = "image/class/text"  # the feature that usually holds the name of the class

MAX_CLASSES = 100_000  # larger numbers are not class numbers


class LabelError(ValueError):
    """The given label feature, names or offset do not match the records."""


@dataclasses.dataclass(kw_only=True)
class ClassNumberCandidate:
    """Values of a feature that may hold class numbers.

    low, high: the least and the greatest number; None before the first one.
    names: {number: name}; None if a number has two names, or none, or if there are too many.
    """

    low: int | None = None
    high: int | None = None
    names: dict[int, str] | None = dataclasses.field(default_factory=dict)

    def add(self, number: int, name: Value) -> None:
        """Add a record's number, and the value of its feature NAMES."""
        self.low = number if self.low is None else min(self.low, number)
        self.high = number if self.high is None else max(self.high, number)
        if self.names is None:
            return
        text = _as_name(name)
        if (
            text is None
            or self.names.setdefault(number, text) != text
            or len(self.names) > MAX_CLASSES
        ):
            self.names = None

    def merge(self, other: ClassNumberCandidate) -> None:
        """Add the values of another file."""
        for number in (other.low, other.high):
            if number is not None:
                self.low = number if self.low is None else min(self.low, number)
                self.high = number if self.high is None else max(self.high, number)
        if self.names is None or other.names is None:
            self.names = None
            return
        for number, text in other.names.items():
            if self.names.setdefault(number, text) != text:
                self.names = None
                return


def _as_name(value: Value) -> str | None:
    """Return the value as a class name, or None if it is not a line of text for labels.txt."""
    if not isinstance(value, list) or len(value) != 1:
        return None
    try:
        text = value[0].decode()
    except UnicodeDecodeError:
        return None
    return text if text and "\n" not in text and "\r" not in text else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptedClasses:
    """The classes of adopted records.

    feature: the feature that holds the class numbers; None if there are no classes.
    labels: the class names, as in the manifest.
    notes: sentences on why classes, or their names, are missing.
    """

    feature: str | None = None
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def candidate_features(requested: str | None) -> tuple[str, ...]:
    """Return the features that may hold the class; requested: the user's choice, if any."""
    return CONVENTIONAL if requested is None else (requested,)


def add_record(
    candidates: Mapping[str, ClassNumberCandidate], record: Mapping[str, Value]
) -> dict[str, int | None]:
    """Add a record to the candidates, and return its number by feature."""
    numbers = {}
    for name, candidate in candidates.items():
        numbers[name] = number = single_number(record.get(name))
        if number is not None:
            candidate.add(number, record.get(NAMES))
    return numbers


def find_classes(
    features: Mapping[str, FeatureSummary],
    candidates: Mapping[str, ClassNumberCandidate],
    *,
    requested: str | None,
    names: Sequence[str] | None,
    offset: int,
) -> AdoptedClasses:
    """Determine the classes of all records.

    features, candidates: merged over all files.
    requested: the label feature that the user chose, if any.
    names: the class names that the user gave, if any.
    offset: the number of the first class.

    Raises:
      LabelError: the user's choices do not match the records.
    """
    has_names = NAMES in features
    if requested is not None:
        problem = _label_problem(requested, features)
        if problem is not None:
            raise LabelError(f"--label-feature: {problem}")
        return _classes(
            requested, candidates[requested], names=names, offset=offset, has_names=has_names
        )
    problems = {name: _label_problem(name, features) for name in CONVENTIONAL if name in features}
    found = [name for name, problem in problems.items() if problem is None]
    notes: tuple[str, ...] = ()
    if len(found) == 1:
        (name,) = found
        try:
            return _classes(name, candidates[name], names=names, offset=offset, has_names=has_names)
        except LabelError as error:
            if names is not None:
                raise
            notes = (f"no classes: {error}",)
    elif found:
        notes = (
            f"no classes: both {' and '.join(found)} may hold them; choose one with"
            " --label-feature",
        )
    else:
        notes = tuple(f"no classes: {problem}" for problem in problems.values())
    if names is not None:
        raise LabelError(
            f"--labels-file names classes, but {' and '.join(found) or 'no feature'}"
            f"{' both' if found else ''} may hold their numbers: choose one with --label-feature"
        )
    return AdoptedClasses(notes=notes)


def _label_problem(name: str, features: Mapping[str, FeatureSummary]) -> str | None:
    """Return why a feature cannot hold the class of a record, or None if it can."""
    one = features.get(name)
    if one is None:
        return f"no record has a feature {name!r}{did_you_mean(name, features)}"
    if one.sequence:
        return f"{name!r} is a feature list; expected one class per record"
    if one.dtype != "int64":
        return f"{name!r} holds {one.dtype or 'no value'}; expected int64, the number of a class"
    if not one.most:
        return f"{name!r} has no value in any record"
    if one.most > 1:
        return f"{name!r} holds up to {one.most} values; expected one class per record"
    return None


def _classes(
    feature: str,
    numbers: ClassNumberCandidate,
    *,
    names: Sequence[str] | None,
    offset: int,
    has_names: bool,
) -> AdoptedClasses:
    low, high = numbers.low, numbers.high
    assert low is not None, "the feature has a value in some record"
    assert high is not None
    if low < offset:
        raise LabelError(
            f"{feature!r} holds {low}, but classes begin at {offset}"
            + (": set --label-offset to the number of the first class" if low >= 0 else "")
        )
    if names is not None:
        if high >= offset + len(names):
            raise LabelError(
                f"{feature!r} holds {high}, but the {len(names)} names of --labels-file are for"
                f" {offset} to {offset + len(names) - 1}"
            )
        return AdoptedClasses(feature=feature, labels=tuple(names))
    if high - offset >= MAX_CLASSES:
        raise LabelError(
            f"{feature!r} holds numbers up to {high}; expected at most {MAX_CLASSES} classes"
        )
    known = numbers.names or {}
    labels = tuple(known.get(number, str(number)) for number in range(offset, high + 1))
    notes: tuple[str, ...] = ()
    if len(set(labels)) < len(labels):  # two classes have the same name
        labels = tuple(map(str, range(offset, high + 1)))
        notes = (f"classes have no names: two numbers have the same name in {NAMES!r}",)
    elif has_names and numbers.names is None:
        notes = (f"classes have no names: {NAMES!r} does not have one name for each number",)
    if low > offset:
        begins = f"no record is of class {offset}: --label-offset {low} makes {low} the first class"
        notes = (*notes, begins)
    return AdoptedClasses(feature=feature, labels=labels, notes=notes)


def merge_candidates(
    files: Iterable[Mapping[str, ClassNumberCandidate]],
) -> dict[str, ClassNumberCandidate]:
    """Merge the candidates of all files."""
    merged: dict[str, ClassNumberCandidate] = {}
    for candidates in files:
        for name, candidate in candidates.items():
            merged.setdefault(name, ClassNumberCandidate()).merge(candidate)
    return merged
