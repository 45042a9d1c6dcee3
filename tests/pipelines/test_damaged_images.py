"""JPEGs that libjpeg decodes although their data is damaged: kept with a note, or rejected."""

import io
import json
import random

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from recordmill.format.image_files import has_reduced_sizes, load_image
from recordmill.pipelines.cli import main
from tests.damaged_jpegs import DAMAGES, coded_data, intact_kinds
from tests.image_runs import images, make
from tests.paths import SMALL_CLOTHING
from tests.pictures import photo, saved

pytestmark = pytest.mark.usefixtures("encoders")

NOTE = (
    "JPEGs are damaged, such as a.jpg: what libjpeg could decode was written, in which a part may"
    " be gray or displaced; look at such images and replace them, or reject them with --damaged"
    " reject"
)


def zeroed(content: bytes, *, seed: int = 0) -> bytes:
    return DAMAGES["zeros"](content, random.Random(seed))


@pytest.fixture
def folder(tmp_path):
    """Intact JPEGs of all kinds, and three that are damaged: a, b, c."""
    place = tmp_path / "in"
    place.mkdir()
    kinds = intact_kinds(photo())
    for name, content in kinds.items():
        (place / f"intact-{name}.jpg").write_bytes(content)
    for name, kind in {"a": "baseline", "b": "progressive", "c": "gray"}.items():
        (place / f"{name}.jpg").write_bytes(zeroed(kinds[kind]))
    return place


def noted(made) -> list[str]:
    return [note for note in made.manifest.notes if note.code == "damaged-image"]


def stored(made) -> dict[str, bytes]:
    return {key: one["image/encoded"][0] for (key, _), one in made.examples().items()}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--size", "16"),
        ("--mode", "gray"),
        ("--resize-mode", "none"),
        ("--near-duplicates", "group"),
    ],
    ids=["full", "reduced", "gray", "as-is", "near"],
)
def test_damaged_jpegs_are_kept_with_a_note(options, folder, tmp_path):
    argv = ("--input", folder, "--splits", "train=1", *options)
    made = make(tmp_path / "out", *argv)
    assert noted(made) == [f"3 {NOTE}"]
    assert made.rejects == {}
    assert len(made.keys("train")) == 13


def test_jpegs_without_their_end_are_truncated(tmp_path):
    """Decoders accept some of them: it depends on the last bits of the data."""
    place = tmp_path / "in"
    place.mkdir()
    kinds = intact_kinds(photo())
    for quality in range(50, 70):
        kinds[f"baseline-{quality}"] = saved(photo(), "JPEG", quality=quality)
        kinds[f"cmyk-{quality}"] = saved(photo().convert("CMYK"), "JPEG", quality=quality)
    for name, content in kinds.items():
        (place / f"{name}.jpg").write_bytes(content[:-2])
    (place / "whole.jpg").write_bytes(kinds["baseline"])
    (place / "followed.jpg").write_bytes(kinds["baseline"] + b"junk")
    made = make(
        *(tmp_path / "out", "--input", place, "--splits", "train=1"),
        *("--resize-mode", "none", "--max-reject-fraction", "1"),
    )
    assert made.rejects == {f"{name}.jpg": "truncated" for name in kinds}
    assert noted(made) == []
    found = stored(made)
    assert found["whole.jpg"] == kinds["baseline"]
    assert found["followed.jpg"][-2:] == b"\xff\xd9"


def test_damaged_jpegs_keep_their_bytes(tmp_path, capsys):
    place = tmp_path / "in"
    place.mkdir()
    content = zeroed(intact_kinds(photo())["baseline"])
    (place / "kept.jpg").write_bytes(content)
    (place / "anew.jpg").write_bytes(content + b"junk")
    argv = ("--input", place, "--splits", "train=1", "--resize-mode", "none")
    made = make(tmp_path / "out", *argv)
    assert noted(made) == [f"2 {NOTE.replace('a.jpg', 'anew.jpg')}"]
    assert stored(made)["kept.jpg"] == content
    capsys.readouterr()
    assert main(["verify", "--dataset", str(made.folder), "--deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["damaged_images"]["count"] == 1


def test_copies_of_damaged_jpegs_are_not_counted(folder, tmp_path):
    for name in ("one", "two"):
        (folder / name).mkdir()
    for path in folder.glob("*.jpg"):
        path.rename(folder / ("one" if path.name == "a.jpg" else "two") / path.name)
    argv = ("--input", folder, "--splits", "train=1", "--balance", "oversample")
    made = make(tmp_path / "out", *argv)
    assert noted(made) == [f"3 {NOTE.replace('a.jpg', 'one/a.jpg')}"]
    again = make(tmp_path / "again", *argv, "--reuse", tmp_path / "out")
    assert noted(again) == noted(made)


def test_damaged_jpegs_can_fail_a_run(folder, tmp_path, capsys):
    argv = ("--input", folder, "--output", tmp_path / "out", "--splits", "train=1")
    assert images(*argv, "--fail-on", "damaged-image") == 1
    assert "(an error because of --fail-on damaged-image)" in capsys.readouterr().err
    assert not (tmp_path / "out/dataset.json").exists()
    assert images(*argv, "--dry-run", "--fail-on", "damaged-image") == 1


@pytest.mark.parametrize("near", ["none", "group"])
def test_damaged_jpegs_can_be_rejected(near, folder, tmp_path):
    argv = ("--input", folder, "--splits", "train=1", "--damaged", "reject")
    rejecting = (*argv, "--max-reject-fraction", "0.5", "--near-duplicates", near)
    made = make(tmp_path / "out", *rejecting)
    assert made.rejects == dict.fromkeys(("a.jpg", "b.jpg", "c.jpg"), "corrupt")
    assert noted(made) == []
    lines = map(json.loads, (tmp_path / "out/rejects.jsonl").read_text().splitlines())
    assert {line["key"]: line["detail"] for line in lines}["c.jpg"].startswith(
        "the JPEG is damaged: Corrupt JPEG data: "
    )


def test_what_can_be_decoded_of_damaged_jpegs_has_the_pixels_of_pillow(folder, tmp_path):
    argv = ("--input", folder, "--splits", "train=1", "--image-format", "png")
    made = make(tmp_path / "out", *argv)
    for key, content in stored(made).items():
        if "cmyk" not in key:
            expected = Image.open(folder / key).convert("RGB")
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), expected), key


def test_bytes_between_segments_and_wrong_restart_numbers_are_damage(tmp_path):
    """Files of which all pixels are right can be among the damaged ones."""
    place = tmp_path / "in"
    place.mkdir()
    whole = intact_kinds(photo())["baseline"]
    (place / "a.jpg").write_bytes(whole[:20] + b"junk" + whole[20:])  # behind the first segment
    restarts = intact_kinds(photo())["restarts"]
    at = restarts.index(b"\xff\xd1", coded_data(restarts)) + 1
    (place / "b.jpg").write_bytes(restarts[:at] + b"\xd2" + restarts[at + 1 :])
    made = make(tmp_path / "out", "--input", place, "--splits", "train=1")
    assert noted(made) == [f"2 {NOTE}"]


def test_a_deep_verification_reports_damaged_jpegs(folder, tmp_path, capsys):
    argv = ("--input", folder, "--splits", "train=1", "--resize-mode", "none")
    make(tmp_path / "out", *argv)
    verify = ["verify", "--dataset", str(tmp_path / "out")]
    assert main([*verify, "--deep"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Note: 2 JPEGs are damaged, such as in train.tfrecord-00000-of-00001, record" in out
    assert main([*verify, "--deep", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["damaged_images"]["count"]) == (True, 2)
    assert main([*verify, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["damaged_images"]["count"] == 0


def test_adopted_datasets_report_damaged_jpegs(folder, tmp_path, capsys):
    argv = ("--input", folder, "--splits", "train=1", "--resize-mode", "none")
    made = make(tmp_path / "out", *argv)
    (shard,) = made.folder.glob("train.tfrecord-*")
    adopt = ("--input", shard, "--output", tmp_path / "adopted")
    note = f"Note: 2 JPEGs are damaged, such as in {shard.name}, record"
    for _ in range(2):
        capsys.readouterr()
        assert main(["adopt", *map(str, adopt), "--verify", "deep"]) == 0
        assert note in " ".join(capsys.readouterr().out.split())


def test_photos_have_the_pixels_of_pillow(tmp_path):
    photos = tmp_path / "in"
    photos.mkdir()
    for path in sorted(SMALL_CLOTHING.glob("*/*.jpg"))[::40]:
        (photos / path.name).write_bytes(path.read_bytes())
    argv = ("--input", photos, "--splits", "train=1", "--image-format", "png")
    made = make(tmp_path / "out", *argv)
    assert noted(made) == []
    for key, content in stored(made).items():
        expected = np.asarray(Image.open(photos / key).convert("RGB"))
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), expected), key


def lossless(side: int) -> bytes:
    """A gray lossless JPEG in which every difference is 0, with a code of two bits."""
    size = side.to_bytes(2)
    frame = b"\xff\xc3\0\x0b\x08" + size + size + b"\x01\x01\x11\0"
    table = b"\xff\xc4\0\x14\0" + b"\0\x01" + bytes(14) + b"\0"
    scan = b"\xff\xda\0\x08\x01\x01\0\x01\0\0"
    return b"\xff\xd8" + frame + table + scan + bytes(side * side // 4) + b"\xff\xd9"


def test_lossless_jpegs_are_decoded_at_their_size(tmp_path):
    """libjpeg-turbo does not reduce them, and wrote beyond the memory of the reduced image."""
    place = tmp_path / "in"
    place.mkdir()
    (place / "a.jpg").write_bytes(lossless(512))
    argv = ("--input", place, "--splits", "train=1", "--size", "16", "--image-format", "png")
    made = make(tmp_path / "out", *argv)
    (content,) = stored(made).values()
    assert Image.open(io.BytesIO(content)).getextrema() == ((128, 128),) * 3


def test_metadata_does_not_make_a_jpeg_lossless():
    content = next(iter(intact_kinds(photo()).values()))
    marker = b"\xff\xef\0\x06\xff\xc3\0\x0b"  # an application segment that holds one of SOF3
    for data, is_reducible in (
        (content, True),
        (content[:2] + marker + content[2:], True),
        (lossless(512), False),
    ):
        assert has_reduced_sizes(JpegImageFile(io.BytesIO(data)), data) == is_reducible


@pytest.mark.parametrize(
    "size", [(1, 1), (2, 1), (5, 5), (6, 4), (7, 9), (8, 8), (9, 17), (101, 37)]
)
def test_reduced_jpegs_have_the_pixels_of_pillow(size):
    contents = [
        content for name, content in intact_kinds(photo().resize(size)).items() if name != "cmyk"
    ]
    for content in contents:
        for scale in (1, 2, 3, 4, 5, 8):
            for mode in (None, "L"):
                needed = tuple(max(1, side // scale) for side in size)
                ours, pillows = (JpegImageFile(io.BytesIO(content)) for _ in range(2))
                ours.draft(mode, needed)
                pillows.draft(mode, needed)
                assert load_image(ours, content) is None
                assert np.array_equal(np.asarray(ours), np.asarray(pillows)), (scale, mode)
