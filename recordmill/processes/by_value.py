"""Pickles for other processes, which cannot import the script that is run.

Classes and functions of the main module, and those that are defined inside of functions, are
pickled by value, together with what they use of their module. Everything else is pickled as
`pickle` does it.
"""

from __future__ import annotations

import io
import pickle
import sys
from types import FunctionType
from typing import Any


def is_local(thing: type | FunctionType) -> bool:
    """Return whether other processes cannot import a class or function by its name."""
    module = thing.__module__
    return module == "__main__" or module not in sys.modules or "<" in thing.__qualname__


class Pickler(pickle.Pickler):
    """Pickles classes and functions by value where other processes cannot import them."""

    def reducer_override(self, thing: object) -> Any:
        """Return how to pickle an object; NotImplemented for the usual way."""
        if isinstance(thing, type | FunctionType) and is_local(thing):
            # Imported here because few processes need it.
            import cloudpickle

            return pickle.loads, (cloudpickle.dumps(thing),)
        return NotImplemented


def dumps(thing: object) -> bytes:
    """Return the pickle of an object, which `pickle.loads` reads."""
    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
    return file.getvalue()
