"""The listing of an input, made by an encoder process while this process imports Beam."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from recordmill.errors import ConfigError, StorageError
from recordmill.job.staging import Listing, Staging
from recordmill.processes.pool import running_pool
from recordmill.runners.beam_patches import permanent_imports
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.source import RowSource, Source
from recordmill.transforms.staged.listing import stage_listing


def list_input(
    source: Source,
    staging: Staging,
    *,
    rules: LabelRules,
    on_rows: Callable[[int], None],
    imports: bool,
) -> Listing:
    """List the input into staging, as `stage_listing` does, and return the listing.

    Args:
      source: The input.
      staging: Folder for the listing.
      rules: Rules for labels.
      on_rows: Called with numbers of listed rows, to report progress.
      imports: Whether a pipeline, which needs Beam, will probably follow. If so, an encoder process
        lists the input if it can, while this process imports Beam.

    Raises:
      ConfigError: The input is unusable.
    """
    pool = running_pool() if imports and staging.intermediate.is_local else None
    if pool is not None and not isinstance(source, RowSource):
        listed = pool.submit(stage_listing, source, staging, rules=rules)
        with permanent_imports():
            for module in (
                "apache_beam",
                "recordmill.pipelines.jobs.road",
                "recordmill.runners.direct",
            ):
                if not listed.done():
                    importlib.import_module(module)
        error = listed.exception()
        if isinstance(error, ConfigError | StorageError):  # the same error again may take long
            vars(error).pop("__notes__", None)  # the traceback in the encoder process
            raise error
        if error is None:
            on_rows(listed.result().rows)
            return listed.result()
    # After another error, too: it is raised here, as in any other listing.
    return stage_listing(source, staging, rules=rules, on_rows=on_rows)
