"""One job per output."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from recordmill.errors import RunError
from recordmill.job import lock
from recordmill.job.staging import FOLDER
from recordmill.storage.files import Location, StorageError
from tests.paths import ROOT

_HOLD = """
import sys
from recordmill.job import lock
from recordmill.storage.files import Location
with lock.hold_lock(Location.parse(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def place(output: pathlib.Path) -> Location:
    return Location.parse(str(output / FOLDER))


def start_holder(folder: Location) -> subprocess.Popen:
    """Start a process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_second_holder_gets_the_name_of_the_first(tmp_path):
    folder = place(tmp_path / "out")
    holder = start_holder(folder)
    with pytest.raises(lock.LockedError) as caught, lock.hold_lock(folder):
        pass
    assert isinstance(caught.value, RunError)
    assert str(caught.value) == (
        f"another run is writing to {tmp_path / 'out'}: process {holder.pid} on"
        f" {socket.gethostname()} holds the lock. Wait until it is done, or stop it; then run"
        " the same command again to continue"
    )
    holder.communicate()
    assert not (tmp_path / "out").exists()


def test_a_killed_holder_leaves_no_lock(tmp_path):
    folder = place(tmp_path / "out")
    holder = start_holder(folder)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    left = json.loads((tmp_path / "out" / FOLDER / lock.NAME).read_bytes())
    assert left == {"host": socket.gethostname(), "pid": holder.pid}
    with lock.hold_lock(folder):
        claim = json.loads((tmp_path / "out" / FOLDER / lock.NAME).read_bytes())
    assert claim["pid"] == os.getpid()
    assert list((tmp_path / "out").iterdir()) == []  # the folder existed before


def test_a_process_that_ends_releases_its_locks(tmp_path):
    for folder in (place(tmp_path / "out"), Location.parse("mock://bucket/out") / FOLDER):
        with lock.hold_lock(folder):
            assert folder.exists()
            lock.release_all()
            assert not folder.exists()
    assert not (tmp_path / "out").exists()


def test_a_process_excludes_itself(tmp_path):
    folder = place(tmp_path)
    with (
        lock.hold_lock(folder),
        pytest.raises(lock.LockedError, match=str(os.getpid())),
        lock.hold_lock(folder),
    ):
        pass
    with lock.hold_lock(folder):
        pass


def test_without_staged_files_nothing_stays(tmp_path):
    with lock.hold_lock(place(tmp_path / "new")):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()
    with pytest.raises(KeyError), lock.hold_lock(place(tmp_path / "failed")):
        raise KeyError
    assert not (tmp_path / "failed").exists()


def test_written_files_stay(tmp_path):
    with lock.hold_lock(place(tmp_path / "out")):
        (tmp_path / "out" / "dataset.json").write_text("{}")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dataset.json"]
    with lock.hold_lock(place(tmp_path / "staged")):
        (tmp_path / "staged" / FOLDER / "job").mkdir()
    assert [path.name for path in (tmp_path / "staged" / FOLDER).iterdir()] == ["job"]


def test_a_lock_file_that_another_process_replaced_stays(tmp_path):
    folder = place(tmp_path)
    with lock.hold_lock(folder):
        (tmp_path / FOLDER / lock.NAME).unlink()
        holder = start_holder(folder)
    assert (tmp_path / FOLDER / lock.NAME).exists()
    with pytest.raises(lock.LockedError, match=f"process {holder.pid} "), lock.hold_lock(folder):
        pass
    holder.communicate()


@pytest.mark.parametrize("claim", [b"", b"{", b"[]", b"{}"])
def test_a_lock_file_without_its_holder(tmp_path, claim):
    folder = place(tmp_path)
    with lock.hold_lock(folder):
        (tmp_path / FOLDER / lock.NAME).write_bytes(claim)
        with (
            pytest.raises(lock.LockedError, match=r": another process holds the lock\."),
            lock.hold_lock(folder),
        ):
            pass


def test_the_file_or_the_folder_vanishes_while_it_is_taken(tmp_path, monkeypatch):
    """The previous holder removes both when it is done."""
    folder = place(tmp_path)
    vanish = iter(["folder", "file"])
    real = os.open

    def open_(path, *args, **options):
        if not str(path).endswith(lock.NAME):
            return real(path, *args, **options)
        what = next(vanish, None)
        if what == "folder":
            os.rmdir(folder.local_path)
        descriptor = real(path, *args)
        if what == "file":
            os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", open_)
    with lock.hold_lock(folder):
        monkeypatch.undo()
        assert next(vanish, None) is None
        assert (tmp_path / FOLDER / lock.NAME).exists()
    assert list(tmp_path.iterdir()) == []


def test_storage_that_refuses_is_explained(tmp_path):
    (tmp_path / FOLDER / lock.NAME).mkdir(parents=True)
    with pytest.raises(StorageError, match=r"cannot lock .*: a folder is where a file"):
        lock.hold_lock(place(tmp_path)).__enter__()


def test_stores_without_locks_are_left_clean():
    folder = Location.parse("mock://bucket/out") / FOLDER
    with lock.hold_lock(folder):
        assert folder.exists()
    assert not folder.exists()
