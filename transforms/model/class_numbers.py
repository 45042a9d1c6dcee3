"""Integer labels of classes: their numbers in the input, otherwise their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.class_names import are_integers, class_order
from recordmill.notes import Note, count_of
from recordmill.transforms.model.label_rules import LabelRules

_SHOWN = 5  # classes in a note
_LIMIT = 1 << 31  # labels are below it, because losses take int32
_MOST_NAMES = 100_000  # lines of a file that a note advises to write


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassNumbers:
    """Rule for the integer labels of a run.

    labels: class names in the order of their numbers; None if they follow from the records.
    offset: number of the first class; None keeps that of the input.
    known: {class: number} of the classes of the input, before rules rename or leave out any; empty
      if the input names them only. Classes without records are among them.
    by_value: whether classes that are integers are numbers of the input, not names of its folders.
    rules: those that rename the classes, if not the rules of the run, as for objects.
    """

    labels: tuple[str, ...] | None = None
    offset: int | None = 0
    known: Mapping[str, int] = dataclasses.field(default_factory=dict)
    by_value: bool = False
    rules: LabelRules | None = None

    @property
    def first(self) -> int:
        """The number of the first class, as far as it is known before the records."""
        return _first(self.known.values()) if self.offset is None else self.offset

    def of(
        self, found: Collection[str], rules: LabelRules, seen: Collection[str] = ()
    ) -> NumberedClasses:
        """Return the classes with their numbers.

        found: classes of the records, after the rules. seen: those before the rules, if the rules
          name some.
        """
        known = self.known
        offset = self.first
        renamed: dict[str, str | None] = {name: name for name in known}
        if self.known:
            renamed = _renamed(known, rules if self.rules is None else self.rules)
        elif self.labels is None:
            known = first = _integers(found)
            names = _renamed(_integers(seen), rules)
            kept_or_left_out = {None, *found}
            before = {old: int(old) for old, name in names.items() if name in kept_or_left_out}
            if not known:
                known = before
            if before and (not first or (_has_gaps(first.values()) and {*first} <= {*before})):
                first = before
            renamed = {name: names[name] if known is before else name for name in known}
            if self.offset is None and self.by_value:
                offset = _first(first.values())
        labels = self.labels
        if labels is None:
            kept = [new for old in sorted(known, key=known.__getitem__) if (new := renamed[old])]
            labels = tuple(dict.fromkeys([*kept, *class_order(found)]))
        return NumberedClasses(
            labels=labels,
            offset=offset,
            known=known,
            renamed=renamed,
            is_shifted=self.offset is not None,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberedClasses:
    """The classes of a run. labels: in the order of their numbers, which begin at `offset`.

    known: {class in the input: its number there}. renamed: {class in the input: its new name, None
    if it is left out}. is_shifted: whether an option gives the offset.
    """

    labels: tuple[str, ...]
    offset: int
    known: Mapping[str, int]
    renamed: Mapping[str, str | None]
    is_shifted: bool

    def changes(self) -> Iterator[tuple[str, int, int]]:
        """Yield classes of the input with the number there and the new one, if they differ.

        A shift of all numbers is no difference if an option gives it.
        """
        numbers = self._numbers
        shift = self.offset - min(self.known.values()) if self.known and self.is_shifted else 0
        for old in sorted(self.known, key=self.known.__getitem__):
            before, new = self.known[old], self.renamed[old]
            if new in numbers and numbers[new] != before + shift:
                yield old, before, numbers[new]

    @property
    def _numbers(self) -> dict[str, int]:
        """{class: number}."""
        return {name: n for n, name in enumerate(self.labels, start=self.offset)}

    def notes(self, *, custom: bool) -> Iterator[Note]:
        """Yield a note if classes do not have their numbers of the input.

        custom: whether options are those of a custom pipeline, not of a command.
        """
        found = [*self.changes()]
        if not found:
            return
        some = ", ".join(f"{old!r} was {was}, is {now}" for old, was, now in found[:_SHOWN])
        more = f", and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        text = (
            f"integer labels differ from the numbers in the input for {len(found):,} of"
            f" {count_of(len(self.known), 'class', 'classes')}: {some}{more}"
        )
        yield Note("class-numbers", f"{text}{self._remedy(custom=custom)}")

    def _remedy(self, *, custom: bool) -> str:
        """Return how to keep the numbers, for a note."""
        low, high = min(self.known.values()), max(self.known.values())
        file, option = "--labels-file", "--label-offset "
        if custom:
            file, option = "labels", "label_offset="
        if low < 0 or high >= _LIMIT:
            return f"; labels are integers from 0 to {_LIMIT - 1}"
        shifted = dataclasses.replace(self, offset=low, is_shifted=False)
        if not any(shifted.changes()):
            return f"; {option}{low} keeps the numbers"
        firsts: dict[str | None, int] = {}
        for old in sorted(self.known, key=self.known.__getitem__):
            firsts.setdefault(self.renamed[old], self.known[old])
        moved = any(firsts.get(name, number) != number for name, number in self._numbers.items())
        if high - low >= _MOST_NAMES or not moved:
            return ""
        begin = f" and {option}{low}" if low else ""
        kept = [name for name in self.renamed.values() if name is not None]
        joined = ", of joined classes the first" if len({*kept}) < len(kept) else ""
        return (
            f"; {file} with a name for each number from {low} to {high}{begin} keeps the"
            f" numbers{joined}"
        )


def merge_numbers(found: Sequence[tuple[str, Mapping[str, int]]], *, remedy: str) -> dict[str, int]:
    """Return {class: number} of several inputs, whose names and numbers have to agree.

    found: each input, for messages, and its classes. remedy: what to do, for messages.

    Raises:
      ConfigError: a class has two numbers, or a number two classes.
    """
    if len(found) == 1:
        return {**found[0][1]}
    numbers: dict[str, tuple[int, str]] = {}
    names: dict[int, tuple[str, str]] = {}
    for place, known in found:
        for name, number in known.items():
            before, where = numbers.setdefault(name, (number, place))
            other, there = names.setdefault(number, (name, place))
            if before != number:
                raise ConfigError(
                    f"the class {name!r} has the number {before} in {where}, and {number} in"
                    f" {place}: {remedy}"
                )
            if other != name:
                raise ConfigError(
                    f"the number {number} is the class {other!r} in {there}, and {name!r} in"
                    f" {place}: {remedy}"
                )
    return {name: number for name, (number, _) in numbers.items()}


def _first(numbers: Collection[int]) -> int:
    """Return the least of numbers without gaps, if they can be labels; otherwise 0."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    return 0 if _has_gaps(numbers) or low < 0 or high >= _LIMIT else low


def _has_gaps(numbers: Collection[int]) -> bool:
    """Return whether distinct numbers are not consecutive."""
    return len(numbers) > 0 and max(numbers) - min(numbers) + 1 != len(numbers)


def _integers(names: Collection[str]) -> dict[str, int]:
    """Return {class: number} if all classes are integers, each in one spelling; otherwise none."""
    if not are_integers(names):
        return {}
    numbers = {name: int(name) for name in names}
    return numbers if len({*numbers.values()}) == len(numbers) else {}


def _renamed(known: Mapping[str, int], rules: LabelRules) -> dict[str, str | None]:
    """Return {class of the input: its new name, None if it is left out}."""
    new, why = rules.outcomes(pa.array([*known], pa.string()))
    pairs = zip(known, new, why, strict=True)
    return {old: name if reason is None else None for old, name, reason in pairs}
