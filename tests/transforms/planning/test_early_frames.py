"""Records that are encoded before the pipeline runs: their frames are used, and bytes stay."""

from concurrent.futures import Future, wait

import pytest

from recordmill.errors import RunError
from recordmill.pipelines.jobs import early_work
from recordmill.processes.pool import shared_pool
from recordmill.processes.row_tasks import NO_FAULTS, WorkerDiedError
from recordmill.transforms.planning import early_frames, estimates
from recordmill.transforms.reuse.frame_places import STORED
from recordmill.transforms.writing.shards import shard_writer
from tests.folders import make_folder
from tests.image_runs import encoders_kept
from tests.reuse_changes import files_of, run


@pytest.fixture
def taken(monkeypatch):
    """Numbers of frames that shards take over; every early task ends before the sample."""
    encode, counts = shard_writer.encode_in_order, []

    def counting(chunks, **more):
        chunks = list(chunks)
        places = [one.inputs[STORED] for one in chunks if STORED in one.inputs.schema.names]
        counts.append(sum(len(some) - some.null_count for some in places))
        return encode(chunks, **more)

    def wait_for(run):
        wait(early_frames._early.values())

    monkeypatch.setattr(shard_writer, "encode_in_order", counting)
    monkeypatch.setattr(estimates, "stop_early_frames", wait_for)
    monkeypatch.setattr(early_frames, "running_pool", shared_pool)
    monkeypatch.setattr(early_frames, "process_count", lambda workers: 2)
    monkeypatch.setattr(early_frames, "_ROWS", range(1, 1000))
    return counts


@pytest.fixture
def argv(tmp_path):
    folder = make_folder(tmp_path / "in", {"ant": 24, "bee": 24})
    for number in range(3):
        (folder / "ant" / f"broken-{number}.png").write_bytes(b"no image")
    return ["--input", folder, "--workers", "2", "--max-reject-fraction", "1"]


def test_shards_take_the_early_frames(tmp_path, monkeypatch, taken, argv):
    class Pool:
        """Runs tasks in this process, whose Pillow may use the zlib of TensorFlow.

        Frames that processes encode with another zlib are not taken.
        """

        def submit_rows(self, task):
            future = Future()
            future.set_result(task.call(NO_FAULTS)())
            return future

    monkeypatch.setattr(early_frames, "running_pool", Pool)
    argv += ["--splits", "train=1"]
    with encoders_kept():
        assert run(tmp_path / "out", *argv) == 0
        found, taken[:] = sum(taken), []
        monkeypatch.setattr(early_frames, "running_pool", lambda: None)
        assert run(tmp_path / "other", *argv) == 0
    assert (found, sum(taken)) == (48, estimates.sample_size(51) - 1), "one of them is broken"
    assert files_of(tmp_path / "out") == files_of(tmp_path / "other")


@pytest.mark.parametrize(
    "options",
    [
        ["--stratify"],
        ["--limit", "30"],
        ["--balance", "undersample"],
        ["--label-offset", "1", "--exclude-labels", "bee"],
    ],
)
def test_frames_of_wrong_guesses_are_not_taken(tmp_path, monkeypatch, taken, argv, options):
    monkeypatch.setattr(early_work, "_ranks_follow", lambda *_: True)
    with encoders_kept():
        assert run(tmp_path / "out", *argv, *options) == 0
        monkeypatch.setattr(early_frames, "running_pool", lambda: None)
        assert run(tmp_path / "other", *argv, *options) == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "other")


@pytest.mark.parametrize(("error", "code"), [(WorkerDiedError("crashed"), 0), (RunError("no"), 1)])
def test_only_a_crash_is_left_to_the_shards(tmp_path, monkeypatch, taken, argv, error, code):
    class Pool:
        def submit_rows(self, task):
            future = Future()
            future.set_exception(error)
            return future

    monkeypatch.setattr(early_frames, "running_pool", Pool)
    with encoders_kept():
        assert run(tmp_path / "out", *argv) == code
