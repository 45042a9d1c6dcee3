"""Runs whose intermediate files are on this machine, because their output is in a store."""

import pathlib
from collections import Counter

import pytest

from recordmill.errors import StorageError
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests.image_runs import make, run
from tests.s3_store import S3Store

ARGV = ("--stratify", "--spill-above", 1, "--num-shards", "train=3", "--workers", 2)


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    place = tmp_path / "in.csv"
    rows = [f"{n},w{n % 17},{'ab'[n % 2]}" for n in range(600)]
    place.write_text("\n".join(["x,w,label", *rows]))
    return place


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(table: pathlib.Path, output: str, *argv: object) -> int:
    return run("table", "--input", table, "--output", output, *ARGV, *argv)


def digest(output: str) -> str:
    return load(Location.parse(output)).digest


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def written(store: S3Store) -> Counter[str]:
    """Numbers of written objects, by their folder in staging."""
    keys = [one.key for one in store.requests if one.operation in ("PUT", "POST")]
    inside = [key.split("/")[3] for key in keys if key.count("/") > 2 and "/.recordmill/" in key]
    return Counter(inside)


def test_only_what_will_be_published_is_staged_in_the_store(table, cache, store):
    local = make(table.parent / "out", "--input", table, *ARGV, command="table").manifest.digest
    assert build(table, store.uri("here")) == 0
    here = written(store)
    assert here.keys() <= {"shards", "index", "side", "machine", "staged.json", "intent.json"}
    assert here.keys() >= {"shards", "index", "side"}
    store.requests.clear()
    assert build(table, store.uri("there"), "--scratch", "store") == 0
    assert written(store).keys() >= {"shards", "index", "side", "checked", "spill", "info"}
    assert {digest(store.uri(name)) for name in ("here", "there")} == {local}
    assert files_in(cache) == []
    assert [name for name in store.names("bucket/") if "/.recordmill/" in name] == []


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_interrupted_run_continues_on_its_machine_only(
    table, cache, store, monkeypatch, tmp_path, elsewhere
):
    local = make(table.parent / "local", "--input", table, *ARGV, command="table").manifest.digest
    with monkeypatch.context() as patch:
        patch.setattr("recordmill.job.publishing.publish", _denied)
        assert build(table, store.uri("out")) == 1
    assert files_in(cache)
    store.requests.clear()
    if elsewhere:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert build(table, store.uri("out")) == 0
    assert digest(store.uri("out")) == local
    assert bool(written(store)["shards"]) == elsewhere
    assert bool(files_in(cache)) == elsewhere


def test_files_of_an_earlier_run_do_not_count_after_a_run_elsewhere(
    table, cache, store, monkeypatch, tmp_path
):
    with monkeypatch.context() as patch:
        patch.setattr("recordmill.job.publishing.publish", _denied)
        assert build(table, store.uri("out")) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert build(table, store.uri("out")) == 0
    made = digest(store.uri("out"))
    for name in store.names("bucket/out/"):
        store.delete(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert build(table, store.uri("out")) == 0
    assert digest(store.uri("out")) == made
    assert files_in(cache) == []


def _denied(staging):
    raise PermissionError(13, "denied")


def test_the_folder_is_for_this_user_alone(table, store, tmp_path, capsys):
    folder = tmp_path / "scratch"
    assert build(table, store.uri("out"), "--scratch", folder) == 0
    (own,) = folder.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert build(table, store.uri("again"), "--scratch", folder) == 2
    err = capsys.readouterr().err
    assert f"--scratch {folder}: " in err
    assert "is not a folder of this user alone; choose" in err
    own.chmod(0o700)
    (tmp_path / "file").write_bytes(b"")
    assert build(table, store.uri("again"), "--scratch", tmp_path / "file") == 2
    assert f"--scratch {tmp_path / 'file'}: " in capsys.readouterr().err


def test_an_error_of_the_disk_names_the_option(table, store, monkeypatch, tmp_path, capsys):
    def fail(source, staging, **_):
        raise StorageError(f"cannot write {staging.place('listing')}: no space left on device")

    monkeypatch.setattr("recordmill.pipelines.jobs.job.list_input", fail)
    assert build(table, store.uri("out"), "--scratch", tmp_path / "scratch") == 1
    err = capsys.readouterr().err
    assert "no space left on device, or choose another folder for intermediate files" in err
    assert err.strip().endswith("with --scratch")


def test_without_a_cache_folder_the_files_are_in_the_store(table, store, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert build(table, store.uri("out")) == 0
    assert "info" in written(store)


def test_a_local_output_needs_no_scratch(table, cache, tmp_path):
    assert build(table, str(tmp_path / "out"), "--scratch", tmp_path / "scratch") == 0
    assert not (tmp_path / "scratch").exists()


def test_not_on_flink(table, store, capsys):
    assert build(table, store.uri("out"), "--runner", "flink", "--scratch", "/tmp") == 2
    assert (
        "--scratch /tmp: has no effect without --runner direct, because" in capsys.readouterr().err
    )
