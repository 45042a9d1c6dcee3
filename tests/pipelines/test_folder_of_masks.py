"""Masks that are all in one folder, which is not in the paths of their images."""

import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.archive_files import files_in, tar_of, zip_of
from tests.folders import make_picture
from tests.image_runs import Made, images, make

pytestmark = pytest.mark.usefixtures("encoders")

OPTIONS = ("--size", "16", "--num-shards", "1", "--splits", "train=1")


@pytest.fixture
def photos(tmp_path: pathlib.Path) -> pathlib.Path:
    for number in range(3):
        make_picture(tmp_path / "in" / f"{number}.jpg", number, size=(20, 20))
    members = {f"photos/{name}": one for name, one in files_in(tmp_path / "in").items()}
    return zip_of(tmp_path / "photos.zip", members)


def masks(folder: pathlib.Path) -> dict[str, bytes]:
    for number in range(3):
        folder.mkdir(exist_ok=True)
        pixels = np.full((20, 20), number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return files_in(folder)


def within(folder: str, members: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in members.items()}


def notes(made: Made) -> list[str]:
    return [str(one) for one in made.manifest.notes if one.code == "annotations"]


def test_folders_that_are_known_to_hold_masks(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    members = masks(tmp_path / "flat")
    plain = make(tmp_path / "plain", *OPTIONS, "--input", photos, "--masks", tmp_path / "flat")
    assert not notes(plain)
    for place, folder in (
        (zip_of(tmp_path / "a.zip", within("masks", members)), "masks"),
        (tar_of(tmp_path / "b.tar", within("b", members)), "b"),
        (zip_of(tmp_path / "deep.zip", within("around/masks", members)), "masks"),
    ):
        made = make(tmp_path / f"out-{place.name}", *OPTIONS, "--input", photos, "--masks", place)
        assert made.manifest.digest == plain.manifest.digest
        assert notes(made) == [
            f"{place.name}: all masks are in the folder {folder!r}, which is ignored when"
            " they are matched with images"
        ]


@pytest.mark.parametrize("unmasked", ["reject", "keep"])
@pytest.mark.parametrize("suffix", ["", "_mask"])
def test_an_image_with_an_empty_mask_is_rejected(
    photos: pathlib.Path, tmp_path: pathlib.Path, suffix: str, unmasked: str
) -> None:
    for name, content in masks(tmp_path / "flat").items():
        path = tmp_path / "masks" / name.replace(".", f"{suffix}.")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"" if name.startswith("1") else content)
    argv = (*OPTIONS, "--input", photos, "--masks", tmp_path / "masks", "--unmasked", unmasked)
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", "1")
    assert made.rejects == {"photos/1.jpg": "bad_value"}
    detail = (made.folder / "rejects.jsonl").read_text()
    assert f"its mask '1{suffix}.png' is a file of 0 bytes" in detail
    assert made.keys("train") == {"photos/0.jpg", "photos/2.jpg"}


def test_other_folders_are_an_error(
    photos: pathlib.Path, tmp_path: pathlib.Path, capsys: Any
) -> None:
    archive = zip_of(tmp_path / "x.zip", within("cats", masks(tmp_path / "flat")))
    argv = (*OPTIONS, "--input", photos, "--masks")
    assert images(*argv, archive, "--output", tmp_path / "none") == 2
    why = (
        "no image of the input matches the masks x.zip: they are all in the folder 'cats', which"
        " is not in the paths of images: unpack x.zip, and pass this folder as --masks"
    )
    assert why in capsys.readouterr().err
    zipfile.ZipFile(archive).extractall(tmp_path / "unpacked")
    assert images(*argv, tmp_path / "unpacked", "--output", tmp_path / "none") == 2
    assert "images: pass this folder as --masks" in capsys.readouterr().err
    made = make(tmp_path / "out", *argv, tmp_path / "unpacked" / "cats")
    assert made.manifest.ledger.records.written == 3


def test_a_folder_that_names_of_images_have_is_kept(tmp_path: pathlib.Path) -> None:
    for folder in ("a", "masks"):
        make_picture(tmp_path / "in" / folder / "0.jpg", 1, size=(20, 20))
    archive = zip_of(tmp_path / "masks.zip", within("masks", masks(tmp_path / "flat")))
    argv = (*OPTIONS, "--input", tmp_path / "in", "--masks", archive, "--unmasked", "drop")
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", "1")
    assert made.keys("train") == {"masks/0.jpg"}
    assert not any("is ignored" in note for note in notes(made))


def test_images_of_other_names(photos: pathlib.Path, tmp_path: pathlib.Path, capsys: Any) -> None:
    members = {f"masks/no-{name}": one for name, one in masks(tmp_path / "flat").items()}
    archive = zip_of(tmp_path / "masks.zip", members)
    argv = (*OPTIONS, "--input", photos, "--masks", archive, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert "they name 'masks/no-0', 'masks/no-1'" in capsys.readouterr().err
