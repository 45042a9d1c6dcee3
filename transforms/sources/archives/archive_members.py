"""Members of an archive of any format that is read."""

from __future__ import annotations

from collections.abc import Iterator

from recordmill.errors import Reason
from recordmill.transforms.sources.archives.archive_file import (
    ArchiveReader,
    ListedMember,
    MemberProblem,
)
from recordmill.transforms.sources.archives.tar_members import tar_members
from recordmill.transforms.sources.archives.zip_members import zip_members


def archive_members(reader: ArchiveReader) -> Iterator[ListedMember | MemberProblem]:
    """Yield the files of an archive in its order, and its problems.

    Raises:
      ConfigError: it is a compressed tar.
    """
    if not reader.size:
        yield MemberProblem("", Reason.EMPTY, "it is empty (0 bytes): copy it again")
        return
    yield from (zip_members if reader.is_zip else tar_members)(reader)
