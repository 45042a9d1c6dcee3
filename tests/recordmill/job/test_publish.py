"""Publishing, cut off at every step it has: a folder holds one whole dataset, or none.

Three jobs of one output are written once, up to publishing. Each case then lays out a folder, runs
a job whose n-th operation on storage fails, for every n there is, and looks at what is left; then
a command runs to its end and has to leave its own dataset, to the byte. What is published over
another dataset in less common ways is cut off at every third n; `tests/soak/publishing.py` takes
every one.
"""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recordmill.checking.verify import verify
from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import MANIFEST
from recordmill.job import publishing
from recordmill.job.staging import FOLDER, STAGED, Staging, to_json
from recordmill.storage.files import Location
from recordmill.storage.local_files import LocalFiles
from recordmill.storage.stores import ArrowFiles
from tests.s3_store import S3Store
from tests.tiny import TinySource, tiny_rows
from tests.tiny_jobs import run, tiny_job, tree

SOURCE = TinySource(rows=tiny_rows(30))
EVERY = 3
SPLITS = {"train": 0.7, "blind": 0.3}  # a name that comes before dataset.json, and one after it
# The shards of two have the same names and other content; those of the third have other names.
OPTIONS = {
    "old": {"seed": 1, "num_shards": {"train": 2, "blind": 1}},
    "new": {"seed": 2, "num_shards": {"train": 2, "blind": 2}},
    "other": {"seed": 3, "num_shards": 1, "compression": "gzip"},
}


class Crash(Exception):
    """The process ends here."""


def job_of(name, output, **options):
    return tiny_job(output, SOURCE, splits=SPLITS, **OPTIONS[name], **options)


class Jobs:
    """Jobs that are complete in staging, and the datasets they become."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.staged: dict[str, pathlib.Path] = {}
        self.trees: dict[str, dict[str, bytes]] = {}
        for name in OPTIONS:
            output = folder / name
            job = job_of(name, output)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(publishing, "publish", _stop)
                with pytest.raises(RunError, match="stopped before publishing"):
                    run(job)
            self.staged[name] = folder / f"{name}-staged"
            shutil.copytree(job.staging.root.local_path, self.staged[name])
            publishing.publish(job.staging)
            job.staging.sweep()
            (output / FOLDER).rmdir()
            assert verify(Location.parse(str(output))).ok
            self.trees[name] = tree(output)

    def lay_out(self, output: pathlib.Path, name: str) -> None:
        """Puts a published dataset into a folder."""
        shutil.copytree(self.folder / name, output, copy_function=os.link)

    def run(self, name: str, output: pathlib.Path, **options: bool) -> str:
        """Runs a job; its pipeline writes what staging lacks, and publishes."""
        job = job_of(name, output, **options)

        def pipeline(_: object) -> None:
            for part in ("shards", "index", "info"):
                target = os.path.join(job.staging.root.local_path, part)
                shutil.copytree(
                    self.staged[name] / part, target, copy_function=_link_new, dirs_exist_ok=True
                )
            manifest = publishing.Manifest.from_bytes(
                (self.staged[name] / "side" / MANIFEST).read_bytes()
            )
            side = self.staged[name] / "side"
            files = {n: (side / n).read_bytes() for n in os.listdir(side) if n != MANIFEST}
            publishing.stage_files(job.staging, manifest, files)
            publishing.publish(job.staging)

        return job.run(pipeline, on_listed=lambda rows: None).status


def _stop(staging: Staging) -> None:
    raise RunError("stopped before publishing")


def _link_new(source: str, target: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.link(source, target)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    return Jobs(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch):
    """These crashes are of a process, not of a machine."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@contextlib.contextmanager
def crash_at(step: int, store: type = LocalFiles) -> Iterator[list[str]]:
    """Fails at the step-th operation that changes storage; yields those that were begun."""
    begun: list[str] = []
    operations = ["rename", "delete", "write_bytes", "open_output", "delete_tree", "make_dirs"]
    operations += [] if store is LocalFiles else ["move_or_copy"]
    with pytest.MonkeyPatch.context() as patch:
        for name in operations:
            patch.setattr(store, name, _counted(store, name, step, begun))
        yield begun


def _counted(store: type, name: str, step: int, begun: list[str]) -> Callable:
    original = getattr(store, name)

    def operation(self: Any, path: str, *args: object, **options: object) -> object:
        folder, file = os.path.split(path)
        if folder.startswith("/proc/"):  # of an open folder
            *proc, number = folder.split("/")[:5]
            opened = os.readlink("/".join([*proc, number]))
            folder = os.path.join(opened, *folder.split("/")[5:])
        begun.append(f"{name} {os.path.join(folder, file)}")
        if len(begun) == step:
            if (
                name == "delete_tree" and store is LocalFiles
            ):  # it is no single step: some of it is gone
                for part in ("listing", "shards"):
                    shutil.rmtree(os.path.join(path, part), ignore_errors=True)
            raise Crash
        return original(self, path, *args, **options)

    return operation


def crashes(jobs: Jobs, name: str, output: pathlib.Path, **options: bool) -> Callable[[int], bool]:
    """A function that runs a job up to its n-th operation; false where it has fewer."""

    def crash(step: int) -> bool:
        with crash_at(step):
            try:
                jobs.run(name, output, **options)
            except Crash:
                return True
        return False

    return crash


def steps(lay_out: Callable[[pathlib.Path], None], jobs, name, tmp_path, *, every=1, **options):
    """Yields a folder per operation of a job, or for each `every`-th, cut off there."""
    for step in range(1, 1000, every):
        output = tmp_path / f"{step}"
        lay_out(output)
        if not crashes(jobs, name, output, **options)(step):
            return
        yield output


def ending(jobs: Jobs, name: str, output: pathlib.Path) -> str:
    """How a job ends, or why it refuses to start."""
    try:
        return jobs.run(name, output)
    except ConfigError as error:
        return str(error)


def is_whole(output, *whole):
    """No dataset, or one of these, to the byte and with nothing beside it."""
    found = tree(output)
    return MANIFEST not in found or found in whole


def assert_clean(output, expected):
    assert tree(output) == expected
    assert not (output / FOLDER).exists()


def test_a_new_dataset(jobs, tmp_path):
    states = set()
    for output in steps(lambda output: None, jobs, "new", tmp_path):
        assert is_whole(output, jobs.trees["new"])
        states.add(tuple(tree(output)))
        assert jobs.run("new", output) in ("published", "unchanged")
        assert_clean(output, jobs.trees["new"])
    assert len(states) == len(jobs.trees["new"]) + 1  # cut off between each two files


@pytest.mark.long
def test_over_a_dataset_of_other_options(jobs, tmp_path):
    changed = 0
    for output in steps(
        lambda output: jobs.lay_out(output, "old"), jobs, "new", tmp_path, overwrite=True
    ):
        assert is_whole(output, jobs.trees["old"], jobs.trees["new"])
        if tree(output) == jobs.trees["old"]:
            # Nothing has happened yet but for staging: --overwrite has to be said again.
            assert jobs.run("new", output, overwrite=True) in ("published", "unchanged")
        else:
            changed += 1
            assert jobs.run("new", output) == "unchanged"
        assert_clean(output, jobs.trees["new"])
    assert changed > len(jobs.trees["new"])


@pytest.mark.long
def test_over_a_damaged_dataset_of_the_same_options(jobs, tmp_path):
    lost = "train.tfrecord-00001-of-00002"

    def lay_out(output):
        jobs.lay_out(output, "new")
        (output / lost).unlink()

    damaged = {name: data for name, data in jobs.trees["new"].items() if name != lost}
    for output in steps(lay_out, jobs, "new", tmp_path, every=EVERY, overwrite=True):
        assert is_whole(output, damaged, jobs.trees["new"])
        assert jobs.run("new", output, overwrite=True) in ("published", "unchanged")
        assert_clean(output, jobs.trees["new"])


@pytest.mark.long
@pytest.mark.parametrize("first", ["begun", "half moved"])
def test_over_a_publishing_that_was_cut_off(jobs, tmp_path, first):
    """`new` over `old` was cut off, then `other` over both; either command may come after it."""
    begun = tmp_path / "begun"
    jobs.lay_out(begun, "old")
    with crash_at(1000) as done:
        jobs.run("new", begun, overwrite=True)
    moves = [i for i, step in enumerate(done, 1) if step.startswith("rename ")]
    stop = {
        "begun": done.index(f"delete {begun / MANIFEST}") + 1,  # the intent is there, no more
        "half moved": moves[len(moves) // 2],
    }[first]
    cut_off = tmp_path / "cut off"
    shutil.rmtree(begun)
    jobs.lay_out(begun, "old")
    assert crashes(jobs, "new", begun, overwrite=True)(stop)
    begun.rename(cut_off)
    assert publishing.interrupted(Location.parse(str(cut_off))) is not None
    assert is_whole(cut_off, jobs.trees["old"])
    endings = set()

    def lay_out(output):
        shutil.copytree(cut_off, output, copy_function=os.link)

    cut = steps(lay_out, jobs, "other", tmp_path, every=EVERY, overwrite=True)
    for number, output in enumerate(cut):
        assert is_whole(output, jobs.trees["old"], jobs.trees["other"])
        if number % 2:
            assert jobs.run("other", output, overwrite=True) in ("published", "unchanged")
            assert_clean(output, jobs.trees["other"])
            continue
        end = ending(jobs, "new", output)
        if "made with other options" in end:  # `other` had begun to touch the folder
            endings.add("other")
            assert tree(output) == jobs.trees["other"]
        else:
            endings.add(end)
            assert_clean(output, jobs.trees["new"])
    assert endings == {"unchanged", "other"}


def test_over_a_sweep_that_was_cut_off(jobs, tmp_path):
    """A half removed job folder must not be published: `new` began, `old` put an end to it."""

    def lay_out(output):
        jobs.lay_out(output, "old")
        with crash_at(1000) as done:
            jobs.run("new", output, overwrite=True)
        shutil.rmtree(output)
        jobs.lay_out(output, "old")
        assert crashes(jobs, "new", output, overwrite=True)(
            done.index(f"delete {output / MANIFEST}") + 1
        )

    swept = 0
    for output in steps(lay_out, jobs, "old", tmp_path, every=EVERY, overwrite=True):
        assert tree(output) == jobs.trees["old"]
        if ending(jobs, "new", output) != "unchanged":  # there is no more to go on with
            swept += 1
            assert tree(output) == jobs.trees["old"]
            assert jobs.run("new", output, overwrite=True) == "published"
        assert_clean(output, jobs.trees["new"])
    assert swept


def test_an_intent_of_other_rows_is_not_forgotten(jobs, tmp_path):
    """An engine that publishes again, with fewer shards, removes what its first attempt moved."""
    output = tmp_path / "out"
    assert not output.exists()
    with crash_at(1000) as done:
        jobs.run("old", output)
    shutil.rmtree(output)
    stop = max(i for i, step in enumerate(done, 1) if step.startswith("rename "))
    assert crashes(jobs, "old", output)(stop)
    (staging,) = (output / FOLDER).iterdir()
    for part in ("shards", "index", "side"):
        shutil.rmtree(staging / part, ignore_errors=True)
        shutil.copytree(jobs.staged["other"] / part, staging / part)
    manifest = publishing.Manifest.from_bytes((staging / "side" / MANIFEST).read_bytes())
    (staging / "side" / MANIFEST).write_bytes((jobs.staged["old"] / "side" / MANIFEST).read_bytes())
    again = Staging(Location.parse(str(staging)))
    publishing.stage_files(again, manifest, {})
    publishing.publish(again)
    assert tree(output) == jobs.trees["other"]


def laid_out_in(store: S3Store, jobs: Jobs, folder: str) -> Staging:
    """A dataset in a store, and a job that would publish another over it."""
    for name, content in jobs.trees["old"].items():
        store.put(f"bucket/{folder}/{name}", content)
    job, staged = f"bucket/{folder}/{FOLDER}/job", {}
    for part in ("shards", "index", "info", "side"):
        for path in (jobs.staged["new"] / part).iterdir():
            name = f"{part}/{path.name}"
            if part in ("shards", "index"):
                # Each attempt has names of its own; that of a killed one ended early.
                store.put(f"{job}/{name}.0a", path.read_bytes()[:10])
                staged[path.name if part == "shards" else name] = name = f"{name}.1b"
            store.put(f"{job}/{name}", path.read_bytes())
    store.put(f"{job}/{STAGED}", to_json(staged))
    return Staging.of(Location.parse(store.uri(folder)), "job")


def tree_in(store: S3Store, folder: str) -> dict[str, bytes]:
    prefix = f"bucket/{folder}/"
    names = (name.removeprefix(prefix) for name in store.names(prefix))
    return {name: store.get(prefix + name).content for name in names if not name.startswith(FOLDER)}


def test_in_a_store_over_another_dataset(jobs, store):
    changed = 0
    for step in range(1, 1000, EVERY):
        folder = f"{step}"
        staging = laid_out_in(store, jobs, folder)
        crashed = False
        with crash_at(step, ArrowFiles):
            try:
                publishing.publish(staging)
            except Crash:
                crashed = True
        found = tree_in(store, folder)
        assert MANIFEST not in found or found in (jobs.trees["old"], jobs.trees["new"])
        changed += found != jobs.trees["old"]
        if (begun := publishing.interrupted(staging.output)) is not None:
            publishing.finish(begun)
        else:
            publishing.publish(staging)
        staging.sweep()
        assert tree_in(store, folder) == jobs.trees["new"]
        assert store.names(f"bucket/{folder}/{FOLDER}/job/") == []
        if not crashed:
            break
    assert changed > 2


def test_a_store_copies_each_file_once_and_is_not_asked_for_it(jobs, store):
    staging = laid_out_in(store, jobs, "out")
    publishing.publish(staging)
    files = [name for name in jobs.trees["new"] if name != MANIFEST]
    done = [(one.operation, one.key.removeprefix("out/")) for one in store.requests]
    assert sorted(key for operation, key in done if operation == "PUT" and key in files) == files
    asked = {key for operation, key in done if operation in ("HEAD", "GET")}
    staged = [f"{FOLDER}/job/{part}" for part in ("shards/", "index/", "side/")]
    assert [key for key in asked if key.startswith(tuple(staged))] == [f"{staged[2]}{MANIFEST}"]


def test_a_lost_file_is_noticed_before_anything_is_touched(jobs, tmp_path):
    output = tmp_path / "out"
    jobs.lay_out(output, "old")
    staging = output / FOLDER / "job"
    shutil.copytree(jobs.staged["new"], staging)
    lost = staging / "shards" / "blind.tfrecord-00001-of-00002"
    lost.unlink()
    with pytest.raises(RunError, match=f"{lost} vanished before it was published: run the"):
        publishing.publish(Staging(Location.parse(str(staging))))
    assert tree(output) == jobs.trees["old"]
    assert publishing.interrupted(Location.parse(str(output))) is None


def test_files_of_the_user_stay(jobs, tmp_path):
    output = tmp_path / "out"
    jobs.lay_out(output, "old")
    (output / "README").write_text("mine")
    (output / "index" / "notes.txt").write_text("mine too")
    assert jobs.run("new", output, overwrite=True) == "published"
    mine = {"README": b"mine", "index/notes.txt": b"mine too"}
    assert tree(output) == jobs.trees["new"] | mine
