"""Makes requests to a store fail, one by one: the dataset must be old, new or none, never wrong.

    python -m tests.soak.store_faults                   400 series over five data types
    python -m tests.soak.store_faults --count 20        a sample

The input, the output or both are in a store (`tests.s3_store`), as intermediate files may be. Of
the requests that read, list, write, copy or delete, the k-th fails: once, a few times in a row,
from then on, or for its object for good. The answer is an error (500, 503, 403), is cut, stalls,
has no length or a flipped bit; or the connection is reset before or after the request is done; or
an object of the input is replaced; or the command is killed. After each:

- the output has the old dataset, the new one, or none; after exit 0 the new one;
- stderr has no traceback, and after exit 1 one sentence that names the object;
- the same command without faults gives the same bytes as a run from disk to disk, rejects
  included, and leaves no staging, no other objects, and no uploads in progress.

Runs are forked from a process that has imported everything; pauses before retries are left out.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence

import numpy as np

from recordmill.format.manifest import JOB, RECIPES
from tests.s3_server import CREDENTIALS
from tests.s3_store import S3Store
from tests.soak.command import Content, DifferenceError, content, end
from tests.soak.forked_runs import (
    Ended,
    ForkedRuns,
    expect_sentence,
    of_dataset,
    run_series,
    state_of,
)
from tests.soak.small_inputs import make_inputs

STAGED = ", staged there"
PLACES = ("store to disk", "disk to store", "store to store", f"store to store{STAGED}")
_OPERATIONS = {"GET": "read", "HEAD": "read", "PUT": "write", "POST": "write"}  # others: by name
_ANY = ("failing", "error", "denied", "reset", "stalled")
_DAMAGES = ("cut", "short", "unsized", "flipped")
_FAULTS = {
    "read": (*_ANY, *_DAMAGES),
    "list": (*_ANY, *_DAMAGES),
    "write": (*_ANY, "lost"),
    "copy": (*_ANY, "lost", "hidden"),
    "delete": (*_ANY, "lost"),
}
_FOR_ALL = 1 << 30
_CODES = {"denied": (1, 2), "killed": (-9,)}  # other exit codes than 0, if not 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Injection:
    """From the `at`-th request of an operation on, `times` requests have a fault.

    of_object: they are those for the object of the first of them. fault: one of the store, or
    `killed` or `changed`.
    """

    operation: str
    fault: str
    at: int
    times: int = 1
    of_object: bool = False

    def __str__(self) -> str:
        times = "lasting" if self.times == _FOR_ALL else f"{self.times} times"
        return f"{self.operation} {self.at} {self.fault} {times}{' of its object' * self.of_object}"


class FaultyStore(S3Store):
    """A store with an injection. struck: names of the objects whose requests had a fault.

    strike: called at the first of them, for the faults `killed` and `changed`.
    counts: {operation: requests}.
    """

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener, access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"])
        self._counting = threading.Lock()
        self.begin(None)

    def begin(self, injection: Injection | None, strike: Callable[[], None] = print) -> None:
        """Begin to count requests anew."""
        with self._counting:
            self.injection, self.strike = injection, strike
            self.counts: collections.Counter[str] = collections.Counter()
            self.struck: list[str] = []
            self.requests.clear()

    def take_fault(self, operation: str, name: str) -> str:
        operation, injection = _OPERATIONS.get(operation, operation.lower()), self.injection
        with self._counting:
            self.counts[operation] += 1
            if injection is None or not self._strikes(injection, operation, name):
                return ""
            self.struck.append(name)
            if injection.fault not in ("killed", "changed"):
                return injection.fault
            self.strike()
        return "reset" if injection.fault == "killed" else ""

    def _strikes(self, injection: Injection, operation: str, name: str) -> bool:
        if len(self.struck) >= injection.times:
            return False
        if self.struck and injection.of_object:
            return name == self.struck[0]
        return operation == injection.operation and self.counts[operation] >= injection.at

    def content(self, prefix: str) -> Content:
        """Return {path: sha256} of the objects in a folder."""
        folder = f"bucket/{prefix}/"
        found = {name: self.get(name) for name in self.names(folder)}
        return {
            name.removeprefix(folder): hashlib.sha256(one.content).hexdigest()
            for name, one in found.items()
            if one is not None
        }

    def fill(self, prefix: str, folder: pathlib.Path) -> None:
        """Write the files of a folder to the store."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"bucket/{prefix}/{path.relative_to(folder)}", path.read_bytes())

    def clear(self, prefix: str) -> None:
        """Delete all objects of a folder."""
        for name in self.names(f"bucket/{prefix}/"):
            self.delete(name)


@dataclasses.dataclass
class Kind:
    """A data type under test, from and to a place.

    command: without --output. old, new: what another and this seed give. changed: what this seed
    gives with the changed input. counts: {operation: requests} of a run that replaces the old one.
    """

    name: str
    place: str
    command: list[str]
    old_folder: pathlib.Path
    old: Content
    new: Content
    changed: Content
    counts: dict[str, int]


class Series:
    """Injects faults into commands, and checks what is left.

    uploads: number of those that failed runs have left in progress.
    """

    def __init__(self, folder: pathlib.Path, store: FaultyStore) -> None:
        self._folder, self._store = folder, store
        self.runs = ForkedRuns(
            folder, {**CREDENTIALS, "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        )
        self.uploads = 0
        self._disk = folder / "out"
        self._originals: dict[str, bytes] = {}  # of objects that were changed

    def prepare(self, name: str, command: list[str], *, places: Sequence[str]) -> list[Kind]:
        """Make all datasets without faults, and count the requests from and to all places."""
        place = command.index("--input") + 1
        self._store.fill(f"in/{name}", pathlib.Path(command[place]))
        remote = [*command]
        remote[place] = self._store.uri(f"in/{name}")
        folders = {state: self._folder / f"{state}-{name}" for state in ("old", "new", "changed")}
        for state, seed in (("old", "1"), ("new", "2")):
            output = ["--output", str(folders[state]), "--seed", seed]
            _expect_quiet(self.runs.run([*command, *output]))
        self._change(name)
        output = ["--output", str(folders["changed"]), "--seed", "2"]
        _expect_quiet(self.runs.run([*remote, *output]))
        self._restore()
        known = {state: _of_dataset(content(folder)) for state, folder in folders.items()}
        kinds = []
        for where in places:
            used = command if where.startswith("disk") else remote
            kind = Kind(name, where, used, folders["old"], **known, counts={})
            self._put_old(kind, is_there=True)
            self._store.begin(None)
            _expect_quiet(self.runs.run(self._arguments(kind)))
            kind.counts = dict(self._store.counts)
            self._expect_clean(kind, kind.new)
            kinds.append(kind)
        return kinds

    def inject(self, kind: Kind, injection: Injection, *, over_old: bool) -> tuple[int, str]:
        """Inject a fault, check the state, run again; return the exit code and the state."""
        self._put_old(kind, is_there=over_old)
        try:
            return self._inject(kind, injection)
        finally:
            self._store.uploads.clear()
            self._restore()

    def _inject(self, kind: Kind, injection: Injection) -> tuple[int, str]:
        changes = injection.fault == "changed"
        strike = functools.partial(self._change, kind.name) if changes else self._kill
        self._store.begin(injection, strike)
        ended = self.runs.run(self._arguments(kind))
        struck = list(self._store.struck)
        self._store.begin(None)
        expected = kind.changed if changes and struck else kind.new
        known = {"old": kind.old, "new": kind.new, "changed": expected}
        state = state_of(self._found(kind), known)
        new = "changed" if state == "changed" else "new"
        sentence = expect_sentence(ended, state, codes=_CODES.get(injection.fault, (1,)), new=new)
        if sentence:
            _expect_name(sentence, [_changed(kind.name)[0]] if changes else struck)
        if ended.code:  # only a rule of the bucket ends what it was uploading
            self.uploads += len(self._store.uploads)
            self._store.uploads.clear()
        _expect_quiet(self.runs.run(self._arguments(kind)))
        self._expect_clean(kind, expected)
        return ended.code, state if struck else f"{state}, without a fault"

    def _kill(self) -> None:
        os.kill(self.runs.pid, signal.SIGKILL)

    def _change(self, name: str) -> None:
        """Replace an object of the input of a data type."""
        changed, change = _changed(name)
        found = self._store.get(changed)
        assert found is not None
        self._originals[changed] = found.content
        self._store.put(changed, change(found.content), modified=found.time + 10)

    def _restore(self) -> None:
        for name, original in self._originals.items():
            self._store.put(name, original)
        self._originals.clear()

    def _arguments(self, kind: Kind) -> list[str]:
        to_disk = kind.place.endswith("disk")
        output = str(self._disk) if to_disk else self._store.uri("out")
        scratch = ["--scratch", "store"] if kind.place.endswith(STAGED) else []
        return [*kind.command, *scratch, "--output", output, "--seed", "2", "--overwrite"]

    def _put_old(self, kind: Kind, *, is_there: bool) -> None:
        """Let the output be the old dataset, or empty."""
        shutil.rmtree(self._disk, ignore_errors=True)
        self._store.clear("out")
        if is_there and kind.place.endswith("disk"):
            shutil.copytree(kind.old_folder, self._disk)
        elif is_there:
            self._store.fill("out", kind.old_folder)

    def _found(self, kind: Kind) -> Content:
        """Return the content of the dataset in the output."""
        to_disk = kind.place.endswith("disk")
        return _of_dataset(content(self._disk) if to_disk else self._store.content("out"))

    def _expect_clean(self, kind: Kind, expected: Content) -> None:
        """Raise DifferenceError unless the output is a dataset, and nothing else is left."""
        found = self._found(kind)
        if found != expected:
            names = found.keys() | expected.keys()
            other = sorted(name for name in names if found.get(name) != expected.get(name))
            raise DifferenceError(f"the rerun gave other bytes: {other}")
        staged = self._disk / ".recordmill"
        left = [str(path) for path in staged.rglob("*")] if staged.exists() else []
        cached = (self._folder / "cache").rglob("*")
        left += [str(path) for path in cached if path.is_file()]
        left += [one for one in self._store.names("bucket/out/") if ".recordmill" in one]
        known = ("bucket/out/", "bucket/in/")
        left += [one for one in self._store.names() if not one.startswith(known)]
        if left or self._store.uploads:
            raise DifferenceError(f"left: {left}, uploads {[*self._store.uploads]}")


def _expect_quiet(ended: Ended) -> None:
    """Raise DifferenceError unless a command without faults does its work."""
    if ended.code or ended.stderr:
        raise DifferenceError(f"without faults: exit {ended.code}: {ended.stderr[-1500:]}")


def _changed(name: str) -> tuple[str, Callable[[bytes], bytes]]:
    """Return an object of the input of a data type, and what changes it."""
    box = b"\0\0\0\x08free"
    key, change = {
        "images": ("a/1.jpg", lambda content: content + content[-2:]),
        "text": ("rows.csv", lambda content: content.replace(b",7,", b",9,")),
        "table": ("rows.csv", lambda content: content + content.splitlines(keepends=True)[-1]),
        "video": ("a/one.mp4", lambda content: content + box),
    }.get(name, ("a/0.npy", lambda content: content[:-1] + b"@"))
    return f"bucket/in/{name}/{key}", change


def _of_dataset(found: Content) -> Content:
    """Return the content of a dataset; files that differ with the place of the input by name."""
    return {
        name: name if name in (JOB, RECIPES) else content
        for name, content in of_dataset(found).items()
    }


def _expect_name(sentence: str, struck: list[str]) -> None:
    """Raise DifferenceError unless a sentence names an object with a fault, or its folder."""
    uris = re.findall(r"s3://(bucket[^?:;, ]*)", sentence)
    if not any(name.startswith(uri.rstrip("/")) for uri in uris for name in struck):
        raise DifferenceError(f"expected one of {struck[:5]} in: {sentence}")


def choose(kind: Kind, generator: random.Random) -> Injection:
    """Return a random injection into a run of this data type."""
    operation = generator.choice(list(kind.counts))
    at = generator.randint(1, kind.counts[operation])
    special = generator.random()
    if special < 0.1:
        return Injection(operation=operation, fault="killed", at=at)
    if special < 0.2 and kind.place.startswith("store"):
        return Injection(operation=operation, fault="changed", at=at)
    # parts of objects, as which the large ones are read, have no checksum of the store
    faults = [one for one in _FAULTS[operation] if (kind.name, one) != ("large", "flipped")]
    fault = generator.choice(faults)
    # pyarrow notices after 7 s that a store stalls
    is_slow = fault == "stalled" and operation != "read"
    how = "once" if is_slow else generator.choice(("once", "in a row", "lasting", "object"))
    times = {"once": 1, "in a row": generator.randint(2, 6)}.get(how, _FOR_ALL)
    return Injection(
        operation=operation, fault=fault, at=at, times=times, of_object=how == "object"
    )


def _make_inputs(folder: pathlib.Path) -> dict[str, list[str]]:
    """Make the small inputs, and one whose shard takes several uploads and several reads."""
    commands = make_inputs(folder)
    values = np.random.default_rng(0).standard_normal((3, 5, 1 << 18), np.float32)
    (folder / "large" / "a").mkdir(parents=True)
    for number, value in enumerate(values):
        np.save(folder / "large" / "a" / f"{number}.npy", value)
    arrays = commands["arrays"]
    return {**commands, "large": [*arrays[:2], str(folder / "large"), *arrays[3:]]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400, help="number of injections")
    parser.add_argument("--seed", type=int, default=0, help="seed that chooses the injections")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="recordmill-faults-") as name, FaultyStore() as store:
        folder = pathlib.Path(name)
        series = Series(folder, store)
        with series.runs:
            commands = _make_inputs(folder / "in").items()
            kinds = [one for kind in commands for one in series.prepare(*kind, places=PLACES)]
            for kind in kinds:
                print(f"{kind.name}, {kind.place}: {kind.counts}", flush=True)

            def choose_one(number: int) -> tuple[str, Callable[[], tuple[int, str]]]:
                kind = kinds[number % len(kinds)]
                injection = choose(kind, generator)
                over_old = generator.random() < 0.5
                return f"{kind.name} {kind.place} {injection}", lambda: series.inject(
                    kind, injection, over_old=over_old
                )

            differences = run_series(arguments.count, choose_one)
    print(f"uploads that failed runs left in progress: {series.uploads}")
    end(differences)


if __name__ == "__main__":
    main()
