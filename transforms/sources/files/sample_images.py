"""Samples of WebDataset shards: several images, and texts beside them that are not read.

A sample consists of files that follow each other and have paths that are equal up to the first dot
of the name: `0001.jpg 0001.seg.png` (https://github.com/webdataset/webdataset).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping

import pyarrow as pa

from recordmill.notes import LeftUnread, Note, count_of, most_frequent

# Extensions of files that hold captions, transcripts or other data of the record beside them.
_TEXTS = frozenset(("txt", "json", "cls", "xml", "csv", "tsv", "srt", "vtt"))
LOSSLESS = (".png", ".gif", ".bmp", ".tif", ".tiff")  # formats that masks may have
_SHOWN = 4  # extensions in the note


def sample_name(path: str) -> str:
    """Return the path of a file up to the first dot of its name."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + name.partition(".")[0]


class SampleImages:
    """Counts samples with several images. Keys are given in the order of the archives."""

    def __init__(self) -> None:
        self._samples = 0
        self._extensions: Counter[str] = Counter()
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
        self._open = []

    def notes(self) -> tuple[Note, ...]:
        """Return the note on the samples with several images, if there are any."""
        self._close()
        if not self._samples:
            return ()
        found = [name for name, _ in most_frequent(self._extensions)]
        shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        samples = count_of(self._samples, "sample of the archives", "samples of the archives")
        text = (
            f"several images in {samples} ({shown}), each of which is a record: --mask-suffix reads"
            " one of them as masks, and --exclude-keys leaves some out"
        )
        return (Note("samples", text),)


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

    def notes(
        self, other_than: Collection[str], advice: Mapping[str, str] | None = None
    ) -> tuple[Note, ...]:
        """Return the note on texts that are not read.

        Args:
          other_than: Extensions to leave out.
          advice: What to do with texts, by their extension.
        """
        unread = LeftUnread()
        for extension, count in self._counts.items():
            if extension not in other_than:
                noun = f"sidecar .{extension} file"
                such = f"{self._examples[extension]}{(advice or {}).get(extension, '')}"
                unread.add("content", noun, such_as=such, count=count)
        return unread.notes()


def _extension(key: str) -> str:
    return key.rpartition(".")[2].lower()
