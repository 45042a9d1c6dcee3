"""Secrets in URIs, and characters that drive a terminal, are not shown."""

import dataclasses
import json

import pytest

from recordmill.pipelines.cli import main
from recordmill.transforms.sources.files.input_paths import InputPath
from tests.tiny import TinySource
from tests.tiny_jobs import run, tiny_job

URI = "abfs://box@account.dfs.core.windows.net/x?sv=1&sig=hunter2"


def test_a_printed_job_file_holds_no_secret(capsys):
    argv = ["images", "--input", f"train={URI}", "--output", URI, "--print-config"]
    with pytest.raises(SystemExit):
        main(argv)
    said = capsys.readouterr().out
    assert "box@account.dfs.core.windows.net/x?sv=***&sig=***" in said
    assert "hunter2" not in said


def test_job_json_holds_no_secret(tmp_path):
    job = tiny_job(tmp_path / "out", TinySource(rows=tuple((f"{n}", "a", b"x") for n in range(4))))
    job.config = dataclasses.replace(job.config, input=(InputPath(URI),))
    run(job)
    written = (tmp_path / "out/job.json").read_text()
    assert "hunter2" not in written
    assert json.loads(written)["input"] == [URI.replace("1", "***").replace("hunter2", "***")]


def test_a_message_holds_no_secret(tmp_path, capsys):
    where = f"ftp://ID:hunter2@host/x?token=hunter2&next={tmp_path}"
    assert main(["images", "--input", where, "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "ftp://***@host/x?token=***" in said
    assert "hunter2" not in said


def test_a_message_escapes_control_characters(tmp_path, capsys):
    job = tmp_path / "job.yaml"
    job.write_text('"inp\\e]0;title\\aut": a\n')
    assert main(["images", "--config", str(job), "--output", "out"]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b]0;title\\x07" in said
