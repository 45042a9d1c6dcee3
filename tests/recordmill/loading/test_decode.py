"""Decode makes the elements of recordmill.load, in NumPy."""

import io
import json
import pickle

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import recordmill
from recordmill.errors import ConfigError
from recordmill.loading import pixels
from recordmill.loading.options import AUGMENTATIONS
from recordmill.reading.reader import DatasetDamagedError
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, make_dataset

RECORDS = 24
HEIGHT, WIDTH = 40, 56
LABELS = ("a", "b", "c")


def photo(number: int, *, channels: int = 3) -> np.ndarray:
    """A picture of colours that change slowly."""
    x, y = np.meshgrid(np.linspace(0, 1, WIDTH), np.linspace(0, 1, HEIGHT))
    several = [60 + 150 * x, 50 + 5 * number + 80 * y, 200 - 120 * x * y, 255 * np.ones_like(x)]
    return np.stack(several[:channels], -1).astype(np.uint8)


def encoded(array: np.ndarray, kind: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array.squeeze()).save(out, kind)
    return out.getvalue()


def mask(number: int) -> np.ndarray:
    ids = np.zeros((HEIGHT, WIDTH), np.uint8)
    ids[5 + number % 9 : 25, 10:30] = 1
    ids[20:, 35:] = 2
    return ids


def write(folder, rows, features, **options):
    make_dataset(
        folder, {"train": [rows[:9], rows[9:]], "test": [rows]}, features=features, labels=LABELS,
        **options,
    )  # fmt: skip
    return folder


def image_feature(*, channels: int = 3, raw_dtype: str = "uint8", size=(HEIGHT, WIDTH)) -> Feature:
    shape = (*size, channels)
    return Feature(dtype="string", kind="image", raw_dtype=raw_dtype, raw_shape=shape)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = [
        Row(
            key=str(number),
            label=LABELS[number % 3],
            values={
                "image/encoded": [encoded(photo(number), "JPEG")],
                "image/mask": [encoded(mask(number), "PNG")],
                "image/class/label": [number % 3 + 1],
            },
        )
        for number in range(RECORDS)
    ]
    features = {
        "image/encoded": image_feature(),
        "image/mask": Feature(
            dtype="string", kind="mask", raw_dtype="uint8", raw_shape=(HEIGHT, WIDTH, 1)
        ),
        "image/class/label": Feature(dtype="int64", kind="label"),
    }
    return write(tmp_path_factory.mktemp("photos") / "out", rows, features, label_offset=1)


def items(folder, split="train", *, shuffle=False, start=None, **options):
    decode = recordmill.Decode(**options)
    source = recordmill.grain_source(
        folder, split, shuffle=shuffle, seed=7, transform=decode, epochs=4, start=start
    )
    return source[: source.records.layout.records]


def loaded(folder, split="train", *, shuffle=False, start=0, **options):
    data = recordmill.load(
        folder, split, batch_size=None, shuffle=shuffle, seed=7, start=start, repeat=4, **options
    )
    return [*data.take(RECORDS).as_numpy_iterator()]


def expect_equal(found, wanted, *, most=0.0, mean=0.0) -> None:
    """Check that levels differ by at most `most`, and on average by at most `mean`."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        pairs = (
            [(one[name], other[name]) for name in other]
            if isinstance(other, dict)
            else [*zip(one, other, strict=True)]
        )
        for mine, theirs in pairs:
            mine, theirs = np.asarray(mine), np.asarray(theirs)
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            away = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
            assert away.max(initial=0) <= most
            assert away.mean() <= mean or most == 0


@pytest.mark.parametrize("seed", [0, 7, 2**63 + 11, 2**64 - 1])
@pytest.mark.parametrize("number", [0, 5, 2**40 + 3])
def test_random_numbers_are_those_of_tensorflow(seed, number) -> None:
    signed = int(np.uint64(seed).astype(np.int64))
    wanted = tf.random.stateless_uniform([8], tf.constant([signed, number], tf.int64)).numpy()
    assert pixels.draws(seed, number) == wanted.tolist()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("options", "most", "mean"),
    [
        ({}, 0, 0),
        ({"image_size": (30, 20)}, 1, 0.5),
        ({"image_size": 64, "one_hot": True}, 1, 0.5),
        ({"augment": "flip"}, 0, 0),
        ({"augment": "brightness,contrast"}, 1, 0.01),
        ({"augment": "crop,rotate"}, 1, 0.01),
        ({"augment": AUGMENTATIONS, "image_size": 32}, 3, 1),
        ({"augment": "flip,crop", "normalize": "imagenet"}, 0.02, 0.001),
        ({"normalize": "signed"}, 1e-6, 1e-7),
    ],
)
def test_elements_are_those_of_load(folder, options, most, mean, shuffle) -> None:
    options = {"label": "image/class/label", "inputs": "image/encoded"} | options
    expect_equal(
        items(folder, shuffle=shuffle, **options),
        loaded(folder, shuffle=shuffle, **options),
        most=most,
        mean=mean,
    )


def test_changes_differ_between_epochs_and_continue(folder) -> None:
    options = {"inputs": "image/encoded", "label": "image/class/label", "augment": "flip,crop"}
    state = recordmill.position(folder, step=29, global_batch=1, shuffle=True, seed=7)
    rest = items(folder, shuffle=True, start=state, **options)[:19]
    wanted = loaded(folder, shuffle=True, start=state, **options)[:19]
    expect_equal(rest, wanted, most=5, mean=1)
    first = items(folder, **options)
    second = items(folder, start=recordmill.position(
        folder, step=RECORDS, global_batch=1, shuffle=False, seed=7), **options)  # fmt: skip
    assert any(np.any(one[0] != other[0]) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("augment", [(), ("flip",), ("flip", "crop", "rotate")])
@pytest.mark.parametrize("size", [None, (60, 30)])
def test_masks_move_with_their_images(folder, augment, size) -> None:
    options = {"augment": augment, "image_size": size, "as_supervised": False}
    found, wanted = items(folder, **options), loaded(folder, **options)
    for one, other in zip(found, wanted, strict=True):
        moved, expected = one["image/mask"], other["image/mask"]
        assert moved.dtype == expected.dtype
        assert moved.shape == expected.shape
        # A pixel of an edge may round to the other side.
        assert (moved != expected).mean() < 0.01
    pairs = items(folder, label="image/mask", inputs="image/encoded")
    assert pairs[3][1].shape == (HEIGHT, WIDTH, 1)
    np.testing.assert_array_equal(pairs[3][1][..., 0], mask(3))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_pngs_are_exact(tmp_path, channels, dtype) -> None:
    if dtype == np.uint16 and channels > 1:
        folder = write(
            tmp_path / "deep",
            [Row(key="a", label="a", values={"picture": [b""]})],
            {"picture": image_feature(channels=channels, raw_dtype="uint16")},
        )
        with pytest.raises(ConfigError, match="'picture' has PNGs in colour with 16 bits, which"):
            items(folder)
        return
    several = [photo(number, channels=channels).astype(dtype) for number in range(3)]
    if dtype == np.uint16:
        several = [one * 257 for one in several]
    rows = [
        Row(key=str(at), label="a", values={"picture": [encoded(one, "PNG")]})
        for at, one in enumerate(several)
    ]
    name = np.dtype(dtype).name
    folder = write(
        tmp_path / "out", rows, {"picture": image_feature(channels=channels, raw_dtype=name)}
    )
    for options, most in [({}, 0), ({"augment": AUGMENTATIONS}, 2 if dtype == np.uint8 else 500)]:
        expect_equal(
            items(folder, **options), loaded(folder, **options)[:3], most=most, mean=most / 2
        )
    np.testing.assert_array_equal(items(folder)[2]["picture"], several[2])


def test_several_images_of_a_record_change_alike(tmp_path) -> None:
    frames = [photo(number) for number in range(3)]
    rows = [Row(key="a", label="a", values={"frames": [encoded(one, "PNG") for one in frames]})]
    feature = Feature(
        dtype="string", kind="image", shape=(3,), raw_dtype="uint8", raw_shape=(HEIGHT, WIDTH, 3)
    )
    folder = write(tmp_path / "out", rows, {"frames": feature})
    for options, most in [({}, 0), ({"augment": AUGMENTATIONS}, 2), ({"image_size": 32}, 2)]:
        expect_equal(
            items(folder, **options), loaded(folder, **options)[:1], most=most, mean=most / 2
        )


def test_what_records_lack_has_the_weight_0(tmp_path) -> None:
    values = [{"x": [1.0], "y": [3.0]}, {"x": [2.0], "y": [float("nan")]}, {"x": [4.0], "y": [5.0]}]
    rows = [Row(key=str(at), label=None, values=one) for at, one in enumerate(values)]
    features = {"x": Feature(dtype="float32"), "y": Feature(dtype="float32")}
    folder = write(tmp_path / "numbers", rows, features)
    stated = json.loads((folder / "dataset.json").read_text())
    stated["options"] |= {"label_type": "float", "rename": {"label": "y"}, "unlabelled": "keep"}
    (folder / "dataset.json").write_text(json.dumps(stated))
    found = items(folder, inputs="x", label="y")
    expect_equal(found, loaded(folder, inputs="x", label="y")[:3])
    assert [(float(y), float(weight)) for _, y, weight in found] == [(3, 1), (0, 0), (5, 1)]
    rows = [
        Row(key=str(at), label=None, values={"x": [1.0], "class": label})
        for at, label in enumerate([[2], None, [1]])
    ]
    features = {
        "x": Feature(dtype="float32"),
        "class": Feature(dtype="int64", kind="label", shape=(None,)),
    }
    folder = write(tmp_path / "classes", rows, features, label_offset=1)
    for options in ({}, {"one_hot": True}):
        expect_equal(items(folder, **options), loaded(folder, **options)[:3])
    assert [(int(y), float(weight)) for _, y, weight in items(folder)] == [(2, 1), (1, 0), (1, 1)]


def test_inputs_of_varying_length_are_padded(tmp_path) -> None:
    rows = [
        Row(key=str(at), label="a", values={"tokens": [*range(1, at + 1)] or None, "text": [b"x"]})
        for at in range(5)
    ]
    features = {
        "tokens": Feature(dtype="int64", shape=(None,)),
        "text": Feature(dtype="string", kind="text"),
    }
    folder = write(tmp_path / "out", rows, features)
    found = items(folder, pad_to=3)
    assert [one["tokens"].tolist() for one in found] == [
        [0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3], [1, 2, 3],
    ]  # fmt: skip
    assert found[0]["text"] == b"x"


def test_damaged_images_are_named(tmp_path) -> None:
    good = encoded(photo(1), "JPEG")
    damaged = [good, good[:-200], b"\x89PNG", encoded(photo(2), "PNG")[:-40]]
    rows = [
        Row(key=str(at), label="a", values={"picture": [one]}) for at, one in enumerate(damaged)
    ]
    folder = write(tmp_path / "out", rows, {"picture": image_feature()})
    source = recordmill.grain_source(folder, "test", transform=recordmill.Decode())
    assert source[0]["picture"].shape == (HEIGHT, WIDTH, 3)
    for number in (1, 2, 3):
        message = f"test.tfrecord-00000-of-00001, record {number}: an image cannot be decoded: "
        with pytest.raises(DatasetDamagedError, match=message):
            source[number]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": "shear"}, "augment: expected some of crop, flip, .* got 'shear'"),
        ({"normalize": "none"}, "normalize: expected some of unit, signed, imagenet"),
        ({"inputs": "imge"}, "inputs: there is no feature 'imge'"),
        ({"pad_to": 0}, "pad_to: expected 1 or more, got 0"),
        ({"image_size": (1, 2, 3)}, r"image_size: expected 224, or \(height, width\)"),
    ],
)
def test_invalid_options(folder, options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        items(folder, **options)
    with pytest.raises(ConfigError, match="augment is for the split train, got the split 'test'"):
        items(folder, "test", augment="flip")
    with pytest.raises(ConfigError, match="features contradicts Decode, which selects them"):
        recordmill.grain_source(
            folder, "train", transform=recordmill.Decode(), features=["image/encoded"]
        )


def test_it_can_be_pickled(folder) -> None:
    decode = recordmill.Decode(image_size=32, augment="flip,crop", inputs="image/encoded")
    source = recordmill.grain_source(folder, "train", transform=decode)
    copied = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(copied[5]["image/encoded"], source[5]["image/encoded"])
