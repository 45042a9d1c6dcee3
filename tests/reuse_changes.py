"""Random sequences of changes to a folder of tiny images and to the options of its dataset.

After each change the dataset that reuses the one before must be, byte for byte, that of a run from
scratch.
"""

import dataclasses
import json
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Mapping

from recordmill.format.manifest import JOB, RECIPES
from recordmill.pipelines.cli import main
from tests.folders import make_picture

_OPTIONS = {
    "--splits": ["train=0.8,test=0.2", "train=0.5,validation=0.3,test=0.2", "train=1"],
    "--seed": ["0", "7"],
    "--balance": ["none", "oversample", "undersample"],
    "--num-shards": ["1", "3", "5"],
    "--compression": ["none", "gzip"],
    "--size": ["16", "24"],
    "--augment": ["", "flip,colour"],
    "--label-offset": ["0", "1"],
    "--one-hot-label": ["", "yes"],
    "--rename": ["", "image/class/text=name"],
    "--fingerprint": ["stat", "content"],
}
_KINDS = ("add", "remove", "change", "relabel", "touch", "break", "new class", "option")
_CLASSES = ("ant", "bee", "cat")


@dataclasses.dataclass
class Changes:
    """A folder and options, which change step by step."""

    folder: pathlib.Path
    generator: random.Random
    number: int = 0
    time: int = 10**18

    def __post_init__(self) -> None:
        self.options = {name: values[0] for name, values in _OPTIONS.items()}
        for _ in range(12):
            self._add()

    @property
    def argv(self) -> list[str]:
        """The options as they are typed."""
        given = dict(self.options)
        if given["--balance"] != "oversample":
            given["--augment"] = ""
        argv = ["--input", str(self.folder), "--max-reject-fraction", "1"]
        for name, value in given.items():
            if value:
                argv += [name] if value == "yes" else [name, value]
        return argv

    def files(self) -> list[pathlib.Path]:
        """All files, in order."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def step(self) -> str:
        """Change something, and say what."""
        kind = self.generator.choice(_KINDS)
        files = self.files()
        some = self.generator.choice(files)
        if kind == "add":
            self._add()
        elif kind == "new class":
            self._add(f"{self.generator.choice('az')}-{self.number}")
        elif kind == "remove" and len(files) > 8:
            some.unlink()
        elif kind == "change":
            self._write(some)
        elif kind == "relabel":
            target = self.folder / self.generator.choice(_CLASSES) / some.name
            target.parent.mkdir(exist_ok=True)
            some.rename(target)
        elif kind == "touch":
            self._touch(some)
        elif kind == "break" and len(files) > 8:
            some.write_bytes(some.read_bytes()[:200])
            self._touch(some)
        elif kind == "option":
            name = self.generator.choice(list(_OPTIONS))
            self.options[name] = self.generator.choice(_OPTIONS[name])
            return f"{name} {self.options[name]}"
        return f"{kind} {some.name}"

    def _add(self, label: str | None = None) -> None:
        label = label or self.generator.choice(_CLASSES)
        self._write(self.folder / label / f"{self.number:04d}.png")

    def _write(self, path: pathlib.Path) -> None:
        self.number += 1
        make_picture(path, self.number, size=(20 + self.number % 3, 20))
        self._touch(path)

    def _touch(self, path: pathlib.Path) -> None:
        """Gives a file a time of its own, whatever the clock does."""
        self.time += 10**9
        os.utime(path, ns=(self.time, self.time))


def run(output: pathlib.Path, *argv: object) -> int:
    """The exit code of `recordmill images`."""
    return main(["images", "--quiet", "--workers", "1", "--output", str(output), *map(str, argv)])


def files_of(dataset: pathlib.Path, *, but: Mapping[str, object] = {}) -> dict[str, bytes]:
    """{name: content} of a dataset, without job.json and the lock."""
    return {
        str(path.relative_to(dataset)): path.read_bytes()
        for path in sorted(dataset.rglob("*"))
        if path.is_file() and ".recordmill" not in path.parts and path.name not in {JOB, *but}
    }


def reused(dataset: pathlib.Path) -> int | None:
    """The number of records that a run took from earlier datasets."""
    found: int | None = json.loads((dataset / JOB).read_bytes()).get("reused")
    return found


def check_sequence(
    folder: pathlib.Path, *, seed: int, generations: int, reusing: Callable[..., int] = run
) -> int:
    """Make generation after generation, and return how many records were reused in all.

    reusing: `run` for the datasets that reuse those of the generation before.

    Raises:
      AssertionError: a generation is not what a run from scratch makes.
    """
    generator = random.Random(seed)
    changes = Changes(folder / "in", generator)
    own = folder / "own"
    before: pathlib.Path | None = None
    total = 0
    said = []
    for generation in range(generations):
        said += [changes.step() for _ in range(generator.choice((0, 1, 1, 2, 4)) if before else 0)]
        scratch, made = folder / f"scratch-{generation}", folder / f"made-{generation}"
        argv = [*changes.argv]
        code = run(scratch, *argv, "--no-reuse")
        reuse = [] if before is None else ["--reuse", before]
        assert reusing(made, *argv, *reuse) == code, said
        assert run(own, *argv, "--overwrite") == code, said
        if code:
            continue
        expected = files_of(scratch)
        assert files_of(made) == expected, said
        assert files_of(own) == expected, said
        assert (RECIPES in expected) == (changes.options["--compression"] == "none")
        total += (reused(made) or 0) + (reused(own) or 0)
        shutil.rmtree(scratch)
        if before is not None:
            shutil.rmtree(before)
        before = made
    return total
