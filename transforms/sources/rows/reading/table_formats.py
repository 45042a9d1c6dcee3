"""Tables of Delta Lake, Iceberg and Hudi, whose folders also hold files that are no longer current.

Only their logs say which files hold the current rows.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError, shown
from recordmill.transforms.sources.files.inputs import InputRoot
from recordmill.transforms.sources.files.path_facts import partition_of
from recordmill.transforms.sources.files.skipped_names import DELTA_LOG, skipped_among_rows
from recordmill.transforms.sources.files.walks import SkipRule


class _TableFormat(NamedTuple):
    """A format. export: an expression in Python that yields the current rows."""

    name: str
    spark: str
    export: str | None = None


_BY_FOLDER = {
    DELTA_LOG: _TableFormat(
        "Delta Lake", "delta", "deltalake.DeltaTable(TABLE).to_pyarrow_table()"
    ),
    ".hoodie": _TableFormat("Hudi", "hudi"),
}
_ICEBERG = _TableFormat(
    "Iceberg",
    "iceberg",
    "pyiceberg.table.StaticTable.from_metadata(METADATA).scan().to_arrow()",
)
_ICEBERG_FILE = re.compile(r"(.*/)?metadata/[^/]+\.metadata\.json")
_METADATA, _DATA = "metadata", "data"  # the folders of an Iceberg table


def skip_rule(root: InputRoot) -> SkipRule:
    """Return a rule for the names in an input, which raises ConfigError for the log of a table."""

    def skip(name: str) -> str | None:
        if name in _BY_FOLDER:
            table = _find(root.root, name)
            _refuse(root, str(table / name), _BY_FOLDER[name], within=table)
        return skipped_among_rows(name)

    return skip


def _find(folder: Location, name: str) -> Location:
    """Return the folder that holds a folder of a name: a given one, or the nearest below it."""
    level = [folder]
    while level:
        for place in level:
            if _is_dir(place / name):
                return place
        level = [
            place / entry.name
            for place in level
            for entry in place.list_dir()
            if entry.kind == "dir"
        ]
    return folder


def check_file(root: InputRoot, key: str) -> None:
    """Raise ConfigError if a file of a folder belongs to the log of an Iceberg table."""
    if not root.file and key.endswith(".json") and _ICEBERG_FILE.fullmatch(key):
        log = root.root / key
        _refuse(root, str(log), _ICEBERG, within=log.parent.parent)


def check_folders_around(root: InputRoot) -> None:
    """Raise ConfigError if an input is such a table, a partition of one, or its folder of data."""
    if root.file:
        return
    place = root.root
    _check_metadata(root, place)
    is_data = False
    while place.name and (partition_of(place.name) is not None or place.name == _DATA):
        if is_data:
            return
        is_data = place.name == _DATA
        place = place.parent
        for name, table_format in _BY_FOLDER.items():
            if _is_dir(place / name):
                _refuse(root, str(place / name), table_format)
        if is_data:
            _check_metadata(root, place)


def _check_metadata(root: InputRoot, folder: Location) -> None:
    """Raise ConfigError if a folder is an Iceberg table."""
    place = folder / _METADATA
    for entry in place.list_dir() if _is_dir(place) else ():
        if _ICEBERG_FILE.fullmatch(f"{_METADATA}/{entry.name}"):
            _refuse(root, str(place / entry.name), _ICEBERG)


def _is_dir(place: Location) -> bool:
    try:
        return place.is_dir()
    except PathError:
        return False  # the folders around an input need not be readable


def _refuse(
    root: InputRoot, log: str, table: _TableFormat, within: Location | None = None
) -> NoReturn:
    """Raise ConfigError for a table. within: its folder; None if it is that of the input."""
    inside = within is not None and within != root.root
    what = f"holds {shown(within)}, a table" if inside and within is not None else "is a table"
    export = "" if table.export is None else f", or in Python {table.export}"
    raise ConfigError(
        f"{option_name('input', root.given)} {what} of {table.name} (its log is {shown(log)}),"
        " whose folder may also hold rows that were changed or deleted: write the current rows to"
        " Parquet files, in Spark with"
        f" spark.read.format('{table.spark}').load(TABLE).write.parquet(FOLDER){export}, and pass"
        f" these; files that {option_name('input')} names one by one are read as they are"
    )
