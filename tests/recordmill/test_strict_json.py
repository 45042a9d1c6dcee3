"""JSON that Recordmill writes."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill import strict_json

NUMBERS = st.integers() | st.floats() | st.none() | st.booleans() | st.text(max_size=3)
VALUES = st.recursive(NUMBERS, lambda one: st.lists(one) | st.dictionaries(st.text(), one))


def numbers_in(value):
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        return [number for one in value for number in numbers_in(one)]
    return [value] if isinstance(value, float) else []


@given(VALUES, st.sampled_from([None, 2]), st.booleans(), st.booleans())
def test_json_is_read_back_or_refused(value, indent, ascii_only, compact):
    style = {"indent": indent, "ascii_only": ascii_only, "compact": compact}
    if all(map(math.isfinite, numbers_in(value))):
        text = strict_json.to_text(value, **style)
        assert json.loads(text, parse_constant=pytest.fail) == value
    else:
        with pytest.raises(ValueError, match="JSON"):
            strict_json.to_text(value, **style)
