"""Time that a rerun takes to finish the dataset of a killed run.

    python -m benchmarks.resume                          20,000 photos, 3 kills of each kind
    python -m benchmarks.resume --photos 4000 --runs 1

A run that writes one shard, or 64, is killed (SIGKILL for all of its processes) when it has written
30 or 90 % of the bytes of the dataset. The same command then finishes it, which must give the
manifest of an undisturbed run. The time of a job of ten photos (starting Python and Beam, and
publishing) is subtracted from the times of both before they are compared, by wall time and by CPU
time. `lost` is the number of written bytes that are encoded again: those of incomplete chunks.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from benchmarks.measure import (
    ROOT,
    FailedError,
    Measured,
    bar,
    members,
    run,
)
from benchmarks.reuse import LEAST, add_photos, begin, command_of, make
from recordmill.job.staging import DRAFTS, FOLDER
from recordmill.storage.files import Location
from recordmill.transforms.writing.shards.shard_draft import read_chunks

_SHARDS = (1, 64)
_BARS = {0.3: 0.75, 0.9: 0.2}  # {fraction at the kill: rerun over whole run, at most}
_EMPTY = 10  # photos
_PAUSE = 0.02  # seconds between two checks of staging


@dataclasses.dataclass(frozen=True, kw_only=True)
class Killed:
    """A killed run. written: bytes in staging. lost: bytes in no complete chunk."""

    written: int
    lost: int


def written_bytes(output: pathlib.Path) -> int:
    """Return the bytes of finished shards and of drafts in staging."""
    found = 0
    for pattern in ("shards/*.tfrecord-*", f"{DRAFTS}/*.tmp"):
        for place in output.glob(f"{FOLDER}/*/{pattern}"):
            try:
                found += place.stat().st_size
            except FileNotFoundError:  # it has been renamed or deleted
                continue
    return found


def lost_bytes(output: pathlib.Path) -> int:
    """Return the bytes of drafts that the next run encodes again."""
    lost = 0
    for place in output.glob(f"{FOLDER}/*/{DRAFTS}/*.tmp"):
        kept = sum(len(one.encoded.data) for one in read_chunks(Location.parse(str(place))))
        lost += place.stat().st_size - kept
    return lost


def kill(command: list[str], output: pathlib.Path, *, at: int) -> Killed:
    """Start a command, and kill all of its processes when it has written `at` bytes.

    Raises:
      FailedError: the command ended before.
    """
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    while written_bytes(output) < at:
        if process.poll() is not None:
            raise FailedError(f"{' '.join(command)} ended before it was killed")
        time.sleep(_PAUSE)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    while members(process.pid):
        time.sleep(_PAUSE)
    return Killed(written=written_bytes(output), lost=lost_bytes(output))


def _median(runs: list[Measured], less: Measured | None = None) -> Measured:
    """Return the medians of wall and CPU time, minus the times of `less`."""
    wall = statistics.median(one.wall for one in runs) - (less.wall if less else 0)
    cpu = statistics.median(one.cpu for one in runs) - (less.cpu if less else 0)
    return dataclasses.replace(runs[0], wall=wall, cpu=cpu)


def main() -> None:
    given = begin(__doc__)
    at_least = given.photos >= LEAST
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as name:
        folder = pathlib.Path(name)
        source, few, whole, killed = (folder / one for one in ("photos", "few", "whole", "killed"))
        add_photos(few, 0, _EMPTY)
        add_photos(source, 0, given.photos)
        start = _median([make(few, whole, "--splits", "train=1") for _ in range(given.runs)])
        print(f"\n{given.photos} photos, {given.runs} runs of each; a job of ten photos:")
        print(f"{start.wall:.1f} s, {start.cpu:.1f} s of CPU\n")
        print("| shards | killed at | lost | whole run | rerun | wall | CPU |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        lines = []
        for shards in _SHARDS:
            options = ("--splits", "train=1", "--num-shards", shards)
            wholes = [make(source, whole, *options) for _ in range(given.runs)]
            total = sum(place.stat().st_size for place in whole.glob("*.tfrecord-*"))
            manifest = (whole / "dataset.json").read_bytes()
            undisturbed = _median(wholes, start)
            for part, at_most in _BARS.items():
                reruns, kills = [], []
                for _ in range(given.runs):
                    shutil.rmtree(killed, ignore_errors=True)
                    command = command_of(source, killed, *options)
                    kills.append(kill(command, killed, at=int(part * total)))
                    reruns.append(run(command, memory=False))
                    if (killed / "dataset.json").read_bytes() != manifest:
                        raise FailedError(f"{shards} shards, {part}: another dataset")
                rerun = _median(reruns, start)
                ratios = rerun.wall / undisturbed.wall, rerun.cpu / undisturbed.cpu
                at = statistics.median(one.written for one in kills) / total
                lost = max(one.lost for one in kills)
                print(
                    f"| {shards} | {at:.0%} | {lost / 1e6:.1f} MB | {undisturbed.wall:.1f} s |"
                    f" {rerun.wall:.1f} s | {ratios[0]:.2f} | {ratios[1]:.2f} |",
                    flush=True,
                )
                what = f"{shards} shards, killed at {part:.0%}, rerun / whole run"
                lines.append(bar(what, ratios[0], at_most=at_most if at_least else None))
        print("", *lines, sep="\n")


if __name__ == "__main__":
    main()
