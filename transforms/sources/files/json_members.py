"""Streaming parser of large JSON, which yields the items of an array or of selected members."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

import orjson

from recordmill.errors import ConfigError
from recordmill.format.file_content import HEAD, identify

_CHUNK = 1 << 20  # minimum size of a read in bytes
_SPACE = " \t\n\r"
_NUMBER = 64  # characters after a number that prove that it is complete
_INNER = 4  # closing braces that are tried as the end of an object

Member = tuple[str, int | None, Any]


def iter_members(file: BinaryIO, wanted: Collection[str] | None, *, where: str) -> Iterator[Member]:
    """Yield (name, number, value) of the members of an object.

    A member that is a list yields its items with their index as number; any other member yields its
    value with None as number.

    Args:
      file: The file.
      wanted: Names of the members to yield; None yields all of them.
      where: The file, for messages.

    Raises:
      ConfigError: the file is not a JSON object; the message names the previous entry.
    """
    text = _JsonScanner(file, where)
    if text.next() != "{":
        content = identify(text.beginning())
        if content is not None and not content.is_json:
            raise ConfigError(f"{where} is {content}")
        raise ConfigError(f"{where}: expected a JSON object, which begins with {{: {text.shown()}")
    text.step()
    if text.next() == "}":
        return
    while True:
        name = text.value()
        if not isinstance(name, str) or text.next() != ":":
            raise text.broken()
        text.step()
        text.at_entry = name
        if text.next() == "[":
            for number, item in enumerate(_items(text)):
                text.at_entry = f"{name}[{number}]"
                if wanted is None or name in wanted:
                    yield name, number, item
        else:
            value = text.value()
            if wanted is None or name in wanted:
                yield name, None, value
        end = text.next()
        text.step()
        if end == "}":
            text.end()
            return
        if end != ",":
            raise text.broken()
        text.next()


def iter_items(file: BinaryIO, *, where: str) -> Iterator[Any]:
    """Yield the items of an array.

    Args:
      file: The file.
      where: The file, for messages.

    Raises:
      ConfigError: the file is not a JSON array; the message names the previous item, from 1.
    """
    text = _JsonScanner(file, where)
    if text.next() != "[":
        raise ConfigError(f"{where}: expected a JSON array, which begins with [: {text.shown()}")
    for number, item in enumerate(_items(text), 1):
        text.at_entry = f"item {number}"
        yield item
    text.end()


def _items(text: _JsonScanner) -> Iterator[Any]:
    text.step()
    if text.next() == "]":
        text.step()
        return
    while True:
        yield text.value()
        end = text.next()
        text.step()
        if end == "]":
            return
        if end != ",":
            raise text.broken()
        text.next()


class _JsonScanner:
    """Incremental scanner of a JSON file. at_entry: the last entry that was read."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file = file
        self._where = where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self.at_entry = ""

    def next(self) -> str:
        """Return the next character that is not a space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read(_CHUNK):
                return ""

    def beginning(self) -> bytes:
        """Return the first bytes of the text. Call it before characters are consumed."""
        return self._text[:HEAD].encode()

    def step(self) -> None:
        """Consume a character."""
        self._at += 1

    def end(self) -> None:
        """Raise ConfigError if characters other than spaces follow."""
        if self.next():
            raise self.broken()

    def value(self) -> Any:
        """Parse and consume the next value."""
        found = self._flat_object()
        return self._any_value() if found is None else found

    def _flat_object(self) -> dict[str, Any] | None:
        """Parse the next object fast, if it is complete and has few nested objects.

        Tries the next closing braces as its end: a prefix that is valid JSON is the whole object.
        This takes a fifth of the time of `_any_value`.
        """
        if not self._text.startswith("{", self._at):
            return None
        end = self._at
        for _ in range(_INNER):
            end = self._text.find("}", end) + 1
            if not end:
                return None
            try:
                value: dict[str, Any] = orjson.loads(self._text[self._at : end])
            except orjson.JSONDecodeError:
                continue
            self._at = end
            return value
        return None

    def _any_value(self) -> Any:
        size = _CHUNK
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except RecursionError as error:
                raise self.broken() from error
            except ValueError as error:
                if not self._read(size):
                    raise self.broken() from error
            else:
                # A number may continue in the next chunk.
                if end + _NUMBER <= len(self._text) or not self._read(size):
                    self._at = end
                    return value
            size *= 2  # so that a large value is not parsed once per chunk

    def _read(self, size: int) -> bool:
        """Read a chunk. Returns whether the file had more data."""
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        try:
            more = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self._where}: not UTF-8{self._after()}") from error
        self._text = self._text[self._at :] + more
        self._at = 0
        return True

    def broken(self) -> ConfigError:
        """Return the error for invalid JSON."""
        return ConfigError(f"{self._where}: invalid JSON{self._after()}: {self.shown()}")

    def shown(self) -> str:
        """Return the next characters, for messages."""
        rest = self._text[self._at : self._at + 30]
        return f"got {rest!r}" if rest else "got the end of the file"

    def _after(self) -> str:
        return f" at or after {self.at_entry}" if self.at_entry else ""
