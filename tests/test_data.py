"""Checks of tests/data: checksums, size, documentation, and what its script reproduces."""

import hashlib
import json
import pathlib
import re
from collections import Counter

import pytest
from PIL import Image

from tests.data import make
from tests.paths import BOXES, CLOTHING, DATA, DEMO, IMBALANCED, ROOT, SMALL_CLOTHING, TFRECORDS

MEGABYTES = 15  # at most, of all of it


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_file_has_its_checksum():
    lines = (DATA / make.SUMS).read_text().splitlines()
    stated = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert stated == {str(path.relative_to(DATA)): sha256(path) for path in make.files(DATA)}


def test_no_file_is_there_twice():
    digests = Counter(map(sha256, [*make.files(DATA), *DEMO.rglob("*.jpg")]))
    assert [digest for digest, count in digests.items() if count > 1] == []


def test_it_stays_small():
    size = sum(path.stat().st_size for path in DATA.rglob("*") if path.suffix != ".pyc")
    assert size < MEGABYTES * 10**6


def test_the_page_describes_every_set():
    page = (DATA / "README.md").read_text()
    folders = {
        path.relative_to(DATA).parts[: 2 if "odd_images" in path.parts else 1]
        for path in make.files(DATA)
    }
    assert sorted(re.findall(r"^\| `([a-z_/]+)` \|", page, re.MULTILINE)) == sorted(
        map("/".join, folders)
    )
    for name in set(re.findall(r"\]\(((?!http)[^)]+)\)", page)):
        assert (DATA / name).exists(), name


@pytest.mark.parametrize(("folder", "photos"), [(CLOTHING, 100), (SMALL_CLOTHING, 852)])
def test_classes_of_photos_are_unequal(folder, photos):
    counts = Counter(path.parent.name for path in folder.rglob("*.jpg"))
    assert counts.total() == photos
    assert max(counts.values()) >= 4 * min(counts.values())


def test_sets_without_jpeg_and_gzip_are_reproducible(tmp_path):
    make.imbalanced(tmp_path / "imbalanced")
    assert (tmp_path / "imbalanced" / IMBALANCED.name).read_bytes() == IMBALANCED.read_bytes()
    make.plain_tfrecords(tmp_path / "tfrecords")
    made = sorted((tmp_path / "tfrecords").iterdir())
    assert [path.name for path in made] == sorted(p.name for p in TFRECORDS.glob("python-*"))
    for path in made:
        assert path.read_bytes() == (TFRECORDS / path.name).read_bytes()
    assert make.annotations() == json.loads((BOXES / "annotations.json").read_text())


def test_images_have_the_sizes_that_their_annotations_state():
    for one in json.loads((BOXES / "annotations.json").read_text())["images"]:
        with Image.open(BOXES / "images" / one["file_name"]) as image:
            assert image.size == (one["width"], one["height"])


def test_nothing_beside_the_repository_is_read():
    """Only the long runs of `make soak` use larger data if it is there."""
    folders = [ROOT / name for name in ("tests", "benchmarks", "examples", ".ci", "deploy")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    code = [path for path in files if path.suffix in ("", ".py", ".sh", ".md", ".yaml")]
    assert len(code) > 150
    outside = re.compile(r"\.\./shared|parent\s*/\s*['\"]shared")
    found = [path for path in [*code, ROOT / "Makefile"] if outside.search(read(path))]
    assert [str(path.relative_to(ROOT)) for path in found if path.name != "test_data.py"] == [
        "tests/soak/command.py"
    ]


def read(path: pathlib.Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
