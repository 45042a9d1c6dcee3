import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.option_files import expect_plain_text, parse_names, read_names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.txt", "okra\nbean\n"),
        ("names.txt", "okra\r\nbean\r\n\r\n"),
        ("names.txt", "\ufeffokra\nbean"),
        ("data.yaml", "path: ../okra\nnc: 2\nnames: [okra, bean]\n"),
        ("data.yaml", "names:\n- okra\n- bean\n"),
        ("data.yml", "names:\n  0: okra\n  1: bean\n"),
        ("data.txt", "train: images\nnames:\n  0: okra\n  1: bean\n"),
        ("data.json", '{"names": ["okra", "bean"]}'),
        ("names.json", '["okra", "bean"]'),
        ("names.txt", '["okra",\n"bean"]\n'),
        ("names.yaml", "- okra\n- bean\n"),
        ("data.json", '{\n"nc": 2, "names": {"0": "okra", "1": "bean"}\n}'),
    ],
)
def test_names_are_read(name, text, tmp_path):
    (tmp_path / name).write_bytes(text.encode())
    assert read_names("--labels-file", str(tmp_path / name)) == ("okra", "bean")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("data.yaml", "path: ../okra\nnc: 2\n", "got lines of KEY: VALUE, such as 'path: ../okra'"),
        ("data.yaml", "train:\n  - a\n  - b\n", "expected `names` in this YAML file"),
        ("data.yaml", "okra\nbean\n", "expected `names` in this YAML file, found none"),
        ("names.txt", "- okra\n- bean\n", "got a list in YAML, such as '- okra'"),
        ("names.txt", "0: okra\n1: bean\n", "got lines of KEY: VALUE, such as '0: okra'"),
        ("names.txt", "# names\nokra:\nbean: 1\n", "got lines of KEY: VALUE"),
        ("names.json", '{"okra": 0}', 'or {"names": [...]} in JSON, got JSON'),
        ("names.txt", '[{"okra": 0}]', "expected `names` to be a list of class names"),
        ("names.txt", '{"name": "okra"}\n{"name": "bean"}\n', "got JSON"),
        ("names.json", "okra\nbean\n", "expected `names` in this JSON file, found none"),
        ("names.txt", "okra\n\nbean\n", "name 2 of 3 is empty"),
        ("names.txt", "okra\n  \nbean\n", "name 2 of 3 is empty"),
        ("data.yaml", "names: [okra, '']\n", "name 2 of 2 is empty"),
        ("data.yaml", "names: []\n", "expected `names` to be a list of class names"),
        ("data.yaml", "names: okra\n", "expected `names` to be a list of class names"),
        ("data.yaml", "names: [[okra]]\n", "expected `names` to be a list of class names"),
        ("data.yaml", "nc: 3\nnames: [okra, bean]\n", "nc is 3, but `names` has 2 names"),
        ("data.yaml", "names: {1: okra, 2: bean}\n", "as the keys of `names`, got 1, 2"),
        ("data.yaml", "names: {1: okra, 0: bean}\n", "as the keys of `names`, got 1, 0"),
        ("label_map.pbtxt", "item {\n  id: 1\n  name: 'okra'\n}\n", "a label map of TensorFlow"),
        ("names.txt", "<!DOCTYPE html>\n<html></html>\n", "got an HTML page"),
        ("names.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        ("names.txt", "okra\0bean", "got binary data"),
    ],
)
def test_files_that_are_not_lists_of_names(name, text, problem, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_names("--labels-file", str(tmp_path / name))
    assert problem in str(raised.value)
    assert str(raised.value).startswith(f"--labels-file {tmp_path / name}: ")


NAMES = st.lists(st.from_regex(r"\A[a-zA-Z][a-zA-Z0-9_ .'-]*\Z"), min_size=1, max_size=9)


@given(NAMES)
def test_lines_and_yaml_and_json_give_the_same_names(names):
    expected = tuple(names)
    assert parse_names("\n".join(names) + "\n", "x") == expected
    assert parse_names(json.dumps({"names": names}), "x", suffix="YAML") == expected
    numbered = json.dumps({"names": {str(place): name for place, name in enumerate(names)}})
    assert parse_names(numbered, "x") == expected


def test_keys_may_hold_colons():
    expect_plain_text("Alien: Covenant\nAlien: Romulus\n", "x", "keys", colons=True)
    with pytest.raises(ConfigError, match="x: expected keys, got JSON"):
        expect_plain_text('["a", "b"]', "x", "keys", colons=True)
