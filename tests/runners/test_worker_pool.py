"""Our worker pool, spoken to as a runner speaks to it."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from recordmill.errors import ConfigError
from recordmill.runners.workers import boot, versions
from recordmill.runners.workers.pool import WorkerPool
from tests.paths import ROOT

_PATIENCE = 60  # s


@pytest.fixture
def pool(tmp_path) -> Iterator[WorkerPool]:
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log) as serving:
        yield serving


def call(pool: WorkerPool, name: str, request: object) -> object:
    with grpc.insecure_channel(pool.address) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        return getattr(stub, name)(request, timeout=_PATIENCE, wait_for_ready=True)


def start(pool: WorkerPool, name: str) -> object:
    # Nobody is there to tell it what to do: it waits, as one does whose runner is slow.
    nowhere = endpoints_pb2.ApiServiceDescriptor(url="127.0.0.1:9")
    return call(
        pool,
        "StartWorker",
        beam_fn_api_pb2.StartWorkerRequest(worker_id=name, provision_endpoint=nowhere),
    )


def test_it_starts_and_stops_workers(pool):
    assert start(pool, "1-1").error == ""
    (worker,) = pool._all()
    assert not select.select([worker], [], [], 0)[0]
    watch = os.dup(worker)
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))
    assert select.select([watch], [], [], _PATIENCE)[0]
    os.close(watch)
    # One that it does not know is none.
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))


def test_a_stop_is_not_for_a_namesake_of_another_taskmanager(pool):
    stop = beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1")
    for _ in range(2):
        start(pool, "1-1")
    one, other = (os.dup(worker) for worker in pool._all())
    call(pool, "StopWorker", stop)
    assert not select.select([one, other], [], [], 0)[0]
    # What its runner does before it says stop: it hangs up, and the worker goes.
    signal.pidfd_send_signal(one, signal.SIGKILL)
    assert select.select([one], [], [], _PATIENCE)[0]
    assert not select.select([other], [], [], 0)[0]
    call(pool, "StopWorker", stop)
    assert select.select([other], [], [], _PATIENCE)[0]
    assert not pool._all()
    # Nor is one for who comes after those that died with their TaskManager.
    start(pool, "1-1")
    (lost,) = pool._all()
    signal.pidfd_send_signal(lost, signal.SIGKILL)
    assert select.select([lost], [], [], _PATIENCE)[0]
    start(pool, "1-1")
    call(pool, "StopWorker", stop)
    assert not pool._all()
    for watch in (one, other):
        os.close(watch)


def test_its_workers_end_with_it(tmp_path):
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log) as pool:
        start(pool, "1-1")
        watch = os.dup(*pool._all())
    assert select.select([watch], [], [], _PATIENCE)[0]
    os.close(watch)


def test_its_workers_end_when_it_is_killed(tmp_path):
    program = (
        "import sys; from tests.runners.test_worker_pool import start\n"
        "from recordmill.runners.workers.pool import *\n"
        "with WorkerPool() as pool:\n"
        "    start(pool, '1-1')\n"
        "    (worker,) = pool._all()\n"
        "    info = open(f'/proc/self/fdinfo/{worker}').read()\n"
        "    print(info.split('Pid:')[1].split()[0], flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    watch = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.communicate()
    assert select.select([watch], [], [], _PATIENCE)[0]
    os.close(watch)


def test_a_port_that_is_taken(pool):
    with pytest.raises(ConfigError, match="another program does"):
        WorkerPool(port=pool.port)


def test_flags_are_what_runners_make_of_them():
    flags = boot._flags(
        ["--id='1-1'", '--provision_endpoint="localhost:1"', "--semi_persist_dir=/tmp"]
    )
    assert flags["id"] == "1-1"
    assert flags["provision_endpoint"] == "localhost:1"
    with pytest.raises(SystemExit):
        boot._flags(["--id=1"])


def test_versions_that_differ_are_told():
    assert versions.complaint(None) is None
    assert versions.complaint(versions.to_option(versions.ours())) is None
    theirs = versions.ours() | {"apache-beam": "1.0", "Python": "2.7"}
    said = versions.complaint(versions.to_option(theirs))
    assert said is not None
    assert f"has Python {versions.ours()['Python']}, the submitter 2.7" in said
    assert ", the submitter 1.0: install the same versions on both sides" in said


@pytest.mark.parametrize(
    ("files", "calls"),
    [
        ({}, []),
        ({"workflow.tar.gz": ""}, [["--no-deps", "./workflow.tar.gz"]]),
        (
            {"requirements.txt": "six", "extra_packages.txt": "a-1.tar.gz\n\nb-1.whl\n"},
            [
                ["--find-links", ".", "--requirement", "requirements.txt"],
                ["--no-deps", "./a-1.tar.gz", "./b-1.whl"],
            ],
        ),
    ],
)
def test_what_is_installed_of_staged_files(files, calls, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert list(boot._to_install(str(tmp_path))) == calls


def test_a_worker_clears_up_behind_dead_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from recordmill.runners.workers.boot import _own_folder\n"
        "print(_own_folder(), flush=True)\n"
        "sys.stdin.read()"
    )
    live = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert live.stdout is not None
    theirs = pathlib.Path(live.stdout.readline().strip())
    (theirs / "packages").mkdir()
    ours = pathlib.Path(boot._own_folder())
    assert sorted(tmp_path.iterdir()) == sorted([theirs, ours])
    live.kill()
    live.communicate()
    third = pathlib.Path(boot._own_folder())
    assert sorted(tmp_path.iterdir()) == sorted([ours, third])
