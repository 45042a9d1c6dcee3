"""Names of splits that no rule takes, such as that in cat/train/1.jpg or trainA.csv."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split, in_order, may_hold_split
from recordmill.notes import Note
from recordmill.transforms.sources.files.inputs import InputRoot
from recordmill.transforms.sources.folders.role_folders import holds_no_images

IGNORE = "--split-from none ignores these names"

_SHOWN = 3  # names in a message
_WORD = re.compile(r"[^\W\d_]+")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of a word such as trainA or TrainSet
_LEVELS = 4  # of folders that are looked at


@dataclasses.dataclass
class _Level:
    """Folders of one level below the top. names: {name of a folder: its split}.

    parents: some of the folders around them. others: some of the folders without a split.
    """

    names: dict[str, str] = dataclasses.field(default_factory=dict)
    parents: list[str] = dataclasses.field(default_factory=list)
    others: list[str] = dataclasses.field(default_factory=list)

    @property
    def several(self) -> bool:
        """True if there are at least two splits."""
        return len({*self.names.values()}) > 1


class UnusedSplits:
    """Finds names of splits that no rule reads.

    These are names of folders below the top folders (`cat/train`), or parts of the names of top
    folders (`seg_train`) or of files (`trainA.csv`).

    archived: whether the folders are those in archives. decided: whether the user chose the top
    folders as the splits; then names below them are no error. of_files: whether files may name
    splits. advise_masks: whether some of the folders may be meant for masks.
    """

    def __init__(
        self,
        root: InputRoot,
        *,
        archived: bool,
        decided: bool,
        of_files: bool = False,
        advise_masks: bool = False,
    ) -> None:
        self._root = root
        self._archived = archived
        self._decided = decided
        self._advise_masks = advise_masks
        self._of_files = of_files and not decided
        self._levels = [_Level() for _ in range(_LEVELS)]  # the first is the one below the top
        self._tops: dict[str, set[str]] = {}  # {top folder such as seg_train: folders in it}
        self._files: dict[str, str] = {}  # {split that a name seems to contain: its file}
        self._last = ""  # folder of the last file

    def see(self, key: str) -> None:
        """Take the path of a file relative to the input."""
        folder = key[: key.rfind("/") + 1]
        if (
            self._of_files
            and (split := near_split(key[len(folder) :].rpartition(".")[0])) is not None
        ):
            self._files.setdefault(split, key)
        if folder == self._last:  # files of a folder follow each other
            return
        self._last = folder
        names = folder.split("/")[:-1]
        if not names or canonical_split(names[0]) is not None:
            return
        if not self._decided and near_split(names[0]) is not None:
            self._tops.setdefault(names[0], set()).add("/".join(names[1:2]))
        for number, level in enumerate(self._levels, 1):
            split = canonical_split(names[number]) if number < len(names) else None
            if split is None:
                keep(level.others, folder)
            else:
                level.names[names[number]] = split
                keep(level.parents, "/".join(names[:number]))

    def problem(self) -> str | None:
        """Return the error if several folders hold folders named as splits, and none is chosen."""
        for number, level in enumerate(self._levels, 1):
            if not self._decided and level.several and (len(level.parents) > 1 or not level.others):
                advice = f"{self._patterns(number, level)}; {IGNORE}"
                masks = [name for name in level.parents if holds_no_images(name.split("/")[-1])]
                if self._advise_masks and masks:
                    option = f"--masks {self._root.given.path}"
                    advice = f"{some(masks)} may hold masks of the others: {option} reads them"
                return (
                    f"{self._root.given} holds folders named as splits"
                    f" ({some(sorted(level.names))}) below other folders ({some(level.parents)}):"
                    f" {advice}"
                )
        return None

    def notes(self) -> Iterator[Note]:
        """Yield a note on the first kind of such names that occurs, unless there is a `problem`."""
        for text in (self._on_levels(), self._on_tops(), self._on_files()):
            if text is not None:
                yield Note("splits", text)
                return

    def _on_levels(self) -> str | None:
        """Return the note on the first level of folders below the top that has names of splits."""
        for number, level in enumerate(self._levels, 1):
            if level.several:
                instead = (
                    "the splits are the top folders, because of --split-from folders"
                    if self._decided
                    else "records are divided by --splits"
                )
                return (
                    f"folders below {some(level.parents)} of {self._root.given} have names of"
                    f" splits ({some(sorted(level.names))}), but {instead}:"
                    f" {self._patterns(number, level)}"
                )
        return None

    def _on_tops(self) -> str | None:
        """Return the note on top folders whose names contain those of splits."""
        places: dict[str, str] = {}  # {folder: its split}
        for name, inside in self._tops.items():
            # The only folder in one, as in seg_train/seg_train/CLASS, is not a class either.
            path = "/".join([name, *inside]) if len(inside) == 1 else name
            places[path.rstrip("/")] = near_split(name) or ""
        if len({*places.values()}) < 2:
            return None
        advice = given_splits(self._root, places, archived=self._archived)
        return (
            f"the names of the folders {some(sorted(self._tops))} of {self._root.given} seem to"
            f" contain names of splits, but records are divided by --splits: {advice} takes"
            " them as splits; --split-from none omits this note"
        )

    def _on_files(self) -> str | None:
        """Return the note on files whose names contain those of splits."""
        if len(self._files) < 2:
            return None
        by_split = [(split, self._files[split]) for split in in_order(self._files)]
        inputs = [f"--input {shlex.quote(f'{one}={self._folder}/{key}')}" for one, key in by_split]
        return (
            f"names of files of {self._root.given} seem to contain names of splits"
            f" ({some([key for _, key in by_split])}), but records are divided by --splits:"
            f" separate the words, as in train_a, or name the split of each file, as in"
            f" {' '.join(inputs)}; --split-from none omits this note"
        )

    @property
    def _folder(self) -> str:
        """The folder that keys are relative to, for messages."""
        return "FOLDER" if self._archived else str(self._root.root).rstrip("/")

    def _patterns(self, number: int, level: _Level) -> str:
        """Return advice on the inputs that take these folders as the splits."""
        root = self._folder
        above = "/".join("*" * number) if len(level.parents) > 1 else level.parents[0]
        by_split = in_order({*level.names.values()})
        inputs = [
            f"--input {shlex.quote(f'{split}={root}/{above}/{name}/**')}"
            for split in by_split
            for name in sorted(level.names)
            if level.names[name] == split
        ]
        unpack = "unpack the archives, and then " if self._archived else ""
        less = f" (without the files of {some(level.others)})" if level.others else ""
        return f"{unpack}{' '.join(inputs)} takes them as splits{less}"


def unused_notes(found: Iterable[UnusedSplits | None]) -> list[Note]:
    """Return the notes of inputs whose files were listed."""
    return [note for one in found if one is not None for note in one.notes()]


def some(names: Sequence[str]) -> str:
    """Return the first names for a message."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def keep(shown: list[str], name: str) -> None:
    """Add a name to a list for `some`, unless it is there, or enough are."""
    if len(shown) <= _SHOWN and name not in shown:
        shown.append(name)


def divide(names: Sequence[str], found: Sequence[str | None]) -> tuple[str, str]:
    """Return the names with a split and those without, for a message."""
    pairs = list(zip(names, found, strict=True))
    return some([name for name, split in pairs if split]), some(
        [name for name, split in pairs if not split]
    )


def refuse_near_splits(root: InputRoot, folders: Sequence[str], *, archived: bool) -> None:
    """Raise ConfigError if the names of all folders, such as trainA and testA, contain splits."""
    found = {name: split for name in folders if (split := near_split(name)) is not None}
    if len(found) < len(folders) or len({*found.values()}) < 2:
        return
    inputs = given_splits(root, found, archived=archived)
    raise ConfigError(
        f"the names of all folders of {root.given} contain names of splits ({some([*found])}):"
        f" {inputs} takes them as splits; {IGNORE}"
    )


def given_splits(root: InputRoot, found: Mapping[str, str], *, archived: bool) -> str:
    """Return the inputs that name the split of each folder, for a message.

    Args:
      root: The input that holds the folders.
      found: {name of a folder: its split}.
      archived: Whether the folders are those in archives.
    """
    where = "FOLDER" if archived else str(root.root).rstrip("/")
    inputs = [
        f"--input {shlex.quote(f'{split}={where}/{name}')}"
        for split in in_order({*found.values()})
        for name in sorted(found)
        if found[name] == split
    ]
    return ("unpack the archives, and then " if archived else "") + " ".join(inputs)


def near_split(name: str) -> str | None:
    """Return the split that a word of a name seems to contain: train of seg_train or trainA."""
    for word in _WORD.findall(name) if may_hold_split(name) else ():
        for part in (*_PART.findall(word), word[:-1]):
            if (split := canonical_split(part)) is not None:
                return split
    return None
