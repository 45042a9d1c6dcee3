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
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recordmill import strict_json
from recordmill.errors import DamageError
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.manifest import RECIPES, Manifest, Shard
from recordmill.format.parquet_footer import ParquetBoundsError, open_parquet, plain_texts
from recordmill.format.typed_json import FieldError, JsonObject, parse_json, read_as
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
    def parse(cls, text: bytes) -> Self:
        """Return the inverse of `to_json`. Raises ValueError."""
        data = read_as(JsonObject, parse_json(text))
        if data.pop("format", None) != _FORMAT:
            raise ValueError(f"expected the format {_FORMAT}")
        return read_as(cls, data, open_ended=True)


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
            metadata = _parquet(stream)[0].schema_arrow.metadata or {}
        try:
            header = RecipesHeader.parse(metadata.get(_METADATA, b""))
        except ValueError as error:
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
            file, size = _parquet(stream)
            group = 0
            for _, split in sorted(self.manifest.splits.items()):
                for shard in split.shards:
                    if shard.records:
                        yield shard, _row_group(file, group, size=size, shard=shard)
                        group += 1


def _parquet(stream: Any) -> tuple[pq.ParquetFile, int]:
    try:
        return open_parquet(stream)
    except ParquetBoundsError as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged: {error}") from error
    except (pa.ArrowException, OSError) as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged: it is not Parquet") from error


def _row_group(file: pq.ParquetFile, group: int, *, size: int, shard: Shard) -> pa.Table:
    groups = file.metadata.num_row_groups
    rows = file.metadata.row_group(group).num_rows if group < groups else 0
    if rows != shard.records:
        raise RecipesDamagedError(
            f"{RECIPES} is damaged: it has {rows} recipes for {shard.records} records of"
            f" {shard.file}"
        )
    try:
        table = plain_texts(file.read_row_group(group, use_threads=False), size)
        table = table.cast(SCHEMA)
        table.validate(full=True)
        for text in pc.unique(table["facts"]).to_pylist():
            ExampleFacts.from_text(text)
    except FieldError as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged: facts: {error}") from error
    except ParquetBoundsError as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged: {error}") from error
    # pyarrow raises these for invalid content, and `parse_json` for other text.
    except (pa.ArrowException, OSError, IndexError, ValueError) as error:
        raise RecipesDamagedError(f"{RECIPES} is damaged ({type(error).__name__})") from error
    if any(table[name].null_count for name in _HASHES):
        raise RecipesDamagedError(f"{RECIPES} is damaged: it has nulls")
    return table
