"""Class numbers in the records of others: which feature holds them, and what the classes are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from recordmill.adopt.feature_inference import FeatureSummary, single_number
from recordmill.errors import did_you_mean
from recordmill.format.decode import Value

CONVENTIONAL = ("image/class/label", "label")
NAMES = "image/class/text"  # a class's name, beside its number

MOST = 100_000  # classes; numbers beyond are something else


class LabelError(ValueError):
    """What was asked for cannot be the classes of these records."""


@dataclasses.dataclass(kw_only=True)
class ClassNumberCandidate:
    """What was seen of a feature that may hold class numbers.

    low, high: the least and the greatest, None where there was none. names: {number: name}; None
    where a number has two names, or none, or there are too many.
    """

    low: int | None = None
    high: int | None = None
    names: dict[int, str] | None = dataclasses.field(default_factory=dict)

    def add(self, number: int, name: Value) -> None:
        """Counts a record's number, and what its feature NAMES holds."""
        self.low = number if self.low is None else min(self.low, number)
        self.high = number if self.high is None else max(self.high, number)
        if self.names is None:
            return
        text = _as_name(name)
        if text is None or self.names.setdefault(number, text) != text or len(self.names) > MOST:
            self.names = None

    def merge(self, other: ClassNumberCandidate) -> None:
        """Adds what was seen in another file."""
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
    """A name that can stand in a line of labels.txt."""
    if not isinstance(value, list) or len(value) != 1:
        return None
    try:
        text = value[0].decode()
    except UnicodeDecodeError:
        return None
    return text if text and "\n" not in text and "\r" not in text else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classes:
    """feature: which one holds the numbers; None where there is none. labels: as a manifest has
    them. notes: sentences on what was decided.
    """

    feature: str | None = None
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def candidates(asked: str | None) -> tuple[str, ...]:
    """Features that may hold the class, given the one that was asked for."""
    return CONVENTIONAL if asked is None else (asked,)


def add_record(
    found: Mapping[str, ClassNumberCandidate], record: Mapping[str, Value]
) -> dict[str, int | None]:
    """Counts a record's numbers and returns them by feature."""
    numbers = {}
    for name, seen in found.items():
        numbers[name] = number = single_number(record.get(name))
        if number is not None:
            seen.add(number, record.get(NAMES))
    return numbers


def decide(
    seen: Mapping[str, FeatureSummary],
    numbers: Mapping[str, ClassNumberCandidate],
    *,
    asked: str | None,
    names: Sequence[str] | None,
    offset: int,
) -> Classes:
    """What the classes are.

    asked, names: the feature and the names that were given, if any. offset: of the first class.

    Raises:
      LabelError: what was asked for does not go with the records.
    """
    if asked is not None:
        problem = _no_label(asked, seen)
        if problem is not None:
            raise LabelError(f"--label-feature: {problem}")
        return _classes(asked, numbers[asked], names=names, offset=offset, named=NAMES in seen)
    found = [name for name in CONVENTIONAL if name in seen and _no_label(name, seen) is None]
    notes: tuple[str, ...] = ()
    if len(found) == 1:
        (name,) = found
        try:
            return _classes(name, numbers[name], names=names, offset=offset, named=NAMES in seen)
        except LabelError as error:
            if names is not None:
                raise
            notes = (f"no classes: {error}",)
    elif found:
        notes = (
            f"no classes: both {' and '.join(found)} may hold them; --label-feature says which",
        )
    else:
        there = [_no_label(name, seen) for name in CONVENTIONAL if name in seen]
        notes = tuple(f"no classes: {problem}" for problem in there)
    if names is not None:
        raise LabelError(
            f"--labels-file: there are names of classes, but {' and '.join(found) or 'no feature'}"
            f"{' both' if found else ''} might hold their numbers: name one by --label-feature"
        )
    return Classes(notes=notes)


def _no_label(name: str, seen: Mapping[str, FeatureSummary]) -> str | None:
    """Why a feature cannot hold the class of a record."""
    one = seen.get(name)
    if one is None:
        return f"no record has a feature {name!r}{did_you_mean(name, seen)}"
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
    named: bool,
) -> Classes:
    low, high = numbers.low, numbers.high
    assert low is not None, "it has a value in some record"
    assert high is not None
    if low < offset:
        raise LabelError(
            f"{feature!r} holds {low}, and classes begin at {offset}"
            + (": --label-offset says where they begin" if low >= 0 else "")
        )
    if names is not None:
        if high >= offset + len(names):
            raise LabelError(
                f"{feature!r} holds {high}, and the {len(names)} names of --labels-file are of"
                f" {offset} to {offset + len(names) - 1}"
            )
        return Classes(feature=feature, labels=tuple(names))
    if high - offset >= MOST:
        raise LabelError(f"{feature!r} holds numbers up to {high}, which are hardly of classes")
    known = numbers.names or {}
    labels = tuple(known.get(number, str(number)) for number in range(offset, high + 1))
    notes: tuple[str, ...] = ()
    if len(set(labels)) < len(labels):  # two classes of one name
        labels = tuple(map(str, range(offset, high + 1)))
        notes = (f"classes have no names: two numbers have one name in {NAMES!r}",)
    elif named and numbers.names is None:
        notes = (f"classes have no names: {NAMES!r} has not one name for each number",)
    if low > offset:
        begins = f"no record is of class {offset}: --label-offset {low} begins with {low}"
        notes = (*notes, begins)
    return Classes(feature=feature, labels=labels, notes=notes)


def total(parts: Iterable[Mapping[str, ClassNumberCandidate]]) -> dict[str, ClassNumberCandidate]:
    """What was seen in all files."""
    found: dict[str, ClassNumberCandidate] = {}
    for part in parts:
        for name, numbers in part.items():
            found.setdefault(name, ClassNumberCandidate()).merge(numbers)
    return found
