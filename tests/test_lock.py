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

_HOLD = """
import sys
from recordmill import lock
from recordmill.files import Location
with lock.held(Location.parse(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def place(output: pathlib.Path) -> Location:
    return Location.parse(str(output / FOLDER))


def start_holder(folder: Location) -> subprocess.Popen:
    """A process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=pathlib.Path(__file__).parents[1],
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_second_holder_is_told_who_has_it(tmp_path):
    folder = place(tmp_path / "out")
    holder = start_holder(folder)
    with pytest.raises(lock.HeldError) as caught, lock.held(folder):
        pass
    assert isinstance(caught.value, RunError)
    assert str(caught.value) == (
        f"another run is writing to {tmp_path / 'out'}: process {holder.pid} on"
        f" {socket.gethostname()} holds it. Wait until it is done, or stop it; running the same"
        " command then continues"
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
    with lock.held(folder):
        claim = json.loads((tmp_path / "out" / FOLDER / lock.NAME).read_bytes())
    assert claim["pid"] == os.getpid()
    assert list((tmp_path / "out").iterdir()) == []  # it was there before us


def test_a_process_excludes_itself(tmp_path):
    folder = place(tmp_path)
    with (
        lock.held(folder),
        pytest.raises(lock.HeldError, match=str(os.getpid())),
        lock.held(folder),
    ):
        pass
    with lock.held(folder):
        pass


def test_where_nothing_was_staged_nothing_stays(tmp_path):
    with lock.held(place(tmp_path / "new")):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()
    with pytest.raises(KeyError), lock.held(place(tmp_path / "failed")):
        raise KeyError
    assert not (tmp_path / "failed").exists()


def test_what_was_written_stays(tmp_path):
    with lock.held(place(tmp_path / "out")):
        (tmp_path / "out" / "dataset.json").write_text("{}")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dataset.json"]
    with lock.held(place(tmp_path / "staged")):
        (tmp_path / "staged" / FOLDER / "job").mkdir()
    assert [path.name for path in (tmp_path / "staged" / FOLDER).iterdir()] == ["job"]


def test_a_lock_whose_file_another_took_away_is_left_to_the_other(tmp_path):
    folder = place(tmp_path)
    with lock.held(folder):
        (tmp_path / FOLDER / lock.NAME).unlink()
        holder = start_holder(folder)
    assert (tmp_path / FOLDER / lock.NAME).exists()
    with pytest.raises(lock.HeldError, match=f"process {holder.pid} "), lock.held(folder):
        pass
    holder.communicate()


@pytest.mark.parametrize("claim", [b"", b"{", b"[]", b"{}"])
def test_a_holder_that_has_not_signed_yet(tmp_path, claim):
    folder = place(tmp_path)
    with lock.held(folder):
        (tmp_path / FOLDER / lock.NAME).write_bytes(claim)
        with (
            pytest.raises(lock.HeldError, match=r": another process holds it\."),
            lock.held(folder),
        ):
            pass


def test_the_file_or_the_folder_vanishes_while_it_is_taken(tmp_path, monkeypatch):
    """The holder before us removes both when it is done."""
    folder = place(tmp_path)
    vanish = iter(["folder", "file"])
    real = os.open

    def open_(path, *args):
        what = next(vanish, None)
        if what == "folder":
            os.rmdir(folder.local_path)
        descriptor = real(path, *args)
        if what == "file":
            os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", open_)
    with lock.held(folder):
        monkeypatch.undo()
        assert next(vanish, None) is None
        assert (tmp_path / FOLDER / lock.NAME).exists()
    assert list(tmp_path.iterdir()) == []


def test_storage_that_refuses_is_explained(tmp_path):
    (tmp_path / FOLDER / lock.NAME).mkdir(parents=True)
    with pytest.raises(StorageError, match=r"cannot lock .*: a folder stands where a file"):
        lock.held(place(tmp_path)).__enter__()


def test_stores_without_locks_are_left_clean():
    folder = Location.parse("mock://bucket/out") / FOLDER
    with lock.held(folder):
        assert folder.exists()
    assert not folder.exists()
