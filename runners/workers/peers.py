"""Authentication of the callers of a worker pool: by user of this machine, or by a secret."""

from __future__ import annotations

import dataclasses
import hmac
import ipaddress
import os
import re
import secrets
import socket
import struct
import sys
import urllib.parse
from collections.abc import Mapping

PARAMETER = "recordmill-secret"
"""Name of the secret among the parameters of an EXTERNAL environment."""

JOB_PARAMETER = "recordmill-job"
"""Name of the id of the job among these: a pool runs all workers of a job in one process."""

_ESTABLISHED = 1
# A request for one socket, after sock_diag(7): header; family, protocol and states; ports and
# addresses; interface and cookie. The answer has family and state, and ends with user and inode.
_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_FAMILY = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH16s16s")
_ANY_SOCKET = struct.pack("=I8s", 0, b"\xff" * 8)
_ANSWER = struct.Struct("=BB 2x 48x 3I I I")
_PEER = re.compile(r"ipv[46]:(\[[^]]+\]|[^:]+):(\d+)")


def new_secret() -> str:
    """Return a secret that cannot be guessed."""
    return secrets.token_hex(32)


def has_secret(parameters: Mapping[str, str], secret: str | None) -> bool:
    """Return whether the parameters of a request hold the secret."""
    given = parameters.get(PARAMETER, "")
    return secret is not None and hmac.compare_digest(given.encode(), secret.encode())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Caller:
    """The other end of a connection.

    address: None if it is unknown. owner: user id of its socket, if it is on this machine; None for
      another machine, or a socket that its process has closed.
    """

    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None = None
    owner: int | None = None

    @classmethod
    def of(cls, peer: str, *, port: int) -> Caller:
        """Return the caller of a gRPC peer, such as ipv4:127.0.0.1:4711. port: of the pool.

        The kernel knows the owners of both ends of a connection inside the machine.
        """
        found = _PEER.fullmatch(urllib.parse.unquote(peer))
        if found is None or not sys.platform.startswith("linux"):
            return cls()
        address = ipaddress.ip_address(found[1].strip("[]"))
        return cls(address=address, owner=_owner(address, int(found[2]), port))

    @property
    def is_same_user(self) -> bool:
        """True for a process of this user, or of root, over loopback."""
        return self._is_loopback and self.owner in (0, os.geteuid())

    @property
    def is_known(self) -> bool:
        """True if equal callers are of one user of this machine, or of one other machine."""
        return self.address is not None and (self.owner is not None or not self._is_loopback)

    @property
    def _is_loopback(self) -> bool:
        return self.address is not None and self.address.is_loopback


def _owner(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, to_port: int
) -> int | None:
    """Return the user id of the socket at this address, which is connected to a port of ours."""
    answer = _diagnose(address, port, to_port)
    # A socket that its process has closed is listed as one of root's.
    if answer is not None:
        found_state, owner, open_inode = answer
        return owner if found_state == _ESTABLISHED and open_inode else None
    wanted = {_in_hex(address.packed, port)}
    if address.version == 4:  # a socket of both families lists it as ::ffff:127.0.0.1
        wanted.add(_in_hex(b"\0" * 10 + b"\xff\xff" + address.packed, port))
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/self/net/{name}") as table:
                lines = table.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            local, remote, state, user, inode = *fields[1:4], fields[7], fields[9]
            if local in wanted and remote.endswith(f":{to_port:04X}"):
                return int(user) if int(state, 16) == _ESTABLISHED and inode != "0" else None
    return None


def _diagnose(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, to_port: int
) -> tuple[int, int, int] | None:
    """Return (state, user id, inode) of the socket at this address, if its other end has this too.

    None if the kernel does not tell. To read /proc/net/tcp takes it 10 ms.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    ends = _PORTS.pack(port, to_port, address.packed, address.packed)
    request = _FAMILY.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends + _ANY_SOCKET
    size = _HEADER.size + len(request)
    header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.sendto(header + request, (0, 0))
            answer, (sender, _) = kernel.recvfrom(4096)
    except OSError:
        return None
    kind = _HEADER.unpack_from(answer)[1]
    if sender != 0 or kind != _SOCK_DIAG_BY_FAMILY:  # an error, such as an unknown socket
        return None
    _, state, *_, user, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return state, user, inode


def _in_hex(packed: bytes, port: int) -> str:
    """Return an address as in /proc/net/tcp: words of 4 bytes in the byte order of the machine."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
