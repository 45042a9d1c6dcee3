"""Channel for the tasks and results of a child process, through shared memory.

A socket transfers a large message in pieces, and the kernel copies it twice: messages of 4 MiB take
four times the CPU time that they take through shared memory.

The memory has several slots. A task and its result share one. A result may lend its large data:
they are made in the slot and used there by the other end, which reuses the slot once nothing refers
to them any more. A copy of 4 MiB into new memory would cost as much as writing it to a file.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import struct
import weakref
from multiprocessing.connection import Connection
from typing import Any

from recordmill.processes import by_value

SLOT_BYTES = 16 << 20  # longer messages use the socket. Only pages that were used take memory.
_SLOTS = 4  # one task runs at a time, so three results may be lent
CAPACITY = _SLOTS * SLOT_BYTES
_LEAST_LENT = 1 << 16  # bytes; less is copied in less time than a slot is managed

_HEADER = struct.Struct("<QQQ")  # slot of a message, its start there, and its size
_BY_SOCKET = SLOT_BYTES  # start of a message that does not fit the slot

_SlotArray = ctypes.c_ubyte * SLOT_BYTES
_Place = tuple[int, int]  # start and stop of data in a slot


def create_shared_memory() -> int:
    """Return a descriptor of new memory for both ends of a channel."""
    # No file in /dev/shm, which containers often limit to 64 MB.
    descriptor = os.memfd_create("recordmill")
    os.ftruncate(descriptor, CAPACITY)
    return descriptor


def allocate(size: int) -> bytearray | memoryview:
    """Return memory for large data of the result of a task.

    In a child process it is lent to the process that reads the result, if the slot has room, and
    arrives there as a read-only memoryview. It must be in the result as it is, not as a slice.
    """
    lent = None if _child is None else _child.lend(size)
    return bytearray(size) if lent is None else lent


class _Channel:
    """One end of a channel.

    socket: signals the place of each message to the other end.
    memory: descriptor from create_shared_memory; may be closed afterwards.
    """

    def __init__(self, socket: Connection, memory: int) -> None:
        self._socket = socket
        self._memory = mmap.mmap(memory, CAPACITY)

    def close(self) -> None:
        """Close the socket; the memory is freed with the last reference to data that were lent."""
        self._socket.close()

    def _send(self, slot: int, message: bytes | int, *, start: int = 0) -> None:
        """Send a message that is in the slot already, by its size and start, or copy it there."""
        if isinstance(message, int):
            self._socket.send_bytes(_HEADER.pack(slot, start, message))
            return
        size = len(message)
        if size > SLOT_BYTES:
            self._socket.send_bytes(_HEADER.pack(slot, _BY_SOCKET, size))
            self._socket.send_bytes(message)
            return
        first = slot * SLOT_BYTES
        self._memory[first : first + size] = message
        self._socket.send_bytes(_HEADER.pack(slot, 0, size))

    def _receive(self) -> tuple[int, int, bytes | memoryview]:
        """Return slot and start of the next message, and the message.

        Raises:
          EOFError, OSError: the other end is closed.
        """
        slot, start, size = _HEADER.unpack(self._socket.recv_bytes())
        if start == _BY_SOCKET:
            return slot, start, self._socket.recv_bytes()
        first = slot * SLOT_BYTES + start
        return slot, start, memoryview(self._memory)[first : first + size]


class ParentChannel(_Channel):
    """The end that sends tasks and gets results, one at a time."""

    def __init__(self, socket: Connection, memory: int) -> None:
        super().__init__(socket, memory)
        self._free = [*range(_SLOTS)]  # last in, first out: its pages exist

    def call(self, task: object) -> Any:
        """Send a task, and return the result. task: a picklable object, or its pickle.

        Data that the result lends are read-only views of the shared memory. If no other slot is
        free, they are copied, so that there is one for the next task.

        Raises:
          EOFError, OSError: the other end is closed.
        """
        slot = self._free.pop()  # there is one: the last is not lent
        # The slot is free again with the last view of it, that is, here if nothing is lent.
        whole = _SlotArray.from_buffer(self._memory, slot * SLOT_BYTES)
        weakref.finalize(whole, self._free.append, slot).atexit = False
        if isinstance(task, bytes):
            message: bytes | int = task
        else:
            message = _dump(task, _SlotFile(self._memory, slot, 0))
        self._send(slot, message)
        _, start, result = self._receive()
        if start in (0, _BY_SOCKET):
            return pickle.loads(result)
        view = memoryview(whole).cast("B").toreadonly()
        return _Unpickler(io.BytesIO(result), view, copy=not self._free).load()


class ChildChannel(_Channel):
    """The end that gets tasks and sends their results."""

    def __init__(self, socket: Connection, memory: int) -> None:
        global _child
        super().__init__(socket, memory)
        self._slot = 0
        self._used = 0  # bytes at the beginning of the slot that are lent
        self._lent: list[tuple[memoryview, _Place]] = []
        _child = self

    def receive(self) -> bytes | memoryview:
        """Return the pickle of the next task, which is valid until memory is lent or sent.

        Raises:
          EOFError, OSError: the other end is closed.
        """
        self._used = 0
        self._lent.clear()
        self._slot, _, message = self._receive()
        return message

    def lend(self, size: int) -> memoryview | None:
        """Return memory of the slot; None for few bytes, or if there is no room."""
        start, stop = self._used, self._used + size
        if size < _LEAST_LENT or stop > SLOT_BYTES - _LEAST_LENT:
            return None
        self._used = stop
        first = self._slot * SLOT_BYTES
        view = memoryview(self._memory)[first + start : first + stop]
        self._lent.append((view, (start, stop)))
        return view

    def pack(self, result: object) -> bytes | int:
        """Pickle a result into the slot, and return what `send` takes.

        Large values are copied straight there. If the pickle is too long, it is returned.
        """
        return _dump(result, _SlotFile(self._memory, self._slot, self._used), self._lent)

    def send(self, message: bytes | int) -> None:
        """Send the result of `pack`, or a pickle. Raises OSError if the other end is closed."""
        self._send(self._slot, message, start=self._used)


_child: ChildChannel | None = None  # of this process, if it is a child


def _dump(
    thing: object, file: _SlotFile, lent: list[tuple[memoryview, _Place]] | None = None
) -> bytes | int:
    """Pickle into a slot, and return the size; if it is too long, return the pickle.

    lent: data that a result lends; None for a task.
    """
    try:
        if lent is None:
            by_value.Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
        elif lent:
            _Pickler(file, lent).dump(thing)
        else:
            pickle.dump(thing, file, protocol=pickle.HIGHEST_PROTOCOL)
    except _TooLongError:
        whole = io.BytesIO()
        _Pickler(whole, []).dump(thing)
        return whole.getvalue()
    return file.size


class _Pickler(by_value.Pickler):
    """Pickles data that are lent as their place, and other views as bytes."""

    def __init__(self, file: io.BytesIO | _SlotFile, lent: list[tuple[memoryview, _Place]]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._places = {id(view): place for view, place in lent}

    def persistent_id(self, thing: object) -> _Place | None:
        return self._places.get(id(thing)) if type(thing) is memoryview else None

    def reducer_override(self, thing: object) -> Any:
        if type(thing) is memoryview:
            return bytes, (bytes(thing),)
        return super().reducer_override(thing)


class _Unpickler(pickle.Unpickler):
    """Replaces places by views of the slot, or by copies."""

    def __init__(self, file: io.BytesIO, slot: memoryview, *, copy: bool) -> None:
        super().__init__(file)
        self._slot = slot
        self._copy = copy

    def persistent_load(self, place: _Place) -> bytes | memoryview:
        start, stop = place
        data = self._slot[start:stop]
        return bytes(data) if self._copy else data


class _TooLongError(Exception):
    """More was written than the slot holds."""


class _SlotFile:
    """A slot as a file to write to, from a place on. size: bytes that were written."""

    def __init__(self, memory: mmap.mmap, slot: int, start: int) -> None:
        self._memory = memory
        self._at = slot * SLOT_BYTES + start
        self._end = (slot + 1) * SLOT_BYTES
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        size = memoryview(data).nbytes
        if self._at + size > self._end:
            raise _TooLongError
        self._memory[self._at : self._at + size] = data
        self._at += size
        self.size += size
