import io
import json
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from recordmill.checking.inspection import (
    ClassCount,
    RejectSummary,
    inspect,
)
from recordmill.checking.record_inspection import describe_record, save_image
from recordmill.format.file_info import file_info
from recordmill.reading.reader import read_payloads
from recordmill.storage.files import Location
from recordmill.tfrecord.decode import decode_example
from recordmill.tfrecord.features import Feature
from tests.images16 import png16
from tests.make_dataset import FEATURES, LABELS, make_dataset, picture, rewrite


def test_a_summary_counts_records_and_copies_by_class(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    summary = inspect(Location.parse(str(tmp_path / "out")))
    assert summary.manifest == manifest
    train = summary.splits["train"]
    assert (train.records, train.copies, train.shards) == (6, 1, 2)
    assert train.classes == {
        "rose": ClassCount(records=3, copies=0),
        "tulip": ClassCount(records=3, copies=1),
    }
    assert train.unlabelled == ClassCount(records=0, copies=0)
    sizes = sorted(shard.bytes for shard in manifest.splits["train"].shards)
    assert train.shard_bytes == (sizes[0], sum(sizes) // 2, sizes[1])
    assert summary.splits["test"].shard_bytes == (0, 0, 0)
    assert summary.splits["test"].classes["rose"] == ClassCount(records=0, copies=0)


def test_rejects_are_counted_by_reason_with_examples(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    lines = [
        {"key": f"k{n}", "stage": "check", "reason": reason, "detail": "d"}
        for n, reason in enumerate(["empty", "corrupt", "corrupt", "corrupt", "corrupt"])
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (tmp_path / "out" / "rejects.jsonl").write_bytes(content)
    manifest.files["rejects.jsonl"] = file_info(content)
    rewrite(tmp_path / "out", manifest)
    summary = inspect(Location.parse(str(tmp_path / "out")))
    assert summary.rejects == {
        "corrupt": RejectSummary(count=4, examples=tuple(lines[1:4])),
        "empty": RejectSummary(count=1, examples=(lines[0],)),
    }
    assert list(summary.rejects) == ["corrupt", "empty"]


def test_a_dataset_may_have_no_rejects_file(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    del manifest.files["rejects.jsonl"]
    rewrite(tmp_path / "out", manifest)
    assert inspect(Location.parse(str(tmp_path / "out"))).rejects == {}


def test_the_summary_as_json(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    summary = inspect(Location.parse(str(tmp_path / "out")))
    data = json.loads(json.dumps(summary.to_json()))
    assert data["digest"] == manifest.digest
    assert data["splits"]["train"]["classes"]["tulip"] == {"records": 3, "copies": 1}
    assert data["rejects"]["empty"]["count"] == 1
    assert data["class_weights"] == {"rose": 1, "tulip": 1}
    assert data["source_weights"] == {"rose": 5 / 6, "tulip": 5 / 4}
    assert data["ledger"]["records"]["made"] == 8


def test_a_record_in_words(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", label_offset=1)
    _, payload, *_ = read_payloads(tmp_path / "out", "train")
    size = len(picture(ord("b")))
    assert describe_record(decode_example(payload), FEATURES, labels=LABELS, label_offset=1) == [
        ("caption", "absent"),
        ("grid", "float32 2x2, 16 bytes"),
        ("image/class/label", "2 (tulip)"),
        ("image/class/text", "tulip"),
        ("image/encoded", f"PNG 5x4 RGB, {size} bytes"),
        ("size", "1, 2, 98"),
    ]


@pytest.mark.parametrize(
    ("feature", "values", "text"),
    [
        (
            Feature(dtype="int64", shape=(None,)),
            np.arange(10),
            "0, 1, 2, 3, 4, 5, 6, 7, ... (10 values)",
        ),
        (Feature(dtype="float32"), np.float32([0.1]), "0.1"),
        (Feature(dtype="string"), [b"\xffa"], r"\xffa"),
        (Feature(dtype="string", kind="text"), ["ä".encode() * 201], "ä" * 200 + "..."),
        (Feature(dtype="string", kind="image"), [b"GIF"], "not an image, 3 bytes"),
        (
            Feature(dtype="string", kind="image", raw_dtype="uint16"),
            [png16(np.zeros((1, 1, 3)))],
            f"PNG 1x1 RGB, 16 bits per channel, {len(png16(np.zeros((1, 1, 3))))} bytes",
        ),
        (Feature(dtype="int64", kind="label"), np.array([3]), "3 (no class)"),
        (Feature(dtype="int64", shape=(None,)), None, "absent"),
        (
            Feature(dtype="string", kind="raw", raw_dtype="uint8", raw_shape=(None, 3)),
            [b"123456"],
            "uint8 ?x3, 6 bytes",
        ),
    ],
)
def test_values_in_words(feature, values, text) -> None:
    assert describe_record({"x": values}, {"x": feature}) == [("x", text)]


def encoded(kind: str) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (3, 2)).save(content, kind)
    return content.getvalue()


@pytest.mark.parametrize(
    ("kind", "extension"), [("JPEG", ".jpg"), ("PNG", ".png"), ("WEBP", ".webp"), ("TIFF", ".tif")]
)
def test_an_encoded_picture_is_saved_as_it_is(kind, extension, tmp_path) -> None:
    features = {"image": Feature(dtype="string", kind="image")}
    path = save_image({"image": [encoded(kind)]}, features, tmp_path / "record.jpg")
    assert path == tmp_path / f"record{extension}"
    assert path.read_bytes() == encoded(kind)


GREY = np.arange(6, dtype=np.uint8).reshape(2, 3)


@pytest.mark.parametrize(
    ("array", "shape", "expected"),
    [
        (GREY, (2, 3), GREY),
        (GREY, (None, 3), GREY),
        (GREY[..., None], (2, 3, 1), GREY),
        (np.stack([GREY] * 3, axis=-1), (2, 3, 3), np.stack([GREY] * 3, axis=-1)),
        (np.stack([GREY] * 4, axis=-1), (2, None, 4), np.stack([GREY] * 4, axis=-1)),
        (GREY.astype("<u2") * 300, (2, 3), GREY.astype(np.uint16) * 300),
        (np.stack([GREY] * 3, axis=-1).astype("<u2") * 256, (2, 3, 3), np.stack([GREY] * 3, -1)),
        (GREY.astype("<f4") / 5 - 7, (2, 3), GREY * 51),
        (np.zeros((2, 3), "<f4"), (2, 3), np.zeros((2, 3), np.uint8)),
    ],
)
def test_an_array_is_saved_as_png(array, shape, expected, tmp_path) -> None:
    feature = Feature(dtype="string", kind="raw", raw_dtype=array.dtype.name, raw_shape=shape)
    path = save_image({"x": [array.tobytes()]}, {"x": feature}, tmp_path / "record")
    assert path == tmp_path / "record.png"
    with Image.open(path) as saved:
        np.testing.assert_allclose(np.asarray(saved), expected, atol=1)


def test_pixels_of_any_size_are_saved_by_the_size_in_their_record(tmp_path) -> None:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    feature = Feature(
        dtype="string",
        kind="raw",
        raw_dtype="uint8",
        raw_shape=(None, None, 3),
        shape_features=("rows", "image/width", "image/channels"),
    )
    features = {"pixels": feature}
    example = {
        "pixels": [pixels.tobytes()],
        "rows": np.array([2]),
        "image/width": np.array([3]),
    }
    path = save_image(example, features, tmp_path / "record")
    with Image.open(path) as saved:
        np.testing.assert_array_equal(np.asarray(saved), pixels)
    example["image/width"] = np.array([4])
    with pytest.raises(ValueError, match=re.escape("18 values, which do not fill [2, 4, 3]")):
        save_image(example, features, tmp_path / "record")
    del example["image/width"]  # what one size is follows from the others
    assert save_image(example, features, tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.b.jpg", "a.b.png"), ("heron.2024", "heron.2024.png"), ("v.JPEG", "v.png"), ("x", "x.png")],
)
def test_only_the_extension_of_a_picture_is_replaced(name, expected, tmp_path) -> None:
    features = {"image": Feature(dtype="string", kind="image")}
    path = save_image({"image": [encoded("PNG")]}, features, tmp_path / name)
    assert path == tmp_path / expected


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        (Feature(dtype="string"), [b"x"], "the record has no image"),
        (Feature(dtype="string", shape=(None,), kind="image"), None, "the record has no image"),
        (
            Feature(dtype="string", kind="raw", raw_dtype="uint8", raw_shape=(None, None)),
            [b"x"],
            "the shape of x is not known",
        ),
        (
            Feature(dtype="string", kind="raw", raw_dtype="uint8", raw_shape=(2, 3)),
            [b"x"],
            "x has 1 values, which do not fill [2, 3]",
        ),
        (
            Feature(dtype="string", kind="raw", raw_dtype="uint8", raw_shape=(2,)),
            [b"xy"],
            "expected [height, width] or [height, width, 1 to 4], got [2]",
        ),
    ],
)
def test_what_is_no_picture(feature, values, message, tmp_path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        save_image({"x": values}, {"x": feature}, tmp_path / "record")
