"""The command under test, and what its output must be."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.measure import members, python
from tests.paths import ROOT, SMALL_CLOTHING

_GRACE = 30  # seconds in which the encoder processes of a killed run must end

# Larger data of the same layout, used if it lies beside the repository.
_LARGER = ROOT.parent / "shared" / "data"

Content = Mapping[str, str]


def larger(name: str, committed: pathlib.Path) -> pathlib.Path:
    """Return the larger folder of that name if it is there, else the committed one."""
    folder = _LARGER / name
    return folder if folder.is_dir() else committed


PHOTOS = larger("clothing", SMALL_CLOTHING)


class DifferenceError(AssertionError):
    """A promise that did not hold."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagesCommand:
    """`recordmill images` on the photos of clothing, or on a listing of them.

    hash_seed: PYTHONHASHSEED. options: further flags.
    """

    output: pathlib.Path
    size: int
    options: Sequence[str] = ()
    source: pathlib.Path = PHOTOS
    hash_seed: str = "random"

    @property
    def arguments(self) -> list[str]:
        """Arguments after `recordmill`."""
        places = ["--input", str(self.source), "--output", str(self.output)]
        splits = ["--splits", "train=0.8,validation=0.1,test=0.1"]
        how = ["--size", str(self.size), "--balance", "oversample", "--seed", "7", "--quiet"]
        return ["images", *places, *splits, *how, *self.options]

    def start(self) -> subprocess.Popen[str]:
        """Starts it in a session of its own."""
        return start(python("recordmill", *self.arguments), hash_seed=self.hash_seed)

    def finish(self) -> None:
        """Runs it to its end. Raises DifferenceError if it does not do its work."""
        expect_success(self.start())


def start(command: Sequence[str], *, hash_seed: str = "random") -> subprocess.Popen[str]:
    """Starts a command in the root of the repository, in a session of its own."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def expect_success(process: subprocess.Popen[str]) -> None:
    """Waits for the end. Raises DifferenceError if the process fails or leaves others behind."""
    _, errors = process.communicate()
    if process.returncode != 0:
        raise DifferenceError(f"expected exit code 0, got {process.returncode}: {errors[-2000:]}")
    expect_no_processes(process.pid)


def expect_no_processes(session: int) -> None:
    """Raises DifferenceError if processes of a session outlive it."""
    deadline = time.monotonic() + _GRACE
    while left := members(session):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise DifferenceError(f"processes {left} were left behind")
        time.sleep(0.05)


def content(output: pathlib.Path) -> Content:
    """Everything in a folder: {relative path: sha256 of the bytes, or 'folder' or 'job.json'}.

    job.json counts by its name alone: it says how many records were reused, so it differs between
    equal datasets.
    """
    return {str(path.relative_to(output)): _content_of(path) for path in output.rglob("*")}


def _content_of(path: pathlib.Path) -> str:
    if path.is_dir():
        return "folder"
    if path.name == "job.json":
        return path.name
    return hashlib.sha256(path.read_bytes()).hexdigest()


def expect_same(got: Content, expected: Content) -> None:
    """Raises DifferenceError that names what differs."""
    if got == expected:
        return
    missing = sorted(set(expected) - set(got))
    extra = sorted(set(got) - set(expected))
    other = sorted(name for name in set(got) & set(expected) if got[name] != expected[name])
    raise DifferenceError(f"missing {missing}, too many {extra}, different {other}")


def state(output: pathlib.Path, known: Mapping[str, bytes]) -> str:
    """State that a reader finds: 'no dataset', or the name of the known manifest that is there.

    Raises:
      DifferenceError: it is another one, or `recordmill verify` finds damage.
    """
    result = subprocess.run(
        python("recordmill", "verify", "--dataset", output),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = (result.stdout + result.stderr)[-2000:]
    manifest = output / "dataset.json"
    if not manifest.exists():
        if result.returncode != 1 or "no dataset" not in said:
            raise DifferenceError(f"expected that verify finds no dataset, got: {said}")
        return "no dataset"
    if result.returncode != 0:
        raise DifferenceError(f"expected a clean dataset, got: {said}")
    found = manifest.read_bytes()
    names = [name for name, known_bytes in known.items() if known_bytes == found]
    if not names:
        raise DifferenceError(f"expected one of the datasets {list(known)}, got {found[:200]!r}")
    return names[0]


def end(differences: Sequence[str]) -> None:
    """Says how it went and ends the process: 0 where nothing differed."""
    for difference in differences:
        print(f"DIFFERENT: {difference}")
    print(f"{len(differences)} differences")
    sys.exit(1 if differences else 0)
