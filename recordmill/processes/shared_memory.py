"""Message channel between two processes that take turns, through shared memory.

A socket transfers a large message in pieces, and the kernel copies it twice: messages of 4 MiB take
four times the CPU time that they take through shared memory.
"""

from __future__ import annotations

import mmap
import os
import pickle
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

    def pack(self, thing: object) -> bytes | int:
        """Pickle an object into the shared memory, and return what `send` takes.

        Large values are copied straight there. If the pickle is too long, it is returned. Messages
        that were received are invalid afterwards.
        """
        file = _MemoryFile(self._memory)
        try:
            pickle.dump(thing, file, protocol=pickle.HIGHEST_PROTOCOL)
        except _TooLongError:
            return pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
        return file.size

    def send(self, message: bytes | int) -> None:
        """Send a message, or the result of `pack`. Raises OSError if the other end is closed."""
        if isinstance(message, int):
            self._socket.send_bytes(_SIZE.pack(message))
            return
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


class _TooLongError(Exception):
    """More was written than the memory holds."""


class _MemoryFile:
    """The memory of a channel as a file to write to. size: bytes that were written."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        end = self.size + memoryview(data).nbytes
        if end > CAPACITY:
            raise _TooLongError
        self._memory[self.size : end] = data
        self.size = end
