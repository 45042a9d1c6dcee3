"""Names that are skipped among media and among rows."""

import pytest

from recordmill.transforms.sources.files.skipped_names import (
    is_project_file,
    is_project_text,
    skipped_among_media,
    skipped_among_rows,
    skipped_beside_annotations,
)


@pytest.mark.parametrize(
    ("name", "media", "rows"),
    [
        ("1.jpg", None, None),
        ("no extension", None, None),
        (".DS_Store", "hidden", "hidden"),
        ("._1.jpg", "hidden", "hidden"),
        ("Thumbs.db", "system", "system"),
        ("#recycle", "system", "system"),
        ("~$table.csv", "system", "system"),
        ("__MACOSX", "system", "system"),
        ("1.jpg~", "backup", "backup"),
        ("_temporary", "job", "job"),
        ("_SUCCESS", "job", "job"),
        ("_committed_1234", "job", "job"),
        ("_started_1234", "job", "job"),
        ("_delta_log", "job", "job"),
        ("_MG_0001.JPG", None, "hidden"),
        ("_metadata", None, "hidden"),
        ("_temporary_images", None, "hidden"),
        ("_part=1", None, None),
        (".part=1", "hidden", "hidden"),
        ("a.csv._COPYING_", None, "job"),
        ("cache-0123456789abcdef.arrow", None, "cache"),
        ("cache-0123456789abcdef_00001_of_00002.arrow", None, "cache"),
        ("cache-1.arrow", None, None),
    ],
)
def test_skipped_names(name: str, media: str | None, rows: str | None) -> None:
    assert (skipped_among_media(name), skipped_among_rows(name)) == (media, rows)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Visualization", "visualization"),
        ("SegmentationClassVisualization", "visualization"),
        ("AnnotationsVisualisation", "visualization"),
        ("visualization", None),
        ("Visualization of 2026", None),
        ("JPEGImages", None),
        (".hidden", "hidden"),
    ],
)
def test_skipped_names_beside_annotations(name: str, reason: str | None) -> None:
    assert skipped_beside_annotations(name) == reason


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("LICENSE", True, True),
        ("licence", True, True),
        ("COPYING", True, True),
        ("Makefile", True, True),
        ("README.md", False, True),
        ("requirements.txt", False, True),
        ("requirements-dev.txt", False, True),
        ("requirements.jpg", False, False),
        ("LICENSE plate", False, False),
        ("0a1b", False, False),
    ],
)
def test_files_of_a_project_are_known_by_name(name: str, file: bool, text: bool) -> None:
    assert (is_project_file(name), is_project_text(name)) == (file, text)
