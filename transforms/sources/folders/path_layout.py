"""Splits and classes by the paths of an input.

train/roses/1.jpg test/roses/2.jpg   top folders with names of splits: SPLIT/LABEL/FILE
roses/1.jpg roses/big/2.jpg          other names: LABEL/FILE
split=train/kind=rose/1.jpg          partitions: KEY=VALUE
images/train/1.jpg images/test/2.jpg only the folder of images holds records: images/SPLIT/FILE
1.jpg 2.jpg                          no folders: no classes
train.csv test.csv                   files of many records, all with names of splits
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split, is_split_name
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError, shown
from recordmill.transforms.sources.archives.archive_tree import ArchiveTree, find_archives
from recordmill.transforms.sources.archives.label_files import LabelFiles
from recordmill.transforms.sources.files.input_paths import SPLIT_WORDS, Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots, walk_input
from recordmill.transforms.sources.files.partitions import (
    Partitions,
    find_partitions,
    label_key,
    split_key,
)
from recordmill.transforms.sources.files.path_facts import named_key
from recordmill.transforms.sources.files.walks import File, walk
from recordmill.transforms.sources.folders.path_names import FileFacts, PathLayout, file_split
from recordmill.transforms.sources.folders.role_folders import (
    holds_no_images,
    images_beside_annotations,
    is_image_folder,
    may_hold_captions,
    without_images,
)
from recordmill.transforms.sources.folders.unused_splits import (
    IGNORE,
    UnusedSplits,
    divide,
    given_splits,
    keep,
    near_split,
    refuse_near_splits,
    some,
)

OF_DATASET = "the splits of the dataset"
_FEW_FOLDERS = 8  # top folders whose entries are compared
_IMAGES = "images"  # folder of the images, with annotations in folders beside it
BELOW_IMAGES = "folder:2"  # splits of such a layout
LISTS = "the lists of --split-files"
_FOLDERS_HELD = 1 << 10  # folders whose facts are kept
FOLDERS = "the top folders"  # as the source of splits or classes, in messages


class LaidOutInput(NamedTuple):
    """An input with the layout of its paths.

    Attributes:
      root: The input.
      layout: Layout of its paths.
      split: Split of all its files, None if they differ.
      archives: Files in its archives; None if archives are not read.
      inner: Folders in its only top folder, by path, or deeper ones (see `_folders_below`); or in
        one of a few top folders if the others hold only files; else empty.
      unused: Makes a finder of names of splits that no rule uses; None if such names do not matter.
      has_other_folders: Whether there are other top folders than that of `inner`.
    """

    root: InputRoot
    layout: PathLayout
    split: str | None
    archives: ArchiveTree | None = None
    inner: tuple[str, ...] = ()
    unused: functools.partial[UnusedSplits] | None = None
    has_other_folders: bool = False

    def facts(self, key: str) -> FileFacts:
        """Return the facts in the path of a file, given its path relative to the input."""
        found = self.layout.facts(key)
        return found if self.split is None else found._replace(split=self.split)

    def finder(self) -> Callable[[str], FileFacts]:
        """Return a function for the facts of many paths, which parses each folder once."""
        if not self.layout.of_folders:
            return self.facts

        @functools.lru_cache(maxsize=_FOLDERS_HELD)
        def of_folder(folder: str) -> FileFacts:
            return self.facts(folder and f"{folder}/")

        return lambda key: of_folder(key.rpartition("/")[0])


def refuse_no_facts(
    first: Sequence[str],
    *,
    label: tuple[str | None, bool],
    group: tuple[str | None, bool],
    split: tuple[str | None, bool] = (None, False),
    key: tuple[str | None, bool] = (None, False),
    columns: Mapping[str, str] = MappingProxyType({}),
    given: Collection[int] = (),
) -> None:
    """Check that at least one path gives each fact that options require.

    Args:
      first: Keys of the first files.
      label: Value of the option if paths must give classes, and whether a path does.
      group: The same for groups.
      split: The same for splits.
      key: The same for keys.
      columns: As `Inputs.column_from`.
      given: Numbers of the columns that a path gives.

    Raises:
      ConfigError: No path gives one of them.
    """
    for option, noun, (text, found) in (
        ("label_from", "class", label), ("group_from", "group", group),
        ("split_from", "split", split), ("key_from", "key", key),
        *(("column_from", "value", (f"{name}={part}", number in given))
          for number, (name, part) in enumerate(columns.items())),
    ):  # fmt: skip
        if text is not None and first and not found:
            are = "file is" if len(first) == 1 else "files are"
            raise ConfigError(
                f"{option_name(option, text)}: no path gives a {noun}; the first {are}"
                f" {', '.join(map(shown, first))}"
            )


def unused_splits(laid_out: Sequence[LaidOutInput]) -> list[UnusedSplits | None]:
    """Return new finders of names of splits that no rule uses, one for each input."""
    return [None if one.unused is None else one.unused() for one in laid_out]


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
    usable: returns whether a file may hold a record, by its name; None if `archived` does.
    skip_image_folders: whether a folder such as `images` is neither a class nor a split, because
      files have masks; files in folders of splits then need no class.
    advise_masks: whether folders of masks would be read as images.
    captioned: whether an input may hold folders of captions, to which the same applies.
    """

    skip: Callable[[str], str | None]
    file_names: ListNames | None = None
    labelled: bool = True
    archived: Callable[[str], bool] | None = None
    is_dataset: Callable[[Location], bool] | None = None
    usable: Callable[[str], bool] | None = None
    skip_image_folders: bool = False
    advise_masks: bool = False
    captioned: bool = False


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
        split_of=file_split if by_name else None,
        labels=LabelFiles.parse(inputs.labels_of_files) if rules.labelled else None,
    )


def _refuse_some_named(root: InputRoot, keys: Sequence[str]) -> None:
    """Raise ConfigError if only some of the archives have names of splits."""
    found = [file_split(key.rpartition("/")[2]) for key in keys]
    if any(found) and not all(found):
        named, unnamed = divide(keys, found)
        raise ConfigError(
            f"{root.given} holds archives named as splits ({named}) beside others ({unnamed}):"
            " select archives with a pattern, or name the split of each with"
            f" {option_name('input')} train=ARCHIVE; {option_name('split_from')} none ignores these"
            " names"
        )


def split_source(laid_out: Sequence[LaidOutInput], inputs: Inputs) -> str | None:
    """Return the part of the input that names the splits, for messages; None if none does."""
    if inputs.split_files:
        return LISTS
    if any(one.root.given.split for one in laid_out):
        return " ".join(f"--input {one.root.given}" for one in laid_out)
    if any(one.split for one in laid_out):
        return "the names of the inputs"
    kinds = {one.layout.splits for one in laid_out}
    keys = {one.layout.split_key: one.layout.partitions for one in laid_out}
    for key, partitions in keys.items():
        if key is not None and partitions.index(key):  # below the top folders
            return f"the folders {key}=SPLIT"
    names = {
        "folders": FOLDERS,
        "files": "the names of the files",
        "shards": OF_DATASET,
    }
    names |= {kind: f"--split-from {kind}" for kind in kinds if kind and kind not in names}
    return " and ".join(name for kind, name in names.items() if kind in kinds) or None


def _splits_of(
    roots: Sequence[InputRoot], inputs: Inputs, rules: LayoutRules
) -> Sequence[str | None]:
    """Return the split of each input: as given, or by its name if all names are those of splits."""
    given = [root.given.split for root in roots]
    by_path = inputs.split_from not in ("auto", "folders", "files")
    if any(given) or len(roots) == 1 or by_path:
        return given
    found = [_input_split(root, rules) for root in roots]
    if any(found) and not all(found):
        named, unnamed = divide([str(root.given) for root in roots], found)
        raise ConfigError(
            f"some inputs have names of splits ({named}) and others do not ({unnamed}): name the"
            f" split of each, as in {option_name('input')} train={roots[0].given}; {IGNORE}"
        )
    return found


def _input_split(root: InputRoot, rules: LayoutRules) -> str | None:
    if root.archive:
        return file_split(root.place.name)
    if not root.file:
        return canonical_split(root.root.name)
    return None if rules.file_names is None else file_split(root.place.name)


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

    def folders_in(path: str) -> list[str]:
        if archives is not None:
            return archives.folders_in(path)
        return _folders_in(root.root / path, rules)

    given, inside = root, None
    plain = root.is_folder and archives is None
    by_default = inputs.split_from == "auto" and inputs.label_from is None
    if (
        plain
        and by_default
        and len(folders) == 1
        and _images_beside(root.root / folders[0], rules) is not None
    ):
        (inside,) = folders  # the layout is that of the folders in it
        folders = folders_in(inside)
        root = dataclasses.replace(root, root=root.root / inside)
    # Options that name parts of paths refer to whole paths.
    by_words = inputs.split_from in SPLIT_WORDS and inputs.label_from is None
    captioned = (
        rules.captioned
        and by_words
        and not (inputs.group_from or inputs.key_from or inputs.column_from)
    )
    if captioned and any(map(may_hold_captions, folders)):
        rules = dataclasses.replace(rules, skip_image_folders=True)
    images = [name for name in folders if rules.skip_image_folders and is_image_folder(name)]
    if len(images) == 1:  # its folders name splits and classes, as if it were the input
        folders = folders_in(images[0])
        root = dataclasses.replace(root, root=root.root / images[0])
    partitions = find_partitions(folders, folders_in)
    layout = _layout_of(root, folders, inputs, rules, split, archives, partitions, folders_in)
    inner: tuple[str, ...] = ()
    whole = root.pattern is None or archives is not None
    if len(folders) == 1 and whole and layout.splits is None and not layout.partitions:
        try:
            place = root.root / folders[0]
            found = _folders_in(place, rules) if archives is None else archives.inner_folders()
        except PathError:
            found = []  # the walk rejects the folder
        if inputs.split_from == "auto" and any(map(canonical_split, found)):
            where = f"{root.given}/{folders[0]}" if archives is None else "that folder, unpacked"
            named = [*filter(canonical_split, found)]
            raise ConfigError(
                f"{root.given} holds a single folder, {folders[0]!r}, whose folders have names of"
                f" splits ({some(named)}): pass {option_name('input', where)}; {IGNORE}"
            )
        if archives is None:
            inner = _folders_below(root.root, folders[0], found, rules)
    elif plain and by_default and root.root.is_local and layout.labels == "top":
        inner = _folders_in_one(root.root, folders, rules)
    beside = None
    if plain and layout.splits == "folders":
        beside = _images_beside(root.root / folders[0], rules)
    by_user = inputs.split_from == "folders"
    open_ = inputs.split_from == "auto" and not any(one.split for one in inputs.paths)
    unused = None
    if by_user or (open_ and not root.file and layout.splits is None and split is None):
        unused = functools.partial(
            UnusedSplits,
            given,
            archived=archives is not None,
            decided=by_user,
            of_files=rules.file_names is not None,
            advise_masks=rules.advise_masks,
        )
    layout = dataclasses.replace(
        layout,
        groups=inputs.group_from,
        skip_image_folders=rules.skip_image_folders or (captioned and beside is not None),
        split_map=inputs.split_map,
        columns=tuple(inputs.column_from.values()),
        keys=inputs.key_from,
        inside=inside,
        images=beside,
    )
    return LaidOutInput(given, layout, split, archives, inner, unused, len(folders) > 1)


def _layout_of(
    root: InputRoot,
    folders: Sequence[str],
    inputs: Inputs,
    rules: LayoutRules,
    split: str | None,
    archives: ArchiveTree | None,
    partitions: Partitions,
    folders_in: Callable[[str], Sequence[str]],
) -> PathLayout:
    if rules.is_dataset is not None and not root.file and rules.is_dataset(root.root):
        named = split is None and inputs.split_from in ("auto", "files")
        return PathLayout("shards" if named else None)
    file_names: Callable[[], Iterable[str]] | None = None
    if rules.file_names is not None:
        of_files = functools.partial(rules.file_names, root)
        file_names = of_files if archives is None else archives.keys
    key = split_key(root.given, partitions, inputs.split_from)
    holds_records: Callable[[str], bool] = functools.partial(_holds_records, root.root, rules=rules)
    if archives is not None:
        holds_records = archives.top_folders.__contains__
    splits: str | None = "folders"
    below_images = False
    if key is None:
        splits = _splits_from(
            root, folders, inputs, holds_records, file_names, rules, archived=archives is not None
        )
        open_ = splits is None and inputs.split_from == "auto" and split is None
        several_near = len({*map(near_split, folders)} - {None}) > 1
        if open_ and _splits_below_images(folders, folders_in, holds_records):
            splits, below_images = BELOW_IMAGES, True
        elif open_ and several_near and not any(one.split for one in inputs.paths):
            there = [one for one in folders if near_split(one) or holds_records(one)]
            refuse_near_splits(root, there, archived=archives is not None)
    if splits is not None and split is not None:
        if key is not None:
            found = {canonical_split(value) for value in key.values}
        elif splits == "folders":
            found = {_split_of(name, rules) for name in folders}
        elif splits != "files":
            raise ConfigError(
                f"{option_name('input', root.given)} is the split {split}, and"
                f" {option_name('split_from', splits)} gives splits, too: leave one of them out"
            )
        else:
            keys = () if file_names is None else file_names()
            found = {file_split(key.rpartition("/")[2]) for key in keys}
        if found != {split}:
            names = ", ".join(sorted(map(str, found - {split})))
            raise ConfigError(
                f"{option_name('input', root.given)} is the split {split}, but some of its {splits}"
                f" have names of others ({names}): pass those of each split as an"
                f" {option_name('input')}; {IGNORE}"
            )
    labels: str | None = inputs.labels_of_files
    if below_images and labels == "top":  # the folder below that of the split
        inner = (folders_in(f"{_IMAGES}/{name}") for name in folders_in(_IMAGES))
        labels = "folder:2" if any(inner) else None
    elif rules.skip_image_folders and splits == "folders" and labels == "top":
        below = itertools.chain.from_iterable(map(folders_in, folders))
        labels = None if all(map(is_image_folder, below)) else labels
    by_file = labels is not None and LabelFiles.parse(labels) is not None
    if by_file and archives is None:
        raise ConfigError(
            f"{option_name('label_from', labels)}: reads classes from files in archives; expected a"
            f" .tar, a .zip or a folder of them, got {root.given}"
        )
    if rules.labelled and labels == "top" and archives is not None and archives.has_class_files:
        raise ConfigError(
            f"{root.given} holds .cls files, as WebDataset shards do: {option_name('label_from')}"
            f" .cls takes the classes from them, {option_name('label_from')} .json:FIELD from JSON"
            f" files; {option_name('label_type', 'none')} reads no classes"
        )
    levels = tuple(one.name for one in partitions.keys)
    by_key = None if key is None else key.name
    if not rules.labelled or (labels in ("top", "parent") and not folders):
        return PathLayout(splits, None, levels, by_key)
    taken = (by_key, named_key(inputs.group_from), named_key(inputs.split_from))
    of_label = label_key(root.given, partitions, taken) if labels == "top" else None
    return PathLayout(splits, labels, levels, by_key, of_label)


def _splits_from(
    root: InputRoot,
    folders: Sequence[str],
    inputs: Inputs,
    holds_records: Callable[[str], bool],
    file_names: Callable[[], Iterable[str]] | None,
    rules: LayoutRules,
    *,
    archived: bool,
) -> str | None:
    """Return what names the splits of an input."""
    match inputs.split_from:
        case "folders" if inputs.split_map:
            return "top"
        case "folders":
            _refuse_folders(root, folders)
            return "folders"
        case "files":
            return "files"
        case "none":
            return None
        case by_path if by_path != "auto":
            return by_path
    if root.file:  # the name of a single file does not assign its records to a split
        return None
    found = [_split_of(name, rules) for name in folders]
    if any(found) and not all(found):
        folders = [name for name in folders if holds_records(name)]
        found = [_split_of(name, rules) for name in folders]
    if any(found):
        if not all(found):
            named, unnamed = divide(folders, found)
            others = [one for one, split in zip(folders, found, strict=True) if split is None]
            if rules.advise_masks and all(map(holds_no_images, others)):
                raise ConfigError(
                    f"{root.given} holds folders named as splits ({named}), and folders that seem"
                    f" to hold the masks of their images ({unnamed}):"
                    f" {option_name('masks', root.given.path)} reads these as masks"
                )
            by_split = {name: one for name, one in zip(folders, found, strict=True) if one}
            by_input = given_splits(root, by_split, archived=archived)
            raise ConfigError(
                f"{root.given} holds folders named as splits ({named}) beside others ({unnamed}):"
                f" {by_input} reads only the splits, {option_name('split_from', 'folders')} makes"
                f" each of them a split, {option_name('split_from')} none ignores the names"
            )
        return "folders"
    return None if file_names is None else _files_as_splits(root, file_names())


def _split_of(name: str, rules: LayoutRules) -> str | None:
    """Return the split that a top folder names, None if it names no split."""
    return canonical_split(without_images(name) if rules.skip_image_folders else name)


def _splits_below_images(
    folders: Sequence[str],
    folders_in: Callable[[str], Sequence[str]],
    holds_records: Callable[[str], bool],
) -> bool:
    """Return whether the folders in `images` are splits, and no other folder holds records.

    Annotations in folders beside it do not count as records.
    """
    if _IMAGES not in folders:
        return False
    found = [canonical_split(name) for name in folders_in(_IMAGES)]
    several = all(found) and len({*found}) > 1
    return several and not any(holds_records(name) for name in folders if name != _IMAGES)


def _files_as_splits(root: InputRoot, keys: Iterable[str]) -> Literal["files"] | None:
    """Return `files` if the names of all files contain a split, None if none does.

    Raises:
      ConfigError: only some of the names contain a split.
    """
    named: list[str] = []
    unnamed: list[str] = []
    for key in keys:
        keep(named if file_split(key.rpartition("/")[2]) else unnamed, key)
    if named and unnamed:
        raise ConfigError(
            f"{root.given} holds files named as splits ({some(named)}) beside others"
            f" ({some(unnamed)}): select files with a pattern, or name the split of each with"
            f" {option_name('input')} train=FILE; {IGNORE}"
        )
    return "files" if named else None


def _refuse_folders(root: InputRoot, folders: Sequence[str]) -> None:
    if not folders:
        raise ConfigError(
            f"{option_name('split_from', 'folders')}: the input {root.given} has no folders"
        )
    for name in folders:
        if not is_split_name(name):
            raise ConfigError(
                f"{option_name('split_from', 'folders')}: the folder {name!r} of {root.given}"
                " cannot name a split: expected letters, digits, _ and -; rename it"
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


def _holds_records(root: Location, name: str, *, rules: LayoutRules) -> bool:
    """Return whether a folder of an input holds a file that may hold records."""
    usable = rules.usable or rules.archived
    return usable is None or any(
        isinstance(one, File) and usable(one.key.rpartition("/")[2])
        for one in walk(root / name, rules.skip, depth=1)
    )


def _images_beside(place: Location, rules: LayoutRules) -> str | None:
    """Return the name of a folder of images in a folder, beside one of their annotations."""
    try:
        names = [entry.name for entry in place.scan_dir() if entry.kind == "dir"]
    except PathError:
        return None  # the walk rejects the folder
    return images_beside_annotations(names, captioned=rules.captioned)


def _folders_in_one(root: Location, folders: Sequence[str], rules: LayoutRules) -> tuple[str, ...]:
    """Return the folders, by path, in the only top folder that holds several and no files.

    The other top folders hold files only; empty if there is no such top folder.
    """
    if len(folders) > _FEW_FOLDERS:
        return ()
    found: list[tuple[str, ...]] = []
    for top in folders:
        with contextlib.suppress(PathError):  # the walk rejects the folder
            entries = (root / top).scan_dir()
            kinds = {entry.kind for entry in entries if not rules.skip(entry.name)}
            if "dir" in kinds:
                names = _folders_in(root / top, rules)
                found.append(tuple(f"{top}/{name}" for name in names) if len(kinds) == 1 else ())
    return found[0] if len(found) == 1 and len(found[0]) > 1 else ()


def _folders_below(
    root: Location, top: str, found: Sequence[str], rules: LayoutRules
) -> tuple[str, ...]:
    """Return the folders in a top folder, by path, or deeper ones that may be classes.

    Deeper ones are in the only folder in it, or in its only folder of images.
    """
    images = [name for name in found if is_image_folder(name)]
    only = images if len(images) == 1 else found
    if len(only) == 1:
        inside = f"{top}/{only[0]}"
        with contextlib.suppress(PathError):  # the walk rejects the folder
            if deeper := _folders_in(root / inside, rules):
                return _folders_below(root, inside, deeper, rules)
    return tuple(f"{top}/{name}" for name in found)


def _folders_in(place: Location, rules: LayoutRules) -> list[str]:
    names = [entry.name for entry in place.scan_dir() if entry.kind == "dir"]
    return [name for name in sorted(names) if not rules.skip(name)]
