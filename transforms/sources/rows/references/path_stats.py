"""Status of the files that a listing names, also of members of archives.

A path through an archive, such as photos.zip/dog/1.jpg, names a member of it.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import posixpath
from collections.abc import Iterator, Sequence

from recordmill.errors import Reason, RecordError
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import call_with_retries, raise_storage_errors
from recordmill.transforms.model import limits
from recordmill.transforms.sources.archives.member_index import MemberIndex
from recordmill.transforms.sources.files.file_stat import EMPTY, FileStat, RejectCause, stat_local
from recordmill.transforms.sources.files.near_names import IN_FOLDER, NearFiles, difference
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive
from recordmill.transforms.sources.files.path_rules import PathRules
from recordmill.transforms.sources.files.walks import File

_CACHED = 1 << 17  # paths, at most
_LOOK_FOR = 16  # missing files whose folders are read
_MISSING = RejectCause(Reason.MISSING, "no such file")


class StatCache:
    """Cached status of the paths of a file list, as far as its rules allow them."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules
        self._known: dict[str, FileStat | RejectCause] = {}
        self._looked_for = 0  # missing files, in their folders
        self._near = NearFiles()
        self._archives: dict[Location, MemberIndex | RejectCause | None] = {}

    def stat(self, paths: Sequence[str]) -> list[FileStat | RejectCause]:
        """Return the status or the problem of each path. Queries each uncached path once."""
        if len(self._known) + len(paths) > _CACHED:
            self._known.clear()
        remote: dict[str, Location] = {}
        for path in paths:
            if path in self._known:
                continue
            try:
                place = self._rules.resolve(path)
            except RecordError as error:
                self._known[path] = RejectCause(error.reason, error.detail)
                continue
            if (member := self._member(place)) is not None:
                self._known[path] = member
            elif place.is_local:
                self._known[path] = self._with_similar(path, place, stat_local(place.path))
            else:
                remote[path] = place
        self._known.update(_stat_remote(remote))
        return [_with_hint(path, self._known[path]) for path in paths]

    def _with_similar(
        self, path: str, place: Location, found: FileStat | RejectCause
    ) -> FileStat | RejectCause:
        """Return the problem of a missing file, with the nearest file that exists.

        Only for the first files, because it reads the folders.
        """
        if found == _MISSING and self._looked_for < _LOOK_FOR:
            self._looked_for += 1
            if (near := self._near.find(place.path)) is not None:
                how = difference(near, place.path)
                fix = "correct the listing, or rename the file"
                if how == IN_FOLDER and path == place.name:
                    fix = f"name the folder {posixpath.dirname(near)!r} with"
                    fix += f" {option_name('input_root')}, or correct the listing"
                return _MISSING._replace(
                    detail=f"{_MISSING.detail}, but {near!r} exists, which differs in {how}: {fix}"
                )
        return found

    @property
    def archives(self) -> Iterator[tuple[Location, MemberIndex]]:
        """The archives that paths led through."""
        for place, index in self._archives.items():
            if isinstance(index, MemberIndex):
                yield place, index

    def _member(self, place: Location) -> FileStat | RejectCause | None:
        """Return the status of a member of an archive; None if no archive is on the path."""
        parts = place.path.split("/")
        for number, part in enumerate(parts[:-1], start=1):
            if not is_archive(part) and compressed_tar(part) is None:
                continue
            archive = dataclasses.replace(place, path="/".join(parts[:number]))
            if archive not in self._archives:
                self._archives[archive] = _open_archive(archive)
            index = self._archives[archive]
            if index is not None:
                name = "/".join(parts[number:])
                return index.find(name) if isinstance(index, MemberIndex) else index
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PathOptions:
    """Options of the paths in rows.

    Args:
      input_root: Folder or archive that relative paths refer to; by default the folder of the file
        with the rows.
      confine: Whether local paths must be inside that folder; for a listing only if `input_root`
        is given.
      stores: Object stores that URIs may name, beside those of the file and of `input_root`; with
        the options of their filesystems, which the URIs in rows must not have.
    """

    input_root: str | None = None
    confine: bool = True
    stores: tuple[str, ...] = ()

    def root_of(self, place: Location) -> Location:
        """Return the folder or archive of the relative paths in a file of rows."""
        return place.parent if self.input_root is None else Location.parse(self.input_root)

    def stats(self, place: Location, noun: str) -> StatCache:
        """Return a cache of the facts of files that rows name. noun: of the file with the rows."""
        by_default = self.input_root is None
        rules = PathRules.of(
            self.root_of(place),
            place,
            stores=self.stores,
            # Rows of a table hold their files, so users do not expect paths that lead elsewhere.
            confine=self.confine and not (by_default and noun == "listing"),
            root_name=f"the folder of the {noun}" if by_default else "--input-root",
            noun=noun,
        )
        return StatCache(rules)


def _with_hint(path: str, found: FileStat | RejectCause) -> FileStat | RejectCause:
    """Return the problem of a missing file with advice, if its path is oddly written."""
    if not isinstance(found, RejectCause) or found.reason is not Reason.MISSING:
        return found
    if path != path.strip():
        return found._replace(
            detail=f"{found.detail}: its path begins or ends with a space (--trim strips spaces)"
        )
    if "\\" in path:
        return found._replace(
            detail=f"{found.detail}; its path has backslashes, which were also read as /"
        )
    return found


def _stat_remote(places: dict[str, Location]) -> dict[str, FileStat | RejectCause]:
    if not places:
        return {}
    with concurrent.futures.ThreadPoolExecutor(limits.REQUESTS) as pool:
        return dict(zip(places, pool.map(_stat_object, places.values()), strict=True))


def _stat_object(place: Location) -> FileStat | RejectCause:
    with raise_storage_errors("access", place):
        found = call_with_retries(place.store.stat, place.path)
    if found is None:
        return RejectCause(Reason.MISSING, "no such file")
    if found.kind == "dir":
        return RejectCause(Reason.BAD_VALUE, "a folder: expected a file")
    return FileStat(str(place), found.size, found.mtime_ns) if found.size else EMPTY


def _open_archive(place: Location) -> MemberIndex | RejectCause | None:
    """Return the members of an archive, or why it cannot be read; None if it is no file."""
    found = stat_local(place.path) if place.is_local else _stat_object(place)
    if isinstance(found, RejectCause):
        return None
    if what := compressed_tar(place.name):
        return RejectCause(Reason.UNSUPPORTED, f"{shown(place)} {what}")
    return MemberIndex(File(place.name, found.path, found.size, found.mtime))
