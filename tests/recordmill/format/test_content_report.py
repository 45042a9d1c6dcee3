"""Notes on records of equal content."""

from recordmill.format.content_report import ContentCounts, ContentReport


def test_notes_count_contents_and_name_splits() -> None:
    one = ContentCounts(contents=1, records=3)
    report = ContentReport(records=3, repeated=one, leaks=one, splits={"dev+test+train": 1})
    [note] = report.notes(["--dedup drop", "--dedup group"])
    assert note.startswith(
        "3 records share 1 content in several splits (1 in dev, test and train): leaks.jsonl"
    )
    assert note.endswith(" lists them, --dedup drop prevents it, and so does --dedup group")
    assert report.notes(["--dedup drop"])[0].endswith(" lists them, --dedup drop prevents it")
    assert report.notes([])[0].endswith(" leaks.jsonl lists them")
    two = ContentReport(conflicts=ContentCounts(contents=2, records=4))
    assert two.notes([])[0].startswith(
        "4 records share 2 contents under several labels: leaks.jsonl"
    )
