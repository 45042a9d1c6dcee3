"""--verify of a run: contents of a finished dataset are checked, and damaged shards replaced."""

import pathlib

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.pipelines.cli import main
from recordmill.pipelines.jobs.job_outcome import JobOutcome
from recordmill.storage.files import Location
from tests.image_runs import make
from tests.paths import CLOTHING
from tests.tiny import TinySource
from tests.tiny_jobs import run, tiny_job, tree

ROWS = TinySource(rows=tuple((f"{n:03d}", "ab"[n % 2], b"x" * n) for n in range(1, 60)))
SHARD = "train.tfrecord-00001-of-00002"
INDEX = "index/train-00000-of-00002.parquet"


@pytest.fixture
def out(tmp_path) -> pathlib.Path:
    again(tmp_path / "out")
    return tmp_path / "out"


def again(out: pathlib.Path, **options: bool) -> JobOutcome:
    return run(tiny_job(out, ROWS, num_shards=2, **options))


def flip(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def written(out: pathlib.Path) -> dict[str, int]:
    return {name: (out / name).stat().st_ino for name in tree(out)}


def test_a_dataset_without_damage_is_left_alone(out):
    before = written(out)
    assert again(out, verify=True).status == "unchanged"
    assert written(out) == before


def test_damaged_shards_alone_are_written_again(out):
    expected, before = tree(out), written(out)
    flip(out / SHARD)
    (out / INDEX).write_bytes(b"")
    outcome = again(out, verify=True)
    assert (outcome.status, outcome.repaired) == (
        "repaired",
        ("train.tfrecord-00000-of-00002", SHARD),
    )
    assert tree(out) == expected
    changed = {name for name, inode in written(out).items() if before.get(name) != inode}
    assert changed == {
        *(f"train.tfrecord-0000{n}-of-00002" for n in (0, 1)),
        *(f"index/train-0000{n}-of-00002.parquet" for n in (0, 1)),
    }
    assert not (out / ".recordmill").exists()


@pytest.mark.parametrize("name", ["labels.txt", "rejects.jsonl", "schema.pbtxt"])
def test_other_damaged_files_are_written_again_with_all(out, name):
    expected = tree(out)
    (out / name).unlink()
    assert again(out, verify=True).status == "published"
    assert tree(out) == expected


def test_missing_files_without_verify(out):
    (out / SHARD).unlink()
    with pytest.raises(RunError, match=rf"{SHARD} is missing; .* --verify .* --overwrite"):
        again(out)
    (out / INDEX).write_bytes(b"")
    assert again(out, verify=True).status == "repaired"
    (out / INDEX).write_bytes(b"")
    with pytest.raises(RunError, match=f"damaged: {INDEX} has another size"):
        again(out)


def test_a_missing_job_file(out):
    (out / "job.json").unlink()
    with pytest.raises(RunError, match=r"damaged: job\.json is missing or has no fingerprint"):
        again(out, verify=True)
    assert again(out, overwrite=True).status == "published"


def test_a_repair_goes_on_after_a_kill(out, monkeypatch):
    expected = tree(out)
    flip(out / SHARD)
    flip(out / "test.tfrecord-00000-of-00002")
    moved = []
    real = Location.rename_to

    def killed(self: Location, target: Location) -> None:
        if target.parent.path == str(out):
            if moved:
                raise KeyboardInterrupt
            moved.append(target.name)
        real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Location, "rename_to", killed)
        with pytest.raises(KeyboardInterrupt):
            again(out, verify=True)
    outcome = again(out, verify=True)
    assert len(moved) == len(outcome.repaired) == 1
    assert moved[0] not in outcome.repaired
    assert tree(out) == expected


def test_what_a_run_says(tmp_path, capfd):
    given = ["--input", str(CLOTHING), "--size", "16"]
    given += ["--num-shards", "train=2,validation=1,test=1"]
    made = make(tmp_path / "out", *given)
    command = ["images", "--output", str(made.folder), *given]
    capfd.readouterr()
    assert main(command) == 0
    assert "sizes agree; run recordmill verify, or add --verify," in capfd.readouterr().out
    assert main([*command, "--verify"]) == 0
    assert "the contents of its files are those of its manifest" in capfd.readouterr().out
    flip(made.folder / SHARD)
    assert main([*command, "--verify"]) == 0
    assert f"damaged shards of {made.folder} were written again: {SHARD}" in capfd.readouterr().out
    assert main(["verify", "--dataset", str(made.folder), "--quiet"]) == 0


@pytest.mark.parametrize("option", ["dry_run", "detach"])
def test_options_that_do_not_go_with_it(tmp_path, option):
    options = {"dry_run": True} if option == "dry_run" else {"detach": True, "runner": "flink"}
    with pytest.raises(ConfigError, match=f"--verify: cannot be combined with --{option[:3]}"):
        tiny_job(tmp_path / "out", ROWS, verify=True, **options)
