"""From an object store to an object store on Flink, of whose requests 2 % fail."""

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
        job.finish()
        made = files(Location.parse(uri("out")))
        assert made == files(Location.parse(str(undisturbed.output)))
