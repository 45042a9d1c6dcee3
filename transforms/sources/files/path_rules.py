"""Rules for the paths of a listing: as data, they choose neither stores nor credentials."""

from __future__ import annotations

import dataclasses
import functools
import os
import posixpath
from collections.abc import Sequence

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.option_names import option_name
from recordmill.storage.files import Location, is_uri
from recordmill.storage.redaction import redact_uri

NO_NAME = "the key has nothing between two slashes: give the object another key"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PathRules:
    """The files that the rows of a listing may name.

    root: folder of relative paths.
    stores: stores of the URIs, with the options that the command gives them; the first one of a
      bucket counts.
    confine: whether local paths must lie inside `root`, symbolic links resolved.
    root_name, noun: of `root`, and of the file with the rows, for messages.
    """

    root: Location
    stores: Sequence[Location] = ()
    confine: bool = False
    root_name: str = "--input-root"
    noun: str = "listing"

    @classmethod
    def of(
        cls,
        root: Location,
        listing: Location,
        *,
        stores: Sequence[str],
        confine: bool,
        root_name: str = "--input-root",
        noun: str = "listing",
    ) -> PathRules:
        """Return the rules of a listing; it and its root may be in stores, which it may name."""
        places = [root, listing, *map(parse_store, stores)]
        remote = [place for place in places if not place.is_local]
        return cls(root=root, stores=remote, confine=confine, root_name=root_name, noun=noun)

    def resolve(self, path: str) -> Location:
        """Return the file of a path: relative to the root, absolute, or a URI.

        Raises:
          RecordError: the path is invalid, or not allowed.
        """
        if "\0" in path:
            raise RecordError(Reason.BAD_VALUE, "a path cannot contain a zero byte")
        if is_uri(path):
            place = self._of_uri(path)
        elif path.startswith("/") or self.root.is_local:
            # Not normalized: if a folder is a symbolic link, 'a/../b' is not 'b'.
            place = Location("", os.path.join(self.root.path if self.root.is_local else "/", path))
        else:
            return resolve_path(self.root, path)
        if place.is_local and self.confine and not self._is_inside(place.path):
            raise RecordError(
                Reason.BAD_VALUE,
                f"a path outside of {self.root_name}, which --no-confine allows for a {self.noun}"
                " that you trust",
            )
        return place

    def _of_uri(self, uri: str) -> Location:
        try:
            place = Location.parse(uri, checked=False)
        except ConfigError as error:
            raise RecordError(Reason.BAD_VALUE, redact_uri(str(error))) from error
        if place.is_local:
            return place
        if place.query:
            raise RecordError(
                Reason.BAD_VALUE,
                f"a URI in a {self.noun} must not have options, such as ?region=: they can send"
                " credentials to another server; give them in --allow-store",
            )
        store = next((one for one in self.stores if one.root == place.root), None)
        if store is None:
            raise RecordError(
                Reason.BAD_VALUE,
                "a store that the command does not name: if you trust it, pass --allow-store"
                f" {redact_uri(place.root)}",
            )
        if not place.can_move and "//" in uri.partition("://")[2]:
            raise RecordError(Reason.BAD_NAME, NO_NAME)
        return dataclasses.replace(place, query=store.query)

    def _is_inside(self, path: str) -> bool:
        if not self.root.is_local:
            return False
        folder, name = os.path.split(path)
        real = _real_folder(folder)
        if name in ("", ".", "..") or os.path.islink(path):
            real = os.path.realpath(path)
        root = _real_folder(self.root.path)
        return real == root or real.startswith(root.rstrip("/") + "/")


def normal_path(path: str) -> str:
    """Return the key of a path: './a//b' becomes 'a/b'; URIs are unchanged."""
    if is_uri(path):
        return path
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def resolve_path(root: Location, path: str) -> Location:
    """Return the location of a path relative to a root. The path may leave the root with '..'."""
    return dataclasses.replace(root, path=posixpath.normpath(f"{root.path}/{path}").lstrip("/"))


def parse_store(text: str) -> Location:
    """Parse the URI of a store, such as s3://bucket?region=eu-west-1.

    Raises:
      ConfigError: it is no store, or has a path.
    """
    place = Location.parse(text)
    if place.is_local or place.path:
        raise ConfigError(
            f"{option_name('allow_store')}: expected a store without a path, such as s3://bucket,"
            f" got {redact_uri(text)!r}"
        )
    return place


@functools.lru_cache(maxsize=1 << 12)
def _real_folder(path: str) -> str:
    return os.path.realpath(path)
