"""Entry point of `recordmill-worker`: set up the process, then import and run the worker."""

from __future__ import annotations

import importlib

from recordmill.processes import environment


def main() -> int:
    """Run a worker until the runner stops it, and return its exit code."""
    environment.set_up()
    from recordmill.processes.pool import fork_children
    from recordmill.runners.beam_patches import permanent_imports

    importlib.import_module("grpc")  # a worker uses it, so it must not be deferred
    with permanent_imports():
        from recordmill.runners.workers import boot

        # Imported before the fork, so that encoder processes share all that a job needs.
        for module in ("apache_beam.runners.worker.sdk_worker_main", "recordmill.transforms"):
            importlib.import_module(module)
    fork_children()
    return boot.main()
