"""A function that crashes its process; in a module of few imports, as new processes import it."""

import os
import signal


def probe(name: str) -> str:
    """Read a header, as it were: that of `crash` crashes, and that of `grow` takes 300 MiB."""
    if name == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "grow":
        grown = bytearray(os.urandom(1 << 20) * 300)
        signal.pause()
        del grown
    return name.upper()
