"""TFRecord files that belong to no dataset: every record by what it holds itself."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, BinaryIO

from recordmill.errors import RunError
from recordmill.format.decode import (
    ExampleError,
    decode_example,
    decode_steps,
    is_sequence_example,
    own_array,
)
from recordmill.format.framing import HEAD, FrameError, compression_of, read_frames
from recordmill.storage.files import Location, MissingError, shown

_PATTERN = re.compile(r"[*?\[]")


class FileDamagedError(RunError):
    """A file does not hold whole records, or not such as can be read."""


def find_files(place: Location) -> list[Location] | None:
    """The file that stands there, or those whose names fit a pattern, by name; None where no file
    stands there, and it is no pattern.

    `*`, `?` and `[...]` count in the last part of a place, unless there is one of that very name.

    Raises:
      MissingError: no file fits the pattern.
      StorageError: if the storage refuses.
    """
    if place.exists():
        return None if place.is_dir() else [place]
    if not _PATTERN.search(place.name):
        return None
    found = [
        place.parent / entry.name
        for entry in place.parent.list_dir()
        if entry.kind == "file" and fnmatch.fnmatchcase(entry.name, place.name)
    ]
    if not found:
        raise MissingError(f"there is no file {shown(place)}: check the pattern")
    return found


def read_files(
    files: Iterable[Location], *, features: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the records of files one after another, every checksum checked, gzip or not.

    A record is {feature: value}, by name, of those that are asked for: `decode_held` says what.

    Raises:
      FileDamagedError: says which record of which file is damaged.
      StorageError: a file is not there, or the storage refuses.
    """
    for file in files:
        number = 0
        try:
            with file.open_input() as stream:
                for frame in read_frames(stream, compression=compression_of(_head(stream))):
                    record = decode_held(frame.payload)
                    yield record if features is None else _chosen(record, features)
                    number += 1
        except FrameError as error:
            what = f"{error.what}{'' if error.record else '; is it a TFRecord file?'}"
            raise FileDamagedError(f"{shown(file)}, record {error.record}: {what}") from error
        except ExampleError as error:
            what = f"no tf.train.Example: {error}"
            raise FileDamagedError(f"{shown(file)}, record {number}: {what}") from error


def decode_held(payload: bytes) -> dict[str, Any]:
    """What an Example holds, of which nothing is declared: {feature: value}, by name.

    A value is always an array of one dimension: int64, float32, or objects that are bytes. None is
    one whose kind the record does not say. Of a SequenceExample the features of the context are
    such values, too, and a feature list is a list of them, one per step.

    Raises:
      ExampleError: it is neither.
    """
    found: dict[str, Any] = {
        name: own_array(value) for name, value in decode_example(payload).items()
    }
    if is_sequence_example(payload):
        for name, steps in decode_steps(payload).items():
            if name in found:
                raise ExampleError(f"has {name!r} both in its context and as a feature list")
            found[name] = [own_array(value) for value in steps]
    return dict(sorted(found.items()))


def _chosen(record: dict[str, Any], features: Collection[str]) -> dict[str, Any]:
    return {name: record[name] for name in features if name in record}


def _head(stream: BinaryIO) -> bytes:
    head = stream.read(HEAD)
    stream.seek(-len(head), os.SEEK_CUR)
    return head
