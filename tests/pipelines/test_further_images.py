"""Image files that hold several images: raw files of cameras, pages, animations."""

import pytest

from tests.folders import make_picture
from tests.image_runs import encoders_kept, make
from tests.tiff_files import tiff


@pytest.fixture(autouse=True, scope="module")
def _processes():
    with encoders_kept():
        yield


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
    assert details.count("a raw file of a camera") == len(RAW)
    assert "whose first image is a preview of another" in details
