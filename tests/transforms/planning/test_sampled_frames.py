"""Records of the sample, by which a dataset is planned, are encoded once."""

import pytest

from recordmill.transforms.planning import estimates
from recordmill.transforms.reuse.frame_places import STORED
from recordmill.transforms.writing.shards import shard_writer
from tests.folders import make_folder
from tests.image_runs import encoders_kept
from tests.reuse_changes import files_of, reused, run


@pytest.mark.parametrize("options", [[], ["--balance", "oversample", "--augment", "flip"]])
def test_the_shards_take_the_frames_of_the_sample(tmp_path, monkeypatch, options):
    encode, taken = shard_writer.encode_in_order, []

    def counting(chunks, **more):
        chunks = list(chunks)
        inputs = [chunk.inputs for chunk in chunks]
        places = [rows[STORED] for rows in inputs if STORED in rows.schema.names]
        taken.append(sum(len(some) - some.null_count for some in places))
        return encode(chunks, **more)

    folder = make_folder(tmp_path / "in", {"ant": 9, "bee": 3})
    for number in range(6):
        (folder / "ant" / f"broken-{number}.png").write_bytes(b"no image")
    argv = ["--input", folder, *options]
    argv += ["--splits", "train=1", "--num-shards", "2", "--max-reject-fraction", "1"]
    monkeypatch.setattr(shard_writer, "encode_in_order", counting)
    with encoders_kept():
        assert run(tmp_path / "out", *argv) == 0
        found = sorted(taken)
        monkeypatch.setattr(estimates, "keeps_frames", lambda run: False)
        assert run(tmp_path / "other", *argv) == 0
    assert found[0] == 0 < found[1], "the first shard begins with the records of smallest rank"
    assert taken[2:] == [0, 0]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "other")
    assert reused(tmp_path / "out") is None


def test_few_tasks_encode_the_sample_if_bytes_do_not_depend_on_them(tmp_path, monkeypatch):
    submit, tasks = estimates._submit, []

    def counting(*args, **more):
        tasks.append(tmp_path)
        return submit(*args, **more)

    monkeypatch.setattr(estimates, "_submit", counting)
    folder = make_folder(tmp_path / "in", {"ant": 16})
    argv = ["--input", folder, "--splits", "train=1", "--workers", "2"]
    counts = []
    with encoders_kept():
        for output, options in (("out", []), ("gzip", ["--compression", "gzip"]), ("other", [])):
            if output == "other":
                monkeypatch.setattr(estimates, "can_have_recipes", lambda *_: False)
            assert run(tmp_path / output, *argv, *options) == 0
            counts.append(len(tasks))
            tasks.clear()
    assert counts == [2, 8, 8]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "other")
