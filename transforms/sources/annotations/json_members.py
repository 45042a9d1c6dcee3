"""What a large JSON object holds, item by item: nothing of it is kept but what is asked for."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

import orjson

from recordmill.errors import ConfigError

_CHUNK = 1 << 20  # bytes read at a time, at least
_SPACE = " \t\n\r"
_NUMBER = 64  # characters after a value, so that it is sure to be whole
_INNER = 4  # ends of objects that are tried as that of the one that begins

Member = tuple[str, int | None, Any]


def members(file: BinaryIO, wanted: Collection[str], *, where: str) -> Iterator[Member]:
    """(name, number, value) of the members of an object that are wanted: of a list its items, which
    have a number, and of any other the value.

    where: the file, for messages.

    Raises:
      ConfigError: it is no JSON, or no object; the message names the entry before.
    """
    text = _Text(file, where)
    if text.next() != "{":
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
                if name in wanted:
                    yield name, number, item
        else:
            value = text.value()
            if name in wanted:
                yield name, None, value
        end = text.next()
        text.step()
        if end == "}":
            return
        if end != ",":
            raise text.broken()
        text.next()


def _items(text: _Text) -> Iterator[Any]:
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


class _Text:
    """The characters of a file, as far as they are needed. at_entry: the last that was read."""

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
        """The next character that is no space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read(_CHUNK):
                return ""

    def step(self) -> None:
        self._at += 1

    def value(self) -> Any:
        """The value that begins here."""
        found = self._flat_object()
        return self._any_value() if found is None else found

    def _flat_object(self) -> dict[str, Any] | None:
        """The object that begins here, if it is all there and has few others in it: in a fifth of
        the time. What begins as an object and is JSON up to one of its braces, ends there.
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
                # Of a number more digits may follow.
                if end + _NUMBER <= len(self._text) or not self._read(size):
                    self._at = end
                    return value
            size *= 2  # or a value of many chunks would be parsed as many times

    def _read(self, size: int) -> bool:
        """Reads on; whether there was more."""
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
        """What to raise where the text is no JSON."""
        return ConfigError(f"{self._where}: no JSON{self._after()}: {self.shown()}")

    def shown(self) -> str:
        """What stands here."""
        rest = self._text[self._at : self._at + 30]
        return f"got {rest!r}" if rest else "it ends there"

    def _after(self) -> str:
        return f" at or after {self.at_entry}" if self.at_entry else ""
