"""The public names of `recordmill.transforms`: each is documented, and docs/api.md shows it."""

import inspect

import apache_beam as beam
import pytest

from recordmill import transforms
from tests.api_page import PAGE, docstring_of, page, parameters, public

NAMES = public()
STEPS = [
    name
    for name, one in NAMES.items()
    if isinstance(one, type) and issubclass(one, beam.PTransform)
]


def test_the_page_is_that_of_the_docstrings():
    assert PAGE.read_text() == page(), "docs/api.md is stale: run `make docs`"


def test_each_data_type_has_a_step_options_and_an_encoder():
    for kind in ("Images", "Text", "Table", "Series", "Audio", "Video", "Arrays"):
        assert f"Read{kind}" in NAMES
    for kind in ("Image", "Text", "Table", "Audio", "Array"):
        assert f"{kind}Options" in NAMES
        assert any(name.startswith(kind) and name.endswith("Encoder") for name in NAMES)


def test_unknown_names_are_errors_of_the_import():
    with pytest.raises(ImportError, match="cannot import name 'ReadImage'"):
        from recordmill.transforms import ReadImage  # noqa: F401


def test_names_are_listed_once_and_in_order():
    assert transforms.__all__ == sorted(set(transforms.__all__))
    assert {*transforms.__all__} <= {*dir(transforms)}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_in_google_style(name):
    found = docstring_of(NAMES[name])
    assert found.text.partition("\n\n")[0].endswith((".", ":"))
    undocumented = [one for one in parameters(NAMES[name]) if one not in found.fields]
    assert undocumented == [], "name it in the section Args"
    given = {*parameters(NAMES[name]), *getattr(NAMES[name], "_fields", ())}
    assert [one for one in found.fields if given and one not in given] == []
    for text in (*found.fields.values(), *found.raises.values()):
        assert text.rstrip(":").endswith((".", ")")) or text.endswith("."), text


@pytest.mark.parametrize("name", STEPS)
def test_a_step_says_its_errors_and_has_an_example(name):
    found = docstring_of(NAMES[name])
    assert found.raises
    assert name in found.example
    for error in found.raises:
        assert error in ("ConfigError", "RunError", "ValueError")


@pytest.mark.parametrize("name", STEPS)
def test_the_input_and_the_output_of_a_step_have_types(name):
    signature = inspect.signature(NAMES[name].expand)
    annotations = [one.annotation for one in signature.parameters.values()][1:]
    for annotation in (*annotations, signature.return_annotation):
        assert annotation is not inspect.Parameter.empty
        assert "Any" not in str(annotation)
