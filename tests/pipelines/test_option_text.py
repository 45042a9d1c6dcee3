"""Options in messages and tables look as they are typed."""

import pytest

from recordmill.pipelines.options.option_text import option_name, option_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not given"),
        (False, "not given"),
        ("", "not given"),
        ([], "not given"),
        ({}, "not given"),
        (True, "given"),
        (0, "0"),
        (0.5, "0.5"),
        ("none", "none"),
        ([224, 224], "224,224"),
        (("a", "b"), "a,b"),
        ({"y": 7, "x": 2.5}, "x=2.5,y=7"),
    ],
)
def test_a_value(value, text):
    assert option_text(value) == text


def test_a_name():
    assert option_name("num_shards") == "--num-shards"
