"""Source of files named in a listing: a CSV, TSV, JSON lines or Parquet file with a row per file.

One column holds the path: relative to the folder of the listing (or to `input_root`), absolute, or
a URI. Other columns may hold label, split, group and key; the remaining ones are user columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles, InputFacts
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.model.user_columns import check_types
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.number_labels import LabelType
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive
from recordmill.transforms.sources.files.path_rules import PathRules, normal_path, parse_store
from recordmill.transforms.sources.files.references import (
    ROW,
    Unlabelled,
)
from recordmill.transforms.sources.row_formats.column_types import (
    ColumnType,
    ColumnTypes,
    as_nullable,
)
from recordmill.transforms.sources.row_formats.header_check import refuse_delimiter
from recordmill.transforms.sources.row_formats.open_rows import (
    infer_types,
    wanted_columns,
)
from recordmill.transforms.sources.row_formats.quote_anomalies import quote_notes
from recordmill.transforms.sources.row_formats.row_file import FileSection, RowFile
from recordmill.transforms.sources.row_formats.row_format import RowFormat, format_of
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser
from recordmill.transforms.sources.rows.column_checks import (
    refuse_unknown_missing,
    unnamed_notes,
)
from recordmill.transforms.sources.rows.column_roles import SPLITS, find_roles, quoted
from recordmill.transforms.sources.rows.label_types import (
    holds_values,
    number_field,
    with_several,
    with_spelling,
    with_target,
)
from recordmill.transforms.sources.rows.listed_files import listed_keys, resolve_files
from recordmill.transforms.sources.rows.listing_file import (
    RejectedRows,
    check_unnamed,
    label_spelling,
    listing_filter,
    open_listing,
    segment_notes,
    with_missing,
)
from recordmill.transforms.sources.rows.number_columns import with_numbers
from recordmill.transforms.sources.rows.path_stats import StatCache
from recordmill.transforms.sources.rows.repeated_rows import (
    Conflicts,
    RepeatedRows,
    repeated_hashes,
)
from recordmill.transforms.sources.rows.unlisted import ListedPaths
from recordmill.transforms.sources.rows.weights import weight_field

PATHS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path")
_LABELS = ("label", "class")


def is_listing(place: Location) -> bool:
    """Return whether an input is a listing: an existing file with the extension of a table."""
    is_table = format_of(place.name) not in (None, "tfrecord")
    return is_table and place.exists() and not place.is_dir()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileList:
    """Lists the files that a listing names.

    Args:
      path: Path or URI of the listing.
      format: Format of its rows. A .txt file with a delimiter is read as CSV or TSV.
      input_root: Folder or archive that relative paths refer to; by default the folder of the
        listing.
      confine: Whether local paths must lie inside `input_root`, if that is given.
      stores: Object stores that URIs may name, beside those of the listing and of `input_root`;
        with the options of their filesystems, which the URIs of a listing must not have.
      path_column: By default a column with a usual name (path, file, filename, image, ...).
      label_column: By default 'label' or 'class', if there is such a column.
      split_column: By default 'split', if there is such a column and `finds_split` is true.
      group_column: Column that identifies a group, which never spans two splits.
      key_column: Column of unique record keys, or several with commas between; by default the key
        is the path (see `normal_path`).
      drop_columns: Columns to ignore.
      label_separator: Text between the labels in the label column, if files may have several; a
        column of lists needs none.
      label_type: Reading of the label column: `class` (also None), `int` or `float` for numbers to
        predict, or `none` for an ordinary column.
      unlabelled: Whether to reject or keep rows without label if there is a label column.
      weight_column: Column with the weights of records.
      where: Condition of the rows to read; others are left out. It may name dropped columns.
      conflicts: Treatment of rows that have the same key and differ; equal rows count once. None:
        repeated keys are an error, which `Analyze` finds.
      finds_split: Whether a column named 'split' gives splits.
      segment_columns: Columns that distinguish rows with the same key, such as times of segments;
        None if rows cannot be segments of files.
    """

    path: str
    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen
    path_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    key_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    label_separator: str | None = None
    label_type: LabelType | None = None
    input_root: str | None = None
    confine: bool = True
    stores: tuple[str, ...] = ()
    unlabelled: Unlabelled = "reject"
    finds_split: bool = True
    where: str | None = None
    weight_column: str | None = None
    conflicts: Conflicts | None = None
    segment_columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        open_listing(Location.parse(self.path), self.row_format)
        if self.input_root is not None:
            Location.parse(self.input_root)
        for store in self.stores:
            parse_store(store)

    @property
    def unique_keys(self) -> bool:
        """False, because a listing may repeat a path or a key."""
        return False

    @property
    def row_format(self) -> RowFormat:
        """Format of the rows, which the delimiter gives for a .txt file."""
        if format_of(Location.parse(self.path).name) != "lines" or self.format.delimiter is None:
            return self.format
        by_tab = self.format.delimiter in ("\t", "\\t", "tab")
        return dataclasses.replace(self.format, format="tsv" if by_tab else "csv")

    @property
    def root(self) -> Location:
        """Folder or archive of relative paths."""
        if self.input_root is None:
            return Location.parse(self.path).parent
        return Location.parse(self.input_root)

    def roles(self, names: Sequence[str]) -> ColumnRoles:
        """Return the roles of columns.

        Raises:
          ConfigError: a column does not exist, or there is no column of paths.
        """
        requested = ColumnRoles(
            main=self.path_column,
            label=self.label_column,
            split=self.split_column,
            group=self.group_column,
            key=self.key_column,
            weight=self.weight_column,
            dropped=self.drop_columns,
        )
        roles = find_roles(
            names,
            requested,
            where=self.path,
            main_names=PATHS,
            labels=_LABELS,
            splits=SPLITS if self.finds_split else (),
        )
        if roles.main is None:
            names = [name for name in names if name not in self.drop_columns]
            raise ConfigError(
                f"found no column of paths in {self.path}: expected one of {', '.join(PATHS)}; it"
                f" has {quoted(names)}; name the column with {option_name('path_column')}, or all"
                f" columns with {option_name('columns')} if it has no header line"
            )
        return with_target(roles, self.label_type, where=self.path)

    def label_spelling(self) -> LabelSpelling:
        """Return the spelling of the labels. Raises ConfigError as `scan` does."""
        file, column_types = self._opened()
        roles = self._roles_of(column_types)
        return label_spelling(file, roles, self.format.decimal)

    def _opened(self) -> tuple[RowFile, ColumnTypes]:
        """Return the listing and its columns, some without types. Raises ConfigError."""
        place = Location.parse(self.path)
        if not place.exists():
            raise ConfigError(f"the listing {place} does not exist: check the path")
        if place.is_dir():
            raise ConfigError(f"expected a listing, but {place} is a folder")
        refuse_special(place)
        file = open_listing(place, self.row_format)
        header = file.header()
        column_types = infer_types(file, file.sections()) if header is None else {**header}
        refuse_delimiter(list(column_types), self.format, f"the listing {place}")
        return file, column_types

    def _roles_of(self, column_types: ColumnTypes) -> ColumnRoles:
        roles = self.roles(list(column_types))
        return with_several(roles, column_types, self.label_separator, where=self.path)

    def scan(self, spelling: LabelSpelling | None = None) -> Iterator[ListingPart]:
        """Yield the files as references.

        spelling: of the labels of several listings; by default that of this one.

        Raises:
          ConfigError: the listing cannot be parsed, or none of its rows can be used.
        """
        place, root = Location.parse(self.path), self.root
        file, column_types = self._opened()
        self._check_root(root)
        declared = {name for name, kind in column_types.items() if kind.types}
        roles = self._roles_of(column_types)
        parser = self.row_format.value_parser
        # From a file of its own, because a file counts its quotes as it is read.
        spelling = spelling or self.label_spelling()
        roles = with_spelling(roles, spelling, parser)
        of_values = spelling.of_values if spelling.texts else holds_values(roles, column_types)
        refuse_unknown_missing(parser, column_types, where=self.path)
        user_columns = roles.user_columns(list(column_types))
        self._check_target(column_types, roles)
        check_types(kind.field(n) for n, kind in column_types.items() if n in user_columns)
        lists = [] if roles.labels is None else [roles.labels]
        others = [*lists, *user_columns, *([""] if "" in column_types else [])]
        sections = list(file.sections())
        if not all(column_types[name].types for name in others):
            column_types |= as_nullable(infer_types(file, sections, others))
        nullable = {name: column_types[name] for name in user_columns if parser.spellings(name)}
        column_types |= as_nullable(nullable)
        if roles.weight is not None:
            weight_field(column_types[roles.weight].field(roles.weight), where=self.path)
        for name in filter(None, (roles.target, roles.weight)):
            if name not in declared:
                column_types[name] = ColumnType()  # as text, of which numbers are parsed
        row_filter = None
        if self.where is not None:
            row_filter = listing_filter(self.where, file, column_types)
            compared = {field.name: ColumnType((field.type,)) for field in row_filter.fields}
            read = {*roles.named(), *others}
            added = [name for name in compared if name not in read]
            others = [*others, *added]
            column_types |= {name: compared[name] for name in added}
        wanted = wanted_columns(sorted(roles.named()), others, column_types)
        confine = self.confine and self.input_root is not None
        rules = PathRules.of(root, place, stores=self.stores, confine=confine)
        stats = StatCache(rules)
        named = ListedPaths(root)
        segments = [name for name in self.segment_columns or () if name in user_columns]
        keyed = wanted_columns(sorted(roles.named()), segments, column_types)
        repeated = self._find_repeated(file, sections, keyed, roles, segments)
        kept = filtered = 0
        rejected = RejectedRows()
        for section in sections:
            for rows in file.read(section, wanted, roles.named()):
                check_unnamed(rows, place)
                named.add(map(normal_path, rows.columns[roles.main].drop_null().to_pylist()))
                left_out = rows.skipped
                if row_filter is not None:
                    rows, not_matching = row_filter.apply(rows, parser)
                    left_out |= not_matching
                    filtered += sum(not_matching.values())
                rows = with_missing(rows, parser, {*rows.columns.schema.names} - {roles.main})
                rows = with_numbers(rows, roles, self.label_type, parser)
                listed = resolve_files(
                    rows,
                    roles=roles,
                    user_columns=user_columns,
                    stats=stats,
                    file=place.name,
                    unlabelled=self.unlabelled,
                )
                rejected.add(listed.rejects)
                if listed.rows is not None:
                    found = listed.rows
                    for name in segments:
                        if found[name].type == pa.string():
                            found = batch.set_column(found, name, _number_texts(found[name]))
                    identities = _identities(found[batch.KEY], found, segments)
                    kept += len(found)
                    listed = _with_rows(listed, repeated.hold(found, identities))
                yield dataclasses.replace(listed, filtered=left_out, of_values=of_values)
        for decided in repeated.decide():
            decided = dataclasses.replace(decided, of_values=of_values)
            yield _with_rows(decided, decided.rows)
        if not kept:
            given = self.input_root is not None
            raise ConfigError(rejected.no_rows(place, root, given=given, filtered=filtered))
        quotes = quote_notes([(place.name, file.quote_anomalies)])
        unnamed = unnamed_notes((), user_columns)
        whole = segment_notes(user_columns, place) if self.segment_columns == () else []
        listed_notes = named.notes(place.name, stats.archives)
        yield ListingPart(
            notes=[*quotes.values(), *unnamed.values(), *whole, *listed_notes],
            facts=InputFacts(
                split_source=f"the column {self.split_column or 'split'!r}", roles=roles
            ),
        )

    def _check_root(self, root: Location) -> None:
        """Raise ConfigError for an `input_root` that is neither a folder nor a usable archive."""
        if self.input_root is None:
            return
        if what := compressed_tar(root.name):
            raise ConfigError(f"{option_name('input_root', shown(root))} {what}")
        if root.is_local and not root.is_dir() and not (is_archive(root.name) and root.exists()):
            raise ConfigError(
                f"{option_name('input_root', shown(root))} is neither a folder nor an archive"
                " (.tar, .zip): check the path"
            )

    def _check_target(self, column_types: ColumnTypes, roles: ColumnRoles) -> None:
        """Raise ConfigError if the column of numbers to predict has no numbers by its type."""
        if roles.target is not None:
            field = column_types[roles.target].field(roles.target)
            number_field(field, self.label_type, unlabelled=self.unlabelled, where=self.path)

    def _find_repeated(
        self,
        file: RowFile,
        sections: Sequence[FileSection],
        wanted: pa.Schema,
        roles: ColumnRoles,
        segments: Sequence[str],
    ) -> RepeatedRows:
        """Read all keys, and return the collector of the rows whose keys repeat."""

        def read() -> Iterator[pa.Array]:
            for section in sections:
                for rows in file.read(section, wanted, roles.named()):
                    keys = listed_keys(rows, roles)
                    columns = rows.columns
                    yield _identities(keys, columns, segments).drop_null()

        name = Location.parse(self.path).name
        if self.conflicts is None:
            return RepeatedRows(np.zeros(0, np.uint64), conflicts="error", file=name)
        return RepeatedRows(repeated_hashes(read), conflicts=self.conflicts, file=name)


def _identities(keys: pa.Array, rows: pa.RecordBatch, segments: Sequence[str]) -> pa.Array:
    """Return the identity of each row, string[n]: the key, and the values of some columns."""
    if not segments:
        return keys
    columns = [rows[name] for name in segments if not pa.types.is_nested(rows[name].type)]
    values = (_number_texts(column).fill_null("") for column in columns)
    return pc.binary_join_element_wise(keys, *values, "\x1f")


def _number_texts(column: pa.Array) -> pa.Array:
    """Return a column as text, and numbers in one spelling: 0 and 0.0 are equal. string[n]."""
    texts = column.cast(pa.string())
    numbers, _ = ValueParser().cast_or_null(texts, pa.float64())
    return pc.coalesce(numbers.cast(pa.string()), texts)


def _with_rows(listed: ListingPart, rows: pa.RecordBatch | None) -> ListingPart:
    """Return a part with these rows, without the column of row numbers; None for no rows."""
    if rows is None or not len(rows):
        return dataclasses.replace(listed, rows=None)
    return dataclasses.replace(listed, rows=rows.drop_columns([ROW]))
