"""Boot one Python worker from the flags of Beam's container contract.

The flags (`--id`, `--provision_endpoint`, ...) are the same for the command of a PROCESS
environment, the entry point of a container, and the worker pool. The worker ends with the process
that started it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import logging
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)
from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor
from google.protobuf import json_format, text_format

from recordmill.runners import beam_patches
from recordmill.runners.failures import REFUSAL
from recordmill.runners.workers import start_check, versions

_PROVISION_TIMEOUT = 60  # s
_PARENT_CHECK_SECONDS = 1.0  # interval of the checks for the parent process
# A runner requests a bundle as soon as its worker is connected, and stops the worker after it. If
# the job ends at the wrong moment, Beam loses track of the worker. This is above the time after
# which Flink gives up a TaskManager that does not answer (heartbeat.timeout, 50 s).
IDLE_SECONDS = 60.0
_IDLE_CHECK_SECONDS = 5.0
# Names of the staged files of --setup_file, --extra_package and --requirements_file.
_SDIST, _EXTRAS, _REQUIREMENTS = "workflow.tar.gz", "extra_packages.txt", "requirements.txt"
_HANG_UPS = ("Multiplexer hanging up", "Runner closed connection")  # of Beam's runner, in Java
_SUBMITTER_PACKAGES = "submission_environment_dependencies.txt"  # informational
_FOLDER_PREFIX = "recordmill-worker-"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until the runner stops it, and return its exit code."""
    # Some runners read only stderr, so that a full pipe of stdout would block the worker.
    os.dup2(2, 1)
    exit_with_parent()
    return run_worker(sys.argv[1:] if argv is None else argv)[0]


def run_worker(argv: Sequence[str]) -> tuple[int, bool]:
    """Run a worker until the runner stops it.

    Returns:
      Its exit code, and whether this process can run another worker of the same job.
    """
    flags = _parse_flags(argv)
    info = _provision(flags["provision_endpoint"], flags["id"])
    control = info.control_endpoint.url or flags["control_endpoint"]
    options = json_format.MessageToDict(info.pipeline_options)
    if isinstance(sys.stderr, WorkerLog):
        sys.stderr.job = str(options.get("beam:option:job_name:v1") or "")
    refusal = versions.find_mismatch(
        options.get(f"beam:option:{versions.OPTION}:v1")
    ) or start_check.find_refusal(options.get(f"beam:option:{start_check.OPTION}:v1"))
    if refusal is not None:
        print(f"recordmill-worker: {refusal}", file=sys.stderr, flush=True)
        fail_all_requests(control, flags["id"], REFUSAL + refusal)
        return 1, False
    if info.dependencies:
        artifacts = info.artifact_endpoint.url or flags["artifact_endpoint"]
        _install(artifacts, list(info.dependencies), flags["id"])
    os.environ.update(
        WORKER_ID=flags["id"],
        PIPELINE_OPTIONS=json_format.MessageToJson(info.pipeline_options),
        LOGGING_API_SERVICE_DESCRIPTOR=_endpoint(
            info.logging_endpoint.url or flags["logging_endpoint"]
        ),
        CONTROL_API_SERVICE_DESCRIPTOR=_endpoint(control),
        RUNNER_CAPABILITIES=" ".join(info.runner_capabilities),
    )
    # The default of the log stream, which Beam reads from WORKER_ID when it is imported: before a
    # worker is forked. Beam's Prism refuses streams without it.
    WorkerIdInterceptor._worker_id = flags["id"]
    cached = options.get("beam:option:environment_cache_millis:v1", 0)
    is_reusable = _run_harness(idle_seconds=IDLE_SECONDS + float(cached or 0) / 1000)
    return 0, is_reusable and not info.dependencies


class WorkerLog(io.TextIOWrapper):
    """Standard error whose lines begin with the time (UTC) and the job. Lines are written whole.

    job: name of the job; '' until it is known.
    """

    job = ""

    def __init__(self) -> None:
        super().__init__(
            open(2, "wb", closefd=False),  # noqa: SIM115 (this class closes it)
            encoding="utf-8", errors="backslashreplace", line_buffering=True,
        )  # fmt: skip
        self._is_new_line = True

    def write(self, text: str, /) -> int:
        time_and_job = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {self.job or '-'} "
        for line in text.splitlines(keepends=True):
            super().write(time_and_job + line if self._is_new_line else line)
            self._is_new_line = line.endswith("\n")
        return len(text)


def is_hang_up(error: BaseException | None) -> bool:
    """Return whether an error only means that the runner has disconnected, as after a job."""
    return (
        isinstance(error, grpc.RpcError)
        and isinstance(error, grpc.Call)
        and error.code() == grpc.StatusCode.CANCELLED
        and error.details() in _HANG_UPS
    )


def print_thread_error(failure: threading.ExceptHookArgs) -> None:
    """Print the error that ended a thread, unless it is only the disconnection of the runner."""
    if not is_hang_up(failure.exc_value):
        threading.__excepthook__(failure)


def _run_harness(*, idle_seconds: float) -> bool:
    """Run Beam's SDK harness, and return whether this process can run another worker.

    idle_seconds: time without a bundle after which the process exits.

    Beam expects the process to end, so what it would leave behind is removed here, if its
    version is known.
    """
    from apache_beam.runners.worker import sdk_worker_main

    beam_patches.report_user_metrics_alone()
    created: list[tuple[Any, Any, Any]] = []
    done = threading.Event()
    create_harness = sdk_worker_main.create_harness

    def create(environment: Any) -> tuple[Any, Any, Any]:
        created.append(create_harness(environment))
        if beam_patches.enabled():
            _exit_when_idle(created[0][1]._bundle_processor_cache, idle_seconds, done)
        return created[0]

    sdk_worker_main.create_harness = create
    try:
        sdk_worker_main.main([])
    finally:
        sdk_worker_main.create_harness = create_harness
        done.set()
    if not beam_patches.enabled():
        return False
    log_handler, harness, _ = created[0]
    if log_handler is not None:
        logging.getLogger().removeHandler(log_handler)
    harness._control_channel.close()
    # Bundles that were running when the runner disconnected have failed, too.
    return not harness._bundle_processor_cache.failed_instruction_ids


def _exit_when_idle(bundles: Any, seconds: float, done: threading.Event) -> None:
    """Start a thread that exits this process after a time without a bundle, until `done`.

    bundles: the cache of bundle processors of Beam's harness.
    """
    get, began = bundles.get, [0]

    def counted_get(*args: Any) -> Any:
        began[0] += 1
        return get(*args)

    bundles.get = counted_get

    def watch() -> None:
        last, since = 0, time.monotonic()
        while not done.wait(min(seconds, _IDLE_CHECK_SECONDS)):
            now = time.monotonic()
            if bundles.active_bundle_processors or began[0] != last:
                last, since = began[0], now
            elif now - since >= seconds:
                print(
                    f"recordmill-worker: no work for {seconds:g} s, its job has ended",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)

    threading.Thread(target=watch, name="idle", daemon=True).start()


def exit_with_parent() -> None:
    """Start a thread that exits this process as soon as its parent process has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def fail_all_requests(control: str, worker: str, message: str) -> None:
    """Answer every request of the runner with an error until the runner disconnects.

    This way the message reaches the submitter of the job, which an exit of the worker would not
    achieve.
    """
    answers: queue.Queue[Any] = queue.Queue()
    worker_id = [("worker_id", worker)]
    data_streams: list[Any] = []  # referenced because gRPC cancels streams without references
    with grpc.insecure_channel(control) as channel, contextlib.ExitStack() as streams:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        try:
            for request in stub.Control(iter(answers.get, None), metadata=worker_id):
                if request.WhichOneof("request") == "process_bundle":
                    # The runner sends all data before it reads the answer: accept the data.
                    descriptor_request = beam_fn_api_pb2.GetProcessBundleDescriptorRequest(
                        process_bundle_descriptor_id=request.process_bundle.process_bundle_descriptor_id
                    )
                    descriptor = stub.GetProcessBundleDescriptor(
                        descriptor_request, metadata=worker_id
                    )
                    for url in _data_endpoints(descriptor):
                        data = streams.enter_context(grpc.insecure_channel(url))
                        no_data: queue.Queue[Any] = queue.Queue()
                        data_streams.append(
                            beam_fn_api_pb2_grpc.BeamFnDataStub(data).Data(
                                iter(no_data.get, None), metadata=worker_id
                            )
                        )
                answers.put(
                    beam_fn_api_pb2.InstructionResponse(
                        instruction_id=request.instruction_id, error=message
                    )
                )
        except grpc.RpcError:  # the runner has disconnected
            return


def _data_endpoints(descriptor: Any) -> set[str]:
    """Return the endpoints from which a bundle reads its data and to which it writes them."""
    ports = [
        beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
        for transform in descriptor.transforms.values()
        if transform.spec.urn in ("beam:runner:source:v1", "beam:runner:sink:v1")
    ]
    return {port.api_service_descriptor.url for port in ports}


def _parse_flags(argv: Sequence[str]) -> dict[str, str]:
    parser = argparse.ArgumentParser(prog="recordmill-worker", description=__doc__)
    for name in ("id", "provision_endpoint"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("control_endpoint", "logging_endpoint", "artifact_endpoint"):
        parser.add_argument(f"--{name}", default="")
    found, _ = parser.parse_known_args(argv)  # runners of other versions pass further flags
    # Some runners quote the values.
    return {name: text.strip("\"'") for name, text in vars(found).items()}


def _provision(url: str, worker: str) -> Any:
    with grpc.insecure_channel(url) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        answer = stub.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=[("worker_id", worker)],
            timeout=_PROVISION_TIMEOUT,
            wait_for_ready=True,
        )
        return answer.info


def _endpoint(url: str) -> str:
    descriptor = endpoints_pb2.ApiServiceDescriptor(url=url)
    return str(text_format.MessageToString(descriptor))


def _install(url: str, dependencies: list[Any], worker: str) -> None:
    """Download the files that were staged with the pipeline and install them with pip."""
    folder = _make_worker_folder()
    staged = os.path.join(folder, "staged")
    os.mkdir(staged)
    with grpc.insecure_channel(url) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        worker_id = [("worker_id", worker)]
        resolved = stub.ResolveArtifacts(
            beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=dependencies),
            metadata=worker_id,
        )
        for artifact in resolved.replacements:
            chunks = stub.GetArtifact(
                beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact), metadata=worker_id
            )
            with open(os.path.join(staged, _staged_name(artifact)), "wb") as file:
                file.writelines(chunk.data for chunk in chunks)
    if set(os.listdir(staged)) <= {_SUBMITTER_PACKAGES}:
        shutil.rmtree(folder)
        return
    packages = os.path.join(folder, "packages")
    for arguments in _pip_arguments(staged):
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--target", packages, *arguments],
            check=True, cwd=staged,
        )  # fmt: skip
    sys.path.insert(0, packages)
    os.environ["SEMI_PERSISTENT_DIRECTORY"] = folder


def _make_worker_folder() -> str:
    """Create a temporary folder that is locked while this worker lives.

    Workers are usually killed and cannot clean up: each new one removes the folders of dead ones.
    """
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        stale = os.path.join(parent, name)
        if name.startswith(_FOLDER_PREFIX) and (lock := _try_lock(stale)) is not None:
            shutil.rmtree(stale, ignore_errors=True)
            os.close(lock)
    new = tempfile.mkdtemp(prefix="recordmill-new-")
    _try_lock(new)
    folder = os.path.join(parent, _FOLDER_PREFIX + os.path.basename(new))
    os.rename(new, folder)
    return folder


def _try_lock(folder: str) -> int | None:
    """Lock a folder while the returned descriptor is open; None if another process holds it."""
    try:
        # A folder of another user under such a name is neither opened nor removed.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _staged_name(artifact: Any) -> str:
    role = artifact.role_urn
    if role != common_urns.artifact_roles.STAGING_TO.urn:
        raise ValueError(f"expected the artifact of a staged file, got one of role {role!r}")
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    return os.path.basename(str(payload.staged_name))


def _pip_arguments(staged: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of pip that installs the staged files."""
    found = set(os.listdir(staged))
    if _REQUIREMENTS in found:
        yield ["--find-links", ".", "--requirement", _REQUIREMENTS]
    if _EXTRAS in found:
        with open(os.path.join(staged, _EXTRAS)) as file:
            names = [os.path.basename(line.strip()) for line in file if line.strip()]
        yield ["--no-deps", *(f"./{name}" for name in names)]
    if _SDIST in found:
        # Its dependencies are those of recordmill and Beam, which the worker already has.
        yield ["--no-deps", f"./{_SDIST}"]
