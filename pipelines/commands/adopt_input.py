"""The files that `recordmill adopt` takes: which they are, of which split, how compressed.

Local ones only: what is adopted gets a second name, which object stores have not.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence

from recordmill.adopt.file_scan import Original, compression_of
from recordmill.errors import ConfigError
from recordmill.format.framing import Compression
from recordmill.format.manifest import shard_name
from recordmill.storage.files import Location, StorageError, shown
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.folders import filtered_by
from recordmill.transforms.sources.files.references import known_split
from recordmill.transforms.sources.files.walks import File, LeftOut, as_pattern, glob, matches, walk

_SAYS_TFRECORD = re.compile(r"tfrec|\.records?\b", re.IGNORECASE)
# Beside the words that folders of pictures are known by.
_WORDS = {"eval": "test", "evaluation": "test", "dev": "validation", "validate": "validation"}
_SPLIT = re.compile(r"[A-Za-z0-9_-]+")
_OF_MANY = re.compile(r"(.*?)([0-9]{5,})-of-([0-9]{5,})(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptListing:
    """What an input is. left_out: files of folders that are no TFRecords. notes: sentences."""

    originals: tuple[Original, ...]
    compression: Compression
    left_out: int
    notes: tuple[str, ...]


def list_input(places: Sequence[str], *, output: Location, split: str | None) -> AdoptListing:
    """Lists files, patterns and folders, in the natural order of their names.

    split: of all files; None for what their names say.

    Raises:
      ConfigError: there is no such file, or it cannot be adopted into this output.
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
            Original(
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
        notes=(*incomplete(keys), *([] if split else unsaid(keys))),
    )


def natural(name: str) -> tuple[list[str | int], str]:
    """Sorts names by the numbers in them: a2 before a10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)], name


def split_of(key: str) -> str:
    """The split that a path says, train where it says none. Raises ConfigError as `said_split`."""
    return said_split(key) or "train"


def unsaid(keys: Sequence[str]) -> list[str]:
    """A sentence, where some paths say a split and others do not."""
    silent = [key for key in keys if said_split(key) is None]
    if not silent or len(silent) == len(keys):
        return []
    some = ", ".join(silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")
    return [f"in train, as their names say no split: {some}"]


def said_split(key: str) -> str | None:
    """The split that a path says: by its name, else by the nearest folder that says one.

    Raises:
      ConfigError: a name says two.
    """
    for part in reversed(key.split("/")):
        words = [word.lower() for word in re.findall(r"[^\W\d_]+", part)]
        splits = {_WORDS.get(word) or known_split(word) for word in words}
        splits.discard(None)
        if len(splits) > 1:
            said = " and ".join(sorted(one for one in splits if one))
            raise ConfigError(
                f"--input: the name {part!r} in {key} says both {said}; --split NAME puts all files"
                " into one split"
            )
        for one in splits:
            if one is not None:
                return one
    return None


def check_split(name: str | None) -> None:
    """Raises ConfigError for what cannot be a part of names of files."""
    if name is not None and not _SPLIT.fullmatch(name):
        raise ConfigError(
            "--split: expected a name of letters, digits, _ and -, which becomes a part of names"
            f" of files; got {name!r}"
        )


def incomplete(keys: Sequence[str]) -> Iterator[str]:
    """A sentence for each set of numbered files (...-00001-of-00005) of which some are missing."""
    there: dict[tuple[str, str, str], set[int]] = collections.defaultdict(set)
    for key in keys:
        match = _OF_MANY.fullmatch(key)
        if match is not None:
            there[match[1], match[3], match[4]].add(int(match[2]))
    for (before, count, after), numbers in sorted(there.items()):
        if len(numbers) < int(count):
            yield f"of {before}*-of-{count}{after} {len(numbers)} of {int(count)} files are there"


def _find(text: str, place: Location) -> tuple[Location, list[File | None]]:
    """The folder that keys begin at, and the files; None for one that is no TFRecord."""
    pattern = as_pattern(place)
    try:
        if pattern is not None:
            root, rest = pattern
            named = list(glob(root, rest, filtered_by)) if root.is_dir() else []
            files = [one for one in named if isinstance(one, File)]
            for one in named:
                if not isinstance(one, File):
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
    except StorageError as error:
        raise ConfigError(f"--input {text}: {error}") from error


def _find_in(text: str, folder: Location) -> list[File | None]:
    """The TFRecord files of a folder, by name or by content."""
    found: list[File | None] = []
    for one in walk(folder, filtered_by, depth=0):
        if isinstance(one, LeftOut):
            continue
        if not isinstance(one, File):
            raise ConfigError(f"--input {text}: {one.key}: {one.detail}")
        name = one.key.rpartition("/")[2]
        found.append(one if _SAYS_TFRECORD.search(name) else None)
    if not any(found):
        raise ConfigError(
            f"--input {text}: the folder has no file whose name says TFRecord (.tfrecord, .tfrec,"
            " .record); name the files by a pattern"
        )
    return found


def _local(flag: str, place: Location) -> Location:
    if not place.is_local:
        raise ConfigError(
            f"{flag} {shown(place)}: files are adopted where they lie, by a second name, which"
            " object stores have not: copy them to this machine first"
        )
    return place


def check_output(output: Location) -> None:
    """Raises ConfigError for one that is not local."""
    _local("--output", output)


def _refuse_around(text: str, place: Location, output: Location) -> None:
    """A dataset must not lie where the next run would look for input."""
    pattern = as_pattern(place)
    around = f"{os.path.realpath(place.local_path)}/"
    inner = os.path.realpath(output.local_path)
    if pattern is None:
        if f"{inner}/".startswith(around) and place.is_dir():
            raise ConfigError(
                f"--output {shown(output)} lies inside --input {text}: its files would be input of"
                " the next run; choose a folder outside of it, or name the files by a pattern"
            )
        return
    root, rest = pattern
    base = f"{os.path.realpath(root.local_path)}/"
    if inner.startswith(base):
        likely = f"{inner[len(base) :]}/{shard_name('train', 0, 1, 'none')}"
        if any(matches(f"{likely}{end}".split("/"), rest.split("/")) for end in ("", ".gz")):
            raise ConfigError(
                f"--output {shown(output)} lies where --input {text} looks: its files would be"
                " input of the next run; choose another folder"
            )


def _check_file(path: str, key: str, output: Location) -> None:
    inside: Callable[[str], str] = os.path.realpath
    if f"{inside(path)}/".startswith(f"{inside(output.local_path)}/"):
        raise ConfigError(
            f"--input: {shown(path)} lies inside --output {shown(output)}: files are adopted into"
            " another folder, and stay where they are"
        )
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"--input: the name {shown(key)} is not UTF-8, and names become keys: rename it"
        ) from error


def _compression(originals: Sequence[Original]) -> Compression:
    """Of all files; a file of 0 bytes is of any."""
    first: dict[Compression, str] = {}
    for one in originals:
        try:
            found = compression_of(one.place)
        except StorageError as error:
            raise ConfigError(f"--input: {error}") from error
        if found is not None:
            first.setdefault(found, one.key)
    if len(first) > 1:
        raise ConfigError(
            "--input: expected files of one compression, as a dataset has one; got"
            f" {first['gzip']}, which is gzip, and {first['none']}, which is not"
        )
    return next(iter(first), "none")
