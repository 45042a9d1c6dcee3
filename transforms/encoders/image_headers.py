"""Headers of images: a check, a reader for schemas and statistics, and an analysis of depth."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from recordmill import strict_json
from recordmill.errors import Filtered, RecordError
from recordmill.format.typed_json import Count, parse_json, read_as
from recordmill.notes import Note
from recordmill.option_checks import check_options
from recordmill.storage.input_files import open_file, read_ahead
from recordmill.transforms.encoders.artifacts import read_artifact
from recordmill.transforms.encoders.class_masks import MaskHeaders
from recordmill.transforms.imaging.bit_depth import can_keep_16_bits
from recordmill.transforms.imaging.headers import Header, open_image, read_header
from recordmill.transforms.imaging.image_options import Depth, ImageOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import MASK_COLUMNS
from recordmill.transforms.model.data_type import Artifact, OutcomeCollector, RowOutcome

DEPTH_FILE = "image_depth.json"  # learned for --depth auto

_SOURCE_COLUMNS = (batch.PATH, batch.SIZE, batch.MTIME)

_ITEM = "item"
_HEAD = 1 << 16  # bytes of a file in which its bits per channel are stated


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeaderCheck:
    """Check that rejects invalid images and leaves out small ones, judged by their headers.

    Args:
      options: Options of the encoder, with limits of size.
      masks: Whether images have masks, whose headers are also checked.
    """

    options: ImageOptions
    masks: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file, and its mask."""
        return source_columns(masks=self.masks)

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Read the header of every file."""
        return _read_headers(rows, self.options)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageHeaders:
    """Reader of the headers of images, for schemas and statistics."""

    options: ImageOptions

    @property
    def fields(self) -> pa.Schema:
        """Schema of the columns that `read` returns."""
        sides = [pa.field(f"image/{name}", pa.int64()) for name in ("height", "width", "channels")]
        return pa.schema([pa.field("image/format", pa.string()), *sides])

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, pa.RecordBatch]:
        """Return the format (in lower case) and the size of the source images."""
        outcome, found = _read_headers(rows, self.options)
        columns = {
            "image/format": pa.array([one.format.lower() for one in found], pa.string()),
            "image/height": pa.array([one.height for one in found], pa.int64()),
            "image/width": pa.array([one.width for one in found], pa.int64()),
            "image/channels": pa.array([one.channels for one in found], pa.int64()),
        }
        return outcome, pa.RecordBatch.from_pydict(columns, schema=self.fields)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FoundDepth:
    """The content of `DEPTH_FILE`: the depth of the dataset, and {bits: number of images}."""

    bits: Literal[8, 16]
    images: dict[str, Count]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DepthAnalysis:
    """Analysis that finds the depth of a dataset from the headers of the images of train.

    Args:
      options: Options of the encoder.
    """

    options: ImageOptions

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file."""
        return (batch.KEY, *_SOURCE_COLUMNS)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the learned artifacts."""
        return (DEPTH_FILE,)

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the number of images of each depth; unreadable ones are rejected when encoded."""
        counts = {"8": 0, "16": 0}
        files = references(rows)
        for _, path, size, mtime in read_ahead(files, [file[1:] for file in files], head=True):
            try:
                with open_file(path, size=size, mtime=mtime) as file:
                    image = open_image(file, self.options)
                    file.seek(0)
                    deep = can_keep_16_bits(image, file.read(_HEAD))
            except (RecordError, Filtered):
                continue
            counts["16" if deep else "8"] += 1
        numbers = pa.array(list(counts.values()), pa.int64())
        return pa.RecordBatch.from_pydict({_ITEM: pa.array(list(counts)), "images": numbers})

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Return all items."""
        return counts

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Return the depth: 16 if any image has more than 8 bits."""
        del records
        images = dict(zip(counts[_ITEM].to_pylist(), counts["images"].to_pylist(), strict=True))
        bits = 16 if images.get("16") else 8
        return {DEPTH_FILE: strict_json.to_text({"bits": bits, "images": images}).encode() + b"\n"}

    def notes(self, contents: Mapping[str, bytes], counts: pa.RecordBatch) -> Sequence[Note]:
        """Return a note if only some images of train have more than 8 bits."""
        del counts
        images = read_as(_FoundDepth, parse_json(contents[DEPTH_FILE])).images
        deep, shallow = images.get("16", 0), images.get("8", 0)
        if not deep or not shallow:
            return ()
        text = (
            f"{deep:,} of {deep + shallow:,} images of train have more than 8 bits per channel, so"
            " all images are written with 16; --depth 8 writes them with 8"
        )
        return (Note("bit-depth", text),)


def _read_headers(rows: pa.RecordBatch, options: ImageOptions) -> tuple[RowOutcome, list[Header]]:
    """Return the outcome of rows, and the headers of the images of those that are kept."""
    outcomes = OutcomeCollector("check")
    found = []
    masks = MaskHeaders(rows, options)
    files = references(rows)
    places = [[file[1:] for file in files], masks.files]
    for row, (key, path, size, mtime) in enumerate(read_ahead(files, *places, head=True)):
        try:
            with open_file(path, size=size, mtime=mtime) as file:
                header = read_header(file, options)
            masks.check(row, header)
        except (RecordError, Filtered) as error:
            outcomes.leave_out(key, error)
        else:
            found.append(header)
            outcomes.keep(row)
    return outcomes.result(), found


def source_columns(*, masks: bool) -> tuple[str, ...]:
    """Return the names of the columns that identify the file of an image, and of its mask."""
    return (*_SOURCE_COLUMNS, *(MASK_COLUMNS.names if masks else ()))


def with_found_depth(options: ImageOptions, artifacts: Mapping[str, Artifact]) -> ImageOptions:
    """Return the options, with a depth of 16 if `DepthAnalysis` found it for `auto`."""
    if options.depth != "auto" or DEPTH_FILE not in artifacts:
        return options
    return dataclasses.replace(options, depth=_depth(artifacts[DEPTH_FILE]))


@functools.lru_cache(maxsize=4)
def _depth(artifact: Artifact) -> Depth:
    return "16" if read_as(_FoundDepth, parse_json(read_artifact(artifact))).bits == 16 else "auto"


def references(rows: pa.RecordBatch) -> Sequence[tuple[str, str, int, int]]:
    """Return (key, path, size in bytes, mtime in nanoseconds) of every row."""
    names = (batch.KEY, batch.PATH, batch.SIZE, batch.MTIME)
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
