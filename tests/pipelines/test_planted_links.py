"""Links and other files that somebody planted in an output folder."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import numpy as np
import pytest

from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.http_server import server
from tests.image_runs import make, run

pytestmark = pytest.mark.usefixtures("encoders")

OPTIONS = ("--splits", "train=1", "--unlabelled", "keep")


@pytest.fixture
def arrays(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.save(folder / "a.npy", np.zeros(3, np.float32))
    return folder


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "file").write_text("precious")
    return folder


def test_overwrite_deletes_nothing_through_a_link(arrays, elsewhere, tmp_path, capsys):
    out = tmp_path / "out"
    make(out, "--input", arrays, *OPTIONS, command="arrays")
    (out / "sub").symlink_to(elsewhere)
    manifest = json.loads((out / "dataset.json").read_bytes())
    manifest["files"]["sub/file"] = next(iter(manifest["files"].values()))
    (out / "dataset.json").write_text(json.dumps(manifest))
    argv = ("--input", arrays, "--output", out, *OPTIONS, "--seed", 5, "--overwrite")
    assert run("arrays", *argv) == 1
    assert "is a symbolic link" in capsys.readouterr().err
    assert (elsewhere / "file").read_text() == "precious"
    assert json.loads((out / "dataset.json").read_bytes()) == manifest
    (out / "sub").unlink()
    assert run("arrays", *argv) == 0


def test_overwrite_keeps_a_dataset_that_it_cannot_replace(arrays, tmp_path, capsys):
    out = tmp_path / "out"
    make(out, "--input", arrays, *OPTIONS, command="arrays")
    (out / "index").rename(tmp_path / "index")
    (out / "index").symlink_to(tmp_path / "index")
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    argv = ("--input", arrays, "--output", out, *OPTIONS, "--seed", 5, "--overwrite")
    assert run("arrays", *argv) == 1
    assert "is a symbolic link" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    (out / "index").unlink()
    (tmp_path / "index").rename(out / "index")
    assert run("arrays", *argv) == 0


def test_a_dataset_with_a_forged_split_is_refused(arrays, tmp_path, capsys):
    out = tmp_path / "out"
    make(out, "--input", arrays, *OPTIONS, command="arrays")
    manifest = json.loads((out / "dataset.json").read_bytes())
    manifest["splits"]["../../tmp/x"] = manifest["splits"]["train"]
    (out / "dataset.json").write_text(json.dumps(manifest))
    argv = ("--input", arrays, "--output", out, *OPTIONS)
    for options in ((), ("--overwrite",)):
        assert run("arrays", *argv, *options) == 2
        assert "holds a dataset.json that is damaged or that" in capsys.readouterr().err


@pytest.mark.parametrize("planted", ["lock.json", "", "index"])
def test_nothing_is_written_through_a_link(planted, arrays, elsewhere, tmp_path, capsys):
    out = tmp_path / "out"
    place = out / ("index" if planted == "index" else f".recordmill/{planted}")
    place.parent.mkdir(parents=True)
    (out / ".recordmill").mkdir(exist_ok=True) if planted == "index" else None
    place.symlink_to(elsewhere / "file" if planted == "lock.json" else elsewhere)
    assert run("arrays", "--input", arrays, "--output", out, *OPTIONS) == 1
    assert "link" in capsys.readouterr().err
    assert [path.name for path in elsewhere.iterdir()] == ["file"]
    assert (elsewhere / "file").read_text() == "precious"


def test_an_output_that_is_reached_through_a_link_is_fine(arrays, elsewhere, tmp_path):
    (tmp_path / "link").symlink_to(elsewhere)
    made = make(tmp_path / "link/out", "--input", arrays, *OPTIONS, command="arrays")
    assert made.keys("train") == {"a.npy"}


@pytest.mark.parametrize("below", ["", "sub"])
def test_an_output_that_is_a_link_to_nowhere_is_named(below, arrays, tmp_path, capsys):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    assert run("arrays", "--input", arrays, "--output", tmp_path / "out" / below, *OPTIONS) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}/out is a symbolic link to {tmp_path}/nowhere, which is no folder" in said
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_verify_reads_regular_files_only(what, arrays, tmp_path):
    out = tmp_path / "out"
    make(out, "--input", arrays, *OPTIONS, command="arrays")
    shard = next(out.glob("train.tfrecord-*"))
    shard.unlink()
    if what == "pipe":
        os.mkfifo(shard)
    else:
        shard.symlink_to("/dev/zero")
    command = [sys.executable, "-m", "recordmill", "verify", "--quiet", "--dataset", str(out)]
    done = subprocess.run(command, timeout=100, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_staging_is_private_and_published_files_have_the_modes_of_the_umask(arrays, tmp_path):
    out = tmp_path / "out"
    seen: list[int] = []
    make_dirs = Location.make_dirs

    def watch(place: Location) -> None:
        make_dirs(place)
        if place.path.startswith(f"{out}/.recordmill/"):
            seen.append(stat.S_IMODE((out / ".recordmill").stat().st_mode))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Location, "make_dirs", watch)
        assert (
            main(["arrays", "--quiet", "--input", str(arrays), "--output", str(out), *OPTIONS]) == 0
        )
    assert set(seen) == {0o700}
    plain = tmp_path / "plain"
    plain.touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()}
    assert modes == {stat.S_IMODE(plain.stat().st_mode)}


def test_a_planted_job_makes_no_run_ask_its_cluster(arrays, tmp_path, capsys):
    out = tmp_path / "out"
    (out / ".recordmill").mkdir(parents=True)
    with server() as (host, seen):
        claim = {"cluster": f"http://{host}", "job": "0" * 32}
        (out / ".recordmill/cluster-job.json").write_text(json.dumps(claim))
        assert run("arrays", "--input", arrays, "--output", out, *OPTIONS) == 1
        said = capsys.readouterr().err
        assert main(["status", "--output", str(out)]) == 1
        assert main(["cancel", "--flink-master", "localhost:9", "--output", str(out)]) == 1
    assert seen == []
    assert "this command does not name that cluster" in said
