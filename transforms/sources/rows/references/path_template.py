"""Paths of listings, made of several columns, such as `fold{fold}/{slice_file_name}`."""

from __future__ import annotations

import dataclasses
import posixpath
import string
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model.usual_columns import OF_TEMPLATE, quoted
from recordmill.transforms.sources.files.near_names import NearFiles
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.rows.columns.record_columns import empty_as_null


@dataclasses.dataclass(frozen=True)
class PathTemplate:
    """A path with the names of columns in braces; `{{` stands for a brace.

    Raises:
      ConfigError: The text has no column, or is not a valid template.
    """

    text: str

    def __post_init__(self) -> None:
        try:
            parts = [*string.Formatter().parse(self.text)]
        except ValueError as error:
            raise ConfigError(f"{self._option}: {error}: expected columns in braces") from error
        if odd := [name for _, name, form, how in parts if name == "" or form or how]:
            raise ConfigError(
                f"{self._option}: expected names of columns in braces, as in {{id}}.jpg, without a"
                f" format, got {{{odd[0]}"
            )
        if not self.columns:
            raise ConfigError(
                f"{self._option}: expected names of columns in braces, such as"
                " 'fold{fold}/{slice_file_name}' or '{id}.jpg', got none"
            )

    @property
    def name(self) -> str:
        """Name of the column of paths."""
        return f"{OF_TEMPLATE}{self.text}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, each once."""
        parts = string.Formatter().parse(self.text)
        return tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))

    def check(self, names: Collection[str], where: object) -> None:
        """Raise ConfigError if a column is missing. where: the listing, for the message."""
        for column in self.columns:
            if column not in names:
                raise ConfigError(
                    f"{self._option}: no column {column!r} in"
                    f" {where}{did_you_mean(column, names)}: it has {quoted(names)}"
                )

    def fill(self, rows: Rows) -> Rows:
        """Return rows with the column of paths, which is null where a value is missing."""
        parts: list[str | pa.Array] = []
        for literal, name, _, _ in string.Formatter().parse(self.text):
            parts += [literal] if name is None else [literal, empty_as_null(rows.columns[name])]
        paths = pc.binary_join_element_wise(*parts, "")
        return dataclasses.replace(rows, columns=rows.columns.append_column(self.name, paths))

    @property
    def _option(self) -> str:
        return option_name("path_template", self.text)


def likely_template(root: Location, path: str, column: str) -> str | None:
    """Return the template that adds the extension to ids; None without such a file.

    Args:
      root: Folder that paths are relative to.
      path: A path for which there is no file.
      column: Column of the paths.
    """
    if not root.is_local or posixpath.splitext(path)[1] or "/" in path or not path:
        return None
    near = NearFiles().find(posixpath.join(root.local_path, path))
    folder, name = posixpath.split(near or "")
    if not name.startswith(f"{path}.") or "." in name[len(path) + 1 :]:
        return None
    return posixpath.join(folder, f"{{{column}}}{name[len(path) :]}")
