"""The declared features as a tensorflow_metadata Schema, and as what a parser needs to know.

The text format is written by hand, so that neither TensorFlow nor protobuf is needed. Source:
tensorflow_metadata/proto/v0/schema.proto, and TFT's schema_utils.schema_as_feature_spec, which
turns a `shape` into a FixedLenFeature and its absence into a VarLenFeature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from recordmill.format.features import DType, Feature, Features

_LISTS = "##SEQUENCE##"  # where TFX has the feature lists of SequenceExamples
_TYPES = {"int64": "INT", "float32": "FLOAT", "string": "BYTES"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """How to parse one feature: `shape` is None where records hold any number of values.

    sequence: it is a feature list of a SequenceExample, and the shape that of a step.
    """

    dtype: DType
    shape: tuple[int, ...] | None
    sequence: bool = False


def feature_spec(features: Features) -> dict[str, Spec]:
    """What `tf.io.parse_example`, or `parse_sequence_example`, needs to know, without TensorFlow,
    sorted by name.
    """
    return {name: _spec(feature) for name, feature in sorted(features.items())}


def _spec(feature: Feature) -> Spec:
    shape = fixed_shape(feature)
    if feature.sequence and shape is not None:
        shape = shape[1:]
    return Spec(dtype=feature.dtype, shape=shape, sequence=feature.sequence)


def fixed_shape(feature: Feature) -> tuple[int, ...] | None:
    """The shape that every record has, or None where a dimension varies."""
    known = tuple(dim for dim in feature.shape if dim is not None)
    return known if len(known) == len(feature.shape) else None


def schema_text(features: Features, *, labels: Sequence[str] = (), label_offset: int = 0) -> str:
    """schema.pbtxt: a tensorflow_metadata Schema in protobuf's text format."""
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
    yield f'name: "{_escaped(name)}"'
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
        case "image":
            yield "image_domain { }"


def _escaped(text: str) -> str:
    """A string literal's inside: escapes are octal, one for a byte of UTF-8."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
