"""Package a pipeline as a jar: Beam's job server together with the pipeline's proto.

No job server has to run and no port has to be open, a cluster runs the job after the submitter has
ended, and the same jar runs in a Flink that is embedded in a process on this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import xxhash
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.utils.subprocess_server import JavaJarServer
from google.protobuf import json_format

from recordmill import strict_json
from recordmill.errors import ConfigError
from recordmill.option_names import option_name

ENTRY_CLASS = "org.apache.beam.runners.flink.FlinkPipelineRunner"
"""Main class of the jar; it reads the pipeline from the jar."""

# A cluster has these entries, and takes its own even if a job brings them.
_IN_CLUSTER = ("org/apache/flink/", "flink-rpc-akka.jar", ".flink-runtime.version.properties")
# Entries that no job with Python workers is known to use (ADR 11).
_UNUSED = (
    # Libraries of Flink itself, which a cluster has.
    "com/esotericsoftware/",
    "com/twitter/",
    "org/apache/commons/",
    "org/objenesis/",
    "org/snakeyaml/",
    "org/xerial/snappy/",
    # Libraries for DoFns in Java.
    "net/bytebuddy/",
    "org/apache/beam/sdk/testing/",
    # Clients of cloud services in Java.
    "com/google/api/",
    "com/google/auth/",
    "com/google/common/",
    "com/google/gson/",
    "com/google/thirdparty/",
    "io/grpc/",
    "io/opencensus/",
    "mozilla/",
    "org/apache/http/",
    *(
        f"org/apache/beam/vendor/grpc/v1p60p1/{name}/"
        for name in (
            "com/google/api",
            "com/google/auth",
            "com/google/cloud",
            "com/google/logging",
            "com/google/longrunning",
            "com/google/type",
            "io/grpc/alts",
            "io/opencensus",
        )
    ),
    # TLS, which Flink does not use for connections to workers.
    "META-INF/native/conscrypt",
    "META-INF/native/libconscrypt",
    "META-INF/native/liborg_apache_beam_vendor_grpc_v1p60p1_netty_tcnative",
    "META-INF/native/org_apache_beam_vendor_grpc_v1p60p1_netty_tcnative",
    "org/conscrypt/",
    # Parsers, compression and profiling.
    "javassist/",
    "linux-arm64/",
    "linux-x64/",
    "macos/",
    "net/jpountz/",
    "one/profiler/",
    "org/apache/beam/repackaged/core/org/antlr/",
    "org/apache/beam/repackaged/core/org/apache/commons/compress/",
    "org/yaml/",
    # Other files than classes.
    ".env",
    "META-INF/maven/",
    "META-INF/native-image/",
    "META-INF/native/liborg_apache_flink_shaded_netty4",
    "META-INF/proguard/",
    "OSGI-OPT/",
    "certs/",
    "docker-compose.yml",
)
# Classes that read the pipeline from their own jar, and those of the same packages that they use.
_READERS = (
    "org/apache/beam/runners/flink/FlinkPipelineRunner",
    "org/apache/beam/runners/flink/FlinkPortableRunnerResult",
    "org/apache/beam/runners/jobsubmission/PortablePipelineJarUtils",
)
_MISSING_CLASS = re.compile(
    r"(?:NoClassDefFoundError|ClassNotFoundException): (?:Could not initialize class )?([\w./$]+)"
    r"|: Provider ([\w.$]+) not found"
)
_LIBRARY_PREFIX = "recordmill-beam-"
# Parts of a zip file, after PKWARE's APPNOTE.TXT, 4.3.
_DIRECTORY_END = b"PK\5\6"
_DIRECTORY = struct.Struct("<12x II")  # of its end: size and offset
_RECORD_START = b"PK\1\2"
_RECORD = struct.Struct("<10x H 8x I 4x H 12x I")  # method, packed size, size of name, offset
_LOCAL_NAME = struct.Struct("<26x HH")  # sizes of name and of further fields before an entry
# Paths inside the jar, as in Beam's PortablePipelineJarUtils.
_FOLDER = "BEAM-PIPELINE"
_NAME = "pipeline"


def find_job_server_jar(given: str | None, *, flink_version: str, sha256: str | None = None) -> str:
    """Return the path of Beam's Flink job server: the given path or URL, else Beam's own download.

    sha256: of the jar, which is a program; a download needs it.

    Raises:
      ConfigError: the jar is missing, cannot be downloaded, is another one, or is no job server.
    """
    location = given or JavaJarServer.path_to_beam_jar(
        f":runners:flink:{flink_version}:job-server:shadowJar"
    )
    if given and "://" not in given and not os.path.isfile(given):
        raise ConfigError(f"{option_name('flink_job_server_jar')}: there is no file {given!r}")
    if sha256 is None and not os.path.exists(location):
        raise ConfigError(
            f"Beam's job server for Flink {flink_version} would be downloaded from {location} and"
            " run unchecked: download it and pass its path as"
            f" {option_name('flink_job_server_jar')}, or pass its sha256, from a source that you"
            f" trust, as {option_name('flink_job_server_sha256')}"
        )
    try:
        jar = location if os.path.exists(location) else str(JavaJarServer.local_jar(location))
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"cannot download Beam's job server for Flink {flink_version} from {location}:"
            f" {str(error).splitlines()[0]}; download it by other means and give its path as"
            f" {option_name('flink_job_server_jar')}"
        ) from error
    if sha256 is not None and (found := _sha256(jar)) != sha256.lower():
        raise ConfigError(
            f"{option_name('flink_job_server_sha256')}: expected {sha256}, but {jar} has {found}:"
            " if the expected value is right, remove that file, because it was replaced or is"
            " damaged"
        )
    if not has_entry(jar, f"{ENTRY_CLASS.replace('.', '/')}.class".encode()):
        raise ConfigError(
            f"{option_name('flink_job_server_jar')}: expected Beam's job server for Flink, got"
            f" {jar}, which does not contain {ENTRY_CLASS}"
        )
    return jar


def _sha256(jar: str) -> str:
    with open(jar, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_entry(jar: str, name: bytes) -> bool:
    """Return whether a jar has an entry of that name.

    The name is searched in the bytes of the jar, because parsing the directory takes seconds.
    """
    with open(jar, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.rfind(name) >= 0


def library_name(job_server: str) -> str:
    """Return the file name of the library of a job server, derived from the server's content."""
    with (
        open(job_server, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        digest = xxhash.xxh3_128(content)
    digest.update(repr((_IN_CLUSTER, _UNUSED)).encode())
    return f"{_LIBRARY_PREFIX}{digest.hexdigest()[:16]}.jar"


def missing_library(name: str, jars: Iterable[str], *, url: str) -> str:
    """Return the note on a cluster without the library of a job server.

    name: of the library. jars: names of the jars in the cluster's class path.
    """
    others = sorted(jar for jar in jars if jar.startswith(_LIBRARY_PREFIX))
    instead = f", but {' and '.join(others)}, of another job server" if others else ""
    return (
        f"the cluster at {url} does not have {name} in its lib folder{instead}: it loads Beam's"
        " classes anew for each job, and each job that fails leaves about 25 MB in every"
        " TaskManager, until one runs out of memory. Write the jar with recordmill flink-library,"
        " copy it to the lib folder of the JobManager and of every TaskManager, and restart them"
    )


def write_library(folder: str, *, job_server: str) -> str:
    """Write the library, a jar of the classes of a job server that jobs use; return its path.

    A cluster with the library in its lib folder loads these classes once, not for each job.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, library_name(job_server))
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        with zipfile.ZipFile(unfinished, "w") as jar:
            _copy_entries(job_server, jar, leave_out=_IN_CLUSTER + _UNUSED)
        os.replace(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
    return path


def write_job_jar(
    path: str,
    *,
    job_server: str | None,
    pipeline: Any,
    options: Mapping[str, Any],
    whole: bool = False,
    has_library: bool = False,
    classes: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Write the jar of a pipeline.

    job_server: jar whose classes are copied, except Flink's own and those that jobs do not use: a
      cluster receives the job's jar and hashes it several times. None for an embedded Flink, which
      reads both jars.
    pipeline: the proto; local files that its environments depend on are added to the jar.
    options: all pipeline options by name.
    whole: also copy the classes that jobs with Python workers do not use.
    has_library: whether the cluster has the library of the job server (`write_library`); then only
      the classes that read the pipeline are copied.
    classes: {entry: content} of further classes.
    """
    with zipfile.ZipFile(path, "w") as jar:
        if job_server is not None and has_library:
            for name, content in _find_entries(job_server, _READERS).items():
                jar.writestr(name, content, zipfile.ZIP_DEFLATED)
        elif job_server is not None:
            leave_out = _IN_CLUSTER if whole else _IN_CLUSTER + _UNUSED
            _copy_entries(job_server, jar, leave_out=leave_out)
        for name, content in classes.items():
            jar.writestr(name, content, zipfile.ZIP_DEFLATED)
        for environment in pipeline.components.environments.values():
            for dependency in environment.dependencies:
                _add_dependency(jar, dependency)
        encoded = JobServiceHandle.encode_pipeline_options(dict(options))
        for name, content in (
            ("pipeline.json", json_format.MessageToJson(pipeline, indent=None)),
            ("pipeline-options.json", json_format.MessageToJson(encoded)),
        ):
            jar.writestr(f"{_FOLDER}/{_NAME}/{name}", content, zipfile.ZIP_DEFLATED)
        jar.writestr(
            f"{_FOLDER}/pipeline-manifest.json", strict_json.to_text({"defaultJobName": _NAME})
        )


def has_files(pipeline: Any) -> bool:
    """Return whether files are shipped with a pipeline, such as that of --setup_file."""
    return any(one.dependencies for one in pipeline.components.environments.values())


def find_left_out(error: str, *, has_library: bool = False) -> str | None:
    """Return the class that a Java error reports as missing if a job's jar leaves it out.

    has_library: as in `write_job_jar`.
    """
    left_out = (*_UNUSED, "org/apache/beam/") if has_library else _UNUSED
    for match in _MISSING_CLASS.finditer(error):
        name = (match[1] or match[2]).replace("/", ".")
        if name.replace(".", "/").startswith(left_out):
            return name
    return None


def _find_entries(jar: str, prefixes: Sequence[str]) -> dict[str, bytes]:
    """Return the entries of a jar whose names begin with a prefix: {name: content}.

    The prefixes are searched in the bytes of the directory, because a job server has 50,000
    entries, and zipfile takes 0.2 s to parse them.
    """
    found = {}
    with open(jar, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size, start = _DIRECTORY.unpack_from(content, content.rfind(_DIRECTORY_END))
        directory = content[start : start + size]
        for prefix in map(str.encode, prefixes):
            at = -1
            while (at := directory.find(prefix, at + 1)) >= 0:
                record = at - _RECORD.size
                if record < 0 or directory[record : record + 4] != _RECORD_START:
                    continue  # in the middle of another name
                method, packed, name_size, offset = _RECORD.unpack_from(directory, record)
                name_sizes = _LOCAL_NAME.unpack_from(content, offset)
                start = offset + _LOCAL_NAME.size + sum(name_sizes)
                data = content[start : start + packed]
                if method == zipfile.ZIP_DEFLATED:
                    data = zlib.decompress(data, -zlib.MAX_WBITS)
                found[directory[at : at + name_size].decode()] = data
    return found


def _copy_entries(source: str, jar: zipfile.ZipFile, *, leave_out: tuple[str, ...]) -> None:
    """Copy the entries of another jar into an empty one, compressed as they are.

    leave_out: prefixes of the names of entries to leave out.
    """
    with (
        zipfile.ZipFile(source) as entries,
        open(source, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        assert jar.fp is not None, "it is open"
        infos = sorted(entries.infolist(), key=lambda info: info.header_offset)
        ends = [*(info.header_offset for info in infos[1:]), entries.start_dir]
        for info, end in zip(infos, ends, strict=True):
            start = info.header_offset
            if info.filename.startswith(leave_out):
                continue
            info.header_offset = jar.start_dir
            jar.fp.write(content[start:end])
            jar.start_dir += end - start
            jar.filelist.append(info)
            jar.NameToInfo[info.filename] = info


def _add_dependency(jar: zipfile.ZipFile, dependency: Any) -> None:
    """Copy a file dependency into the jar and change the dependency to refer to the copy."""
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
