"""recipes.parquet: for every record a hash of all that shaped its bytes, for later runs.

Rows are in the order of the shards and their records; each shard with records has one row group.

  recipe: binary(16), equal for records whose frames are equal byte for byte.
  source: binary(16), a hash of the fingerprint of the file that the record was made of.
  crc: uint32, the masked checksum of the payload, as it is at the end of the frame.
  facts: string, counts of a record that are not in its index, as JSON; null without any.

Two equal datasets may have different recipes, because these depend on times of change. The manifest
therefore only names the file; its metadata bind it to the dataset.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Self, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from recordmill import strict_json
from recordmill.errors import DamageError
from recordmill.format.manifest import RECIPES, Manifest, Shard
from recordmill.format.parquet_footer import check_footer
from recordmill.format.typed_json import as_object, parse_json, take, take_mapping
from recordmill.storage.files import Location

Fingerprint = Literal["stat", "content"]

SCHEMA = pa.schema(
    [
        pa.field("recipe", pa.binary(16)),
        pa.field("source", pa.binary(16)),
        pa.field("crc", pa.uint32()),
        pa.field("facts", pa.string()),
    ]
)
_METADATA = b"recordmill"
_FORMAT = "recipes/1"
_HASHES = ("recipe", "source", "crc")


class RecipesDamagedError(DamageError):
    """A file of recipes that is damaged, or belongs to another dataset."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipesHeader:
    """Facts that hold for all recipes of a dataset.

    digest: of the dataset. fingerprint: how sources are recognized. settings: the options that
    shape the bytes of every record. versions: {library: version}.
    """

    digest: str
    fingerprint: Fingerprint
    settings: str
    versions: Mapping[str, str]

    def to_json(self) -> str:
        """Return the header as text."""
        return strict_json.to_text(
            {"format": _FORMAT, **dataclasses.asdict(self)}, sort_keys=True, ascii_only=True
        )

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Return the inverse of `to_json`. Raises ValueError or KeyError."""
        data = as_object(parse_json(text))
        if data.get("format") != _FORMAT:
            raise ValueError(f"expected the format {_FORMAT}, got {data.get('format')!r}")
        by = take(data, "fingerprint", str)
        if by not in get_args(Fingerprint):
            raise ValueError(f"expected the fingerprint stat or content, got {by[:20]!r}")
        return cls(
            digest=take(data, "digest", str),
            fingerprint="content" if by == "content" else "stat",
            settings=take(data, "settings", str),
            versions=take_mapping(data, "versions", str),
        )


def write_recipes(place: Location, header: RecipesHeader, shards: Iterable[pa.Table]) -> None:
    """Write the recipes of a dataset, shard by shard; memory does not grow with it."""
    schema = SCHEMA.with_metadata({_METADATA: header.to_json().encode()})
    with (
        place.open_output() as sink,
        pq.ParquetWriter(
            sink,
            schema,
            write_page_checksum=True,
            use_dictionary=["facts"],
            compression={name: "none" if name in _HASHES else "snappy" for name in SCHEMA.names},
            write_statistics=False,
        ) as writer,
    ):
        for shard in shards:
            if len(shard):
                writer.write_table(shard.cast(schema), row_group_size=len(shard))


@dataclasses.dataclass(frozen=True)
class Recipes:
    """The recipes of a published dataset, which are read shard by shard."""

    dataset: Location
    manifest: Manifest
    header: RecipesHeader

    @classmethod
    def open(cls, dataset: Location, manifest: Manifest) -> Self:
        """Read the header.

        Raises:
          RecipesDamagedError: the file is damaged, or belongs to another dataset.
          StorageError: it is missing or cannot be read.
        """
        with (dataset / RECIPES).open_input() as stream:
            metadata = _parquet(stream).schema_arrow.metadata or {}
        try:
            header = RecipesHeader.from_json(metadata.get(_METADATA, b""))
        except (ValueError, KeyError) as error:
            raise RecipesDamagedError(f"{RECIPES} is damaged: {error}") from error
        if header.digest != manifest.digest:
            raise RecipesDamagedError(f"{RECIPES} belongs to another dataset")
        return cls(dataset, manifest, header)

    def shards(self) -> Iterator[tuple[Shard, pa.Table]]:
        """Yield (a shard that has records, its recipes), in the order of the file.

        Raises:
          RecipesDamagedError: the file is damaged.
        """
        with (self.dataset / RECIPES).open_input() as stream:
            file = _parquet(stream)
            group = 0
            for _, split in sorted(self.manifest.splits.items()):
                for shard in split.shards:
                    if not shard.records:
                        continue
                    table = _row_group(file, group)
                    if len(table) != shard.records:
                        raise RecipesDamagedError(
                            f"{RECIPES} is damaged: it has {len(table)} recipes for"
                            f" {shard.records} records of {shard.file}"
                        )
                    yield shard, table
                    group += 1


def _parquet(stream: Any) -> pq.ParquetFile:
    try:
        check_footer(stream)
        return pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged: it is not Parquet") from error


def _row_group(file: pq.ParquetFile, group: int) -> pa.Table:
    try:
        table = file.read_row_group(group, use_threads=False)
        table = table.cast(SCHEMA)
        table.validate(full=True)
    # pyarrow raises these for invalid content.
    except (pa.ArrowException, OSError, IndexError, ValueError) as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged ({type(error).__name__})") from error
    if any(table[name].null_count for name in _HASHES):
        raise RecipesDamagedError(f"{RECIPES} is damaged: it has nulls")
    return table
