"""Message channel between two processes that take turns, through shared memory.

A socket transfers a large message in pieces, and the kernel copies it twice: messages of 4 MiB take
four times the CPU time that they take through shared memory.
"""

from __future__ import annotations

import mmap
import os
import struct
from multiprocessing.connection import Connection

CAPACITY = 16 << 20  # bytes; longer messages use the socket. Only pages that were used take memory.

_SIZE = struct.Struct("<Q")


def create_shared_memory() -> int:
    """Return a descriptor of new memory for both ends of a channel."""
    # No file in /dev/shm, which containers often limit to 64 MB.
    descriptor = os.memfd_create("recordmill")
    os.ftruncate(descriptor, CAPACITY)
    return descriptor


class SharedMemoryChannel:
    """One end of a channel. An end may send a message only after it has received one.

    socket: signals the size of each message to the other end.
    memory: descriptor from create_shared_memory; may be closed afterwards.
    """

    def __init__(self, socket: Connection, memory: int) -> None:
        self._socket = socket
        self._memory = mmap.mmap(memory, CAPACITY)

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError if the other end is closed."""
        size = len(message)
        if size <= CAPACITY:
            self._memory[:size] = message
        self._socket.send_bytes(_SIZE.pack(size))
        if size > CAPACITY:
            self._socket.send_bytes(message)

    def receive(self) -> bytes | memoryview:
        """Return the next message, which is valid until this end sends one.

        Raises:
          EOFError, OSError: the other end is closed.
        """
        (size,) = _SIZE.unpack(self._socket.recv_bytes())
        if size > CAPACITY:
            return self._socket.recv_bytes()
        return memoryview(self._memory)[:size]

    def close(self) -> None:
        """Close the socket; the memory is freed with the last reference to a message."""
        self._socket.close()
