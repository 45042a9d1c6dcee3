"""Options that have no effect beside others, or on an input, are errors that say so."""

import pathlib

import numpy as np
import pytest

from tests.folders import make_picture
from tests.image_runs import run

RGBA = ("--mode", "rgba", "--image-format", "png")
SERIES = ("--time-column", "x", "--window", "2")
NONE = ("--label-type", "none")
WITHOUT_LABELS = "has no effect with --label-type none"
CASES = [
    ("images", "photos", ("--quality", 80, "--image-format", "png"), "--quality", "only with jpeg"),
    ("images", "photos", ("--quality", 80, "--image-format", "raw"), "--quality", "only with jpeg"),
    ("video", "photos", ("--clip-frames", 2, "--quality", 80, "--image-format", "raw"),
     "--quality", "only with jpeg"),
    ("images", "photos", ("--background", "1,2,3", *RGBA), "--background", "--resize-mode pad"),
    ("images", "list.csv", ("--label-from", "parent"), "--label-from", "use --label-column"),
    ("images", "list.csv", ("--group-from", "parent"), "--group-from", "use --group-column"),
    ("table", "rows.csv", ("--label-from", "parent"), "--label-from", "has no folders"),
    ("text", "rows.csv", ("--label-from", "parent"), "--label-from", "has no folders"),
    ("text", "rows.csv", ("--documents", "line"), "--documents", "folders of text files"),
    ("text", "rows.jsonl", ("--trim",), "--trim", "applies to csv, tsv"),
    ("text", "texts", ("--trim",), "--trim", "holds text files"),
    ("text", "texts", ("--missing", "?"), "--missing", "holds text files"),
    ("text", "texts", ("--comment", "#"), "--comment", "holds text files"),
    ("text", "texts", ("--skip-rows", 1), "--skip-rows", "holds text files"),
    ("text", "texts", ("--escape", "\\"), "--escape", "holds text files"),
    ("table", "rows.csv", ("--vocab-size", 9), "--vocab-size", "without --vocabulary or --one-hot"),
    ("table", "rows.csv", ("--min-frequency", 2), "--min-frequency", "--vocabulary or --one-hot"),
    ("table", "rows.csv", ("--oov-buckets", 2, "--one-hot", "text"), "--oov-buckets",
     "without --vocabulary"),
    ("sensor", "rows.csv", (*SERIES, "--time-format", "%Y", "--time-unit", "ms"), "--time-unit",
     "--time-format reads text"),
    ("images", "photos", ("--label-offset", 1), "--label-offset", "needs classes"),
    ("images", "photos", ("--fold-labels",), "--fold-labels", "needs classes"),
    ("images", "photos", ("--no-confine",), "--no-confine", "without --input-root"),
    ("images", "list.csv", ("--no-confine",), "--no-confine", "without --input-root"),
    ("table", "rows.csv", (*NONE, "--labels-file", "labels.txt"), "--labels-file", WITHOUT_LABELS),
    ("table", "rows.csv", (*NONE, "--label-map", "a=b"), "--label-map", WITHOUT_LABELS),
    ("table", "rows.csv", (*NONE, "--label-offset", 1), "--label-offset", WITHOUT_LABELS),
    ("text", "rows.csv", (*NONE, "--unlabelled", "keep"), "--unlabelled", WITHOUT_LABELS),
    ("text", "rows.csv", (*NONE, "--stratify"), "--stratify", WITHOUT_LABELS),
    ("arrays", "arrays", (*NONE, "--balance", "weights"), "--balance", WITHOUT_LABELS),
    ("arrays", "arrays", (*NONE, "--exclude-labels", "a"), "--exclude-labels", WITHOUT_LABELS),
    ("table", "rows.csv", ("--trust-transform",), "--trust-transform", "without --preprocessing"),
    ("arrays", "arrays", ("--limit-per-class", 1), "--limit-per-class", "needs classes"),
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("inputs")
    make_picture(root / "photos" / "1.png", 1)
    (root / "texts").mkdir()
    (root / "texts" / "1.txt").write_text("a text")
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
