"""Kills runs with SIGKILL and finishes them: the dataset must be the one of an undisturbed run.

    python -m tests.soak.kills                          20 random moments, every step of publishing
    python -m tests.soak.kills --random 4 --steps 6     a sample

At random moments: each output is killed twice, then finished; once the whole process group, once
only the main process, so that its encoder processes are orphans; every other output holds an older
dataset that is being overwritten. While publishing: just before each single change of the output's
folder, an older dataset being overwritten; most are finished by the same command, every fifth by
the one of the older dataset. After each kill `recordmill verify` must find no dataset, or a clean
one, old or new. In the end nothing else may be left in the folder, and no process.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

from benchmarks.measure import python
from tests.soak.command import (
    Content,
    DifferenceError,
    ImagesCommand,
    content,
    end,
    expect_no_processes,
    expect_same,
    expect_success,
    start,
    state,
)

_OLD_SIZE = 32  # pixels
_OLD_SHARDS = ("--num-shards", "train=3,validation=1,test=1")
_MANY_SHARDS = ("--num-shards", "train=8,validation=2,test=2")  # to be killed between them
# Names that the older dataset has too, and names that it has not.
_FEW_SHARDS = ("--num-shards", "train=2,validation=1,test=1")
_KILLS_EACH = 2
_BACK_EVERY = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finished:
    """An undisturbed run. seconds: how long it took."""

    folder: pathlib.Path
    content: Content
    manifest: bytes
    seconds: float


def undisturbed(command: ImagesCommand) -> Finished:
    """Result of a command in an empty folder."""
    started = time.monotonic()
    command.finish()
    seconds = time.monotonic() - started
    return Finished(
        folder=command.output,
        content=content(command.output),
        manifest=(command.output / "dataset.json").read_bytes(),
        seconds=seconds,
    )


def kill_randomly(folder: pathlib.Path, *, size: int, kills: int, seed: int) -> list[str]:
    """Prints a row per kill; returns the differences."""
    generator = random.Random(seed)
    old = undisturbed(
        ImagesCommand(output=folder / "old", size=_OLD_SIZE, options=_OLD_SHARDS),
    )
    new = undisturbed(ImagesCommand(output=folder / "new", size=size, options=_MANY_SHARDS))
    known = {"old": old.manifest, "new": new.manifest}
    print(f"\nKilled at random moments of {new.seconds:.1f} s (--seed {seed})\n")
    print("| output | older dataset | killed after s | who | a reader finds | finished |")
    print("|--:|---|--:|---|---|---|", flush=True)
    differences = []
    for number in range(kills // _KILLS_EACH):
        output = folder / "killed"
        over_old = number % 2 == 1
        if over_old:
            shutil.copytree(old.folder, output)
        options = (*_MANY_SHARDS, *(["--overwrite"] if over_old else []))
        command = ImagesCommand(output=output, size=size, options=options)
        for kill in range(_KILLS_EACH):
            seconds = generator.uniform(0, new.seconds)
            whole_group = (number + kill) % 2 == 0
            last = kill == _KILLS_EACH - 1
            row = f"| {number} | {'yes' if over_old else 'no'} | {seconds:.2f} | "
            row += "group" if whole_group else "main process"
            try:
                kill_after(command, seconds, whole_group=whole_group)
                row += f" | {state(output, known)} | "
                if last:
                    command.finish()
                    expect_same(content(output), new.content)
                    row += "the same"
            except DifferenceError as error:
                differences.append(f"output {number}, kill {kill}: {error}")
                row += " | DIFFERENT"
            print(f"{row} |", flush=True)
        shutil.rmtree(output)
    return differences


def kill_after(command: ImagesCommand, seconds: float, *, whole_group: bool) -> None:
    """Starts a command and kills it, unless it is done before. Its children must end, too."""
    process = command.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()
    expect_no_processes(process.pid)


def kill_publishing(folder: pathlib.Path, *, size: int, steps: int | None) -> list[str]:
    """Prints a row per step; returns the differences. steps: so many of them, evenly spread."""
    old_command = ImagesCommand(
        output=folder / "out", size=_OLD_SIZE, options=(*_OLD_SHARDS, "--overwrite")
    )
    old = undisturbed(old_command)
    # Killed before the first step: all shards are there, and publishing is what is left to do.
    ready = folder / "ready"
    command = ImagesCommand(output=folder / "out", size=size, options=(*_FEW_SHARDS, "--overwrite"))
    log = folder / "steps.log"
    _run_killed(command, step=1, log=log)
    shutil.copytree(command.output, ready)
    log.unlink()
    expect_success(_killed_at(command, step=0, log=log))
    new = content(command.output)
    manifest = (command.output / "dataset.json").read_bytes()
    known = {"old": old.manifest, "new": manifest}
    all_steps = log.read_text().splitlines()
    chosen = _spread(len(all_steps), steps)
    print(f"\nKilled just before a step of publishing: {len(chosen)} of {len(all_steps)}\n")
    print("| step | which is | a reader finds | finished by | finished |\n|--:|---|---|---|---|")
    differences = []
    for at in chosen:
        shutil.rmtree(command.output)
        shutil.copytree(ready, command.output)
        back = at % _BACK_EVERY == 0
        row = f"| {at} | {_short(all_steps[at - 1])} | "
        try:
            _run_killed(command, step=at, log=log)
            row += f"{state(command.output, known)} | {'old' if back else 'same'} command | "
            _finish(old_command if back else command, old.content if back else new)
            row += "the same"
        except DifferenceError as error:
            differences.append(f"step {at} ({all_steps[at - 1]}): {error}")
            row += "DIFFERENT"
        print(f"{row} |", flush=True)
    return differences


def _finish(command: ImagesCommand, expected: Content) -> None:
    command.finish()
    expect_same(content(command.output), expected)


def _killed_at(command: ImagesCommand, *, step: int, log: pathlib.Path) -> subprocess.Popen[str]:
    return start(python("tests.soak.killed_at", step, log, *command.arguments))


def _run_killed(command: ImagesCommand, *, step: int, log: pathlib.Path) -> None:
    process = _killed_at(command, step=step, log=log)
    _, errors = process.communicate()
    if process.returncode != -signal.SIGKILL:
        raise DifferenceError(f"step {step} never came (exit {process.returncode}): {errors}")
    expect_no_processes(process.pid)


def _spread(count: int, wanted: int | None) -> list[int]:
    """`wanted` of the steps 1..count, evenly, the first and the last among them."""
    if wanted is None or wanted >= count:
        return list(range(1, count + 1))
    return sorted({1 + i * (count - 1) // max(wanted - 1, 1) for i in range(wanted)})


def _short(step: str) -> str:
    """Without what differs from run to run."""
    event, _, path = step.partition(" ")
    return f"{event} {'/'.join(path.split('/')[-2:])}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=64, help="of the pictures, in pixels")
    parser.add_argument("--random", type=int, default=20, help="kills at random moments")
    parser.add_argument("--steps", type=int, help="of publishing; default: every one")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    arguments = parser.parse_args()
    differences: list[str] = []
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
        root = pathlib.Path(folder)
        if arguments.random:
            differences += kill_randomly(
                root, size=arguments.size, kills=arguments.random, seed=arguments.seed
            )
        if arguments.steps != 0:
            differences += kill_publishing(root, size=arguments.size, steps=arguments.steps)
    end(differences)


if __name__ == "__main__":
    main()
