"""Hosts of a network that this machine plays: network namespaces, joined by a bridge.

Each host has an address, a name, and a /tmp that no other host sees. Of /root and the like its
users see only this repository and its Python. Its CPU can be limited by a control group. All of it
takes root. Leftovers of a run that was killed are removed when the next one starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Self

from benchmarks.flink_cluster import command_line, wait_until
from benchmarks.measure import ROOT

_PREFIX = "recordmill-cluster-"
_SUBNET = "10.77.0"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FOLDERS = pathlib.Path(tempfile.gettempdir())
_TMP = pathlib.Path("/tmp")
_CLONE_NEWNET = 0x40000000
_PERIOD = 20_000  # µs, in which the kernel grants a limited host its share of CPU


class Network:
    """Starts and ends with its `with` block, with all processes on its hosts.

    names: of the hosts; they know each other by these.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._lock: IO[bytes] | None = None
        self.folder = pathlib.Path()
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        _check_rights()
        _remove_leftovers()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_FOLDERS))
        self._lock = _lock(self.folder)
        self.folder.chmod(0o755)
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _remove(self.folder)
        if self._lock is not None:
            self._lock.close()

    def _make(self) -> None:
        switch = f"{self.folder.name}-switch"
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        addresses = {name: f"{_SUBNET}.{at}" for at, name in enumerate(self._names, 1)}
        known = "".join(f"{address} {name}\n" for name, address in addresses.items())
        for at, (name, address) in enumerate(addresses.items(), 1):
            host = Host(name, address, port=f"port{at}", switch=switch, folder=self.folder / name)
            self.hosts[name] = host
            host.make(f"127.0.0.1 localhost\n{known}")


class Host:
    """A network namespace, and folders that its processes see as theirs."""

    def __init__(
        self, name: str, address: str, *, port: str, switch: str, folder: pathlib.Path
    ) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self.tmp = folder / "tmp"  # /tmp of its processes
        self._namespace = f"{folder.parent.name}-{name}"
        self._port = port
        self._switch = switch

    def make(self, known_hosts: str) -> None:
        """Make the namespace, its link to the bridge, and the folders."""
        _ip("netns", "add", self._namespace)
        link = ("link", "add", "eth0", "netns", self._namespace, "type", "veth")
        _ip(*link, "peer", "name", self._port, "netns", self._switch)
        _ip("-n", self._switch, "link", "set", self._port, "master", "bridge", "up")
        _ip("-n", self._namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", self._namespace, "link", "set", device, "up")
        self.tmp.mkdir(parents=True)
        self.tmp.chmod(0o1777)
        (self.folder / "hosts").write_text(known_hosts)
        (self.folder / "resolv.conf").touch()
        commands = [f"echo {self.name} >/proc/sys/kernel/hostname"]
        etc = pathlib.Path("/etc")
        commands += [_bind(self.folder / name, etc / name) for name in ("hosts", "resolv.conf")]
        commands += _mounts(self.folder)
        commands.append('cd /tmp; exec "$@"')
        (self.folder / "enter.sh").write_text("set -e\n" + "\n".join(commands) + "\n")

    def start(
        self,
        *command: str,
        user: int,
        environment: Mapping[str, str] | None = None,
        stdout: IO[bytes] | int,
        stderr: IO[bytes] | int,
    ) -> subprocess.Popen[bytes]:
        """Start a command as a user, by number, of this host; it inherits nothing."""
        setting = {"PATH": _PATH, "HOME": "/tmp", "LANG": "C.UTF-8", **(environment or {})}
        as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        return subprocess.Popen(
            ["ip", "netns", "exec", self._namespace, "unshare", "--mount", "--uts",
             "bash", str(self.folder / "enter.sh"), *as_user, *command],
            env=setting, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip

    def write(self, path: str, content: bytes, *, user: int) -> str:
        """Write a file that only a user of this host may read, and return its path there."""
        file = self.tmp / path.removeprefix("/tmp/")
        file.write_bytes(content)
        os.chown(file, user, user)
        file.chmod(0o600)
        return path

    def processes(self, *patterns: str) -> list[int]:
        """Return the ids of this host's processes with one of these in their command line."""
        pids = map(int, _ip("netns", "pids", self._namespace).split())
        return [pid for pid in pids if any(pattern in command_line(pid) for pattern in patterns)]

    def kill(self) -> None:
        """SIGKILL for all processes of this host, as if its power was cut."""
        _kill(self._namespace)

    def limit(self, cores: float) -> None:
        """Limit the processes that run on this host now, and their children, to a share of CPU."""
        root = _cpu_groups()
        if root is None:
            raise RuntimeError("no control groups for CPU are mounted, in version 1 or 2")
        group = root / self._namespace
        quota = str(round(cores * _PERIOD))
        if (controllers := root / "cgroup.subtree_control").exists():  # version 2
            controllers.write_text("+cpu")
            group.mkdir(exist_ok=True)
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            group.mkdir(exist_ok=True)
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(quota)
        members = group / "cgroup.procs"
        # A process may start others while it is moved.
        while outside := {*self.processes("")} - {*map(int, members.read_text().split())}:
            for pid in outside:
                with contextlib.suppress(ProcessLookupError):
                    members.write_text(str(pid))

    def connect(self) -> None:
        _ip("-n", self._switch, "link", "set", self._port, "up")

    def disconnect(self) -> None:
        """Drop all packets from and to this host, without a word to either side."""
        _ip("-n", self._switch, "link", "set", self._port, "down")

    @contextlib.contextmanager
    def deaf(self, *others: Host) -> Iterator[None]:
        """Inside the block, packets from these hosts to this one vanish; those it sends arrive."""
        nowhere = ("lladdr", "02:00:00:00:00:01", "dev", "eth0")
        for other in others:
            neighbor = ("-n", other._namespace, "neigh")
            _ip(*neighbor, "replace", self.address, *nowhere, "nud", "permanent")
        try:
            yield
        finally:
            for other in others:
                _ip("-n", other._namespace, "neigh", "del", self.address, "dev", "eth0")

    def listen(self, port: int) -> socket.socket:
        """Return a socket that listens on this host, for a thread of this process to serve."""
        with self.entered():
            return socket.create_server((self.address, port), backlog=512)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside the block, sockets that this thread makes belong to this host."""
        with (
            open("/proc/thread-self/ns/net") as before,
            open(f"/run/netns/{self._namespace}") as there,
        ):
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _check_rights() -> None:
    """Fail unless namespaces can be made here."""
    if os.geteuid() != 0:
        raise RuntimeError(
            "make cluster-test makes network namespaces, which takes root: sudo make"
        )
    for program in ("ip", "unshare", "setpriv", "mount"):
        if shutil.which(program) is None:
            raise RuntimeError(
                f"make cluster-test needs {program}: install iproute2, util-linux and mount"
            )
    probe = f"{_PREFIX}probe-{os.getpid()}"
    try:
        _ip("netns", "add", probe)
        try:
            _ip("netns", "exec", probe, "unshare", "--mount", "--uts", "true")
            _ip("-n", probe, "link", "add", "bridge", "type", "bridge")
            _ip("-n", probe, "link", "add", "one", "type", "veth", "peer", "name", "two")
        finally:
            _ip("netns", "del", probe)
    except RuntimeError as error:
        raise RuntimeError(
            "make cluster-test: this machine makes no network namespaces with bridges and veth"
            f" pairs ({error}): run it as root with CAP_SYS_ADMIN and CAP_NET_ADMIN, as"
            " in a container that is started with --privileged"
        ) from error


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {shlex.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _lock(folder: pathlib.Path) -> IO[bytes] | None:
    """Lock a folder while the returned file is open; None if another process holds it."""
    file = (folder / "lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _remove_leftovers() -> None:
    """Remove the networks of runs that have ended without doing so."""
    for folder in _FOLDERS.glob(f"{_PREFIX}*"):
        if (folder / "lock").exists() and (lock := _lock(folder)) is not None:
            _remove(folder)
            lock.close()


def _remove(folder: pathlib.Path) -> None:
    names = [line.split()[0] for line in _ip("netns", "list").splitlines() if line]
    for name in names:
        if name.startswith(f"{folder.name}-"):
            _kill(name)
            _ip("netns", "del", name)
    if (groups := _cpu_groups()) is not None:
        for group in groups.glob(f"{folder.name}-*"):
            wait_until(functools.partial(_is_removed, group), f"the end of {group}")
    shutil.rmtree(folder, ignore_errors=True)


def _is_removed(group: pathlib.Path) -> bool:
    """Remove a control group, unless processes that were killed are still ending in it."""
    try:
        group.rmdir()
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def _cpu_groups() -> pathlib.Path | None:
    """Return the root of the control groups that limit CPU; None if there are none."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        kind, _, options = line.partition(" - ")[2].split(" ")
        root = pathlib.Path(line.split(" ")[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            return root
        if kind == "cgroup2" and "cpu" in (root / "cgroup.controllers").read_text().split():
            return root
    return None


def _kill(namespace: str) -> None:
    # A process may start others while it is killed.
    while pids := _ip("netns", "pids", namespace).split():
        for pid in map(int, pids):
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _mounts(folder: pathlib.Path) -> Iterator[str]:
    """Yield commands that give a host its own /tmp, and show what its processes need."""
    needed = {ROOT, pathlib.Path(sys.base_prefix), pathlib.Path(sys.prefix)}
    hidden = {}
    for path in needed:
        for parent in reversed(path.parents[:-1]):
            if parent not in hidden and parent != _TMP and not parent.stat().st_mode & 0o001:
                hidden[parent] = folder / f"instead{len(hidden)}"
                break
    hidden[_TMP] = folder / "tmp"  # last, as it hides the folder itself
    for parent, instead in hidden.items():
        instead.mkdir(exist_ok=True)
        for path in sorted(path for path in needed if path.is_relative_to(parent)):
            shown = instead / path.relative_to(parent)
            shown.mkdir(parents=True, exist_ok=True)
            yield _bind(path, shown)
        yield f"mount --rbind {shlex.quote(str(instead))} {shlex.quote(str(parent))}"


def _bind(source: pathlib.Path, target: pathlib.Path) -> str:
    return f"mount --bind {shlex.quote(str(source))} {shlex.quote(str(target))}"
