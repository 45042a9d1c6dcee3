"""The options of `recordmill adopt`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.common.card import CardConfig
from recordmill.pipelines.options.common.reporting import REPORT_HELP
from recordmill.pipelines.options.inputs.adopt_input import check_split
from recordmill.reading.raw_arrays import RawArray
from recordmill.tfrecord.framing import MAX_RECORD_BYTES

_PLACES = Group(10, "Input and output")
_MEANING = Group(20, "Splits, classes and features", shapes_bytes=True)
_RUN = Group(80, "Job")


def _read_raw(texts: Sequence[str]) -> dict[str, RawArray]:
    return {name: RawArray.parse(text) for name, text in values.by_column(texts).items()}


def _show_raw(raw: Mapping[str, RawArray]) -> dict[str, str]:
    return {name: str(array) for name, array in raw.items()}


def _read_verify(text: str) -> Literal["contents", "deep"] | None:
    if text == "deep":
        return "deep"
    if text == "contents":
        return "contents"
    try:
        return "contents" if values.boolean(text) else None
    except ValueError as error:
        raise ValueError(f"expected contents or deep, got {text!r}") from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptConfig(CardConfig):
    """Options of `recordmill adopt`.

    Raises:
      ConfigError: a value is invalid.
    """

    input: tuple[str, ...] = option(
        group=_PLACES,
        parse=values.each(str),
        repeat=True,
        metavar="WHERE",
        help="TFRecord files: one or several files, a glob pattern such as 'data/*.tfrecord', or a"
        " folder; may be repeated.",
    )
    output: str = option(
        group=_PLACES, metavar="FOLDER", help="Folder of the dataset; created if missing."
    )
    split: str | None = option(
        None,
        group=_MEANING,
        metavar="NAME",
        help="Split of all files. Default: from the name of the file (train, val, validation, test,"
        " eval), else from the name of its folder, else train.",
    )
    label_feature: str | None = option(
        None,
        group=_MEANING,
        metavar="NAME",
        help="Feature with the integer label. Default: image/class/label or label, whichever"
        " exists.",
    )
    labels_file: str | None = option(
        None,
        group=_MEANING,
        metavar="FILE",
        help="File with the class names, one per line, in the order of their integer labels."
        " Default: the names in image/class/text, else the numbers.",
    )
    label_offset: int = option(0, group=_MEANING, help="Integer label of the first class.")
    raw: Mapping[str, RawArray] = option(
        {},
        group=_MEANING,
        parse=_read_raw,
        show=_show_raw,
        repeat=True,
        metavar="NAME=DTYPE:SHAPE",
        help="Feature with the bytes of an array, its dtype and shape, such as"
        " image_raw=uint8:28x28x1; ? stands for a size that varies; may be repeated.",
    )
    overwrite: bool = option(
        False,
        group=_RUN,
        help="Replace an existing dataset that was made with other options or other input.",
    )
    dry_run: bool = option(
        False, group=_RUN, help="Read all files, print what they hold, and write no dataset."
    )
    verify: Literal["contents", "deep"] | None = option(
        None,
        group=_RUN,
        parse=_read_verify,
        bare="contents",
        metavar="[deep]",
        help="If the output already holds this dataset, compare the contents of its files with the"
        " manifest, not just their sizes. deep: also decode every image before anything is"
        " published; a file with one that cannot be decoded is not adopted.",
    )
    report: bool = option(False, group=_RUN, help=REPORT_HELP)
    quiet: bool = option(False, group=_RUN, help="Print errors only.")
    max_record_bytes: int = option(
        MAX_RECORD_BYTES,
        group=_RUN,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Refuse gzip files with larger records, before these are decompressed.",
    )
    workers: int = option(0, group=_RUN, help="Number of processes; 0 is one per core.")

    def __post_init__(self) -> None:
        for flag, value in (("--label-offset", self.label_offset), ("--workers", self.workers)):
            if value < 0:
                raise ConfigError(f"{flag}: expected 0 or more, got {value}")
        check_split(self.split)
        for flag in (one for one in ("verify", "report") if getattr(self, one)):
            if self.dry_run:
                raise ConfigError(
                    f"--{flag}: cannot be combined with --dry-run; leave one of them out"
                )
