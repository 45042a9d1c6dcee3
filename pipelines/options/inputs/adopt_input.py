"""Lists the input files of `recordmill adopt`, with their splits and their compression.

Only local files can be adopted, because object stores have no hard links.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence

from recordmill.adopt.file_scan import SourceFile, file_compression
from recordmill.errors import ConfigError, Reject
from recordmill.format.file_names import shard_name
from recordmill.format.split_names import is_split_name
from recordmill.storage.files import Location, PathError, shown
from recordmill.tfrecord.framing import Compression
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.other_kinds import is_tfrecord_name
from recordmill.transforms.sources.files.skipped_names import skipped_among_rows
from recordmill.transforms.sources.files.walks import (
    File,
    SkippedPath,
    glob,
    matches,
    split_pattern,
    walk,
)
from recordmill.transforms.sources.folders.path_names import splits_in

_NUMBERED = re.compile(r"(.*?)([0-9]{5,})-of-([0-9]{5,})(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptListing:
    """The files of an input.

    left_out: number of files in folders whose names do not say TFRecord. notes: sentences for the
    manifest.
    """

    originals: tuple[SourceFile, ...]
    compression: Compression
    left_out: int
    notes: tuple[str, ...]


def list_input(places: Sequence[str], *, output: Location, split: str | None) -> AdoptListing:
    """List files, patterns and folders, in the natural order of their names.

    split: the split of all files; None to take it from their names.

    Raises:
      ConfigError: a file does not exist, or cannot be adopted into this output.
    """
    roots, found, left_out = [], {}, 0
    for text in places:
        place = _local("--input", Location.parse(text))
        _refuse_around(text, place, output)
        root, findings = _find(text, place)
        roots.append(root.local_path)
        left_out += sum(finding is None for finding in findings)
        for finding in findings:
            if finding is not None:
                found[finding.path] = finding
    common = os.path.commonpath(roots)
    originals = []
    for path, file in found.items():
        key = os.path.relpath(path, common)
        _check_file(path, key, output)
        originals.append(
            SourceFile(
                key=key,
                place=Location("", path),
                size=file.size,
                mtime=file.mtime,
                split=split or split_of(key),
            )
        )
    originals.sort(key=lambda one: natural(one.key))
    keys = [one.key for one in originals]
    return AdoptListing(
        originals=tuple(originals),
        compression=_compression(originals),
        left_out=left_out,
        notes=(*incomplete(keys), *([] if split else without_split(keys))),
    )


def natural(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that compares numbers in names by value: a2 before a10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)], name


def split_of(key: str) -> str:
    """Return the split that a path names, or train. Raises ConfigError as `named_split`."""
    return named_split(key) or "train"


def without_split(keys: Sequence[str]) -> list[str]:
    """Return a sentence if some paths name a split and others do not."""
    unnamed = [key for key in keys if named_split(key) is None]
    if not unnamed or len(unnamed) == len(keys):
        return []
    some = ", ".join(unnamed[:3]) + (f" and {len(unnamed) - 3} more" if len(unnamed) > 3 else "")
    return [f"files put into the split train, because their names contain no split: {some}"]


def named_split(key: str) -> str | None:
    """Return the split that a path names: its file name, else the nearest folder that names one.

    Raises:
      ConfigError: a name contains two splits.
    """
    for part in reversed(key.split("/")):
        splits = splits_in(part)
        if len(splits) > 1:
            both = " and ".join(splits)
            raise ConfigError(
                f"--input: the name {part!r} in {key} names the splits {both}; --split NAME puts"
                " all files into one split"
            )
        if splits:
            return splits[0]
    return None


def check_split(name: str | None) -> None:
    """Raise ConfigError for a split name that cannot be part of file names."""
    if name is not None and not is_split_name(name):
        raise ConfigError(
            "--split: expected a name of letters, digits, _ and -, because it becomes part of file"
            f" names; got {name!r}"
        )


def incomplete(keys: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each incomplete set of numbered files, such as ...-00001-of-00005."""
    there: dict[tuple[str, str, str], set[int]] = collections.defaultdict(set)
    for key in keys:
        match = _NUMBERED.fullmatch(key)
        if match is not None:
            there[match[1], match[3], match[4]].add(int(match[2]))
    for (before, count, after), numbers in sorted(there.items()):
        if len(numbers) < int(count):
            yield f"{before}*-of-{count}{after}: only {len(numbers)} of {int(count)} files exist"


def _find(text: str, place: Location) -> tuple[Location, list[File | None]]:
    """Return the folder that keys are relative to, and its files; None for a skipped file."""
    pattern = split_pattern(place)
    try:
        if pattern is not None:
            root, rest = pattern
            named = list(glob(root, rest, skipped_among_rows)) if root.is_dir() else []
            files = [one for one in named if isinstance(one, File)]
            for one in named:
                if isinstance(one, Reject):
                    raise ConfigError(f"--input {text}: {one.key}: {one.detail}")
            if not files:
                raise ConfigError(f"--input {text}: no file matches; check the path")
            return root, [*files]
        if not place.exists():
            raise ConfigError(f"--input {text}: there is no such file or folder; check the path")
        refuse_special(place)
        if not place.is_dir():
            entry = place.stat()
            path = place.local_path
            return place.parent, [File(place.name, path, entry.size, entry.mtime_ns)]
        return place, _find_in(text, place)
    except PathError as error:
        raise ConfigError(f"--input {text}: {error}") from error


def _find_in(text: str, folder: Location) -> list[File | None]:
    """Return the files of a folder; None for each whose name does not say TFRecord."""
    found: list[File | None] = []
    for one in walk(folder, skipped_among_rows, depth=0):
        if isinstance(one, SkippedPath):
            continue
        if not isinstance(one, File):
            raise ConfigError(f"--input {text}: {one.key}: {one.detail}")
        name = one.key.rpartition("/")[2]
        found.append(one if is_tfrecord_name(name) else None)
    if not any(found):
        raise ConfigError(
            f"--input {text}: no file in this folder is named as a TFRecord file (.tfrecord,"
            " .tfrec, .record); name the files with a pattern"
        )
    return found


def _local(flag: str, place: Location) -> Location:
    if not place.is_local:
        raise ConfigError(
            f"{flag} {shown(place)}: expected a local path, because adopted files are hard-linked;"
            " copy the files to this machine first"
        )
    return place


def check_output(output: Location) -> None:
    """Raise ConfigError for an output that is not local."""
    _local("--output", output)


def _refuse_around(text: str, place: Location, output: Location) -> None:
    """Raise ConfigError if the next run would list the output's files as input."""
    pattern = split_pattern(place)
    around = f"{os.path.realpath(place.local_path)}/"
    inner = os.path.realpath(output.local_path)
    if pattern is None:
        if f"{inner}/".startswith(around) and place.is_dir():
            raise ConfigError(
                f"--output {shown(output)} lies inside --input {text}: the next run would list its"
                " files as input; choose a folder outside of it, or name the files by a pattern"
            )
        return
    root, rest = pattern
    base = f"{os.path.realpath(root.local_path)}/"
    if inner.startswith(base):
        likely = f"{inner[len(base) :]}/{shard_name('train', 0, 1, 'none')}"
        if any(matches(f"{likely}{end}".split("/"), rest.split("/")) for end in ("", ".gz")):
            raise ConfigError(
                f"--output {shown(output)} matches --input {text}: the next run would list its"
                " files as input; choose another folder"
            )


def _check_file(path: str, key: str, output: Location) -> None:
    real: Callable[[str], str] = os.path.realpath
    if f"{real(path)}/".startswith(f"{real(output.local_path)}/"):
        raise ConfigError(
            f"--input: {shown(path)} lies inside --output {shown(output)}: choose another output"
            " folder; the input files stay where they are"
        )
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"--input: the name {shown(key)} is not UTF-8, and names become keys: rename the file"
        ) from error


def _compression(originals: Sequence[SourceFile]) -> Compression:
    """Return the common compression of all files; empty files fit any.

    Raises:
      ConfigError: some files are gzip and others are not.
    """
    first: dict[Compression, str] = {}
    for one in originals:
        try:
            found = file_compression(one.place)
        except PathError as error:
            raise ConfigError(f"--input: {error}") from error
        if found is not None:
            first.setdefault(found, one.key)
    if len(first) > 1:
        raise ConfigError(
            "--input: expected files of one compression, because a dataset has one; got"
            f" {first['gzip']}, which is gzip, and {first['none']}, which is not"
        )
    return next(iter(first), "none")
