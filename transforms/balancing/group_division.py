"""Division of groups among splits: each class comes as near to its fractions as whole groups allow.

Groups with the same number of records in every class are of one kind. Groups of two records or more
are divided one kind at a time, the largest first. A kind is divided by the fractions as far as
whole groups allow; a group that is left over goes to the split that lacks most records of its
classes. Single records come last, and fill the splits up. Groups are then moved, and exchanged in
pairs, as long as that brings the classes nearer to the fractions. Finally, a split without any
group takes one from a split that has several. The division depends on the seed and the groups only.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.notes import Note
from recordmill.transforms.model import batch
from recordmill.transforms.model.splits import Fractions

# Limits of moves and exchanges: with many kinds of groups they take long, and the first division is
# already close to the fractions.
_MOVED_KINDS = 4096
_EXCHANGED_KINDS = 128
_PASSES = 50
_SHOWN = 3  # classes in a note


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupDivision:
    """Groups and single records by split.

    groups: (unit uint64, split int8), the number of the split of each group, by ascending unit.
    singles: {class: number of its single records in each split}.
    problems: sentences about classes that are in too few groups. notes: classes that are not close
      to their fractions, and the groups that prevent it.
    """

    groups: pa.RecordBatch
    singles: Mapping[str, Sequence[int]]
    problems: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def count_groups(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Add up the records of each unit and class.

    parts: rows of (unit uint64, label string, count int64, name string).

    Returns:
      The same columns, sorted by unit and class, and `alone`, true for a unit of one record.
      Records without a class count in the size of a unit, but have no row.
    """
    rows = batch.concat(parts)
    units = np.asarray(rows["unit"])
    codes, names = _sorted_codes(rows["label"])
    order = np.lexsort((codes, units))
    units, codes = units[order], codes[order]
    counts = np.asarray(rows["count"])[order]
    new_unit = np.diff(units, prepend=~units[:1]) != 0
    starts = np.flatnonzero(new_unit | (np.diff(codes, prepend=-2) != 0))
    unit_starts = np.flatnonzero(new_unit)
    sizes = np.add.reduceat(counts, unit_starts) if len(units) else counts
    alone = (sizes == 1)[np.cumsum(new_unit) - 1][starts]
    labels = names.take(pa.array(codes[starts], mask=codes[starts] < 0))
    table = {
        "unit": pa.array(units[starts]),
        "label": labels,
        "count": pa.array(np.add.reduceat(counts, starts) if len(units) else counts),
        "name": rows["name"].take(pa.array(order[starts])),
        "alone": pa.array(alone),
    }
    return pa.RecordBatch.from_pydict(table).filter(labels.is_valid())


def _sorted_codes(labels: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Encode labels; codes follow the bytes of the names, -1 for null."""
    codes, names = batch.encode(labels)
    order = np.argsort(np.array([name.encode() for name in names.to_pylist()], object))
    places = np.empty(len(names) + 1, np.int64)
    places[order], places[-1] = np.arange(len(names)), -1
    return places[codes], names.take(pa.array(order, pa.int64()))


@dataclasses.dataclass
class _Kind:
    """Units with the same number of records in each class, and their division among the splits.

    units: positions; empty for single records, which are divided by thresholds.
    """

    codes: tuple[int, ...]
    counts: tuple[int, ...]
    total: int
    units: Sequence[int] = ()
    parts: list[int] = dataclasses.field(default_factory=list)

    @property
    def net(self) -> list[tuple[int, int]]:
        """The records of a unit, as (class, number)."""
        return [*zip(self.codes, self.counts, strict=True)]

    @property
    def size(self) -> int:
        return sum(self.counts)


class _Divider:
    """Counts of records by class and split while kinds are divided.

    All sums are in plain floats in a fixed order: vector instructions would round differently on
    other machines.
    """

    def __init__(self, totals: Sequence[int], fractions: Fractions) -> None:
        whole = math.fsum(fractions.values())
        self.fractions = [fraction / whole for fraction in fractions.values()]
        self.totals = totals
        self.goals = [[total * fraction for fraction in self.fractions] for total in totals]
        self.held = [[0] * len(self.fractions) for _ in totals]

    def divide(self, kind: _Kind) -> None:
        """Divide the units of a kind, so that the fractions hold for all that is divided so far."""
        wanted = [0.0] * len(self.fractions)
        scale = 0.0
        for code, count in zip(kind.codes, kind.counts, strict=True):
            weight = count / self.totals[code]  # relative to the size of the class
            scale += weight * count
            reached = sum(self.held[code]) + kind.total * count
            for split, fraction in enumerate(self.fractions):
                wanted[split] += weight * (fraction * reached - self.held[code][split])
        kind.parts = _whole_parts([one / scale for one in wanted], kind.total)
        for split, units in enumerate(kind.parts):
            self._add(kind, split, units)

    def improve(self, kinds: Sequence[_Kind], units: list[int] | None = None) -> None:
        """Move and exchange units between splits while that brings classes nearer to the fractions.

        Distances are squared, and each is divided by the size of its class.

        units: number of units in each split, of which none loses its last one; None if they may.
        """
        if len(kinds) > _MOVED_KINDS:
            return
        pairs = _pairs(kinds)
        for _ in range(_PASSES):
            moved = [self._exchange(kind, None, units) for kind in kinds]
            if not any(moved):
                moved = [self._exchange(one, other) for one, other in pairs]
            if not any(moved):
                return

    def fill(self, kinds: Sequence[_Kind]) -> None:
        """Move a unit into each split without any, from a split that has several.

        The unit is the one that brings the classes nearest to the fractions. It is moved if they
        are then as near as before, or if the split should have at least half as many records as the
        smallest unit. The others are then moved and exchanged once more.
        """
        present = [kind for kind in kinds if kind.total]
        units = [sum(parts) for parts in zip(*(kind.parts for kind in present), strict=True)]
        filled = False
        for target in [split for split, number in enumerate(units) if not number]:
            wanted = math.fsum(goals[target] for goals in self.goals)
            needed = wanted >= min(kind.size for kind in present) / 2 - 1e-9
            changes = (
                (self._change(kind.net, source, target), place, source)
                for place, kind in enumerate(present)
                for source, number in enumerate(units)
                if number > 1 and kind.parts[source]
            )
            change, place, source = min(changes, default=(math.inf, 0, 0))
            if change <= 1e-9 or (needed and change < math.inf):
                self._move(present[place], source, target)
                units[source] -= 1
                units[target] += 1
                filled = True
        if filled:
            self.improve(present, units)

    def _exchange(self, kind: _Kind, other: _Kind | None, units: list[int] | None = None) -> bool:
        """Move units of a kind, each against one of `other`; return whether any were moved.

        units: as in `improve`; exchanges do not change them.
        """
        there = Counter(dict(kind.net))
        if other is not None:
            there.subtract(dict(other.net))
        net = [(code, count) for code, count in sorted(there.items()) if count]
        moved = False
        while True:
            changes = (
                (self._change(net, source, target), source, target)
                for source, target in itertools.permutations(range(len(self.fractions)), 2)
                if kind.parts[source]
                and (other is None or other.parts[target])
                and (units is None or units[source] > 1)
            )
            change, source, target = min(changes, default=(0.0, 0, 0))
            if change > -1e-9:
                return moved
            moved = True
            self._move(kind, source, target)
            if other is not None:
                self._move(other, target, source)
            elif units is not None:
                units[source] -= 1
                units[target] += 1

    def _change(self, net: Sequence[tuple[int, int]], source: int, target: int) -> float:
        """Return the change of the distances if (class, records) move from source to target."""
        change = 0.0
        for code, count in net:
            over = self.held[code][source] - self.goals[code][source]
            under = self.held[code][target] - self.goals[code][target]
            change += 2 * count * (count - over + under) / self.totals[code]
        return change

    def _move(self, kind: _Kind, source: int, target: int) -> None:
        kind.parts[source] -= 1
        kind.parts[target] += 1
        self._add(kind, source, -1)
        self._add(kind, target, 1)

    def _add(self, kind: _Kind, split: int, units: int) -> None:
        for code, count in zip(kind.codes, kind.counts, strict=True):
            self.held[code][split] += units * count


def _pairs(kinds: Sequence[_Kind]) -> list[tuple[_Kind, _Kind]]:
    """Return the pairs of kinds whose units are exchanged; none if there are many kinds."""
    few = kinds if len(kinds) <= _EXCHANGED_KINDS else ()
    return [(one, other) for place, one in enumerate(few) for other in few[:place]]


def _whole_parts(wanted: Sequence[float], total: int) -> list[int]:
    """Return the whole numbers nearest to `wanted`, not below 0, that sum to `total`.

    Ties go to the earlier split. wanted: sums to `total`; may have parts below 0.
    """
    level, reached = 0.0, 0.0
    for place, part in enumerate(sorted(wanted, reverse=True), 1):
        reached += part
        if part > (reached - total) / place:
            level = (reached - total) / place
    shares = [max(part - level, 0.0) for part in wanted]
    parts = [int(share + 1e-9) for share in shares]
    open_ = sorted(range(len(parts)), key=lambda i: (round(parts[i] - wanted[i] + level, 9), i))
    for i in open_[: total - sum(parts)]:
        parts[i] += 1
    return parts


def divide_groups(
    groups: Sequence[pa.RecordBatch],
    singles: Mapping[str, int],
    *,
    fractions: Fractions,
    seed: int,
) -> GroupDivision:
    """Divide groups and single records among the splits.

    groups: rows of `count_groups` of units of two records or more, in any order. singles: {class:
    number of its single records}.
    """
    rows = batch.concat(groups) if groups else None
    names = sorted({*singles, *_names(rows)}, key=str.encode)
    code_of = {name: code for code, name in enumerate(names)}
    units, starts, codes, counts, order = _by_unit(rows, code_of)
    kinds = _kinds(codes, counts, starts, batch.mix(units, batch.salt(seed, "split")))
    totals = np.bincount(codes, weights=counts, minlength=len(names)).astype(int).tolist()
    found = np.bincount(codes, minlength=len(names)).tolist()
    alone = []
    for name, number in singles.items():
        code = code_of[name]
        totals[code] += number
        found[code] += number
        alone.append(_Kind((code,), (1,), number))
    divider = _Divider(totals, fractions)
    for kind in (*kinds, *alone):
        divider.divide(kind)
    divider.improve([*kinds, *alone])
    divider.fill([*kinds, *alone])
    split_of = np.zeros(len(units), np.int8)
    for kind in kinds:
        split_of[np.asarray(kind.units)] = np.repeat(np.arange(len(fractions)), kind.parts)
    notes: tuple[Note, ...] = ()
    if rows is not None:
        splits = np.repeat(split_of, np.diff(np.append(starts, len(codes))))
        notes = _notes(divider, names, [*fractions], rows["name"], (codes, counts, splits, order))
    return GroupDivision(
        groups=pa.RecordBatch.from_pydict({"unit": pa.array(units), "split": pa.array(split_of)}),
        singles={names[kind.codes[0]]: tuple(kind.parts) for kind in alone},
        problems=tuple(too_small(dict(zip(names, found, strict=True)), fractions, "groups")),
        notes=notes,
    )


def _names(rows: pa.RecordBatch | None) -> list[str]:
    return [] if rows is None else batch.encode(rows["label"])[1].to_pylist()


Ints = npt.NDArray[np.int64]


def _by_unit(
    rows: pa.RecordBatch | None, code_of: Mapping[str, int]
) -> tuple[batch.UInt64Array, Ints, Ints, Ints, Ints]:
    """Return units, the first row of each, and codes, counts and places of the sorted rows."""
    if rows is None:
        none = np.zeros(0, np.int64)
        return none.astype(np.uint64), none, none, none, none
    own, names = batch.encode(rows["label"])
    codes = np.array([code_of[name] for name in names.to_pylist()], np.int64)[own]
    units = np.asarray(rows["unit"])
    order = np.lexsort((codes, units))
    units, starts = np.unique(units[order], return_index=True)
    return units, starts, codes[order], np.asarray(rows["count"])[order], order


def _kinds(codes: Ints, counts: Ints, starts: Ints, ranks: batch.UInt64Array) -> list[_Kind]:
    """Return the kinds of units, the largest first; ties by the rank of their first unit."""
    ends = [*starts[1:].tolist(), len(codes)]
    all_codes, all_counts, begins = codes.tolist(), counts.tolist(), starts.tolist()
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for unit in np.argsort(ranks).tolist():
        rows = slice(begins[unit], ends[unit])
        found.setdefault((tuple(all_codes[rows]), tuple(all_counts[rows])), []).append(unit)
    kinds = [_Kind(*counted, len(units), units) for counted, units in found.items()]
    return sorted(kinds, key=lambda kind: -kind.size)  # stable: they were found by rank


def _notes(
    divider: _Divider,
    names: Sequence[str],
    splits: Sequence[str],
    groups: pa.Array,
    rows: tuple[Ints, Ints, npt.NDArray[np.int8], Ints],
) -> tuple[Note, ...]:
    """Return a note if classes are more than a record from a fraction.

    rows: codes, counts, splits and places in `groups`, of each group and class.
    """
    far = []
    for code, (there, goals) in enumerate(zip(divider.held, divider.goals, strict=True)):
        over = [count - goal for count, goal in zip(there, goals, strict=True)]
        if max(map(abs, over)) > 1 + 1e-9:
            far.append((max(over), code, over.index(max(over))))
    if not far:
        return ()
    codes, counts, split_of, order = rows
    texts = []
    for excess, code, split in sorted(far, key=lambda one: (-one[0], one[1]))[:_SHOWN]:
        held = divider.held[code][split]
        wanted = f"{held - excess:,.1f}"
        text = f"{names[code]!r} has {held:,} records in {splits[split]} instead of {wanted}"
        of_split = np.flatnonzero((codes == code) & (split_of == split))
        if len(of_split):
            largest = int(of_split[np.argmax(counts[of_split])])
            group = groups[int(order[largest])].as_py()
            text += f" ({counts[largest]:,} are of the group {group!r})"
        texts.append(text)
    more = f"; and {len(far) - _SHOWN} more classes" if len(far) > _SHOWN else ""
    subject = "1 class is" if len(far) == 1 else f"{len(far)} classes are"
    return (
        Note(
            "stratify",
            f"{subject} more than 1 record from the fractions of --splits, because groups stay"
            f" whole: {'; '.join(texts)}{more}",
        ),
    )


def too_small(units: Mapping[str, int], fractions: Fractions, unit: str) -> list[str]:
    """Return a sentence about the classes that have fewer units than splits; none if all suffice.

    units: {class: number of units with it}. unit: plural noun for the units, such as `groups`.
    """
    small = {label: n for label, n in units.items() if n < len(fractions)}
    if not small:
        return []
    shown = ", ".join(f"{label!r} ({n})" for label, n in list(small.items())[:5])
    more = f" and {len(small) - 5} more" if len(small) > 5 else ""
    return [
        f"--stratify: expected at least {len(fractions)} {unit} in every class, one for each of"
        f" {', '.join(fractions)}; too few in {shown}{more}: add records, leave the class out with"
        " --exclude-labels, or split without --stratify"
    ]
