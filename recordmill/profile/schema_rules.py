"""Reads the rules of a tensorflow_metadata Schema for the columns of an input, as plain data.

Source: tensorflow_metadata/proto/v0/schema.proto, and TFDV's validation of statistics against it.
Unsupported fields are errors, because a rule that is silently not checked is worse than none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal

from recordmill.errors import ConfigError
from recordmill.option_files import read_option_file

FLAG = "--schema"

Type = Literal["INT", "FLOAT", "BYTES"]
_TYPES: Mapping[int, Type] = {1: "BYTES", 2: "INT", 3: "FLOAT"}
# Lifecycle stages of features that are not validated, and that are. Source: TFDV's feature_util.
_IGNORED = {"PLANNED", "ALPHA", "DEPRECATED", "DEBUG_ONLY", "DISABLED"}
_VALIDATED = {"UNKNOWN_STAGE", "BETA", "PRODUCTION"}
_INT64 = (-(2**63), 2**63 - 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberDomain:
    """A range of numbers, least..most; None means no limit.

    whole: whether numbers are integers; other numbers are compared as float32, as in the schema.
    nan, infinite: whether NaN, and infinite values, are allowed.
    """

    whole: bool
    least: float | None = None
    most: float | None = None
    nan: bool = True
    infinite: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class StringDomain:
    """The allowed texts."""

    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoolDomain:
    """0 and 1, or in a column of texts the two texts for them."""

    true: str | None = None
    false: str | None = None

    @property
    def has_texts(self) -> bool:
        """True if a column of texts can have this domain."""
        return bool(self.true or self.false)


Domain = NumberDomain | StringDomain | BoolDomain


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistanceLimit:
    """The largest allowed distances of a column; None means no limit."""

    infinity_norm: float | None = None
    jensen_shannon: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnRules:
    """The rules for one column.

    min_fraction, min_count: least fraction and number of records that have a value; with a fraction
      of 1 the column is required.
    values: (least, most) values of a record that has any.
    mass: least fraction of all values that are in the domain; with 1 all of them must be.
    unique: (least, most) distinct values.
    """

    name: str
    type: Type | None = None
    min_fraction: float = 0.0
    min_count: int = 0
    values: tuple[int, int | None] = (0, None)
    domain: Domain | None = None
    mass: float = 1.0
    unique: tuple[int, int | None] = (0, None)
    drift: DistanceLimit = DistanceLimit()
    skew: DistanceLimit = DistanceLimit()

    @property
    def required(self) -> bool:
        """True if every record must have a value."""
        return self.min_fraction >= 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaRules:
    """The rules for an input.

    columns: by name, in the order of the schema.
    ignored: columns that are not validated, and may be missing.
    records: (least, most) records of the dataset.
    sha256: of the schema's content, without comments and the order of fields.
    """

    columns: Mapping[str, ColumnRules]
    ignored: frozenset[str] = frozenset()
    records: tuple[int, int | None] = (0, None)
    sha256: str = ""


def load(path: str) -> SchemaRules:
    """Read a schema in text format from a file.

    Raises:
      ConfigError: the file cannot be read, or the schema is invalid.
    """
    text = read_option_file(FLAG, path, encoding="utf-8")
    try:
        return parse(text)
    except _SyntaxError as error:
        raise ConfigError(f"{FLAG} {path}:{error.line}: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{FLAG} {path}: {error}") from error


class _SyntaxError(ConfigError):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str) -> SchemaRules:
    """Parse a schema in text format.

    Raises:
      ConfigError: the schema is invalid, or has unsupported fields.
    """
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = schema_pb2.Schema()
    try:
        text_format.Parse(text, schema)
    except text_format.ParseError as error:
        raise _SyntaxError(
            f"expected a tensorflow_metadata Schema in text format: {error}", error.GetLine() or 1
        ) from error
    except RecursionError as error:
        raise ConfigError(
            "expected a tensorflow_metadata Schema in text format: it is nested too deeply"
        ) from error
    _only(
        schema,
        "the schema",
        ("feature", "string_domain", "int_domain", "float_domain", "dataset_constraints"),
        harmless=("annotation", "represent_variable_length_as_ragged"),
    )
    shared = _shared_domains(schema)
    columns: dict[str, ColumnRules] = {}
    ignored = set()
    for feature in schema.feature:
        if not feature.name:
            raise ConfigError("expected a name in each feature, got one without")
        if feature.name in columns or feature.name in ignored:
            raise ConfigError(f"feature {feature.name!r} is defined twice")
        stage = schema_pb2.LifecycleStage.Name(feature.lifecycle_stage)
        if feature.deprecated or stage in _IGNORED:
            ignored.add(feature.name)
        elif stage in _VALIDATED:
            columns[feature.name] = _column(feature, shared)
        else:
            raise ConfigError(
                f"feature {feature.name!r}: unsupported lifecycle_stage {stage}; expected"
                f" one of {', '.join(sorted(_VALIDATED | _IGNORED))}"
            )
    constraints = schema.dataset_constraints
    _only(constraints, "dataset_constraints", ("min_examples_count", "max_examples_count"))
    return SchemaRules(
        columns=columns,
        ignored=frozenset(ignored),
        records=_bounds(constraints, "min_examples_count", "max_examples_count"),
        sha256=hashlib.sha256(schema.SerializeToString(deterministic=True)).hexdigest(),
    )


def _only(message: Any, where: str, known: tuple[str, ...], *, harmless: Any = ()) -> None:
    """Check that a message has only known fields; harmless: fields that can be ignored.

    Raises:
      ConfigError: it has another field.
    """
    for field, _ in message.ListFields():
        if field.name not in (*known, *harmless):
            raise ConfigError(
                f"{where}{': ' if where else ''}unsupported field {field.name}; expected some of"
                f" {', '.join(known)}: remove it from the schema"
            )


def _bounds(message: Any, least: str, most: str) -> tuple[int, int | None]:
    """Return (least, most) from two optional fields."""
    bounds = (
        getattr(message, least) if message.HasField(least) else 0,
        getattr(message, most) if message.HasField(most) else None,
    )
    if bounds[1] is not None and bounds[1] < bounds[0]:
        raise ConfigError(f"expected {least} <= {most}, got {bounds[0]} and {bounds[1]}")
    return bounds


def _shared_domains(schema: Any) -> dict[str, Any]:
    """Return the domains that features refer to, by name."""
    shared: dict[str, Any] = {}
    for domain in (*schema.string_domain, *schema.int_domain, *schema.float_domain):
        if not domain.name or domain.name in shared:
            raise ConfigError(
                f"expected different names of the schema's domains, got {domain.name!r} twice"
                if domain.name
                else "expected a name in each domain of the schema, got one without"
            )
        shared[domain.name] = domain
    return shared


def _column(feature: Any, shared: Mapping[str, Any]) -> ColumnRules:
    try:
        return _read_column(feature, shared)
    except ConfigError as error:
        raise ConfigError(f"feature {feature.name!r}: {error}") from error


_KNOWN = (
    "name", "presence", "shape", "value_count", "type", "domain", "int_domain", "float_domain",
    "string_domain", "bool_domain", "natural_language_domain", "distribution_constraints",
    "unique_constraints", "skew_comparator", "drift_comparator", "lifecycle_stage",
)  # fmt: skip


def _read_column(feature: Any, shared: Mapping[str, Any]) -> ColumnRules:
    _only(feature, "", _KNOWN, harmless=("annotation", "deprecated"))
    kind = _TYPES.get(feature.type)
    if feature.type and kind is None:
        raise ConfigError(f"expected type {', '.join(_TYPES.values())}, got STRUCT")
    presence = feature.presence
    _only(presence, "presence", ("min_fraction", "min_count"))
    if not 0 <= presence.min_fraction <= 1:
        raise ConfigError(f"presence: expected min_fraction 0 to 1, got {presence.min_fraction:g}")
    _only(feature.distribution_constraints, "distribution_constraints", ("min_domain_mass",))
    mass = feature.distribution_constraints.min_domain_mass
    if not 0 <= mass <= 1:
        raise ConfigError(f"expected min_domain_mass 0 to 1, got {mass:g}")
    _only(feature.unique_constraints, "unique_constraints", ("min", "max"))
    domain = _domain(feature, shared)
    _refuse_contradiction(domain, kind)
    return ColumnRules(
        name=feature.name,
        type=kind,
        min_fraction=presence.min_fraction,
        min_count=presence.min_count,
        values=_value_count(feature),
        domain=domain,
        mass=mass,
        unique=_bounds(feature.unique_constraints, "min", "max"),
        drift=_limit(feature.drift_comparator, "drift_comparator"),
        skew=_limit(feature.skew_comparator, "skew_comparator"),
    )


def _value_count(feature: Any) -> tuple[int, int | None]:
    match feature.WhichOneof("shape_type"):
        case "shape":
            for dim in feature.shape.dim:
                if not dim.HasField("size"):
                    raise ConfigError("shape: expected a size in each dim")
            size = math.prod(dim.size for dim in feature.shape.dim)
            return size, size
        case "value_count":
            return _bounds(feature.value_count, "min", "max")
    return 0, None


def _domain(feature: Any, shared: Mapping[str, Any]) -> Domain | None:
    which = feature.WhichOneof("domain_info")
    if which is None:
        return None
    found = getattr(feature, which)
    if which == "domain":
        if found not in shared:
            names = ", ".join(map(repr, sorted(shared)))
            raise ConfigError(f"the schema has no domain {found!r}; it has {names or 'none'}")
        found = shared[found]
    match found.DESCRIPTOR.name:
        case "IntDomain":
            _only(found, "int_domain", ("name", "min", "max"), harmless=("is_categorical",))
            return _range(found, whole=True)
        case "FloatDomain":
            known = ("name", "min", "max", "disallow_nan", "disallow_inf")
            _only(found, "float_domain", known, harmless=("is_categorical",))
            return _range(found, whole=False)
        case "StringDomain":
            _only(found, "string_domain", ("name", "value"), harmless=("is_categorical",))
            return StringDomain(values=tuple(found.value))
        case "BoolDomain":
            _only(found, "bool_domain", ("name", "true_value", "false_value"))
            return BoolDomain(
                true=found.true_value if found.HasField("true_value") else None,
                false=found.false_value if found.HasField("false_value") else None,
            )
        case "NaturalLanguageDomain":  # allows any text
            _only(found, "natural_language_domain", ())
    return None


def _range(domain: Any, *, whole: bool) -> NumberDomain:
    least = domain.min if domain.HasField("min") else None
    most = domain.max if domain.HasField("max") else None
    if whole and (least, most) == _INT64:
        least = most = None
    if any(one is not None and math.isnan(one) for one in (least, most)):
        raise ConfigError("expected numbers as min and max of a domain, got nan")
    if least is not None and most is not None and not least <= most:
        raise ConfigError(f"expected min <= max, got {least:g} and {most:g}")
    return NumberDomain(
        whole=whole,
        least=least,
        most=most,
        nan=whole or not domain.disallow_nan,
        infinite=whole or not domain.disallow_inf,
    )


def _refuse_contradiction(domain: Domain | None, kind: Type | None) -> None:
    """Check that values of a type can be in a domain.

    Raises:
      ConfigError: none can.
    """
    wrong = (
        (isinstance(domain, StringDomain) and kind not in (None, "BYTES"))
        or (isinstance(domain, NumberDomain) and domain.whole and kind == "FLOAT")
        or (isinstance(domain, BoolDomain) and kind == "BYTES" and not domain.has_texts)
    )
    if wrong:
        names = {
            StringDomain: "string_domain",
            NumberDomain: "int_domain",
            BoolDomain: "bool_domain without texts",
        }
        raise ConfigError(
            f"values of type {kind} cannot be in {names[type(domain)]}: change one of the two"
        )


def _limit(comparator: Any, name: str) -> DistanceLimit:
    _only(comparator, name, ("infinity_norm", "jensen_shannon_divergence"))
    divergence = comparator.jensen_shannon_divergence
    _only(comparator.infinity_norm, f"{name}.infinity_norm", ("threshold",))
    _only(divergence, f"{name}.jensen_shannon_divergence", ("threshold",))
    norm, jensen_shannon = (
        one.threshold if one.HasField("threshold") else None
        for one in (comparator.infinity_norm, divergence)
    )
    for threshold in (norm, jensen_shannon):
        if threshold is not None and not threshold >= 0:
            raise ConfigError(f"{name}: expected a threshold of 0 or more, got {threshold:g}")
    return DistanceLimit(infinity_norm=norm, jensen_shannon=jensen_shannon)
