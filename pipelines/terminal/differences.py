"""Tables of the differences between two datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from recordmill.checking.dataset_diff import Changed, DatasetDiff
from recordmill.checking.record_differences import KINDS, KindDiff, RecordExample, RecordState
from recordmill.notes import count_of
from recordmill.pipelines.options.option_text import option_text
from recordmill.pipelines.terminal import distances
from recordmill.pipelines.terminal.tables import line, name_of, new_table, stack
from recordmill.printable import printable

_SHOWN = 3  # examples of a kind, and pairs
_LISTED = 10  # options, features and classes
_WIDTH = 60  # characters of a value


def tables(found: DatasetDiff, *, before: str, after: str) -> RenderableType:
    """Return all differences. before, after: the folders as given."""
    facts = [
        ("options", found.options),
        ("versions", found.versions),
        ("features", found.features),
        ("class numbers", found.labels),
    ]
    drifted = None
    if found.statistics is not None:
        drifted = stack(*distances.tables(None, found.statistics, other=before))
    digests = "the digests differ" if len({*found.digests}) > 1 else "the digests are equal"
    return stack(
        _splits(found),
        _records(found),
        *[_facts(title, changed) for title, changed in facts if changed],
        drifted,
        line(f"{printable(before)} and {printable(after)}: {digests}"),
    )


def _splits(found: DatasetDiff) -> RenderableType:
    table = new_table("split", "before", "after", "difference")
    for name, (one, two) in found.splits.items():
        table.add_row(name_of(name), f"{one:,}", f"{two:,}", f"{two - one:+,}" if two - one else "")
    return table


def _records(found: DatasetDiff) -> RenderableType:
    table = new_table("records", "number", words=["examples"])
    for kind in KINDS:
        one = found.records.kinds[kind]
        table.add_row(name_of(kind), f"{one.count:,}", _examples(one))
    table.add_row(name_of("same"), f"{found.records.same:,}", "")
    if found.records.uncompared:
        table.add_row(name_of("contents not compared"), f"{found.records.uncompared:,}", "")
    by = "hashes of their contents" if found.records.by == "content" else "the bytes of the records"
    how = f"Records are compared by {by}; copies are counted separately."
    if found.records.uncompared_because:
        how += (
            " Features that these hashes do not cover, such as masks, are not compared, because"
            f" these options or versions differ: {', '.join(found.records.uncompared_because)}."
        )
    return stack(table, Text(printable(how), style="dim"))


def _examples(found: KindDiff) -> Text:
    lines = [
        f"{count:,} from {_word(pair[0])} to {_word(pair[1])}"
        for pair, count in [*found.pairs.items()][:_SHOWN]
    ]
    if len(found.pairs) > _SHOWN:
        lines.append(f"... {count_of(len(found.pairs) - _SHOWN, 'pair')} more")
    lines += [f"{count:,} in {printable(name)}" for name, count in _most(found.features)]
    if len(found.features) > _SHOWN:
        lines.append(f"... {count_of(len(found.features) - _SHOWN, 'feature')} more")
    lines += [_example(one) for one in found.examples[:_SHOWN]]
    return Text("\n".join(lines))


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: -pair[1])[:_SHOWN]


def _example(one: RecordExample) -> str:
    states = [_state(state) for state in (one.before, one.after) if state is not None]
    shown = states[0] if len({*states}) == 1 else " -> ".join(states)
    source = next((state.source for state in (one.after, one.before) if state is not None), None)
    return printable(f"{one.key}{'' if source is None else f' ({source})'}: {shown}")


def _state(state: RecordState) -> str:
    copies = f", {count_of(state.copies, 'copy', 'copies')}" if state.copies else ""
    label = "" if state.label is None else f" {state.label}"
    return f"{state.split} {state.number}{label}{copies}"


def _word(name: str | None) -> str:
    return "(no class)" if name is None else printable(name)


def _facts(title: str, changed: Mapping[str, Changed]) -> RenderableType:
    table = new_table(title, words=["before", "after"])
    for name, one in [*changed.items()][:_LISTED]:
        before, after = _differing_parts(one)
        table.add_row(name_of(name), _value(before), _value(after))
    if len(changed) > _LISTED:
        table.add_row(Text(f"... {len(changed) - _LISTED:,} more", style="dim"))
    return table


def _differing_parts(one: Changed) -> tuple[Any, Any]:
    """Return both values; of two mappings only the items that differ, because texts are cut."""
    before, after = one.before, one.after
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return before, after
    missing = object()
    differ = [
        key for key in {**before, **after} if before.get(key, missing) != after.get(key, missing)
    ]
    return (
        {key: before[key] for key in differ if key in before},
        {key: after[key] for key in differ if key in after},
    )


def _value(value: Any) -> Text:
    if value is None:
        return Text("-", style="dim")
    text = printable(option_text(value))
    return Text(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}...")
