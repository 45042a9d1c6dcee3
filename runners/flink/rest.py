"""Client for the parts of Flink's REST interface that are the same in all versions since 1.12."""

from __future__ import annotations

import base64
import collections
import dataclasses
import http.client
import ipaddress
import json
import os
import re
import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import IO, Any

from recordmill import strict_json
from recordmill.errors import ConfigError, RunError
from recordmill.option_names import option_name
from recordmill.runners.failures import WORKER_ERROR_PREFIX, parse_failure
from recordmill.runners.secret_files import read_secret

_CLEAN_END = frozenset({"FINISHED", "CANCELED"})
TERMINAL = _CLEAN_END | {"FAILED"}
_TIMEOUT = 30.0  # s, per request
_POST_TIMEOUT = 300.0  # s: uploading a jar and building a job from it take longer
_CANCEL_TIMEOUT = 10.0  # s
_CHUNK = 1 << 20  # bytes
_HEARTBEAT = "timeSinceLastHeartbeat"  # the time of the last heartbeat; 0 before the first
_UNAVAILABLE = (502, 503, 504)  # of a JobManager that starts, or of a proxy before it


class ClusterError(RunError):
    """The cluster is unreachable, or its response is invalid."""


class UnreachableError(ClusterError):
    """The cluster does not answer now.

    cause: the address and the reason, without advice.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"{cause}: start it, or give its REST address with {option_name('flink_master')}"
        )
        self.cause = cause


class RejectedError(ClusterError):
    """The cluster answered a request with an error."""


class NoSuchJobError(RejectedError):
    """The cluster does not know the job, or has already forgotten it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobStatus:
    """State of a job at one moment.

    state: Flink's name of it. vertices: number of tasks per state. activity: opaque value that
    changes whenever the job makes progress. seconds: time since its start. now: time of the
    cluster's clock, in seconds.
    """

    id: str
    name: str
    state: str
    vertices: Mapping[str, int]
    activity: tuple[Any, ...]
    seconds: float
    now: float = 0.0

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFailure:
    """A failure of a job.

    machine: host name of the TaskManager; '' if Flink names none, or if all run on this machine.
    """

    text: str
    machine: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskManager:
    """A TaskManager. silent: seconds since its last heartbeat."""

    host: str
    silent: float


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A Flink cluster, identified by the URL of its REST interface; holds no open connection.

    authorization: value of that header of HTTP. ca_file: certificates that may sign the server's,
    in PEM; None takes those of the system.
    """

    url: str
    authorization: str | None = dataclasses.field(default=None, repr=False, compare=False)
    ca_file: str | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def parse(
        cls, text: str, *, token_file: str | None = None, ca_file: str | None = None
    ) -> Cluster:
        """Parse `host:port`, optionally preceded by http:// or https://.

        token_file: holds a token, or USER:PASSWORD. ca_file: as in the class.

        Raises:
          ConfigError: the text is not such an address, or a file cannot be used.
        """
        found = re.fullmatch(r"(?:(https?)://)?([^/:\s]+|\[[0-9a-fA-F:]+\])(?::(\d+))?/*", text)
        if found is None or not 0 < int(found[3] or 8081) < 65536:
            raise ConfigError(f"{option_name('flink_master')}: expected HOST:PORT, got {text!r}")
        plain = cls(f"{found[1] or 'http'}://{found[2]}:{found[3] or 8081}")
        if found[1] != "https":
            if ca_file is not None:
                raise ConfigError(
                    f"{option_name('flink_ca_file')}: has no effect without https://, got {text!r}"
                )
            if token_file is not None and not plain.is_local:
                raise ConfigError(
                    f"{option_name('flink_token_file')}: would be sent unencrypted to {text}: give"
                    f" the cluster as {option_name('flink_master')} https://HOST:PORT"
                )
        if ca_file is not None:
            _tls_context(ca_file)
        authorization = None if token_file is None else _authorization(token_file)
        return dataclasses.replace(plain, authorization=authorization, ca_file=ca_file)

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.url).hostname or ""

    @property
    def is_local(self) -> bool:
        """True if the host name or address is a loopback one."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def version(self) -> str:
        """Return the major and minor version, such as 1.19."""
        full = str(self._call("GET", "/v1/config")["flink-version"])
        return ".".join(full.split(".")[:2])

    def free_slots(self) -> tuple[int, int, int]:
        """Return the number of free slots, of all slots, and of TaskManagers."""
        found = self._call("GET", "/v1/overview")
        return found["slots-available"], found["slots-total"], found["taskmanagers"]

    def task_managers(self, *, now: float) -> list[TaskManager]:
        """Return the TaskManagers. now: time of the cluster's clock (`JobStatus.now`)."""
        found = self._call("GET", "/v1/taskmanagers")["taskmanagers"]
        return [
            TaskManager(
                host=(re.findall(r"@([^/]+):", str(one["path"])) or [str(one["path"])])[0],
                silent=max(now - last, 0) if (last := int(one[_HEARTBEAT]) / 1000) else 0.0,
            )
            for one in found
        ]

    def class_path(self) -> frozenset[str] | None:
        """Return the names of the jars in the class path of the JobManager; None if unknown."""
        try:
            found = self._call("GET", "/v1/jobmanager/environment")
        except ClusterError:  # Flink before 1.15 does not report it
            return None
        return frozenset(path.rpartition("/")[2] for path in found.get("classpath", ()))

    def upload(self, jar: str) -> str:
        """Upload a jar in chunks and return its id."""
        with open(jar, "rb") as file:
            answer = self._call("POST", "/v1/jars/upload", form=file)
        return str(answer["filename"]).rpartition("/")[2]

    def run_jar(self, jar: str, entry: str, job: str) -> None:
        """Start the job of an uploaded jar under the id `job` (32 hexadecimal digits)."""
        self._call("POST", f"/v1/jars/{jar}/run", body={"entryClass": entry, "jobId": job})

    def restarts_tasks(self) -> bool:
        """Return whether the cluster restarts tasks that have failed, in batch jobs too."""
        found = self._call("GET", "/v1/jobmanager/config")
        settings = {str(one["key"]): str(one["value"]) for one in found}
        strategy = settings.get("restart-strategy.type") or settings.get("restart-strategy", "none")
        return strategy not in ("none", "off", "disable")

    def delete_jar(self, jar: str) -> None:
        self._call("DELETE", f"/v1/jars/{jar}")

    def state(self, job: str) -> str:
        """Return only the state, such as RUNNING, which is cheap. Raises like `status`."""
        return str(self._of_job("GET", job, "/status")["status"])

    def status(self, job: str) -> JobStatus:
        """Return the status of a job.

        Raises:
          NoSuchJobError: the cluster does not know the job.
        """
        found = self._of_job("GET", job)
        state = str(found["state"])
        counts = {state: n for state, n in found["status-counts"].items() if n}
        # The details and failures that Flink returns are up to 3 s old (web.refresh-interval);
        # the state alone is always current.
        now = self.state(job)
        if now in _CLEAN_END:
            state, counts = now, {now: sum(counts.values())}
        activity = [state, *sorted(counts.items())]
        # The other metrics are times, which also grow while a task makes no progress.
        activity += [
            [
                (name, value)
                for name, value in sorted(vertex["metrics"].items())
                if "-time" not in name
            ]
            for vertex in found["vertices"]
        ]
        return JobStatus(
            id=str(found["jid"]),
            name=str(found["name"]),
            state=state,
            vertices=counts,
            activity=tuple(map(str, activity)),
            seconds=int(found["duration"]) / 1000,
            now=int(found.get("now", 0)) / 1000,
        )

    def with_current_state(self, status: JobStatus) -> JobStatus:
        """Return an earlier status with the current state of its job: cheaper than `status`."""
        state = self.state(status.id)
        if state in TERMINAL - _CLEAN_END:
            return self.status(status.id)  # the causes of a failure are as old as its details
        return dataclasses.replace(status, state=state)

    def running_on(self, job: str) -> dict[str, int]:
        """Return {host of a TaskManager: number of tasks that run there now}."""
        running: collections.Counter[str] = collections.Counter()
        for vertex in self._of_job("GET", job)["vertices"]:
            if vertex["tasks"].get("RUNNING"):
                found = self._of_job("GET", job, f"/vertices/{vertex['id']}")["subtasks"]
                running.update(
                    str(one.get("endpoint") or one.get("host") or "").partition(":")[0]
                    for one in found
                    if one["status"] == "RUNNING"
                )
        return dict(sorted(running.items()))

    def jobs(self) -> list[str]:
        """Return the ids of all jobs that the cluster knows."""
        return [str(job["jid"]) for job in self._call("GET", "/v1/jobs/overview")["jobs"]]

    def failures(self, job: str) -> list[TaskFailure]:
        """Return the failures after which a job was restarted, and its last; newest first."""
        found = self._of_job("GET", job, "/exceptions")
        return [
            TaskFailure(
                text=str(entry["stacktrace"]), machine="" if self.is_local else _machine(entry)
            )
            for entry in found.get("exceptionHistory", {}).get("entries", ())
        ]

    def failed_machine(self, job: str) -> str:
        """Return the host of the TaskManager where a job failed last, as in `TaskFailure`."""
        # A worker's own exception comes first, as in `failure`.
        found = sorted(self.failures(job), key=lambda one: WORKER_ERROR_PREFIX not in one.text)
        return next((one.machine for one in found if one.machine), "")

    def failure(self, job: str) -> str:
        """Return the stack traces of all failures of a job, or '' if there were none."""
        found = self._of_job("GET", job, "/exceptions")
        entries = found.get("exceptionHistory", {}).get("entries", ())
        # A worker's own exception comes first: errors that follow from its end may be reported as
        # the cause of the job's failure.
        traces = [str(found.get("root-exception") or ""), *(str(e["stacktrace"]) for e in entries)]
        return "\n".join(
            sorted(filter(None, traces), key=lambda text: WORKER_ERROR_PREFIX not in text)
        )

    def failure_cause(self, job: str) -> str:
        """Return the root cause of a job's last failure in one line, or '' if it has not failed."""
        text = self.failure(job)
        failure = parse_failure(text)
        return "" if not text else str(failure) if failure else text.splitlines()[0]

    def is_running(self, job: str) -> bool:
        """Return whether the cluster still works on a job.

        Raises:
          ClusterError: the cluster does not answer.
        """
        try:
            return not self.status(job).ended
        except NoSuchJobError:
            return False

    def request_cancel(self, job: str) -> None:
        """Request the cancellation of a job without waiting for it. Raises like `status`."""
        self._of_job("PATCH", job, "?mode=cancel")

    def cancel(self, job: str) -> JobStatus:
        """Cancel a job, wait until it has ended, and return its status.

        A job that has already ended is left as it is.

        Raises:
          NoSuchJobError: the cluster does not know the job.
          RunError: the job has not ended within 10 s.
        """
        try:
            self.request_cancel(job)
        except NoSuchJobError:
            raise
        except ClusterError:  # Flink answers with a conflict if the job has already ended
            if not self.status(job).ended:
                raise
        deadline = time.monotonic() + _CANCEL_TIMEOUT
        while not (status := self.status(job)).ended:
            if time.monotonic() > deadline:
                raise RunError(
                    f"the Flink job {job} is still {status.state} {_CANCEL_TIMEOUT:g} s after its"
                    " cancellation was requested"
                )
            time.sleep(0.2)
        return status

    def _of_job(self, method: str, job: str, rest: str = "") -> Any:
        try:
            return self._call(method, f"/v1/jobs/{job}{rest}")
        except NoSuchJobError as error:
            raise NoSuchJobError(f"the cluster at {self.url} knows no job {job}") from error

    def _call(
        self, method: str, path: str, *, body: Any = None, form: IO[bytes] | None = None
    ) -> Any:
        parts = urllib.parse.urlsplit(self.url)
        timeout = _POST_TIMEOUT if method == "POST" else _TIMEOUT
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            tls = _tls_context(self.ca_file)
            connection = http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=tls)
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
        secret = {} if self.authorization is None else {"Authorization": self.authorization}
        try:
            if form is None:
                data = None if body is None else strict_json.to_text(body)
                connection.request(
                    method, path, data, secret | {"Content-Type": "application/json"}
                )
            else:
                head, tail, headers = _multipart(form)
                connection.request(method, path, _chunks(head, form, tail), secret | headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            cause = f"no Flink cluster answers at {self.url} ({_describe(error)})"
            if isinstance(error, ssl.SSLCertVerificationError):
                raise ClusterError(cause) from error
            raise UnreachableError(cause) from error
        finally:
            connection.close()
        if response.status in (401, 403):
            raise ClusterError(
                f"Flink at {self.url} rejected {method} {path}: it asks for a user or a token"
                f" ({response.status}); give it in the file of {option_name('flink_token_file')}"
            )
        if response.status in _UNAVAILABLE:
            raise UnreachableError(
                f"the Flink cluster at {self.url} is not available ({response.status}:"
                f" {_error_cause(text)})"
            )
        if response.status >= 400:
            rejection = NoSuchJobError if response.status == 404 else RejectedError
            raise rejection(f"Flink at {self.url} rejected {method} {path}: {_error_cause(text)}")
        try:
            return json.loads(text or "{}")
        except ValueError as error:
            raise ClusterError(
                f"expected Flink's REST interface at {self.url}, got a response that is not JSON"
            ) from error


def _machine(failure: Mapping[str, Any]) -> str:
    """Return the host of the TaskManager of an entry in the history of failures, or ''."""
    every = (failure, *failure.get("concurrentExceptions", ()))
    places = [str(one["endpoint"]) for one in every if one.get("endpoint")]
    return places[0].rpartition(":")[0] if places else ""


def _authorization(token_file: str) -> str:
    """Return the header for the token, or the USER:PASSWORD, in a file. Raises ConfigError."""
    text = read_secret(token_file, option=option_name("flink_token_file"), fewest=1)
    if ":" in text:
        return f"Basic {base64.b64encode(text.encode()).decode()}"
    return f"Bearer {text}"


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one, too
        raise ConfigError(
            f"{option_name('flink_ca_file')}: expected certificates in PEM in {ca_file}, got:"
            f" {_describe(error)}"
        ) from error


def _multipart(file: IO[bytes]) -> tuple[bytes, bytes, dict[str, str]]:
    """Return the prefix and the suffix of a file in a multipart form, and the request's headers."""
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


def _chunks(head: bytes, file: IO[bytes], tail: bytes) -> Iterator[bytes]:
    yield head
    while chunk := file.read(_CHUNK):
        yield chunk
    yield tail


def _describe(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"certificate verify failed: {error.verify_message}; see {option_name('flink_ca_file')}"
        )
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def _error_cause(text: str) -> str:
    """Return the last 'Caused by' of an error response, or its first line."""
    try:
        errors = [str(error) for error in json.loads(text)["errors"]]
    except (ValueError, KeyError, TypeError):
        return text[:200].strip() or "no reason given"
    causes = re.findall(r"^Caused by: (.*)$", "\n".join(errors), re.MULTILINE)
    if causes:
        return str(causes[-1])
    return (max(errors, key=len).splitlines() or ["no reason given"])[0]
