import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

import recordmill
from recordmill.report import notebook
from recordmill.storage.files import Location
from tests.make_dataset import FEATURES, flower, make_dataset
from tests.recordmill.report.test_page import NASTY, Page


def view(dataset: pathlib.Path) -> str:
    return recordmill.open(dataset)._repr_html_()


def cards(text: str) -> int:
    return len(re.findall('<div class="card(?: copy)?">', text))


def test_a_dataset_shows_its_splits_classes_features_and_first_records(
    tmp_path: pathlib.Path,
) -> None:
    make_dataset(tmp_path / "out")
    text = view(tmp_path / "out")
    for part in ("8 records, 6 in train, 2 in validation, 0 in test", *FEATURES):
        assert part in text
    assert "train: the first 4 of 6" in text
    assert "validation: the first 2 of 2" in text
    assert cards(text) == 6
    assert Page(text).tags["img"] == 12  # of each record the image and the array
    assert repr(recordmill.open(tmp_path / "out")).startswith("<8 records of recordmill.open(")


def test_show_takes_a_split_and_a_number(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.open(tmp_path / "out", "validation", features=["image/class/text"])
    assert Page(records.show()._repr_html_()).tags["img"] == 0
    shown = records.show("train", 3)
    text = shown._repr_html_()
    assert cards(text) == 3
    assert "copy 1" in text
    assert "caption" not in text
    assert repr(shown).startswith("<the first 3 of <6 records of recordmill.open(")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("holdout", 1), "expected one of the splits"),
        (("train", 0), "above 0, got 0"),
        (("train", 1.5), "above 0, got 1.5"),
        (("train", True), "above 0, got True"),
    ],
)
def test_invalid_arguments_are_errors_at_once(
    tmp_path: pathlib.Path, arguments: tuple[str, int], message: str
) -> None:
    make_dataset(tmp_path / "out")
    with pytest.raises(ValueError, match=message):
        recordmill.open(tmp_path / "out").show(*arguments)


def test_hostile_names_and_values_are_shown_as_text(tmp_path: pathlib.Path) -> None:
    row = flower("a", "rose").having(caption=[NASTY.encode(), b"\xff"])
    rows = [dataclasses.replace(row, key=NASTY, label="rose")]
    make_dataset(tmp_path / NASTY.replace("/", "_"), {"train": [rows]})
    page = Page(text := view(tmp_path / NASTY.replace("/", "_")))
    assert not page.tags["script"]
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)" in text
    assert text.isprintable() or not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)


def test_nothing_outside_is_referred_to_and_styles_are_scoped(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    text = view(tmp_path / "out")
    outward = [value for name, value in Page(text).attributes if name in ("src", "href")]
    assert outward
    assert all(value.startswith("data:image/jpeg;base64,") for value in outward)
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)
    assert style
    selectors = re.findall(r"([^{}]+)\{", style[1])
    assert selectors
    for one in selectors:
        assert all(part.strip().startswith(".recordmill-view") for part in one.split(","))


def test_a_view_stays_below_its_size_and_counts_what_it_shows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [flower(chr(33 + number), "rose") for number in range(60)]
    make_dataset(tmp_path / "out", {"train": [rows]})
    monkeypatch.setattr(notebook, "MAX_BYTES", 50_000)
    text = recordmill.open(tmp_path / "out").show("train", 60)._repr_html_()
    assert len(text.encode()) <= 50_000
    shown = cards(text)
    assert 5 < shown < 60
    assert f"The first {shown} records" in text


def test_damage_is_named_below_the_records_before_it(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / manifest.splits["train"].shards[0].file
    content = bytearray(shard.read_bytes())
    content[-10] ^= 1
    shard.write_bytes(content)
    text = recordmill.open(tmp_path / "out").show("train", 6)._repr_html_()
    assert cards(text) == 2
    assert "record 2" in text
    assert "recordmill verify" in text


def test_opening_a_dataset_imports_nothing_for_pages(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    program = (
        f"import sys, recordmill; recordmill.open({str(tmp_path / 'out')!r})[0];"
        "heavy = {'jinja2', 'markupsafe', 'PIL', 'recordmill.report.notebook'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_an_empty_dataset_has_a_view(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", {"train": []})
    assert "0 records" in notebook.overview_html(Location.parse(str(tmp_path / "out")), None)
