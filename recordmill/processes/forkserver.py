"""A process that has imported what encoder processes need, and becomes each of them by forking.

To import NumPy, Arrow and an encoder takes half a second of a core; a fork takes milliseconds, and
shares their pages. It is asked through a connection: nothing, and a socket and shared memory for a
process that serves this exchange, answered by the process's id; the id of one that has ended for
how it ended, answered by its wait status. It ends with the connection, after those it forked, whose
CPU time then counts with that of the job. It starts no threads, so that a fork is a whole process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import pickle
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import NoReturn

from recordmill.processes.shared_memory import Exchange


def main_and_exit(descriptor: int, imports: Sequence[str]) -> NoReturn:
    """`main`, in a process that was forked for it."""
    code = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C reaches the whole group; what it means is for the parent to say
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        main(descriptor, imports)
        code = 0
    except BaseException:  # noqa: BLE001 (it must not become a second parent)
        traceback.print_exc()
    finally:
        os._exit(code)


def main(descriptor: int, imports: Sequence[str]) -> None:
    """Imports the modules and forks processes until the connection ends."""
    for module in imports:
        with contextlib.suppress(Exception):  # what fails here fails in the first task, and is told
            importlib.import_module(module)
    gc.freeze()  # pages that the collector does not write to stay shared
    control = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            ended = control.recv()
            control.send(_fork(control) if ended is None else os.waitpid(ended, 0)[1])
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _fork(control: Connection) -> int:
    pipe, memory = recv_handle(control), recv_handle(control)
    child = os.fork()
    if not child:
        control.close()
        _serve_and_exit(pipe, memory)
    os.close(pipe)
    os.close(memory)
    return child


def _serve_and_exit(pipe: int, memory: int) -> NoReturn:
    code = 1
    try:
        exchange = Exchange(Connection(pipe), memory)
        os.close(memory)
        _serve(exchange)
        code = 0
    except BaseException:  # noqa: BLE001 (it must not become a second nursery)
        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(exchange: Exchange) -> None:
    """The life of an encoder process: call what comes in, answer, end with the socket."""
    # C libraries print what they think of bad data; only a crash of the process itself is news.
    faulthandler.enable(os.fdopen(os.dup(2), "w"))
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    while True:
        try:
            task = exchange.receive()
        except (EOFError, ConnectionError):
            return
        try:
            function, args, kwargs = pickle.loads(task)
            answer = pickle.dumps((True, function(*args, **kwargs)), protocol=5)
        except Exception as error:  # noqa: BLE001  (all of it goes to the parent, which raises it)
            answer = _dump_error(error)
        try:
            exchange.send(answer)
        except ConnectionError:
            return


def _dump_error(error: Exception) -> bytes:
    """With its traceback as a note, as the traceback itself stays behind."""
    told = "".join(traceback.format_exception(error)).rstrip()
    note = f"In the encoder process {os.getpid()}:\n{told}"
    error.add_note(note)
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)  # an error whose __init__ takes other arguments fails only here
    except Exception as unpicklable:  # noqa: BLE001
        words = f"{type(error).__name__}: {error} (not picklable: {unpicklable})"
        stand_in = RuntimeError(words)
        stand_in.add_note(note)
        answer = pickle.dumps((False, stand_in))
    return answer
