"""Names of files and folders that hold no records: one table for media, one for rows.

Both skip what operating systems and programs leave behind. Formats of rows also skip each name that
begins with an underscore, as Spark, Hive and pyarrow do. Cameras write `_MG_0001.JPG`, so media
skip only the names that jobs give to their own files.
"""

from __future__ import annotations

import re

_SYSTEM = frozenset(
    (
        *("thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information"),
        *("__macosx", "icon\r", "lost+found", "lost.dir"),
        *("@eadir", "#recycle", "@recycle", "#snapshot", "@recently-snapshot"),  # Synology, QNAP
    )
)
DELTA_LOG = "_delta_log"
# Spark and Hadoop, Databricks' commits, Delta Lake, copies that have not ended.
_JOB = re.compile(rf"_temporary|_SUCCESS|_(committed|started)_.*|{DELTA_LOG}|.*\._COPYING_")
_CACHE = re.compile(r"cache-[0-9a-f]{16}(_\d+_of_\d+)?\.arrow")  # results of datasets.map
# Folders of images with their annotations drawn on them, as LabelMe's converters write them.
_DRAWN = re.compile(r"(.*[a-z])?Visuali[sz]ations?")
# Folders of Pascal VOC with lists of names, one for each task.
_LISTS = re.compile(r"(.*/)?ImageSets/(Main|Layout|Action|Segmentation)")
# Files of a project around its data, which have no extension, or the one of a text.
_NAMES = r"licen[cs]e|copying|readme|notice|authors|contributors|changelog|makefile|dockerfile"
_PROJECT = re.compile(_NAMES, re.IGNORECASE)
_PROJECT_TEXT = re.compile(
    rf"{_NAMES}|(readme|licen[cs]e)\..*|requirements([-_.]\w+)?\.txt", re.IGNORECASE
)


def is_project_file(name: str) -> bool:
    """Return whether a file without extension belongs to a project, such as `LICENSE`."""
    return _PROJECT.fullmatch(name) is not None


def is_project_text(name: str) -> bool:
    """Return whether a text belongs to a project, such as `README.md` or `requirements.txt`."""
    return _PROJECT_TEXT.fullmatch(name) is not None


def holds_lists(key: str) -> bool:
    """Return whether the path of a folder is that of lists in Pascal VOC, not of media."""
    return _LISTS.fullmatch(key) is not None


def skipped_among_media(name: str) -> str | None:
    """Return why a file or folder of media is skipped because of its name, None if it is not."""
    if name.startswith("."):
        return "hidden"
    if name.startswith("_") and _JOB.fullmatch(name):
        return "job"
    if name.endswith("~"):
        return "backup"
    is_lock = name.startswith("~$")  # of a document that is open in an office program
    return "system" if is_lock or name.lower() in _SYSTEM else None


def skipped_beside_annotations(name: str) -> str | None:
    """Return why a file or folder is skipped among annotated images, None if it is not."""
    if reason := skipped_among_media(name):
        return reason
    return "visualization" if _DRAWN.fullmatch(name) else None


def skipped_among_rows(name: str) -> str | None:
    """Return why a file or folder of rows is skipped because of its name, None if it is not.

    A folder such as `_part=1` is a partition, and is read.
    """
    if reason := skipped_among_media(name):
        return reason
    if name.startswith("_") and "=" not in name:
        return "hidden"
    return "cache" if _CACHE.fullmatch(name) else "job" if _JOB.fullmatch(name) else None
