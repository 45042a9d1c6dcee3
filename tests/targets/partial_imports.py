"""Single modules of large packages, imported without what their functions under test never call.

The packages are installed without their dependencies, which would be gigabytes and a MongoDB.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator


def register_packages(*names: str) -> None:
    """Register packages without running their `__init__`, which would import all of them.

    names: parents before their children.
    """
    for name in names:
        parent, _, _ = name.rpartition(".")
        paths = sys.modules[parent].__path__ if parent else None
        spec = importlib.machinery.PathFinder.find_spec(name, paths)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(f"no package {name}: run make test-targets")
        module = types.ModuleType(name)
        module.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = module


class _AnyType(type):
    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Anything(metaclass=_AnyType):
    """A class, decorator or value that only import statements and class bodies use."""

    def __init__(self, *args, **kwargs) -> None:
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if args and callable(args[0]) else self

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Placeholder(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return _Placeholder(spec.name)

    def exec_module(self, module):
        pass


@contextlib.contextmanager
def placeholders(*names: str) -> Iterator[None]:
    """Make absent packages importable inside, for their importers: all in them does nothing."""
    absent = frozenset(name for name in names if importlib.util.find_spec(name) is None)
    finder = _Finder(absent)
    sys.meta_path.append(finder)
    yield
    sys.meta_path.remove(finder)
    for name in list(sys.modules):
        if name.partition(".")[0] in absent:
            del sys.modules[name]
