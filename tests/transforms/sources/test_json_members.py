"""Streaming of large JSON with reads of any size, and errors of invalid JSON."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.transforms.sources.files import json_members
from recordmill.transforms.sources.files.json_members import iter_items, iter_members

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def read(data, wanted=("a", "b")):
    return list(iter_members(io.BytesIO(data), wanted, where="x.json"))


@given(
    whole=st.dictionaries(st.sampled_from(["a", "b", "c"]), values),
    size=st.integers(1, 40),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_items_equal_those_of_json(whole, size, ascii_only, indent):
    data = json.dumps(whole, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace")
    expected = []
    for name, value in json.loads(data).items():
        if name != "c" and isinstance(value, list):
            expected += [(name, number, item) for number, item in enumerate(value)]
        elif name != "c":
            expected.append((name, None, value))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_members, "_CHUNK", size)
        patch.setattr(json_members, "_NUMBER", 30)
        assert read(data) == expected


@given(whole=st.lists(values), size=st.integers(1, 40), indent=st.sampled_from([None, 1]))
def test_items_of_an_array_equal_those_of_json(whole, size, indent):
    data = json.dumps(whole, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_members, "_CHUNK", size)
        patch.setattr(json_members, "_NUMBER", 30)
        assert [*iter_items(io.BytesIO(data + b" \n"), where="x.json")] == json.loads(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "expected a JSON array, which begins with [: got '{}'"),
        (b"[1, 2", "invalid JSON at or after item 2: got the end of the file"),
        (b"[1 2]", "invalid JSON at or after item 1: got ']'"),
        (b"[1]\n[2]", "invalid JSON at or after item 1: got '[2]'"),
    ],
)
def test_invalid_arrays_are_an_error(data, message):
    with pytest.raises(ConfigError) as caught:
        list(iter_items(io.BytesIO(data), where="x.json"))
    assert str(caught.value) == f"x.json: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a JSON object, which begins with {: got the end of the file"),
        (b"[1]", "expected a JSON object, which begins with {: got '[1]'"),
        (b'{"a": [1, 2', "invalid JSON at or after a[1]: got the end of the file"),
        (b'{"a": [1 2]}', "invalid JSON at or after a[0]: got ']}'"),
        (b'{"a": [{"b": 1}, {"b" 2}]}', "invalid JSON at or after a[0]: got"),
        (b'{"a" [1]}', "invalid JSON: got '[1]}'"),
        (b'{"a": 1 "b": 2}', "invalid JSON at or after a: got 'b\": 2}'"),
        (b'{"a": 1}\n{"b": 2}', "invalid JSON at or after a: got '{\"b\": 2}'"),
        (b"{1: 2}", "invalid JSON: got ': 2}'"),
        (b'{"a": ["\xff"]}', "not UTF-8"),
        (b'{"a": [' + b"[" * 100_000, "invalid JSON at or after a"),
    ],
)
def test_invalid_json(data, message):
    with pytest.raises(ConfigError) as caught:
        read(data)
    assert str(caught.value).startswith(f"x.json: {message}")


def test_a_byte_order_mark_is_skipped():
    assert read(b'\xef\xbb\xbf{"a": 1}') == [("a", None, 1)]
