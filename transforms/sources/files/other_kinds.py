"""Advice for files that no source reads, by their names: archives, JSON documents, SVG."""

from __future__ import annotations

import re

from recordmill.storage.redaction import shown

_ARCHIVE = re.compile(r"\.(tar|zip)$", re.IGNORECASE)
_COMPRESSED_TAR = re.compile(r"\.(tgz|tbz2?|txz|tzst)$|\.tar\.\w+$", re.IGNORECASE)
_PACKED = re.compile(r"\.(7z|rar)$", re.IGNORECASE)
_DECOMPRESS = {"gz": "gunzip", "tgz": "gunzip", "bz2": "bunzip2", "xz": "unxz", "zst": "unzstd"}
_TFRECORD = re.compile(
    r"(^|\.|[-_](?=tf))(tfrec(ord)?s?|records?)([-._]\d+)?([-._]of[-._]\d+)?(\.(gz|gzip|zlib))?$",
    re.IGNORECASE,
)
_SVG = re.compile(r"\.svgz?$", re.IGNORECASE)
_JSON = re.compile(r"\.json$", re.IGNORECASE)


RECORDS = "TFRecord files are read without other files beside them: pass a pattern or a folder"
RASTERIZE = "convert it to pixels, for example to PNG"
TFRECORDS = "TFRecord file"  # filter reason of files with these names


def is_tfrecord_name(name: str) -> bool:
    """Return whether the name of a file says that it holds TFRecords."""
    return _TFRECORD.search(name) is not None


def is_archive(name: str) -> bool:
    """Return whether the name of a file is that of an archive whose members can be read."""
    return _ARCHIVE.search(name) is not None


def is_json(name: str) -> bool:
    """Return whether the name of a file says that it holds JSON, but not in lines."""
    return _JSON.search(name) is not None


def archive_stem(name: str) -> str:
    """Return the name of an archive without its extension; other names as they are."""
    return _ARCHIVE.sub("", name)


def compressed_tar(name: str) -> str | None:
    """Return the error, without its subject, for the name of a compressed tar; None for others."""
    if _COMPRESSED_TAR.search(name) is None:
        return None
    command = _DECOMPRESS.get(name.rpartition(".")[2].lower(), "decompress")
    return (
        "is a compressed tar, in which finding a file means decompressing everything before it:"
        f" decompress it ({command} {shown(name)}), and pass the .tar"
    )


def filter_reason(name: str) -> str:
    """Return the filter reason of a file that is skipped by its extension."""
    return TFRECORDS if is_tfrecord_name(name) else "extension"


def other_kind(name: str) -> str | None:
    """Return what a file is by its name, and what to do with it; None if the name does not say."""
    if _ARCHIVE.search(name) or _COMPRESSED_TAR.search(name) or _PACKED.search(name):
        return "is an archive: unpack it, and pass the folder"
    if _SVG.search(name):
        return f"is an SVG, which is not a raster image: {RASTERIZE}"
    if is_json(name):
        return (
            "is a JSON document: pass annotations as --annotations, and a table or listing with one"
            " JSON object per line, as .jsonl (jq -c '.[]' FILE > FILE.jsonl makes it of an array)"
        )
    return None
