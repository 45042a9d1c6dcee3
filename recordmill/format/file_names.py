"""Names of the files of a dataset: shards, and their indexes."""

from __future__ import annotations

INDEX = "index"


def shard_name(split: str, index: int, count: int, compression: str) -> str:
    """Return the file name of a shard, as Beam's WriteToTFRecord would name it.

    compression: "none" or "gzip".
    """
    suffix = ".gz" if compression == "gzip" else ""
    return f"{split}.tfrecord-{index:05d}-of-{count:05d}{suffix}"


def index_name(split: str, index: int, count: int) -> str:
    """Return the name of a shard's index within the dataset; it does not depend on compression."""
    return f"{INDEX}/{split}-{index:05d}-of-{count:05d}.parquet"


def number_globs(count: int) -> list[str]:
    """Return glob patterns of the numbers in the names of all files of a split, of `count` shards.

    They match no file of another split. Numbers have five digits, or more.
    """
    widths = range(5, max(5, len(str(count - 1))) + 1)
    return [f"{'[0-9]' * width}-of-{count:05d}" for width in widths]


def index_of(shard: str) -> str:
    """Return the name of the index of a shard, given the shard's file name."""
    split, numbers = shard.removesuffix(".gz").rsplit(".tfrecord-", 1)
    return f"{INDEX}/{split}-{numbers}.parquet"


def checked_name(name: str) -> str:
    """Return the name of a file of a dataset, checked: publishing deletes files by their names.

    Raises:
      ValueError: the name leads out of the dataset.
    """
    parts = name.split("/")
    if "\0" in name or not set(parts).isdisjoint(("", ".", "..", ".recordmill")):
        raise ValueError(f"expected a path inside the dataset, got {name[:200]!r}")
    return name
