"""A cluster that cannot do the job says which machine lacks what, within seconds."""

import shutil

import pytest

from tests.cluster.machines import OTHER_SECRET, SUBMITTER, TASK_MANAGERS, Ended, Pool
from tests.paths import DEMO
from tests.s3_server import BUCKET

_SECONDS = 30  # from the start of the command to its message
_OPTIONS = ("--size", "32")
_HERE, _THERE = TASK_MANAGERS


def _expect(ended: Ended, *words: str, code: int = 2) -> None:
    assert ended.code == code, ended.err
    for one in words:
        assert one in ended.last
    assert ended.seconds < _SECONDS


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (None, ["no worker pool", "localhost:50000", "start it there with recordmill worker-pool"]),
        (Pool(secret=OTHER_SECRET), ["serves only jobs with its secret", "--worker-secret-file"]),
        (Pool(version="9.9"), ["has recordmill 9.9, the submitter", "install the same versions"]),
        (Pool(credentials=False), ["no credentials for s3://bucket/", "AWS_ACCESS_KEY_ID"]),
    ],
    ids=["no pool", "other secret", "other version", "no credentials"],
)
def test_the_pool_of_one_machine_is_unfit(machines, pool, words):
    machines.use_pool(_HERE)
    machines.use_pool(_THERE, pool)
    machines.wait_for_taskmanagers()
    source = machines.fill("photos", DEMO)
    code = 2 if pool else 1  # a pool that is off may come back, and the job then goes on
    output = machines.uri(f"out-{code}")
    ended = machines.submit("images", *_OPTIONS, source=source, output=output).end()
    _expect(ended, _THERE, *words, code=code)
    assert bool(machines.store.names(f"{BUCKET}/out-{code}/")) == (code == 1)


@pytest.mark.parametrize("what", ["--input", "--output"])
def test_a_folder_is_not_shared(sound, what):
    folder = sound.hosts[SUBMITTER].tmp / "not-shared"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    places = {"source": sound.fill("photos", DEMO), "output": sound.uri("out")}
    if what == "--input":
        shutil.copytree(DEMO, folder / "in")
        places["source"] = "/tmp/not-shared/in"
    else:
        places["output"] = "/tmp/not-shared/out"
    ended = sound.submit("images", *_OPTIONS, **places).end()
    _expect(ended, "taskmanager-", f"{what}: not shared", "mount the folder", "object store")
    assert sound.store.names(f"{BUCKET}/out/") == []
    assert not (folder / "out").exists()
