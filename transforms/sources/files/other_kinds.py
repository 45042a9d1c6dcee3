"""Advice for files that no source reads, by their names: archives, TFRecords, JSON documents."""

from __future__ import annotations

import re

_ARCHIVE = re.compile(r"\.(7z|rar|tar|tgz|zip)$|\.tar\.\w+$", re.IGNORECASE)
_TFRECORD = re.compile(r"tfrec|\.records?\b", re.IGNORECASE)
_SVG = re.compile(r"\.svgz?$", re.IGNORECASE)
_JSON = re.compile(r"\.json$", re.IGNORECASE)


RASTERIZE = "convert it to pixels, for example to PNG"


def is_tfrecord_name(name: str) -> bool:
    """Return whether the name of a file says that it holds TFRecords."""
    return _TFRECORD.search(name) is not None


def other_kind(name: str) -> str | None:
    """Return what a file is by its name, and what to do with it; None if the name does not say."""
    if _ARCHIVE.search(name):
        return "is an archive: unpack it, and pass the folder"
    if is_tfrecord_name(name):
        return "is named as a TFRecord file: recordmill adopt makes a dataset of TFRecord files"
    if _SVG.search(name):
        return f"is an SVG, which is no raster image: {RASTERIZE}"
    if _JSON.search(name):
        return (
            "is a JSON document: pass annotations as --annotations, and a table or listing with one"
            " JSON object per line, as .jsonl (jq -c '.[]' FILE > FILE.jsonl makes it of an array)"
        )
    return None
