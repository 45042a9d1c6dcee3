"""Lists of names in or beside an input that could give the splits, such as Food-101's train.txt."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from recordmill.format.split_names import TRAIN, canonical_split
from recordmill.notes import Note, count_of
from recordmill.storage.files import Location
from recordmill.storage.members import MARK, Member
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot
from recordmill.transforms.sources.files.skipped_names import holds_lists
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.path_names import file_split
from recordmill.transforms.sources.folders.split_lists import cut_fields

_EXTENSIONS = ("txt", "lst", "list")
_FOLDERS = (".", "meta", "splits", "split", "lists")  # usual folders of lists beside the files
_MOST = 1000  # most files of an input or a folder that are checked
_DEEPEST = 100  # most folders in a line
_LINES = 5  # lines of a list that are compared with the files
_READ = 1 << 16  # bytes at the beginning of a list
_FIELDS = 8  # most numbers after a name
_SPECIAL, _ESCAPED = re.compile(r"[][\\/.*^$|+?(){}]"), r"\\\g<0>"  # in sed expressions
_NUMBERS = re.compile(r"([-+]?\d+\s*)*")


class UnreadLists:
    """Finds lists: files with names of splits whose lines name files of the input."""

    def __init__(
        self, inputs: Inputs, roots: Iterable[InputRoot], *, of_masks: bool, beside: bool
    ) -> None:
        """Begin without lists.

        Args:
          inputs: The inputs.
          roots: The same on their filesystems.
          of_masks: Whether the images have masks, for which Pascal VOC has separate lists.
          beside: Whether to look for lists around the inputs, too.
        """
        self._inputs = inputs
        self._task = "Segmentation" if of_masks else "Main"  # folder of Pascal VOC's lists
        self._beside = beside
        self._counts: Counter[str] = Counter()
        self._in_inputs: list[_Candidate] = []
        self._roots = {one.root.local_path for one in roots if one.root.is_local}
        self._folders: dict[str, Sequence[str]] = {}  # {folder of an input: folders in it}
        self._first = ""  # path of a record

    def is_list(self, root: InputRoot, file: File) -> bool:
        """Return whether a file has the name of a split, and its first lines name other files."""
        folder, _, name = file.key.rpartition("/")
        if file_split(name) is None:  # checked first, because most names are not
            return False
        extension = f".{name.rpartition('.')[2]}"
        if extension[1:].lower() not in _EXTENSIONS:
            return False
        if not root.root.is_local or root.file or Member.of(file.path):
            return False
        top = root.root.local_path
        if top not in self._folders:
            self._folders[top] = _folders_in(top)
        places = [top, os.path.join(top, folder), *self._folders[top]]
        lines = [*_lines(file.path)]
        return bool(lines) and all(_edits_of(line, places, extension) is not None for line in lines)

    def skip(self, root: InputRoot, file: File) -> None:
        """Take a file of an input that is not read as a record."""
        extension = file.key.rpartition(".")[2].lower()
        if extension not in _EXTENSIONS or not root.root.is_local or Member.of(file.path):
            return
        self._counts[extension] += 1
        folder, _, name = file.key.rpartition("/")
        split = file_split(name)
        other_task = holds_lists(folder) and not folder.endswith(f"ImageSets/{self._task}")
        if split is not None and not other_task and self._counts[extension] <= _MOST:
            above = root.given.path.rstrip("/") if root.is_folder else root.root.local_path
            shown = f"{above}/{file.key}"
            self._in_inputs.append(_Candidate(split, file.path, shown))

    def add_record(self, path: str) -> None:
        """Take the path of a record."""
        if not self._first and MARK not in path:
            self._first = path

    def notes(self) -> Iterator[Note]:
        """Yield a note on the lists."""
        place = Location.parse(self._first) if self._first else None
        if place is None or not place.is_local:
            return
        around = [*self._around(place.local_path)]
        found = self._choose(self._in_inputs, around)
        if not found and self._beside:
            found = self._choose(self._candidates_beside(around), around)
        if not found:
            return
        given = ",".join(f"{split}={one.shown}" for split, one in sorted(found.items()))
        rest = "" if TRAIN in found else f",{TRAIN}=*"
        text = f"{count_of(len(found), 'list')} of the files of splits in {self._inputs}"
        were, them = ("was", "it") if len(found) == 1 else ("were", "them")
        text += f" {were} not read: --split-files {shlex.quote(given + rest)} takes the splits from"
        text += f" {them}"
        if remedies := sorted({one.remedy for one in found.values() if one.remedy}):
            text += f", once {' or '.join(remedies)}"
        yield Note("unread", text)

    def _around(self, path: str) -> Iterator[str]:
        """Yield the folders around a file, up to the one around the input."""
        last = {os.path.dirname(root.rstrip("/")) for root in self._roots}
        folder = os.path.dirname(path)
        for _ in range(_DEEPEST):
            yield folder
            if folder in last or folder == os.path.dirname(folder):
                return
            folder = os.path.dirname(folder)

    def _candidates_beside(self, around: Sequence[str]) -> Iterator[_Candidate]:
        for folder, name in itertools.product(around, (*_FOLDERS, f"ImageSets/{self._task}")):
            place = os.path.normpath(f"{folder}/{name}")
            try:
                with os.scandir(place) as entries:
                    names = sorted(one.name for one in itertools.islice(entries, _MOST))
            except OSError:
                continue
            for one in names:
                split = file_split(one) if one.lower().endswith(_EXTENSIONS) else None
                if split is not None:
                    yield _Candidate(split, f"{place}/{one}", f"{place}/{one}")

    def _choose(
        self, candidates: Iterable[_Candidate], around: Sequence[str]
    ) -> Mapping[str, _List]:
        """Return {split: its list}. All lists are in one folder and have names of the same form."""
        chosen: dict[tuple[str, bool], dict[str, _List]] = {}
        for one in candidates:
            of_kind = chosen.setdefault((os.path.dirname(one.path), one.has_other_words), {})
            if one.split in of_kind:
                continue
            places = (*around, *self._roots, os.path.dirname(one.path))
            if (remedy := _remedy(one.path, places, os.path.splitext(self._first)[1])) is not None:
                of_kind[one.split] = _List(one.shown, remedy)
        best = max(chosen, key=lambda kind: (len(chosen[kind]), not kind[1]), default=None)
        return {} if best is None else chosen[best]


class _Candidate(NamedTuple):
    """A file that may be a list. shown: its path for options."""

    split: str
    path: str
    shown: str

    @property
    def has_other_words(self) -> bool:
        """True if the name is not that of a split, but contains one."""
        return canonical_split(os.path.basename(self.path).partition(".")[0]) is None


class _List(NamedTuple):
    """A list. remedy: edits that its lines need, for messages; "" if none."""

    shown: str
    remedy: str


def _remedy(path: str, places: Sequence[str], extension: str) -> str | None:
    """Return the edits that turn the lines of a file into names; None if it is not a list.

    Args:
      path: The file.
      places: Folders that names may be relative to.
      extension: Of records.
    """
    found = (_edits_of(line, places, extension) for line in _lines(path))
    return next((edits for edits in found if edits is not None), None)


def _edits_of(line: str, places: Sequence[str], extension: str) -> str | None:
    """Return the edits that turn a line into a name, as `_remedy`; None if it names no record."""
    for fields in range(_FIELDS):
        name, *numbers = line.rsplit(None, fields)
        if len(numbers) < fields or "\0" in name:
            break
        if _NUMBERS.fullmatch(" ".join(numbers)) is None:
            break
        if (before := _foreign(name, places, extension)) is not None:
            return _edits(before, len(numbers))
    return None


def _foreign(name: str, places: Sequence[str], extension: str) -> str | None:
    """Return the part of a name before the path of a record; None if it names no record."""
    parts = name.replace("\\", "/").split("/")
    # Lists made elsewhere have other folders before the path.
    for start in range(len(parts) if len(parts) < _DEEPEST else 0):
        end = os.path.normpath("/".join(parts[start:]))
        by_stem = start == 0 or "/" in end  # a stem alone may be that of another file
        for place in places if parts[start] else ():
            there = os.path.join(place, end)
            if os.path.isfile(there) or (by_stem and os.path.isfile(there + extension)):
                whole = os.path.normpath("/".join(parts)).lstrip("/")
                if f"/{there}".endswith(f"/{whole}"):
                    return ""
                return name[: len(name) - len("/".join(parts[start:]))]
    return None


def _edits(before: str, fields: int) -> str:
    """Return a description of edits of lines, with a command; "" without edits."""
    what, scripts = [], []
    if before:
        what.append(f"{before!r} is removed from the beginning of their lines")
        scripts.append(f"s/^{_SPECIAL.sub(_ESCAPED, before)}//")
    if fields:
        what.append("only the names are kept in their lines")
        scripts.append(cut_fields(fields))
    edits = " ".join(f"-e {shlex.quote(one)}" for one in scripts)
    return f"{' and '.join(what)} (sed -E {edits} FILE > NAMES)" if scripts else ""


def _folders_in(path: str) -> Sequence[str]:
    """Return the paths of the first folders in a local folder."""
    try:
        with os.scandir(path) as entries:
            return sorted(one.path for one in entries if one.is_dir())[:_MOST]
    except OSError:
        return ()  # the walk of the input reports the error


def _lines(path: str) -> Iterator[str]:
    """Yield the first lines of a local file."""
    try:
        with open(path, "rb") as file:
            text = file.read(_READ).decode("utf-8-sig", "replace")
    except OSError:
        return  # a list that cannot be read only costs a note
    yield from itertools.islice(
        (line.strip() for line in text.splitlines() if line.strip()), _LINES
    )
