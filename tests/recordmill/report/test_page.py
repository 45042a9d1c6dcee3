import dataclasses
import html.parser
import json
import pathlib
import re
from collections import Counter

import numpy as np
import pytest

import recordmill
from recordmill.checking.inspection import inspect
from recordmill.format.file_info import file_info
from recordmill.format.ledger import CopyCounts, InputCounts, Ledger, RecordCounts
from recordmill.reading.reader import Records
from recordmill.report import page
from recordmill.report.counts import LedgerStage, stages
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, flower, make_dataset, rewrite

NASTY = "<script>alert(1)</script>\"'&\x1b[31m\u202egnp"


class Page(html.parser.HTMLParser):
    """The class table of a page, its elements and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.counts: dict[str, list[int]] = {}
        self._row: list[int] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        found = dict(attrs)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "tr":
            self._row = (
                self.counts.setdefault(found["data-text"] or "", [])
                if ("data-text" in found)
                else None
            )
        if tag == "td" and self._row is not None and "data-value" in found:
            self._row.append(int(found["data-value"] or 0))


def render(folder: pathlib.Path) -> str:
    return page.render(Location.parse(str(folder)), Records(folder))


def test_numbers_are_those_of_the_manifest_of_inspect_and_of_a_count(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "out"
    manifest = make_dataset(folder)
    shown = Page(render(folder)).counts
    splits = ("train", "validation", "test")
    summary = inspect(Location.parse(str(folder)))
    counted = {
        split: Counter(
            r["image/class/text"].decode() for r in recordmill.read(tmp_path / "out", split)
        )
        for split in splits
    }
    for label in ("rose", "tulip"):
        assert shown[label] == [manifest.splits[s].classes.get(label, 0) for s in splits]
        assert shown[label] == [summary.splits[s].classes[label].records for s in splits]
        assert shown[label] == [counted[split][label] for split in splits]


def test_a_page_is_the_same_each_time_and_refers_to_nothing_outside(
    tmp_path: pathlib.Path,
) -> None:
    make_dataset(tmp_path / "out")
    text = render(tmp_path / "out")
    assert text == render(tmp_path / "out")
    found = Page(text)
    outward = ("href", "src", "srcset", "action")
    links = [value for name, value in found.attributes if name in outward]
    assert links
    assert {re.split("[:,]", link)[0] for link in links if not link.startswith("#")} == {"data"}
    assert "url(" not in text
    # An image and an array of every record and the copy; again the darkest, brightest, smallest and
    # largest.
    assert found.tags["image"] == 2 * 8 + 2 * 2 + 2 * 2


def test_hostile_names_and_texts_are_shown_as_text(tmp_path: pathlib.Path) -> None:
    row = flower("a", "rose")
    values = row.having(image__class__text=[NASTY.encode()], caption=[NASTY.encode(), b"\xff<b>"])
    rows = [dataclasses.replace(values, key=NASTY, label=NASTY)]
    folder = tmp_path / "out"
    manifest = make_dataset(
        folder, {"train": [rows], "validation": [], "test": []}, labels=(NASTY, "tulip")
    )
    rejects = {"key": NASTY, "stage": "check", "reason": "empty", "detail": NASTY}
    content = json.dumps(rejects).encode() + b"\n"
    (folder / "rejects.jsonl").write_bytes(content)
    files = {**manifest.files, "rejects.jsonl": file_info(content)}
    rewrite(folder, dataclasses.replace(manifest, files=files, options={"kind": NASTY}))
    text = render(folder)
    assert Page(text).tags["script"] == 1
    assert "alert(1)</script>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;\\x1b[31m\\u202egnp" in text


def test_the_ledger_as_a_flow() -> None:
    ledger = Ledger(
        inputs=InputCounts(read=8, rejected=1, filtered=2),
        records=RecordCounts(made=8, written=5, rejected=1, filtered=1, dropped=1),
        copies=CopyCounts(planned=4, written=3, rejected=1),
    )
    assert stages(ledger, shards=2) == [
        LedgerStage(name="inputs", count=11, left=[("rejected", 1), ("filtered", 2)]),
        LedgerStage(
            name="records", count=8, left=[("rejected", 1), ("filtered", 1), ("dropped", 1)]
        ),
        LedgerStage(name="copies added", count=4, left=[("rejected", 1)]),
        LedgerStage(name="records written", count=8, left=()),
        LedgerStage(name="shards", count=2, left=()),
    ]


def test_tokens_are_shown_by_name_and_unknown_ones_are_counted(tmp_path: pathlib.Path) -> None:
    features = {"tokens": Feature(dtype="int64", shape=(None,), kind="index", size=5)}
    rows = [
        Row(key="a", label="rose", values={"tokens": [2, 2, 2, 1]}),
        Row(key="b", label="tulip", values={"tokens": [3, 4, 1, 0]}),
    ]
    folder = tmp_path / "out"
    manifest = make_dataset(
        folder, {"train": [rows], "validation": [], "test": []}, features=features
    )
    (folder / "vocabulary").mkdir()
    words = b"red\nyellow\n<i>\n"
    (folder / "vocabulary/tokens.txt").write_bytes(words)
    files = {**manifest.files, "vocabulary/tokens.txt": file_info(words)}
    rewrite(folder, dataclasses.replace(manifest, files=files))
    text = render(folder)
    assert "unknown tokens: train 28.6 %" in text  # 2 of 7 that are not padding
    assert text.count('<span class="token unknown">#1</span>') == 2
    assert '<span class="token">&lt;i&gt;</span>' in text
    specific = text[text.index("most specific") :]
    assert specific.index("rose") < specific.index("red") < specific.index("tulip")


def test_series_are_drawn_with_gaps(tmp_path: pathlib.Path) -> None:
    features = {"heat": Feature(dtype="float32", shape=(9,))}
    heat = [1.0, 2.0, 3.0, float("nan"), 5.0, 6.0, 7.0, 8.0, 9.0]
    rows = [Row(key="a", label=None, values={"heat": heat})]
    make_dataset(
        tmp_path / "out",
        {"train": [rows], "validation": [], "test": []},
        features=features,
        labels=(),
    )
    text = render(tmp_path / "out")
    line = re.search('<path class="line" d="([^"]*)"', text)
    assert line is not None
    assert line[1].count("M") == 2
    assert line[1].count("L") == len(heat) - 3
    assert "1 NaN or infinite" in text


@pytest.mark.parametrize("classes", [3, 200])
def test_a_page_stays_small_however_many_classes(tmp_path: pathlib.Path, classes: int) -> None:
    labels = [f"class {number:03d}" for number in range(classes)]
    rows = [
        dataclasses.replace(flower("x", "rose"), key=f"{label} {number}", label=label)
        for label in labels
        for number in range(6)
    ]
    make_dataset(tmp_path / "out", {"train": [rows], "validation": [], "test": []}, labels=labels)
    found = Page(render(tmp_path / "out"))
    assert sum(label in found.counts for label in labels) == classes
    assert found.tags["image"] <= 2 * 160 + 2 * 2 + 2 * 2


def test_variance_between_classes(tmp_path: pathlib.Path) -> None:
    features = {
        "tells": Feature(dtype="float32"),
        "noise": Feature(dtype="float32"),
    }
    noise = np.tile([0.0, 1.0], 4).tolist()
    rows = [
        Row(
            key=str(number),
            label="rose" if number < 4 else "tulip",
            values={"tells": [float(number >= 4)], "noise": [noise[number]]},
        )
        for number in range(8)
    ]
    make_dataset(
        tmp_path / "out", {"train": [rows], "validation": [], "test": []}, features=features
    )
    text = render(tmp_path / "out")
    assert "100 % of its variance lies between the classes" in text
    assert "0 % of its variance lies between the classes" in text
