"""Notes and errors about files with other extensions among text documents."""

from __future__ import annotations

import shlex
from collections import Counter

from recordmill.errors import ConfigError
from recordmill.notes import Note, count_of
from recordmill.option_names import option_name
from recordmill.transforms.sources.files.input_paths import Inputs

_TEXTS = ("txt", "text", "md")
# Of annotations, markup, settings and programs, which seldom are documents beside texts.
_ANNOTATIONS = "a1 a2 ann conll conllu iob json lab lbl rel srt tag tags vtt xml"
_MARKUP = "bib css htm html js sh tex"
_SETTINGS = "cfg conf ini toml yaml yml"
_OTHERS = frozenset(f"{_ANNOTATIONS} {_MARKUP} {_SETTINGS}".split())
_MOST = 1000  # extensions; names such as `alt.atheism.53421` have many


class DocumentExtensions:
    """Counts documents by extension, and pairs of documents that differ only in it.

    Keys come in the order of a listing, in which such files follow each other.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}  # {extension: key}
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], tuple[str, str]] = {}
        self._last = "", "", ""  # stem, extension, key

    def add(self, key: str) -> None:
        """Count a document by its key."""
        folder, slash, name = key.rpartition("/")
        stem, dot, end = name.rpartition(".")
        stem, extension = f"{folder}{slash}{stem}", end.lower()
        if not stem or not dot:
            return
        if extension in self._counts or len(self._counts) < _MOST:
            self._counts[extension] += 1
            self._first.setdefault(extension, key)
        before, other, key_before = self._last
        if before == stem and other != extension:
            pair = (min(other, extension), max(other, extension))
            self._pairs[pair] += 1
            self._examples.setdefault(pair, (key_before, key))
        self._last = stem, extension, key

    def notes(self, inputs: Inputs, *, of_folder: bool, archived: bool) -> list[Note]:
        """Return a note on files that are probably not meant as documents.

        Args:
          inputs: The input.
          of_folder: Whether the input is a folder or an archive, not a pattern.
          archived: Whether the documents are in archives, in which no pattern selects them.

        Raises:
          ConfigError: Most files of a folder have another one beside them that differs by its
            extension alone, such as annotations.
        """
        for (one, other), count in self._pairs.most_common(1):
            first, second = self._examples[one, other]
            differ = "differs" if count == 1 else "differ"
            text = (
                f"{count_of(count, 'pair')} of files in {inputs} {differ} by the extension alone,"
                f" such as {first} and {second}"
            )
            keep = self._texts(one, other)
            if archived:
                return [Note("extensions", f"{text}: all of them are documents")]
            option = self._pattern(inputs, keep)
            if of_folder and 2 * count >= max(self._counts[one], self._counts[other]):
                everything = self._pattern(inputs, None)
                raise ConfigError(
                    f"{text}: if only the .{keep} are documents, pass {option}; if both are, pass"
                    f" {everything}"
                )
            return [Note("extensions", f"{text}: {option} reads only the .{keep}")]
        found = [one for one in _TEXTS if one in self._counts]
        others = sorted(_OTHERS.intersection(self._counts))
        text = max(found, key=self._counts.__getitem__, default="")
        others = [one for one in others if self._counts[one] < self._counts[text]]
        if not others:
            return []
        way = f": {self._pattern(inputs, text)} reads only the .{text}" if not archived else ""
        some = ", ".join(f"{count_of(self._counts[one], f'.{one} file')}" for one in others)
        return [
            Note(
                "extensions",
                f"{some} among the documents of {inputs}, such as {self._first[others[0]]}, beside"
                f" {count_of(self._counts[text], f'.{text} file')}{way}",
            )
        ]

    def _texts(self, *extensions: str) -> str:
        """Return the extension that is most likely that of documents."""
        usual = [one for one in _TEXTS if one in extensions]
        return (usual or sorted(extensions, key=lambda one: (one in _OTHERS, one)))[0]

    def _pattern(self, inputs: Inputs, extension: str | None) -> str:
        """Return the option that reads the files of an extension, or all files."""
        only = inputs.single
        folder = "FOLDER" if only is None else only.path.rstrip("/")
        deep = "**/*" if any("/" in key for key in self._first.values()) else "*"
        name = deep if extension is None else f"{deep}.{extension}"
        return f"{option_name('input')} {shlex.quote(f'{folder}/{name}')}"
