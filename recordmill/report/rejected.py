"""Rejected inputs as a report shows them: where they are, and a thumbnail."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Mapping, Sequence

from recordmill.checking.inspection import RejectSummary
from recordmill.errors import Reason
from recordmill.format.manifest import MANIFEST
from recordmill.report.thumbnails import Thumbnail
from recordmill.storage.files import Location

# The images of these can be decoded. Others are not opened: their content is damaged or harmful.
_DECODABLE = (Reason.UNLABELLED, Reason.BAD_VALUE, Reason.OUT_OF_SCHEMA)
_BYTES = 1 << 24  # of a file that is read for a thumbnail
_PIXELS = 1 << 25
# Of an absolute path, which no URI of a store precedes; names may have spaces inside.
_FOLDERS = re.compile(
    r"(?<![^\s'\"(=,:])(?<!\w:(?=//))(file:/)?/+([^/\n'\"()=:]*[^/\s'\"()=:]/+)*(?=[^/\s])",
    re.IGNORECASE,
)
_ROW = re.compile(r"(.+)#(\d+)")  # the key of a row


@dataclasses.dataclass(frozen=True, kw_only=True)
class RejectedInput:
    """An example of a reject.

    file, row: where its input is; None if that is not known, or not there any more.
    thumbnail: of its image, if the file is unchanged since the dataset was written.
    """

    key: str
    stage: str
    detail: str
    file: str | None
    row: int | None
    thumbnail: Thumbnail | None


def rejected_inputs(
    dataset: Location, rejects: Mapping[str, RejectSummary], inputs: Sequence[str] | None
) -> dict[str, list[RejectedInput]]:
    """Return the examples of rejects by reason.

    inputs: the paths that the dataset was made of; None leaves out local files and their folders.
    """
    return {
        reason: [_rejected(dataset, reason, example, inputs) for example in some.examples]
        for reason, some in rejects.items()
    }


def _rejected(
    dataset: Location, reason: str, example: Mapping[str, str], inputs: Sequence[str] | None
) -> RejectedInput:
    key = example["key"]
    if inputs is None:
        return RejectedInput(
            key=without_folders(key),
            stage=example["stage"],
            detail=without_folders(example["detail"]),
            file=None,
            row=None,
            thumbnail=None,
        )
    file, row = _find(key, inputs), None
    if file is None and (found := _ROW.fullmatch(key)):
        file, row = _find(found[1], inputs), int(found[2])
    return RejectedInput(
        key=key,
        stage=example["stage"],
        detail=example["detail"],
        file=file,
        row=row,
        thumbnail=_thumbnail(dataset, file)
        if file is not None and row is None and reason in _DECODABLE
        else None,
    )


def without_folders(text: str) -> str:
    """Return a text with `...` instead of the folders of absolute local paths."""
    return _FOLDERS.sub(".../", text)


def _find(name: str, inputs: Sequence[str]) -> str | None:
    """Return the local file that a key names: an input, or a file in a folder that is an input."""
    # An input may be SPLIT=PATH.
    for one in (text for given in inputs for text in (given, given.partition("=")[2]) if text):
        place = Location.parse(one)
        if not place.is_local:
            continue
        path = place.local_path
        inside = os.path.normpath(os.path.join(path, name))
        candidates = [inside] if inside.startswith(path.rstrip("/") + "/") else []
        candidates += [path] if os.path.basename(path) == name else []
        for candidate in candidates:
            if _is_regular(candidate):
                return candidate
    return None


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        return False


def _thumbnail(dataset: Location, path: str) -> Thumbnail | None:
    if not dataset.is_local:
        return None
    written = os.stat((dataset / MANIFEST).local_path).st_mtime_ns
    try:
        found = os.lstat(path)
        if found.st_mtime_ns >= written or found.st_size > _BYTES:
            return None
        with open(path, "rb") as file:
            from recordmill.report import thumbnail_drawing  # Pillow takes 0.02 s

            return thumbnail_drawing.of_encoded(file.read(), pixels=_PIXELS)
    except OSError:
        return None
