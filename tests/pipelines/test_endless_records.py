"""Records on which a library works without an end, or panics: rejected by name."""

import json
import pathlib
import re

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made

pytest.importorskip("tokenizers")

# Its time is exponential in the number of letters before another character.
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {
        "type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False,
    },
    "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
}  # fmt: skip
PANIC = "a" * 40 + "!"  # more steps than the library of regular expressions allows
SLOW = ("a" * 19 + "!") * 2000  # about a minute
OPTIONS = ("--splits", "train=1", "--num-shards", "1", "--workers", "1", "--quiet")


def run(folder: pathlib.Path, texts: list[str], *options: str) -> int:
    """The exit code of a run over texts."""
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    lines = [json.dumps({"text": text, "key": f"{row}"}) for row, text in enumerate(texts)]
    (folder / "in.jsonl").write_text("\n".join(lines))
    argv = ("--input", folder / "in.jsonl", "--tokenizer", folder / "tokenizer.json")
    argv += ("--output", folder / "out", "--key-column", "key", *OPTIONS, *options)
    return main(["text", *map(str, argv)])


@pytest.mark.long
def test_a_record_on_which_a_tokenizer_panics_is_rejected(tmp_path: pathlib.Path) -> None:
    texts = ["a", "a a", PANIC, "b"]
    assert run(tmp_path, texts, "--max-reject-fraction", "0.3") == 0
    made = Made(tmp_path / "out")
    assert made.rejects == {"2": "crashed_decoder"}
    assert made.keys("train") == {"0", "1", "3"}


@pytest.mark.long
def test_a_record_that_takes_too_long_is_rejected(tmp_path: pathlib.Path) -> None:
    texts = [f"a {row}" for row in range(40)]
    texts[7] = SLOW
    options = ("--max-reject-fraction", "0.1", "--max-worker-seconds", "2")
    assert run(tmp_path, texts, *options) == 0
    made = Made(tmp_path / "out")
    assert made.rejects == {"7": "too_slow"}
    assert len(made.keys("train")) == 39
    reject = json.loads((tmp_path / "out" / "rejects.jsonl").read_text())
    assert reject["detail"].endswith("more than --max-worker-seconds 2 of CPU time for it")


def test_a_negative_time_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ["a"], "--max-worker-seconds", "-1") == 2
    assert "--max-worker-seconds: expected 0 or more seconds" in capsys.readouterr().err


def test_a_limit_that_all_tasks_exceed_ends_with_one_line(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A task that reads or plans has no record to reject.

    The table is large, so that its tasks last beyond a check of their time.
    """
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{row}\n" for row in range(300_000)))
    options = ("--max-worker-seconds", "0.000001", "--quiet", "--output", str(tmp_path / "out"))
    assert main(["table", "--input", str(tmp_path / "t.csv"), *options]) == 1
    error = capfd.readouterr().err.strip().splitlines()[-1]
    begin = r"recordmill table: error: (cannot read \S+: )?an encoder process needs more than"
    assert re.match(begin, error)
    assert error.endswith("raise the limit")
