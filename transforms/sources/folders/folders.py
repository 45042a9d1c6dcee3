"""Source of files in folder trees, whose folders give split and label: see `path_layout`.

The content of a file decides its format, not its name. Files are skipped by extension only if the
extension clearly belongs to another format; skipped files are counted.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.job.input_facts import InputFacts
from recordmill.notes import Note
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.storage.members import Member
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.archives.archive_tree import LabelledMember, MisplacedMember
from recordmill.transforms.sources.archives.label_files import LabelFiles
from recordmill.transforms.sources.files.file_stat import EMPTY, RejectCause
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import (
    InputRoot,
    check_paths,
    is_utf8,
    matched_folders,
    read_once,
    walk_input,
)
from recordmill.transforms.sources.files.other_kinds import (
    RASTERIZE,
    RECORDS,
    TFRECORDS,
    filter_reason,
)
from recordmill.transforms.sources.files.skipped_names import (
    is_project_file,
    is_project_text,
    skipped_among_media,
    skipped_beside_annotations,
)
from recordmill.transforms.sources.files.walks import (
    File,
    SkippedPath,
    SkipRule,
    WalkItem,
    split_pattern,
)
from recordmill.transforms.sources.folders.companions import Companion, CompanionFinder
from recordmill.transforms.sources.folders.number_labels import NumberLabels
from recordmill.transforms.sources.folders.path_layout import (
    LaidOutInput,
    LayoutRules,
    lay_out,
    refuse_no_facts,
    split_source,
    unused_splits,
)
from recordmill.transforms.sources.folders.path_names import FileFacts
from recordmill.transforms.sources.folders.references import (
    ARCHIVED,
    COLUMNS,
    ReferenceCollector,
    Unlabelled,
    label_problem,
    no_label,
)
from recordmill.transforms.sources.folders.role_folders import (
    holds_masks_of_voc,
    holds_no_images,
)
from recordmill.transforms.sources.folders.split_lists import SplitLists
from recordmill.transforms.sources.folders.unread_lists import UnreadLists
from recordmill.transforms.sources.folders.unused_splits import UnusedSplits, unused_notes

EXAMPLES = 3  # files in a message
_NOT_UTF8 = RejectCause(Reason.BAD_NAME, "the name is not UTF-8: rename it")

# Extensions of other files that often lie beside images.
_DOCUMENTS = "doc docx htm html license md odt pdf ppt pptx rst rtf txt xls xlsx"
_LINES = "jsonlines ndjson"
_DATA = "csv db h5 hdf5 json jsonl mat npy npz parquet pbtxt pickle pkl sqlite tfrecord tsv xml"
_PROGRAMS = "bin c cfg cpp dll exe h ini ipynb js lock log pth pt py pyc sh toml yaml yml"
# Of phones, cameras, programs that edit photos, Windows and browsers; then those of Darknet,
# Ultralytics and Flickr8k.
_SIDECARS = "aae crdownload dop info lnk lrf lrv pp3 thm url webloc xmp"
_LISTS = "cache data labels names token"
ARCHIVES = "7z bak gz md5 part rar sha256 tar tgz tmp zip"
SOUND_AND_VIDEO = "avi flac m4a mkv mov mp3 mp4 ogg wav webm"
_LIST = "list of names"  # filter reason of these files
_VECTOR = "vector image"  # filter reason of files with these extensions
_VECTORS = ("svg", "svgz")
NOT_IMAGES = (
    *" ".join((_DOCUMENTS, _LINES, _DATA, _PROGRAMS, _SIDECARS, _LISTS, ARCHIVES)).split(),
    *SOUND_AND_VIDEO.split(),
    *_VECTORS,
)
# Files that often lie beside audio, such as transcripts.
_BESIDE_AUDIO = "cue gif jpeg jpg lab m3u nfo png srt textgrid tif tiff trn vtt webp"
NOT_AUDIO = tuple(sorted({*NOT_IMAGES, *_BESIDE_AUDIO.split()} - {*SOUND_AND_VIDEO.split()}))
# Files that often lie between videos, such as subtitles. Audio files are not skipped but rejected,
# so that they are reported.
_BESIDE_VIDEOS = "ass bmp idx jpeg jpg nfo png srt sub tif tiff vtt webp"
NOT_VIDEOS = tuple(
    sorted({*NOT_IMAGES, *_BESIDE_VIDEOS.split()} - {*SOUND_AND_VIDEO.split(), "bin"})
)


def has_extension(name: str, extensions: Collection[str]) -> bool:
    """Return whether a name has one of the extensions (given without dot, in lower case)."""
    stem, dot, extension = name.rpartition(".")
    return bool(stem and dot) and extension.lower() in extensions


def may_be(key: str, leave_out: Collection[str]) -> bool:
    """Return whether a file may be a record, by its name. leave_out: extensions to leave out."""
    return _left_out(key.rpartition("/")[2], leave_out) is None


def _left_out(name: str, leave_out: Collection[str]) -> str | None:
    """Return why a file is left out by its name, None if it is not.

    leave_out: extensions to leave out; empty if the input names the files to read.
    """
    if has_extension(name, leave_out):
        return _VECTOR if has_extension(name, _VECTORS) else filter_reason(name)
    is_project = is_project_file if "txt" in leave_out else is_project_text  # among texts
    return "project file" if leave_out and is_project(name) else None


class LabelledFile(NamedTuple):
    """A file with the facts in its path, and ARCHIVE#OFFSET as its source in an archive.

    key: if a part of the path is the key of the record. columns: values of `Inputs.column_from`.
    """

    file: File
    label: str | None
    split: str | None
    group: str | None = None
    source: str | None = None
    key: str | None = None
    columns: tuple[str | None, ...] = ()


class RejectedFile(NamedTuple):
    """A file that is rejected when it is listed, with the label of its path."""

    reject: Reject
    label: str | None


def list_files(
    root: InputRoot,
    *,
    depth: int,
    others: Sequence[InputRoot] = (),
    alone: bool = True,
    skip: SkipRule = skipped_among_media,
) -> Iterator[WalkItem]:
    """Yield the files of an input, skipped paths and rejects; keys are relative to the input.

    depth, skip: as in `walk`. others: inputs that must not hold the same files. alone: whether
      this is the only input.

    Raises:
      ConfigError: another input holds one of the files, or this one of several holds none.
    """
    found = walk_input(root, skip, depth=depth)
    return found if alone else read_once(found, root, others)


def walk_files(
    inputs: Inputs,
    laid_out: Sequence[LaidOutInput],
    *,
    unlabelled: Unlabelled,
    leave_out: Collection[str],
    unused: Sequence[UnusedSplits | None],
    lists: SplitLists | None = None,
    on_skipped: Callable[[InputRoot, File], None] = lambda root, file: None,
    is_list: Callable[[InputRoot, File], bool] = lambda root, file: False,
    skip: SkipRule = skipped_among_media,
) -> Iterator[LabelledFile | SkippedPath | RejectedFile]:
    """Yield the files of inputs, skipped paths and rejects.

    Args:
      inputs: The inputs.
      laid_out: The same with the layouts of their paths.
      unlabelled: Whether files without a label are rejected.
      leave_out: Extensions to skip (without dot, in lower case). They do not apply to a file, nor
        to a pattern that ends in one of them.
      unused: Finders of `unused_splits`, one for each input; they get the paths of the files.
      lists: Lists that give the splits of the files.
      on_skipped: Called with each file of a folder or an archive that is skipped because of its
        extension, or because it is a list.
      is_list: Returns whether a file is a list of names. `lists` are always left out.
      skip: Returns why a file or folder is skipped because of its name, None if it is not.

    Raises:
      ConfigError: As `list_files`; or only folders below the top folders have names of splits; or
        no path gives a group.
    """
    leave_out = frozenset(leave_out)  # every file is looked up
    alone = len(laid_out) == 1
    labelled, grouped, divided = False, False, False
    first: list[str] = []
    values: set[int] = set()  # columns that have a value in a path
    for number, (one, finder) in enumerate(zip(laid_out, unused, strict=True)):
        root = one.root
        skipped = leave_out
        pattern = (root.pattern or "").rpartition("/")[2]
        named = root.file or has_extension(pattern, leave_out) or is_project_text(pattern)
        if named and one.archives is None:
            skipped = frozenset()
        others = [other.root for other in laid_out[:number]]
        facts_of = one.finder()
        # Objects are listed label by label, so that memory holds the objects of one label only.
        listed = list_files(root, depth=one.layout.depth, others=others, alone=alone, skip=skip)
        for item in listed if one.archives is None else one.archives.expand(listed):
            if isinstance(item, File | LabelledMember):
                member = item if isinstance(item, LabelledMember) else LabelledMember(item)
                item = member.file
                found = _classify(member, one, facts_of, unlabelled, skipped)
                if not isinstance(found, SkippedPath):
                    if (lists is not None and lists.is_list(item.path)) or is_list(root, item):
                        found = SkippedPath(_LIST)
                    else:
                        labelled = labelled or found.label is not None
                        if len(first) < EXAMPLES:
                            first.append(item.key)
                if isinstance(found, LabelledFile):
                    grouped = grouped or found.group is not None
                    divided = True  # or it would be rejected, as without a key
                    if found.columns:
                        values.update(n for n, one in enumerate(found.columns) if one is not None)
                    if finder is not None:
                        finder.see(item.key)
                    if lists is not None:
                        found = found._replace(split=lists.find(item.path, found.file.key))
                    if one.archives is not None:
                        found = found._replace(source=_lineage(item, root))
                elif isinstance(found, RejectedFile):
                    if lists is not None:
                        lists.see(found.reject.key)
                elif root.is_folder or one.archives is not None or found.reason == _LIST:
                    on_skipped(root, item)
                yield found
            elif isinstance(item, MisplacedMember):
                yield RejectedFile(_below(root, item.reject), None)
            elif isinstance(item, Reject):
                yield RejectedFile(_below(root, item), one.facts(item.key).label)
            else:
                yield item
        if finder is not None and (problem := finder.problem()) is not None:
            raise ConfigError(problem)
    layout = laid_out[0].layout
    of_path = layout.labels not in (None, "top") and LabelFiles.parse(layout.labels) is None
    must = unlabelled == "reject" and of_path
    refuse_no_facts(
        first,
        label=(layout.labels if must else None, labelled),
        group=(layout.groups, grouped),
        split=(layout.split_fact, divided),
        key=(layout.keys, divided),
        columns=inputs.column_from,
        given=values,
    )


def _below(root: InputRoot, reject: Reject) -> Reject:
    return dataclasses.replace(reject, key=root.prefix + reject.key)


def _classify(
    member: LabelledMember,
    laid_out: LaidOutInput,
    facts_of: Callable[[str], FileFacts],
    unlabelled: Unlabelled,
    leave_out: Collection[str],
) -> LabelledFile | SkippedPath | RejectedFile:
    file, given, expected = member
    name = file.key.rpartition("/")[2]
    if (reason := _left_out(name, leave_out)) is not None:
        return SkippedPath(reason)
    layout = laid_out.layout
    split, label, group, key, columns = facts_of(file.key)
    label = label if given is None else given
    label = None if label is not None and label.isspace() else label
    if laid_out.root.prefix:
        file = file._replace(key=laid_out.root.prefix + file.key)
    problem = file_problem(file)
    if problem is None and layout.splits is not None and split is None:
        problem = RejectCause(Reason.BAD_NAME, f"no split: expected {layout.form}")
    if problem is None and layout.keys is not None and key is None:
        problem = RejectCause(Reason.BAD_NAME, f"no key: expected {layout.keys} in the path")
    if problem is None and label is None and layout.labels is not None and unlabelled == "reject":
        problem = no_label(expected or layout.form)
    if problem is None and label is not None and (why := label_problem(label)):
        problem = RejectCause(Reason.BAD_NAME, why)
    if problem is not None:
        return RejectedFile(Reject(shown(file.key), "read", *problem), label)
    return LabelledFile(file, label, split, group, None, key, columns)


def _lineage(file: File, root: InputRoot) -> str | None:
    """Return ARCHIVE#OFFSET of a member of an archive, None for a file."""
    member = Member.of(file.path)
    if member is None:
        return None
    local = member.archive.startswith("/")
    path = member.archive if local else Location.parse(member.archive).path
    name = path.rpartition("/")[2] if root.archive else path[len(root.root.path) :].lstrip("/")
    return f"{root.prefix}{name}#{member.offset}"


def file_problem(file: File) -> RejectCause | None:
    """Return the problem of a file that is empty or whose name is not UTF-8, else None."""
    if not is_utf8(file.key):
        return _NOT_UTF8
    return None if file.size else EMPTY


def _skipped_beside_masks(name: str, *, patterns: Sequence[str] | None) -> str | None:
    """Return why a file or folder is skipped among images with masks or other annotations.

    Args:
      name: Name of the file or folder.
      patterns: As `FileTree.masks`.
    """
    if reason := skipped_beside_annotations(name):
        return reason
    if patterns is None:
        return "masks" if holds_masks_of_voc(name) else None
    named = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    return "masks" if named or holds_no_images(name) else None


RULES = LayoutRules(skip=skipped_among_media)


def check_numbers(laid_out: Sequence[LaidOutInput], numbers: NumberLabels | None) -> None:
    """Raise ConfigError if labels are numbers, and no path of an input gives a label."""
    if numbers is not None and all(one.layout.labels is None for one in laid_out):
        raise ConfigError(
            f"{option_name('label_type', numbers.label_type)}: no folder gives a number: name the"
            f" folders by the numbers, or add {option_name('label_from')} REGEX, whose first group"
            " matches the number in a path"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileTree:
    """Lists files as references. Follows symbolic links.

    Args:
      input: Path or URI of a folder, a pattern (`*`, `?`, `[...]`, `**` for folders), or a file; or
        several of them. Folders give split and label, also those that a pattern matches.
      unlabelled: Whether to reject or keep files without label if folders give labels.
      leave_out: Extensions of files to skip (without dot, in lower case). They do not apply if the
        input is a file, or a pattern that ends in one of them.
      labelled: Whether folders give labels.
      numbers: Converts labels to numbers to predict; None if labels are classes.
      companions: Files that other options read, such as masks, for which notes are made.
      masks: Names or patterns of folders of masks in the input, which are not read, nor are those
        with a usual name for masks; None if the input holds no masks.
      annotated: Whether masks or other annotations belong to the images. Folders in which they are
        drawn, such as `Visualization`, are then not read, nor are the masks of Pascal VOC.
      captioned: Whether files of captions belong to the images. A folder such as `images` beside
        one such as `captions` is then neither a class nor a split.
    """

    input: str | Inputs
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_IMAGES
    labelled: bool = True
    numbers: NumberLabels | None = None
    companions: tuple[Companion, ...] = ()
    masks: tuple[str, ...] | None = None
    annotated: bool = False
    captioned: bool = False

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_paths(self.input)

    @property
    def unique_keys(self) -> bool:
        """True if a key is a path."""
        return Inputs.of(self.input).key_from is None

    @property
    def has_archives(self) -> bool:
        """True if an input is an archive or holds archives."""
        return any(one.archives is not None for one in self._laid_out)

    @functools.cached_property
    def _laid_out(self) -> tuple[LaidOutInput, ...]:
        may_be_record = functools.partial(may_be, leave_out=self.leave_out)
        rules = dataclasses.replace(
            RULES,
            labelled=self.labelled,
            archived=may_be_record,
            skip=self._skip,
            skip_image_folders=self._has_masks,
            advise_masks="masks" in self.companions,
            captioned=self.captioned,
        )
        return lay_out(Inputs.of(self.input), rules)

    @property
    def _has_masks(self) -> bool:
        """True if the images have masks, in the input or elsewhere."""
        return self.masks is not None or (self.annotated and "masks" not in self.companions)

    @property
    def _skip(self) -> SkipRule:
        if not self.annotated:
            return skipped_among_media
        return functools.partial(_skipped_beside_masks, patterns=self.masks)

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files as references.

        Raises:
          ConfigError: the input has no usable file, or no path gives a number.
        """
        check_numbers(self._laid_out, self.numbers)
        kept = False
        first: Reject | None = None
        for part in self._list():
            if self.numbers is not None:
                part = self.numbers.convert_part(part, where="its path")
            kept |= part.rows is not None
            first = first or next(iter(part.rejects), None)
            yield part
        if not kept and first is not None:
            raise ConfigError(
                f"no file has a number to predict; the first: {first.key}: {first.detail}"
            )

    def _list(self) -> Iterator[ListingPart]:
        """Yield the files with the labels of their paths."""
        trees = [one.archives for one in self._laid_out if one.archives is not None]
        archived, sampled = bool(trees), any(one.has_samples for one in trees)
        inputs = Inputs.of(self.input)
        placed = archived or inputs.key_from is not None
        users = [pa.field(name, pa.string()) for name in inputs.column_from]
        schema = pa.schema([*(ARCHIVED if placed else COLUMNS), *users])
        found = ReferenceCollector(schema=schema)
        finder = CompanionFinder(Inputs.of(self.input), self.companions, sampled=sampled)
        unused = unused_splits(self._laid_out)
        lists = SplitLists.of(inputs)
        unread = UnreadLists(
            inputs,
            [one.root for one in self._laid_out],
            of_masks="masks" not in self.companions,
            beside="lists" in self.companions,
        )

        def skip(root: InputRoot, file: File) -> None:
            finder.skip(root, file)
            unread.skip(root, file)

        files = walk_files(
            inputs,
            self._laid_out,
            unlabelled=self.unlabelled,
            leave_out=self.leave_out,
            unused=unused,
            lists=lists,
            on_skipped=skip,
            skip=self._skip,
        )
        for one in files:
            if isinstance(one, LabelledFile):
                finder.add_record(one.file.key)
                unread.add_record(one.file.path)
                file, source = one.file, one.source
                if one.key is not None:
                    file, source = file._replace(key=one.key), source or file.key
                place = (source,) if placed else ()
                more = (*place, *one.columns)
                found.add(*file, *more, label=one.label, split=one.split, group=one.group)
            elif isinstance(one, SkippedPath):
                found.filter(one)
            else:
                found.add_reject(one.reject, one.label if self.numbers is None else None)
            if found.full:
                yield finder.seen(found.take())
        yield finder.seen(found.take())
        if not found.totals["rows"]:
            raise ConfigError(no_files_message(inputs, found) + finder.advice())
        on_layout = layout_notes(self._laid_out, labelled=self.labelled)
        splits = split_source(self._laid_out, inputs)
        noted = splits is None and not {"lists", "tables"}.isdisjoint(self.companions)
        on_lists = [*unread.notes()] if noted else []
        on_lists += [] if lists is None else lists.close(inputs)
        yield ListingPart(
            notes=(*on_layout, *finder.notes(), *unused_notes(unused), *on_lists),
            facts=InputFacts(split_source=splits),
        )


def layout_notes(laid_out: Sequence[LaidOutInput], *, labelled: bool) -> tuple[Note, ...]:
    """Return a note for each input whose files are all in one folder.

    labelled: whether folders give labels.
    """
    notes = []
    for one in laid_out:
        given = one.root.given.path
        if one.archives is not None and one.archives.common:
            text = f"all files in the archives of {given} are in the folder"
            text += f" {one.archives.common!r}, which is neither a class nor part of the keys"
            notes.append(Note("archives", text))
        elif one.archives is not None:
            if labelled and one.layout.labels is None and (why := one.archives.lost_classes):
                notes.append(Note("no-classes", f"{given}: {why}"))
        elif one.inner and one.layout.labels == "top":
            (only, *_), *_ = (path.split("/") for path in one.inner)
            some = ", ".join(one.inner[:3]) + (", ..." if len(one.inner) > 3 else "")
            if one.has_other_folders:
                text = f"{given} holds the folder {only!r}, which is a class, with"
                text += f" {len(one.inner)} folders in it ({some}), and folders with files only; if"
                text += f" the folders in {only!r} are classes, pass --label-from parent, or"
                text += f" --input {given}/{only}"
            else:
                place = one.inner[0].rpartition("/")[0]
                there = "it" if place == only else repr(place)
                text = f"{given} holds a single folder, {only!r}, which is the only class; if the"
                text += f" folders in {there} ({some}) are the classes, pass --input"
                text += f" {given}/{place}"
            notes.append(Note("no-classes", text))
    return tuple(notes)


def no_files_message(inputs: Inputs, found: ReferenceCollector) -> str:
    """Return the error message for inputs without usable files."""
    single = inputs.single
    if single is not None and split_pattern(Location.parse(single.path)) is not None:
        message = f"no usable file matches {inputs} ({found.summary() or 'no file matches'})"
    else:
        patterns = any(split_pattern(Location.parse(one.path)) for one in inputs.paths)
        nothing = "no file matches" if patterns else "it is empty"
        message = (
            f"found no usable file in {inputs} ({found.summary() or nothing}): expected "
            "LABEL/FILE, SPLIT/LABEL/FILE, or files directly in a folder without subfolders"
        )
    message += matched_folders(inputs)
    if (first := found.first_reject) is not None:
        message += f"; the first reject: {first.key}: {first.detail}"
    if found.totals["rejected as unlabelled"]:
        message += "; to use files without label, pass --unlabelled keep"
    if found.totals[f"left out as {TFRECORDS}"]:
        message += f"; {RECORDS}"
    if found.totals[f"left out as {_VECTOR}"]:
        message += f"; SVG is not a raster image: {RASTERIZE}"
    return message
