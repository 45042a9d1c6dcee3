"""Options for facts in paths: classes, groups and splits by folders and names of files."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from recordmill.option_files import read_option_file
from recordmill.options import values
from recordmill.options.declaration import Group, option

MEANING = Group(20, "Keys, classes and columns", shapes_bytes=True)
SPLITS = Group(40, "Splits", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PathsConfig:
    """Parts of the paths of files that are classes, groups and splits."""

    label_from: str | None = option(
        None,
        group=MEANING,
        after="drop_columns",
        show=lambda part: part or "top",
        metavar="top|parent|folder:N|file|KEY=|REGEX|.EXT",
        help="Part of the path of a file, below the folder of its split, that is its class. top:"
        " the top folder. parent: the folder around the file. folder:N: the Nth folder; -1 is the"
        " one around the file. file: the name without extension. KEY=: the value of a folder"
        " KEY=VALUE. REGEX: the first group of the first match of a regular expression. .EXT: in"
        " archives, the content of a file beside it: .cls or .json:FIELD. Rows of tables have"
        " the class of their file. Default: top; for rows, a column.",
    )
    group_from: str | None = option(
        None,
        group=MEANING,
        after="label_from",
        metavar="top|parent|folder:N|file|KEY=|REGEX",
        help="Part of the path of a file that is its group, as for --label-from, such as '^(\\d+)_'"
        " for the patient in 0017_left.png.",
    )
    split_from: str = option(
        "auto",
        group=SPLITS,
        after="splits",
        metavar="WHAT",
        help="Part of the input that names the splits. folders: its top folders. files: the names"
        " of files of rows, such as train.csv. none: --split-column names them, or --splits"
        " divides all records. auto: a column named split, or else folders or files if all have"
        " names of splits. Or a part of paths as for --label-from: folder:2, KEY= or a regular"
        " expression whose group is the split.",
    )
    split_map: Mapping[str, str] = option(
        {},
        group=SPLITS,
        after="split_column",
        parse=values.split_map,
        repeat=True,
        metavar="VALUE=SPLIT,...",
        help="Splits of the values of --split-column or --split-from, such as"
        " 5=test,4=validation,*=train; * stands for all other values. none leaves them out.",
    )

    split_files: Mapping[str, str] = option(
        {},
        group=SPLITS,
        shapes_bytes=False,
        after="split_map",
        parse=values.split_files,
        repeat=True,
        metavar="SPLIT=FILE,...",
        help="Lists of names of the files of each split: one name or path per line, with or without"
        " extension, such as test=testing_list.txt,validation=validation_list.txt,train=*; * stands"
        " for all files in no list. none=* leaves these out.",
    )

    column_from: Mapping[str, str] = option(
        {},
        group=MEANING,
        after="group_from",
        parse=values.columns_from,
        repeat=True,
        metavar="NAME=PART,...",
        help="Columns of text from the paths of files, such as speaker=([^_]+)_ or lang=folder:1;"
        " PART is as for --label-from. year= is the value of the folders year=VALUE. They become"
        " features, and other options may name them. May be repeated.",
    )
    key_from: str | None = option(
        None,
        group=MEANING,
        after="column_from",
        metavar="top|parent|folder:N|file|KEY=|REGEX",
        help="Part of the path of a file that is the key of its record, as for --label-from, such"
        " as 'id([0-9]+)'. Default: the whole path.",
    )

    def path_shaping(self) -> dict[str, Any]:
        """Return the content of the lists of splits, which shapes bytes. Raises ConfigError."""
        lists = {
            split: path if path == "*" else _fingerprint(path)
            for split, path in self.split_files.items()
        }
        return {"split_files": lists} if lists else {}


def _fingerprint(path: str) -> str:
    return hashlib.sha256(read_option_file("--split-files", path).encode()).hexdigest()
