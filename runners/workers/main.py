"""Entry point of `recordmill-worker`: set up the process, then import and run the worker."""

from __future__ import annotations

from recordmill.processes import environment


def main() -> int:
    """Run a worker until the runner stops it, and return its exit code."""
    environment.set_up()
    from recordmill.processes.pool import fork_children
    from recordmill.runners.workers import boot  # imports Beam, and NumPy and Arrow with it

    fork_children()
    return boot.main()
