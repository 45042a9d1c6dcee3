"""Lists of names in one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import did_you_mean
from recordmill.option_checks import Item, list_text, split_list


@given(st.lists(st.text('a ",=\n\u00a0'), min_size=1))
def test_a_list_is_split_into_its_names(names):
    assert split_list(list_text(names)) == names


@given(st.text('a ",'))
def test_items_of_lists_in_files_are_not_split(name):
    assert split_list(Item(name)) == [name]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("a,,b,", ["a", "", "b", ""]),
        ("", [""]),
        ('"a, b"', ["a, b"]),
        ('"a, b"=4,c=5', ["a, b=4", "c=5"]),
        ('x, "a ""b"", c" ,y', ["x", 'a "b", c', "y"]),
        ('5" pipe,c', ['5" pipe', "c"]),
    ],
)
def test_names_with_commas_are_in_quotes(text, items):
    assert split_list(text) == items


def test_white_space_around_items_can_be_kept():
    assert split_list(' a=b , "c, d"= e', trim=False) == [" a=b ", "c, d= e"]


@pytest.mark.parametrize("text", ['"a, b', '"a"b"', '"'])
def test_quotes_that_are_not_closed_are_refused(text):
    with pytest.raises(ValueError, match="expected a name in double quotes"):
        split_list(text)


def test_a_part_of_a_name_names_the_whole_in_quotes():
    assert did_you_mean("b)", ["x", "PAR (a, b)"]) == (
        " (did you mean 'PAR (a, b)'? In a list it needs double quotes: '\"PAR (a, b)\"')"
    )
