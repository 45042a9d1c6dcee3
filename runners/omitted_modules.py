"""Modules that Beam imports and jobs hardly need: omitted, or imported only when they are used.

Each function returns replacements as {name: module}, which `beam_patches.permanent_imports` puts
into `sys.modules` while Beam is imported. The import of a name whose replacement is None raises an
ImportError. The figures are seconds of CPU per job, from docs/adr/0027-patches-of-beam.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
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
    module = ModuleType(name)

    def get_new_http(*args: Any, **kwargs: Any) -> Any:
        return importlib.import_module(name).get_new_http(*args, **kwargs)

    module.get_new_http = get_new_http  # type: ignore[attr-defined]
    return {name: module}


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


REPLACEMENTS: tuple[Callable[[], dict[str, Any]], ...] = (
    omit_s3,
    omit_bigquery,
    omit_mongodb,
    defer_http_client,
    defer_beartype,
)
"""All functions of this module."""
