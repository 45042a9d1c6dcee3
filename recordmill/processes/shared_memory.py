"""Messages between two processes that take turns, through memory that both of them see.

A socket would be told of every message in pieces, and the kernel copies each twice: for results of
4 MiB that is four times the CPU time.
"""

from __future__ import annotations

import mmap
import os
import struct
from multiprocessing.connection import Connection

ROOM = 16 << 20  # bytes; longer messages go by socket. Only what was ever used takes memory.

_SIZE = struct.Struct("<Q")


def shared_memory() -> int:
    """A descriptor of memory for both ends of an exchange."""
    descriptor = os.memfd_create("recordmill")
    os.ftruncate(descriptor, ROOM)
    return descriptor


class Exchange:
    """One of the two ends. The other one may send only when it has received."""

    def __init__(self, pipe: Connection, memory: int) -> None:
        self._pipe = pipe
        self._memory = mmap.mmap(memory, ROOM)

    def send(self, message: bytes) -> None:
        """Raises OSError where nobody is there to receive it."""
        size = len(message)
        if size <= ROOM:
            self._memory[:size] = message
        self._pipe.send_bytes(_SIZE.pack(size))
        if size > ROOM:
            self._pipe.send_bytes(message)

    def receive(self) -> bytes | memoryview:
        """A message, which stays until the next one is sent.

        Raises EOFError or OSError where nobody is there to send it.
        """
        (size,) = _SIZE.unpack(self._pipe.recv_bytes())
        return memoryview(self._memory)[:size] if size <= ROOM else self._pipe.recv_bytes()
