"""Options that have no effect beside others, or on an input, are errors that say so."""

import pathlib

import numpy as np
import pytest

from tests.folders import make_picture
from tests.image_runs import run

RGBA = ("--mode", "rgba", "--image-format", "png")
CASES = [
    ("images", "photos", ("--quality", 80, "--image-format", "png"), "--quality", "only with jpeg"),
    ("images", "photos", ("--quality", 80, "--image-format", "raw"), "--quality", "only with jpeg"),
    ("video", "photos", ("--clip-frames", 2, "--quality", 80, "--image-format", "raw"),
     "--quality", "only with jpeg"),
    ("images", "photos", ("--background", "1,2,3", *RGBA), "--background", "--resize-mode pad"),
    ("images", "list.csv", ("--label-from", "parent"), "--label-from", "or use --label-column"),
    ("images", "list.csv", ("--group-from", "folder:2"), "--group-from", "no path gives a group"),
    ("table", "rows.csv", ("--label-from", "parent"), "--label-from", "has no folders"),
    ("text", "rows.csv", ("--label-from", "parent"), "--label-from", "has no folders"),
    ("text", "rows.jsonl", ("--trim",), "--trim", "applies to csv, tsv"),
    ("images", "photos", ("--label-offset", 1), "--label-offset", "needs classes"),
    ("images", "photos", ("--fold-labels",), "--fold-labels", "needs classes"),
    ("arrays", "arrays", ("--limit-per-class", 1), "--limit-per-class", "needs classes"),
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("inputs")
    make_picture(root / "photos" / "1.png", 1)
    (root / "arrays").mkdir()
    np.save(root / "arrays" / "1.npy", np.zeros(3))
    (root / "list.csv").write_text("path,label\nphotos/1.png,a\n")
    (root / "rows.csv").write_text("x,text,label\n1,one,a\n2,two,b\n")
    (root / "rows.jsonl").write_text('{"text": "one", "label": "a"}\n')
    return root


@pytest.mark.parametrize(("command", "given", "argv", "flag", "why"), CASES)
def test_an_option_without_effect(command, given, argv, flag, why, inputs, tmp_path, capsys):
    fixed = ("--input", inputs / given, "--output", tmp_path / "out")
    assert run(command, *fixed, *argv) == 2
    said = capsys.readouterr().err
    assert f"error: {flag}" in said
    assert why in said
