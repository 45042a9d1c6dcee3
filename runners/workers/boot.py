"""Starts one Python worker: what a runner calls as `recordmill-worker`.

It takes the flags of Beam's container contract (`--id`, `--provision_endpoint`, ...), so it is the
command of a PROCESS environment, the entry point of a container, and what the worker pool starts.
It ends with the process that started it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
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
from google.protobuf import json_format, text_format

from recordmill.runners.workers import versions

_ANSWER_SECONDS = 60  # of the runner that has started us
_PARENT_SECONDS = 1.0  # how often to look whether it is still there
# What Beam's --setup_file and --requirements_file become among the staged files.
_SDIST, _EXTRAS, _REQUIREMENTS = "workflow.tar.gz", "extra_packages.txt", "requirements.txt"
_SUBMITTER = "submission_environment_dependencies.txt"  # what it has installed, for the record
_FOLDER = "recordmill-worker-"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a worker until the runner lets it go; returns its exit code."""
    # A worker's output is its log; some runners read the log alone, and let a full pipe block us.
    os.dup2(2, 1)
    flags = _flags(sys.argv[1:] if argv is None else argv)
    end_with_parent()
    info = _provision(flags["provision_endpoint"], flags["id"])
    control = info.control_endpoint.url or flags["control_endpoint"]
    options = json_format.MessageToDict(info.pipeline_options)
    complaint = versions.complaint(options.get(f"beam:option:{versions.OPTION}:v1"))
    if complaint is not None:
        print(f"recordmill-worker: {complaint}", file=sys.stderr, flush=True)
        refuse(control, flags["id"], complaint)
        return 1
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
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])
    return 0


def end_with_parent() -> None:
    """Ends this process, at once, when the one that has started it is no more."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def refuse(control: str, worker: str, why: str) -> None:
    """Answers all that the runner asks of a worker with an error, until it gives up.

    So the reason reaches whoever submitted the job; a worker that ends without a word does not.
    """
    answers: queue.Queue[Any] = queue.Queue()
    worker_id = [("worker_id", worker)]
    taken: list[Any] = []  # a stream that nobody holds is cancelled
    with grpc.insecure_channel(control) as channel, contextlib.ExitStack() as streams:
        stub = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
        try:
            for request in stub.Control(iter(answers.get, None), metadata=worker_id):
                if request.WhichOneof("request") == "process_bundle":
                    # It sends the data first, and looks for an answer when it is rid of them.
                    wanted = beam_fn_api_pb2.GetProcessBundleDescriptorRequest(
                        process_bundle_descriptor_id=request.process_bundle.process_bundle_descriptor_id
                    )
                    found = stub.GetProcessBundleDescriptor(wanted, metadata=worker_id)
                    for url in _data_endpoints(found):
                        data = streams.enter_context(grpc.insecure_channel(url))
                        silence: queue.Queue[Any] = queue.Queue()
                        taken.append(
                            beam_fn_api_pb2_grpc.BeamFnDataStub(data).Data(
                                iter(silence.get, None), metadata=worker_id
                            )
                        )
                answers.put(
                    beam_fn_api_pb2.InstructionResponse(
                        instruction_id=request.instruction_id, error=why
                    )
                )
        except grpc.RpcError:  # it has given up
            return


def _data_endpoints(descriptor: Any) -> set[str]:
    """Where the data of a bundle come from and go to."""
    ports = [
        beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
        for transform in descriptor.transforms.values()
        if transform.spec.urn in ("beam:runner:source:v1", "beam:runner:sink:v1")
    ]
    return {port.api_service_descriptor.url for port in ports}


def _flags(argv: Sequence[str]) -> dict[str, str]:
    parser = argparse.ArgumentParser(prog="recordmill-worker", description=__doc__)
    for name in ("id", "provision_endpoint"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("control_endpoint", "logging_endpoint", "artifact_endpoint"):
        parser.add_argument(f"--{name}", default="")
    found, _ = parser.parse_known_args(argv)  # runners of other versions have further ones
    # Some put quotes round it.
    return {name: text.strip("\"'") for name, text in vars(found).items()}


def _provision(url: str, worker: str) -> Any:
    with grpc.insecure_channel(url) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        answer = stub.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=[("worker_id", worker)],
            timeout=_ANSWER_SECONDS,
            wait_for_ready=True,
        )
        return answer.info


def _endpoint(url: str) -> str:
    descriptor = endpoints_pb2.ApiServiceDescriptor(url=url)
    return str(text_format.MessageToString(descriptor))


def _install(url: str, dependencies: list[Any], worker: str) -> None:
    """Fetches the files that were staged with the pipeline, and installs what they are."""
    folder = _own_folder()
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
    if set(os.listdir(staged)) <= {_SUBMITTER}:
        shutil.rmtree(folder)
        return
    packages = os.path.join(folder, "packages")
    for arguments in _to_install(staged):
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--target", packages, *arguments],
            check=True, cwd=staged,
        )  # fmt: skip
    sys.path.insert(0, packages)
    os.environ["SEMI_PERSISTENT_DIRECTORY"] = folder


def _own_folder() -> str:
    """A folder that is this worker's as long as it lives.

    Few workers end in a way that lets them clear up: each removes what dead ones have left.
    """
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        left = os.path.join(place, name)
        if name.startswith(_FOLDER) and (lock := _lock(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    new = tempfile.mkdtemp(prefix="recordmill-new-")
    _lock(new)
    folder = os.path.join(place, _FOLDER + os.path.basename(new))
    os.rename(new, folder)
    return folder


def _lock(folder: str) -> int | None:
    """Keeps others from a folder as long as the descriptor is open; None where another does."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
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
        raise ValueError(f"expected a file to be staged, got an artifact for {role!r}")
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    return os.path.basename(str(payload.staged_name))


def _to_install(staged: str) -> Iterator[list[str]]:
    """What pip is to be told, one call after another."""
    found = set(os.listdir(staged))
    if _REQUIREMENTS in found:
        yield ["--find-links", ".", "--requirement", _REQUIREMENTS]
    if _EXTRAS in found:
        with open(os.path.join(staged, _EXTRAS)) as file:
            names = [os.path.basename(line.strip()) for line in file if line.strip()]
        yield ["--no-deps", *(f"./{name}" for name in names)]
    if _SDIST in found:
        # Its own dependencies are recordmill's and Beam's, which the worker has.
        yield ["--no-deps", f"./{_SDIST}"]
