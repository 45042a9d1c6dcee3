"""Listings of S3 in pages, by obstore; folders, and key ranges of large ones, in parallel.

Memory holds a bounded number of pages. It also holds the names directly in a folder, if that folder
holds other folders and more objects than a page.

obstore removes the slash at the end of a key. A marker, an object `a/b/` that stands for a folder,
then looks like the object `a/b`; its place in the order or a HEAD distinguishes them. obstore
accepts no keys such as `a//b`. The rest of such a folder is listed by pyarrow, and so is a folder
to which the store denies access, so that the errors are those of pyarrow.
"""

from __future__ import annotations

import array
import collections
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from recordmill.storage import storage_errors
from recordmill.storage.storage_errors import may_pass, raise_as_pyarrow
from recordmill.storage.stores import ArrowFiles, ListedPath, Lister, Page

if TYPE_CHECKING:
    from obstore.store import S3Store

_SIDE_BY_SIDE = 16  # listings, each of which requests its pages one after another
_AHEAD = 32  # pages of a listing in memory, about 80 bytes an object
_KEYS = 1000  # of a page
_PART = 8 * _KEYS  # objects of a key range, if folders hold fewer
_HEADS = 200  # HEAD requests of a listing, until empty objects with an extension count as files
_SKIPS = 8  # folders between files, until the rest is listed with a delimiter
_LAST = "\U0010ffff"  # sorts after all other characters


class _RefusedError(Exception):
    """obstore cannot list the rest of a folder."""


class KeyRange:
    """A range of the objects below a folder, in the order of their paths relative to it.

    after: path of the last object that was received; only those after it are listed. until: path of
    the last object to list; None for all. is_over: whether there are no more. is_empty: whether no
    object was received. markers: whether markers are yielded, as folders.
    """

    def __init__(
        self,
        client: S3Store,
        folder: str,
        *,
        after: str = "",
        until: str | None = None,
        markers: bool = False,
    ) -> None:
        self.after, self.until, self.is_over = after, until, False
        self.is_empty = True
        self._markers = markers
        self._client, self._folder = client, folder
        self._held: ListedPath | None = None  # the last object, which may prove to be a marker
        self._heads = 0

    def part(self, after: str, until: str | None) -> KeyRange:
        """Return another range of the same folder."""
        return KeyRange(self._client, self._folder, after=after, until=until)

    def pages(self) -> Iterator[Page]:
        """Yield pages. After a failure that may pass, continue behind the last object.

        Raises:
          _RefusedError: pyarrow has to list what is left.
        """
        import obstore

        pauses = iter(storage_errors.PAUSES)
        stream: Iterator[Sequence[Any]] | None = None
        while not self.is_over:
            try:
                if stream is None:
                    offset = _join(self._folder, self.after) if self.after else None
                    prefix = self._folder or None
                    stream = obstore.list(self._client, prefix, offset=offset, chunk_size=_KEYS)
                chunk = next(stream, ())
            except (OSError, ValueError, obstore.exceptions.BaseError) as error:
                _pause(error, pauses, operation="ListObjectsV2")
                stream = None
                continue
            pauses = iter(storage_errors.PAUSES)
            yield self._page(chunk)

    def skip(self, folder: str) -> None:
        """Leave out the rest of a folder in the listed one; `pages` must be called again."""
        self.after, self._held = f"{folder}/{_LAST}", None

    def finish(self, paths: Iterable[ListedPath]) -> Page:
        """Return those of all paths that `pages` has not yielded yet, and end the range."""
        after, held = self.after, self._held is not None
        self.is_over, self.is_empty = True, False
        return [
            one
            for one in paths
            if (place := f"{one.path}/" if one.is_folder else one.path) > after
            or (held and place == after)
            if self.until is None or place <= self.until
        ]

    def _page(self, chunk: Sequence[Any]) -> Page:
        page: Page = []
        start = len(self._folder) + 1 if self._folder else 0
        after, until, held = self.after, self.until, self._held
        is_over = len(chunk) < _KEYS
        path = ""
        for one in chunk:
            self.is_empty = False
            path, size = one["path"][start:], one["size"]
            if until is not None and path > until:
                is_over = True
                break
            if path <= after < f"{path}/":
                if self._markers and path:  # '' is the marker of the listed folder
                    page.append(ListedPath(path, 0, 0, is_folder=True))
                continue
            if held is not None:
                page += self._resolved(held, path)
            after = path
            held = ListedPath(path, size, int(one["last_modified"].timestamp()) * 10**9)
        if is_over and held is not None:
            page += self._resolved(held, path)
            held = None
        self.after, self._held, self.is_over = after, held, is_over
        return page

    def _resolved(self, one: ListedPath, following: str) -> Page:
        """Return an object, or the folder if it is a marker. following: the path after it."""
        if self._is_object(one, following):
            return [one]
        return [ListedPath(one.path, 0, 0, is_folder=True)] if self._markers else []

    def _is_object(self, one: ListedPath, following: str) -> bool:
        """Return whether an object is not a marker. following: the path after it."""
        is_folder = following.startswith(one.path) and following.startswith(f"{one.path}/")
        if one.size and not is_folder:
            return True
        if self._heads >= _HEADS and not is_folder and "." in one.path.rpartition("/")[2]:
            return True
        self._heads += 1
        import obstore

        pauses = iter(storage_errors.PAUSES)
        while True:
            try:
                obstore.head(self._client, _join(self._folder, one.path))
            except FileNotFoundError:
                return False
            except (OSError, ValueError, obstore.exceptions.BaseError) as error:
                try:
                    _pause(error, pauses, operation="HeadObject")
                except _RefusedError:
                    return not is_folder  # listing is allowed, and reading is not
            else:
                return True


def _pause(error: Exception, pauses: Iterator[float], *, operation: str) -> None:
    """Wait before a retry.

    Raises:
      OSError: the error is likely to pass, but has not passed.
      _RefusedError: any other error.
    """
    import obstore

    if isinstance(error, ValueError | obstore.exceptions.InvalidPathError):
        raise _RefusedError from error
    try:
        raise_as_pyarrow(error, operation)
    except OSError as converted:
        if not may_pass(converted):
            raise _RefusedError from error
        pause = next(pauses, None)
        if pause is None:
            raise
    time.sleep(pause)


def _join(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _tree_pages(key_range: KeyRange, files: ArrowFiles, folder: str) -> Iterator[Page]:
    """Yield the files of a key range."""
    is_part = bool(key_range.after)
    try:
        yield from key_range.pages()
    except _RefusedError:
        yield key_range.finish(files.list_folder(folder, recursive=True))
        return
    if key_range.is_empty and not is_part:
        yield files.list_folder(folder, recursive=True)  # raises the error for a missing folder


def _level_pages(key_range: KeyRange, files: ArrowFiles, folder: str) -> Iterator[Page]:
    """Yield the files and folders directly in a folder."""
    is_first, skips = True, 0
    folders: set[str] = set()

    def add_folder(name: str) -> Page:
        found = [] if name in folders else [ListedPath(name, 0, 0, is_folder=True)]
        folders.add(name)
        return found

    try:
        while not key_range.is_over and skips <= _SKIPS:
            for page in key_range.pages():
                name, slash, _ = key_range.after.partition("/")
                ends_below = bool(slash) and not key_range.is_over
                has_folders = ends_below or any("/" in one.path for one in page)
                if is_first and has_folders and not key_range.is_over:
                    yield files.list_folder(folder, recursive=False)
                    return
                is_first = False
                found: Page = []
                for one in page:
                    head, is_below, _ = one.path.partition("/")
                    found += add_folder(head) if is_below or one.is_folder else [one]
                yield found + add_folder(name) if ends_below else found
                if ends_below:
                    key_range.skip(name)
                    skips += 1
                    break
    except _RefusedError:
        skips = _SKIPS + 1
    if not key_range.is_over or (key_range.is_empty and not key_range.after):
        left = key_range.finish(files.list_folder(folder, recursive=False))
        yield [one for one in left if one.path not in folders or not one.is_folder]


class _Part:
    """Pages of a key range, some of which a thread requests ahead."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        key_range: KeyRange,
        pages: Iterator[Page],
        *,
        first: int | None,
        floor: int,
    ) -> None:
        self.key_range = key_range
        self.floor = floor  # depth of the folders at which the listing was cut into key ranges
        self._pool, self._pages = pool, pages
        self._is_stopped = False
        self.request(first)

    def request(self, most: int | None = None) -> None:
        self._future: Future[tuple[list[_Packed], bool]] = self._pool.submit(
            self._fetch, most or _AHEAD
        )

    def take(self) -> tuple[list[_Packed], bool]:
        """Return the requested pages, and whether there are no more."""
        return self._future.result()

    def stop(self) -> None:
        self._is_stopped = True

    def _fetch(self, most: int) -> tuple[list[_Packed], bool]:
        packed: list[_Packed] = []
        while len(packed) < most and not self._is_stopped:
            page = next(self._pages, None)
            if page is not None:
                packed.append(_Packed(page))
            if page is None or (self.key_range.is_over and not self.key_range.is_empty):
                return packed, True
        return packed, False


class _Packed:
    """A page in little memory."""

    def __init__(self, page: Page) -> None:
        paths, sizes, times, kinds = zip(*page, strict=True) if page else ((), (), (), ())
        self._paths = "\0".join(paths)
        self._sizes, self._times = array.array("q", sizes), array.array("q", times)
        self._kinds = bytes(kinds)

    def page(self) -> Page:
        paths = self._paths.split("\0") if self._sizes else ()
        kinds = map(bool, self._kinds)
        return [*map(ListedPath, paths, self._sizes, self._times, kinds)]


class S3Lister(Lister):
    """Lists folders in parallel. files: lists the rest with pyarrow."""

    ahead = _SIDE_BY_SIDE

    def __init__(self, client: S3Store, files: ArrowFiles) -> None:
        self._client, self._files = client, files
        self._pool = ThreadPoolExecutor(2 * _SIDE_BY_SIDE)  # folders, and as many key ranges
        self._parts: set[_Part] = set()

    def begin(self, folder: str, *, recursive: bool) -> Iterator[Page]:
        key_range = KeyRange(self._client, folder, markers=not recursive)
        list_pages = _tree_pages if recursive else _level_pages
        # The caller waits for the first listing, and may need no more than its first page.
        first = None if self._parts else 1
        part = self._begin(key_range, list_pages(key_range, self._files, folder), first=first)
        return self._in_order(part, folder) if recursive else self._rest(part)

    def close(self) -> None:
        for part in self._parts:
            part.stop()
        self._pool.shutdown(cancel_futures=True)

    def _begin(
        self,
        key_range: KeyRange,
        pages: Iterator[Page],
        *,
        first: int | None = None,
        floor: int = -1,
    ) -> _Part:
        part = _Part(self._pool, key_range, pages, first=first, floor=floor)
        self._parts.add(part)
        return part

    def _rest(self, part: _Part) -> Iterator[Page]:
        is_over = False
        while not is_over:
            packed, is_over = part.take()
            if is_over:
                self._parts.discard(part)
            else:
                part.request()
            yield from (one.page() for one in packed)

    def _in_order(self, part: _Part, folder: str) -> Iterator[Page]:
        """Yield the pages of a key range, which is cut into smaller ones after its first pages."""
        packed, is_over = part.take()
        page: Page = []
        for one in packed:
            page = one.page()
            yield page
        if is_over:
            self._parts.discard(part)
            return
        cuts = self._cuts(part, folder, page)
        until = part.key_range.until
        ends = [*(path for path, _ in cuts[1:]), until]
        if cuts:
            part.key_range.until = cuts[0][0]
        part.request()

        def begin(cut: tuple[str, int], end: str | None) -> _Part:
            key_range = part.key_range.part(cut[0], end)
            return self._begin(key_range, _tree_pages(key_range, self._files, folder), floor=cut[1])

        later = map(begin, cuts, ends)
        begun = collections.deque(itertools.islice(later, self.ahead))
        yield from self._rest(part)
        while begun:
            following = begun.popleft()
            yield from self._in_order(following, folder)
            begun.extend(itertools.islice(later, 1))

    def _cuts(self, part: _Part, folder: str, page: Page) -> list[tuple[str, int]]:
        """Return the folders at which to cut the rest of a key range, and their depths."""
        import obstore

        cuts: list[tuple[str, int]] = []
        last, until = part.key_range.after, part.key_range.until
        names = last.split("/")[:-1]
        for depth in range(len(names), max(part.floor, 0), -1):
            top = _join(folder, "/".join(names[: depth - 1])).rstrip("/")
            try:
                found = obstore.list_with_delimiter(self._client, top or None)
            except (OSError, ValueError, obstore.exceptions.BaseError):
                return []  # the rest is listed as one key range
            start = len(folder) + 1 if folder else 0
            # In the order of keys, and without slashes at their ends, as `offset` has none.
            paths = sorted(path[start:] for path in found["common_prefixes"])
            after = [path for path in paths if last < path and (until is None or path < until)]
            count = len({"/".join(one.path.split("/")[:depth]) for one in page})
            step = max(1, _PART * count // len(page)) if count > 1 else 1  # by their usual size
            cuts += [(path, depth) for path in after[::step]]
        return cuts
