"""Cuts the power of file systems while runs write to them: the dataset must be old, new or none.

    python -m tests.soak.power                  40 cuts: ext4 and xfs, fresh and overwritten outputs
    python -m tests.soak.power --cuts 8         a sample

Each file system lies in a file and is mounted as a loop device, which needs root, and mkfs.ext4 and
mkfs.xfs. The ioctl that shuts it down drops all that is not on disk, the log included; it is then
mounted again, as after a reboot. Half of the cuts come after exit code 0, when the new dataset must
be there; the others at a random moment, every other one of them while the run publishes. Contents
are checked by `recordmill verify`, and after a cut the same command must finish the dataset.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator

from tests.paths import SMALL_CLOTHING
from tests.soak.command import (
    DifferenceError,
    ImagesCommand,
    content,
    end,
    expect_no_processes,
    expect_same,
    expect_success,
    state,
)

_KINDS = ("ext4", "xfs")
_IMAGE_BYTES = 320 << 20  # xfs needs 300 MiB
# _IOR('X', 125, __u32): EXT4_IOC_SHUTDOWN of fs/ext4/ext4.h, XFS_IOC_GOINGDOWN of xfs_fs.h.
_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
_NO_LOG_FLUSH = 2
_OLD_SIZE = 16  # pixels
_SHARDS = ("--num-shards", "train=6,validation=1,test=1", "--overwrite")
_PUBLISHING_SECONDS = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Disk:
    """A file system in a file. folder: where it is mounted."""

    kind: str
    image: pathlib.Path
    folder: pathlib.Path

    def cut(self) -> None:
        """Drop all that is not on disk."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def mount(self) -> None:
        _call("mount", "-o", "loop", self.image, self.folder)

    def unmount(self) -> None:
        _call("umount", self.folder)


@contextlib.contextmanager
def mounted(kind: str, root: pathlib.Path) -> Iterator[Disk]:
    """Make a file system of this kind, and mount it."""
    disk = Disk(kind=kind, image=root / f"{kind}.img", folder=root / kind)
    disk.folder.mkdir()
    with disk.image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    _call(f"mkfs.{kind}", "-q", disk.image)
    disk.mount()
    try:
        yield disk
    finally:
        disk.unmount()


def _call(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Known:
    """The older and the newer dataset, each made by an undisturbed run. seconds: of a run."""

    old: pathlib.Path
    new: pathlib.Path
    seconds: float

    @property
    def manifests(self) -> dict[str, bytes]:
        both = {"old": self.old, "new": self.new}
        return {name: (folder / "dataset.json").read_bytes() for name, folder in both.items()}


def undisturbed(root: pathlib.Path, *, size: int) -> Known:
    """Make both datasets."""
    _command(root / "old", _OLD_SIZE).finish()
    started = time.monotonic()
    _command(root / "new", size).finish()
    seconds = time.monotonic() - started
    return Known(old=root / "old", new=root / "new", seconds=seconds)


def _command(output: pathlib.Path, size: int) -> ImagesCommand:
    return ImagesCommand(output=output, size=size, options=_SHARDS, source=SMALL_CLOTHING)


def cut_once(
    disk: Disk, known: Known, *, size: int, over_old: bool, moment: str, after: float
) -> str:
    """Cut the power of one run, and return what a reader finds.

    moment: `after exit 0`; `random`, `after` seconds after the start; or `publishing`, `after`
      seconds after the intent was written.

    Raises:
      DifferenceError: it is not one of the datasets, or the rerun does not give the new one.
    """
    output = disk.folder / "out"
    shutil.rmtree(output, ignore_errors=True)
    if over_old:
        shutil.copytree(known.old, output)
    _call("sync", "-f", disk.folder)
    command = _command(output, size)
    process = command.start()
    if moment == "after exit 0":
        expect_success(process)
    else:
        if moment == "publishing":
            while process.poll() is None and not any(output.glob(".recordmill/*/intent.json")):
                time.sleep(0.001)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after)
    done = process.poll() == 0
    disk.cut()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    expect_no_processes(process.pid)
    disk.unmount()
    disk.mount()
    found = state(output, known.manifests)
    if done and found != "new":
        raise DifferenceError(f"after exit code 0 expected the new dataset, got {found}")
    if found == "old" and not over_old:
        raise DifferenceError("there was no older dataset")
    command.finish()
    expect_same(content(output), content(known.new))
    return found


def cut_power(root: pathlib.Path, *, size: int, cuts: int, seed: int) -> list[str]:
    """Print a row per cut, and return the differences."""
    generator = random.Random(seed)
    known = undisturbed(root, size=size)
    print(f"A run takes {known.seconds:.1f} s (--seed {seed})\n")
    print("| file system | older dataset | cut | after s | a reader finds |\n|---|---|---|--:|---|")
    differences = []
    each = cuts // (2 * len(_KINDS))
    for kind in _KINDS:
        with mounted(kind, root) as disk:
            for number in range(2 * each):
                over_old, place = number % 2 == 1, number // 2
                moment, most = "after exit 0", 0.0
                if place % 2:
                    moment, most = "random", known.seconds
                    if place % 4 == 3:
                        moment, most = "publishing", _PUBLISHING_SECONDS
                after = generator.uniform(0, most)
                row = f"| {kind} | {'yes' if over_old else 'no'} | {moment} | {after:.3f} | "
                try:
                    row += cut_once(
                        disk, known, size=size, over_old=over_old, moment=moment, after=after
                    )
                except DifferenceError as error:
                    differences.append(f"{row}: {error}")
                    row += "DIFFERENT"
                print(f"{row} |", flush=True)
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=64, help="of the images, in pixels")
    parser.add_argument("--cuts", type=int, default=40, help="a multiple of 4")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    arguments = parser.parse_args()
    tools = [f"mkfs.{kind}" for kind in _KINDS]
    if os.geteuid() != 0 or not all(map(shutil.which, tools)):
        print(f"no power was cut: mounting file systems needs root, {' and '.join(tools)}")
        return
    with tempfile.TemporaryDirectory(prefix="recordmill-power-") as folder:
        differences = cut_power(
            pathlib.Path(folder), size=arguments.size, cuts=arguments.cuts, seed=arguments.seed
        )
    end(differences)


if __name__ == "__main__":
    main()
