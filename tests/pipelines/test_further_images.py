"""Image files that hold several images: camera raw files, pages, animations."""

import pytest
from PIL import Image

from tests.folders import make_picture
from tests.image_runs import images, make
from tests.tiff_files import tiff

pytestmark = pytest.mark.usefixtures("encoders")


RAW = {
    "a.dng": tiff({254: 1, 50706: 0x0401}, inner={262: 32803}),
    "b.nef": tiff({254: 1}, inner={262: 32803}),
    "c.arw": tiff({254: 1}, inner={}),
    "d.cr2": tiff({}, {254: 1}, mark=b"CR\x02\x00"),
    "e.tif": tiff({}, inner={262: 34892}),
}


def test_previews_of_raw_files_are_rejected(tmp_path):
    folder = tmp_path / "in"
    make_picture(folder / "ok.png", 1)
    plain = {
        "pyramid.tif": tiff({}, {254: 1}, inner={254: 1}),
        "preview.tif": tiff({254: 1}, {}),
    }
    for name, data in (RAW | plain).items():
        (folder / name).write_bytes(data)
    argv = ("--input", folder, "--splits", "train=1", "--max-reject-fraction", "1")
    for probe in ("none", "header"):
        made = make(tmp_path / probe, *argv, "--probe", probe)
        assert made.rejects == dict.fromkeys([*RAW, "preview.tif"], "unsupported")
        assert made.keys("train") == {"ok.png", "pyramid.tif"}
    details = (tmp_path / "none" / "rejects.jsonl").read_text()
    assert details.count("a camera raw file") == len(RAW)
    assert "whose first image is a preview of another" in details


def test_further_pages_and_frames_are_noted(tmp_path, capsys):
    folder = tmp_path / "in"
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue")]
    for name in ("a.gif", "b.webp", "c.png", "d.tif", "e.avif"):
        make_picture(folder / f"single-{name}", 1)
        frames[0].save(folder / name, save_all=True, append_images=frames[1:])
    (folder / "pyramid.tif").write_bytes(tiff({}, {254: 1}, {254: 4}))
    argv = ("--input", folder, "--output", tmp_path / "out", "--splits", "train=1")
    note = (
        "5 files have further pages or frames, of which only the first was read, such as a.gif:"
        " write each that you need to a file of its own"
    )
    assert images(*argv, "--dry-run", "--fail-on", "pages") == 1
    assert f"error: in the sample that was encoded, {note}" in capsys.readouterr().err
    made = make(tmp_path / "out", *argv[:2], *argv[4:], "--num-shards", "2")
    assert [note for note in made.manifest.notes if note.code == "pages"] == [note]
    again = make(tmp_path / "again", *argv[:2], *argv[4:], "--reuse", tmp_path / "out")
    assert [note for note in again.manifest.notes if note.code == "pages"] == [note]


def test_a_note_on_folders_in_one_class_beside_files(tmp_path):
    for name in (
        "digits/0/a",
        "digits/0/b",
        "digits/1/c",
        "digits/1/d",
        "examples/e",
        "examples/f",
    ):
        path = tmp_path / "in" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_picture(path, ord(name[-1]))
    made = make(tmp_path / "out", "--input", tmp_path / "in")
    assert [str(note) for note in made.manifest.notes if note.code == "no-classes"] == [
        f"{tmp_path}/in holds the folder 'digits', which is a class, with 2 folders in it"
        " (digits/0, digits/1), and folders with files only; if the folders in 'digits' are"
        f" classes, pass --label-from parent, or --input {tmp_path}/in/digits"
    ]
    made = make(tmp_path / "by-parent", "--input", tmp_path / "in", "--label-from", "parent")
    assert "no-classes" not in {note.code for note in made.manifest.notes}
