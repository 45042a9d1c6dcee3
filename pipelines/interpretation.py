"""Description of an input as a job reads it: the sources of classes, splits, keys and groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from recordmill.format.split_names import canonical_split
from recordmill.job.staging import Listing
from recordmill.notes import Note
from recordmill.pipelines.options.columns import ColumnsConfig
from recordmill.pipelines.options.config import CommonConfig
from recordmill.storage.files import Location
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.source import Layout, RowSource
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.sources.files.path_layout import splits_in
from recordmill.transforms.sources.rows.file_list import is_listing
from recordmill.transforms.sources.rows.record_columns import TEXT
from recordmill.transforms.sources.rows.record_rows import LABELS, RowLayout
from recordmill.transforms.sources.rows.table_rows import TYPES

_SHOWN = 8  # columns in a line
# Options of arrays that name the source of classes, and nouns for it.
_ARRAY_LABELS = {"label_array": "array", "label_input": "file", "label_pattern": "pattern"}
_KEYS = re.compile(r"(.*_)?(id|uuid|guid|key)", re.IGNORECASE)
_GROUPS = re.compile(
    r"(patient|subject|user|person|speaker|session|group|customer|device|author|site)(_?id)?",
    re.IGNORECASE,
)


def interpret(
    config: CommonConfig, data_type: DataType, listing: Listing, layout: Layout
) -> Mapping[str, str]:
    """Return {part: what the job took it from}, in the order to show it.

    layout: of the rows of the listing, not of windows.
    """
    roles = layout.roles if isinstance(layout, RowLayout) else None
    main = TEXT if data_type.name == "text" else None  # a column of the source, not of the user
    fields = [field for field in user_fields(layout.columns) if field.name != main]
    columns = [field.name for field in fields]
    files = "" if isinstance(data_type.source, RowSource) else f", {listing.rows:,} files"
    facts = {
        "data": f"{data_type.name}, {config.inputs}{files}",
        "classes": _classes(config, layout, columns),
        "splits": _splits(config, layout),
    }
    if roles is not None:
        by_row = "the content of a row" if data_type.windows is None else "the series and the time"
        facts["keys"] = _column(roles.key, by_row, "--key-column", _like(columns, _KEYS))
        if len(roles.keys) > 1:
            facts["keys"] = f"the columns {', '.join(map(repr, roles.keys))}"
        facts["groups"] = _column(roles.group, "none", "--group-column", _like(columns, _GROUPS))
        if fields:
            names = {kind: name for name, kind in TYPES.items()}
            facts["columns"] = _some(
                [f"{field.name} ({names.get(field.type, field.type)})" for field in fields]
            )
    elif config.group_column:
        facts["groups"] = f"the column {config.group_column!r}"
    return facts


def name_notes(config: CommonConfig, layout: Layout) -> tuple[Note, ...]:
    """Return a note if the name of the only input is that of a split, and was not taken as one."""
    (first, *others) = config.input
    if others or layout.split_source is not None or config.split_from != "auto":
        return ()
    place = Location.parse(first.path)
    found = [canonical_split(place.name)] if place.is_dir() else splits_in(place.name)
    if len(found) != 1 or found[0] is None or not (place.is_dir() or is_listing(place)):
        return ()
    text = (
        f"the records of {place.name} are divided by --splits, though its name is that of a split:"
        f" --input {found[0]}={first.path} puts all of them into {found[0]}"
    )
    return (Note("splits", text),)


def unread_label(config: CommonConfig, layout: Layout) -> str | None:
    """Return the label column, if its values may be numbers and no option says how to read them."""
    if not isinstance(config, ColumnsConfig) or not isinstance(layout, RowLayout):
        return None
    label = layout.roles.label
    given = config.label_type is not None or config.labels_file is not None
    return None if given or label is None or config.types.get(label) == "string" else label


def renames_of(config: CommonConfig, layout: Layout) -> Mapping[str, str]:
    """Return {feature: name}: those of --rename, and `label` for a column of numbers to predict."""
    target = layout.roles.target if isinstance(layout, RowLayout) else None
    if target in (None, "label"):
        return config.rename
    return {str(target): "label", **config.rename}


def _classes(config: CommonConfig, layout: Layout, columns: Sequence[str]) -> str:
    if isinstance(layout, RowLayout):
        if layout.roles.label is not None:
            return f"the column {layout.roles.label!r}"
        if layout.roles.target is not None:
            return f"none; the column {layout.roles.target!r} is a number to predict"
        others = f": {_some([repr(name) for name in columns])}" if columns else ""
        return (
            f"none; no column is named {', '.join(LABELS[:-1])} or {LABELS[-1]} (--label-column"
            f" names another{others})"
        )
    if not layout.labelled:
        return "none"
    if getattr(config, "annotations", ()):
        return "the annotations"
    if config.label_column:
        return f"the column {config.label_column!r}"
    for option, noun in _ARRAY_LABELS.items():
        if given := getattr(config, option, None):
            return f"the {noun} {given!r}"
    if is_listing(Location.parse(config.input[0].path)):
        return "the column 'label' or 'class'"
    return {"top": "the top folders", "parent": "the folders around the files"}.get(
        config.label_from, f"--label-from {config.label_from}"
    )


def _splits(config: CommonConfig, layout: Layout) -> str:
    fractions = ",".join(f"{name}={x:g}" for name, x in config.fractions.items())
    if layout.split_source is None:
        return f"divided by --splits {fractions}{' (the default)' if config.splits is None else ''}"
    return layout.split_source


def _column(name: str | None, without: str, option: str, others: Sequence[str]) -> str:
    if name is not None:
        return f"the column {name!r}"
    if not others:
        return without
    return f"{without} ({option} could be {_some([repr(one) for one in others])})"


def _like(columns: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    return [name for name in columns if pattern.fullmatch(name)]


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
