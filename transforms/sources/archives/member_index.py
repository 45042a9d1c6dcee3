"""Index of the members of an archive by name, for listings that name members.

Members are kept in a temporary file, and hashes of their names in memory: 16 bytes per member.
"""

from __future__ import annotations

import array
import marshal
import tempfile
from collections.abc import Collection
from typing import BinaryIO, cast

import numpy as np
import xxhash

from recordmill.errors import Reason
from recordmill.storage.files import shown
from recordmill.transforms.sources.archives.archive_file import (
    ArchiveReader,
    ListedMember,
    MemberProblem,
    tidy_name,
)
from recordmill.transforms.sources.archives.archive_members import archive_members
from recordmill.transforms.sources.files.file_stat import EMPTY, FileStat, RejectCause
from recordmill.transforms.sources.files.walks import File, SkipRule

_SHOWN = 3  # names of members in a note


class MemberIndex:
    """The members of an archive, by name.

    If all members are in one folder, names may omit this folder.
    """

    def __init__(self, archive: File) -> None:
        self._archive = archive
        self._spool = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
        self._problem: RejectCause | None = None  # of the archive as a whole
        hashes, places = array.array("Q"), array.array("q")
        self._example = ""
        tops: set[str] = set()
        with ArchiveReader(archive) as reader:
            for one in archive_members(reader):
                name = tidy_name(one.name)
                if isinstance(one, MemberProblem) and not one.name:
                    self._problem = RejectCause(one.reason, f"{shown(archive.path)}: {one.detail}")
                if not name:
                    continue
                if isinstance(one, ListedMember):
                    self._example = self._example or name
                    top, *folders = name.split("/")
                    if len(tops) < 2:
                        tops.add(top if folders else "")
                hashes.append(_hash(name))
                places.append(self._spool.tell())
                plain = (
                    one if isinstance(one, ListedMember) else (name, one.reason.value, one.detail)
                )
                marshal.dump(tuple(plain), self._spool)
        found = np.frombuffer(hashes, np.uint64) if hashes else np.zeros(0, np.uint64)
        order = np.argsort(found, kind="stable")
        self._hashes = found[order]
        self._places = np.frombuffer(places, np.int64)[order] if places else order
        self._named = np.zeros(len(order), np.bool_)
        self._common = f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""

    def find(self, name: str) -> FileStat | RejectCause:
        """Return the status of a member, or why it cannot be read."""
        tidy = tidy_name(name)
        if not tidy:
            return RejectCause(Reason.BAD_VALUE, "a path that leads to no member of the archive")
        found = self._find(tidy)
        if not found and self._common:
            found = self._find(self._common + tidy)
        if len(found) > 1:
            what = f"{len(found)} files in the archive have this path: keep one of them"
            return RejectCause(Reason.BAD_NAME, what)
        if not found:
            where = f"no such file in {shown(self._archive.path)}"
            if self._problem is None:
                has = f", which has files such as {shown(self._example)!r}" if self._example else ""
                return RejectCause(Reason.MISSING, where + has)
            return self._problem._replace(
                detail=f"{where}, which is damaged: {self._problem.detail}"
            )
        (one,) = found
        if isinstance(one, MemberProblem):
            return RejectCause(one.reason, one.detail)
        if not one.size:
            return EMPTY
        return FileStat(one.at(self._archive).reference, one.size, self._archive.mtime)

    def _find(self, name: str) -> list[ListedMember | MemberProblem]:
        wanted = np.uint64(_hash(name))
        first = int(np.searchsorted(self._hashes, wanted, "left"))
        stop = int(np.searchsorted(self._hashes, wanted, "right"))
        found = []
        for at in range(first, stop):
            one = self._load(at)
            if tidy_name(one.name) == name:
                self._named[at] = True
                found.append(one)
        return found

    def _load(self, at: int) -> ListedMember | MemberProblem:
        self._spool.seek(int(self._places[at]))
        one = marshal.load(self._spool)
        if len(one) == len(ListedMember._fields):
            return ListedMember._make(one)
        return MemberProblem(one[0], Reason(one[1]), one[2])

    def unnamed(self, extensions: Collection[str], skip: SkipRule) -> tuple[int, list[str]]:
        """Return the number of members that `find` never found, and the first of their names.

        extensions: of the members to count, in lower case. skip: names that do not count.
        """
        count = 0
        first: list[str] = []
        for at in np.flatnonzero(~self._named).tolist():
            name = str(tidy_name(self._load(at).name))
            extension = name.rpartition("/")[2].rpartition(".")[2].lower()
            if extension in extensions and not any(map(skip, name.split("/"))):
                count += 1
                first = sorted([*first, name])[:_SHOWN]
        return count, first


def _hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogateescape"))
