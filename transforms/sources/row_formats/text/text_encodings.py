"""Encodings of text files, which are read as UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

from recordmill.errors import ConfigError
from recordmill.format.file_content import HEAD, Content, identify
from recordmill.option_names import option_name
from recordmill.transforms.sources.row_formats.reading.row_format import UTF8, is_byte_searchable

_WIDE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_BEGIN = 16  # bytes by which UTF-16 is recognized
_LEAST_WIDE = 6  # bytes of non-ASCII characters in UTF-8 that are no coincidence
_BEYOND_ASCII = bytes(range(128, 256))
_INVALID = "recordmill.invalid"
# A lone surrogate, which no encoding decodes to: `to_utf8` encodes it as invalid UTF-8.
codecs.register_error(_INVALID, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


class Utf16Error(ConfigError):
    """A file that is read as UTF-8 seems to be UTF-16 or UTF-32."""


class NotTextError(ConfigError):
    """A file that is read as text holds other content.

    detail: the content, for a reject of the file.
    """

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"{where} is {detail}")
        self.detail = detail


def refuse_other_content(head: bytes, where: str) -> None:
    """Raise NotTextError if a file holds other content, by its first bytes. where: the file."""
    content = identify(head[:HEAD])
    if content is not None and content.kind != "text":
        raise NotTextError(where, str(content))


def other_text(text: str) -> Content | None:
    """Return the content of a text by its beginning, None if the format is unknown."""
    return identify(text[:HEAD].encode())


def to_utf8(data: bytes, encoding: str) -> bytes:
    """Convert text from another encoding. Undecodable bytes become invalid UTF-8."""
    return data.decode(encoding, _INVALID).encode(UTF8, "surrogatepass")


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def wide_encoding(head: bytes) -> str | None:
    """Return the encoding of text whose first bytes are those of UTF-16 or UTF-32, else None.

    Without a byte order mark, every other byte of the first characters has to be zero.
    """
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    first, second = set(head[:_BEGIN:2]), set(head[1:_BEGIN:2])
    if len(head) < _BEGIN or (0 in first) == (0 in second):
        return None
    return "utf-16-le" if second == {0} else "utf-16-be" if first == {0} else None


def holds_utf8(data: bytes, encoding: str) -> bool:
    """Return whether most of a text is UTF-8, although `encoding` has one byte per character.

    Other text hardly ever has several sequences of bytes that are valid characters of UTF-8.
    """
    return Utf8Evidence().holds(data, encoding)


class Utf8Evidence:
    """Counts of the non-ASCII bytes of texts, and of those that are characters of UTF-8."""

    def __init__(self) -> None:
        self._wide, self._every = 0, 0

    def holds(self, data: bytes, encoding: str) -> bool:
        """Add a text; return whether most of all texts so far is UTF-8, as `holds_utf8`."""
        if data.isascii() or encoding == UTF8 or not is_byte_searchable(encoding):
            return False
        self._wide += sum(map(len, _WIDE.findall(data)))
        self._every += len(data) - len(data.translate(None, _BEYOND_ASCII))
        return self._wide >= _LEAST_WIDE and self._wide > self._every / 2


def in_utf8(encoding: str, what: str) -> ConfigError:
    """Return the error for text in UTF-8 that is read in another encoding. what: the files."""
    return ConfigError(
        f"{option_name('encoding', encoding)}: the non-ASCII characters in {what} are UTF-8, and"
        " would be read as other characters: leave the option out; if only some files or rows have"
        " this encoding, convert them"
    )


def decoded_chunks(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the chunks of a text in UTF-8; see `to_utf8`."""
    decoder = codecs.getincrementaldecoder(encoding)(_INVALID)
    for chunk in chunks:
        if text := decoder.decode(chunk):
            yield text.encode(UTF8, "surrogatepass")
    if text := decoder.decode(b"", final=True):
        yield text.encode(UTF8, "surrogatepass")
