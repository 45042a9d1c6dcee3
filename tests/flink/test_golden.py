"""Commands of the golden matrix give on Flink what was recorded on one machine."""

from collections.abc import Iterator

import pytest

from benchmarks.flink_cluster import JOB_SERVER
from tests.golden import matrix
from tests.s3_server import CREDENTIALS

NAMES = (
    "images/annotations/csv",
    "images/archives/parts",
    "images/balance/oversample",
    "images/listings/odd",
    "images/records/foreign",
    "images/stores/tar",
    "images/tables/hub",
    "text/duplicates/near-drop",
    "table/duplicates/conflicts-first",
    "table/splits/stratified-groups",
    "table/values/encodings",
    "sensor/windows/horizon",
    "video/segments/listing",
    "audio/segments/words",
    "arrays/chunks/chunks",
    "table/refused/drift",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Iterator[matrix.Runs]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        found = matrix.Runs(tmp_path_factory.mktemp("golden"))
        yield found
        found.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_command_gives_on_flink_what_was_recorded(name, flink, runs):
    where = ("--runner", "flink", "--flink-master", flink.master, "--environment", "loopback")
    outcome = runs.outcome(name, *where, "--flink-job-server-jar", str(JOB_SERVER))
    assert matrix.differences(name, outcome, *matrix.recorded()) == [], runs.messages[name]
