"""Rules for labels and keys, applied to rows when they are listed or read."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, Reject
from recordmill.format.class_names import (
    SPELLING,
    alike_names,
    difference,
    dotted_names,
    equal_numbers,
    fold_labels,
    hidden_text,
    name_key,
    value_name,
)
from recordmill.format.split_names import LEFT_OUT
from recordmill.notes import Note
from recordmill.option_checks import list_text
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import (
    distinct_labels,
    edges_of,
    label_cells,
    with_labels,
)
from recordmill.transforms.model.ragged import list_array

_SHOWN = 3  # classes in a note


class Selected(NamedTuple):
    """Rows that rules keep.

    filtered: {option, followed by the class if any: rows left out}. The number is 0 if rows had
    that class, and were kept or left out for another of their labels.
    """

    rows: pa.RecordBatch
    rejects: Sequence[Reject] = ()
    filtered: Mapping[str, int] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelRules:
    """Rules for the rows of a run, applied in this order.

    If rows may have several labels, mapping to an empty name removes a label, and labels that are
    not included are removed; rows of which no label remains are left out, and all rows with an
    excluded label.

    fold: labels become lower case, without spaces around them and in Unicode's form NFC.
    mapping: (label, new label) pairs; rows whose new label is empty are left out.
    allowed: labels of --labels-file or --learned-from; rows of others are rejected. None allows
      all.
    included: labels to keep; empty keeps all. excluded: labels to leave out, judged before
      `included` removes other labels. All labels are those after folding and mapping.
    excluded_keys: file of keys to leave out, one per line; its content must not change.
    of_values: whether labels are numbers or booleans, which names match by their value.
    """

    fold: bool = False
    mapping: tuple[tuple[str, str], ...] = ()
    allowed: tuple[str, ...] | None = None
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    excluded_keys: str | None = None
    of_values: bool = False

    @property
    def names_classes(self) -> bool:
        """True if the rules name classes of the input."""
        return bool(self.mapping or self.included or self.excluded)

    @property
    def leaves_out(self) -> bool:
        """True if records are left out by their class or key."""
        dropped = not all(new for _, new in self.mapping)
        return bool(dropped or self.included or self.excluded or self.excluded_keys)

    def folded(self, names: pa.Array) -> list[str]:
        """Return labels as they are compared with those of `mapping`."""
        return fold_labels(names) if self.fold else names.to_pylist()

    @property
    def olds(self) -> list[str]:
        """The old names of `mapping`, as they are compared."""
        return self.compared([old for old, _ in self.mapping])

    def compared(self, names: Sequence[str]) -> list[str]:
        """Return names of options as they are compared with labels."""
        folded = self.folded(pa.array(names, pa.string()))
        return list(map(value_name, folded)) if self.of_values else folded

    def selected(self, names: Sequence[str]) -> list[str]:
        """Return names of classes after the mapping as they are compared with labels."""
        new = {name for _, name in self.mapping}
        pairs = zip(names, self.compared(names), strict=True)
        return [name if name in new else compared for name, compared in pairs]

    def beside(self, *, values: bool) -> LabelRules:
        """Return the rules for labels that are values, or that are not."""
        named = self.names_classes or self.allowed is not None
        return dataclasses.replace(self, of_values=values and named)

    @property
    def of_rows(self) -> LabelRules:
        """The rules for rows that windows are cut from: all but those that leave rows out."""
        left_out = {old for old, new in self.mapping if not new}
        mapping = tuple(one for one in self.mapping if one[0] not in left_out)
        return LabelRules(
            fold=self.fold, mapping=mapping, allowed=self.allowed, of_values=self.of_values
        )

    @property
    def of_windows(self) -> LabelRules:
        """The rules for windows, whose labels are folded already: those that leave records out."""
        left_out = self.folded(pa.array([old for old, new in self.mapping if not new], pa.string()))
        return dataclasses.replace(
            self,
            fold=False,
            mapping=tuple((old, "") for old in left_out),
            allowed=None,
            included=tuple(self.selected(self.included)),
            excluded=tuple(self.selected(self.excluded)),
        )

    def apply(self, rows: pa.RecordBatch) -> Selected:
        """Return the rows with their new labels, and those left out, also by their split.

        rows: with the columns `__key__` and `__label__`.
        """
        rows, by_split = _leave_out_splits(rows)
        selected = self._apply(rows)
        if not by_split:
            return selected
        return selected._replace(filtered=dict(sorted({**selected.filtered, **by_split}.items())))

    def _apply(self, rows: pa.RecordBatch) -> Selected:
        if self == LabelRules():
            return Selected(rows)
        filtered: Counter[str] = Counter()
        rows, filtered["exclude-keys"] = self.leave_out_keys(rows, rows[batch.KEY])
        if batch.LABELS in rows.schema.names:
            return self._apply_to_lists(rows, filtered)
        codes, names = batch.encode(rows[batch.LABEL])
        new, why = self.outcomes(names)
        if new != names.to_pylist():
            rows = batch.set_column(rows, batch.LABEL, batch.decode(codes, new))
        reasons = [*why, self._without_label]
        for code in np.flatnonzero([reason is not None for reason in reasons]).tolist():
            count = int((codes % len(reasons) == code).sum())
            filtered[str(reasons[code])] += count
        kept = np.array([reason is None for reason in reasons])[codes % len(reasons)]
        rows = rows if kept.all() else rows.filter(pa.array(kept))
        rows, rejects = self._reject_unknown(rows)
        return Selected(rows, rejects, {name: n for name, n in sorted(filtered.items()) if n})

    def _apply_to_lists(self, rows: pa.RecordBatch, filtered: Counter[str]) -> Selected:
        """Return rows with lists of labels as `apply` does. filtered: rows left out before."""
        at, codes, names = label_cells(rows[batch.LABELS])
        new, why = self.outcomes(names)
        drops = np.array([reason is not None for reason in why], np.bool_)[codes]
        bars = np.array([str(reason).startswith("exclude") for reason in why], np.bool_)[codes]
        edges = edges_of(at[~drops], len(rows))
        texts = pa.array(new, pa.string()).take(pa.array(codes[~drops]))
        lists = distinct_labels(list_array(texts, edges))
        left_out = np.diff(edges) == 0
        if self._without_label is None:
            left_out &= np.bincount(at, minlength=len(rows)) > 0
        left_out[at[bars]] = True
        reasons: dict[int, str | None] = {}
        # A label that bars its row is the reason, or else the first that was removed.
        for some in (bars, drops & left_out[at]):
            for cell in np.flatnonzero(some).tolist():
                reasons.setdefault(int(at[cell]), why[codes[cell]])
        filtered.update(dict.fromkeys((str(reason) for reason in why if reason is not None), 0))
        filtered.update(
            str(reasons.get(row, self._without_label)) for row in np.flatnonzero(left_out).tolist()
        )
        kept = with_labels(rows, lists).filter(pa.array(~left_out))
        kept, rejects = self._reject_unknown_of_lists(kept)
        if not filtered["exclude-keys"]:
            del filtered["exclude-keys"]
        return Selected(kept, rejects, dict(sorted(filtered.items())))

    def _reject_unknown_of_lists(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        at, codes, names = label_cells(rows[batch.LABELS])
        known = {*names.to_pylist()} if self.allowed is None else {*self.allowed}
        strange = np.array([name not in known for name in names.to_pylist()], np.bool_)[codes]
        first = {
            int(row): int(code)
            for row, code in zip(at[strange][::-1], codes[strange][::-1], strict=True)
        }
        places = sorted(first)
        texts = [names[first[row]].as_py() for row in places]
        rejects = self._not_expected(rows[batch.KEY].take(pa.array(places, pa.int64())), texts)
        kept = np.ones(len(rows), np.bool_)
        kept[at[strange]] = False
        return rows.filter(pa.array(kept)), rejects

    def leave_out_keys(self, rows: pa.RecordBatch, keys: pa.Array) -> tuple[pa.RecordBatch, int]:
        """Return the rows whose keys are not left out, and the number of the others.

        keys: string[n], of the rows.
        """
        if self.excluded_keys is None:
            return rows, 0
        known = pc.is_in(keys, value_set=read_keys(self.excluded_keys))
        return rows.filter(pc.invert(known)), int(pc.sum(known).as_py() or 0)

    def renamed(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return {class: number of files} by the new names of classes, without those left out."""
        found: Counter[str] = Counter()
        outcomes = self.outcomes(pa.array([*counts], pa.string()))
        for name, why, count in zip(*outcomes, counts.values(), strict=True):
            if name is not None and why is None:
                found[name] += count
        return dict(found)

    def outcomes(self, names: pa.Array) -> tuple[list[str | None], list[str | None]]:
        """Return the new label of each label, and why its rows are left out, if they are."""
        pairs = zip(self.olds, self.mapping, strict=True)
        # The last one counts: a name as it is given, before another notation of its number.
        ordered = sorted(pairs, key=lambda pair: pair[0] == pair[1][0])
        mapping = {old: new for old, (_, new) in ordered}
        included, excluded = self.selected(self.included), self.selected(self.excluded)
        allowed = self._allowed_values
        new: list[str | None] = []
        why: list[str | None] = []
        for label in self.folded(names):
            mapped = mapping.get(label, label)
            mapped = allowed.get(mapped, mapped)
            new.append(mapped or None)
            if not mapped:
                why.append(f"label-map {label}")
            elif mapped in excluded:
                why.append(f"exclude-labels {mapped}")
            else:
                others = included and mapped not in included
                why.append("include-labels" if others else None)
        return new, why

    @property
    def _allowed_values(self) -> Mapping[str, str]:
        """Return {label: allowed label} of allowed labels that are compared by another name."""
        names = self.allowed or ()
        if not names or not (self.of_values or self.fold):
            return {}
        compared = self.compared(names)
        count, own = Counter(compared), {*names}
        pairs = zip(compared, names, strict=True)
        return {one: name for one, name in pairs if one not in own and count[one] == 1}

    @property
    def _without_label(self) -> str | None:
        """The option that leaves out rows without a label; None if they are kept."""
        return "include-labels" if self.included else None

    def _reject_unknown(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        if self.allowed is None:
            return rows, []
        known = pc.is_in(rows[batch.LABEL], value_set=pa.array([*self.allowed, None], pa.string()))
        others = rows.filter(pc.invert(known))
        return rows.filter(known), self._not_expected(
            others[batch.KEY], others[batch.LABEL].to_pylist()
        )

    def _not_expected(self, keys: pa.Array, labels: Sequence[str]) -> list[Reject]:
        """Return the rejects of rows with other labels than the allowed ones."""
        alike = {name_key(label): label for label in self.allowed or ()} if labels else {}
        rejects = []
        for key, label in zip(keys.to_pylist(), labels, strict=True):
            why = f"label {label!r} is not one of the expected classes"
            if (near := alike.get(name_key(label))) is not None:
                why += f"; {near!a} differs from it only by {difference(label, near)}"
            rejects.append(Reject(key, "read", Reason.BAD_VALUE, why))
        return rejects


def _leave_out_splits(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Return the rows that no option for splits leaves out, and {option: number of the others}."""
    if (known := left_out_by_split(rows)) is None:
        return rows, {}
    options = rows[batch.SPLIT].filter(known).value_counts()
    counts = {one["values"].removeprefix(LEFT_OUT): one["counts"] for one in options.to_pylist()}
    return rows.filter(pc.invert(known)), counts


def left_out_by_split(rows: pa.RecordBatch) -> pa.Array | None:
    """Return whether an option for splits leaves rows out, bool[n]; None if it leaves out none."""
    if batch.SPLIT not in rows.schema.names or not pa.types.is_string(rows[batch.SPLIT].type):
        return None
    known = pc.fill_null(pc.starts_with(rows[batch.SPLIT], LEFT_OUT), False)
    return known if known.true_count else None


def alike_classes(labels: Sequence[str]) -> Iterator[Note]:
    """Yield notes on classes whose names differ only by spelling, or hold hidden characters."""
    repeated = alike_names(labels)
    if repeated:
        few = len(labels) - sum(len(names) - 1 for names in repeated)
        text = (
            f"{len(labels)} classes become {few} if {SPELLING} are ignored: {_shown(repeated)};"
            " --fold-labels or --label-map joins them"
        )
        yield Note("labels-alike", text)
    equal = equal_numbers(labels)
    if equal:
        first, other = equal[0][:2]
        text = (
            f"classes are the same number in different notations: {_shown(equal)};"
            f" --label-map{'=' if other.startswith('-') else ' '}{other}={first} joins two of them"
        )
        yield Note("labels-alike", text)
    if dotted := dotted_names(labels):
        bare, name = dotted[0]
        given = shlex.quote(list_text([f"{name}={bare}"]))
        joining = f"--label-map {given} joins two of them"
        if "=" in bare:
            line = list_text([name, bare])
            joining = f"--label-map map.csv joins them, with lines such as {line} in the file"
        text = f"classes differ only by a full stop at the end: {_shown(dotted)}; {joining}"
        yield Note("labels-alike", text)
    hidden = hidden_text(labels)
    if hidden is not None:
        yield Note("labels-alike", f"{hidden}; --fold-labels removes them")


def _shown(alike: Sequence[Sequence[str]]) -> str:
    some = "; ".join(" and ".join(map(repr, names)) for names in alike[:_SHOWN])
    return some + ("; ..." if len(alike) > _SHOWN else "")


@functools.lru_cache(maxsize=1)
def read_keys(path: str) -> pa.Array:
    """Return the keys in a file, one per line: string[n]."""
    lines = Location.parse(path).read_bytes().decode("utf-8-sig").split("\n")
    keys = {key for line in lines if (key := line.removesuffix("\r"))}
    return pa.array(sorted(keys), pa.string())
