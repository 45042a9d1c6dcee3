"""Members of a tar: ustar, GNU (long names, large sizes) and PAX headers (POSIX.1-2017, pax).

Only headers are read. Links, devices and sparse files are problems, and never followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from recordmill.errors import ConfigError, Reason
from recordmill.format.file_content import HEAD, identify
from recordmill.transforms.model import limits
from recordmill.transforms.sources.archives.archive_file import (
    ZIP_BEGINNINGS,
    ArchiveReader,
    ListedMember,
    MemberProblem,
    bad_name,
    damaged,
    is_member_name,
    not_listed,
)

_BLOCK = 512  # bytes
_ZEROS = bytes(_BLOCK)
_PADDING = 1 << 16  # bytes after the end that are looked at
_MOST_EXTENDED = 1 << 20  # bytes of a long name, or of extended headers
_FILES = b"0\x007"
_DATALESS = b"123456"  # types without data, whatever their headers declare
_NO_FILES = (b"5", b"D", b"V")  # folders, lists of folders of GNU's -g, and labels of volumes
_UNSUPPORTED = {
    b"1": "a hard link: only the file that it links to is read",
    b"2": "a symbolic link, which is not followed",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"M": "the rest of a file that begins in another volume",
    b"S": "a sparse file: pack it again without --sparse",
}


class _BadHeaderError(ValueError):
    """A header that violates the format."""


def tar_members(reader: ArchiveReader) -> Iterator[ListedMember | MemberProblem]:
    """Yield the files of a tar in its order, and its problems.

    Raises:
      ConfigError: it is compressed.
    """
    beginning = reader.read(0, HEAD)
    if beginning.startswith(ZIP_BEGINNINGS):
        yield MemberProblem("", Reason.CORRUPT, "it is a zip file: name it .zip")
        return
    content = identify(beginning)
    if content is not None and content.kind == "compressed":
        raise ConfigError(
            f"{reader.name} is compressed, though its name is that of a plain tar: decompress it"
        )
    at = files = 0
    extended: dict[str, bytes] = {}
    while True:
        header = reader.read(at, _BLOCK)
        if len(header) < _BLOCK:
            yield (None if at else _other_content(reader)) or _cut(at, header)
            return
        if header == _ZEROS:
            if any(reader.read(at, _PADDING)):
                where = f"data follow the end of the archive at byte {at}, as if two were joined"
                yield from _unlisted(where, at=at, size=reader.size, files=files)
            return
        try:
            kind, size = header[156:157], _declared_size(header)
            if kind in b"xgLK":
                _check_extended(size)
                data = reader.read(at + _BLOCK, size)
                if len(data) < size:
                    yield _cut(at, data)
                    return
                extended |= _read_extended(kind, data)
                at += _BLOCK + _padded(size)
                continue
            size = int(extended["size"]) if "size" in extended else size
            if size < 0:
                raise _BadHeaderError
        except ValueError:
            if not at and (problem := _other_content(reader)):
                yield problem
                return
            what = "it is not a tar file" if not at else f"there is no valid header at byte {at}"
            where = f"the archive is damaged: {what}"
            yield from _unlisted(where, at=at, size=reader.size, files=files)
            return
        start = at + _BLOCK
        name = extended.get("path") or _name(header)
        while kind == b"S" and header[482 if start == at + _BLOCK else 504]:
            header = reader.read(start, _BLOCK)  # the map of a sparse file may have several blocks
            if len(header) < _BLOCK:
                break
            start += _BLOCK
        end = start + (0 if kind in _DATALESS else size)
        if end > reader.size:
            yield _named(name, Reason.TRUNCATED, "the archive ends inside the file")
            yield _cut(at, b"")
            return
        sparse = any(one.startswith("GNU.sparse.") for one in extended)
        if kind not in _FILES or sparse:
            if kind not in _NO_FILES:
                other = f"a member of type {kind!r}"
                why = _UNSUPPORTED.get(b"S" if sparse else kind, other)
                yield _named(name, Reason.UNSUPPORTED, why)
        elif not (kind == b"\0" and name.endswith(b"/")):  # a folder, before ustar
            yield _listed(name, start, size)
            files += 1
        extended = {}
        at = start + _padded(end - start)


def _listed(name: bytes, offset: int, size: int) -> ListedMember | MemberProblem:
    if not is_member_name(name):
        return bad_name(name, "the name is empty, too long, or has a zero byte")
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return bad_name(name, "the name is not UTF-8: rename it")
    return ListedMember(text, offset, size, size, "tar", 0)


def _named(name: bytes, reason: Reason, detail: str) -> MemberProblem:
    return MemberProblem(bad_name(name, "").name, reason, detail)


def _other_content(reader: ArchiveReader) -> MemberProblem | None:
    """Return the problem of a file whose first header is invalid; None for unknown content."""
    content = identify(reader.read(0, HEAD))
    return None if content is None else MemberProblem("", Reason.CORRUPT, f"it is {content}")


def _cut(at: int, rest: bytes) -> MemberProblem:
    where = "inside a header" if rest else "without the blocks that mark its end"
    advice = "an unknown number of files may be missing: copy it again"
    text = f"the archive ends {where} at byte {at}: {advice}"
    return MemberProblem("", Reason.TRUNCATED, text)


def _unlisted(where: str, *, at: int, size: int, files: int) -> Iterator[MemberProblem]:
    """Yield a problem for each file that the rest of an archive may hold.

    at: bytes before the rest. size: of the archive. files: number of those before the rest.
    """
    if not at:
        yield damaged(where)
        return
    lost = min(max(round((size - at) * files / at), 1), limits.PART_ROWS)
    about = f", about {lost} files," if lost > 1 else ""
    text = f"{where}: the last {size - at} bytes{about} are not listed"
    yield from not_listed(lost, text)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _declared_size(header: bytes) -> int:
    """Return the size of the data in bytes. Raises ValueError for an invalid header."""
    expected = _number(header[148:156])
    total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if total != expected:
        raise _BadHeaderError
    return _number(header[124:136])


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU: binary, for 8 GiB and more
        if field[0] != 0x80:
            raise _BadHeaderError
        return int.from_bytes(field[1:])
    number = int(field.split(b"\0", 1)[0].strip() or b"0", 8)
    if number < 0:  # it would lead back to an earlier header
        raise _BadHeaderError
    return number


def _name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0]
    return b"%s/%s" % (prefix, name) if header[257:263] == b"ustar\0" and prefix else name


def _check_extended(size: int) -> None:
    if size > _MOST_EXTENDED:
        raise _BadHeaderError


def _read_extended(kind: bytes, data: bytes) -> dict[str, bytes]:
    """Return the fields of an extended header, which the next member has. Raises ValueError."""
    if kind == b"L":
        return {"path": data.split(b"\0", 1)[0]}
    if kind != b"x":  # names of links, and headers for all members, which cannot name files
        return {}
    found: dict[str, bytes] = {}
    at = 0
    while at < len(data) and data[at]:
        length, space, _ = data[at : at + 20].partition(b" ")
        end = at + int(length)
        record = data[at + len(length) + 1 : end - 1]
        if not space or end > len(data) or end <= at + len(length) + 1:
            raise _BadHeaderError
        name, _, value = record.partition(b"=")
        found[name.decode("utf-8", "replace")] = value
        at = end
    return found
