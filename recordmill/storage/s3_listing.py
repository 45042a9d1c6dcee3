"""Listings of S3 in pages, by obstore; folders, and parts of large ones, are listed side by side.

Memory holds a bounded number of pages. It also holds what is directly in a folder, if that folder
holds other folders and is too large for a page.

obstore removes the slash at the end of a key. A marker, an object `a/b/` that stands for a folder,
then looks like the object `a/b`; its place in the order or a HEAD distinguishes them. obstore
accepts no keys such as `a//b`. The rest of such a folder is listed by pyarrow, and so is a folder
that obstore may not list, so that the errors are those of pyarrow.
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
from recordmill.storage.stores import ArrowFiles, Listed, Lister, Page

if TYPE_CHECKING:
    from obstore.store import S3Store

_SIDE_BY_SIDE = 16  # listings, each of which requests its pages one after another
_AHEAD = 32  # pages of a listing in memory, about 80 bytes an object
_KEYS = 1000  # of a page
_PART = 8 * _KEYS  # objects of a part, if a folder has fewer
_HEADS = 200  # requests of a listing for empty objects whose names have an extension
_SKIPS = 8  # folders between files, until the folder is listed by its delimiter
_LAST = "\U0010ffff"  # sorts after all other characters


class _RefusedError(Exception):
    """obstore cannot list the rest of a folder."""


class Chain:
    """Objects below a folder, by their paths relative to it, in this order.

    after: path of the last object that was received; only those after it are listed. until: path of
    the last object to list; None for all. is_over: whether there are no more. markers: whether
    markers are yielded, as folders.
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
        self._held: Listed | None = None  # the last object, which may prove to be a marker
        self._heads = 0

    def part(self, after: str, until: str | None) -> Chain:
        """Return the listing of a part."""
        return Chain(self._client, self._folder, after=after, until=until)

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
        """Leave out what follows in a folder; `pages` must be called again."""
        self.after, self._held = f"{folder}/{_LAST}", None

    def finish(self, paths: Iterable[Listed]) -> Page:
        """Return the paths that this listing has not yielded yet, and end it."""
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
                    page.append(Listed(path, 0, 0, is_folder=True))
                continue
            if held is not None:
                page += self._judged(held, path)
            after = path
            held = Listed(path, size, int(one["last_modified"].timestamp()) * 10**9)
        if is_over and held is not None:
            page += self._judged(held, path)
            held = None
        self.after, self._held, self.is_over = after, held, is_over
        return page

    def _judged(self, one: Listed, following: str) -> Page:
        if self._is_object(one, following):
            return [one]
        return [Listed(one.path, 0, 0, is_folder=True)] if self._markers else []

    def _is_object(self, one: Listed, following: str) -> bool:
        """Return whether an object is no marker. following: the path after it."""
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


def _tree_pages(chain: Chain, files: ArrowFiles, folder: str) -> Iterator[Page]:
    """Yield the files of a listing."""
    is_part = bool(chain.after)
    try:
        yield from chain.pages()
    except _RefusedError:
        yield chain.finish(files.list_folder(folder, recursive=True))
        return
    if chain.is_empty and not is_part:
        yield files.list_folder(folder, recursive=True)  # raises the error for a missing folder


def _level_pages(chain: Chain, files: ArrowFiles, folder: str) -> Iterator[Page]:
    """Yield the files and folders directly in a folder."""
    is_first, skips = True, 0
    folders: set[str] = set()

    def add_folder(name: str) -> Page:
        found = [] if name in folders else [Listed(name, 0, 0, is_folder=True)]
        folders.add(name)
        return found

    try:
        while not chain.is_over and skips <= _SKIPS:
            for page in chain.pages():
                name, slash, _ = chain.after.partition("/")
                ends_below = bool(slash) and not chain.is_over
                has_folders = ends_below or any("/" in one.path for one in page)
                if is_first and has_folders and not chain.is_over:
                    yield files.list_folder(folder, recursive=False)
                    return
                is_first = False
                found: Page = []
                for one in page:
                    head, is_below, _ = one.path.partition("/")
                    found += add_folder(head) if is_below or one.is_folder else [one]
                yield found + add_folder(name) if ends_below else found
                if ends_below:
                    chain.skip(name)
                    skips += 1
                    break
    except _RefusedError:
        skips = _SKIPS + 1
    if not chain.is_over or (chain.is_empty and not chain.after):
        left = chain.finish(files.list_folder(folder, recursive=False))
        yield [one for one in left if one.path not in folders or not one.is_folder]


class _Part:
    """Pages of a listing, of which a thread requests some ahead."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        chain: Chain,
        pages: Iterator[Page],
        *,
        first: int | None,
        floor: int,
    ) -> None:
        self.chain = chain
        self.floor = floor  # number of parts in the paths of the folders that it was cut by
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
            if page is None or (self.chain.is_over and not self.chain.is_empty):
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
        return [*map(Listed, paths, self._sizes, self._times, kinds)]


class S3Lister(Lister):
    """Lists folders side by side. files: lists with pyarrow."""

    ahead = _SIDE_BY_SIDE

    def __init__(self, client: S3Store, files: ArrowFiles) -> None:
        self._client, self._files = client, files
        self._pool = ThreadPoolExecutor(2 * _SIDE_BY_SIDE)  # as many for parts of folders
        self._parts: set[_Part] = set()

    def begin(self, folder: str, *, recursive: bool) -> Iterator[Page]:
        chain = Chain(self._client, folder, markers=not recursive)
        list_pages = _tree_pages if recursive else _level_pages
        # The caller waits for the first listing, and may need no more than its first page.
        first = None if self._parts else 1
        part = self._begin(chain, list_pages(chain, self._files, folder), first=first)
        return self._in_order(part, folder) if recursive else self._rest(part)

    def close(self) -> None:
        for part in self._parts:
            part.stop()
        self._pool.shutdown(cancel_futures=True)

    def _begin(
        self, chain: Chain, pages: Iterator[Page], *, first: int | None = None, floor: int = -1
    ) -> _Part:
        part = _Part(self._pool, chain, pages, first=first, floor=floor)
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
        """Yield the pages of a listing. It is cut into parts after the first pages."""
        packed, is_over = part.take()
        page: Page = []
        for one in packed:
            page = one.page()
            yield page
        if is_over:
            self._parts.discard(part)
            return
        edges = self._edges(part, folder, page)
        until = part.chain.until
        ends = [*(path for path, _ in edges[1:]), until]
        if edges:
            part.chain.until = edges[0][0]
        part.request()

        def begin(edge: tuple[str, int], end: str | None) -> _Part:
            chain = part.chain.part(edge[0], end)
            return self._begin(chain, _tree_pages(chain, self._files, folder), floor=edge[1])

        later = map(begin, edges, ends)
        begun = collections.deque(itertools.islice(later, self.ahead))
        yield from self._rest(part)
        while begun:
            following = begun.popleft()
            yield from self._in_order(following, folder)
            begun.extend(itertools.islice(later, 1))

    def _edges(self, part: _Part, folder: str, page: Page) -> list[tuple[str, int]]:
        """Return folders, and the number of parts in their paths, at which to cut what is left."""
        import obstore

        edges: list[tuple[str, int]] = []
        last, until = part.chain.after, part.chain.until
        names = last.split("/")[:-1]
        for depth in range(len(names), max(part.floor, 0), -1):
            top = _join(folder, "/".join(names[: depth - 1])).rstrip("/")
            try:
                found = obstore.list_with_delimiter(self._client, top or None)
            except (OSError, ValueError, obstore.exceptions.BaseError):
                return []  # what is left is listed in one part
            start = len(folder) + 1 if folder else 0
            # In the order of keys, and without slashes at their ends, as `offset` has none.
            paths = sorted(path[start:] for path in found["common_prefixes"])
            after = [path for path in paths if last < path and (until is None or path < until)]
            count = len({"/".join(one.path.split("/")[:depth]) for one in page})
            step = max(1, _PART * count // len(page)) if count > 1 else 1  # by their usual size
            edges += [(path, depth) for path in after[::step]]
        return edges
