"""Reads TFRecord files without a dataset: types are taken from each record, not from a manifest."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, BinaryIO

from recordmill.errors import RunError
from recordmill.storage.files import Location, MissingError, shown
from recordmill.tfrecord.decode import (
    ExampleError,
    decode_example,
    decode_steps,
    is_sequence_example,
    writable_array,
)
from recordmill.tfrecord.framing import (
    HEADER_BYTES,
    FrameError,
    compression_of,
    inflated_limit,
    read_frames,
)

_PATTERN = re.compile(r"[*?\[]")


class FileDamagedError(RunError):
    """A file with a damaged or undecodable record."""


def find_files(place: Location) -> list[Location] | None:
    """Return the file at a place, or the files whose names match a pattern, sorted by name.

    `*`, `?` and `[...]` in the last part of the place form a pattern, unless a file of exactly that
    name exists. Returns None if the place is a folder, or is missing and not a pattern.

    Raises:
      MissingError: no file matches the pattern.
      StorageError: the storage fails.
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
        raise MissingError(f"no file matches {shown(place)}: check the pattern")
    return found


def read_files(
    files: Iterable[Location],
    *,
    features: Collection[str] | None = None,
    max_record_bytes: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the records of files, gzip or not, one file after another, checking every checksum.

    features: names of the features to return, without those that a record lacks; None for all.
    max_record_bytes: size of the largest record that is inflated from gzip; None for the default.

    A record is {feature: value}, as `decode_undeclared` returns it.

    Raises:
      FileDamagedError: names the damaged record and its file.
      StorageError: a file is missing, or the storage fails.
    """
    for file in files:
        number = 0
        try:
            with file.open_input() as stream:
                for frame in read_frames(
                    stream,
                    compression=compression_of(_head(stream)),
                    max_inflated=inflated_limit(file.size(), max_record_bytes),
                    limited_by="max_record_bytes",
                ):
                    record = decode_undeclared(frame.payload)
                    yield record if features is None else _selected(record, features)
                    number += 1
        except FrameError as error:
            what = f"{error.what}{'' if error.record else '; is it a TFRecord file?'}"
            raise FileDamagedError(f"{shown(file)}, record {error.record}: {what}") from error
        except ExampleError as error:
            what = f"not a tf.train.Example: {error}"
            raise FileDamagedError(f"{shown(file)}, record {number}: {what}") from error


def decode_undeclared(payload: bytes) -> dict[str, Any]:
    """Decode an Example or SequenceExample without declared features: {feature: value}, by name.

    A value is an array of one dimension: int64, float32, or objects (bytes). It is None if the
    record holds no list of values. The context of a SequenceExample has values of the same form;
    a feature list is a Python list of such values, one per step.

    Raises:
      ExampleError: the payload is neither.
    """
    found: dict[str, Any] = {
        name: writable_array(value) for name, value in decode_example(payload).items()
    }
    if is_sequence_example(payload):
        for name, steps in decode_steps(payload).items():
            if name in found:
                raise ExampleError(f"has {name!r} both in its context and as a feature list")
            found[name] = [writable_array(value) for value in steps]
    return dict(sorted(found.items()))


def _selected(record: dict[str, Any], features: Collection[str]) -> dict[str, Any]:
    return {name: record[name] for name in features if name in record}


def _head(stream: BinaryIO) -> bytes:
    head = stream.read(HEADER_BYTES)
    stream.seek(-len(head), os.SEEK_CUR)
    return head
