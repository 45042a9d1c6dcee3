"""Source of media in TFRecord files: each record refers to the bytes of one of its features.

No bytes are copied: the path of a record is a reference to a range of its file
(`storage.members`), and the checksum of the record is verified whenever the range is read.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.job.input_facts import ColumnRoles, InputFacts
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.storage.members import MOST_INFLATED
from recordmill.tfrecord.framing import MAX_PAYLOAD_BYTES
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.file_stat import EMPTY, RejectCause
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import check_paths
from recordmill.transforms.sources.files.number_labels import LabelType
from recordmill.transforms.sources.files.path_layout import unused_splits
from recordmill.transforms.sources.files.references import ARCHIVED, Unlabelled
from recordmill.transforms.sources.files.walks import File, SkippedPath
from recordmill.transforms.sources.row_formats.column_types import (
    ColumnType,
    ColumnTypes,
    unify,
)
from recordmill.transforms.sources.row_formats.condition_syntax import parse_condition
from recordmill.transforms.sources.row_formats.conditions import RowFilter
from recordmill.transforms.sources.row_formats.open_rows import wanted_columns
from recordmill.transforms.sources.row_formats.row_file import Origin, Rows
from recordmill.transforms.sources.row_formats.row_format import RowFormat
from recordmill.transforms.sources.rows.column_roles import SPLITS, find_roles, quoted
from recordmill.transforms.sources.rows.label_types import (
    number_field,
    with_several,
    with_target,
)
from recordmill.transforms.sources.rows.number_columns import invalid_numbers, with_numbers
from recordmill.transforms.sources.rows.record_columns import (
    InvalidRows,
    build_records,
    label_fields,
    system_columns,
    user_field,
)
from recordmill.transforms.sources.rows.record_layout import split_source_of_rows
from recordmill.transforms.sources.rows.repeated_rows import Conflicts
from recordmill.transforms.sources.rows.row_inputs import RowInput
from recordmill.transforms.sources.rows.row_sections import numbered_keys
from recordmill.transforms.sources.tfrecords.array_forms import ArrayForm
from recordmill.transforms.sources.tfrecords.media_features import (
    CLASS_NUMBER,
    CLASS_TEXT,
    LABEL_NAMES,
    MADE,
    MEDIA,
    PairedNumbers,
    find_media,
    refuse_moving,
    refuse_raw_pixels,
)
from recordmill.transforms.sources.tfrecords.pixel_features import PixelFeatures
from recordmill.transforms.sources.tfrecords.record_parts import mask_references, record_parts
from recordmill.transforms.sources.tfrecords.repeated_records import find_repeated_records
from recordmill.transforms.sources.tfrecords.tfrecord_file import PLACES, TfrecordFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfrecordMedia:
    """Lists the media in TFRecord files.

    input: datasets, folders, patterns or files.
    bytes_column: feature with the bytes; by default a usual name, such as image/encoded.
    raw: form of the arrays that the feature holds; None if it holds files.
    pixels: features that become annotations; without it, such features are an error.
    label_column: by default image/class/text, image/class/label, label or class.
    split_column: by default `split`, if there is such a feature and `finds_split` is true.
    key_column: feature of unique keys, or several with commas between; by default the key is
      FILE#RECORD.
    drop_columns: features to ignore.
    label_separator: text between the labels in the label feature, if records may have several; a
      feature of lists needs none.
    label_type: reading of the label: classes (also None), numbers, or a feature as any other.
    unlabelled: whether to reject or keep records without label if there is a label feature.
    where: condition of the records to read; others are left out. It may name dropped features.
    conflicts: treatment of records that have the same key and differ; equal records count once.
      None leaves such records to the check of all keys.
    """

    input: Inputs
    bytes_column: str | None = None
    raw: ArrayForm | None = None
    pixels: PixelFeatures | None = None
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    key_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    label_separator: str | None = None
    label_type: LabelType | None = None
    unlabelled: Unlabelled = "reject"
    finds_split: bool = True
    where: str | None = None
    conflicts: Conflicts | None = None

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_paths(self.input)

    @property
    def unique_keys(self) -> bool:
        """True if the key is FILE#RECORD, or if conflicts are decided."""
        return self.key_column is None or self.conflicts is not None

    @functools.cached_property
    def _rows(self) -> RowInput:
        # A record of any size can be referred to.
        return RowInput(input=self.input, format=RowFormat(format="tfrecord"))

    def scan(self) -> Iterator[ListingPart]:
        """Yield the records as references.

        Raises:
          ConfigError: the input cannot be used, or has no usable record.
        """
        files: list[tuple[File, str | None]] = []
        names: set[str] = set()
        rejects: list[Reject] = []
        filtered: collections.Counter[str] = collections.Counter()
        unused = unused_splits(self._rows.laid_out)
        for one in self._rows.find(unused):
            if isinstance(one, SkippedPath):
                filtered[one.reason] += one.files
            elif isinstance(one, Reject):
                rejects.append(one)
            else:
                files.append((one[0], one[1].split))
                names.update(_open(one[0]).media_names())
        yield ListingPart(rejects=rejects, filtered=dict(+filtered))
        if not names:
            problems = [reject.detail for reject in rejects[:1]]
            for file, _ in files[:1]:
                nothing = pa.schema([])
                for rows in _open(file).read_media(nothing, (), ""):
                    problems += [f"{file.key}: record {bad.number}: {bad.why}" for bad in rows.bad]
            first = f"; the first problem: {problems[0]}" if problems else ""
            raise ConfigError(f"found no record with a feature in {self.input}{first}")
        roles = self._roles(sorted(names))
        splits = split_source_of_rows(self.input, roles, self._rows.facts(unused))
        users = self._user_columns(roles, sorted(names))
        column_types, row_filter = self._types(roles, users, names, files)
        roles = with_several(roles, column_types, self.label_separator, where=str(self.input))
        text = roles.named() - {roles.main}
        lists = [] if roles.labels is None else [roles.labels]
        compared = () if row_filter is None else row_filter.fields
        read = {*text, *users, *lists}
        others = [one.name for one in compared if one.name not in read]
        wanted = wanted_columns(sorted(text), [*lists, *users, *others], column_types)
        numbers: dict[str, int] = {}  # {class of objects, or of images: its number}
        pairs = PairedNumbers.of(roles.label, column_types, numbers)
        if pairs is not None and pairs.field.name not in wanted.names:
            wanted = wanted.append(pairs.field)
        for name in () if self.raw is None else self.raw.features:
            wanted = wanted.append(pa.field(name, pa.list_(pa.int64())))
        fields = [user_field(wanted.field(name)) for name in users]
        annotations = pa.schema([])
        masks: Mapping[str, bool] = {}
        if self.pixels is not None:
            for field in self.pixels.fields(column_types):
                wanted = wanted.append(field)
            annotations, masks = self.pixels.schema(column_types), self.pixels.masks
        if roles.target is not None:
            where = str(self.input)
            number_field(
                column_types[roles.target].field(roles.target),
                self.label_type,
                unlabelled=self.unlabelled,
                where=where,
            )
        repeated = find_repeated_records(
            [_open(file) for file, _ in files],
            roles,
            conflicts=self.conflicts,
            where=str(self.input),
        )
        kept = left_out_by_where = 0
        for file, split in files:
            for rows in _open(file).read_media(wanted, text, str(roles.main), masks):
                filtered.clear()
                filtered.update(rows.skipped)
                if row_filter is not None:
                    rows, left_out = row_filter.apply(rows, self._rows.format.value_parser)
                    filtered.update(left_out)
                    left_out_by_where += sum(left_out.values())
                if pairs is not None:
                    pairs.add(rows.columns)
                listed = self._references(rows, roles, fields, annotations, file, split, numbers)
                listed = dataclasses.replace(listed, filtered=dict(filtered))
                kept += 0 if listed.rows is None else len(listed.rows)
                rejects += listed.rejects[:1]
                if repeated is not None and listed.rows is not None:
                    held = repeated.hold(listed.rows, listed.rows[batch.KEY])
                    listed = dataclasses.replace(listed, rows=held)
                yield listed
        notes = () if pairs is None else pairs.end()  # also drops ambiguous numbers
        stated: Mapping[str, int] = numbers
        if self.pixels is not None and self.pixels.has_objects:
            stated = self.pixels.class_numbers(numbers)
        splits = splits if roles.split is None else f"the feature {roles.split!r}"
        facts = InputFacts(split_source=splits, roles=roles, class_numbers=stated)
        yield ListingPart(notes=notes, facts=facts)
        if repeated is not None:
            yield from repeated.decide()
        if not kept and left_out_by_where and not rejects:
            raise ConfigError(
                f"{option_name('where')} leaves out all {left_out_by_where} records of"
                f" {self.input}: relax it"
            )
        if not kept and rejects:
            raise ConfigError(
                f"no record of {self.input} can be used; the first: {rejects[0].key}:"
                f" {rejects[0].detail}"
            )

    def _types(
        self,
        roles: ColumnRoles,
        users: Sequence[str],
        names: Collection[str],
        files: Sequence[tuple[File, str | None]],
    ) -> tuple[ColumnTypes, RowFilter | None]:
        """Return the types of features, as far as they are needed, and the filter of --where.

        names: of all features.

        Raises:
          ConfigError: the condition does not fit the features.
        """
        compared = () if self.where is None else parse_condition(self.where).columns
        needed = {*users, *(name for name in compared if name in names)}
        needed.update(() if roles.label is None else (roles.label,))
        if roles.label == CLASS_TEXT:  # whose numbers are kept
            needed.update({CLASS_NUMBER}.intersection(names).difference(self.drop_columns))
        needed.update(() if self.pixels is None else self.pixels.more.values())
        found = unify(_open(file).media_types(needed) for file, _ in files) if needed else {}
        found = {**{name: ColumnType() for name in needed}, **found}
        if self.where is None:
            return found, None
        types = {name: kind.field(name).type for name, kind in found.items()}
        types = {**{name: pa.binary() for name in sorted(names)}, **types}
        return found, RowFilter.of(self.where, types, where=str(self.input))

    def _roles(self, names: Sequence[str]) -> ColumnRoles:
        """Return the roles of features. Raises ConfigError."""
        where = str(self.input)
        for name in (self.bytes_column, *self.drop_columns):
            if name is not None and name not in names:
                raise ConfigError(f"no feature {name!r} in {where}: it has {quoted(names)}")
        requested = ColumnRoles(
            main=self.bytes_column,
            label=self.label_column,
            split=self.split_column,
            group=self.group_column,
            key=self.key_column,
            dropped=self.drop_columns,
        )
        splits = SPLITS if self.finds_split else ()
        # The classes of objects are those of their images.
        labels = () if self.pixels is not None and self.pixels.has_objects else LABEL_NAMES
        roles = find_roles(
            names, requested, where=where, main_names=MEDIA, labels=labels, splits=splits
        )
        if roles.main is None:
            find_media([name for name in names if name not in self.drop_columns], self.input)
        return with_target(roles, self.label_type, where=where)

    def _user_columns(self, roles: ColumnRoles, names: Sequence[str]) -> list[str]:
        """Return the features that become values of the records. Raises ConfigError."""
        used = set() if self.pixels is None else self.pixels.used
        users = [n for n in roles.user_columns(names) if n not in MADE and n not in used]
        refuse_moving(users, self.input)
        return users

    def _references(
        self,
        rows: Rows,
        roles: ColumnRoles,
        fields: Sequence[pa.Field],
        annotations: pa.Schema,
        file: File,
        split: str | None,
        numbers: dict[str, int],
    ) -> ListingPart:
        """Return a reference or a reject for every record. Raises ConfigError for raw pixels.

        numbers: {class of objects: its number}, to which those of the records are added.
        """
        rows = with_numbers(rows, roles, self.label_type, self._rows.format.value_parser)
        columns = rows.columns
        system = system_columns(rows, roles)
        numbered = numbered_keys(rows, [file.key])
        if roles.key is None:
            system = system._replace(key=numbered)
        if roles.split is None:
            system = system._replace(split=pa.repeat(pa.scalar(split, pa.string()), len(columns)))
        offset, length, start, size = (np.asarray(columns[name]) for name in PLACES)
        heads: list[bytes | None] = [b""] * len(columns)
        if self.raw is not None:
            heads = self.raw.headers(columns, size.tolist())
        else:
            refuse_raw_pixels(columns, size, str(roles.main), str(self.input))
        whole = size + [len(head or b"") for head in heads]
        keys = system.key.to_pylist()
        paths = record_parts(file, (offset, length, whole, start), keys, heads)

        def absent(row: int) -> RejectCause:
            del row
            return RejectCause(Reason.BAD_VALUE, f"no feature {roles.main!r}")

        def too_large(row: int) -> RejectCause:
            what = f"{length[row]} bytes, but a record has {MOST_INFLATED} at most"
            return RejectCause(Reason.TOO_LARGE, what)

        def misshapen(row: int) -> RejectCause:
            assert self.raw is not None
            what = f"{size[row]} bytes do not fill an array of {self.raw.dtype} {self.raw.shape}"
            return RejectCause(Reason.BAD_VALUE, what)

        faults = [
            InvalidRows(start < 0, absent),
            InvalidRows((size == 0) & (self.raw is None), lambda row: EMPTY),
            InvalidRows(np.array([head is None for head in heads], np.bool_), misshapen),
            InvalidRows(length > MOST_INFLATED, too_large),
            *invalid_numbers(rows, roles, unlabelled=self.unlabelled),
        ]
        annotated: list[pa.Array] = []
        if self.pixels is not None:
            masks = {
                name: mask_references(file, rows.columns, name, keys) for name in self.pixels.masks
            }
            annotated, wrong = self.pixels.read(columns, annotations, masks, numbers)
            faults += wrong
        users = list(fields)
        if roles.target is not None:
            at = [field.name for field in users].index(roles.target)
            target = columns.schema.field(roles.target)
            users[at] = user_field(target).with_nullable(self.unlabelled == "keep")
        references = [
            pa.array(paths, pa.string()),
            pa.array(whole.astype(np.int64)),
            pa.repeat(file.mtime, len(columns)),
            numbered,
            *system.lists,
            *annotated,
        ]
        return build_records(
            rows,
            system,
            roles,
            source_columns=references,
            schema=pa.schema([*ARCHIVED, *label_fields(roles), *annotations, *users]),
            faults=faults,
            files=[file.key],
            reject_unlabelled=self.unlabelled == "reject",
        )


def _open(file: File) -> TfrecordFile:
    origin = Origin(place=Location.parse(file.path), size=file.size, mtime=file.mtime)
    opened = TfrecordFile(origin, MAX_PAYLOAD_BYTES)
    if opened.is_compressed:
        raise ConfigError(
            f"{shown(file.path)} is compressed, so its records cannot be read by their offsets:"
            f" decompress it (gunzip -k {shown(file.path)}), and pass the result"
        )
    return opened
