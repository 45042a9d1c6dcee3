"""`recordmill-worker`: sets up its process before anything imports NumPy or Arrow, as Beam does."""

from __future__ import annotations

from recordmill.processes import environment


def main() -> int:
    """Runs a worker until the runner lets it go; returns its exit code."""
    environment.set_up()
    from recordmill.runners.workers import boot

    return boot.main()
