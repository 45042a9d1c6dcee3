"""Description of how a job reads its input: the sources of classes, splits, keys and groups."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from recordmill.job.input_facts import ColumnRoles, InputFacts
from recordmill.job.staging import Listing
from recordmill.notes import count_of
from recordmill.options.declaration import value_of
from recordmill.options.values import show_moments
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.inputs.segments import SEGMENT_COLUMNS
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import OBJECTS
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.label_sets import RepeatFactors
from recordmill.transforms.model.run_spec import GroupNoun
from recordmill.transforms.model.source import Layout, RowSource
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.model.usual_columns import LABELS, OF_PATHS
from recordmill.transforms.sources.archives.label_files import LabelFiles
from recordmill.transforms.sources.folders.number_labels import TARGET
from recordmill.transforms.sources.folders.path_layout import FOLDERS
from recordmill.transforms.sources.rows.columns.path_columns import path_column
from recordmill.transforms.sources.rows.columns.record_columns import TEXT
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout
from recordmill.transforms.sources.rows.references.repeated_rows import Conflicts
from recordmill.transforms.sources.rows.values.record_rows import RecordRows
from recordmill.transforms.sources.rows.values.table_rows import TYPES
from recordmill.transforms.sources.splitters.split_files import SplitTables

if TYPE_CHECKING:
    from recordmill.transforms.balancing.label_bins import LabelBins
    from recordmill.transforms.balancing.quotas import Target

_SHOWN = 8  # columns in a line
# Options of arrays that name the source of labels, and nouns for it.
_ARRAY_LABELS = {"label_array": "array", "label_input": "file"}
_TIME_SPLITS = {
    "time": ", all series at the same times",
    "series-time": ", each series by its own time",
}
_KEYS = re.compile(r"(.*_)?(id|uuid|guid|key)", re.IGNORECASE)
_GROUPS = re.compile(
    r"(patient|subject|user|person|speaker|session|group|customer|device|author|site)(_?id)?",
    re.IGNORECASE,
)


def interpret(
    config: CommonConfig,
    data_type: DataType,
    listing: Listing,
    layout: Layout,
    counts: Mapping[str, int],
    split_columns: Mapping[str, Sequence[str]],
) -> Mapping[str, str]:
    """Return {part: its source in the input}, in the order in which they are shown.

    layout: of the rows of the listing, not of windows. counts: {class: number of records} of the
    listing. split_columns: columns that could be the splits.
    """
    if isinstance(data_type.source, RowSource):
        counts = {}  # they are of files
    roles, held_in, of_paths = None, None, set[str]()
    if isinstance(layout, RowLayout):
        roles, held_in = layout.roles, layout.held_in
        of_paths = {*layout.from_path, *layout.from_listing}
    listed = listed_roles(config, layout, listing.facts)
    main = TEXT if data_type.name == "text" else None  # a column of the source, not of the user
    fields = [
        field
        for field in user_fields(layout.columns)
        if field.name != main and not field.name.startswith(OF_PATHS)
    ]
    columns = [field.name for field in fields]
    is_record = data_type.shape is not None and data_type.shape.payload == "placed"
    noun = "record" if is_record else "file"
    files = "" if isinstance(data_type.source, RowSource) else f", {count_of(listing.rows, noun)}"
    masks = ", ".join(value_of(config, "masks") or ())
    if held_in is not None:
        files = f", the files are in the column {held_in!r}"
    facts = {
        "data": f"{data_type.name}, {config.inputs}{files}{f', masks in {masks}' if masks else ''}",
        "classes": _classes(config, listed, layout, columns) + _sizes(counts),
        "splits": _splits(config, layout, split_columns),
    }
    if data_type.name == "text" and roles is not None:
        facts["text"] = _text_columns(roles)
    elif data_type.name == "text" and listed is not None and listed.main is not None:
        facts["text"] = f"the files that {_shown_column(listed.main)} names"
    if roles is not None:
        by_row = "the content of a row" if data_type.windows is None else "the series and the time"
        by_row = by_row if held_in is None else "the content of a file"
        facts["keys"] = _column(roles.key, by_row, "--key-column", _like(columns, _KEYS))
        if len(roles.keys) > 1:
            facts["keys"] = f"the columns {', '.join(map(repr, roles.keys))}"
        facts["groups"] = _column(roles.group, "none", "--group-column", _like(columns, _GROUPS))
        if fields:
            names = {kind: name for name, kind in TYPES.items()}
            facts["columns"] = _some(
                [
                    f"{field.name} ({names.get(field.type, field.type)}"
                    f"{', from paths' if field.name in of_paths else ''})"
                    for field in fields
                ]
            )
    elif config.group_column:
        facts["groups"] = f"the column {config.group_column!r}"
    elif config.group_from:
        facts["groups"] = f"--group-from {config.group_from}"
    return facts


def _text_columns(roles: ColumnRoles) -> str:
    """Return the columns of texts, or the one of conversations."""
    columns = [roles.main] if roles.main is not None else [*roles.others]
    noun = "columns" if len(columns) > 1 else "column"
    return f"the {noun} {_some([repr(one) for one in columns])}"


def listed_roles(config: CommonConfig, layout: Layout, facts: InputFacts) -> ColumnRoles | None:
    """Return the roles of the columns of rows, or of a listing; None for input without columns."""
    if isinstance(layout, RowLayout):
        if config.number_type is None or layout.roles.label is None:
            return layout.roles
        return dataclasses.replace(layout.roles, label=None, target=TARGET)  # of windows
    if (roles := facts.roles) is not None and not value_of(config, "annotations"):
        if _array_labels(config) is None:
            return roles
        return dataclasses.replace(roles, label=None, target=_number(config))
    return None if (target := _number(config)) is None else ColumnRoles(target=target)


def _number(config: CommonConfig) -> str | None:
    """Return the column of the numbers to predict that paths or arrays give."""
    return None if config.number_type is None else TARGET


def _array_labels(config: CommonConfig) -> str | None:
    """Return the source of the labels of arrays if an option names it: `the array 'y'`."""
    for option, noun in _ARRAY_LABELS.items():
        if given := value_of(config, option):
            return f"the {noun} {given!r}"
    return None


def group_noun(
    config: CommonConfig, data_type: DataType, roles: ColumnRoles | None
) -> GroupNoun | None:
    """Return the name of groups in messages; None if they follow from content, or there is none."""
    by_option = (config.group_column, config.group_from) != (None, None)
    if by_option or (roles is not None and roles.group is not None):
        return "group"
    if data_type.unit == "clip" or any(value_of(config, name) for name in SEGMENT_COLUMNS):
        return "file"
    return None if data_type.windows is None else "series"


def conflicts_of(config: CommonConfig, data_type: DataType) -> Conflicts | None:
    """Return the treatment of rows that have the same key; None if none can, or for chunks."""
    if not isinstance(data_type.source, RecordRows):
        # Keys of files in tables repeat if their contents do.
        return config.conflicts if isinstance(data_type.source, SplitTables) else None
    decided = config.key_column is not None and data_type.chunker is None
    return config.conflicts if decided else None


def target_of(config: CommonConfig) -> Target:
    """Return the target of --balance-target."""
    target = config.balance_target
    if not isinstance(target, str):
        return target
    threshold = config.repeat_threshold
    return "median" if threshold is None else RepeatFactors(threshold)


def rules_of(
    config: CommonConfig, labels: tuple[str, ...] | None, *, of_objects: bool
) -> LabelRules:
    """Return the rules for labels and keys.

    labels: the classes to allow; None allows all. of_objects: as in `DataType`.
    """
    if of_objects:
        return LabelRules(excluded_keys=config.exclude_keys)
    return config.label_rules(allowed=labels, excluded_keys=config.exclude_keys)


def unread_label(config: CommonConfig, roles: ColumnRoles | None) -> str | None:
    """Return the column or array of labels if no option says how to read its values."""
    if config.label_type is not None or config.labels_file is not None:
        return None
    if value_of(config, "label_array") or value_of(config, "label_input"):
        return _array_labels(config)
    types: Mapping[str, str] = value_of(config, "types", {})
    if roles is None or roles.classes in (None, batch.LABEL, batch.LABELS):
        return None
    # Several numbers of a record are no number to predict.
    several = roles.labels is not None or roles.separator is not None
    if several or roles.flags or types.get(roles.classes) == "string":
        return None
    return f"the column {roles.classes!r}"


def gives_values(config: CommonConfig, roles: ColumnRoles | None) -> bool:
    """Return whether values of the input are the classes, not names of its folders or files."""
    by_content = LabelFiles.parse(config.label_from or "") is not None or value_of(
        config, "intervals"
    )
    by_column = roles is not None and roles.classes and not _in_paths(config, roles)
    if roles is not None and roles.flags:
        return False
    return bool(by_column or _array_labels(config) is not None or by_content)


def _in_paths(config: CommonConfig, roles: ColumnRoles) -> bool:
    """Return whether the paths of tables give the classes."""
    given = config.label_from
    return given is not None and roles.classes == path_column("label", given)


def renames_of(config: CommonConfig, roles: ColumnRoles | None) -> Mapping[str, str]:
    """Return {feature: new name} of --rename, `label` for a number to predict, and `weight`."""
    target = None if roles is None else roles.target
    renames = ((target, "label"), (value_of(config, "weight_column"), "weight"))
    found = {old: new for old, new in renames if old not in (None, new)}
    return {**found, **config.rename}


def bins_of(config: CommonConfig, roles: ColumnRoles | None) -> LabelBins | None:
    """Return the bins of --label-bins."""
    if roles is None or roles.target is None or config.label_bins is None:
        return None
    from recordmill.transforms.balancing.label_bins import LabelBins  # it imports Beam

    return LabelBins(roles.target, config.label_bins)


_OF_BOXES = "none for images; boxes have their own"


def _classes(
    config: CommonConfig, roles: ColumnRoles | None, layout: Layout, columns: Sequence[str]
) -> str:
    if roles is not None and roles.target is not None:
        bins = f", in {config.label_bins} bins" if config.label_bins is not None else ""
        of_columns = isinstance(layout, RowLayout) or roles.main is not None
        name = layout.roles.label if isinstance(layout, RowLayout) else None
        column = _shown_column(name or roles.target) if of_columns else _path_labels(config, layout)
        where = _array_labels(config) or column
        return f"none; the number to predict comes from {where}{bins}"
    if isinstance(layout, RowLayout):
        if layout.roles.classes is not None:
            if _in_paths(config, layout.roles):
                return _path_labels(config, layout)
            return _class_column(layout.roles)
        if (intervals := value_of(config, "intervals")) is not None:
            return f"--intervals {intervals}"
        if OBJECTS in layout.columns.names:
            return _OF_BOXES
        if config.label_type == "none":
            return "none, because of --label-type none"
        return (
            f"none; no column is named {', '.join(LABELS[:-1])} or {LABELS[-1]}{_options(columns)}"
        )
    if not layout.labelled:
        if OBJECTS in layout.columns.names:
            return _OF_BOXES
        if roles is not None and config.label_type == "none":
            return "none, because of --label-type none"
        return "none" if roles is None else f"none{_options(columns)}"
    if value_of(config, "annotations", ()) or OBJECTS in layout.columns.names:
        return "the annotations"
    if roles is not None and roles.classes is not None:
        return _class_column(roles)
    return _array_labels(config) or _path_labels(config, layout)


def _options(columns: Sequence[str]) -> str:
    """Return the columns that may hold classes, for messages: ` (--label-column could be 'a')`."""
    return f" (--label-column could be {_some(list(map(repr, columns)))})" if columns else ""


def _class_column(roles: ColumnRoles) -> str:
    assert roles.classes is not None
    several = roles.labels is not None or roles.separator is not None
    noun = "columns" if len(roles.flags) > 1 else "column"
    column = f"the {noun} {_some(list(map(repr, roles.flags)))}"
    shown = column if roles.flags else _shown_column(roles.classes)
    return shown + (", several per record" if several else "")


def _path_labels(config: CommonConfig, layout: Layout) -> str:
    """Return the part of the paths that gives the labels."""
    below = "the folders below the split" if layout.split_source == FOLDERS else FOLDERS
    return {"top": below, "parent": "the folders around the files"}.get(
        config.label_from or "top", f"--label-from {config.label_from}"
    )


def class_range(counts: Mapping[str, int]) -> tuple[str, str]:
    """Return the smallest and the largest class; of equal ones the first by name."""
    names = sorted(counts)
    return min(names, key=counts.__getitem__), max(names, key=counts.__getitem__)


def _sizes(counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    smallest, largest = class_range(counts)
    if len(counts) == 1:
        return f"; 1 class, {smallest!r} ({counts[smallest]:,})"
    if counts[smallest] == counts[largest]:
        return f"; {len(counts)} classes, each with {counts[smallest]:,}"
    return (
        f"; {len(counts)} classes, the smallest {smallest!r} ({counts[smallest]:,}), the largest"
        f" {largest!r} ({counts[largest]:,})"
    )


def _splits(config: CommonConfig, layout: Layout, columns: Collection[str]) -> str:
    fractions = ",".join(f"{name}={x:g}" for name, x in config.fractions.items())
    divided = f"divided by --splits {fractions}"
    times = value_of(config, "split_times")
    if times:
        return f"divided by --split-times {show_moments(times)}"
    divided += _TIME_SPLITS.get(value_of(config, "split_by", ""), "")
    if layout.split_source is None:
        more = ["the default"] if config.splits is None else []
        if columns:
            more.append(f"--split-column could be {_some(list(map(repr, columns)))}")
        return f"{divided} ({'; '.join(more)})" if more else divided
    named = sum(one.split is not None for one in config.input)
    if 0 < named < len(config.input):
        return f"{layout.split_source}; records of inputs without a split are {divided}"
    return layout.split_source


def _column(name: str | None, without: str, option: str, others: Sequence[str]) -> str:
    if name is not None:
        return _shown_column(name)
    if not others:
        return without
    return f"{without} ({option} could be {_some([repr(one) for one in others])})"


def _shown_column(name: str) -> str:
    """Return the description of a column of the input, of the index of a dataset, or of paths."""
    if name.startswith(OF_PATHS):
        return name
    return "the index of the dataset" if name.startswith("__") else f"the column {name!r}"


def _like(columns: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    return [name for name in columns if pattern.fullmatch(name)]


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
