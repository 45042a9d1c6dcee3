"""`recordmill images --depth`, from files with 8, 12 and 16 bits to the records and the notes."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import recordmill
from recordmill.format.ledger import Reduced
from recordmill.pipelines.cli import main
from recordmill.transforms.writing.depth_notes import depth_notes
from tests.image_runs import images, make
from tests.images16 import png16, tiff, waves

pytestmark = pytest.mark.usefixtures("encoders")

NOTE = "bit-depth"


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
    """Three images of 16 bits, two with 12-bit data, and one of 8 bits, of 40x30 pixels."""
    root = tmp_path_factory.mktemp("photos")
    for name in ("deep", "twelve"):
        (root / name).mkdir()
    for number in range(3):
        (root / "deep" / f"{number}.tif").write_bytes(tiff(waves() // (number + 1)))
    for number in range(2):
        (root / "twelve" / f"{number}.png").write_bytes(png16(waves(channels=1, top=4095)))
    Image.new("RGB", (40, 30), (1, 2, 3)).save(root / "twelve" / "plain.png")
    return root


def test_every_record_has_16_bits(photos, tmp_path, capsys):
    made = make(
        *(tmp_path / "out", "--input", photos, "--splits", "train=1", "--image-format", "png"),
        *("--depth", "16"),
    )
    assert made.manifest.features["image/encoded"].raw_dtype == "uint16"
    assert made.manifest.notes == ()
    assert "zlib" in made.manifest.encoders
    expected = {
        "deep/0.tif": waves(),
        "deep/1.tif": waves() // 2,
        "deep/2.tif": waves() // 3,
        "twelve/0.png": np.repeat(waves(channels=1, top=4095), 3, axis=2),
        "twelve/1.png": np.repeat(waves(channels=1, top=4095), 3, axis=2),
        "twelve/plain.png": np.full((30, 40, 3), np.array([257, 514, 771])),
    }
    for (key, _), example in made.examples().items():
        found = tf.io.decode_png(example["image/encoded"][0], dtype=tf.uint16).numpy()
        np.testing.assert_array_equal(found, expected[key], key)
    declared = json.loads((made.folder / "features.json").read_text())["featuresDict"]["features"]
    image = declared["image/encoded"]["image"]
    assert (image["dtype"], image["encodingFormat"]) == ("uint16", "png")
    assert main(["verify", "--dataset", str(made.folder), "--deep"]) == 0
    capsys.readouterr()
    assert main(["inspect", "--dataset", str(made.folder)]) == 0
    assert "uint16" in capsys.readouterr().out


def test_auto_keeps_16_bits_where_train_and_the_format_have_them(photos, tmp_path):
    flags = ("--input", photos, "--splits", "train=1", "--image-format", "png")
    asked = make(tmp_path / "asked", *flags, "--depth", "16")
    made = make(tmp_path / "out", *flags)
    assert made.manifest.features == asked.manifest.features
    assert made.examples() == asked.examples()
    (note,) = made.manifest.notes
    assert note == (
        "5 of 6 images of train have more than 8 bits per channel, so all images are written with"
        " 16; --depth 8 writes them with 8"
    )
    found = json.loads((made.folder / "image_depth.json").read_text())
    assert found == {"bits": 16, "images": {"8": 1, "16": 5}}


def test_auto_looks_at_train_alone(photos, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    for number in range(3):
        Image.new("RGB", (40, 30), (number, 2, 3)).save(plain / f"{number}.png")
    flags = ("--input", f"train={plain}", "--input", f"test={photos / 'deep'}")
    made = make(tmp_path / "out", *flags, "--image-format", "raw", "--resize-mode", "none")
    assert made.manifest.features["image/encoded"].raw_dtype == "uint8"
    (note,) = [note for note in made.manifest.notes if note.code == NOTE]
    assert note.startswith("3 images have more than 8 bits per channel and were reduced to 8")
    later = make(
        *(tmp_path / "later", "--input", f"train={photos / 'deep'}", "--image-format", "raw"),
        *("--resize-mode", "none", "--learned-from", made.folder),
    )
    assert later.manifest.features["image/encoded"].raw_dtype == "uint8"


def test_raw_pixels_of_16_bits_are_balanced_and_augmented(photos, tmp_path):
    flags = ("--splits", "train=1", "--image-format", "raw", "--mode", "gray", "--size", "20")
    balance = ("--augment", "flip,crop,rotate,brightness,contrast", "--augment-all")
    made = make(tmp_path / "out", "--input", photos, *flags, *balance, "--depth", "16")
    feature = made.manifest.features["image/encoded"]
    assert (feature.raw_dtype, feature.raw_shape) == ("uint16", (20, 20, 1))
    pixels = {
        key: np.frombuffer(example["image/encoded"][0], "<u2")
        for (key, _), example in made.examples().items()
    }
    assert {len(one) for one in pixels.values()} == {400}
    assert pixels["deep/0.tif"].max() > 40_000
    assert 1000 < pixels["twelve/0.png"].max() < 6000
    (batch,) = [x.numpy() for x, _ in recordmill.load(made.folder, batch_size=6)]
    assert (batch.dtype, batch.shape) == (np.uint16, (6, 20, 20, 1))


def test_a_reduction_to_8_bits_is_noted_and_can_be_an_error(photos, tmp_path, capsys):
    flags = ("--input", photos, "--splits", "train=1")
    made = make(tmp_path / "out", *flags)
    (note,) = [note for note in made.manifest.notes if note.code == NOTE]
    assert note == (
        "5 images have more than 8 bits per channel and were reduced to 8, such as deep/0.tif; the"
        " values of 2 of them use only 12 of 16 bits, which leaves at most 17 levels of 256:"
        " --intensity-window 0:4095 maps that range of gray images to all levels; --depth 16 with"
        " --image-format png or raw keeps 16 bits, --depth 8 omits this note"
    )
    assert images(*flags, "--output", tmp_path / "failed", "--fail-on", NOTE) == 1
    assert f"(an error because of --fail-on {NOTE})" in capsys.readouterr().err
    asked = make(tmp_path / "asked", *flags, "--depth", "8", "--fail-on", "all")
    assert asked.manifest.digest == made.manifest.digest


def test_images_that_a_window_does_not_fit_are_noted(tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    levels = np.arange(1200, dtype=np.uint16).reshape(30, 40)
    Image.fromarray(levels).save(folder / "deep.png")
    Image.fromarray((levels // 5).astype(np.uint8)).save(folder / "shallow.png")
    for name in ("a", "b"):
        Image.new("RGB", (40, 30), "red").save(folder / f"{name}.png")
    flags = ("--input", folder, "--splits", "train=1", "--mode", "gray")

    def notes(*window: str) -> list[str]:
        argv = (*flags, *(f"--intensity-window={one}" for one in window), "--overwrite")
        found = make(tmp_path / "out", *argv).manifest.notes
        return [str(note) for note in found if note.code == "intensity-window"]

    dark = (
        "1 gray image has 8 bits, such as shallow.png: --intensity-window reaches beyond 255, so it"
        " darkens such images; leave them out, or scale them to the bit depth of the others"
    )
    unused = (
        "2 images have colours, a palette, transparency or 1 bit, such as a.png, so"
        " --intensity-window was not applied: convert them to gray, or leave them out"
    )
    assert notes("0:1199") == [dark, unused]
    assert notes("0:255") == notes("image") == [unused]
    assert notes() == []
    argv = ("--intensity-window", "0:4095", "--dry-run", "--fail-on", "intensity-window")
    assert images(*flags, *argv, "--output", tmp_path / "dry") == 1
    assert "error: in the sample that was encoded, 1 gray image has 8" in capsys.readouterr().err


def test_a_note_on_one_image_is_in_the_singular():
    (note,) = depth_notes([Reduced.one("a.png", highest=60_000, bits=8)])
    assert note.startswith("1 image has more than 8 bits per channel and was reduced to 8")


def test_pillow_reads_8_bits_of_some_files(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        data = tiff(waves(), planar=True, deflate=True)
        (tmp_path / "in" / f"{number}.tif").write_bytes(data)
    flags = ("--splits", "train=1", "--image-format", "png", "--depth", "16")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *flags)
    (note,) = [note for note in made.manifest.notes if note.code == NOTE]
    assert note.startswith(
        "2 images have more than 8 bits per channel, of which Pillow reads only 8, such as 0.tif"
    )


def test_a_format_without_16_bits_is_an_error_before_work(photos, tmp_path, capsys):
    assert images("--input", photos, "--output", tmp_path / "out", "--depth", "16") == 2
    said = capsys.readouterr().err
    assert "--depth 16: --image-format jpeg has 8 bits per channel" in said
    assert not (tmp_path / "out").exists()


def test_a_dry_run_notes_the_bits_of_its_sample(photos, tmp_path, capsys):
    argv = ["images", "--input", str(photos), "--output", str(tmp_path / "out"), "--dry-run"]
    assert main([*argv, "--splits", "train=1"]) == 0
    said = capsys.readouterr().err
    assert "in the sample that was encoded, 5 images have more than 8 bits per channel" in said
    assert main([*argv, "--splits", "train=1", "--fail-on", NOTE]) == 1
    assert "(an error because of --fail-on bit-depth)" in capsys.readouterr().err
    assert main([*argv, "--splits", "train=1", "--depth", "8"]) == 0
    assert "bits per channel" not in capsys.readouterr().err
