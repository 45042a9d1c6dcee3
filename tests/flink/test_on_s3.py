"""From an object store to an object store on Flink, of whose requests 2 % fail."""

import json

import pytest

from recordmill.storage.files import Location
from tests.flink.jobs import Job
from tests.paths import DEMO
from tests.recordmill.storage.test_s3 import files, fill
from tests.s3_server import CREDENTIALS, s3_server


def test_the_same_dataset_as_in_a_folder(flink, undisturbed, monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server(fail=0.02) as uri:
        job = Job(uri("out"), source=fill(uri, photos=[*DEMO.rglob("*.jpg")])).on(flink, "loopback")
        job.finish_here()
        made = files(Location.parse(uri("out")))
        assert made == files(Location.parse(str(undisturbed.output)))


@pytest.mark.long
def test_records_of_an_earlier_dataset(flink, undisturbed, monkeypatch):
    """The earlier dataset was made on this machine; the run on the cluster encodes nothing."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server(fail=0.02) as uri:
        source = fill(uri, photos=[*DEMO.rglob("*.jpg")])
        Job(uri("earlier"), "--splits", "train=1", "--num-shards", "3", source=source).finish_here()
        job = Job(uri("out"), "--reuse", uri("earlier"), source=source).on(flink, "loopback")
        job.finish_here()
        out = Location.parse(uri("out"))
        assert files(out) == files(Location.parse(str(undisturbed.output)))
        counts = json.loads((out / "dataset.json").read_bytes())["ledger"]
        written = counts["records"]["written"] + counts["copies"]["written"]
        assert json.loads((out / "job.json").read_bytes())["reused"] == written
