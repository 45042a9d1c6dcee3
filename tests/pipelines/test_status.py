"""`recordmill status` where there is no cluster to be asked; tests/flink has the others."""

import json

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import load
from recordmill.job.staging import Staging, Verdict
from recordmill.pipelines import cli
from recordmill.pipelines.commands.flink_commands import cancel_main, status_main
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
