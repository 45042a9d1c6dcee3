"""Faults of the machine and of the terminal: one sentence, and the right exit code.

Calls are made to fail in this process; reads and writes of whole runs are cut short. Many more
injections, encoder processes included: `tests/soak/faults.py`.
"""

import errno
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from recordmill.pipelines.cli import main
from recordmill.storage.local_files import LocalFiles
from tests.image_runs import images
from tests.paths import ROOT, SMALL_CLOTHING
from tests.soak import faults, store_faults

pytestmark = pytest.mark.usefixtures("encoders")

_ONE_SHARD = ("--num-shards", "1", "--size", "16", "--splits", "train=1")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, photo in enumerate(sorted(SMALL_CLOTHING.rglob("*.jpg"))[:4]):
        place = folder / "ab"[number % 2] / f"{number}.jpg"
        place.parent.mkdir(exist_ok=True)
        shutil.copy(photo, place)
    return folder


def _fail(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, code: int, part: str, times: int
) -> list[str]:
    """Let the first calls fail with an argument that matches `part`; return them."""
    real = getattr(owner, name)
    failed: list[str] = []

    def call(*args: Any, **options: Any) -> Any:
        if len(failed) < times and any(re.search(part, str(one)) for one in args):
            failed.append(str(args))
            raise OSError(code, os.strerror(code), str(args[0]))
        return real(*args, **options)

    monkeypatch.setattr(owner, name, call)
    return failed


_READS = [
    (os, "stat", "/a/0.jpg", "cannot access {photos}/a/0.jpg"),
    (os, "listdir", "photos", "cannot list {photos}"),
    (pa, "memory_map", "/part-00000.arrow", "cannot read {output}/.recordmill/"),
]


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.EACCES])
@pytest.mark.parametrize(("owner", "name", "part", "message"), _READS)
def test_a_fault_of_reading_fails_the_run_and_leaves_it_resumable(
    owner: Any,
    name: str,
    part: str,
    message: str,
    code: int,
    photos: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    arguments = ("--input", photos, "--output", output, *_ONE_SHARD)
    with pytest.MonkeyPatch.context() as patch:
        assert _fail(patch, owner, name, code, part, 1000) == []
        assert images(*arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "recordmill images: error: " + message.format(photos=photos, output=output)
    )
    assert said.count("\n") == 1
    assert said.endswith("run the same command again\n")
    assert not (output / "dataset.json").exists()


@pytest.mark.parametrize(("owner", "name", "part", "message"), _READS)
def test_a_fault_that_passes_changes_nothing(
    owner: Any,
    name: str,
    part: str,
    message: str,
    photos: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del message
    failed = _fail(monkeypatch, owner, name, errno.EIO, part, 1)
    assert images("--input", photos, "--output", tmp_path / "out", *_ONE_SHARD) == 0
    assert len(failed) == 1
    assert (tmp_path / "out" / "rejects.jsonl").read_bytes() == b""


def test_a_fault_while_a_table_is_listed_fails_the_run(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("x,label\n1,a\n2,b\n")
    command = ["table", "--input", str(rows), "--output", str(tmp_path / "out")]
    with pytest.MonkeyPatch.context() as patch:
        failed = _fail(patch, os, "open", errno.EIO, "/rows.csv$", 1000)
        assert main(command) == 1
    assert failed
    said = capsys.readouterr().err
    assert said.startswith(f"recordmill table: error: cannot read {rows}: input/output error; ")
    assert said.count("\n") == 1
    assert main([*command, "--splits", "train=1"]) == 0


def test_a_path_that_was_missing_is_looked_for_by_a_rerun(
    photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    listing, late = tmp_path / "list.csv", tmp_path / "late.jpg"
    listing.write_text(f"path,label\n{photos}/a/0.jpg,a\n{late},b\n")
    arguments = ("--input", listing, "--output", tmp_path / "out", *_ONE_SHARD)
    assert images(*arguments, "--max-reject-fraction", "0.1") == 1
    late.write_bytes((photos / "b/1.jpg").read_bytes())
    assert images(*arguments, "--max-reject-fraction", "0.1") == 0
    assert (tmp_path / "out/rejects.jsonl").read_bytes() == b""


def test_a_limit_of_threads_ends_in_one_sentence(
    photos: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ulimit -u` does not limit root, who may run the tests."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    arguments = ("--input", photos, "--output", tmp_path / "out", *_ONE_SHARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert images(*arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("recordmill images: error: cannot start a thread or a process: free ")
    assert said.count("\n") == 1
    assert images(*arguments) == 0


@pytest.mark.parametrize(
    ("owner", "name", "part", "code", "message"),
    [
        (os, "open", "lock.json", errno.EIO, "cannot lock {output}/.recordmill: input/output"),
        (os, "fsync", "", errno.ENOSPC, "cannot "),
        (os, "mkdir", "out", errno.EDQUOT, "cannot create the folder {output}"),
        (LocalFiles, "rename", "/dataset.json$", errno.EIO, "cannot move to {output}/dataset.json"),
        (os, "scandir", "/listing", errno.EIO, "cannot list {output}/.recordmill/"),
        (os, "mkdir", "beam-pipeline-temp", errno.ETIMEDOUT, "the operating system reports at /"),
        (shutil, "rmtree", "beam-pipeline-temp", errno.ENETDOWN, "the operating system reports"),
    ],
)
def test_a_fault_of_writing_fails_the_run(
    owner: Any,
    name: str,
    part: str,
    code: int,
    message: str,
    photos: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    _fail(monkeypatch, owner, name, code, part, 1000)
    assert images("--input", photos, "--output", output, *_ONE_SHARD) == 1
    said = capsys.readouterr().err
    assert said.startswith("recordmill images: error: " + message.format(output=output))
    assert said.count("\n") == 1
    assert not (output / "dataset.json").exists()


@pytest.mark.parametrize(
    ("owner", "name", "part", "message"),
    [
        (os, "unlink", "lock.json", "{output}/.recordmill/lock.json was not removed"),
        (shutil, "rmtree", "/[0-9a-f]{16}$", "was not removed: cannot delete {output}/.recordmill"),
    ],
)
def test_what_fails_after_publishing_is_a_warning(
    owner: Any,
    name: str,
    part: str,
    message: str,
    photos: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    arguments = ("--input", photos, "--output", output, *_ONE_SHARD)
    with pytest.MonkeyPatch.context() as patch:
        failed = _fail(patch, owner, name, errno.EIO, part, 1000)
        assert images(*arguments) == 0
    assert failed
    assert (output / "dataset.json").exists()
    said = capsys.readouterr().err
    assert "warning: " in said
    assert message.format(output=output) in said
    assert images(*arguments) == 0
    assert not (output / ".recordmill").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">&-", 0, "recordmill: warning: stdout could not be written: it is closed\n"),
        (">/dev/full", 0, "recordmill: warning: stdout could not be written: no space left"),
        ("2>&-", 0, "recordmill: warning: stderr could not be written: it is closed\n"),
        ("2>/dev/full", 0, "recordmill: warning: stderr could not be written: no space left"),
        (">&- 2>&-", 0, ""),
        ("--dry-run >/dev/full", 1, "recordmill: warning: stdout could not be written: no space"),
        ("--print-config >/dev/full", 1, "recordmill: warning: stdout could not be written: no"),
    ],
)
def test_a_closed_or_full_terminal(
    redirection: str, code: int, said: str, photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    command = f"exec {sys.executable} -m recordmill images --input {photos} --output {tmp_path}/out"
    done = subprocess.run(
        ["sh", "-c", f"{command} {' '.join(_ONE_SHARD)} --workers 1 {redirection}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out" / "dataset.json").exists() == (code == 0)


def _in_shell(
    prefix: str, photos: pathlib.Path, folder: pathlib.Path, options: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as the end of a line of `sh`."""
    command = f"{sys.executable} -m recordmill images --input {photos} --output {folder}/out"
    return subprocess.run(
        ["sh", "-c", f"{prefix} {command} {' '.join(_ONE_SHARD)} --quiet {options}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("-v 150000", "out of memory: free some memory, use fewer --workers, or raise the limits"),
        ("-v 300000", "raise the limits (ulimit "),
        ("-f 100", "an encoder process: file too large; raise the limit of file sizes (ulimit -f)"),
        ("-n 16", "too many open files; raise the limit (ulimit -n)"),
    ],
)
def test_limits_of_the_process_end_in_one_sentence(
    limit: str, said: str, photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    done = _in_shell(f"ulimit {limit}; exec", photos, tmp_path, "--workers 2")
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("<jemalloc>")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("recordmill images: error: ")
    assert said in lines[0]
    assert lines[0].endswith("then run the same command again")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (ImportError("libx.so: failed to map segment from shared object"), True),
        (ImportError("libx.so.6: cannot allocate memory in static TLS block"), True),
        (SystemError("error return without exception set"), True),
        (OSError(errno.ENOMEM, "no"), True),
        (MemoryError(), True),
        (ImportError("cannot import name 'a' from 'recordmill.b'"), False),
        (ImportError("libx.so.6: cannot open shared object file: No such file"), False),
        (SystemError("bad argument to internal function"), False),
    ],
)
def test_only_a_lack_of_memory_is_reported_as_one(error, is_memory, monkeypatch, capsys) -> None:
    def fail(argv: object) -> int:
        raise error

    monkeypatch.setattr("recordmill.pipelines.commands.dataset_commands.verify_main", fail)
    if not is_memory:
        with pytest.raises(type(error)):
            main(["verify", "--dataset", "out"])
        return
    assert main(["verify", "--dataset", "out"]) == 1
    assert "out of memory" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("prefix", "options"),
    [
        ("ulimit -n 64;", "--workers 32"),
        ("TMPDIR=/nonexistent", "--workers 2"),
    ],
)
def test_what_a_run_does_without(
    prefix: str, options: str, photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """More workers than open files, which waited for ever, and a folder for temporary files."""
    done = _in_shell(prefix, photos, tmp_path, options)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.long
def test_short_reads_and_writes_change_nothing(tmp_path: pathlib.Path) -> None:
    every = faults.Injection(call="read", mode="short", at=0)
    with faults.Runs(tmp_path) as runs:
        commands = faults.make_inputs(runs.work)
        for name in ("images", "table", "arrays"):
            contents = []
            for injection in (None, every):
                output = runs.work / f"{name}-{injection}"
                result = runs.inject([*commands[name], "--output", str(output)], injection)
                assert result.code == 0, result.stderr
                contents.append(faults.dataset(output))
            assert result.injected > 100
            assert contents[0] == contents[1]


def test_faults_of_a_store_change_nothing(tmp_path: pathlib.Path) -> None:
    injections = [
        store_faults.Injection(operation="write", fault="changed", at=4),
        store_faults.Injection(operation="write", fault="killed", at=20),
        store_faults.Injection(operation="copy", fault="hidden", at=5, times=1000),
        store_faults.Injection(operation="delete", fault="denied", at=4, times=1000),
    ]
    with store_faults.FaultyStore() as store:
        series = store_faults.Series(tmp_path, store)
        with series.runs:
            command = faults.make_inputs(tmp_path / "in")["table"]
            (kind,) = series.prepare("table", command, places=(store_faults.PLACES[3],))
            ends = [series.inject(kind, one, over_old=True) for one in injections]
    assert ends == [(1, "old"), (-9, "old"), (1, "none"), (1, "none")]


def test_a_clock_that_runs_backwards_changes_nothing(
    photos: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(time.time() / 3600, -1)
    monkeypatch.setattr(time, "time", lambda: next(hours) * 3600)
    assert images("--input", photos, "--output", tmp_path / "out", *_ONE_SHARD) == 0
