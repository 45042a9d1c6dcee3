"""The worker pool, called through gRPC as a runner calls it, and the boot of its workers."""

import os
import pathlib
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)

from recordmill.errors import ConfigError
from recordmill.runners.flink.environments import add_secret
from recordmill.runners.secret_files import read_secret
from recordmill.runners.workers import boot, peers, versions
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
    assert not worker.has_ended
    watch = os.dup(worker.pidfd)
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))
    assert select.select([watch], [], [], _TIMEOUT)[0]
    os.close(watch)
    # An unknown worker is no error.
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))


def test_a_stop_spares_the_worker_of_the_same_id_of_another_taskmanager(pool):
    stop = beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1")
    for _ in range(2):
        start(pool, "1-1")
    one, other = (os.dup(worker.pidfd) for worker in pool._all_workers())
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
    signal.pidfd_send_signal(lost.pidfd, signal.SIGKILL)
    assert select.select([lost.pidfd], [], [], _TIMEOUT)[0]
    start(pool, "1-1")
    call(pool, "StopWorker", stop)
    assert not pool._all_workers()
    for watch in (one, other):
        os.close(watch)


class Runner(
    beam_provision_api_pb2_grpc.ProvisionServiceServicer,
    beam_fn_api_pb2_grpc.BeamFnControlServicer,
    beam_fn_api_pb2_grpc.BeamFnLoggingServicer,
):
    """Requests from each worker the bundles of unknown stages, and disconnects."""

    def __init__(self, *bundles: str) -> None:
        self.bundles = bundles
        self._server = grpc.server(futures.ThreadPoolExecutor())
        beam_provision_api_pb2_grpc.add_ProvisionServiceServicer_to_server(self, self._server)
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self._server)
        beam_fn_api_pb2_grpc.add_BeamFnLoggingServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.endpoint = endpoints_pb2.ApiServiceDescriptor(url=f"127.0.0.1:{port}")
        self._server.start()

    def end(self) -> None:
        self._server.stop(0).wait()

    def GetProvisionInfo(self, request, context):  # noqa: N802 (gRPC's name)
        info = beam_provision_api_pb2.ProvisionInfo(
            control_endpoint=self.endpoint, logging_endpoint=self.endpoint
        )
        option = versions.to_option(versions.installed())
        info.pipeline_options[f"beam:option:{versions.OPTION}:v1"] = option
        return beam_provision_api_pb2.GetProvisionInfoResponse(info=info)

    def Control(self, answers, context):  # noqa: N802 (gRPC's name)
        for name in self.bundles:
            bundle = beam_fn_api_pb2.ProcessBundleRequest(process_bundle_descriptor_id=name)
            yield beam_fn_api_pb2.InstructionRequest(instruction_id=name, process_bundle=bundle)
            assert next(answers).error

    def Logging(self, entries, context):  # noqa: N802 (gRPC's name)
        for _ in entries:
            yield from ()


def process_of_a_worker(
    pool: WorkerPool, runner: Runner, job: str, *, worker_id: str = "1-1"
) -> int:
    """The process that ran a worker, which has been stopped."""
    request = beam_fn_api_pb2.StartWorkerRequest(
        worker_id=worker_id, provision_endpoint=runner.endpoint, params={peers.JOB_PARAMETER: job}
    )
    assert call(pool, "StartWorker", request).error == ""
    (worker,) = pool._all_workers()
    info = pathlib.Path(f"/proc/self/fdinfo/{worker.pidfd}").read_text()
    call(pool, "StopWorker", beam_fn_api_pb2.StopWorkerRequest(worker_id=worker_id))
    return int(info.split("Pid:")[1].split()[0])


def test_workers_of_a_job_share_a_process(pool):
    runner = Runner()
    first = process_of_a_worker(pool, runner, "a")
    assert process_of_a_worker(pool, runner, "a") == first
    other = process_of_a_worker(pool, runner, "b")
    assert other != first
    assert process_of_a_worker(pool, runner, "a") == first
    os.kill(first, signal.SIGKILL)
    second = process_of_a_worker(pool, runner, "a")
    assert second not in (first, other)
    # A runner that does not name its job gets a new process for each worker.
    one, another = (process_of_a_worker(pool, runner, "") for _ in range(2))
    assert len({first, second, other, one, another}) == 5
    runner.end()


class LogReader(Runner):
    """Keeps a worker until its log stream is open, with the worker ids of these streams."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self._is_open = threading.Semaphore(0)

    def Control(self, answers, context):  # noqa: N802 (gRPC's name)
        assert self._is_open.acquire(timeout=_TIMEOUT)
        yield from ()

    def Logging(self, entries, context):  # noqa: N802 (gRPC's name)
        self.ids.append(dict(context.invocation_metadata())["worker_id"])
        self._is_open.release()
        return super().Logging(entries, context)


def test_log_streams_name_their_worker(pool):
    """Beam's Prism closes streams that do not, and a worker opens them again and again."""
    runner = LogReader()
    process_of_a_worker(pool, runner, "a", worker_id="1-1")
    process_of_a_worker(pool, runner, "a", worker_id="2-1")
    runner.end()
    assert runner.ids == ["1-1", "2-1"]


class ForgetfulRunner(Runner):
    """Requests no bundle, and never disconnects."""

    def Control(self, answers, context):  # noqa: N802 (gRPC's name)
        yield from answers


def test_a_worker_that_its_runner_has_forgotten_ends(tmp_path):
    with (
        (tmp_path / "log").open("wb") as log,
        WorkerPool(log=log, imports=["tests.runners.impatient_workers"]) as pool,
    ):
        runner = ForgetfulRunner()
        request = beam_fn_api_pb2.StartWorkerRequest(
            worker_id="1-1", provision_endpoint=runner.endpoint, params={peers.JOB_PARAMETER: "a"}
        )
        assert call(pool, "StartWorker", request).error == ""
        (worker,) = pool._all_workers()
        assert worker.wait(_TIMEOUT)
        assert "no work for 0.1 s, its job has ended" in (tmp_path / "log").read_text()
        runner.end()


def test_the_process_of_a_failed_bundle_runs_no_other_worker(pool):
    runner = Runner("unknown")
    first = process_of_a_worker(pool, runner, "a")
    assert process_of_a_worker(pool, runner, "a") != first
    runner.end()


def test_a_pool_reports_the_version_of_the_code_that_it_runs(tmp_path, monkeypatch):
    versions.installed()
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(packages)
    runner = Runner()
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log) as pool:
        first = process_of_a_worker(pool, runner, "a")
        new = packages / "recordmill-9.9.dist-info"
        new.mkdir()
        (new / "METADATA").write_text("Metadata-Version: 2.1\nName: recordmill\nVersion: 9.9\n")
        assert process_of_a_worker(pool, runner, "b") != first
    runner.end()
    assert "9.9" not in (tmp_path / "log").read_text()


class ClosingRunner(Runner):
    """Cancels the control stream, as Beam's runner does."""

    def __init__(self, details: str) -> None:
        super().__init__()
        self.details = details

    def GetProvisionInfo(self, request, context):  # noqa: N802 (gRPC's name)
        response = super().GetProvisionInfo(request, context)
        response.info.pipeline_options["beam:option:job_name:v1"] = "nightly"
        return response

    def Control(self, answers, context):  # noqa: N802 (gRPC's name)
        context.abort(grpc.StatusCode.CANCELLED, self.details)


@pytest.mark.parametrize(
    ("details", "silent"),
    [("Runner closed connection", True), ("Multiplexer hanging up", True), ("out of disk", False)],
)
def test_the_log_of_a_pool_omits_the_end_of_a_job(pool, tmp_path, details, silent):
    runner = ClosingRunner(details)
    request = beam_fn_api_pb2.StartWorkerRequest(
        worker_id="1-1", provision_endpoint=runner.endpoint
    )
    assert call(pool, "StartWorker", request).error == ""
    (worker,) = pool._all_workers()
    assert worker.wait(_TIMEOUT)
    runner.end()
    log = (tmp_path / "log").read_text().splitlines()
    assert (log == []) == silent, log
    assert any(details in line for line in log) != silent
    for line in log:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ nightly ", line), line


@pytest.mark.parametrize(
    ("details", "silent"), [("Multiplexer hanging up", True), ("out of disk", False)]
)
def test_threads_that_end_with_a_job_print_nothing(monkeypatch, capsys, details, silent):
    runner = ClosingRunner(details)

    def read() -> None:
        with grpc.insecure_channel(runner.endpoint.url) as channel:
            next(beam_fn_api_pb2_grpc.BeamFnControlStub(channel).Control(iter(())))

    monkeypatch.setattr(threading, "excepthook", boot.print_thread_error)
    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    runner.end()
    assert (details not in capsys.readouterr().err) == silent


def test_workers_end_with_the_pool(tmp_path):
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log) as pool:
        start(pool, "1-1")
        watch = os.dup(pool._all_workers()[0].pidfd)
    assert select.select([watch], [], [], _TIMEOUT)[0]
    os.close(watch)


@pytest.mark.long
def test_workers_end_when_the_pool_is_killed(tmp_path):
    program = (
        "import sys; from recordmill.runners.workers.pool import WorkerPool\n"
        "from tests.runners.test_worker_pool import start\n"
        "with WorkerPool() as pool:\n"
        "    start(pool, '1-1')\n"
        "    (worker,) = pool._all_workers()\n"
        "    info = open(f'/proc/self/fdinfo/{worker.pidfd}').read()\n"
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


def start_as_nobody(pool: WorkerPool, user: int = 65534, **params: str) -> str:
    """The answer to another user of this machine; the tests of this run as root."""
    return call_as(
        user,
        pool,
        f"""
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1", params={params!r})
    request.provision_endpoint.url = "127.0.0.1:9"
    answer = stub.StartWorker(request, timeout={_TIMEOUT}, wait_for_ready=True)
    sys.stdout.write(answer.error)
    stop = stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id="other"))
    sys.stdout.write(stop.error)
""",
    )


def stop_as(user: int, pool: WorkerPool) -> str:
    """The answer to another user who stops the worker 1-1."""
    return call_as(
        user,
        pool,
        f"""
    request = beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1")
    sys.stdout.write(stub.StopWorker(request, timeout={_TIMEOUT}, wait_for_ready=True).error)
""",
    )


def call_as(user: int, pool: WorkerPool, calls: str) -> str:
    """What another user prints, who calls the pool through `stub`."""
    program = f"""
import os, sys, grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
def unused():  # imports what a call imports, while there is access to it
    with grpc.insecure_channel("127.0.0.1:9") as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        try:
            stub.StopWorker(beam_fn_api_pb2.StopWorkerRequest(), timeout=5)
        except grpc.RpcError:
            pass
unused()
os.setgid({user}); os.setuid({user})
with grpc.insecure_channel({pool.address!r}) as channel:
    stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
{calls}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


as_root = pytest.mark.xfail(os.geteuid() != 0, reason="only root can become another user")


@pytest.mark.long
@as_root
def test_another_user_of_the_machine_starts_no_worker(pool):
    assert "serves processes of its own user only" in start_as_nobody(pool)
    assert not pool._all_workers()


@pytest.mark.long
@as_root
def test_another_user_starts_a_worker_with_the_secret(tmp_path):
    secret = peers.new_secret()
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log, secret=secret) as pool:
        wrong = start_as_nobody(pool, **{peers.PARAMETER: "guessed"})
        assert "serves only jobs with its secret" in wrong
        assert not pool._all_workers()
        assert start_as_nobody(pool, **{peers.PARAMETER: secret}) == ""
        assert len(pool._all_workers()) == 1
        assert start(pool, "other").error == ""


@pytest.mark.long
@as_root
def test_another_user_stops_no_worker_that_was_started_with_the_secret(tmp_path):
    secret = peers.new_secret()
    with (tmp_path / "log").open("wb") as log, WorkerPool(log=log, secret=secret) as pool:
        taskmanager, other = 65534, 65533
        assert start_as_nobody(pool, taskmanager, **{peers.PARAMETER: secret}) == ""
        (worker,) = pool._all_workers()
        assert "serves only jobs with its secret" in stop_as(other, pool)
        assert pool._all_workers() == [worker]
        assert not worker.has_ended
        assert stop_as(taskmanager, pool) == ""
        assert not pool._all_workers()


@pytest.mark.long
@as_root
def test_another_user_stops_no_worker_of_the_pools_own_user(pool):
    start(pool, "1-1")
    (worker,) = pool._all_workers()
    assert "serves processes of its own user only" in stop_as(65534, pool)
    assert not worker.has_ended


def test_other_addresses_need_a_secret():
    with pytest.raises(ConfigError, match="pass secret_file"):
        WorkerPool(host="0.0.0.0")
    with WorkerPool(host="0.0.0.0", secret=peers.new_secret()) as pool:
        assert pool.port


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("0123456789abcdef", 0o644, "other users can read"),
        ("short", 0o600, "at least 16 characters"),
        (None, 0, "cannot read"),
    ],
)
def test_a_file_of_a_secret_is_private(content, mode, message, tmp_path):
    if content is not None:
        (tmp_path / "secret").write_text(content)
        (tmp_path / "secret").chmod(mode)
    with pytest.raises(ConfigError, match=message):
        read_secret(str(tmp_path / "secret"), option="--secret-file")


@pytest.mark.parametrize("diagnosed", [True, False])
def test_the_owner_of_a_connection_is_known_for_both_families(diagnosed, monkeypatch):
    """A caller is known by one request to the kernel, or by its list of all connections."""
    if not diagnosed:
        monkeypatch.setattr(peers, "_diagnose", lambda *_: None)
    for family, host in (
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "127.0.0.2"),  # the two ends have different addresses
        (socket.AF_INET6, "::1"),
    ):
        with socket.create_server((host, 0), family=family) as server:
            port = server.getsockname()[1]
            with socket.create_connection((host, port)) as client:
                name, at, *_ = client.getsockname()
                peer = f"ipv6:%5B{name}%5D:{at}" if ":" in name else f"ipv4:{name}:{at}"
                caller = peers.Caller.of(peer, port=port)
                assert caller.owner == os.geteuid()
                assert caller.is_same_user
                assert caller.is_known
            closed = peers.Caller.of(peer, port=port)  # nobody owns a closed connection
            assert not closed.is_same_user
            assert not closed.is_known
    other = peers.Caller.of("ipv4:192.0.2.1:4711", port=1)
    assert other == peers.Caller.of("ipv4:192.0.2.1:4712", port=1)
    assert other.is_known
    assert not other.is_same_user
    assert not peers.Caller.of("unix:", port=1).is_known


def test_a_planted_pipe_does_not_hang_a_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    os.mkfifo(tmp_path / "recordmill-worker-a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "recordmill-worker-b").symlink_to(tmp_path / "elsewhere")
    folder = pathlib.Path(boot._make_worker_folder())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (tmp_path / "elsewhere").is_dir()


def test_the_secret_is_a_parameter_of_external_environments():
    pipeline = beam_runner_api_pb2.Pipeline()
    external = pipeline.components.environments["a"]
    external.urn = "beam:env:external:v1"
    pipeline.components.environments["b"].urn = "beam:env:docker:v1"
    add_secret(pipeline, "the secret", job="a job")
    payload = beam_runner_api_pb2.ExternalPayload.FromString(external.payload)
    assert dict(payload.params) == {peers.PARAMETER: "the secret", peers.JOB_PARAMETER: "a job"}
    assert pipeline.components.environments["b"].payload == b""
