"""Runs that are stopped, or cannot go on: what they say and leave, and how the next one goes on."""

import dataclasses
import errno
import functools
import io
import itertools
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest

from recordmill.errors import RunError
from recordmill.job import lock, publishing
from recordmill.job.staging import FOLDER
from recordmill.pipelines.cli import main
from recordmill.pipelines.jobs.job import Job
from recordmill.storage import files
from recordmill.storage.files import Location
from recordmill.storage.local_files import LocalFiles
from recordmill.transforms.staged.encoder_tasks import row_task
from recordmill.transforms.writing.shards import ordered_encoding, shard_writer
from recordmill.transforms.writing.shards.shard_draft import ShardDraft
from tests.archive_files import files_in, tar_of, zip_of
from tests.folders import make_folder
from tests.image_runs import Made, images, make
from tests.media_tables import bytes_table
from tests.other_processes import PATIENCE, children, ends, wait_until
from tests.paths import CLOTHING

pytestmark = pytest.mark.usefixtures("encoders")

# --- Signals -----------------------------------------------------------------------------------


_TIMES = 45  # of each of four photos of two classes; the job must not end between two signals
_SHARDS = 60


@pytest.fixture(scope="module")
def long_job(tmp_path_factory) -> list[str]:
    """Options of a job that takes a while: a few photos under many names, into many shards."""
    folder = tmp_path_factory.mktemp("long") / "in"
    for label in ("hat", "skirt"):
        (folder / label).mkdir(parents=True)
        photos = sorted((CLOTHING / label).iterdir())[:4]
        for number, photo in itertools.product(range(_TIMES), photos):
            (folder / label / f"{number}-{photo.name}").symlink_to(photo)
    return [
        "--input",
        str(folder),
        "--size",
        "320",
        "--splits",
        "train=1",
        "--num-shards",
        str(_SHARDS),
    ]


@pytest.fixture(scope="module")
def undisturbed(long_job, tmp_path_factory) -> str:
    return make(tmp_path_factory.mktemp("undisturbed") / "out", *long_job).manifest.digest


def finished(out: pathlib.Path) -> dict[str, int]:
    """{shard: inode} of what is finished in staging."""
    infos = out.glob(f"{FOLDER}/*/info/*.json")
    return {info.stem: (info.parent.parent / "shards" / info.stem).stat().st_ino for info in infos}


# {signal: exit code}
_ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}


@pytest.mark.long
def test_a_job_goes_on_after_every_signal(long_job, undisturbed, tmp_path):
    out = tmp_path / "out"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done: dict[str, int] = {}
    command = [
        sys.executable,
        "-m",
        "recordmill.pipelines.cli",
        "images",
        "--output",
        str(out),
        *long_job,
    ]

    def more_is_done() -> bool:
        return len(finished(out)) > len(done)

    for number, code in _ENDS.items():
        process = subprocess.Popen(
            # The tests may run under nohup, which a process passes on. Nice, so that this one sees
            # in time what it does.
            ["env", "--default-signal=HUP", "nice", "-n", "19", *command],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
        wait_until(more_is_done, process)
        encoders = [os.pidfd_open(pid) for pid in children(process.pid)]
        assert encoders
        # Ctrl-C reaches the whole group, all else the one process it is sent to.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, said
        for encoder in encoders:
            assert ends(encoder)
        if number != signal.SIGKILL:
            assert f"stopped by {number.name}; run the same command again to continue" in said
        assert "Traceback" not in said
        assert not [*temporary.iterdir()]
        assert not (out / "dataset.json").exists()
        now = finished(out)
        assert done.items() <= now.items(), "finished shards are used as they are"
        done = now

    # Not in this process: beside what other tests have imported Pillow may find another zlib, and
    # that makes it another job.
    subprocess.run(command, check=True, capture_output=True)
    assert Made(out).manifest.digest == undisturbed
    published = {name: (out / name).stat().st_ino for name in done}
    assert published == done, "finished shards are moved, not written anew"
    assert not (out / FOLDER).exists()


_IN_BACKGROUND = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell without job control does for `command &`
from recordmill.pipelines import cli
cli._build_dataset = lambda *_: signal.raise_signal(signal.SIGINT)
raise SystemExit(cli.main(["images"]))
"""


def test_sigint_before_the_job_ends_a_command_in_the_background():
    command = [sys.executable, "-c", _IN_BACKGROUND]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "recordmill images: stopped by SIGINT\n")


@pytest.mark.long
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_job_of_an_archive_goes_on_after_a_kill(pack, long_job, undisturbed, tmp_path):
    """The members are the files of which `undisturbed` was made."""
    path = tmp_path / f"in.{pack.__name__.removesuffix('_of')}"
    archive = pack(path, files_in(pathlib.Path(long_job[1])))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "recordmill.pipelines.cli", "images", "--output", str(out)]
    command += ["--input", str(archive), *long_job[2:]]
    process = subprocess.Popen(["nice", "-n", "19", *command], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool(finished(out)), process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    done = finished(out)
    assert 0 < len(done) < _SHARDS
    assert not (out / "dataset.json").exists()
    subprocess.run(command, check=True, capture_output=True)
    assert Made(out).manifest.digest == undisturbed
    assert {name: (out / name).stat().st_ino for name in done} == done
    assert not (out / FOLDER).exists()


def test_a_shard_goes_on_where_it_was(long_job, tmp_path, monkeypatch):
    """All records are in one shard, and those that were written are not encoded again."""
    argv = [*long_job, "--size", "480", "--num-shards", "1"]
    whole = make(tmp_path / "whole", *argv).manifest
    appended = []
    left = []
    append, encode = ShardDraft.append, shard_writer.encode_in_order

    def append_one(draft, chunk, digest):
        if appended:
            raise RunError("stopped")
        append(draft, chunk, digest)
        appended.append(chunk)

    def encode_from(chunks, **options):
        chunks = [*chunks]
        left.append(sum(len(chunk.rows) for chunk in chunks))
        return encode(chunks, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ShardDraft, "append", append_one)
        assert images("--output", tmp_path / "out", *argv) == 1
    monkeypatch.setattr(shard_writer, "encode_in_order", encode_from)
    assert make(tmp_path / "out", *argv).manifest == whole
    assert left == [2 * 4 * _TIMES - len(appended[0].kept)]


# --- What goes wrong on the way ----------------------------------------------------------------


@pytest.fixture
def photos(tmp_path) -> pathlib.Path:
    return make_folder(tmp_path / "in", {"ant": 8, "bee": 4})


@pytest.fixture
def argv(photos, tmp_path) -> list[object]:
    return [
        *("--input", photos, "--output", tmp_path / "out"),
        *("--splits", "train=1", "--num-shards", 6),
    ]


@pytest.fixture
def complaint(capfd, caplog) -> Callable[[list[object]], str]:
    """Runs what must fail, and returns the one sentence that it says."""

    def run(argv: list[object]) -> str:
        assert images(*argv) == 1
        said = capfd.readouterr().err
        assert said.startswith("recordmill images: error: ")
        assert said.count("\n") == 1, said
        assert not caplog.records, "logged, which without pytest would be on the screen"
        return said

    return run


def test_an_encoder_process_that_dies(argv, tmp_path, complaint, monkeypatch):
    """The task of the fourth shard kills the process that takes it."""
    tasks = itertools.count(1)

    def deadly_task(*args, **options):
        task = row_task(*args, **options)
        if next(tasks) != 4:
            return task
        kill = functools.partial(signal.raise_signal, signal.SIGKILL)
        return dataclasses.replace(task, call=lambda faults: kill)

    with monkeypatch.context() as patch:
        patch.setattr(ordered_encoding, "row_task", deadly_task)
        said = complaint(argv)
    assert "an encoder process died in the middle of its work (signal 9, Killed)" in said
    assert "run the same command again to continue" in said
    assert "while running" not in said
    done = finished(tmp_path / "out")
    # Its bundle ends with what was in hand beside it; where there is another bundle, that goes on.
    assert 3 <= len(done) <= 5
    assert images(*argv) == 0
    for name, inode in done.items():
        assert (tmp_path / "out" / name).stat().st_ino == inode


def rewrite(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def touch(path: pathlib.Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


@pytest.mark.parametrize(
    ("change", "probe", "message"),
    [
        (rewrite, "none", "changed while the job ran (was"),
        (touch, "header", "modified after it was listed, same size"),
        (pathlib.Path.unlink, "none", "vanished while the job ran"),
    ],
)
def test_a_file_that_changes(
    change, probe, message, argv, photos, tmp_path, complaint, monkeypatch
):
    path = photos / "bee" / "002.jpg"
    road = Job._road

    def change_before(job, *args):
        change(path)
        return road(job, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Job, "_road", change_before)
        said = complaint([*argv, "--probe", probe])
    assert str(path) in said
    assert message in said
    assert images(*argv, "--probe", probe) == 0
    assert Made(tmp_path / "out").keys("train") == {
        os.fspath(file.relative_to(photos)) for file in photos.rglob("*.jpg")
    }


class FullDisk(LocalFiles):
    """No byte can be written below a folder of that name."""

    def __init__(self, folder: str) -> None:
        self._part = f"/{folder}/"

    def _holds(self, path):  # which may begin with the descriptor of a folder
        return self._part in f"{os.path.realpath(os.path.dirname(path))}/"

    def open_output(self, path):
        return FullFile(path, "wb") if self._holds(path) else super().open_output(path)

    def write_bytes(self, path, data, *, scratch):
        if self._holds(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write_bytes(path, data, scratch=scratch)


class FullFile(io.FileIO):
    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk(argv, tmp_path, complaint, monkeypatch):
    """At one step after the other; each run goes on where the one before had to stop."""
    argv += ["--probe", "header"]
    for folder in ("listing", "checked", "drafts", "side"):
        with monkeypatch.context() as patch:
            patch.setattr(files, "_LOCAL", FullDisk(folder))
            said = complaint(argv)
        assert f"/{folder}/" in said
        assert "no space left on device; free some space, then run the same command again" in said
        assert not (tmp_path / "out/dataset.json").exists()
    assert images(*argv) == 0


def test_a_job_of_a_table_goes_on_without_the_bytes_it_had_read(
    photos, tmp_path, complaint, monkeypatch
):
    """As after a power cut: bytes of a table are not synced."""
    contents = files_in(photos)
    pq.write_table(bytes_table(contents), tmp_path / "photos.parquet", row_group_size=5)
    argv = ["--input", tmp_path / "photos.parquet", "--key-column", "key", "--num-shards", 6]
    argv += ["--splits", "train=1", "--output"]
    assert images(*argv, tmp_path / "undisturbed") == 0
    shards = [*(tmp_path / "undisturbed").glob("*.tfrecord*")]
    assert len(shards) == 6
    for kept in (None, 0, 100):  # bytes that are left of each file
        out = tmp_path / f"out-{kept}"
        with monkeypatch.context() as patch:
            patch.setattr(files, "_LOCAL", FullDisk("drafts"))
            complaint([*argv, out])
        staged = [*(out / FOLDER).rglob("*.data")]
        assert staged
        for path in staged:
            if kept is None:
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:kept])
        assert images(*argv, out) == 0
        for path in shards:
            assert path.read_bytes() == (out / path.name).read_bytes()


def test_a_second_run_on_the_same_output(argv, tmp_path, complaint):
    with lock.hold_lock(Location.parse(str(tmp_path / "out" / FOLDER))):
        assert f"process {os.getpid()} on " in complaint(argv)


def test_a_run_that_finds_everything_done(argv, tmp_path, capfd):
    assert images(*argv) == 0
    before = state(tmp_path / "out")
    assert main(["images", *map(str, argv)]) == 0
    assert "nothing has changed" in capfd.readouterr().out
    assert state(tmp_path / "out") == before


def test_a_run_that_finishes_the_publishing_of_another_says_so(argv, tmp_path, complaint, capfd):
    def stop(*_: object, **__: object) -> None:
        raise RunError("stopped in the middle of publishing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "bring", stop)
        assert "stopped in the middle of publishing" in complaint(argv)
    assert not (tmp_path / "out/dataset.json").exists()
    capfd.readouterr()
    assert main(["images", *map(str, argv)]) == 0
    said = capfd.readouterr().out
    assert f"records written to {tmp_path / 'out'}" in said
    assert "Publishing of an interrupted run was completed" in said
    assert "nothing has changed" not in said
    assert main(["verify", "--dataset", str(tmp_path / "out"), "--quiet"]) == 0


def state(folder: pathlib.Path) -> dict[pathlib.Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*")}
