"""The listing of an input, made by an encoder process while this process imports Beam."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from recordmill.job.staging import Listing, Staging
from recordmill.processes import environment
from recordmill.processes.pool import running_pool
from recordmill.runners.beam_patches import permanent_imports
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.source import MovableSource, Source
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

    imports: whether a pipeline, which needs Beam, will probably follow. If so, an encoder process
      lists the files if it can, while this process imports Beam.

    Raises:
      ConfigError: the input is unusable.
    """
    pool = running_pool() if imports and staging.root.is_local else None
    if pool is not None and isinstance(source, MovableSource) and source.is_movable:
        listed = pool.submit(stage_listing, source, staging, rules=rules)
        with permanent_imports():
            for module in ("apache_beam", "recordmill.pipelines.road", "recordmill.runners.direct"):
                if not listed.done():
                    importlib.import_module(module)
        if listed.exception() is None:
            on_rows(listed.result().rows)
            return listed.result()
    # After an error, too: it is raised here, as in any other listing.
    listing = stage_listing(source, staging, rules=rules, on_rows=on_rows)
    environment.return_free_memory()  # of the objects of many files
    return listing
