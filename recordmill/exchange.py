"""Values between processes, as pickles with large buffers beside them.

What offers its memory to pickle, as Arrow's buffers and NumPy's arrays do, is sent from where it
lies and received where it stays; nothing copies it but the kernel.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

Message = Sequence[bytes | memoryview]  # the pickle, and the buffers that it leaves out

_SMALL = 1 << 14  # bytes up to which a buffer goes within the pickle
_SIZE = struct.Struct("<Q")


def dump(value: Any) -> Message:
    """Raises what pickle raises. Buffers are not copied: they must stay as they are until sent."""
    beside: list[memoryview] = []

    def goes_within(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes <= _SMALL:
            return True
        beside.append(raw)
        return False

    return [pickle.dumps(value, protocol=5, buffer_callback=goes_within), *beside]


def load(message: Message) -> Any:
    """The value that was dumped."""
    return pickle.loads(message[0], buffers=message[1:])


def send(end: socket.socket, message: Message) -> None:
    """Raises OSError where nobody is there to receive it."""
    sizes = [len(part) for part in message]
    head = b"".join([_SIZE.pack(len(sizes)), *map(_SIZE.pack, sizes)])
    end.sendall(head + message[0])
    for part in message[1:]:
        end.sendall(part)


def receive(end: socket.socket) -> Message:
    """Raises EOFError or OSError where nobody is there to send it."""
    (count,) = _SIZE.unpack(_read(end, _SIZE.size))
    sizes = _read(end, count * _SIZE.size)
    return [_read(end, size) for (size,) in _SIZE.iter_unpack(sizes)]


def _read(end: socket.socket, size: int) -> memoryview:
    data = memoryview(bytearray(size))
    done = 0
    while done < size:
        got = end.recv_into(data[done:], 0, socket.MSG_WAITALL)
        if not got:
            raise EOFError
        done += got
    return data
