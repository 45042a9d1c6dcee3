"""Runs whose store sends other bytes of staged files than were written."""

import pathlib

import pytest

from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests.image_runs import make, run
from tests.s3_server import CREDENTIALS, s3_server

KINDS = {
    "table": (
        *("--stratify", "--bucketize", "x=5", "--vocabulary", "w", "--statistics"),
        *("--dedup", "drop", "--spill-above", 1),
    ),
    "sensor": (
        *("--time-column", "x", "--time-unit", "s", "--series-column", "label", "--window", 4),
        *("--split-by", "series-time", "--spill-above", 1, "--label-type", "none"),
    ),
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def table(folder: pathlib.Path) -> pathlib.Path:
    place = folder / "in.csv"
    rows = [f"{1000 * n + 10**9},w{n % 17},{'ab'[n % 2]}" for n in range(1500)]
    place.write_text("\n".join(["x,w,label", *rows]))
    return place


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", [1, 2, 3])
def test_bytes_that_change_on_their_way_are_read_again(kind, which, tmp_path):
    argv = ("--input", table(tmp_path), *KINDS[kind])
    local = make(tmp_path / "out", *argv, command=kind).manifest.digest
    with s3_server() as uri:
        out = uri(f"once-flipped{which}/out")
        assert run(kind, *argv, "--output", out, "--scratch", "store") == 0
        assert load(Location.parse(out)).digest == local


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", [1, 3])
def test_a_damaged_staged_file_is_named(kind, which, tmp_path, capsys):
    argv = ("--input", table(tmp_path), *KINDS[kind])
    with s3_server() as uri:
        out = uri(f"always-flipped{which}/out")
        assert run(kind, *argv, "--output", out, "--scratch", "store") == 1
    err = capsys.readouterr().err
    assert "is damaged" in err
    assert "then run the same command again" in err
    assert "Traceback" not in err
