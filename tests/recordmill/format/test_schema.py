import string

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from recordmill.format.schema import FeatureSpec, feature_spec, fixed_shape, schema_text
from recordmill.tfrecord.features import Feature
from tests.make_dataset import FEATURES, LABELS


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def test_every_feature_stands_in_the_schema_with_its_type() -> None:
    schema = parsed(schema_text(FEATURES, labels=LABELS))
    types = {feature.name: schema_pb2.FeatureType.Name(feature.type) for feature in schema.feature}
    assert types == {
        "caption": "BYTES",
        "grid": "BYTES",
        "image/class/label": "INT",
        "image/class/text": "BYTES",
        "image/encoded": "BYTES",
        "size": "FLOAT",
    }


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((), []), ((3,), [3]), ((2, 4), [2, 4]), ((None,), None), ((None, 2), None)],
)
def test_what_every_record_has_is_required_and_has_a_shape(shape, sizes) -> None:
    (feature,) = parsed(schema_text({"x": Feature(dtype="int64", shape=shape)})).feature
    assert feature.HasField("shape") == (sizes is not None)
    assert feature.presence.min_fraction == (0.0 if sizes is None else 1.0)
    assert [dim.size for dim in feature.shape.dim] == (sizes or [])


@pytest.mark.parametrize(("offset", "lowest", "highest"), [(0, 0, 1), (1, 1, 2), (-1, -1, 0)])
def test_labels_are_categories_within_their_numbers(offset, lowest, highest) -> None:
    features = {"label": Feature(dtype="int64", kind="label")}
    (feature,) = parsed(schema_text(features, labels=LABELS, label_offset=offset)).feature
    assert feature.int_domain.is_categorical
    assert (feature.int_domain.min, feature.int_domain.max) == (lowest, highest)


def test_indices_are_categories_below_their_size() -> None:
    feature = Feature(dtype="int64", kind="index", shape=(None,), size=7)
    (known,) = parsed(schema_text({"x": feature})).feature
    assert known.int_domain.is_categorical
    assert (known.int_domain.min, known.int_domain.max) == (0, 6)
    unknown = Feature(dtype="int64", kind="index", shape=(None,))
    assert parsed(schema_text({"x": unknown})).feature[0].WhichOneof("domain_info") is None


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        ("value", None),
        ("raw", None),
        ("label", None),  # there are no classes
        ("text", "natural_language_domain"),
        ("image", "image_domain"),
    ],
)
def test_kinds_become_domains(kind, domain) -> None:
    (feature,) = parsed(schema_text({"x": Feature(dtype="string", kind=kind)})).feature
    assert feature.WhichOneof("domain_info") == domain


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(string.printable)))
def test_any_name_survives(name: str) -> None:
    (feature,) = parsed(schema_text({name: Feature(dtype="int64")})).feature
    assert feature.name == name


def test_feature_spec() -> None:
    assert feature_spec(FEATURES) == {
        "caption": FeatureSpec(dtype="string", shape=None),
        "grid": FeatureSpec(dtype="string", shape=()),
        "image/class/label": FeatureSpec(dtype="int64", shape=()),
        "image/class/text": FeatureSpec(dtype="string", shape=()),
        "image/encoded": FeatureSpec(dtype="string", shape=()),
        "size": FeatureSpec(dtype="float32", shape=(3,)),
    }
    assert list(feature_spec(FEATURES)) == sorted(FEATURES)


def test_a_shape_with_an_unknown_dimension_is_not_fixed() -> None:
    assert fixed_shape(Feature(dtype="int64", shape=(2, None))) is None
