"""The options of `recordmill adopt`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from recordmill.errors import ConfigError
from recordmill.pipelines.commands.adopt_input import check_split
from recordmill.pipelines.options import values
from recordmill.pipelines.options.declaration import Group, option
from recordmill.reading.raw_arrays import RawArray

_PLACES = Group(10, "Input and output")
_MEANING = Group(20, "What the records mean")
_RUN = Group(80, "How the job runs")


def _read_places(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(values.text, texts))


def _read_raw(texts: Sequence[str]) -> dict[str, RawArray]:
    return {name: RawArray.parse(text) for name, text in values.by_column(texts).items()}


def _show_raw(raw: Mapping[str, RawArray]) -> dict[str, str]:
    return {name: str(array) for name, array in raw.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptConfig:
    """Options of `recordmill adopt`.

    Raises:
      ConfigError: a value that cannot work.
    """

    input: tuple[str, ...] = option(
        group=_PLACES,
        parse=_read_places,
        repeat=True,
        metavar="WHERE",
        help="TFRecord files: one or several, a pattern such as 'data/*.tfrecord', or a folder;"
        " may be repeated.",
    )
    output: str = option(
        group=_PLACES, metavar="FOLDER", help="Folder of the dataset; made where it is missing."
    )
    split: str | None = option(
        None,
        group=_MEANING,
        shapes_bytes=True,
        metavar="NAME",
        help="Split of all files. Default: what a file's name says (train, val, validation, test,"
        " eval), else its folder's, else train.",
    )
    label_feature: str | None = option(
        None,
        group=_MEANING,
        shapes_bytes=True,
        metavar="NAME",
        help="Feature that holds the number of the class. Default: image/class/label or label,"
        " where one of them does.",
    )
    labels_file: str | None = option(
        None,
        group=_MEANING,
        shapes_bytes=True,
        metavar="FILE",
        help="Class names, one a line, in the order of their numbers. Default: as image/class/text"
        " has them, else the numbers.",
    )
    label_offset: int = option(
        0, group=_MEANING, shapes_bytes=True, help="Number of the first class."
    )
    raw: Mapping[str, RawArray] = option(
        {},
        group=_MEANING,
        shapes_bytes=True,
        parse=_read_raw,
        show=_show_raw,
        repeat=True,
        metavar="NAME=DTYPE:SHAPE",
        help="Feature that holds the bytes of an array, such as image_raw=uint8:28x28x1; ? for a"
        " size that varies; may be repeated.",
    )
    overwrite: bool = option(
        False, group=_RUN, help="Replace a dataset of other options or other input."
    )
    dry_run: bool = option(
        False, group=_RUN, help="Read all files and say what they hold; make no dataset."
    )
    quiet: bool = option(False, group=_RUN, help="Print errors only.")
    workers: int = option(0, group=_RUN, help="Processes; 0 is one per core.")

    def __post_init__(self) -> None:
        for flag, value in (("--label-offset", self.label_offset), ("--workers", self.workers)):
            if value < 0:
                raise ConfigError(f"{flag}: expected 0 or more, got {value}")
        check_split(self.split)
