"""Parts of the input that are not read, or are taken as stored: one note names them with counts."""

import io
import json
import pathlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import av
import h5py
import numpy as np
import pytest
from PIL import Image

from recordmill.pipelines.cli import main
from tests.archive_files import tar_of, zip_of
from tests.folders import make_picture
from tests.image_runs import Made, images, make, run
from tests.tiff_files import tiff
from tests.video_files import make_film

pytestmark = pytest.mark.usefixtures("encoders")

_LEAD = "not read, or taken as stored: "
_ALL = ("--splits", "train=1")
_RGB = {262: 2, 277: 4, 256: 2, 257: 2, 278: 2, 279: 16}
_NAMES = ("0.jpg", "1.jpg", "2.jpg")


def parts_of(made: Made) -> list[str]:
    """The parts that the note names; there is one note at most."""
    texts = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert len(texts) <= 1
    assert all(text.startswith(_LEAD) for text in texts)
    return texts[0].removeprefix(_LEAD).split("; ") if texts else []


def made_of(tmp_path: pathlib.Path, *argv: object, command: str = "images") -> Made:
    return make(tmp_path / "out", *_ALL, *argv, command=command)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for number, name in enumerate(_NAMES):
        make_picture(tmp_path / "in" / name, number)
    return tmp_path / "in"


def coco(place: pathlib.Path, *more: Mapping[str, Any]) -> pathlib.Path:
    """Annotations of COCO with an object per item of `more`, of one image after the other."""
    objects = [
        {
            **{"id": number, "image_id": number % 3, "category_id": 1, "iscrowd": 0, "area": 20},
            **{"bbox": [1, 2, 5, 4], "segmentation": [[1, 2, 6, 2, 6, 6]], "num_keypoints": 0},
            **fields,
        }
        for number, fields in enumerate(more)
    ]
    shown = [
        {"id": n, "file_name": name, "license": 1, "date_captured": "2020", "flickr_url": "u"}
        for n, name in enumerate(_NAMES)
    ]
    kinds = [{"id": 1, "name": "dog", "supercategory": "animal", "keypoints": []}]
    found = {"info": {}, "licenses": [{"id": 1}], "images": shown, "categories": kinds}
    place.write_text(json.dumps({**found, "annotations": objects}))
    return place


_SEEN = {"keypoints": [3, 4, 2]}
_NOT_SEEN = {"keypoints": [0, 0, 0]}


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        (({}, _NOT_SEEN, {"attributes": {"occluded": False}}, {"track_id": None}), []),
        ((_SEEN, _NOT_SEEN, _SEEN), ["keypoints of 2 annotations, such as one of 0.jpg"]),
        (
            ({}, {"attributes": {"occluded": True, "pose": ""}}, {"attributes": {"truncated": 1}}),
            ["attributes (occluded, truncated) of 2 annotations, such as one of 1.jpg"],
        ),
        (
            ({"score": 0.5, "track_id": 3, **_SEEN}, {"score": 0}),
            [
                "fields (score, track_id) of 1 annotation, such as one of 0.jpg",
                "keypoints of 1 annotation, such as one of 0.jpg",
            ],
        ),
    ],
)
def test_fields_of_coco_annotations_are_noted(more, parts, folder, tmp_path) -> None:
    annotations = coco(tmp_path / "a.json", *more)
    made = made_of(tmp_path, "--input", folder, "--annotations", annotations)
    assert parts_of(made) == parts
    plain = coco(tmp_path / "plain.json", *({} for _ in more))
    other = make(tmp_path / "plain", *_ALL, "--input", folder, "--annotations", plain)
    assert made.manifest.digest == other.manifest.digest


def voc(place: pathlib.Path, *inner: str) -> pathlib.Path:
    place.mkdir()
    for name, more in zip(_NAMES, inner, strict=True):
        box = "<xmin>2</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax>"
        one = f"<object><name>dog</name><pose>Left</pose><truncated>1</truncated>{more}"
        text = f"<annotation><segmented>0</segmented>{one}<bndbox>{box}</bndbox></object>"
        (place / name.replace("jpg", "xml")).write_text(f"{text}</annotation>")
    return place


@pytest.mark.parametrize("rule", ["rarest", "largest"])
def test_parts_of_voc_objects_are_noted_once(rule, folder, tmp_path) -> None:
    """Rules for the classes of images may read the files twice."""
    part = "<part><name>head</name></part>"
    given = "<attribute><name>rotation</name><value>{}</value></attribute>"
    attributes = f"<attributes>{given}</attributes>"
    annotations = voc(
        tmp_path / "voc",
        part + part + attributes.format("0"),
        "<difficult>1</difficult><deleted>0</deleted>" + attributes.format("30"),
        "<polygon><x1>2</x1></polygon><actions><jumping>0</jumping></actions>",
    )
    argv = ("--input", folder, "--annotations", annotations, "--image-class", rule)
    assert parts_of(made_of(tmp_path, *argv)) == [
        "attributes (rotation) of 1 annotation, such as one in 1.xml",
        "fields (part, polygon) of 2 annotations, such as one in 0.xml",
    ]


def test_columns_of_box_tables_are_noted(folder, tmp_path) -> None:
    rows = ["id,filename,class,xmin,ymin,xmax,ymax,width,Confidence,IsOccluded"]
    rows += [f"{n},{name},dog,1,2,9,8,40,0.5,0" for n, name in enumerate(_NAMES)]
    (tmp_path / "boxes.csv").write_text("\n".join(rows) + "\n")
    made = made_of(tmp_path, "--input", folder, "--annotations", tmp_path / "boxes.csv")
    assert parts_of(made) == ["fields (confidence) of 3 annotations, such as one of 0.jpg"]


def samples(folder: pathlib.Path) -> dict[str, bytes]:
    found = {}
    for name in _NAMES:
        stem = name.removesuffix(".jpg")
        found[f"{stem}.caption.txt"] = b"before the image"
        found[name] = (folder / name).read_bytes()
        found[f"{stem}.json"] = b'{"species": "dog"}'
    return {**found, "readme.txt": b"of no image", "2b.txt": b"of no image"}


def _unpacked(place: pathlib.Path, members: Mapping[str, bytes]) -> pathlib.Path:
    place = place.with_suffix("")
    place.mkdir()
    for name, content in members.items():
        (place / name).write_bytes(content)
    return place


_TEXT = "content of 3 sidecar .txt files, such as 0.caption.txt"
_JSON = "content of 3 sidecar .json files, such as 0.json"


@pytest.mark.parametrize("packed", [tar_of, zip_of, _unpacked])
@pytest.mark.parametrize("command", ["images", "arrays"])
def test_texts_beside_records_are_noted(packed: Callable, command, folder, tmp_path) -> None:
    members = samples(folder)
    if command == "arrays":
        np.save(tmp_path / "x.npy", np.arange(4))
        content = (tmp_path / "x.npy").read_bytes()
        members = {
            name.replace(".jpg", ".npy"): content if name.endswith(".jpg") else one
            for name, one in members.items()
        }
    place = packed(tmp_path / f"samples.{'zip' if packed is zip_of else 'tar'}", members)
    made = made_of(tmp_path, "--input", place, command=command)
    json_advice, text_advice = (
        f" (--captions-from {one} reads captions)" if command == "images" else ""
        for one in (".json:FIELD", ".txt")
    )
    assert parts_of(made) == [f"{_JSON}{json_advice}", f"{_TEXT}{text_advice}"]


def test_texts_that_are_read_or_not_asked_for_are_not_noted(folder, tmp_path) -> None:
    place = tar_of(tmp_path / "samples.tar", samples(folder))
    labelled = make(tmp_path / "a", *_ALL, "--input", place, "--label-from", ".json:species")
    assert parts_of(labelled) == [f"{_TEXT} (--captions-from .txt reads captions)"]
    for name, content in samples(folder).items():
        (folder / name).write_bytes(content)
    assert parts_of(make(tmp_path / "b", *_ALL, "--input", f"{folder}/*.jpg")) == []


def test_annotations_beside_images_have_their_own_note(folder, tmp_path) -> None:
    for name in _NAMES:
        (folder / name.replace("jpg", "txt")).write_text("0 0.5 0.5 0.2 0.2\n")
    made = made_of(tmp_path, "--input", folder)
    assert parts_of(made) == []
    assert "unread" in [note.code for note in made.manifest.notes]
    (folder / "classes.txt").write_text("dog\n")
    argv = ("--input", folder, "--annotations", folder)
    assert parts_of(make(tmp_path / "boxes", *_ALL, *argv)) == []


def rgbx(path: pathlib.Path, *, opaque: bool, tag: int | None = None) -> None:
    """A TIFF of 2x2 pixels in RGB with a fourth band. tag: value of ExtraSamples."""
    content = bytearray(tiff(_RGB if tag is None else {**_RGB, 338: tag}))
    if opaque:
        content[16 + 3 : 16 + 16 : 4] = b"\xff" * 4
    path.write_bytes(content)


def test_a_fourth_band_without_a_meaning_is_noted(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    rgbx(tmp_path / "in" / "infrared.tif", opaque=False)
    rgbx(tmp_path / "in" / "opaque.tif", opaque=True)
    rgbx(tmp_path / "in" / "alpha.tif", opaque=False, tag=2)
    assert parts_of(made_of(tmp_path, "--input", tmp_path / "in")) == [
        "a fourth band that no tag explains (taken as alpha) of 1 image, such as infrared.tif"
    ]


def test_levels_of_hdr_are_noted(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    picture = Image.new("RGB", (8, 8), (200, 100, 10))
    for name, transfer in (("plain", 13), ("hlg", 18)):
        file = io.BytesIO()
        picture.save(file, "AVIF")
        head, colour, rest = file.getvalue().partition(b"colrnclx")
        changed = rest[:2] + transfer.to_bytes(2, "big") + rest[4:]
        (tmp_path / "in" / f"{name}.avif").write_bytes(head + colour + changed)
        file = io.BytesIO()
        picture.save(file, "PNG")
        head, rest = file.getvalue()[:33], file.getvalue()[33:]
        chunk = b"cICP" + bytes([9, transfer, 0, 1])
        chunk = b"\0\0\0\x04" + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        (tmp_path / "in" / f"{name}.png").write_bytes(head + chunk + rest)
    picture.save(tmp_path / "in" / "none.png")
    assert parts_of(made_of(tmp_path, "--input", tmp_path / "in")) == [
        "the range of HDR (PQ or HLG) of 2 images, such as hlg.avif"
    ]


def test_parts_of_listing_and_pixels_share_one_note(folder, tmp_path, capsys) -> None:
    """The note is the same with more workers, after a failed run, and almost in a dry run."""
    rgbx(folder / "3.tif", opaque=False)
    rgbx(folder / "4.tif", opaque=False, tag=0)
    annotations = coco(tmp_path / "a.json", _SEEN)
    argv = ("--input", folder, "--annotations", annotations, "--unannotated", "keep", *_ALL)
    expected = [
        "keypoints of 1 annotation, such as one of 0.jpg",
        "a fourth band that no tag explains (taken as alpha) of 1 image, such as 3.tif",
        "bands beyond gray or RGB of 1 image, such as 4.tif",
    ]
    assert parts_of(make(tmp_path / "out", *argv)) == expected
    given = [str(one) for one in (*argv, "--output", tmp_path / "other", "--num-shards", 2)]
    capsys.readouterr()
    assert main(["images", "--workers", "2", "--dry-run", *given]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert said.count(_LEAD) == 1
    assert "of 1 image in the sample that was encoded, such as 4.tif" in said
    assert main(["images", "--workers", "2", "--fail-on", "left-unread", *given]) == 1
    assert "--fail-on left-unread" in capsys.readouterr().err
    assert main(["images", "--workers", "2", *given]) == 0
    assert parts_of(Made(tmp_path / "other")) == expected


def make_video(path: pathlib.Path, *, pixels: str, codec: str, **colour: int) -> None:
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 16, pixels
        for name, value in colour.items():
            setattr(stream.codec_context, name, value)
        for number in range(4):
            levels = np.full((16, 32, 4), 40 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(levels, "rgba").reformat(format=pixels)
            frame.pts = number
            for name, value in colour.items():
                setattr(frame, name, value)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def test_alpha_and_high_range_of_videos_are_noted(tmp_path) -> None:
    place = tmp_path / "in"
    make_film(place / "plain.mp4", 4, size=(16, 32))
    make_video(place / "plain.gif", pixels="rgb8", codec="gif")
    make_video(place / "argb.mov", pixels="argb", codec="qtrle")
    make_video(place / "png.mov", pixels="rgba", codec="png")
    make_video(place / "vp9.webm", pixels="yuva420p", codec="libvpx-vp9")
    tens = {"pixels": "yuv420p10le", "codec": "libx264"}
    make_video(place / "hlg.mp4", **tens, color_trc=18, color_primaries=9)
    make_video(place / "pq.mp4", **tens, color_trc=16, color_primaries=9)
    make_video(place / "wide.mp4", **tens, color_trc=14, color_primaries=9)
    made = made_of(tmp_path, "--input", place, "--clip-frames", 2, command="video")
    assert parts_of(made) == [
        "alpha of 3 videos, such as argb.mov",
        "the colors of BT.2020 of 1 video, such as wide.mp4",
        "the range of HDR (HLG) of 1 video, such as hlg.mp4",
        "the range of HDR (PQ) of 1 video, such as pq.mp4",
    ]


def test_further_streams_of_videos_are_noted(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    with av.open(str(tmp_path / "in" / "two.mkv"), "w") as out:
        streams = [out.add_stream("mpeg4", rate=10) for _ in range(2)]
        for stream in streams:
            stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(np.full((16, 32, 3), number, np.uint8), "rgb24")
            frame.pts = number
            for stream in streams:
                out.mux(stream.encode(frame))
        for stream in streams:
            out.mux(stream.encode(None))
    made = made_of(tmp_path, "--input", tmp_path / "in", "--clip-frames", 2, command="video")
    assert parts_of(made) == ["further video streams of 1 video, such as two.mkv"]


def packed(path: pathlib.Path, shape: tuple[int, ...] = (3, 4), **attributes: object) -> None:
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file["t2m"] = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
        file["t2m"].attrs.update(attributes)


def test_packed_values_are_noted(tmp_path) -> None:
    place = tmp_path / "in"
    packed(place / "a.nc", scale_factor=0.01, add_offset=273.15, _FillValue=np.int16(-32767))
    packed(place / "b.nc", scale_factor=np.array([0.5]), valid_range=np.array([0, 9]))
    packed(place / "c.nc", scale_factor=1.0, add_offset=0, _FillValue=np.nan, units="K")
    packed(place / "d.nc", _Unsigned="true")
    made = made_of(tmp_path, "--input", place, command="arrays")
    assert parts_of(made) == [
        "NetCDF's attributes for values (_FillValue, _Unsigned, add_offset, scale_factor,"
        " valid_range) of 3 arrays, such as a.nc"
    ]
    plain = tmp_path / "plain"
    for name in "abcd":
        packed(plain / f"{name}.nc")
    other = make(tmp_path / "o", *_ALL, "--input", plain, command="arrays")
    assert parts_of(other) == []
    assert other.manifest.digest == made.manifest.digest


def test_the_order_of_axes_in_matlab_files_is_noted(tmp_path) -> None:
    place = tmp_path / "in"
    for number in range(3):
        packed(place / f"{number}.mat", (5, 4, 3), MATLAB_class=np.bytes_(b"int16"))
    made = made_of(tmp_path, "--input", place, command="arrays")
    assert parts_of(made) == ["MATLAB's order of axes (reversed) of 3 arrays, such as 0.mat"]
    packed(tmp_path / "flat" / "0.mat", (5,), MATLAB_class=np.bytes_(b"int16"))
    flat = make(tmp_path / "o", *_ALL, "--input", tmp_path / "flat", command="arrays")
    assert parts_of(flat) == []


def test_the_note_can_be_an_error_before_any_work(tmp_path, capsys) -> None:
    packed(tmp_path / "in" / "a.nc", scale_factor=0.01)
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", *_ALL)
    assert run("arrays", *argv, "--fail-on", "left-unread") == 1
    assert f"{_LEAD}NetCDF's attributes for values (scale_factor)" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert images("--input", tmp_path, "--output", tmp_path / "o", "--fail-on", "left") == 2
