import io
import re

import numpy as np
import pytest
from PIL import Image

from recordmill.checking.conformance import Conformance, NonconformingError
from recordmill.tfrecord.features import Feature
from tests.images16 import png16, waves
from tests.pictures import photo, saved

PAIRS = Feature(dtype="int64", shape=(None, 2))
ROWS = Feature(dtype="string", kind="raw", raw_dtype="int16", raw_shape=(None, 3))
SCALAR = Feature(dtype="string", kind="raw", raw_dtype="float64", raw_shape=())
EMPTY = Feature(dtype="string", kind="raw", raw_dtype="uint8", raw_shape=(0, 3))
INDICES = Feature(dtype="int64", kind="index", shape=(None,), size=3)
LABEL = Feature(dtype="int64", kind="label")
NULLABLE = Feature(dtype="int64", kind="label", shape=(None,))


def conformance(feature: Feature) -> Conformance:
    return Conformance({"x": feature}, labels=["rose", "tulip"], label_offset=1, deep=False)


@pytest.mark.parametrize(
    ("feature", "values"),
    [
        (PAIRS, np.arange(4)),
        (PAIRS, np.zeros(0, np.int64)),
        (PAIRS, None),
        (ROWS, [bytes(12)]),
        (ROWS, [b""]),
        (SCALAR, [bytes(8)]),
        (EMPTY, [b""]),
        (INDICES, np.array([2, 0, 1])),
        (INDICES, np.zeros(0, np.int64)),
        (LABEL, np.array([2])),
        (NULLABLE, None),
    ],
)
def test_what_is_as_declared(feature, values) -> None:
    conformance(feature).check({"x": values})


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        (PAIRS, np.arange(3), "expected a multiple of 2 values, got 3"),
        (PAIRS, np.float32([1, 2]), "expected int64, got float32"),
        (PAIRS, [b"a", b"b"], "expected int64, got string"),
        (INDICES, np.array([0, 3]), "expected numbers from 0 to 2, got 3"),
        (INDICES, np.array([-1]), "expected numbers from 0 to 2, got -1"),
        (LABEL, None, "expected 1 values, got 0"),
        (LABEL, np.array([0]), "expected the number of a class (1 to 2), got 0"),
        (NULLABLE, np.array([1, 3]), "expected the number of a class (1 to 2), got 3"),
        (ROWS, [bytes(13)], "expected a multiple of 6 bytes (int16, ?x3), got 13"),
        (SCALAR, [bytes(4)], "expected 8 bytes (float64, one value), got 4"),
        (EMPTY, [b"a"], "expected 0 bytes (uint8, 0x3), got 1"),
    ],
)
def test_what_is_not(feature, values, message) -> None:
    with pytest.raises(NonconformingError, match=re.escape(f"feature 'x': {message}")):
        conformance(feature).check({"x": values})


def test_pictures_start_no_programs(monkeypatch) -> None:
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    with Image.open(io.BytesIO(eps)) as picture:
        assert picture.format == "EPS"
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_: pytest.fail("it was started"))
    check = Conformance(
        {"x": Feature(dtype="string", kind="image")}, labels=[], label_offset=0, deep=True
    )
    with pytest.raises(NonconformingError, match="the image cannot be decoded"):
        check.check({"x": [eps]})


def test_declared_16_bits_are_checked() -> None:
    declared = Feature(dtype="string", kind="image", raw_dtype="uint16", raw_shape=(30, 40, 3))
    check = Conformance({"x": declared}, labels=[], label_offset=0, deep=True)
    check.check({"x": [png16(waves())]})
    for content in (saved(photo()), saved(photo(), "JPEG")):
        with pytest.raises(NonconformingError, match="expected a PNG with 16 bits per channel"):
            check.check({"x": [content]})
    with pytest.raises(NonconformingError, match="the image cannot be decoded"):
        check.check({"x": [png16(waves())[:2000]]})


@pytest.mark.parametrize("kind", ["image", "mask"])
def test_images_are_compared_with_the_declared_shape(kind) -> None:
    content = saved(Image.new("L", (40, 30)))

    def check(*shape: int | None, deep: bool = True) -> None:
        declared = Feature(dtype="string", kind=kind, raw_dtype="uint8", raw_shape=shape)
        rules = Conformance({"x": declared}, labels=[], label_offset=0, deep=deep)
        rules.check({"x": [content]})

    check(30, 40, 1)
    check(30, None, 1)
    check(30, 40, 3)  # the loader converts channels
    check(31, 40, 1, deep=False)
    for shape, text in (((31, 40, 1), "31x40x1"), ((None, 41, 1), "?x41x1"), ((40,), "40")):
        message = f"feature 'x': expected the height and width of {text}, got 30x40"
        with pytest.raises(NonconformingError, match=re.escape(message)):
            check(*shape)


@pytest.mark.parametrize(
    ("feature", "values", "label"),
    [
        (LABEL, np.array([1]), "rose"),
        (NULLABLE, np.array([2]), "tulip"),
        (NULLABLE, None, None),
        (NULLABLE, np.array([1, 2]), None),  # the classes of its objects
        (Feature(dtype="int64"), np.array([9]), "rose"),  # nothing holds a class
    ],
)
def test_labels_that_fit(feature, values, label) -> None:
    conformance(feature).check_label({"x": values}, label)


@pytest.mark.parametrize(
    ("feature", "values", "label", "message"),
    [
        (LABEL, np.array([2]), "rose", "its label is 'tulip', the index says 'rose'"),
        (LABEL, np.array([2]), None, "its label is 'tulip', the index says it has none"),
        (NULLABLE, None, "rose", "its label is missing, the index says 'rose'"),
        (NULLABLE, np.array([1, 2]), "rose", "its label is 'rose', 'tulip', the index says 'rose'"),
        (LABEL, np.array([1]), "oak", "its label is 'rose', the index says 'oak'"),
    ],
)
def test_labels_that_do_not(feature, values, label, message) -> None:
    with pytest.raises(NonconformingError, match=re.escape(message)):
        conformance(feature).check_label({"x": values}, label)
