"""Splits and classes by the paths of an input.

train/roses/1.jpg test/roses/2.jpg   top folders with names of splits: SPLIT/LABEL/FILE
roses/1.jpg roses/big/2.jpg          other names: LABEL/FILE
1.jpg 2.jpg                          no folders: no classes
train.csv test.csv                   files of many records, all with names of splits
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split, is_split_name
from recordmill.storage.files import Location, PathError
from recordmill.transforms.sources.archives.archive_tree import ArchiveTree, find_archives
from recordmill.transforms.sources.archives.label_files import LabelFiles
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots, walk_input
from recordmill.transforms.sources.files.unused_splits import (
    IGNORE,
    UnusedSplits,
    divide,
    keep,
    some,
)
from recordmill.unicode_tables import mask_later

FOLDERS = "the top folders"  # as the source of splits or classes, in messages

_WORD = re.compile(r"[^\W\d_]+")


@dataclasses.dataclass(frozen=True)
class PathLayout:
    """Meaning of the parts of a path relative to its input.

    splits: `folders` if the first folder is the split, `files` if the name of the file contains it,
      `shards` if its name begins with it, as in a dataset of recordmill.
    labels: as `Inputs.label_from`; None if there are no classes.
    """

    splits: Literal["folders", "files", "shards"] | None = None
    labels: str | None = None

    @property
    def depth(self) -> int:
        """Number of levels of folders whose names are the split or the label."""
        return (self.splits == "folders") + (self.labels == "top")

    @property
    def form(self) -> str:
        """The form of paths, for messages."""
        parts = ["SPLIT"] if self.splits == "folders" else []
        if self.labels in ("top", "parent"):
            parts.append("LABEL")
        form = "/".join([*parts, "FILE"])
        if self.labels is not None and (by_file := LabelFiles.parse(self.labels)):
            return f"a class in a .{by_file.extension} file next to it in the archive"
        if self.labels is None or self.labels in ("top", "parent"):
            return form
        return f"{form} that matches --label-from {self.labels}"

    def split_and_label(self, key: str) -> tuple[str | None, str | None]:
        """Return (split, label) of a file, given its path relative to the input."""
        *folders, name = key.split("/")
        split = None
        if self.splits == "folders" and folders:
            first = folders.pop(0)
            split = canonical_split(first) or first
        elif self.splits == "files":
            split = _file_split(name)
        elif self.splits == "shards":
            split = name.partition(".tfrecord-")[0]
        return split, self._label(folders, name)

    def _label(self, folders: Sequence[str], name: str) -> str | None:
        if self.labels in ("top", "parent"):
            return folders[0 if self.labels == "top" else -1] if folders else None
        if self.labels is None or LabelFiles.parse(self.labels) is not None:
            return None
        found = re.search(self.labels, "/".join([*folders, name]))
        return found[1] if found else None


class LaidOutInput(NamedTuple):
    """An input with the layout of its paths. split: of all its files, None if they differ.

    archives: the files in its archives; None if archives are not read. inner: folders in its only
    top folder, by path; empty if it has others. unused: finds names of splits that no rule takes;
    None if none is to be taken.
    """

    root: InputRoot
    layout: PathLayout
    split: str | None
    archives: ArchiveTree | None = None
    inner: tuple[str, ...] = ()
    unused: UnusedSplits | None = None

    def split_and_label(self, key: str) -> tuple[str | None, str | None]:
        """Return (split, label) of a file, given its path relative to the input."""
        split, label = self.layout.split_and_label(key)
        return self.split or split, label


ListNames = Callable[[InputRoot], Iterable[str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutRules:
    """Rules for the layout of a kind of source.

    skip: returns why a folder is skipped because of its name, None if it is not.
    file_names: yields the paths of files that hold many records, whose names may name a split; None
      if each file is a record.
    labelled: whether folders name classes.
    archived: returns whether a file may be a record, by its name; None if archives are not read.
    is_dataset: returns whether a folder is a dataset, whose shards have names of splits.
    """

    skip: Callable[[str], str | None]
    file_names: ListNames | None = None
    labelled: bool = True
    archived: Callable[[str], bool] | None = None
    is_dataset: Callable[[Location], bool] | None = None


def lay_out(inputs: Inputs, rules: LayoutRules) -> tuple[LaidOutInput, ...]:
    """Find the inputs and determine the layout of each.

    Raises:
      ConfigError: an input does not exist or cannot be read, or only some of the names beside each
        other are names of splits.
    """
    roots = find_roots(inputs, archives=rules.archived is not None)
    splits = _splits_of(roots, inputs, rules)
    trees = [_archives_of(root, inputs, rules) for root in roots]
    try:
        return tuple(
            _lay_out_one(root, inputs, rules, split, archives)
            for root, split, archives in zip(roots, splits, trees, strict=True)
        )
    except PathError as error:
        raise ConfigError(f"the input cannot be used: {error}") from error


def _archives_of(root: InputRoot, inputs: Inputs, rules: LayoutRules) -> ArchiveTree | None:
    """Return the archives of an input, None if it has other files. Raises ConfigError."""
    if rules.archived is None or root.file:
        return None
    archives = find_archives(walk_input(root, rules.skip, depth=1), rules.archived)
    if not archives:
        return None
    named = not root.archive and root.given.split is None
    by_name = named and inputs.split_from in ("auto", "folders")
    if named and inputs.split_from == "auto":
        _refuse_some_named(root, [one.key for one in archives])
    return ArchiveTree(
        archives,
        skip=rules.skip,
        usable=rules.archived,
        split_of=_file_split if by_name else None,
        labels=LabelFiles.parse(inputs.label_from) if rules.labelled else None,
    )


def _refuse_some_named(root: InputRoot, keys: Sequence[str]) -> None:
    """Raise ConfigError if only some of the archives have names of splits."""
    found = [_file_split(key.rpartition("/")[2]) for key in keys]
    if any(found) and not all(found):
        named, unnamed = divide(keys, found)
        raise ConfigError(
            f"{root.given} holds archives named as splits ({named}) beside others ({unnamed}):"
            " select archives with a pattern, or name the split of each with --input"
            " train=ARCHIVE; --split-from none ignores these names"
        )


def splits_in(name: str) -> list[str]:
    """Return the splits that a file name contains as words, sorted: `test` of imdb_test.csv."""
    words = _WORD.findall(mask_later(name))
    return sorted({split for word in words if (split := canonical_split(word)) is not None})


def split_source(laid_out: Sequence[LaidOutInput]) -> str | None:
    """Return the part of the input that names the splits, for messages; None if none does."""
    if any(one.root.given.split for one in laid_out):
        return " ".join(f"--input {one.root.given}" for one in laid_out)
    if any(one.split for one in laid_out):
        return "the names of the inputs"
    kinds = {one.layout.splits for one in laid_out}
    names = {
        "folders": FOLDERS,
        "files": "the names of the files",
        "shards": "the splits of the dataset",
    }
    return " and ".join(name for kind, name in names.items() if kind in kinds) or None


def _splits_of(
    roots: Sequence[InputRoot], inputs: Inputs, rules: LayoutRules
) -> Sequence[str | None]:
    """Return the split of each input: as given, or by its name if all names are those of splits."""
    given = [root.given.split for root in roots]
    if any(given) or len(roots) == 1 or inputs.split_from in ("column", "none"):
        return given
    found = [_input_split(root, rules) for root in roots]
    if any(found) and not all(found):
        named, unnamed = divide([str(root.given) for root in roots], found)
        raise ConfigError(
            f"some inputs have names of splits ({named}) and others do not ({unnamed}): name the"
            f" split of each, as in --input train={roots[0].given}; {IGNORE}"
        )
    return found


def _input_split(root: InputRoot, rules: LayoutRules) -> str | None:
    if root.archive:
        return _file_split(root.place.name)
    if not root.file:
        return canonical_split(root.root.name)
    return None if rules.file_names is None else _file_split(root.place.name)


def _file_split(name: str) -> str | None:
    found = splits_in(name)
    return found[0] if len(found) == 1 else None


def _lay_out_one(
    root: InputRoot,
    inputs: Inputs,
    rules: LayoutRules,
    split: str | None,
    archives: ArchiveTree | None,
) -> LaidOutInput:
    if archives is not None:
        folders = [*archives.top_folders]
    else:
        folders = [] if root.file else _top_folders(root, rules)
    layout = _layout_of(root, folders, inputs, rules, split, archives)
    inner: tuple[str, ...] = ()
    whole = root.pattern is None or archives is not None
    if len(folders) == 1 and whole and layout.splits is None:
        try:
            place = root.root / folders[0]
            found = _folders_in(place, rules) if archives is None else archives.inner_folders()
        except PathError:
            found = []  # the walk rejects the folder
        if inputs.split_from == "auto" and any(map(canonical_split, found)):
            where = f"{root.given}/{folders[0]}" if archives is None else "that folder, unpacked"
            raise ConfigError(
                f"{root.given} holds a single folder, {folders[0]!r}, whose folders have names of"
                f" splits ({some(found)}): pass --input {where}; {IGNORE}"
            )
        if archives is None:
            inner = tuple(f"{folders[0]}/{name}" for name in found)
    by_user = inputs.split_from == "folders"
    open_ = inputs.split_from == "auto" and not any(one.split for one in inputs.paths)
    unused = None
    if by_user or (open_ and not root.file and layout.splits is None and split is None):
        unused = UnusedSplits(
            root,
            archived=archives is not None,
            decided=by_user,
            of_files=rules.file_names is not None,
        )
    return LaidOutInput(root, layout, split, archives, inner, unused)


def _layout_of(
    root: InputRoot,
    folders: Sequence[str],
    inputs: Inputs,
    rules: LayoutRules,
    split: str | None,
    archives: ArchiveTree | None,
) -> PathLayout:
    if rules.is_dataset is not None and not root.file and rules.is_dataset(root.root):
        named = split is None and inputs.split_from in ("auto", "files")
        return PathLayout("shards" if named else None)
    file_names: Callable[[], Iterable[str]] | None = None
    if rules.file_names is not None:
        of_files = functools.partial(rules.file_names, root)
        file_names = of_files if archives is None else archives.keys
    splits = _splits_from(root, folders, inputs, file_names)
    if splits is not None and split is not None:
        if splits == "folders":
            found = {canonical_split(name) for name in folders}
        else:
            keys = () if file_names is None else file_names()
            found = {_file_split(key.rpartition("/")[2]) for key in keys}
        if found != {split}:
            names = ", ".join(sorted(map(str, found - {split})))
            raise ConfigError(
                f"--input {root.given} is the split {split}, but some of its {splits} have names"
                f" of others ({names}): pass those of each split as an --input; {IGNORE}"
            )
    labels = inputs.label_from
    by_file = LabelFiles.parse(labels) is not None
    if by_file and archives is None:
        raise ConfigError(
            f"--label-from {labels}: reads classes from files in archives; expected a .tar, a .zip"
            f" or a folder of them, got {root.given}"
        )
    if rules.labelled and labels == "top" and archives is not None and archives.has_class_files:
        raise ConfigError(
            f"{root.given} holds .cls files, as WebDataset shards do: --label-from .cls takes the"
            " classes from them, --label-from .json:FIELD from JSON files; --label-type none reads"
            " no classes"
        )
    if not rules.labelled or (labels in ("top", "parent") and not folders):
        return PathLayout(splits)
    return PathLayout(splits, labels)


def _splits_from(
    root: InputRoot,
    folders: Sequence[str],
    inputs: Inputs,
    file_names: Callable[[], Iterable[str]] | None,
) -> Literal["folders", "files"] | None:
    """Return what names the splits of an input."""
    match inputs.split_from:
        case "folders":
            _refuse_folders(root, folders)
            return "folders"
        case "files":
            return "files"
        case "column" | "none":
            return None
    if root.file:  # the name of a single file does not assign its records to a split
        return None
    found = [canonical_split(name) for name in folders]
    if any(found):
        if not all(found):
            named, unnamed = divide(folders, found)
            raise ConfigError(
                f"{root.given} holds folders named as splits ({named}) beside others ({unnamed}):"
                " --split-from folders makes each of them a split, --split-from none ignores the"
                " names"
            )
        return "folders"
    return None if file_names is None else _files_as_splits(root, file_names())


def _files_as_splits(root: InputRoot, keys: Iterable[str]) -> Literal["files"] | None:
    """Return `files` if the names of all files contain a split, None if none does.

    Raises:
      ConfigError: only some of the names contain a split.
    """
    named: list[str] = []
    unnamed: list[str] = []
    for key in keys:
        keep(named if _file_split(key.rpartition("/")[2]) else unnamed, key)
    if named and unnamed:
        raise ConfigError(
            f"{root.given} holds files named as splits ({some(named)}) beside others"
            f" ({some(unnamed)}): select files with a pattern, or name the split of each with"
            f" --input train=FILE; {IGNORE}"
        )
    return "files" if named else None


def _refuse_folders(root: InputRoot, folders: Sequence[str]) -> None:
    if not folders:
        raise ConfigError(f"--split-from folders: the input {root.given} has no folders")
    for name in folders:
        if not is_split_name(name):
            raise ConfigError(
                f"--split-from folders: the folder {name!r} of {root.given} cannot name a split:"
                " expected letters, digits, _ and -; rename it"
            )


def _top_folders(root: InputRoot, rules: LayoutRules) -> list[str]:
    """Return the names of the top folders of an input that its pattern matches."""
    first = "**"
    if root.pattern is not None:
        first, *rest = root.pattern.split("/")
        if not rest and first != "**":
            return []
    return [
        name
        for name in _folders_in(root.root, rules)
        if first == "**" or fnmatch.fnmatchcase(name, first)
    ]


def _folders_in(place: Location, rules: LayoutRules) -> list[str]:
    names = [entry.name for entry in place.list_dir() if entry.kind == "dir"]
    return [name for name in sorted(names) if not rules.skip(name)]
