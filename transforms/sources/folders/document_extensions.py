"""Notes and errors about files with other extensions among text documents."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self
from zlib import crc32

from recordmill.errors import ConfigError
from recordmill.notes import Note, count_of
from recordmill.option_names import option_name
from recordmill.transforms.sources.files.input_paths import Inputs

_USUAL = {"txt": 0, "text": 1, "md": 2}  # extensions of documents by preference
# Of annotations, markup, settings and programs, which seldom are documents beside texts.
_ANNOTATIONS = "a1 a2 ann conll conllu iob json lab lbl rel srt tag tags vtt xml"
_MARKUP = "bib css htm html js sh tex"
_SETTINGS = "cfg conf ini toml yaml yml"
_OTHERS = frozenset(f"{_ANNOTATIONS} {_MARKUP} {_SETTINGS}".split())
# Names of folders of annotations beside the folder of texts.
_ROLES = re.compile(r"(labels?|lbls?|lab|annotations?|annots?|annos?|ann|tags?|gt)", re.IGNORECASE)
_MOST = 1000  # extensions; names such as `alt.atheism.53421` have many
_HELD = 100_000  # most documents that are compared
_FILES_OF_NAME = 8  # if names have more files on average, the first documents are compared


class _KeySample:
    """Keys of documents: all, or if there are many, a sample by the hashes of their names."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._count = 0
        self._scale = 1  # names are in the sample if this divides their hashes
        self._is_full = False

    def add(self, key: str, name: str) -> None:
        """Add a key and its last part without extension."""
        self._count += 1
        if self._scale > 1 and crc32(name.encode("utf-8", "replace")) % self._scale:
            return
        if self._is_full:
            return
        self._keys.append(key)
        if len(self._keys) > _HELD:
            self._thin_out()

    def _thin_out(self) -> None:
        """Remove half of the names; if names have many files, let no more keys into the sample."""
        names = [_split(key)[1] for key in self._keys]
        self._is_full = len({*names}) < len(names) // _FILES_OF_NAME
        if not self._is_full:
            self._scale *= 2
            hashes = (crc32(name.encode("utf-8", "replace")) for name in names)
            pairs = zip(self._keys, hashes, strict=True)
            self._keys = [key for key, number in pairs if number % self._scale == 0]

    @property
    def scale(self) -> float:
        """Number of documents divided by the number in the sample."""
        return self._count / max(len(self._keys), 1)

    @property
    def keys(self) -> Sequence[str]:
        """The keys in the sample."""
        return self._keys

    def by_name(self, *, in_folder: bool) -> dict[str, dict[str, str]]:
        """Return {name: {extension: key}}. in_folder: whether names include folders."""
        found: dict[str, dict[str, str]] = {}
        for key in self._keys:
            folder, name, extension = _split(key)
            if in_folder:
                found.setdefault(f"{folder}/{name}", {}).setdefault(extension, key)
            elif extension in _USUAL or extension in _OTHERS:
                found.setdefault(name, {}).setdefault(extension, key)
        return found


def _split(key: str) -> tuple[str, str, str]:
    """Return the folder, the name without extension, and the extension in lower case."""
    folder, _, name = key.rpartition("/")
    stem, _, end = name.rpartition(".")
    return folder, stem, end.lower()


class _Pairs(NamedTuple):
    """Documents with the same name and different extensions.

    Attributes:
      number: Number of pairs, estimated if there are many files.
      most: Number of files with the more frequent of the two extensions.
      keep: The extension of the documents.
      other: The other extension.
      first: Keys of a pair.
    """

    number: int
    most: int
    keep: str
    other: str
    first: tuple[str, str]

    @classmethod
    def most_common(cls, sample: _KeySample, *, in_folder: bool) -> Self | None:
        """Return the pairs of the two most frequent extensions, None without pairs.

        Args:
          sample: Documents.
          in_folder: Whether the files of a pair are in one folder. If not, they are a text and its
            annotations.
        """
        pairs: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], tuple[str, str]] = {}
        counts: Counter[str] = Counter()
        for files in sample.by_name(in_folder=in_folder).values():
            counts.update(files.keys())
            keep = _texts(files)
            paired = files.keys() - {keep}
            if not in_folder:
                paired = paired & _OTHERS if keep in _USUAL else set()
            for other in sorted(paired):
                pairs[keep, other] += 1
                examples.setdefault((keep, other), (files[keep], files[other]))
        for pair, count in pairs.most_common(1):
            most = round(sample.scale * max(counts[one] for one in pair))
            one, other = sorted(examples[pair])
            return cls(round(sample.scale * count), most, *pair, (one, other))
        return None


class _FolderPairs(NamedTuple):
    """Pairs of documents whose paths differ only in a folder: of texts, or of annotations.

    Attributes:
      number: Number of pairs, estimated if there are many files.
      folder: The folder of the texts; its parents are `*`.
      levels: Number of folders around the text that is deepest.
      first: Keys of a pair.
    """

    number: int
    folder: str
    levels: int
    first: tuple[str, str]

    @classmethod
    def of(cls, sample: _KeySample) -> Self | None:
        """Return the pairs; None if most annotations have none, or if there are more folders."""
        annotations: dict[tuple[int, str], str] = {}  # {level of the folder, rest of the path: key}
        texts = []
        for key in sample.keys:
            names = key.split("/")
            at = next((n for n, one in enumerate(names[:-1]) if _ROLES.fullmatch(one)), None)
            if at is None:
                texts.append(names)
            else:
                annotations[at, "/".join([*names[:at], *names[at + 1 :]])] = key
        places = {at for at, _ in annotations}
        if len(places) != 1:
            return None
        (at,) = places
        folders = {names[at] for names in texts if at < len(names) - 1}
        if len(folders) != 1:
            return None  # several folders of texts are classes
        (folder,) = folders
        pairs = [
            (annotations[rest], "/".join(names))
            for names in texts
            if (rest := (at, "/".join([*names[:at], *names[at + 1 :]]))) in annotations
        ]
        if 2 * len(pairs) < len(annotations):
            return None
        levels = max(len(names) for names in texts) - 1
        number = round(sample.scale * len(pairs))
        return cls(number, "*/" * at + folder, levels, pairs[0])


class _Extension:
    """Summary of the documents with an extension.

    Attributes:
      first: Key of the first one.
      folder: Folder around all of them.
      last: Folder of the last one.
      depth: Most folders around one of them.
      count: Number of documents.
    """

    def __init__(self, first: str, folder: str) -> None:
        self.first, self.folder, self.last = first, folder, folder
        self.depth = first.count("/")
        self.count = 0

    def add_folder(self, folder: str) -> None:
        """Take the first of consecutive documents in a folder."""
        self.last = folder
        self.depth = max(self.depth, folder.count("/") + 1 if folder else 0)
        while self.folder and not f"{folder}/".startswith(f"{self.folder}/"):
            self.folder = self.folder.rpartition("/")[0]


class DocumentExtensions:
    """Counts documents by extension, and pairs of documents of the same name.

    A pair is a text and its annotations, in one folder or in two: `1.txt` and `1.ann`, or
    `texts/1.txt` and `annotations/1.ann`.
    """

    def __init__(self) -> None:
        self._found: dict[str, _Extension] = {}
        self._sample = _KeySample()

    def add(self, key: str) -> None:
        """Count a document by its key."""
        head, _, end = key.rpartition(".")
        folder, _, stem = head.rpartition("/")
        if not stem or "/" in end:
            return
        found = self._found.get(extension := end.lower())
        if found is None and len(self._found) < _MOST:
            found = self._found[extension] = _Extension(key, folder)
        if found is not None:
            found.count += 1
            if found.last != folder:
                found.add_folder(folder)
        if not extension.isdecimal():  # not the number of a document, as in `alt.atheism.53421`
            self._sample.add(key, stem)

    def notes(self, inputs: Inputs, *, of_folder: bool, archived: bool) -> list[Note]:
        """Return a note on files that are probably not meant as documents.

        Args:
          inputs: The input.
          of_folder: Whether the input is a folder or an archive, not a pattern.
          archived: Whether the documents are in archives, in which no pattern selects them.

        Raises:
          ConfigError: Most files of a folder have another one with the same name and another
            extension or folder, such as annotations.
        """
        if (apart := _FolderPairs.of(self._sample)) is not None:
            return self._notes_on_folders(apart, inputs, of_folder=of_folder, archived=archived)
        if len(self._found) < 2:
            return []
        found = _Pairs.most_common(self._sample, in_folder=True)
        in_others = _Pairs.most_common(self._sample, in_folder=False)
        folder = ""
        if in_others is not None and (found is None or 2 * found.number < in_others.number):
            found, folder = in_others, self._folder_of(in_others)
        if found is not None:
            one = found.number == 1
            if found is in_others:
                text = (
                    f"{count_of(found.number, f'.{found.keep} file')} in {inputs}"
                    f" {'has' if one else 'have'} the same {'name' if one else 'names'} as"
                    f" .{found.other} files in other folders"
                )
            else:
                text = (
                    f"{count_of(found.number, 'pair')} of files in {inputs}"
                    f" {'differs' if one else 'differ'} only in the extension"
                )
            text += f", such as {' and '.join(found.first)}"
            if archived:
                return [Note("extensions", f"{text}: all of them are documents")]
            option = self._pattern(inputs, found.keep, folder)
            if of_folder and 2 * found.number >= found.most:
                everything = self._pattern(inputs, None)
                raise ConfigError(
                    f"{text}: if only the .{found.keep} are documents, pass {option}; if both are,"
                    f" pass {everything}"
                )
            return [Note("extensions", f"{text}: {option} reads only the .{found.keep}")]
        counts = {extension: found.count for extension, found in self._found.items()}
        text = max(filter(counts.__contains__, _USUAL), key=counts.__getitem__, default="")
        others = sorted(_OTHERS.intersection(counts))
        others = [one for one in others if counts[one] < counts.get(text, 0)]
        if not others:
            return []
        way = f": {self._pattern(inputs, text)} reads only the .{text}" if not archived else ""
        some = ", ".join(f"{count_of(counts[one], f'.{one} file')}" for one in others)
        first = self._found[others[0]].first
        return [
            Note(
                "extensions",
                f"{some} among the documents of {inputs}, such as {first}, beside"
                f" {count_of(counts[text], f'.{text} file')}{way}",
            )
        ]

    def _notes_on_folders(
        self, pairs: _FolderPairs, inputs: Inputs, *, of_folder: bool, archived: bool
    ) -> list[Note]:
        """Return a note on annotations in a separate folder, as `notes`. Raises ConfigError."""
        text = (
            f"{count_of(pairs.number, 'pair')} of files in {inputs}"
            f" {'differs' if pairs.number == 1 else 'differ'} only in a folder, such as"
            f" {' and '.join(pairs.first)}"
        )
        if archived or not of_folder:
            return [Note("extensions", f"{text}: all of them are documents")]
        root = "FOLDER" if inputs.single is None else inputs.single.path.rstrip("/")
        only = f"{root}/{pairs.folder}"
        if "*" in pairs.folder:
            only += "/*" if pairs.levels == len(pairs.folder.split("/")) else "/**/*"
        raise ConfigError(
            f"{text}: if only the texts are documents, pass {option_name('input')}"
            f" {shlex.quote(only)}; if both are, pass {self._pattern(inputs, None)}"
        )

    def _folder_of(self, pairs: _Pairs) -> str:
        """Return the folder of the texts beside the folder of annotations; "" without one."""
        first, second = (key.split("/") for key in pairs.first)
        same = itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(first, second, strict=False)
        )
        around = self._found[pairs.keep].folder.split("/")
        return "/".join(around[: len([*same]) + 1])

    def _pattern(self, inputs: Inputs, extension: str | None, folder: str = "") -> str:
        """Return the option that reads files.

        Args:
          inputs: The input.
          extension: Extension of the files; None for all files.
          folder: Folder in the input that holds them.
        """
        only = inputs.single
        if only is not None and extension is not None and only.path.endswith("*"):
            return f"{option_name('input')} {shlex.quote(f'{only.path}.{extension}')}"
        root = "FOLDER" if only is None else only.path.rstrip("/")
        root = f"{root}/{folder}".rstrip("/")
        read = self._found.values() if extension is None else [self._found[extension]]
        levels = max(one.depth for one in read)
        deep = "**/*" if levels > len(folder.split("/")) * bool(folder) else "*"
        name = deep if extension is None else f"{deep}.{extension}"
        return f"{option_name('input')} {shlex.quote(f'{root}/{name}')}"


def _texts(extensions: Iterable[str]) -> str:
    """Return the extension that is most likely that of documents."""
    return min(extensions, key=lambda one: (_USUAL.get(one, len(_USUAL)), one in _OTHERS, one))
