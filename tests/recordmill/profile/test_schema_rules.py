"""Schemas that are understood, and what is said of those that are not."""

import pathlib

import pytest

from recordmill.errors import ConfigError
from recordmill.profile.schema_rules import (
    BoolDomain,
    DistanceLimit,
    NumberDomain,
    StringDomain,
    load,
    parse,
)

GOOD = """
feature {
  name: "t" type: FLOAT
  presence { min_fraction: 1 min_count: 1 }
  shape { }
  float_domain { min: -1.5 max: 44.6 disallow_nan: true disallow_inf: true }
  drift_comparator { infinity_norm { threshold: 0.1 } }
  skew_comparator { jensen_shannon_divergence { threshold: 0.2 } }
  annotation { comment: "degrees" }
}
feature { name: "n" type: INT int_domain { min: 0 max: 9 is_categorical: true } lifecycle_stage: BETA }
feature { name: "w" type: BYTES domain: "colours" distribution_constraints { min_domain_mass: 0.9 } }
feature { name: "b" type: INT bool_domain { } presence { min_fraction: 0.5 } }
feature { name: "v" type: FLOAT value_count { min: 1 max: 3 } unique_constraints { min: 2 max: 8 } }
feature { name: "m" shape { dim { size: 2 } dim { size: 3 } } }
feature { name: "s" type: BYTES natural_language_domain { } }
feature { name: "later" lifecycle_stage: PLANNED image_domain { } }
feature { name: "old" deprecated: true }
string_domain { name: "colours" value: "red" value: "blue" }
dataset_constraints { min_examples_count: 10 max_examples_count: 20 }
"""  # noqa: E501


def test_all_that_is_understood():
    rules = parse(GOOD)
    columns = rules.columns
    assert list(columns) == ["t", "n", "w", "b", "v", "m", "s"]
    assert rules.ignored == {"later", "old"}
    assert rules.records == (10, 20)
    t = columns["t"]
    assert t.required
    assert t.min_count == 1
    assert t.values == (1, 1)
    assert t.domain == NumberDomain(whole=False, least=-1.5, most=pytest.approx(44.6), nan=False,
                             infinite=False)  # fmt: skip
    assert t.drift == DistanceLimit(infinity_norm=0.1)
    assert t.skew == DistanceLimit(jensen_shannon=0.2)
    assert columns["n"].domain == NumberDomain(whole=True, least=0, most=9)
    assert columns["w"].domain == StringDomain(values=("red", "blue"))
    assert columns["w"].mass == 0.9
    assert columns["b"].domain == BoolDomain()
    assert not columns["b"].required
    assert columns["b"].min_fraction == 0.5
    assert columns["v"].values == (1, 3)
    assert columns["v"].unique == (2, 8)
    assert columns["m"].values == (6, 6)
    assert columns["s"].domain is None


BAD = {
    'feature { name: "a" in_environment: "SERVING" }': "feature 'a': .* in_environment",
    'default_environment: "TRAINING"': "the schema: unsupported field default_environment",
    "sparse_feature { }": "sparse_feature",
    'feature { name: "a" image_domain { } }': "image_domain",
    'feature { name: "a" type: STRUCT }': "feature 'a': expected type BYTES, INT, FLOAT",
    'feature { name: "a" value_counts { } }': "value_counts",
    'feature { name: "a" group_presence { } }': "group_presence",
    'feature { name: "a" domain: "colour" }': "no domain 'colour'; it has none",
    'feature { name: "a" in_environment: "x" }': "feature 'a': unsupported field in_environment",
    'feature { name: "a" type: INT string_domain { } }': "type INT cannot be in string_domain",
    'feature { name: "a" type: FLOAT int_domain { } }': "type FLOAT cannot be in int_domain",
    'feature { name: "a" type: BYTES bool_domain { } }': "cannot be in bool_domain without",
    'feature { name: "a" int_domain { min: 3 max: 2 } }': "expected min <= max, got 3 and 2",
    'feature { name: "a" value_count { min: 3 max: 2 } }': "expected min <= max",
    'feature { name: "a" float_domain { is_embedding: true } }': "is_embedding",
    'feature { name: "a" presence { min_fraction: 1.5 } }': "min_fraction 0 to 1, got 1.5",
    'feature { name: "a" distribution_constraints { min_domain_mass: 2 } }': "min_domain_mass",
    'feature { name: "a" shape { dim { name: "x" } } }': "shape: expected a size",
    'feature { name: "a" natural_language_domain { vocabulary: "v" } }': "vocabulary",
    'feature { name: "a" drift_comparator { normalized_abs_difference { } } }': "normalized_abs",
    'feature { name: "a" lifecycle_stage: VALIDATION_DERIVED }': "VALIDATION_DERIVED",
    'feature { name: "a" } feature { name: "a" }': "'a' is defined twice",
    "feature { type: INT }": "a name in each feature",
    'string_domain { value: "a" }': "a name in each domain .*, got one without",
    'string_domain { name: "a" } int_domain { name: "a" }': "got 'a' twice",
    "dataset_constraints { num_examples_drift_comparator { } }": "num_examples_drift_comparator",
}


@pytest.mark.parametrize("text", BAD)
def test_unsupported_schemas(text):
    with pytest.raises(ConfigError, match=BAD[text]):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('feature {\n  name: "a"\n  tpye: INT\n}', r"s\.pbtxt:3: expected a .* Schema .*tpye"),
        ('feature {\n  name: "a"\n', r"s\.pbtxt:\d: expected a .* Schema"),
        ('feature { name: "a" type: STRUCT }', r"s\.pbtxt: feature 'a'"),
        (None, r"--schema: cannot read .*s\.pbtxt"),
    ],
)
def test_a_file_is_named_with_the_line(tmp_path: pathlib.Path, text: str | None, expected: str):
    path = tmp_path / "s.pbtxt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        load(str(path))


def test_comments_and_spaces_do_not_change_what_a_schema_is():
    assert parse(f"# a comment\n{GOOD}   ").sha256 == parse(GOOD).sha256
    assert parse(GOOD.replace("44.6", "44.7")).sha256 != parse(GOOD).sha256
