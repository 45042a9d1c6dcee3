"""A pipeline as a jar: Beam's job server with the pipeline in it, which any Flink runs as it is.

So neither a job server has to run beside us nor its port stand open, a cluster can run the job when
we have left, and the same jar runs on a Flink embedded in a process of this machine.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import zipfile
from collections.abc import Mapping
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.utils.subprocess_server import JavaJarServer
from google.protobuf import json_format

from recordmill.errors import ConfigError

ENTRY = "org.apache.beam.runners.flink.FlinkPipelineRunner"
"""The class to start; it finds the pipeline in the jar."""

# Where it looks, see PortablePipelineJarUtils in Beam.
_FOLDER = "BEAM-PIPELINE"
_NAME = "pipeline"


def job_server_jar(given: str | None, *, flink_version: str) -> str:
    """The path of Beam's Flink job server: the given path or URL, else Beam's own download.

    Raises:
      ConfigError: there is none to be had.
    """
    where = given or JavaJarServer.path_to_beam_jar(
        f":runners:flink:{flink_version}:job-server:shadowJar"
    )
    if given and "://" not in given and not os.path.exists(given):
        raise ConfigError(f"--flink-job-server-jar: there is no file {given!r}")
    try:
        jar = where if os.path.exists(where) else str(JavaJarServer.local_jar(where))
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"cannot download Beam's job server for Flink {flink_version} from {where}:"
            f" {str(error).splitlines()[0]}; fetch it by other means and name it with"
            " --flink-job-server-jar"
        ) from error
    if not _holds(jar, f"{ENTRY.replace('.', '/')}.class".encode()):
        raise ConfigError(f"{jar} is no Flink job server of Beam's: it has no {ENTRY}")
    return jar


def _holds(jar: str, name: bytes) -> bool:
    """Whether a jar has an entry. Its directory stands at its end, and takes long to parse."""
    with open(jar, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.rfind(name) >= 0


def write_jar(path: str, *, job_server: str, pipeline: Any, options: Mapping[str, Any]) -> None:
    """Writes the jar of a pipeline.

    pipeline: the proto, whose environments' dependencies are files of this machine; they go along.
    options: all pipeline options by name.
    """
    shutil.copyfile(job_server, path)
    with zipfile.ZipFile(path, "a") as jar:
        for environment in pipeline.components.environments.values():
            for dependency in environment.dependencies:
                _take_along(jar, dependency)
        encoded = JobServiceHandle.encode_pipeline_options(dict(options))
        for name, content in (
            ("pipeline.json", json_format.MessageToJson(pipeline, indent=None)),
            ("pipeline-options.json", json_format.MessageToJson(encoded)),
        ):
            jar.writestr(f"{_FOLDER}/{_NAME}/{name}", content, zipfile.ZIP_DEFLATED)
        jar.writestr(f"{_FOLDER}/pipeline-manifest.json", json.dumps({"defaultJobName": _NAME}))


def _take_along(jar: zipfile.ZipFile, dependency: Any) -> None:
    """Puts a file into the jar, and lets the dependency say so."""
    if dependency.type_urn != common_urns.artifact_types.FILE.urn:
        return
    payload = beam_runner_api_pb2.ArtifactFilePayload.FromString(dependency.type_payload)
    name = hashlib.sha256(payload.path.encode()).hexdigest()[:16]
    inside = f"{_FOLDER}/{_NAME}/artifacts/{name}-{os.path.basename(payload.path)}"
    if inside not in jar.namelist():
        jar.write(payload.path, inside)
    dependency.type_payload = beam_runner_api_pb2.ArtifactFilePayload(
        path=f"classpath://{inside}", sha256=payload.sha256
    ).SerializeToString()
