"""Masks in reports and contact sheets."""

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from recordmill.pipelines.cli import main
from recordmill.report import page as report_page
from recordmill.report.mask_drawing import class_ids, tinted
from tests.image_runs import encoders_kept, make
from tests.painted_masks import png, shapes, write
from tests.painted_objects import coco, objects

SIZE = (64, 48)


@pytest.fixture(scope="module")
def white(tmp_path_factory):
    """White images with masks of classes, and annotations of their objects."""
    folder = tmp_path_factory.mktemp("white")
    annotated = {}
    for number in range(6):
        write(folder, f"images/{number}.png", png(Image.new("RGB", SIZE, "white")))
        write(folder, f"masks/{number}.png", png(Image.fromarray(shapes(number, SIZE))))
        annotated[f"{number}.png"] = (SIZE, objects(number, SIZE)[1])
    (folder / "coco.json").write_text(json.dumps(coco(annotated)))
    (folder / "names.txt").write_text("sky\ncar\ntree\nroad\n")
    return folder


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    """Return the frequent colours of an image, in steps of 50."""
    steps = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int) // 50
    found, counts = np.unique(steps, axis=0, return_counts=True)
    return {tuple(one) for one, count in zip(found.tolist(), counts, strict=True) if count > 80}


RED, GREEN, YELLOW = (3, 2, 2), (2, 3, 2), (3, 3, 2)  # half of VOC's colours 1, 2, 3 on white


@pytest.mark.parametrize("kind", ["classes", "objects", "outlines"])
def test_masks_are_drawn_over_images(kind, white, tmp_path, monkeypatch):
    options = {
        "classes": ("--masks", white / "masks", "--mask-labels", white / "names.txt"),
        "objects": ("--annotations", white / "coco.json", "--instance-masks", "--no-segmentation"),
        "outlines": ("--annotations", white / "coco.json", "--instance-masks"),
    }[kind]
    with encoders_kept():
        make(tmp_path / "out", "--input", white / "images", *options, "--splits", "train=1")
    place = ["--dataset", str(tmp_path / "out")]
    assert main(["report", *place, "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    (first, *_) = re.findall(r"data:image/jpeg;base64,([^\"]+)", page)
    found = colours(Image.open(io.BytesIO(base64.b64decode(first))))
    assert ({RED, GREEN, YELLOW} <= found) == (kind != "outlines")
    assert ("<polygon" in page) == (kind == "outlines")
    assert ('<bdi>tree</bdi></th><td class="number">100.0' in page) == (kind == "classes")
    assert "IHDR" not in page
    assert ("classes in all 6 masks; the share of masks with" in page) == (kind == "classes")
    monkeypatch.setattr(report_page, "PLOTTED", 2)
    assert main(["report", *place, "--output", str(tmp_path / "sample.html")]) == 0
    sample = (tmp_path / "sample.html").read_text()
    assert ("classes in a sample of 2 masks; the share" in sample) == (kind == "classes")
    assert main(["inspect", *place, "--sheet", str(tmp_path / "sheet.png")]) == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert {RED, GREEN, YELLOW} <= colours(sheet)


def test_masks_that_cannot_be_read_are_not_drawn():
    image = Image.new("RGB", (4, 4), "white")
    assert tinted(image, [(b"no mask", 1)]) is image
    assert class_ids(b"no mask").tolist() == []
    deep = Image.fromarray(np.full((4, 4), 300, np.uint16))
    assert class_ids(png(deep)).tolist() == [300]
    assert colours(tinted(image, [(png(deep), 1)]).resize((20, 20))) != {(5, 5, 5)}
