"""The declared features as a tensorflow_metadata Schema, and as a specification for parsers.

The text format is written without protobuf or TensorFlow. Source:
tensorflow_metadata/proto/v0/schema.proto, and TFT's schema_utils.schema_as_feature_spec, which
maps a feature with a `shape` to a FixedLenFeature, and one without to a VarLenFeature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from recordmill.tfrecord.features import DType, Feature, Features

_LISTS = "##SEQUENCE##"  # the struct that holds the feature lists of SequenceExamples in TFX
_TYPES = {"int64": "INT", "float32": "FLOAT", "string": "BYTES"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSpec:
    """Specification for parsing one feature, independent of TensorFlow.

    shape: None if the number of values varies between records.
    sequence: whether it is a feature list of a SequenceExample; its shape is then that of a step.
    """

    dtype: DType
    shape: tuple[int, ...] | None
    sequence: bool = False


def feature_spec(features: Features) -> dict[str, FeatureSpec]:
    """Return what `tf.io.parse_example` or `parse_sequence_example` needs, sorted by name."""
    return {name: _spec(feature) for name, feature in sorted(features.items())}


def _spec(feature: Feature) -> FeatureSpec:
    shape = fixed_shape(feature)
    if feature.sequence and shape is not None:
        shape = shape[1:]
    return FeatureSpec(dtype=feature.dtype, shape=shape, sequence=feature.sequence)


def fixed_shape(feature: Feature) -> tuple[int, ...] | None:
    """Return the shape that the feature has in every record, or None if a dimension varies."""
    known = tuple(dim for dim in feature.shape if dim is not None)
    return known if len(known) == len(feature.shape) else None


def schema_text(features: Features, *, labels: Sequence[str] = (), label_offset: int = 0) -> str:
    """Return schema.pbtxt: a tensorflow_metadata Schema in protobuf's text format."""
    context = {name: one for name, one in features.items() if not one.sequence}
    lists = {name: one for name, one in features.items() if one.sequence}
    lines = _block(context, labels, label_offset)
    if lists:
        inside = [f"    {line}" for line in _block(lists, labels, label_offset)]
        lines += ["feature {", f'  name: "{_LISTS}"', "  type: STRUCT", "  struct_domain {"]
        lines += [*inside, "  }", "}"]
    return "".join(f"{line}\n" for line in lines)


def _block(features: Features, labels: Sequence[str], label_offset: int) -> list[str]:
    lines: list[str] = []
    for name, feature in sorted(features.items()):
        lines.append("feature {")
        lines.extend(f"  {line}" for line in _feature(name, feature, labels, label_offset))
        lines.append("}")
    return lines


def _feature(
    name: str, feature: Feature, labels: Sequence[str], label_offset: int
) -> Iterator[str]:
    yield f'name: "{escaped(name)}"'
    yield f"type: {_TYPES[feature.dtype]}"
    shape = fixed_shape(feature)
    if shape is not None:
        yield "presence { min_fraction: 1.0 min_count: 1 }"
        yield f"shape {{ {''.join(f'dim {{ size: {size} }} ' for size in shape)}}}"
    match feature.kind:
        case "label" if labels:
            last = label_offset + len(labels) - 1
            yield f"int_domain {{ min: {label_offset} max: {last} is_categorical: true }}"
        case "index" if feature.size:
            yield f"int_domain {{ min: 0 max: {feature.size - 1} is_categorical: true }}"
        case "text":
            yield "natural_language_domain { }"
        case "image" | "mask":
            yield "image_domain { }"


def escaped(text: str) -> str:
    """Return the content of a string literal, with an octal escape per special byte of UTF-8."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
