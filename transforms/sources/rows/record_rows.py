"""Base of the sources that read records from files of rows, in any of the row formats."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.notes import Note, notes_of
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource
from recordmill.transforms.model.user_columns import check_types
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import check_paths
from recordmill.transforms.sources.files.number_labels import NUMBERS, LabelType
from recordmill.transforms.sources.files.path_layout import FOLDERS
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.row_formats.column_types import (
    ColumnType,
    ColumnTypes,
    as_nullable,
    has_nan,
)
from recordmill.transforms.sources.row_formats.condition_syntax import parse_condition
from recordmill.transforms.sources.row_formats.conditions import RowFilter
from recordmill.transforms.sources.row_formats.header_check import refuse_delimiter
from recordmill.transforms.sources.row_formats.open_rows import wanted_columns
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.row_formats.row_format import RowFormat
from recordmill.transforms.sources.row_formats.text_columns import as_text
from recordmill.transforms.sources.rows import content_keys
from recordmill.transforms.sources.rows.column_checks import (
    ColumnAdvice,
    inference_notes,
    refuse_unknown_missing,
    unnamed_notes,
)
from recordmill.transforms.sources.rows.column_roles import LABELS, SPLITS, find_roles
from recordmill.transforms.sources.rows.hub_features import HubClassNames, with_class_names
from recordmill.transforms.sources.rows.label_types import (
    holds_values,
    number_field,
    read_numbers,
    rows_without_number,
    untyped_label,
    with_several,
    with_spelling,
)
from recordmill.transforms.sources.rows.path_columns import (
    path_columns,
    path_values,
    unread_columns,
    with_path_columns,
)
from recordmill.transforms.sources.rows.record_columns import (
    SYSTEM_FIELDS,
    InvalidRows,
    build_records,
    label_fields,
    system_columns,
    user_field,
)
from recordmill.transforms.sources.rows.record_layout import (
    RowLayout,
    split_source_of_rows,
    typed_rows,
    written_field,
)
from recordmill.transforms.sources.rows.row_cache import RowCache
from recordmill.transforms.sources.rows.row_inputs import RowInput
from recordmill.transforms.sources.rows.row_sections import (
    LabelColumn,
    as_run_error,
    infer_columns,
    infer_spelling,
    iter_blocks,
    list_sections,
    numbered_keys,
    read_header,
    regroup,
)
from recordmill.transforms.sources.rows.unusable_input import no_usable_record
from recordmill.transforms.sources.rows.weights import invalid_weights, weight_field


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordRows(RowSource):
    """Lists the sections of files of rows and reads records from them.

    A subclass assigns roles to columns (`_roles`), and may put columns of its own between the
    system columns and the user columns (`_leading_fields`, `_source_columns`).

    input: path or URI of a file, a pattern (`*`, `?`, `[...]`, `**` for folders) or a folder; or
      several of them.
    label_column: by default 'label', 'class', 'category' or 'target', if there is such a column.
    split_column: by default 'split', if there is such a column. Without one, top-level folders or
      files that are named as splits give the split.
    key_column: column of unique record keys, or several with commas between; by default the key is
      a hash of the content.
    drop_columns: columns to ignore.
    label_separator: text between the labels in the label column, if rows may have several; a column
      of lists needs none.
    label_type: reading of the label column: classes (also None), numbers, or a column as any other.
    unlabelled: whether to reject or keep rows without label if there is a label column.
    weight_column: column of weights, which becomes a value of the records.
    where: condition of the rows to read; others are left out. It may name dropped columns.
    worker_limits: of an encoder process.
    """

    input: str | Inputs
    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    key_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    label_separator: str | None = None
    label_type: LabelType | None = None
    unlabelled: Unlabelled = "reject"
    where: str | None = None
    weight_column: str | None = None
    worker_limits: TaskLimits = DEFAULT_LIMITS
    # Whether rows may have several labels.
    _takes_label_lists: ClassVar[bool] = True
    _needs_classes: ClassVar[bool] = True  # whether records without classes are rather unusual
    # Columns of the records before the user columns.
    _leading_fields: ClassVar[tuple[pa.Field, ...]] = SYSTEM_FIELDS
    # Whether to read all rows to find the columns that are never null.
    _infers_nullability: ClassVar[bool] = False
    _checks_numbers: ClassVar[bool] = True  # whether to reject rows with numbers beyond float32

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_paths(self.input)

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.key_column is None

    @property
    def keyed_by_content(self) -> bool:
        """True without a key column; the keys that `read` yields are then FILE#ROW."""
        return self.key_column is None

    def content_hashes(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return binary(16)[n]. Numbers to predict and weights do not count, as classes do not."""
        if self.weight_column is not None:
            rows = rows.drop_columns([self.weight_column])
        if self.label_type in ("int", "float"):
            names = {name.lower(): name for name in reversed(rows.schema.names)}
            usual = next((names[name] for name in LABELS if name in names), None)
            in_path = self._rows.path_roles.get(batch.LABEL)
            rows = rows.drop_columns([self.label_column or in_path or usual])
        return content_keys.content_hashes(rows, self.format.value_parser)

    def scan(self) -> Iterator[ListingPart]:
        """Yield the sections of the files.

        Raises:
          ConfigError: a file cannot be parsed, or there are no rows.
        """
        return list_sections(self._rows)

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        """Return the layout of the records. Reads all rows if the files do not declare all types.

        Raises:
          ConfigError: a column is missing, unsupported, or differs between files.
        """
        conditional = () if self.where is None else parse_condition(self.where).columns
        hub = HubClassNames()
        dropped = {*self.drop_columns}.difference(conditional)
        header = read_header(parts, self._rows, dropped, hub.add)
        column_types = infer_columns(parts, self._rows, None) if header is None else header
        if not column_types:
            raise no_usable_record(self._rows)
        refuse_delimiter(list(column_types), self.format, str(self.input))
        refuse_unknown_missing(self.format.value_parser, column_types, where=str(self.input))
        requested = self._requested_roles()
        in_path = self._rows.path_roles
        from_path = path_columns(facts.partitions, column_types, requested)
        of_path = (*from_path, *in_path.values())
        roles = self._roles([*column_types, *of_path])
        found = [key for key in facts.partitions if key not in column_types]
        classless = self.label_type == "none" or not self._needs_classes
        notes: dict[str, Note] = {
            **unread_columns(found, roles, where=str(self.input), may_lack_classes=classless)
        }
        text = ColumnType(types=(pa.string(),))
        column_types = {**column_types, **dict.fromkeys(of_path, text)}
        if self._takes_label_lists:
            roles = with_several(roles, column_types, self.label_separator, where=str(self.input))
        read = roles.named().difference(of_path)
        for name in sorted(read) if header is not None else ():
            as_text(pa.array([], column_types[name].field(name).type), name)
        user_columns = roles.user_columns(list(column_types))
        notes.update(unnamed_notes(column_types, user_columns))
        kept = None
        if keep is not None and self._infers_nullability:
            kept = RowCache(keep, frozenset(read))
        if header is not None:
            needed = {*user_columns, *conditional}.difference(of_path)
            names = [name for name in column_types if name in needed]
            if self._infers_nullability and roles.label in read:
                names.append(str(roles.label))
            label = untyped_label(column_types, roles, self.format.decimal)
            label = None if label is not None and self._keeps_labels(label.name) else label
            column_types = column_types | self._infer_remaining(
                header, names, parts, kept, label, notes
            )
        spelling = None if roles.classes is None else column_types[roles.classes].labels
        roles = with_spelling(roles, spelling, self.format.value_parser)
        fields = [
            weight_field(field, where=str(self.input)) if field.name == roles.weight else field
            for field in self._user_fields(user_columns, column_types, roles)
        ]
        notes.update(inference_notes(fields, column_types, self._advice, roles.target))
        class_names = hub.of(roles)
        splits = split_source_of_rows(Inputs.of(self.input), roles, facts)
        hints = facts.split_hints if splits in (None, FOLDERS) else ()
        return RowLayout(
            columns=pa.schema(
                [*self._leading_fields, *self._place_fields(roles), *label_fields(roles), *fields]
            ),
            labelled=roles.classes is not None,
            grouped=roles.group is not None,
            split_source=splits,
            notes=(*notes.values(), *notes_of("splits", hints)),
            roles=roles,
            written=pa.schema(
                written_field(field, header or column_types, column_types)
                for field in fields
                if field.name not in of_path
            ),
            label_lists=None
            if roles.labels is None
            else column_types[roles.labels].field(roles.labels),
            row_filter=self._row_filter(column_types, fields),
            kept=kept,
            class_names=class_names,
            of_values=class_names is None and holds_values(roles, column_types),
            from_path=from_path,
            from_listing={name: column for column, name in in_path.items()},
            typed=() if header is None else self._typed_columns(header),
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the records of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        assert isinstance(layout, RowLayout)
        return regroup(self._read(sections, layout))

    @property
    def row_input(self) -> RowInput:
        """The files of rows."""
        return self._rows

    def _row_filter(self, found: ColumnTypes, fields: Sequence[pa.Field]) -> RowFilter | None:
        """Return the filter of --where, for columns with these types. Raises ConfigError."""
        if self.where is None:
            return None
        types = {name: kind.field(name).type for name, kind in found.items() if name}
        types |= {field.name: field.type for field in fields}
        return RowFilter.of(self.where, types, where=str(self.input))

    @functools.cached_property
    def _rows(self) -> RowInput:
        return RowInput(input=self.input, format=self.format, worker_limits=self.worker_limits)

    def _find_roles(
        self, names: Sequence[str], requested: ColumnRoles, main_names: Sequence[str]
    ) -> ColumnRoles:
        """Return the roles of columns, as requested or by their usual names. Raises ConfigError."""
        inputs = Inputs.of(self.input)
        return find_roles(
            names,
            requested,
            where=str(inputs),
            main_names=main_names,
            labels=LABELS,
            splits=SPLITS if inputs.split_from == "auto" else (),
        )

    def _roles(self, names: Sequence[str]) -> ColumnRoles:
        """Return the roles of the columns. Raises ConfigError."""
        raise NotImplementedError

    def _user_fields(
        self, user_columns: Sequence[str], column_types: ColumnTypes, roles: ColumnRoles
    ) -> list[pa.Field]:
        """Return the fields of the user columns in the records. Raises ConfigError."""
        fields = {name: column_types[name].field(name) for name in user_columns}
        check_types(field for name, field in fields.items() if name != roles.target)
        return [
            self._number_field(name, column_types[name])
            if name == roles.target
            else user_field(field)
            for name, field in fields.items()
        ]

    def _number_field(self, name: str, found: ColumnType) -> pa.Field:
        """Return the field of the column of numbers to predict. Raises ConfigError."""
        where = str(self.input)
        field = found.field_as(name, NUMBERS[str(self.label_type)])
        return number_field(field, self.label_type, unlabelled=self.unlabelled, where=where)

    @property
    def _zoned_column(self) -> str | None:
        """Column of times of which some may have a time zone, if it is to be checked."""
        return None

    @property
    def _advice(self) -> ColumnAdvice:
        """Facts for notes on columns."""
        return ColumnAdvice()

    def _infer_remaining(
        self,
        header: ColumnTypes,
        names: Sequence[str],
        parts: Iterable[pa.RecordBatch],
        keep: RowCache | None,
        label: LabelColumn | None,
        notes: dict[str, Note],
    ) -> ColumnTypes:
        """Return the types that the header does not declare, with the spelling of labels.

        Args:
          header: Types that the header declares.
          names: Names of the user columns.
          parts: Parts of the listing.
          keep: Cache for the rows that are read.
          label: Column of labels.
          notes: {topic: note}, to which notes on these columns are added.
        """
        del notes
        if self._infers_nullability:
            return infer_columns(parts, self._rows, names, keep, self._zoned_column, label)
        if not all(header[name].types for name in names):
            return as_nullable(infer_columns(parts, self._rows, names, keep, label=label))
        # A NaN is always a missing value.
        is_any = bool(self.format.missing)
        found = as_nullable({n: header[n] for n in names if is_any or has_nan(header[n])})
        return found if label is None else found | infer_spelling(parts, self._rows, label)

    def _keeps_labels(self, label: str) -> bool:
        """Return whether an option says that the labels are text."""
        del label
        return False

    def _typed_columns(self, found: ColumnTypes) -> tuple[pa.Field, ...]:
        """Return the columns with a role that keep their types; others are read as text.

        found: the types that the files declare.
        """
        del found
        return ()

    def _source_columns(
        self, rows: Rows, roles: ColumnRoles, files: Sequence[str]
    ) -> tuple[list[pa.Array], list[InvalidRows]]:
        """Return the columns between system and user columns, and their invalid rows."""
        del rows, roles, files
        return [], []

    def _requested_roles(self, main: str | None = None, others: Sequence[str] = ()) -> ColumnRoles:
        """Return the roles that options assign."""
        in_path = self._rows.path_roles
        for column, given in ((batch.LABEL, self.label_column), (batch.GROUP, self.group_column)):
            if given is not None and column in in_path:
                role = column.strip("_")
                text = getattr(Inputs.of(self.input), f"{role}_from")
                raise ConfigError(
                    f"{option_name(f'{role}_column', given)}:"
                    f" {option_name(f'{role}_from', text)} gives the {role}: leave one of them out"
                )
        return ColumnRoles(
            main=main,
            others=tuple(others),
            label=self.label_column or in_path.get(batch.LABEL),
            split=self.split_column,
            group=self.group_column or in_path.get(batch.GROUP),
            key=self.key_column,
            weight=self.weight_column,
            dropped=self.drop_columns,
        )

    def _read(self, sections: pa.RecordBatch, layout: RowLayout) -> Iterator[ListingPart]:
        named = layout.read_names()
        texts = wanted_columns(sorted(named), (), {})
        wanted = pa.schema([*texts, *layout.more_fields(named), *layout.written])
        kept = None if layout.kept is None else layout.kept.take(sections, wanted)
        for number, block in enumerate(iter_blocks(sections, self._rows)):
            first = block.files[0]
            files = [file.key for file in block.files]
            with as_run_error(first):
                found: Iterable[Rows] = (
                    self._rows.open(first).read(block.section, wanted, named)
                    if kept is None
                    else kept[number]
                )
                for rows in found:
                    yield self._records(
                        typed_rows(rows, layout, self.format.value_parser),
                        layout,
                        files=files,
                        listed=block.listed,
                    )
        if layout.kept is not None:
            layout.kept.forget(sections)

    def _records(
        self,
        rows: Rows,
        layout: RowLayout,
        *,
        files: Sequence[str],
        listed: Sequence[Mapping[str, Any]],
    ) -> ListingPart:
        """Return the records of rows.

        Args:
          rows: Rows of a file, or of several.
          layout: Layout of the records.
          files: Keys of the files, as in `Rows.files`.
          listed: Rows of the listing, of their sections.
        """
        roles = layout.roles
        of_file = {
            name: [one[column] for one in listed] for name, column in layout.from_listing.items()
        }
        rows = with_path_columns(rows, path_values(layout.from_path, files) | of_file)
        if roles.target in of_file:
            rows = read_numbers(rows, roles.target, self.label_type, self.format.value_parser)
        filtered = rows.skipped
        if layout.row_filter is not None:
            rows, left_out = layout.row_filter.apply(rows, self.format.value_parser)
            filtered |= left_out
        rows = with_class_names(rows, layout.class_names, roles)
        system = system_columns(rows, roles)
        if roles.key is None:
            system = system._replace(key=numbered_keys(rows, files))
        if roles.split is None:
            system = system._replace(split=rows.of_files([one[batch.SPLIT] for one in listed]))
        source_columns, faults = self._source_columns(rows, roles, files)
        if self._place_fields(roles):
            source_columns = [*source_columns, batch.places(files, rows.numbers, rows.files)]
        source_columns = [*source_columns, *system.lists]
        if roles.target is not None and self.unlabelled == "reject":
            faults = [*faults, rows_without_number(rows, roles.target)]
        if roles.weight is not None:
            faults = [*faults, invalid_weights(rows, roles.weight)]
        found = build_records(
            rows,
            system,
            roles,
            source_columns=source_columns,
            schema=layout.columns,
            faults=faults,
            files=files,
            reject_unlabelled=self.unlabelled == "reject",
            check_numbers=self._checks_numbers,
        )
        return dataclasses.replace(found, filtered=filtered)

    def _place_fields(self, roles: ColumnRoles) -> list[pa.Field]:
        """Return the column of places, if keys are not places in the end."""
        needed = roles.key is not None or self.keyed_by_content
        return [pa.field(batch.PLACE, batch.PLACES, False)] if needed else []
