import dataclasses
import html.parser
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import recordmill
from recordmill.checking.inspection import inspect
from recordmill.format.file_info import file_info
from recordmill.format.ledger import CopyCounts, InputCounts, Ledger, RecordCounts
from recordmill.reading.reader import Records
from recordmill.report import charts, commands, page
from recordmill.report.counts import LedgerStage, stages
from recordmill.report.rejected import without_folders
from recordmill.report.time_coverage import Gap, time_coverage
from recordmill.report.vocabularies import model_pieces
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, flower, make_dataset, rewrite

IMAGE_ONLY = {"image/encoded": Feature(dtype="string", kind="image")}
EMPTY: dict[str, list[list[Row]]] = {"validation": [], "test": []}
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
    assert "unknown tokens: train 28.6&nbsp;%" in text  # 2 of 7 that are not padding
    assert text.count('<span class="token unknown">#1</span>') == 2
    assert '<span class="token">&lt;i&gt;</span>' in text
    specific = text[text.index("most specific") :]
    assert specific.index("rose") < specific.index("red") < specific.index("tulip")


def test_padding_is_counted_and_not_drawn(tmp_path: pathlib.Path) -> None:
    features = {
        "tokens": Feature(dtype="int64", shape=(16,), kind="index", size=4),
        "tokens/mask": Feature(dtype="int64", shape=(16,)),
    }
    tokens = [2, 1, 3, *[0] * 13]
    values = {"tokens": tokens, "tokens/mask": [int(one > 0) for one in tokens]}
    folder = tmp_path / "out"
    manifest = make_dataset(
        folder, {"train": [[Row(key="a", label="rose", values=values)]], **EMPTY}, features=features
    )
    (folder / "vocabulary").mkdir()
    # A piece is field 1 with its text as field 1 and its type, of which 2 is unknown, as field 3.
    pieces = [(b"<pad>", 3), (b"<unk>", 2), (b"red", 1), (b"\xe2\x96\x81rose", 1)]
    model = b"".join(
        b"\x0a" + bytes([len(text) + 4]) + b"\x0a" + bytes([len(text)]) + text + bytes([0x18, kind])
        for text, kind in pieces
    )
    (folder / "vocabulary/sentencepiece.model").write_bytes(model)
    files = {**manifest.files, "vocabulary/sentencepiece.model": file_info(model)}
    rewrite(folder, dataclasses.replace(manifest, files=files))
    text = render(folder)
    shown = re.findall('<span class="token( unknown)?">(.*?)</span>', text)
    assert shown == [("", "red"), (" unknown", "#1"), ("", "\u2581rose")]
    assert "and 13 of padding" in text
    assert ">#0<" not in text
    assert '<path class="line"' not in text  # the mask says no more than the tokens
    assert model_pieces(model[:-1]) == {}


def test_axes_of_whole_numbers_name_whole_numbers() -> None:
    drawn = charts.histogram(charts.histogram_of({"train": np.array([3.0, 5, 5])}), title="t")
    assert re.findall(">([^<>]+)</text>", drawn) == ["3", "5"]


def test_values_that_recur_are_listed_without_their_lengths(tmp_path: pathlib.Path) -> None:
    features = {name: Feature(dtype="string", kind="text") for name in ("city", "note")}
    rows = [
        Row(key=str(n), label=None, values={"city": [b"Oslo"], "note": [b"x" * n]})
        for n in range(8)
    ]
    make_dataset(tmp_path / "out", {"train": [rows], **EMPTY}, features=features, labels=())
    text = render(tmp_path / "out")
    assert "always <bdi>Oslo</bdi>" in text
    assert text.count("<figcaption>characters: ") == 1
    assert text.count('<tr class="card"') == 8  # rows of a table


def test_a_secret_in_a_key_is_not_shown_in_parts(tmp_path: pathlib.Path) -> None:
    key = "s3://key:hunter2@bo"
    row = Row(key=key, label=None, values={"x": [1]})
    features = {"x": Feature(dtype="int64")}
    make_dataset(tmp_path / "out", {"train": [[row]], **EMPTY}, features=features, labels=())
    text = re.sub("<.*?>", "", render(tmp_path / "out"))
    assert "hunter" not in text
    assert "ter2@bo" not in text


def test_a_command_stays_the_same_in_lines() -> None:
    words = ["recordmill", "text", "--input", "a --b\nc", "--label-map=--x=y", "--report"]
    lines = commands.in_lines(shlex.join(words))
    assert shlex.split(lines.replace("\\\n", "")) == words
    assert lines.splitlines()[-1] == "  --report"


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
    assert "100&nbsp;% of its variance lies between the classes" in text
    assert "0&nbsp;% of its variance lies between the classes" in text


def test_times_of_windows_are_dates_and_few_values_have_no_variance(tmp_path: pathlib.Path) -> None:
    features = {"window/start": Feature(dtype="int64"), "few": Feature(dtype="float32")}
    day = 86_400_000_000  # microseconds
    rows = [
        Row(key=label, label=label, values={"window/start": [day * number], "few": [float(number)]})
        for number, label in enumerate(("rose", "tulip"))
    ]
    make_dataset(
        tmp_path / "out", {"train": [rows], "validation": [], "test": []}, features=features
    )
    text = render(tmp_path / "out")
    assert "times: from 1970-01-01 00:00 to 1970-01-02 00:00" in text
    assert "of its variance" not in text


def test_coverage_of_time_shows_the_purge(tmp_path: pathlib.Path) -> None:
    def windows(days: range) -> list[Row]:
        return [Row(key=f"a@b@2026-01-{day:02d}T12:00:00", label=None, values={}) for day in days]

    splits = {"train": [windows(range(1, 11))[::-1]], "validation": [windows(range(16, 21))]}
    manifest = make_dataset(tmp_path / "out", {**splits, "test": []}, features={}, labels=())
    manifest = dataclasses.replace(manifest, options={**manifest.options, "kind": "sensor"})
    rewrite(tmp_path / "out", manifest)
    found = time_coverage(Location.parse(f"{tmp_path}/out"), manifest)
    assert found is not None
    assert found.spans == {
        "train": ("2026-01-01 12:00", "2026-01-10 12:00"),
        "validation": ("2026-01-16 12:00", "2026-01-20 12:00"),
    }
    assert found.parts == {"train": [(0.0, 0.5)], "validation": [(0.75, 0.25)]}
    assert found.gaps == [
        Gap(first="2026-01-11 12:00", end="2026-01-16 12:00", duration="5.0 days")
    ]
    assert "<td>5.0 days</td>" in render(tmp_path / "out")


def test_extreme_sizes_are_those_of_the_indexes(tmp_path: pathlib.Path) -> None:
    rows = [flower(letter, "rose").having(caption=[b"x" * n]) for n, letter in enumerate("abc")]
    make_dataset(tmp_path / "out", {"train": [rows], **EMPTY})
    text = render(tmp_path / "out")
    [index] = [*(tmp_path / "out/index").glob("train-*")]
    lengths = pq.read_table(index)["length"].to_pylist()
    for name, value in (("smallest", min(lengths)), ("largest", max(lengths))):
        place = text.index(f"{name} record: {value:,} bytes")
        assert f'data-text="{"abc"[lengths.index(value)]}"' in text[place : place + 200]


def test_the_most_alike_images_and_the_extremes_of_brightness(tmp_path: pathlib.Path) -> None:
    def row(key: str, level: int) -> Row:
        content = io.BytesIO()
        Image.new("L", (16, 16), level).save(content, "PNG")
        return Row(key=key, label="rose", values={"image/encoded": [content.getvalue()]})

    rows = [row("a", 10), row("b", 90), row("c", 97), row("d", 250)]
    make_dataset(tmp_path / "out", {"train": [rows], **EMPTY}, features=IMAGE_ONLY)
    text = render(tmp_path / "out")
    alike = text[text.index("<h3>Most alike") :]
    assert "difference 7 of 255" in alike
    assert re.findall('data-text="(.)"', alike)[:2] == ["b", "c"]
    for name, key in (
        ("darkest: mean grey level 10", "a"),
        ("brightest: mean grey level 250", "d"),
    ):
        place = text.index(name)
        assert f'data-text="{key}"' in text[place : place + 200]


def test_masks_and_captions_are_drawn(tmp_path: pathlib.Path) -> None:
    masks = [
        json.dumps([[0, 0, 4, 0, 4, 2]]), '{"counts": [1, 1, 1], "size": [1, 3]}', '[["a"]]', "["
    ]  # fmt: skip
    values = {
        "image/caption": [b"a <b>rose</b>"],
        "image/object/segmentation": [one.encode() for one in masks],
        "image/object/segmentation/transform": [2.0, 0.0, 1.0, 0.0, 2.0, 0.0],
    }
    features = {
        **IMAGE_ONLY,
        "image/caption": Feature(dtype="string", shape=(None,), kind="text"),
        "image/object/segmentation": Feature(dtype="string", shape=(None,), kind="text"),
        "image/object/segmentation/transform": Feature(dtype="float32", shape=(None,)),
    }
    image = flower("a", "rose").values["image/encoded"]
    row = Row(key="a", label="rose", values={"image/encoded": image, **values})
    make_dataset(tmp_path / "out", {"train": [[row]], **EMPTY}, features=features)
    text = render(tmp_path / "out")
    assert '<polygon class="mask b0" points="1.0,0.0 9.0,0.0 9.0,4.0"/>' in text
    assert '<polygon class="mask b0" points="3.0,0.0 5.0,0.0 5.0,2.0 3.0,2.0"/>' in text
    assert "<bdi>a &lt;b&gt;rose&lt;/b&gt;</bdi></span>" in text


def test_rejects_name_their_file_and_row_and_show_unchanged_images(tmp_path: pathlib.Path) -> None:
    photos, rows = tmp_path / "photos", tmp_path / "rows.csv"
    photos.mkdir()
    Image.new("RGB", (8, 8)).save(photos / "a.png")
    Image.new("RGB", (8, 8)).save(photos / "b.png")
    rows.write_text("x\n1\n")
    manifest = make_dataset(tmp_path / "out")
    keys = [("a.png", "unlabelled"), ("b.png", "corrupt"), ("rows.csv#7", "bad_value"),
            ("../rows.csv", "empty")]  # fmt: skip
    content = b"".join(
        json.dumps({"key": key, "stage": "check", "reason": reason, "detail": ""}).encode() + b"\n"
        for key, reason in keys
    )
    (tmp_path / "out/rejects.jsonl").write_bytes(content)
    files = {**manifest.files, "rejects.jsonl": file_info(content)}
    rewrite(tmp_path / "out", dataclasses.replace(manifest, files=files))
    dataset, inputs = Location.parse(f"{tmp_path}/out"), [f"train={photos}", str(rows)]
    os.utime(photos / "a.png", ns=(0, 0))
    text = page.render(dataset, Records(dataset), inputs=inputs)
    shown = rejects_of(text)
    assert f"<code>{photos}/a.png</code>" in shown
    assert f"row 7 of <code>{rows}</code>" in shown
    assert f"<code>{tmp_path}/rows.csv</code>" not in shown[shown.index("../rows.csv") :][:200]
    assert shown.count("<image ") == 1  # damaged files are not opened
    os.utime(photos / "a.png", ns=(2**62, 2**62))
    assert "<image " not in rejects_of(page.render(dataset, Records(dataset), inputs=inputs))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/me/x.jpg", ".../x.jpg"),
        ("/x.csv#3", ".../x.csv#3"),
        ("a/b.jpg", "a/b.jpg"),
        ("not '/home/my user/x y.jpg', but", "not '.../x y.jpg', but"),
        ("FILE:///home/a/b.png", ".../b.png"),
        ("(/etc/passwd) path=/a/b at:/c/d", "(.../passwd) path=.../b at:.../d"),
        ("/a/b and /c/d", ".../b and .../d"),
        ("s3://box/a/b or https://x/y/z", "s3://box/a/b or https://x/y/z"),
        ("1/2 of / and 3", "1/2 of / and 3"),
    ],
)
def test_folders_of_local_paths_are_left_out(text: str, shown: str) -> None:
    assert without_folders(text) == shown


def rejects_of(text: str) -> str:
    return text[text.index("rejects-title") :]


def test_only_images_need_pillow() -> None:
    code = "import sys, recordmill.report.page; sys.exit('PIL' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_secrets_are_hidden() -> None:
    shown = charts.visible("s3://key:hunter2@box/a\u200db")
    assert shown == "s3://***@box/a\\u200db"
