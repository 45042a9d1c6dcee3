"""Source of media in TFRecord files: each record refers to the bytes of one of its features.

No bytes are copied: the path of a record is a reference to a range of its file
(`storage.members`), and the checksum of the record is verified whenever the range is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import xxhash

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.job.input_facts import ColumnRoles, InputFacts
from recordmill.storage.files import Location, shown
from recordmill.storage.members import MOST_INFLATED, Member
from recordmill.tfrecord.framing import MAX_PAYLOAD_BYTES, FrameError, payload_of
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart, Parts
from recordmill.transforms.sources.files.file_stat import EMPTY, RejectCause
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.references import ARCHIVED
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, Origin, Rows
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.row_formats.tfrecords.record_frames import MISMATCH
from recordmill.transforms.sources.row_formats.tfrecords.tfrecord_file import PLACES, TfrecordFile
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    unify,
)
from recordmill.transforms.sources.row_formats.where.condition_syntax import parse_condition
from recordmill.transforms.sources.rows.columns.hub_features import HubClassNames
from recordmill.transforms.sources.rows.columns.record_columns import InvalidRows, SystemColumns
from recordmill.transforms.sources.rows.columns.row_options import UsualNames
from recordmill.transforms.sources.rows.reading.record_layout import Attached, References, RowLayout
from recordmill.transforms.sources.rows.reading.row_sections import (
    iter_sections,
    list_sections,
    numbered_keys,
)
from recordmill.transforms.sources.rows.reading.unusable_input import no_usable_record
from recordmill.transforms.sources.rows.references.row_references import RowReferences
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfrecordMedia(RowReferences):
    """Lists the media in TFRecord files.

    input: datasets, folders, patterns or files.
    bytes_column: feature with the bytes; by default a usual name, such as image/encoded.
    raw: form of the arrays that the feature holds; None if it holds files.
    pixels: features that become annotations; without it, such features are an error.
    """

    input: Inputs
    format: RowFormat = RowFormat(format="tfrecord")  # noqa: RUF009, it is frozen
    bytes_column: str | None = None
    raw: ArrayForm | None = None
    pixels: PixelFeatures | None = None
    _noun: ClassVar[str] = "record"

    @property
    def inputs(self) -> Inputs:
        return self.input

    @property
    def _usual(self) -> UsualNames:
        # The classes of objects are those of their images.
        return UsualNames(MEDIA, () if self._has_objects else LABEL_NAMES)

    @property
    def _has_objects(self) -> bool:
        return self.pixels is not None and self.pixels.has_objects

    @property
    def _main_column(self) -> str | None:
        return self.bytes_column

    def _list(self) -> Iterator[ListingPart]:
        return list_sections(self.row_input, whole=True)

    def _references(self, layout: RowLayout) -> References:
        return _RecordRanges(self, layout)

    def _rows_of(
        self,
        file: File,
        section: FileSection,
        wanted: pa.Schema,
        text: Collection[str],
        layout: RowLayout,
    ) -> Iterable[Rows]:
        del section
        main = str(layout.roles.main)
        wanted = pa.schema(field for field in wanted if field.name != main)
        masks = None if self.pixels is None else self.pixels.masks
        return _open(file).read_media(wanted, {*text} - {main}, main, masks)

    def _header(self, parts: Parts, dropped: Collection[str], hub: HubClassNames) -> ColumnTypes:
        """Return the features of all records, with the types of those that are needed."""
        del dropped, hub
        files = [_open(file) for part in parts for file, *_ in iter_sections(part)]
        names = sorted({name for file in files for name in file.media_names()})
        if not names:
            raise no_usable_record(self.row_input)
        roles = self._roles(names)
        compared = () if self.where is None else parse_condition(self.where).columns
        needed = {*self._user_columns(roles, names), *compared, str(roles.label or roles.target)}
        if roles.label == CLASS_TEXT:  # whose numbers are kept
            needed.update({CLASS_NUMBER}.difference(self.drop_columns))
        needed.update(() if self.pixels is None else self.pixels.more.values())
        needed.intersection_update(names)
        found = unify(file.media_types(needed) for file in files) if needed else {}
        return {name: found.get(name, ColumnType()) for name in names}

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        roles = super()._roles(names, of_path)
        if roles.main is None:
            find_media([name for name in names if name not in roles.dropped], self.input)
        return roles

    def _user_columns(self, roles: ColumnRoles, names: Sequence[str]) -> list[str]:
        used = set() if self.pixels is None else self.pixels.used
        users = [n for n in roles.user_columns(names) if n not in MADE and n not in used]
        refuse_moving(users, self.input)
        return users

    def _infer_remaining(self, header: ColumnTypes, *others: object) -> ColumnTypes:
        del others
        return header

    def _typed_columns(self, found: ColumnTypes) -> tuple[pa.Field, ...]:
        roles = self._roles([*found])
        pairs = PairedNumbers.of(roles.label, found, {})
        paired = [] if pairs is None or CLASS_NUMBER in roles.named() else [pairs.field]
        raw = () if self.raw is None else self.raw.features
        arrays = [pa.field(name, pa.list_(pa.int64())) for name in raw]
        return (*paired, *arrays, *(() if self.pixels is None else self.pixels.fields(found)))

    def _record_fields(self, roles: ColumnRoles, column_types: ColumnTypes) -> list[pa.Field]:
        del roles
        return [*ARCHIVED, *(() if self.pixels is None else self.pixels.schema(column_types))]

    def _place_fields(self, roles: ColumnRoles) -> list[pa.Field]:
        del roles
        return []


class _RecordRanges(References):
    """Ranges of TFRecord files with the media of records."""

    def __init__(self, media: TfrecordMedia, layout: RowLayout) -> None:
        self._media = media
        self._numbers: dict[str, int] = {}  # {class of objects, or of images: its number}
        is_paired = any(field.name == CLASS_NUMBER for field in layout.typed)
        self._pairs = PairedNumbers(self._numbers) if is_paired else None
        after = [*layout.columns][len(ARCHIVED) :]
        users = {batch.LABELS, *layout.written.names}
        self._annotations = pa.schema(field for field in after if field.name not in users)

    def content(self, path: str) -> int:
        """Return a hash of the frame of the record that a reference names.

        Raises:
          RecordError: the record does not match its checksum.
        """
        member = Member.of(path)
        assert member is not None, "records are members of their file"
        frame = Location.parse(member.archive).read_range(member.offset, member.length)
        try:
            payload_of(frame)
        except FrameError as error:
            raise RecordError(Reason.CORRUPT, MISMATCH) from error
        return xxhash.xxh3_64_intdigest(frame)

    def attach(self, rows: Rows, layout: RowLayout, file: File, system: SystemColumns) -> Attached:
        """Return the references of rows. Raises ConfigError for raw pixels."""
        media, columns, feature = self._media, rows.columns, str(layout.roles.main)
        if self._pairs is not None:
            self._pairs.add(columns)
        numbered = numbered_keys(rows, [file.key])
        keys = (system.key if layout.roles.keys else numbered).to_pylist()
        offset, length, start, size = (np.asarray(columns[name]) for name in PLACES)
        heads: list[bytes | None] = [b""] * len(columns)
        if media.raw is not None:
            heads = media.raw.headers(columns, size.tolist())
        else:
            refuse_raw_pixels(columns, size, feature, str(media.input))
        whole = size + [len(head or b"") for head in heads]
        paths = record_parts(file, (offset, length, whole, start), keys, heads)

        def absent(row: int) -> RejectCause:
            del row
            return RejectCause(Reason.BAD_VALUE, f"no feature {feature!r}")

        def too_large(row: int) -> RejectCause:
            what = f"{length[row]} bytes, but a record has {MOST_INFLATED} at most"
            return RejectCause(Reason.TOO_LARGE, what)

        def misshapen(row: int) -> RejectCause:
            assert media.raw is not None
            what = f"{size[row]} bytes do not fill an array of {media.raw.dtype} {media.raw.shape}"
            return RejectCause(Reason.BAD_VALUE, what)

        faults = [
            InvalidRows(start < 0, absent),
            InvalidRows((size == 0) & (media.raw is None), lambda row: EMPTY),
            InvalidRows(np.array([head is None for head in heads], np.bool_), misshapen),
            InvalidRows(length > MOST_INFLATED, too_large),
        ]
        annotated: list[pa.Array] = []
        if media.pixels is not None:
            masks = {
                name: mask_references(file, columns, name, keys) for name in media.pixels.masks
            }
            annotated, wrong = media.pixels.read(columns, self._annotations, masks, self._numbers)
            faults += wrong
        references = [
            pa.array(paths, pa.string()),
            pa.array(whole.astype(np.int64)),
            pa.repeat(file.mtime, len(columns)),
            numbered,
        ]
        return Attached([*references, *annotated], faults)

    def end(self) -> ListingPart:
        notes = () if self._pairs is None else self._pairs.end()  # also drops ambiguous numbers
        numbers: Mapping[str, int] = self._numbers
        if (pixels := self._media.pixels) is not None and pixels.has_objects:
            numbers = pixels.class_numbers(numbers)
        return ListingPart(notes=notes, facts=InputFacts(class_numbers=numbers))


def _open(file: File) -> TfrecordFile:
    origin = Origin(place=Location.parse(file.path), size=file.size, mtime=file.mtime)
    opened = TfrecordFile(origin, MAX_PAYLOAD_BYTES)
    if opened.is_compressed:
        raise ConfigError(
            f"{shown(file.path)} is compressed, so its records cannot be read by their offsets:"
            f" decompress it (gunzip -k {shown(file.path)}), and pass the result"
        )
    return opened
