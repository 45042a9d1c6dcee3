"""The worker pool, called through gRPC as a runner calls it, and the boot of its workers."""

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

_TIMEOUT = 60  # s


@pytest.fixture
def pool(tmp_path) -> Iterator[WorkerPool]:
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log) as serving:
        yield serving


def call(pool: WorkerPool, name: str, request: object) -> object:
    with grpc.insecure_channel(pool.address) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        return getattr(stub, name)(request, timeout=_TIMEOUT, wait_for_ready=True)


def start(pool: WorkerPool, name: str) -> object:
    # Nothing listens there: the worker waits, as it does for a slow runner.
    unreachable = endpoints_pb2.ApiServiceDescriptor(url="127.0.0.1:9")
    return call(
        pool,
        "StartWorker",
        beam_fn_api_pb2.StartWorkerRequest(worker_id=name, provision_endpoint=unreachable),
    )


def test_workers_are_started_and_stopped(pool):
    assert start(pool, "1-1").error == ""
    (worker,) = pool._all_workers()
    assert not select.select([worker], [], [], 0)[0]
    watch = os.dup(worker)
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))
    assert select.select([watch], [], [], _TIMEOUT)[0]
    os.close(watch)
    # An unknown worker is no error.
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))


def test_a_stop_spares_the_worker_of_the_same_id_of_another_taskmanager(pool):
    stop = beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1")
    for _ in range(2):
        start(pool, "1-1")
    one, other = (os.dup(worker) for worker in pool._all_workers())
    call(pool, "StopWorker", stop)
    assert not select.select([one, other], [], [], 0)[0]
    # A runner disconnects before it requests the stop, which ends its worker.
    signal.pidfd_send_signal(one, signal.SIGKILL)
    assert select.select([one], [], [], _TIMEOUT)[0]
    assert not select.select([other], [], [], 0)[0]
    call(pool, "StopWorker", stop)
    assert select.select([other], [], [], _TIMEOUT)[0]
    assert not pool._all_workers()
    # Workers that died with their TaskManager are never stopped, and not counted any more.
    start(pool, "1-1")
    (lost,) = pool._all_workers()
    signal.pidfd_send_signal(lost, signal.SIGKILL)
    assert select.select([lost], [], [], _TIMEOUT)[0]
    start(pool, "1-1")
    call(pool, "StopWorker", stop)
    assert not pool._all_workers()
    for watch in (one, other):
        os.close(watch)


def test_workers_end_with_the_pool(tmp_path):
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log) as pool:
        start(pool, "1-1")
        watch = os.dup(*pool._all_workers())
    assert select.select([watch], [], [], _TIMEOUT)[0]
    os.close(watch)


def test_workers_end_when_the_pool_is_killed(tmp_path):
    program = (
        "import sys; from recordmill.runners.workers.pool import WorkerPool\n"
        "from tests.runners.test_worker_pool import start\n"
        "with WorkerPool() as pool:\n"
        "    start(pool, '1-1')\n"
        "    (worker,) = pool._all_workers()\n"
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
    assert select.select([watch], [], [], _TIMEOUT)[0]
    os.close(watch)


def test_a_port_in_use_is_an_error(pool):
    with pytest.raises(ConfigError, match="the port is in use"):
        WorkerPool(port=pool.port)


def test_flags_may_be_quoted():
    flags = boot._parse_flags(
        ["--id='1-1'", '--provision_endpoint="localhost:1"', "--semi_persist_dir=/tmp"]
    )
    assert flags["id"] == "1-1"
    assert flags["provision_endpoint"] == "localhost:1"
    with pytest.raises(SystemExit):
        boot._parse_flags(["--id=1"])


def test_version_mismatches_are_reported():
    assert versions.find_mismatch(None) is None
    assert versions.find_mismatch(versions.to_option(versions.installed())) is None
    theirs = versions.installed() | {"apache-beam": "1.0", "Python": "2.7"}
    message = versions.find_mismatch(versions.to_option(theirs))
    assert message is not None
    assert f"has Python {versions.installed()['Python']}, the submitter 2.7" in message
    assert ", the submitter 1.0: install the same versions on both sides" in message


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
def test_pip_arguments_of_staged_files(files, calls, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert list(boot._pip_arguments(str(tmp_path))) == calls


def test_a_worker_removes_the_folders_of_dead_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from recordmill.runners.workers.boot import _make_worker_folder\n"
        "print(_make_worker_folder(), flush=True)\n"
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
    ours = pathlib.Path(boot._make_worker_folder())
    assert sorted(tmp_path.iterdir()) == sorted([theirs, ours])
    live.kill()
    live.communicate()
    third = pathlib.Path(boot._make_worker_folder())
    assert sorted(tmp_path.iterdir()) == sorted([ours, third])
