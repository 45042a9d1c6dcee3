"""The options that take records from datasets of earlier runs."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from recordmill.options import values
from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.common.reporting import RUN


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReuseConfig:
    """Options that take records from datasets of earlier runs; they never change the dataset."""

    HEADING: ClassVar[Group] = RUN

    reuse: tuple[str, ...] = option(
        (),
        local=True,
        parse=values.each(str),
        repeat=True,
        metavar="DATASET",
        help="Copy records of files that have not changed from this dataset, instead of encoding"
        " them again; may be repeated. A pattern such as 'sets/*' takes the newest"
        " usable dataset. --overwrite reuses the dataset that it replaces.",
    )
    reuse_required: bool = option(
        False,
        local=True,
        help="Fail if no dataset of --reuse, or the one that --overwrite replaces, can be used.",
    )
    no_reuse: bool = option(
        False,
        local=True,
        help="Encode every record, also those of the dataset that --overwrite replaces.",
    )
    fingerprint: Literal["stat", "content"] = option(
        "stat",
        help="How --reuse recognizes files that have not changed: by path, size and time of change,"
        " or by their content, which reads every file.",
    )
