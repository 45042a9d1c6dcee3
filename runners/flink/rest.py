"""What we need of Flink's REST interface, the same in all its versions since 1.12."""

from __future__ import annotations

import dataclasses
import http.client
import ipaddress
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import IO, Any

from recordmill.errors import ConfigError, RunError
from recordmill.runners.failures import SAID_BY_WORKER

_DONE = frozenset({"FINISHED", "CANCELED"})
TERMINAL = _DONE | {"FAILED"}
_TIMEOUT = 30.0  # s, of one answer
_LONG_TIMEOUT = 300.0  # s, where it has to take in a jar, or make a job of it
_CHUNK = 1 << 20  # bytes


class ClusterError(RunError):
    """The cluster does not answer, or not what it should."""


class NoSuchJobError(ClusterError):
    """The cluster does not know the job, or not any more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobStatus:
    """A job at one moment.

    state: as Flink names it. vertices: {state: how many}. moved: changes whenever anything in the
    job does, and means nothing else. seconds: since its start.
    """

    id: str
    name: str
    state: str
    vertices: Mapping[str, int]
    moved: tuple[Any, ...]
    seconds: float

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A Flink cluster, by the URL of its REST interface. Holds no connection."""

    url: str

    @classmethod
    def parse(cls, text: str) -> Cluster:
        """Reads `host:port`, with http:// or https:// before it or not.

        Raises:
          ConfigError: it is neither.
        """
        found = re.fullmatch(r"(?:(https?)://)?([^/:\s]+|\[[0-9a-fA-F:]+\])(?::(\d+))?/*", text)
        if found is None or not 0 < int(found[3] or 8081) < 65536:
            raise ConfigError(f"--flink-master: expected HOST:PORT, got {text!r}")
        return cls(f"{found[1] or 'http'}://{found[2]}:{found[3] or 8081}")

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, as far as its name tells."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def version(self) -> str:
        """Major and minor, such as 1.19."""
        full = str(self._call("GET", "/v1/config")["flink-version"])
        return ".".join(full.split(".")[:2])

    def free_slots(self) -> tuple[int, int, int]:
        """(free slots, all slots, TaskManagers)."""
        found = self._call("GET", "/v1/overview")
        return found["slots-available"], found["slots-total"], found["taskmanagers"]

    def upload(self, jar: str) -> str:
        """Uploads a jar, whatever its size, and returns its id."""
        with open(jar, "rb") as file:
            answer = self._call("POST", "/v1/jars/upload", form=file)
        return str(answer["filename"]).rpartition("/")[2]

    def run_jar(self, jar: str, entry: str, job: str) -> None:
        """Starts the job of an uploaded jar, under the id `job` (32 hex digits)."""
        self._call("POST", f"/v1/jars/{jar}/run", body={"entryClass": entry, "jobId": job})

    def delete_jar(self, jar: str) -> None:
        self._call("DELETE", f"/v1/jars/{jar}")

    def state(self, job: str) -> str:
        """RUNNING, FINISHED and the like, which costs Flink next to nothing. Raises as `status`."""
        return str(self._of_job("GET", job, "/status")["status"])

    def status(self, job: str) -> JobStatus:
        """Raises NoSuchJobError where the cluster does not know the job."""
        found = self._of_job("GET", job)
        state = str(found["state"])
        counts = {state: n for state, n in found["status-counts"].items() if n}
        # Flink gives the vertices, and why a job has failed, as they were up to 3 s ago
        # (web.refresh-interval); that a job is done it says at once, when asked for nothing else.
        now = self.state(job)
        if now in _DONE:
            state, counts = now, {now: sum(counts.values())}
        moved = [state, *sorted(counts.items())]
        moved += [sorted(vertex["metrics"].items()) for vertex in found["vertices"]]
        return JobStatus(
            id=str(found["jid"]),
            name=str(found["name"]),
            state=state,
            vertices=counts,
            moved=tuple(map(str, moved)),
            seconds=int(found["duration"]) / 1000,
        )

    def jobs(self) -> list[str]:
        """The ids of all jobs it knows."""
        return [str(job["jid"]) for job in self._call("GET", "/v1/jobs/overview")["jobs"]]

    def failure(self, job: str) -> str:
        """The stack traces of what failed the job or made it start again; '' where nothing did."""
        found = self._of_job("GET", job, "/exceptions")
        entries = found.get("exceptionHistory", {}).get("entries", ())
        # What a worker says comes first; what its end makes others say may be what failed the job.
        traces = [str(found.get("root-exception") or ""), *(str(e["stacktrace"]) for e in entries)]
        return "\n".join(sorted(filter(None, traces), key=lambda text: SAID_BY_WORKER not in text))

    def cancel(self, job: str) -> None:
        """Asks for the end of a job; `status` tells when it has come. Raises as `status`."""
        self._of_job("PATCH", job, "?mode=cancel")

    def _of_job(self, method: str, job: str, rest: str = "") -> Any:
        try:
            return self._call(method, f"/v1/jobs/{job}{rest}")
        except NoSuchJobError as error:
            raise NoSuchJobError(f"the cluster at {self.url} knows no job {job}") from error

    def _call(
        self, method: str, path: str, *, body: Any = None, form: IO[bytes] | None = None
    ) -> Any:
        parts = urllib.parse.urlsplit(self.url)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        timeout = _LONG_TIMEOUT if method == "POST" else _TIMEOUT
        connection = kinds[parts.scheme](parts.netloc, timeout=timeout)
        try:
            if form is None:
                data = None if body is None else json.dumps(body)
                connection.request(method, path, data, {"Content-Type": "application/json"})
            else:
                head, tail, headers = _form(form)
                connection.request(method, path, _joined(head, form, tail), headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(
                f"no Flink cluster answers at {self.url} ({_why(error)}): start it, or name its"
                " REST address with --flink-master"
            ) from error
        finally:
            connection.close()
        if response.status >= 400:
            kind = NoSuchJobError if response.status == 404 else ClusterError
            raise kind(f"Flink at {self.url} refuses {method} {path}: {_reason(text)}")
        try:
            return json.loads(text or "{}")
        except ValueError as error:
            raise ClusterError(
                f"what answers at {self.url} is not Flink's REST interface"
            ) from error


def _form(file: IO[bytes]) -> tuple[bytes, bytes, dict[str, str]]:
    """What stands before and after a file in a multipart form, and the headers of the request."""
    boundary = "recordmill-" + os.urandom(16).hex()
    head = (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="jarfile"; filename="recordmill.jar"\r\n'
        "Content-Type: application/x-java-archive\r\n\r\n"
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()
    size = len(head) + os.fstat(file.fileno()).st_size + len(tail)
    return head, tail, {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(size),
    }  # fmt: skip


def _joined(head: bytes, file: IO[bytes], tail: bytes) -> Iterator[bytes]:
    yield head
    while chunk := file.read(_CHUNK):
        yield chunk
    yield tail


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def _reason(text: str) -> str:
    """The cause in an error of Flink's: its last 'Caused by', or its first line."""
    try:
        errors = [str(error) for error in json.loads(text)["errors"]]
    except (ValueError, KeyError, TypeError):
        return text[:200].strip() or "no reason given"
    causes = re.findall(r"^Caused by: (.*)$", "\n".join(errors), re.MULTILINE)
    if causes:
        return str(causes[-1])
    return (max(errors, key=len).splitlines() or ["no reason given"])[0]
