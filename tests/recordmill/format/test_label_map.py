"""label_map.pbtxt, as this project and others write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.label_map import label_map, parse_label_map


@given(labels=st.lists(st.text(), unique=True), offset=st.integers(0, 1000))
def test_a_label_map_reads_back(labels: list[str], offset: int) -> None:
    text = label_map(labels, label_offset=offset).decode()
    assert parse_label_map(text) == {name: n for n, name in enumerate(labels, start=offset)}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('item {\n    name: "cat",\n    id: 1,\n    display_name: "Cat"\n}\n', {"cat": 1}),
        ("item{id:7 name:'a {b} \\'c\\''}", {"a {b} 'c'": 7}),
        ('item {\n  display_name: "Cat"\n  id: 3\n  name: "/m/01"\n}', {"/m/01": 3}),
        ('item { name: "a" id: 1 } item { name: "b" id: 1 }', {}),
        ('item { name: "a" id: 1 } item { name: "a" id: 2 }', {}),
        ('feature { name: "x" type: INT }', {}),
        ("item { id: 4 }", {}),
        ("item { " * 1000, {}),
        ('item {"' * 100_000, {}),
        ('"' + '\\"' * 100_000, {}),
        ('# item { name: "b" id: 2 }\nitem { name: "a" id: 1 keypoints { id: 5 } }', {"a": 1}),
    ],
)
def test_label_maps_of_other_programs(text: str, numbers: dict[str, int]) -> None:
    assert parse_label_map(text) == numbers
