"""Steps from the rows of files, in any row format, to records."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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
from recordmill.transforms.model.source import ListingPart, Parts
from recordmill.transforms.model.user_columns import check_types
from recordmill.transforms.model.usual_columns import OF_FLAGS
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import check_paths
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.number_labels import NUMBERS
from recordmill.transforms.sources.folders.path_layout import FOLDERS
from recordmill.transforms.sources.row_formats.open_rows import wanted_columns
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, Noun, Rows
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.row_formats.text.header_check import refuse_delimiter
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    as_nullable,
    has_nan,
)
from recordmill.transforms.sources.row_formats.values.text_columns import as_text
from recordmill.transforms.sources.row_formats.where.condition_syntax import parse_condition
from recordmill.transforms.sources.row_formats.where.conditions import RowFilter
from recordmill.transforms.sources.rows.columns.column_checks import (
    ColumnAdvice,
    inference_notes,
    refuse_unknown_missing,
    unnamed_notes,
)
from recordmill.transforms.sources.rows.columns.flag_columns import (
    FlagColumns,
    flag_notes,
    names_of_flags,
    unused_flags,
    with_flag_labels,
)
from recordmill.transforms.sources.rows.columns.hub_features import HubClassNames, with_class_names
from recordmill.transforms.sources.rows.columns.number_columns import (
    invalid_numbers,
    number_field,
    weight_field,
)
from recordmill.transforms.sources.rows.columns.path_columns import (
    key_types,
    possible_classes,
    refuse_repeated,
    without_nulls,
)
from recordmill.transforms.sources.rows.columns.record_columns import (
    SYSTEM_FIELDS,
    build_records,
    label_fields,
    system_columns,
    user_field,
)
from recordmill.transforms.sources.rows.columns.row_options import RowOptions, UsualNames, resolve
from recordmill.transforms.sources.rows.reading.label_types import (
    holds_values,
    untyped_label,
    with_several,
    with_spelling,
)
from recordmill.transforms.sources.rows.reading.record_layout import (
    Attached,
    References,
    RowLayout,
    split_source_of_rows,
    typed_rows,
    with_path_columns,
    written_field,
)
from recordmill.transforms.sources.rows.reading.row_cache import RowCache
from recordmill.transforms.sources.rows.reading.row_inputs import RowInput
from recordmill.transforms.sources.rows.reading.row_sections import (
    Inference,
    as_run_error,
    flag_columns,
    infer_columns,
    infer_flags,
    infer_spelling,
    iter_blocks,
    numbered_keys,
    read_header,
)
from recordmill.transforms.sources.rows.reading.unusable_input import no_usable_record


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowSteps(RowOptions):
    """Makes records from rows; base of the sources of values and of references.

    The steps are: facts of paths, `where`, names of classes, roles, the payload of a subclass,
    faults, rejects. A subclass defines the input (`inputs`), and may add columns between the system
    columns and the user columns (`_leading_fields`, `_attach`).

    Args:
      format: Format of the rows.
    """

    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen
    # Whether rows may have several labels.
    _takes_label_lists: ClassVar[bool] = True
    _needs_classes: ClassVar[bool] = True  # whether records without classes are unusual
    # Columns of the records before the user columns.
    _leading_fields: ClassVar[tuple[pa.Field, ...]] = SYSTEM_FIELDS
    # Whether to read all rows to find the columns that are never null.
    _infers_nullability: ClassVar[bool] = False
    _checks_numbers: ClassVar[bool] = True  # whether to reject rows with numbers beyond float32
    _file_noun: ClassVar[Noun] = "file"
    _takes_lists: ClassVar[bool] = False  # whether lists may give the splits of rows
    _infers_here: ClassVar[bool] = False  # whether types are inferred in this process

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_paths(self.inputs)
        if self.inputs.split_files and not self._takes_lists:
            raise ConfigError(
                f"{option_name('split_files')}: lists name files, and the input holds rows: use"
                f" {option_name('split_column')} or {option_name('split_from')}"
            )

    @property
    def inputs(self) -> Inputs:
        """Paths of the input."""
        raise NotImplementedError

    @functools.cached_property
    def row_input(self) -> RowInput:
        """Files of rows."""
        return RowInput(
            input=self._inputs_of_rows,
            format=self.row_format,
            noun=self._file_noun,
            worker_limits=self._worker_limits,
        )

    @property
    def _inputs_of_rows(self) -> Inputs:
        """The input, with the facts from the paths of its files."""
        return self.inputs

    @property
    def row_format(self) -> RowFormat:
        """Format of the rows."""
        return self.format

    @property
    def _worker_limits(self) -> TaskLimits:
        """Limits of an encoder process."""
        return DEFAULT_LIMITS

    @property
    def _usual(self) -> UsualNames:
        """Usual names of columns."""
        return UsualNames()

    @property
    def _main_column(self) -> str | None:
        """Column that records are made of, if an option names it."""
        return None

    @property
    def _path_roles(self) -> Mapping[str, str]:
        """{system column: name as of `path_column`} of the roles that facts in paths have."""
        return self.row_input.path_roles

    @property
    def _made_columns(self) -> tuple[str, ...]:
        """Columns of text that the source makes of others while it reads rows."""
        return ()

    @property
    def _consumed_columns(self) -> tuple[str, ...]:
        """Further columns that are not values of a record, because the source converts them."""
        return ()

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        """Return the layout of the records. Reads all rows if the files do not declare all types.

        Raises:
          ConfigError: a column is missing, unsupported, or differs between files.
        """
        inputs, parser = self.inputs, self.format.value_parser
        where = str(inputs)
        conditional = () if self.where is None else parse_condition(self.where).columns
        hub = HubClassNames()
        header = self._header(parts, {*self.drop_columns}.difference(conditional), hub)
        column_types = header
        if column_types is None:
            column_types = infer_columns(parts, self.row_input, Inference(), here=self._infers_here)
        if not column_types:
            raise no_usable_record(self.row_input)
        refuse_delimiter(list(column_types), self.format, where)
        refuse_unknown_missing(parser, column_types, where=where)
        in_path, used = self.row_input.path_roles, self.row_input.used_keys
        columns = self.row_input.path_columns
        used -= {self.label_column, self.split_column, self.group_column, self.key_column}
        keys = [key for key in facts.partitions if key not in {*columns.values(), *used}]
        from_path = tuple(key for key in keys if key not in column_types)
        of_flags = (OF_FLAGS,) if self.label_columns else ()
        refuse_repeated(columns.values(), column_types, where=where)
        made = (*columns.values(), *of_flags, *self._made_columns)
        of_path = (*from_path, *in_path.values(), *made)
        roles = self._roles([*column_types, *of_path], of_path)
        notes: dict[str, Note] = {}
        if self.label_type != "none" and self._needs_classes:
            notes |= possible_classes(from_path, roles, where=where)
        text = ColumnType(types=(pa.string(),))
        column_types = {**column_types, **dict.fromkeys(of_path, text)}
        nullable = not self._infers_nullability
        column_types |= key_types(from_path, parts, parser, nullable=nullable)
        for name in without_nulls(parts, columns) if self._infers_nullability else ():
            column_types[name] = text._replace(nullable=False)
        flags: FlagColumns | None = None
        if roles.flags:
            flags = flag_columns(parts, self.row_input, roles.flags, column_types)
            column_types |= infer_flags(parts, self.row_input, flags, here=self._infers_here)
            notes |= flag_notes(column_types[OF_FLAGS], flags)
        if self._takes_label_lists:
            roles = with_several(roles, column_types, self.label_separator, where=where)
        lists = roles.labels if flags is None else flags.lists and flags.names[0]
        read = roles.named().difference(of_path, {lists})
        typed = self._typed_columns({} if header is None else column_types | header)
        self._check_types(roles, column_types)
        as_they_are = {field.name for field in typed}
        for name in sorted(read - as_they_are) if header is not None else ():
            as_text(pa.array([], column_types[name].field(name).type), name)
        user_columns = self._user_columns(roles, list(column_types))
        notes.update(unnamed_notes(column_types, user_columns))
        kept = None
        if keep is not None and self._infers_nullability:
            kept = RowCache(keep, frozenset(read))
        if header is not None:
            needed = {*user_columns, *conditional}.difference(of_path)
            names = [name for name in column_types if name in needed]
            if self._infers_nullability and roles.label in read:
                names.append(str(roles.label))
            if flags is not None and lists is not None:
                names.append(lists)
            label = untyped_label(column_types, roles, self.format.decimal)
            label = None if label is not None and self._keeps_labels(label.name) else label
            zoned = None if self._zoned_column in of_path else self._zoned_column
            what = Inference(names, kept, zoned, label)
            column_types = column_types | self._infer_remaining(header, parts, what, notes)
        if roles.classes is None and self.label_type is None and self._takes_label_lists:
            notes |= unused_flags(user_columns, column_types)
        spelling = None if roles.classes is None else column_types[roles.classes].labels
        roles = with_spelling(roles, spelling, parser)
        fields = [
            weight_field(field, where=where) if field.name == roles.weight else field
            for field in self._user_fields(user_columns, column_types, roles)
        ]
        notes.update(inference_notes(fields, column_types, self._advice, roles.target))
        class_names = hub.of(roles) if flags is None else names_of_flags(flags.classes)
        splits = split_source_of_rows(inputs, roles, facts)
        hints = facts.split_hints if splits in (None, FOLDERS) else ()
        return RowLayout(
            columns=pa.schema(
                [*self._record_fields(roles, column_types), *label_fields(roles), *fields]
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
            label_lists=None if lists is None else column_types[lists].field(lists),
            flags=flags,
            row_filter=self._row_filter(column_types, fields),
            kept=kept,
            class_names=class_names,
            of_values=class_names is None and holds_values(roles, column_types),
            from_path=from_path,
            in_both=tuple(key for key in keys if key not in from_path),
            from_listing={name: column for column, name in [*in_path.items(), *columns.items()]},
            typed=typed,
            made=self._made_columns,
        )

    def _header(
        self, parts: Parts, dropped: Collection[str], hub: HubClassNames
    ) -> ColumnTypes | None:
        """Return the columns that all files declare, as `read_header`, and add names to `hub`."""
        return read_header(parts, self.row_input, dropped, hub.add)

    def _row_filter(self, found: ColumnTypes, fields: Sequence[pa.Field]) -> RowFilter | None:
        """Return the filter of `where`, for columns with these types. Raises ConfigError."""
        if self.where is None:
            return None
        types = {name: kind.field(name).type for name, kind in found.items() if name}
        types |= {field.name: field.type for field in fields}
        return RowFilter.of(self.where, types, where=str(self.inputs))

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        """Return the roles of the columns. of_path: those not in files. Raises ConfigError."""
        return resolve(
            self,
            names,
            self._usual,
            of_path=of_path,
            inputs=self.inputs,
            in_path=self._path_roles,
            main=self._main_column,
            others=self._consumed_columns,
        )

    def _user_columns(self, roles: ColumnRoles, names: Sequence[str]) -> list[str]:
        """Return the columns that become values of the records. Raises ConfigError."""
        return roles.user_columns(names)

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
        where = str(self.inputs)
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
        self, header: ColumnTypes, parts: Parts, what: Inference, notes: dict[str, Note]
    ) -> ColumnTypes:
        """Return the types that the header does not declare, with the spelling of labels.

        Args:
          header: Types that the header declares.
          parts: Parts of the listing.
          what: Columns to infer; the names are those of the user columns.
          notes: {topic: note}, to which notes on these columns are added.
        """
        del notes
        rows, here, label, names = self.row_input, self._infers_here, what.label, what.names or ()
        if self._infers_nullability:
            return infer_columns(parts, rows, what)
        if not all(header[name].types for name in names):
            return as_nullable(infer_columns(parts, rows, Inference(names, label=label), here=here))
        # A NaN is always a missing value.
        is_any = bool(self.format.missing)
        found = as_nullable({n: header[n] for n in names if is_any or has_nan(header[n])})
        return found if label is None else found | infer_spelling(parts, rows, label, here=here)

    def _keeps_labels(self, label: str) -> bool:
        """Return whether an option says that the labels are text."""
        del label
        return False

    def _typed_columns(self, found: ColumnTypes) -> tuple[pa.Field, ...]:
        """Return the columns with a role that keep their types; others are read as text.

        found: the types that the files declare; empty if they declare none.
        """
        del found
        return ()

    def _check_types(self, roles: ColumnRoles, column_types: ColumnTypes) -> None:
        """Check the types of columns with a role. Raises ConfigError."""
        del roles, column_types

    def _reading(self, file: File) -> AbstractContextManager[None]:
        """Return a context in which errors in reading a file are raised as errors of the run."""
        return as_run_error(file)

    def _attach(self, rows: Rows, layout: RowLayout, files: Sequence[File]) -> Attached:
        """Return the columns that the source adds to rows. files: as in `Rows.files`."""
        del rows, layout, files
        return Attached()

    def _rows_of(
        self,
        file: File,
        section: FileSection,
        wanted: pa.Schema,
        text: Collection[str],
        layout: RowLayout,
    ) -> Iterable[Rows]:
        """Yield the rows of a section, as `RowFile.read`."""
        del layout
        return self.row_input.open(file).read(section, wanted, text)

    def _read(
        self, sections: pa.RecordBatch, layout: RowLayout, references: References | None = None
    ) -> Iterator[ListingPart]:
        """Yield the records of a part of the listing. references: those of `RowReferences`."""
        named = layout.read_names()
        texts = wanted_columns(sorted(named), (), {})
        wanted = pa.schema([*texts, *layout.more_fields(named), *layout.written])
        kept = None if layout.kept is None else layout.kept.take(sections, wanted)
        parser = self.format.value_parser
        for number, block in enumerate(iter_blocks(sections, self.row_input)):
            first = block.files[0]
            with self._reading(first):
                for rows in (
                    self._rows_of(first, block.section, wanted, named, layout)
                    if kept is None
                    else kept[number]
                ):
                    if references is not None:
                        references.see(rows, first)
                    rows = with_path_columns(rows, layout, block.files, block.listed)
                    typed = typed_rows(rows, layout, parser, block.files)
                    yield self._records(typed, layout, block.files, block.listed, references)
        if layout.kept is not None:
            layout.kept.forget(sections)

    def _records(
        self,
        rows: Rows,
        layout: RowLayout,
        files: Sequence[File],
        listed: Sequence[Mapping[str, Any]],
        references: References | None = None,
    ) -> ListingPart:
        """Return the records of rows.

        Args:
          rows: Rows of a file, or of several small files, with the columns of paths.
          layout: Layout of the records.
          files: The files, as in `Rows.files`.
          listed: Row of the listing for the section of each file.
          references: As for `_read`; then all rows are in one file.
        """
        roles, parser = layout.roles, self.format.value_parser
        names = [file.key for file in files]
        filtered = rows.skipped
        if layout.row_filter is not None:
            rows, left_out = layout.row_filter.apply(rows, parser)
            filtered |= left_out
        if layout.flags is not None:
            rows = with_flag_labels(rows, layout.flags, several=roles.labels is not None)
        else:
            rows = with_class_names(rows, layout.class_names, roles)
        system = system_columns(rows, roles)
        if roles.split is None:
            system = system._replace(split=rows.of_files([one[batch.SPLIT] for one in listed]))
        if references is None:
            attached = self._attach(rows, layout, files)
        else:
            attached = references.attach(rows, layout, files[0], system)
        if attached.splits is not None:
            system = system._replace(split=attached.splits)
        if roles.key is None:
            key = numbered_keys(rows, names) if attached.keys is None else attached.keys
            system = system._replace(key=key)
        places = []
        if self._place_fields(roles):
            places.append(batch.places(names, rows.numbers, rows.files))
        numbers = invalid_numbers(
            rows, roles, unlabelled=self.unlabelled, finite=self._checks_numbers
        )
        found = build_records(
            rows,
            system,
            roles,
            source_columns=[*attached.columns, *places, *system.lists],
            schema=layout.columns,
            unkeyed=attached.unkeyed,
            faults=[*attached.faults, *numbers],
            files=names,
            reject_unlabelled=self.unlabelled == "reject",
            check_numbers=self._checks_numbers,
        )
        return dataclasses.replace(found, filtered=filtered)

    def _record_fields(self, roles: ColumnRoles, column_types: ColumnTypes) -> list[pa.Field]:
        """Return the fields before those of lists of labels and of user columns."""
        del column_types
        return [*self._leading_fields, *self._place_fields(roles)]

    def _place_fields(self, roles: ColumnRoles) -> list[pa.Field]:
        """Return the column of places, if keys are not places in the end."""
        del roles
        return []
