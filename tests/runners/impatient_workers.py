"""Imported by a forkserver: its workers end soon after their last bundle."""

from recordmill.runners.workers import boot

boot.IDLE_SECONDS = 0.1
