"""Properties inferred from records: dtype, shape and kind of every feature, and the classes."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.adopt import class_numbers
from recordmill.adopt.class_numbers import ClassNumberCandidate, LabelError, find_classes
from recordmill.adopt.feature_inference import (
    FeatureInference,
    InconsistentFeatureError,
    declare_features,
    is_image,
    is_text,
    merge_summaries,
)
from recordmill.checking.conformance import Conformance
from recordmill.reading.raw_arrays import RawArray
from recordmill.tfrecord.decode import ExampleError
from recordmill.tfrecord.features import Feature
from tests.make_dataset import _feature, _field, example, picture


def sequence_example(context: dict, lists: dict) -> bytes:
    """Return a serialized SequenceExample; lists: {name: values of each step}."""
    entries = [
        _field(1, _field(1, name.encode()) + _field(2, b"".join(_field(1, _feature(s)) for s in v)))
        for name, v in lists.items()
    ]
    return example(context) + _field(2, b"".join(entries))


def infer(*payloads: bytes) -> dict[str, Feature]:
    inference = FeatureInference()
    for payload in payloads:
        inference.add(payload)
    return dict(declare_features(inference.features, records=inference.records))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([[1], [2]], Feature(dtype="int64")),
        ([[1.0], [2.0]], Feature(dtype="float32")),
        ([[b"\0"], [b"b"]], Feature(dtype="string")),
        ([[1, 2], [3, 4]], Feature(dtype="int64", shape=(2,))),
        ([[1, 2], [3]], Feature(dtype="int64", shape=(None,))),
        ([[1], None], Feature(dtype="int64", shape=(None,))),
        ([None, [1]], Feature(dtype="int64", shape=(None,))),
        ([[b"a", b"b"]], Feature(dtype="string", shape=(2,), kind="text")),
        ([[b"grey \xc3\xa9\tand\r\n"]], Feature(dtype="string", kind="text")),
        ([[b"a"], [b"\xff"]], Feature(dtype="string")),
        ([[b""], [b""]], Feature(dtype="string")),
        ([[b""], [b"a"]], Feature(dtype="string", kind="text")),
        ([[picture(1)], [picture(2)]], Feature(dtype="string", kind="image")),
        ([[picture(1)], [b""]], Feature(dtype="string")),
        ([[picture(1)], None], Feature(dtype="string", shape=(None,), kind="image")),
        ([[b"BMW is a car"]], Feature(dtype="string", kind="text")),
        ([[]], Feature(dtype="string", shape=(None,))),
    ],
)
def test_a_feature(records, expected):
    assert infer(*(example({"x": values}) for values in records))["x"] == expected


@pytest.mark.parametrize(
    ("records", "shape", "dtype"),
    [
        ([[[1], [2]], [[3], [4]]], (2,), "int64"),
        ([[[1], [2]], [[3]]], (None,), "int64"),
        ([[[1, 2]], [[3, 4], [5, 6]]], (None, 2), "int64"),
        ([[[1.0, 2.0]], [[3.0, 4.0]]], (1, 2), "float32"),
        ([[[b"a"], [b"b", b"c"]]], (2, None), "string"),
        ([[], [[1]]], (None,), "int64"),
        ([[]], (None,), "string"),
    ],
)
def test_a_feature_list(records, shape, dtype):
    made = infer(*(sequence_example({"c": [7]}, {"x": steps}) for steps in records))
    assert (made["x"].shape, made["x"].dtype, made["x"].sequence) == (shape, dtype, True)
    assert made["c"] == Feature(dtype="int64")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            example({"x": [1]}),
            example({"x": [1.0]}),
            "feature 'x' holds float32, but in record 0 it holds int64",
        ),
        (
            example({"x": [1]}),
            sequence_example({}, {"x": [[1]]}),
            "'x' is a feature list, but in record 0 it is a feature",
        ),
    ],
)
def test_features_of_different_types(first, second, message):
    inference = FeatureInference()
    inference.add(first)
    with pytest.raises(InconsistentFeatureError, match=message):
        inference.add(second)
    files = []
    for name, payload in (("a", first), ("b", second)):
        one = FeatureInference()
        one.add(example({}))
        one.add(payload)
        files.append((name, one.features))
    elsewhere = message.replace("in record 0", "in a, record 1")
    with pytest.raises(InconsistentFeatureError, match=f"^b, record 1: {elsewhere}$"):
        merge_summaries(files)


@pytest.mark.parametrize(
    "payload",
    [
        b"hello",
        b"\x09\0\0\0\0\0\0\0\0",  # as the events of TensorBoard begin
        b"\x1a\x01x",
        example({"x": [1]})[:-1],
        sequence_example({"x": [1]}, {"x": [[1]]}),
        sequence_example({}, {"x": [[1], [1.0]]}),
    ],
)
def test_payloads_that_are_no_example(payload):
    with pytest.raises(ExampleError):
        FeatureInference().add(payload)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xd8\xff\xe0", True),
        (b"\x89PNG\r\n\x1a\n", True),
        (b"GIF89a", True),
        (b"RIFF1234WEBPVP8 ", True),
        (b"RIFF1234WAVEfmt ", False),
        (b"BM" + bytes(12) + b"\x28\0\0\0", True),
        (b"BM" + bytes(12) + b"\x29\0\0\0", False),
        (b"BMX bikes and more of them", False),
        (b"", False),
    ],
)
def test_images_by_their_first_bytes(content, expected):
    assert is_image(content) is expected


@pytest.mark.parametrize("content", [b"\0", b"\x1b[1m", b"\x7f", b"\xc2\x85", b"\xc3", b"\xff"])
def test_bytes_that_are_not_text(content):
    assert not is_text(content)


VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=3),
    st.lists(st.sampled_from([b"", b"text", b"\0", picture(1)]), min_size=1, max_size=3),
)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | VALUES, max_size=3), max_size=6),
    st.integers(0, 6),
)
def test_every_record_is_as_declared_however_files_are_cut(records, cut):
    payloads = [example(record) for record in records]
    whole = FeatureInference()
    parts = (FeatureInference(), FeatureInference())
    try:
        for payload in payloads:
            whole.add(payload)
    except InconsistentFeatureError:
        with pytest.raises(InconsistentFeatureError):
            add_all(parts, payloads, cut)
        return
    together = add_all(parts, payloads, cut)
    declared = declare_features(whole.features, records=len(payloads))
    assert declare_features(together, records=len(payloads)) == declared
    conformance = Conformance(declared, labels=(), label_offset=0, deep=False)
    for payload in payloads:
        conformance.check(conformance.decode(payload))


def add_all(parts, payloads, cut):
    for number, payload in enumerate(payloads):
        parts[number >= cut].add(payload)
    return merge_summaries((str(number), part.features) for number, part in enumerate(parts))


# --- Classes -----------------------------------------------------------------------------------


def classes(*records: dict, asked=None, names=None, offset=0):
    inference, candidates = (
        FeatureInference(),
        {name: ClassNumberCandidate() for name in class_numbers.candidate_features(asked)},
    )
    for record in records:
        class_numbers.add_record(candidates, inference.add(example(record)))
    made = find_classes(inference.features, candidates, requested=asked, names=names, offset=offset)
    return made.feature, made.labels, made.notes


LABEL, NAME = "image/class/label", "image/class/text"
ROSE, TULIP = {LABEL: [0], NAME: [b"rose"]}, {LABEL: [1], NAME: [b"tulip"]}


@pytest.mark.parametrize(
    ("records", "options", "feature", "labels"),
    [
        ([ROSE, TULIP], {}, LABEL, ("rose", "tulip")),
        ([ROSE, TULIP], {"names": ["a", "b", "c"]}, LABEL, ("a", "b", "c")),
        ([TULIP], {"offset": 1}, LABEL, ("tulip",)),
        ([TULIP], {}, LABEL, ("0", "tulip")),
        ([ROSE, TULIP | {NAME: [b"rose"]}], {}, LABEL, ("0", "1")),
        ([ROSE, ROSE | {NAME: [b"tulip"]}], {}, LABEL, ("0",)),
        ([ROSE, {LABEL: [1]}], {}, LABEL, ("0", "1")),
        ([ROSE, {LABEL: [1], NAME: [b"a\nb"]}], {}, LABEL, ("0", "1")),
        ([{"label": [2]}, {}], {}, "label", ("0", "1", "2")),
        ([{"kind": [1]}], {"asked": "kind"}, "kind", ("0", "1")),
        ([{"label": [1]} | ROSE], {}, None, ()),
        ([{"label": [1]} | ROSE], {"asked": "label"}, "label", ("0", "rose")),
        ([{"label": [-1]}, {"label": [1]}], {}, None, ()),
        ([{"label": [10**6]}], {}, None, ()),
        ([{"label": [1, 2]}], {}, None, ()),
        ([{"label": [b"rose"]}], {}, None, ()),
        ([{}], {}, None, ()),
    ],
)
def test_classes(records, options, feature, labels):
    found = classes(*records, **options)
    assert found[:2] == (feature, labels)


@pytest.mark.parametrize(
    ("records", "note"),
    [
        ([{"label": [1]} | ROSE], "both image/class/label and label may hold them; choose one"),
        ([{"label": [-1]}], "no classes: 'label' holds -1, but classes begin at 0"),
        ([{"label": [10**6]}], "holds numbers up to 1000000; expected at most 100000"),
        ([TULIP], "no record is of class 0: --label-offset 1 makes 1 the first"),
    ],
)
def test_notes_on_classes(records, note):
    (said,) = classes(*records)[2]
    assert re.search(note, said)


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([ROSE], {"asked": "label"}, "no record has a feature 'label'"),
        ([{"labels": [1]}], {"asked": "label"}, "did you mean 'labels'"),
        ([ROSE], {"asked": NAME}, "holds string; expected int64"),
        ([{"x": [1, 2]}], {"asked": "x"}, "holds up to 2 values; expected one class per record"),
        ([{"x": []}], {"asked": "x"}, "holds string; expected int64"),
        (
            [ROSE, TULIP],
            {"names": ["a"]},
            "holds 1, but the 1 names of --labels-file are for 0 to 0",
        ),
        ([ROSE], {"asked": LABEL, "offset": 1}, "holds 0, but classes begin at 1: set --label-off"),
        ([{"x": [1]}], {"names": ["a"]}, "no feature may hold their numbers"),
        ([{"label": [-1]}], {"names": ["a"]}, "'label' holds -1"),
        ([{"label": [1]} | ROSE], {"names": ["a"]}, "image/class/label and label both may"),
    ],
)
def test_invalid_choices_of_classes(records, options, message):
    with pytest.raises(LabelError, match=message):
        classes(*records, **options)


# --- Arrays ------------------------------------------------------------------------------------


def test_array_declarations_are_printed_as_parsed():
    array = RawArray.parse("uint8:28x?x1")
    assert array == RawArray(dtype="uint8", shape=(28, None, 1))
    assert RawArray.parse(str(array)) == array
    array.check("x", [bytes(28 * 5)])
    dataclasses.replace(array, dtype="float32", shape=(2,)).check("x", [bytes(8)])


@pytest.mark.parametrize(
    "text", ["", "uint8", "uint8:", "byte:2", "object:2", "U3:2", "uint8:2x", "uint8:2,3", "no:2"]
)
def test_invalid_array_declarations(text):
    with pytest.raises(ValueError, match="expected DTYPE:SHAPE"):
        RawArray.parse(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "got no value"),
        ([b"ab", b"cd"], "got 2 values"),
        (np.array([1]), "got int64"),
        ([b"abc"], "3 bytes do not fill an array of uint8:2x2"),
    ],
)
def test_records_without_the_array(value, message):
    with pytest.raises(ValueError, match=message):
        RawArray.parse("uint8:2x2").check("x", value)
