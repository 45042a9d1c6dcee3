"""Samples of WebDataset shards: several images, and texts beside them that are not read.

A sample consists of files that follow each other and have paths that are equal up to the first dot
of the name: `0001.jpg 0001.seg.png` (https://github.com/webdataset/webdataset).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection

import pyarrow as pa

from recordmill.notes import LeftUnread, Note, count_of
from recordmill.transforms.sources.files.input_paths import Inputs

# Extensions of files that hold captions, transcripts or other data of the record beside them.
_TEXTS = frozenset(("txt", "json", "cls", "xml", "csv", "tsv", "srt", "vtt"))
LOSSLESS = (".png", ".gif", ".bmp", ".tif", ".tiff")  # formats that masks may have
_SHOWN = 4  # files and extensions in the note


def sample_name(path: str) -> str:
    """Return the path of a file up to the first dot of its name."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + name.partition(".")[0]


class SampleImages:
    """Counts samples with several images. Keys are given in the order of the archives."""

    def __init__(self) -> None:
        self._samples = 0
        self._extensions: Counter[str] = Counter()
        self._example: list[str] = []
        self._stem = ""
        self._open: list[str] = []  # images of the last sample, which may continue

    def see(self, keys: pa.Array) -> None:
        """Take the keys of images."""
        for stem, some in itertools.groupby(keys.to_pylist(), sample_name):
            if stem != self._stem:
                self._close()
                self._stem = stem
            self._open += some

    def _close(self) -> None:
        if len(self._open) > 1:
            self._samples += 1
            self._extensions.update(key[len(self._stem) :] for key in self._open)
            self._example = self._example or self._open[:_SHOWN]
        self._open = []

    def note(self, inputs: Inputs) -> Note | None:
        """Return a note on the samples with several images, None without one."""
        self._close()
        if not self._samples:
            return None
        several = "has" if self._samples == 1 else "have"
        *others, last = self._example
        found = sorted(self._extensions, key=lambda one: (-self._extensions[one], one))
        shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        return Note(
            "samples",
            f"{count_of(self._samples, 'sample')} of the archives {several} several images, such as"
            f" {', '.join(others)} and {last} (extensions {shown}): each image is a record with"
            " the class of its sample, and images of a sample may be in different splits."
            f" {self._masks(found, inputs)}--exclude-keys FILE leaves out the images whose keys"
            " are in FILE",
        )

    def _masks(self, extensions: list[str], inputs: Inputs) -> str:
        """Return the option that reads images as masks, if one of two extensions may be of masks.

        Masks that are among the images need a single input without a pattern.
        """
        only = inputs.single
        ends = [one.rpartition(".") for one in extensions]
        may_be = [end for end in ends if end[0] and f".{end[2]}".lower() in LOSSLESS]
        if only is None or set(only.path) & set("*?[") or len(ends) != 2 or len(may_be) != 1:
            return ""
        (mask,) = may_be
        (image,) = (end[0] for end in ends if end != mask)
        suffix = f"{image}={mask[0]}" if image else mask[0]
        return (
            f"If the files {''.join(mask)} are masks, --masks {only.path.rstrip('/')} --mask-suffix"
            f" {suffix} reads them as masks; "
        )


class SidecarTexts:
    """Counter of texts that share the name of a record beside them, and are not read.

    Files are given in sorted order, or in that of the archives.
    """

    def __init__(self) -> None:
        self._record = ""  # key of the last record
        self._before: list[str] = []  # texts of one sample, before its record
        self._counts: Counter[str] = Counter()  # by extension
        self._examples: dict[str, str] = {}

    def add_record(self, key: str) -> None:
        """Take the key of a record."""
        self._record = key
        if self._before:
            if sample_name(self._before[0]) == sample_name(key):
                for one in self._before:
                    self._count(one)
            self._before = []

    def add_skipped(self, key: str) -> None:
        """Take the key of a file that is not read."""
        if _extension(key) not in _TEXTS:
            return
        name = sample_name(key)
        if sample_name(self._record) == name:
            self._count(key)
            return
        if self._before and sample_name(self._before[0]) != name:
            self._before = []
        self._before.append(key)

    def _count(self, key: str) -> None:
        extension = _extension(key)
        self._counts[extension] += 1
        self._examples.setdefault(extension, key)

    def notes(self, other_than: Collection[str]) -> tuple[Note, ...]:
        """Return the note on texts that are not read. other_than: extensions to leave out."""
        unread = LeftUnread()
        for extension, count in self._counts.items():
            if extension not in other_than:
                noun = f"sidecar .{extension} file"
                unread.add("content", noun, such_as=self._examples[extension], count=count)
        return unread.notes()


def _extension(key: str) -> str:
    return key.rpartition(".")[2].lower()
