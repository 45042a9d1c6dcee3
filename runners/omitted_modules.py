"""Modules that Beam imports and jobs hardly need: omitted, or imported only when they are used.

Each function returns replacements as {name: module}, which `beam_patches.permanent_imports` puts
into `sys.modules` while Beam is imported. The import of a name whose replacement is None raises an
ImportError. The figures are seconds of CPU per job, from docs/adr/0027-patches-of-beam.md.
"""

from __future__ import annotations

import functools
import importlib
import sys
from abc import ABCMeta
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def omit_s3() -> dict[str, Any]:
    """Omit Beam's own access to S3: apache_beam.io.filesystems works without it.

    Saves 0.11 s if boto3 is installed; recordmill reads S3 by Arrow. Checked with Beam 2.77.0.
    """
    return {"apache_beam.io.aws.s3filesystem": None}


def omit_bigquery() -> dict[str, Any]:
    """Omit the connector of BigQuery: apache_beam.io works without it.

    Saves 0.06 s: it imports the clients of other services of Google. Checked with Beam 2.77.0.
    """
    return {"apache_beam.io.gcp.bigquery": None}


def omit_mongodb() -> dict[str, Any]:
    """Replace the connector of MongoDB by an empty module: apache_beam.io only re-exports it.

    Saves 0.05 s: it imports pymongo. Checked with Beam 2.77.0.
    """
    name = "apache_beam.io.mongodbio"
    return {name: ModuleType(name)}


def defer_http_client() -> dict[str, Any]:
    """Import the HTTP client of apache_beam.internal only when it is called.

    Saves 0.06 s: it imports httplib2, for the download of remote files that a job would stage.
    Checked with Beam 2.77.0.
    """
    name = "apache_beam.internal.http_client"
    return {name: _DeferredModule(name, ("get_new_http",))}


def defer_beartype() -> dict[str, Any]:
    """Compare type hints that are classes by issubclass, and import beartype for all others.

    Saves 0.06 s: few pipelines compare others. Checked with Beam 2.77.0.
    """
    door, roar = ModuleType("beartype.door"), ModuleType("beartype.roar")

    class BeartypeDoorException(Exception):
        pass

    def is_subhint(sub: Any, base: Any) -> bool:
        if type(sub) is type and type(base) is type:
            return issubclass(sub, base)
        from beartype.door import is_subhint
        from beartype.roar import BeartypeDoorException as OriginalException

        try:
            return is_subhint(sub, base)
        except OriginalException as error:
            raise BeartypeDoorException from error

    door.is_subhint = is_subhint  # type: ignore[attr-defined]
    roar.BeartypeDoorException = BeartypeDoorException  # type: ignore[attr-defined]
    return {module.__name__: module for module in (door, roar)}


def omit_absl() -> dict[str, Any]:
    """Omit absl: Beam works without it, and cannot pickle its flags then.

    Saves 0.01 s. Checked with Beam 2.77.0.
    """
    return {"absl": None}


def omit_parquet() -> dict[str, Any]:
    """Replace Beam's access to Parquet by an empty module: apache_beam.io only re-exports it.

    Saves 0.01 s: recordmill imports Arrow's Parquet later. Checked with Beam 2.77.0.
    """
    name = "apache_beam.io.parquetio"
    return {name: ModuleType(name)}


def defer_codecs() -> dict[str, Any]:
    """Import fastavro, cryptography and proto only when an element is encoded with them.

    Saves 0.03 s: no element of Recordmill uses them. Checked with Beam 2.77.0.
    """
    modules = (
        _DeferredModule("fastavro", ("parse_schema", "schemaless_reader", "schemaless_writer")),
        _DeferredModule("fastavro.read", ("block_reader",)),
        _DeferredModule("fastavro.write", ("Writer",)),
        _DeferredModule("cryptography"),
        _DeferredModule("cryptography.fernet", ("Fernet",)),
        # Before proto is imported, no element is a message.
        _DeferredModule("proto", classes=("Message",)),
    )
    return {module.__name__: module for module in modules}


def defer_grpc() -> dict[str, Any]:
    """Import gRPC only when it is used: pipelines of commands run in threads.

    Saves 0.03 s, because gRPC imports asyncio. A process that uses gRPC imports it before Beam, so
    it is not deferred there. Checked with Beam 2.77.0.
    """
    bases = ("ClientCallDetails", "UnaryUnaryClientInterceptor", "StreamStreamClientInterceptor")
    return {"grpc": _DeferredModule("grpc", classes=(*bases, "Server"))}


def omit_docstrings() -> dict[str, Any]:
    """Do not parse the docstrings of Arrow's options to describe the parameters of its functions.

    Saves 0.01 s, with any Beam: only help(pyarrow.compute) shows them. Checked with Arrow 25.0.
    """
    name = "pyarrow.vendored.docscrape"
    module = _DeferredModule(name)
    module.NumpyDocString = lambda text: {"Parameters": []}  # type: ignore[attr-defined]
    return {name: module}


class _DeferredModule(ModuleType):
    """A module that is imported when one of its attributes is used.

    functions: names of functions that Beam imports from the module. classes: names of classes that
    Beam tests for, or derives classes from, before the module is imported.
    """

    def __init__(self, name: str, functions: Sequence[str] = (), classes: Sequence[str] = ()):
        super().__init__(name)
        for function in functions:
            setattr(self, function, functools.partial(self._call, function))
        self._classes = {each: type(each, (), {}) for each in classes}

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if sys.modules.get(self.__name__) in (self, None) and attribute in self._classes:
            return self._classes[attribute]
        return getattr(self._original(), attribute)

    def _call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._original(), function)(*args, **kwargs)

    def _original(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:  # Beam is being imported
            del sys.modules[self.__name__]
        original = importlib.import_module(self.__name__)
        for name, ours in self._classes.items():
            if isinstance(theirs := getattr(original, name), ABCMeta):
                theirs.register(ours)  # instances of subclasses of ours are instances of theirs
        return original


REPLACEMENTS: tuple[Callable[[], dict[str, Any]], ...] = (
    omit_s3,
    omit_bigquery,
    omit_mongodb,
    defer_http_client,
    defer_beartype,
    omit_absl,
    omit_parquet,
    defer_codecs,
    defer_grpc,
    omit_docstrings,
)
"""All functions of this module."""
