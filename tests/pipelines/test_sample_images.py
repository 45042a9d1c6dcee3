"""Notes on samples of WebDataset shards that have several images, and the options in them."""

import json
import pathlib

import pyarrow as pa
import pytest
from PIL import Image

from recordmill.transforms.sources.files.sample_images import SampleImages
from tests.archive_files import tar_of
from tests.folders import make_picture
from tests.image_runs import make

pytestmark = pytest.mark.usefixtures("encoders")

SMALL = ("--size", "16", "--num-shards", "1")


def _with_masks(path: pathlib.Path, image: str = ".jpg", mask: str = ".seg.png") -> pathlib.Path:
    """A shard of eight samples of an image, a mask and a class; the first lacks the mask."""
    members: dict[str, bytes] = {}
    for number in range(8):
        make_picture(path.with_name("image.jpg"), number, size=(20, 20))
        Image.new("L", (20, 20), number % 2).save(path.with_name("mask.png"))
        members[f"{number}{image}"] = path.with_name("image.jpg").read_bytes()
        if number:
            members[f"{number}{mask}"] = path.with_name("mask.png").read_bytes()
        members[f"{number}.json"] = json.dumps({"kind": "ab"[number % 2]}).encode()
    return tar_of(path, members)


@pytest.mark.parametrize(
    ("image", "mask", "suffix"), [(".jpg", ".seg.png", ".seg"), (".a.jpg", ".b.PNG", ".a=.b")]
)
def test_samples_of_several_images_have_a_note(
    image: str, mask: str, suffix: str, tmp_path: pathlib.Path
) -> None:
    shard = _with_masks(tmp_path / "x.tar", image, mask)
    argv = (*SMALL, "--label-from", ".json:kind", "--splits", "train=1", "--input", shard)
    made = make(tmp_path / "out", *argv)
    assert made.manifest.ledger.records.written == 15
    (note,) = (str(one) for one in made.manifest.notes if one.code == "samples")
    assert note == (
        f"several images in 7 samples of the archives ({image}, {mask}), each of which is a record:"
        " --mask-suffix reads one of them as masks, and --exclude-keys leaves some out"
    )
    masks = ("--masks", shard, "--mask-suffix", suffix, "--unmasked", "drop")
    keys = tmp_path / "keys.txt"
    keys.write_text("".join(f"{number}{mask}\n" for number in range(1, 8)))
    for name, cure, records in (("masks", masks, 7), ("keys", ("--exclude-keys", keys), 8)):
        cured = make(tmp_path / name, *argv, *cure)
        assert {key.endswith(image) for key in cured.keys("train")} == {True}
        assert cured.manifest.ledger.records.written == records
        assert "samples" not in {one.code for one in cured.manifest.notes}


def test_notes_on_samples_of_several_images_in_parts() -> None:
    found = SampleImages()
    for keys in (
        ["a/1.l.jpg"],
        ["a/1.r.jpg", "a/2.jpg", "b.c/2.jpg"],
        ["b.c/3.jpg", "b.c/3.x.tif"],
    ):
        found.see(pa.array(keys))
    found.see(pa.array(["b.c/3.jpg.png"]))
    (note,) = found.notes()
    assert "2 samples of the archives (.jpg, .jpg.png, .l.jpg, .r.jpg, ...), each of" in note
    assert SampleImages().notes() == ()


def test_plain_archives_have_no_samples(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    image = (photos / "ant" / "000.jpg").read_bytes()
    archive = tar_of(tmp_path / "x.tar", {"a/1.1.jpg": image, "a/1.2.jpg": image})
    made = make(tmp_path / "out", *SMALL, "--splits", "train=1", "--input", archive)
    assert "samples" not in {one.code for one in made.manifest.notes}
