"""Members of a zip, by its directory (PKWARE's APPNOTE.TXT), with its 64-bit extensions."""

from __future__ import annotations

import stat as modes
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from recordmill.errors import Reason
from recordmill.format.file_content import HEAD, TAR, identify
from recordmill.storage.members import LOCAL_HEADER, MOST_INFLATED, Method
from recordmill.transforms.sources.archives.archive_file import (
    ArchiveReader,
    ListedMember,
    MemberProblem,
    bad_name,
    damaged,
    is_member_name,
    not_listed,
)

_ENTRY = struct.Struct("<4sxBxxHHxxxxLLLHHHHxxLL")  # a file in the directory
_END = struct.Struct("<4sHHHHLLH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQHHLLQQQQ")
_MOST_COMMENT = 0xFFFF  # bytes
_UNKNOWN = 0xFFFFFFFF  # a 64-bit number is in the extra field instead
_EXTRA_64 = 1
_UNIX, _DOS = 3, 0  # systems that have made an entry
_METHODS: dict[int, Method] = {0: "stored", 8: "deflated"}
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_PATCH = 0x20
_UTF8 = 0x800


class _Directory(NamedTuple):
    """The directory: its first byte, its end, number of files. before: bytes before the archive."""

    start: int
    end: int
    files: int
    before: int


class _Entry(NamedTuple):
    """An entry of a directory. fields: those of `_ENTRY`."""

    fields: tuple[Any, ...]
    name: bytes
    extra: bytes


def zip_members(reader: ArchiveReader) -> Iterator[ListedMember | MemberProblem]:
    """Yield the files of a zip in the order of its directory, and its problems."""
    found = _find_directory(reader)
    if isinstance(found, MemberProblem):
        yield found
        return
    count = total = 0
    by_backslash: bool | None = None
    for entry in _entries(reader, found):
        if isinstance(entry, int):
            yield from _not_listed(found.files - count, f"its directory is damaged at byte {entry}")
            return
        fields, name, extra = entry
        _, system, flags, method, crc, length, size, named, _, _, _, mode, offset = fields
        size, length, offset = _wide(extra, size, length, offset)
        offset += found.before
        is_outside = offset + LOCAL_HEADER + length > found.start
        total += 0 if is_outside else LOCAL_HEADER + named + length
        if total > found.start:
            yield from _not_listed(found.files - count, "its files overlap")
            return
        count += 1
        member = _text(name, flags, system)
        if member is not None and "\\" in member and "/" not in member:
            if by_backslash is None:
                by_backslash = not _has_slashes(reader, found)
            member = member.replace("\\", "/") if by_backslash else member
        if member is None:
            yield bad_name(name, "the name is empty, too long, not UTF-8, or has a zero byte")
        elif member.endswith("/"):
            continue
        elif is_outside:
            text = "its place is outside of the archive: the directory is damaged"
            yield MemberProblem(member, Reason.CORRUPT, text)
        elif problem := _problem(flags, method, size, system, mode >> 16):
            yield MemberProblem(member, *problem)
        else:
            yield ListedMember(member, offset, length, size, _METHODS[method], crc)
    how = f"it declares {found.files} files, its directory has {count}"
    if count < found.files:
        yield from _not_listed(found.files - count, how)
    elif count > found.files:
        yield MemberProblem("", Reason.CORRUPT, f"the archive is damaged: {how}")


def _not_listed(files: int, how: str) -> Iterator[MemberProblem]:
    """Yield a problem for each of the files that cannot be listed. how: the archive is damaged."""
    those = f"{files} files are" if files > 1 else "the files after it are"
    yield from not_listed(files, f"the archive is damaged: {how}; {those} not listed")


def _find_directory(reader: ArchiveReader) -> _Directory | MemberProblem:
    tail_at = max(0, reader.size - _END.size - _MOST_COMMENT)
    tail = reader.read(tail_at, reader.size - tail_at)
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 and not reader.read(0, 2).startswith(b"PK"):
        return _not_a_zip(reader.read(0, HEAD))
    if place < 0 or len(tail) - place < _END.size:
        what = "it has no directory, which is at the end of a zip: it may be incomplete, copy it"
        return MemberProblem("", Reason.TRUNCATED, f"{what} again")
    _, disk, first, _, files, length, start, _ = _END.unpack_from(tail, place)
    end = tail_at + place
    locator = reader.read(max(0, end - _LOCATOR.size), _LOCATOR.size)
    if locator.startswith(b"PK\x06\x07") and len(locator) == _LOCATOR.size:
        _, _, at, _ = _LOCATOR.unpack(locator)
        # An archive may be appended to a program, which moves the record.
        for moved in (at, end - _LOCATOR.size - _END_64.size):
            record = reader.read(moved, _END_64.size) if 0 <= moved < reader.size else b""
            if record.startswith(b"PK\x06\x06") and len(record) == _END_64.size:
                _, _, _, _, disk, first, _, files, length, start = _END_64.unpack(record)
                end = moved
                break
        else:
            return damaged("the directory of the archive is damaged")
    if disk or first:
        what = "a part of a zip in several files: join them with zip -s 0"
        return MemberProblem("", Reason.UNSUPPORTED, what)
    if length > end or start > end - length:
        return damaged("the directory of the archive is damaged")
    return _Directory(end - length, end, files, end - length - start)


def _has_slashes(reader: ArchiveReader, found: _Directory) -> bool:
    """Return whether the name of any file has a `/`, which APPNOTE.TXT (4.4.17.1) demands.

    If none has, backslashes separate folders, as some programs for Windows write them.
    """
    return any(
        b"/" in entry.name and not entry.name.endswith(b"/")
        for entry in _entries(reader, found)
        if isinstance(entry, _Entry)
    )


def _entries(reader: ArchiveReader, found: _Directory) -> Iterator[_Entry | int]:
    """Yield the entries of a directory; the last one is its damaged byte if it is damaged."""
    at = found.start
    while at < found.end:
        entry = reader.read(at, _ENTRY.size)
        if len(entry) < _ENTRY.size or not entry.startswith(b"PK\x01\x02"):
            yield at
            return
        fields = _ENTRY.unpack(entry)
        named, extras, said = fields[7:10]
        rest = reader.read(at + _ENTRY.size, named + extras)
        yield _Entry(fields, rest[:named], rest[named:])
        at += _ENTRY.size + named + extras + said


def _not_a_zip(beginning: bytes) -> MemberProblem:
    text = "it is not a zip file: it neither begins as one, nor has the directory of one at its end"
    content = identify(beginning)
    if content is not None and content.noun == TAR:
        text = "it is a tar file: name it .tar"
    elif content is not None:
        text = f"it is {content}"
    return MemberProblem("", Reason.CORRUPT, text)


def _wide(extra: bytes, size: int, length: int, offset: int) -> tuple[int, int, int]:
    """Return the numbers with those that do not fit into 32 bits taken from the extra field."""
    if _UNKNOWN not in (size, length, offset):
        return size, length, offset
    at = 0
    while at + 4 <= len(extra):
        kind, bytes_ = struct.unpack_from("<HH", extra, at)
        if kind == _EXTRA_64:
            numbers = iter(
                struct.unpack_from(f"<{min(bytes_, len(extra) - at - 4) // 8}Q", extra, at + 4)
            )
            size, length, offset = (
                next(numbers, one) if one == _UNKNOWN else one for one in (size, length, offset)
            )
            break
        at += 4 + bytes_
    return size, length, offset


def _text(name: bytes, flags: int, system: int) -> str | None:
    """Return a name as text, None if it cannot be used."""
    if not is_member_name(name):
        return None
    try:
        text = name.decode()  # even without the flag for UTF-8, as most programs write it today
    except UnicodeDecodeError:
        if flags & _UTF8:
            return None
        text = name.decode("cp437")
    return text.replace("\\", "/") if system == _DOS and "/" not in text else text


def _problem(
    flags: int, method: int, size: int, system: int, mode: int
) -> tuple[Reason, str] | None:
    if flags & _ENCRYPTED:
        return Reason.UNSUPPORTED, "an encrypted file: pack it again without a password"
    if system == _UNIX and modes.S_IFMT(mode) not in (0, modes.S_IFREG):
        return Reason.UNSUPPORTED, "a link or a device, which is not followed"
    if method not in _METHODS or flags & _PATCH:
        text = f"compressed by method {method}: pack it again, stored or deflated"
        return Reason.UNSUPPORTED, text
    if _METHODS[method] == "deflated" and size > MOST_INFLATED:
        text = f"{size} bytes, and compressed files of more than {MOST_INFLATED} are not inflated"
        return Reason.TOO_LARGE, f"{text}: pack it again without compression (zip -0)"
    return None
