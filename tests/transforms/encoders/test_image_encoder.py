"""Rows that name pictures, as columns of Examples."""

import contextlib
import dataclasses
import io
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from recordmill.errors import ConfigError, Reason, RunError
from recordmill.tfrecord.example import encode_examples
from recordmill.tfrecord.features import Feature
from recordmill.transforms.encoders.image_headers import HeaderCheck
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.pixels import ImageOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.renames import check_renames
from tests.paths import ROOT
from tests.pictures import photo, saved

OPTIONS = ImageOptions(size=(20, 30))
CONTEXT = Context(seed=7, labels=("bee", "cat"), label_offset=1)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.jpg").write_bytes(saved(photo(), "JPEG"))
    (tmp_path / "b.png").write_bytes(saved(photo(60, 80)))
    (tmp_path / "broken.jpg").write_bytes(saved(photo(), "JPEG")[:1000])
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "small.png").write_bytes(saved(photo(4, 4)))
    return tmp_path


def rows_of(folder, *names, labels=None, copies=None, splits=None, extra=None):
    paths = [folder / name for name in names]
    count = len(names)
    columns = {
        batch.KEY: pa.array(names),
        batch.LABEL: pa.array(labels or ["bee"] * count, pa.string()),
        batch.SPLIT: pa.array(splits or ["train"] * count).dictionary_encode(),
        batch.COPY: pa.array(copies or [0] * count, pa.int32()),
        batch.PATH: pa.array([str(path) for path in paths]),
        batch.SIZE: pa.array([path.stat().st_size for path in paths], pa.int64()),
        batch.MTIME: pa.array([path.stat().st_mtime_ns for path in paths], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns | (extra or {}))


def test_columns_are_what_was_declared(folder):
    encoder = ImageEncoder(options=OPTIONS, one_hot_label=True)
    rows = rows_of(folder, "b.png", "a.jpg", labels=["cat", "bee"])
    encoded = encoder.encode(rows, CONTEXT)
    features = encoder.features(rows.schema, CONTEXT)
    assert encoded.columns.schema.names == list(features)
    table = encoded.columns.to_pydict()
    pictures = table.pop("image/encoded")
    assert table == {
        "image/filename": ["b.png", "a.jpg"],
        "image/format": [b"jpeg", b"jpeg"],
        "image/height": [20, 20],
        "image/width": [30, 30],
        "image/channels": [3, 3],
        "image/class/label": [2, 1],
        "image/class/text": ["cat", "bee"],
        "image/class/one_hot": [[0, 1], [1, 0]],
    }
    for picture in pictures:
        assert Image.open(io.BytesIO(picture)).size == (30, 20)
    assert features["image/encoded"] == Feature(
        dtype="string", kind="image", raw_dtype="uint8", raw_shape=(20, 30, 3)
    )
    assert features["image/class/label"] == Feature(dtype="int64", kind="label")
    assert features["image/class/one_hot"] == Feature(dtype="float32", shape=(2,))
    assert len(encode_examples(encoded.columns).offsets) == 3  # every column is of a kind it takes


def test_bad_pictures_are_left_out_and_told_apart(folder):
    encoder = ImageEncoder(options=dataclasses.replace(OPTIONS, min_size=10))
    rows = rows_of(folder, "empty.jpg", "a.jpg", "small.png", "broken.jpg", "b.png")
    encoded = encoder.encode(rows, CONTEXT)
    assert encoded.rows.kept.tolist() == [1, 4]
    assert encoded.columns.column("image/filename").to_pylist() == ["a.jpg", "b.png"]
    assert [(r.key, r.stage, r.reason) for r in encoded.rows.rejects] == [
        ("empty.jpg", "encode", Reason.EMPTY),
        ("broken.jpg", "encode", Reason.TRUNCATED),
    ]
    assert encoded.rows.filtered == [("small.png", "min-size")]


def test_nothing_left(folder):
    encoder = ImageEncoder(options=OPTIONS, one_hot_label=True)
    for rows in (rows_of(folder, "empty.jpg"), rows_of(folder, "a.jpg").slice(0, 0)):
        encoded = encoder.encode(rows, CONTEXT)
        assert encoded.columns.num_rows == 0
        assert encoded.columns.schema.names == list(encoder.features(rows.schema, CONTEXT))


def test_the_check_finds_what_headers_tell(folder):
    (folder / "bomb.jpg").write_bytes(saved(photo(300, 300), "JPEG"))
    check = HeaderCheck(options=ImageOptions(min_size=10, max_pixels=20_000))
    names = ("a.jpg", "empty.jpg", "bomb.jpg", "small.png", "b.png", "broken.jpg")
    outcome = check.check(rows_of(folder, *names))
    assert outcome.kept.tolist() == [0, 4, 5]  # broken.jpg has a sound header
    assert [(r.key, r.stage, r.reason) for r in outcome.rejects] == [
        ("empty.jpg", "check", Reason.EMPTY),
        ("bomb.jpg", "check", Reason.TOO_MANY_PIXELS),
    ]
    assert outcome.rejects[1].detail == "300x300 pixels, more than --max-pixels 20000"
    assert outcome.filtered == [("small.png", "min-size")]


@pytest.mark.parametrize(
    "act",
    [
        lambda rows: ImageEncoder(options=OPTIONS).encode(rows, CONTEXT),
        lambda rows: HeaderCheck(options=OPTIONS).check(rows),
    ],
    ids=["encode", "check"],
)
def test_a_file_that_changed_ends_the_run(folder, act):
    rows = rows_of(folder, "a.jpg", "b.png")
    os.utime(folder / "b.png", ns=(1, 1))
    with pytest.raises(RunError, match=r"b\.png changed while the job ran"):
        act(rows)


def pictures_of(encoder, rows, context=CONTEXT):
    return encoder.encode(rows, context).columns.column("image/encoded").to_pylist()


def test_copies_are_augmented_each_in_its_own_way(folder):
    rows = rows_of(folder, *["a.jpg"] * 3, copies=[0, 1, 2])
    plain = pictures_of(ImageEncoder(options=OPTIONS), rows)
    assert plain[0] == plain[1] == plain[2]
    encoder = ImageEncoder(options=OPTIONS, augment=("crop", "brightness"))
    changed = pictures_of(encoder, rows)
    assert changed[0] == plain[0]
    assert len(set(changed)) == 3
    # By seed, key and copy alone: not by the rows before.
    assert pictures_of(encoder, rows.slice(2, 1)) == changed[2:]
    assert pictures_of(encoder, rows, dataclasses.replace(CONTEXT, seed=8))[1] != changed[1]


def test_augment_all_is_for_train(folder):
    names = ["a.jpg"] * 3
    rows = rows_of(folder, *names, splits=["train", "validation", "test"])
    plain = pictures_of(ImageEncoder(options=OPTIONS), rows)
    encoder = ImageEncoder(options=OPTIONS, augment=("brightness",), augment_all=True)
    changed = pictures_of(encoder, rows)
    assert changed[0] != plain[0]
    assert changed[1:] == plain[1:]


def test_rows_without_label(folder):
    encoder = ImageEncoder(options=OPTIONS, one_hot_label=True, unlabelled=True)
    rows = rows_of(folder, "a.jpg", "b.png", labels=[None, "cat"])
    features = encoder.features(rows.schema, CONTEXT)
    table = encoder.encode(rows, CONTEXT).columns
    expected = {
        "image/class/label": [None, 2],
        "image/class/text": [None, "cat"],
        "image/class/one_hot": [None, [0, 1]],
    }
    for name, values in expected.items():
        assert table.column(name).to_pylist() == values
        assert features[name].shape == (None,)


def test_no_labels_at_all(folder):
    encoder = ImageEncoder(options=OPTIONS)
    rows = rows_of(folder, "a.jpg", labels=[None])
    context = Context(seed=0)
    names = encoder.encode(rows, context).columns.schema.names
    assert names == list(encoder.features(rows.schema, context))
    assert not [name for name in names if name.startswith("image/class")]


def test_user_columns_come_along(folder):
    extra = {
        "age": pa.array([1, None], pa.int8()),
        "ok": pa.array([True, False]),
        "weight": pa.array([0.5, None]),
        "who": pa.array(["x", "y"]),
        "blob": pa.array([b"\0", b""]),
        "box": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
        "who2": pa.array([["x", "y"], []]),
        "who3": pa.array([[1, 2], [3, 4]], pa.list_(pa.float64(), 2)),
    }
    encoder = ImageEncoder(options=OPTIONS)
    rows = rows_of(folder, "a.jpg", "empty.jpg", extra=extra)
    fields = [field.with_nullable(field.name[:3] != "who") for field in rows.schema]
    rows = pa.RecordBatch.from_arrays(rows.columns, schema=pa.schema(fields))
    features = encoder.features(rows.schema, CONTEXT)
    assert {name: features[name] for name in extra} == {
        "age": Feature(dtype="int64", shape=(None,)),
        "ok": Feature(dtype="int64", shape=(None,)),
        "weight": Feature(dtype="float32", shape=(None,)),
        "who": Feature(dtype="string", kind="text"),
        "blob": Feature(dtype="string", shape=(None,)),
        "box": Feature(dtype="int64", shape=(None,)),
        "who2": Feature(dtype="string", shape=(None,), kind="text"),
        "who3": Feature(dtype="float32", shape=(2,)),
    }
    columns = encoder.encode(rows, CONTEXT).columns
    assert columns.select(list(extra)).to_pylist() == [
        {
            "age": 1,
            "ok": True,
            "weight": 0.5,
            "who": "x",
            "blob": b"\0",
            "box": [1, 2],
            "who2": ["x", "y"],
            "who3": [1, 2],
        }
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[[1]]]), "column 'x' has type list<"),
        (pa.array([1], pa.uint64()), "column 'x' has type uint64: .*--drop-col"),
        (pa.array([0], pa.duration("s")), "column 'x' has type duration"),
    ],
)
def test_user_columns_that_no_feature_can_hold(folder, column, message):
    rows = rows_of(folder, "a.jpg", extra={"x": column})
    with pytest.raises(ConfigError, match=message):
        ImageEncoder(options=OPTIONS).features(rows.schema, CONTEXT)


@pytest.mark.parametrize(
    ("rename", "problem"),
    [
        ({"image/encoded": "raw", "image/height": "image/encoded"}, None),  # made free
        ({"image/height": "image/width", "image/width": "image/height"}, None),  # swapped
        ({"image/class/label": "label", "who": "x"}, None),
        ({"image/height": "image/height"}, None),
        ({"image/height": "image/width"}, "'image/height' and 'image/width' would both be named"),
        ({"image/height": "who"}, "'image/height' and 'who' would both be named 'who'"),
        ({"who": "image/class/text"}, "would both be named 'image/class/text'"),
        (
            {"who": "weight", "weight": "x"},
            "--rename weight=x: 'weight' is made of the column 'who': use --rename who=x",
        ),
        ({"image/class/one_hot": "x"}, "there is no feature 'image/class/one_hot'"),
        ({"whom": "x"}, "no feature 'whom' (did you mean 'who'?); the features are image/"),
    ],
)
def test_renames(folder, rename, problem):
    rows = rows_of(folder, "a.jpg", extra={"who": pa.array([3])})
    features = ImageEncoder(options=OPTIONS).features(rows.schema, CONTEXT)
    expected = contextlib.nullcontext()
    if problem:
        expected = pytest.raises(ConfigError, match=re.escape(problem))
    with expected:
        check_renames(rename, features)


def test_user_column_of_a_name_that_is_taken(folder):
    rows = rows_of(folder, "a.jpg", extra={"image/width": pa.array([3])})
    with pytest.raises(ConfigError, match="column 'image/width' of the listing has the name of"):
        ImageEncoder(options=OPTIONS).features(rows.schema, CONTEXT)


@pytest.mark.parametrize(
    ("options", "dtype", "shape"),
    [
        (ImageOptions(image_format="raw"), "uint8", (None, None, 3)),
        (ImageOptions(image_format="raw", size=(20, 30)), "uint8", (20, 30, 3)),
        (
            ImageOptions(image_format="raw", size=(20, 30), resize_mode="fit", mode="rgba"),
            "uint8",
            (None, None, 4),
        ),
        (
            ImageOptions(image_format="raw", size=(20, 30), mode="gray", normalize="unit"),
            "float32",
            (20, 30, 1),
        ),
    ],
)
def test_raw_is_declared_as_it_is_written(folder, options, dtype, shape):
    encoder = ImageEncoder(options=options)
    rows = rows_of(folder, "b.png")
    feature = encoder.features(rows.schema, CONTEXT)["image/encoded"]
    told = ("image/height", "image/width", "image/channels") if None in shape else ()
    assert feature == Feature(
        dtype="string", kind="raw", raw_dtype=dtype, raw_shape=shape, shape_features=told
    )
    (row,) = encoder.encode(rows, CONTEXT).columns.to_pylist()
    sides = [row[f"image/{side}"] for side in ("height", "width", "channels")]
    pixels = np.frombuffer(row["image/encoded"], dtype).reshape(sides)
    assert all(got == said for got, said in zip(pixels.shape, shape, strict=True) if said)
    assert row["image/format"] == b"raw"


def test_versions_name_what_shapes_bytes():
    versions = ImageEncoder(options=OPTIONS).versions()
    assert {"pillow", "libjpeg-turbo", "pillow-zlib", "littlecms2"} <= versions.keys()
    assert all(isinstance(version, str) and version for version in versions.values())


def test_options_that_cannot_work():
    with pytest.raises(ConfigError, match="--augment: expected some of crop, flip"):
        ImageEncoder(options=OPTIONS, augment=("blur",))
    with pytest.raises(ConfigError, match="--augment-all: requires --augment"):
        ImageEncoder(options=OPTIONS, augment_all=True)


def test_travels_to_encoder_processes():
    encoder = ImageEncoder(options=OPTIONS, augment=("flip",))
    assert pickle.loads(pickle.dumps(encoder)) == encoder


def test_imports_neither_beam_nor_tensorflow():
    code = (
        "import sys, recordmill.transforms.encoders.images\n"
        "print(*{'apache_beam', 'tensorflow', 'pandas'} & sys.modules.keys())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""
