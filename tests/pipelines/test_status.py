"""`recordmill status` without a cluster, or with one that only answers; tests/flink has others."""

import json

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import load
from recordmill.job import lock
from recordmill.job.staging import FOLDER, INTENT, Staging, Verdict, to_json
from recordmill.pipelines import cli
from recordmill.pipelines.commands.flink_commands import cancel_main, status_main
from recordmill.runners.flink.rest import Cluster
from recordmill.storage.files import Location
from tests.make_dataset import make_dataset


def test_an_output_that_is_left_to_no_job(tmp_path, capsys):
    make_dataset(tmp_path / "out")
    output = str(tmp_path / "out")
    assert status_main(["--output", output]) == 0
    said = capsys.readouterr().out
    found = load(Location.parse(output))
    records = sum(split.records for split in found.splits.values())
    assert said.splitlines() == [
        f"dataset: {output}", "state: finished", f"records: {records:,}",
        f"digest: {found.digest}",
    ]  # fmt: skip
    assert status_main(["--output", output, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        **{"dataset": output, "state": "finished"},
        **{"records": records, "digest": found.digest},
    }
    with pytest.raises(RunError, match="no Flink job writes to it; there is nothing to cancel"):
        cancel_main(["--output", output])


def test_an_output_whose_job_was_refused(tmp_path, capsys):
    staging = Staging.of(Location.parse(str(tmp_path / "out")), "a")
    staging.root.make_dirs()
    staging.write_verdict(Verdict("5 of 5 inputs were rejected"))
    assert status_main(["--output", str(tmp_path / "out"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"refused": "5 of 5 inputs were rejected"}


@pytest.mark.parametrize("state", ["FINISHED", "RUNNING"])
@pytest.mark.parametrize("published", [True, False])
def test_a_job_whose_command_was_killed(tmp_path, capsys, monkeypatch, state, published):
    """The job publishes, and leaves its staging folder to the command."""
    make_dataset(tmp_path / "out")
    output, job = Location.parse(str(tmp_path / "out")), "a" * 32
    staging = Staging.of(output, "b")
    staging.root.make_dirs()
    plan = {"splits": {}, "labels": None, "rejected": 0, "notes": []}
    staging.place("plan.json").write_bytes(to_json(plan))
    if published:
        staging.place(INTENT).write_bytes(to_json([]))
    cluster = Cluster("http://jobmanager:8081")
    lock.record_cluster_job(output / FOLDER, lock.ClusterJob(cluster=cluster.url, job=job, run="b"))
    answers = {
        "": {
            **{"jid": job, "name": "n", "state": state, "duration": 1},
            **{"status-counts": {}, "vertices": []},
        },
        "/status": {"status": state},
        "/exceptions": {},
    }
    monkeypatch.setattr(
        Cluster, "_call", lambda _, method, path: answers[path.removeprefix(f"/v1/jobs/{job}")]
    )
    argv = ["--flink-master", "jobmanager:8081", "--output", str(output), "--json"]
    assert status_main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    ended = published and state == "FINISHED"
    assert found["state"] == ("finished" if ended else state)
    assert found.get("digest") == (load(output).digest if ended else None)
    assert ("progress" in found) is not published


def test_an_output_of_which_nothing_is_known(tmp_path):
    with pytest.raises(RunError, match="no Flink job writes to it, and it holds no dataset"):
        status_main(["--output", str(tmp_path / "out")])
    with pytest.raises(
        ConfigError, match="expected --flink-master and --job together, or --output"
    ):
        status_main([])


@pytest.mark.parametrize("command", ["status", "cancel"])
def test_a_job_that_none_is_called(command, capsys):
    assert cli.main([command, "--flink-master", "localhost:9", "--job", "nightly"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("error: --job: expected 32 hexadecimal digits, got 'nightly'\n")
