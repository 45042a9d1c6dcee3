"""The order in which a run puts files on disk: a power cut leaves the old or the new dataset.

tests/soak/power.py cuts the power for real, on file systems in files.
"""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from recordmill.job import publishing
from recordmill.job.staging import FOLDER, INTENT
from recordmill.pipelines.cli import main
from recordmill.storage import durability
from recordmill.storage.files import Location
from tests.tiny import TinySource
from tests.tiny_jobs import run, tiny_job

ROWS = TinySource(rows=tuple((f"{n:03d}", "ab"[n % 2], b"x" * n) for n in range(60)))


def _named(path: str) -> str:
    """The name of a path that begins with the descriptor of a folder, /proc/self/fd/3/name."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


class Disk:
    """The files that a power cut leaves for certain, given the calls of a process.

    synced: files whose content is on disk. loose: names whose making, moving or deleting is not.
    on_change: called before each move and each deletion, with the path that changes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[str] = set()
        self.loose: set[str] = set()
        self.on_change: Callable[[str], None] = lambda path: None
        for name in ("fsync", "replace", "unlink", "link"):
            monkeypatch.setattr(os, name, self._recording(getattr(os, name), getattr(self, name)))

    def _recording(self, call: Callable[..., Any], record: Callable[..., None]) -> Any:
        def recorded(*arguments: Any, **options: Any) -> Any:
            if not options:  # shutil deletes trees by descriptors of folders
                record(*(_named(one) if isinstance(one, str) else one for one in arguments))
            return call(*arguments, **options)

        return recorded

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            self.loose = {name for name in self.loose if os.path.dirname(name) != path}
        else:
            self.synced.add(path)

    def replace(self, source: str, target: str) -> None:
        self.on_change(str(target))
        self.synced.discard(target)
        if source in self.synced:
            self.synced.remove(source)
            self.synced.add(target)
        self.loose.add(target)

    def link(self, source: str, target: str) -> None:
        self.loose.add(target)

    def unlink(self, path: str) -> None:
        if os.path.exists(path):
            self.on_change(str(path))
            self.loose.add(str(path))

    def lacks(self, paths: list[pathlib.Path]) -> list[pathlib.Path]:
        """The files that a power cut at this moment may take."""
        return [path for path in paths if str(path) not in self.synced or str(path) in self.loose]


def overwritten(out: pathlib.Path, disk: Disk) -> list[str]:
    """Overwrite a dataset, and check at each change what is on disk; return the changes."""
    moments: list[str] = []
    manifest = out / "dataset.json"

    def check(path: str) -> None:
        staged = next((out / FOLDER).glob("*/shards"), out).parent
        first, *rest = path.removeprefix(f"{out}/").split("/")
        if first == FOLDER:
            if rest[1:2] == ["info"]:
                moments.append("info")
                name = rest[-1].removesuffix(".json")
                index = f"{name.replace('.tfrecord', '')}.parquet"
                assert not disk.lacks([staged / "shards" / name, staged / "index" / index])
        elif first != "dataset.json":
            moments.append("changed")
            assert str(manifest) not in disk.loose, path
        elif "gone" not in moments:
            moments.append("gone")
            kinds = [staged / kind for kind in ("index", "shards", "side")]
            new = [path for kind in kinds for path in kind.rglob("*") if path.is_file()]
            assert {path.parent for path in new} >= set(kinds)
            assert not disk.lacks([*new, staged / INTENT])
        else:
            moments.append("there")
            stated = json.loads((staged / "side/dataset.json").read_text())
            shards = [s["file"] for one in stated["splits"].values() for s in one["shards"]]
            files = [out / name for name in (*shards, *stated["files"], "job.json")]
            assert not disk.lacks([*files, *out.glob("index/*")])

    disk.on_change = check
    run(tiny_job(out, ROWS, seed=2, num_shards=2, overwrite=True))
    assert not disk.lacks([manifest])
    return moments


def test_each_step_of_publishing_is_on_disk_before_the_next(tmp_path, monkeypatch):
    out = tmp_path / "out"
    run(tiny_job(out, ROWS, seed=1, num_shards=3))
    moments = overwritten(out, Disk(monkeypatch))
    assert moments.count("info") == 6
    assert moments.count("changed") > 20
    steps = [moment for moment in moments if moment in ("gone", "there")]
    assert steps == ["gone", "there"]


def test_a_run_that_finds_the_manifest_moved_waits_until_it_is_on_disk(tmp_path, monkeypatch):
    out = tmp_path / "out"
    job = tiny_job(out, ROWS)
    with monkeypatch.context() as patched:

        def killed(self: Location) -> None:
            if self == job.output and (out / "dataset.json").exists():
                raise RuntimeError("killed")

        patched.setattr(Location, "sync_folder", killed)
        with pytest.raises(RuntimeError, match="killed"):
            run(job)
    assert publishing.interrupted(job.output) is not None
    disk = Disk(monkeypatch)
    disk.loose = {str(out / "dataset.json")}
    assert run(tiny_job(out, ROWS)).status == "unchanged"
    assert not disk.loose & {str(out / "dataset.json")}


def test_folders_that_are_made_are_on_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(durability, "sync_folder", synced.append)
    durability.make_folders(str(tmp_path / "a/b"))
    durability.make_folders(str(tmp_path / "a/b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


def test_a_folder_without_fsync_is_no_error(tmp_path, monkeypatch):
    def refuse(descriptor: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    durability.sync_folder(str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="Invalid"):
        durability.sync_file(str(tmp_path / "file"))


def test_writing_back_begins_while_a_file_is_written(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(durability, "_WRITE_BACK_BYTES", 100)
    monkeypatch.setattr(durability, "_begin_write_back", lambda fd, *where: begun.append(where))
    with durability.SyncedFile(str(tmp_path / "file")) as file:
        for _ in range(5):
            file.write(b"x" * 60)
    assert begun == [(0, 120), (120, 120)]


def test_adopted_files_are_on_disk(tmp_path, monkeypatch):
    made = tmp_path / "made"
    run(tiny_job(made, ROWS, num_shards=1))
    (tmp_path / "in").mkdir()
    for shard in made.glob("*.tfrecord-*"):
        os.link(shard, tmp_path / "in" / shard.name)
    disk = Disk(monkeypatch)
    out = tmp_path / "out"
    given = ["--input", str(tmp_path / "in"), "--output", str(out), "--quiet"]
    # In this process, where the calls are seen.
    monkeypatch.setattr(
        "recordmill.pipelines.commands.adopt_job.in_processes",
        lambda function, tasks, workers: map(function, tasks),
    )
    assert main(["adopt", *given]) == 0
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not disk.lacks(files)
