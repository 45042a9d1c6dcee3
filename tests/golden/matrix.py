"""The golden matrix: commands over small inputs, and what came of each when it was recorded.

A change of the code that must not change datasets leaves all outcomes as they are; any other change
shows in a diff of `recorded.jsonl`, which a person reads. `commands.txt` holds the commands, beside
those that the documentation shows; README.md says how both are written.

An outcome does not depend on the machine, the time, the version of Python or the number of workers.
The digest of a dataset depends on the libraries that encode and decode its records; it is compared
where these have the versions of the recording. Elsewhere the index, and the features that no such
library makes, are compared all the same (`values`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recordmill.pipelines.cli import main
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.storage.files import Location
from tests.doc_commands import PAGES, commands
from tests.golden import media_inputs, row_inputs  # noqa: F401  (they register makers)
from tests.golden.inputs import MAKERS
from tests.image_runs import Made
from tests.s3_server import s3_server

FOLDER = pathlib.Path(__file__).parent
RECORDED = FOLDER / "recorded.jsonl"
_ENCODERS = "encoders"  # the key of the first line of the recording
_MADE_BY_ENCODERS = ("image", "mask", "raw")  # kinds of features
_TIME = 1_767_225_600 * 10**9  # ns, of all files
_HEX = 16

Outcome = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """A command. name: CELL/NAME, where the cell is TYPE/FEATURE, or docs/PAGE.

    words: the command and its options without --output. `@NAME` stands for the dataset of another
    case.
    """

    name: str
    words: tuple[str, ...]

    @property
    def cell(self) -> str:
        """The data type and the feature."""
        return "/".join(self.name.split("/")[:2])


@functools.cache
def cases() -> Mapping[str, Case]:
    """Return all cases by their names."""
    found = [*_listed(), *_documented()]
    by_name = {case.name: case for case in found}
    if len(by_name) < len(found):
        repeated = [name for name, count in Counter(c.name for c in found).items() if count > 1]
        raise ValueError(f"cases of the same name: {repeated}")
    return by_name


def _listed() -> Iterator[Case]:
    cell = ""
    text = (FOLDER / "commands.txt").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("["):
            cell = line.strip("[]")
        elif line.strip() and not line.startswith("#"):
            name, _, words = line.partition(":")
            yield Case(f"{cell}/{name}", (cell.partition("/")[0], *shlex.split(words)))


# (page, a word of the command): {a word of the page: the input that stands for it}
_OTHER_INPUTS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("adopt", "adopt"): {"shards/": "tf-shards/"},
    ("metadata", "adopt"): {"shards/": "tf-shards/"},
    ("sensor", "Date,Time"): {"plant/": "plant-dates/"},
    ("sensor", "machine"): {"plant/": "plant-machines/"},
    ("tfrecord-input", "images"): {"old/": "@images/plain/png", "shards/": "records/"},
    ("tfrecord-input", "table"): {"old/": "@table/plain/csv"},
    ("reuse", "--reuse"): {"sets/2026-11-25": "@images/plain/png"},
    ("statistics", "--infer-schema"): {"air.pbtxt": "inferred-air.pbtxt"},
    ("statistics", "--compare-with"): {"may/": "@table/learned/first"},
    ("text", "--chat-column"): {"tokenizer.json": "chat.json"},
    ("text", "--pack"): {"tokenizer.json": "bytes.json"},
}


def _documented() -> Iterator[Case]:
    """Yield the commands of the documentation that make a dataset on this machine."""
    for page in PAGES:
        if page.parent.name == "adr":
            continue
        outputs: dict[str, str] = {}
        for words in commands(page):
            is_here = not {"--runner", "--preprocessing-fn"}.intersection(words)
            is_here &= re.search(r"\$[A-Z]", " ".join(words)) is None  # set by lines before it
            if words[0] not in (*DATA_TYPES, "adopt", "--config") or not is_here:
                continue
            given = [*words]
            output = ""
            if "--output" in given:
                at = given.index("--output")
                output = given[at + 1]
                del given[at : at + 2]
            name = f"docs/{page.stem.lower()}/{' '.join(given)}"
            for (stem, word), others in _OTHER_INPUTS.items():
                if stem == page.stem and word in words:
                    for old, new in others.items():
                        given = [one.replace(old, new, 1) for one in given]
            yield Case(name, tuple(outputs.get(word, word) for word in given))
            outputs[output] = f"@{name}"


def recorded() -> tuple[Mapping[str, str], dict[str, Outcome]]:
    """Return the versions of the libraries, and the outcomes by names of cases, as recorded."""
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return lines[0][_ENCODERS], {one.pop("case"): one for one in lines[1:]}


def record(outcomes: Mapping[str, Outcome]) -> None:
    """Write the recording: a line for each case, in the order of their names."""
    encoders: dict[str, str] = dict(recorded()[0]) if RECORDED.exists() else {}
    for outcome in outcomes.values():
        encoders |= outcome.get(_ENCODERS, {})
    lines = [{_ENCODERS: dict(sorted(encoders.items()))}]
    for name, outcome in sorted(outcomes.items()):
        lines.append({"case": name, **{k: v for k, v in outcome.items() if k != _ENCODERS}})
    RECORDED.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def differences(
    name: str, outcome: Outcome, encoders: Mapping[str, str], expected: Mapping[str, Outcome]
) -> list[str]:
    """Return sentences on how an outcome differs from the recorded one; none if it does not."""
    if name not in expected:
        return ["not recorded: make golden records it"]
    found = dict(outcome)
    wanted = dict(expected[name])
    used = found.pop(_ENCODERS, {})
    if any(encoders.get(library) != version for library, version in used.items()):
        found.pop("digest", None)
        wanted.pop("digest", None)
    keys = [key for key in {**wanted, **found} if wanted.get(key) != found.get(key)]
    return [f"{key}: {wanted.get(key)} became {found.get(key)}" for key in keys]


class Runs:
    """Runs of cases in a folder; the inputs and the datasets that others need are made first.

    messages: printed by each case on standard error.
    """

    def __init__(self, folder: pathlib.Path, *, workers: int = 1) -> None:
        self.folder = folder
        self.messages: dict[str, str] = {}
        self._workers = workers
        self._inputs: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._servers = contextlib.ExitStack()
        self._uri: Any = None
        self._stored: set[str] = set()

    def close(self) -> None:
        """Stop the object store."""
        self._servers.close()

    def outcome(self, name: str, *more: str, output: str = "out") -> Outcome:
        """Return what came of a case. more: further options; then `output` is another folder."""
        if more:
            return self._run(cases()[name], self.folder / output / name.encode().hex()[-40:], more)
        if name not in self._outcomes:
            self._outcomes[name] = self._run(cases()[name], self._output_of(name), more)
        return self._outcomes[name]

    def _output_of(self, name: str) -> pathlib.Path:
        return self.folder / "out" / _hash(name)

    def _run(self, case: Case, output: pathlib.Path, more: Sequence[str]) -> Outcome:
        words = [self._place(word) for word in case.words]
        before = os.getcwd()
        os.chdir(self.folder)
        if "--dry-run" in words:
            words.append("--json")
        printed, errors = io.StringIO(), io.StringIO()
        fixed = ("--output", str(output), "--workers", str(self._workers), "--quiet", *more)
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
                code: int | str = main([*words, *fixed])
        except Exception as error:  # noqa: BLE001  (an outcome, which no case should have)
            code = type(error).__name__
        finally:
            os.chdir(before)
            self.messages[case.name] = errors.getvalue().replace(str(self.folder), "")
        if code == 0 and (output / "dataset.json").exists():
            return {"exit": code, **_dataset(Made(output), "options" in case.cell)}
        if code == 0 and "--json" in words:
            return {"exit": code, **_plan(json.loads(printed.getvalue()))}
        return {"exit": code, **_message(self.messages[case.name], case.words)}

    def _place(self, word: str) -> str:
        """Make what a word names, and return the word with its place."""
        if word.startswith("@") and "/" in word:
            name, _, rest = word[1:].partition("//")
            self.outcome(name)
            return str(self._output_of(name)) + ("" if not rest else f"/{rest}")
        found = re.match(r"(.*)s3://bucket/(([^/]+).*)", word)
        names = [found[3]] if found else [p.partition("/")[0] for p in re.split("[=,]", word)]
        for name in names:
            if name in MAKERS and name not in self._inputs:
                self._make(name)
        return found[1] + self._store(found[3], found[2]) if found else word

    def _make(self, name: str) -> None:
        maker = MAKERS[name]
        self._inputs.update(one for one, make in MAKERS.items() if make is maker)
        maker(self.folder)
        for path in self.folder.rglob("*"):
            if path.is_file() and "out" not in path.relative_to(self.folder).parts:
                os.utime(path, ns=(_TIME, _TIME))

    def _store(self, name: str, key: str) -> str:
        """Put an input into the object store, and return the URI of a key there."""
        if self._uri is None:
            self._uri = self._servers.enter_context(s3_server())
        if name not in self._stored:
            self._stored.add(name)
            place = self.folder / name
            for path in place.rglob("*") if place.is_dir() else [place]:
                if path.is_file():
                    target = self._uri(str(path.relative_to(self.folder)))
                    Location.parse(target).write_bytes(path.read_bytes())
        return str(self._uri(key.rstrip("/")))


def _dataset(made: Made, with_options: bool) -> Outcome:
    manifest = made.manifest
    reasons = made.folder / "rejects.jsonl"
    rejects = [json.loads(line) for line in reasons.read_bytes().splitlines()]
    inputs = manifest.ledger.inputs
    index = [
        {k: v for k, v in row.items() if k not in ("content", "offset", "length")}
        for split in sorted(manifest.splits)
        for row in [{"split": split}, *made.index(split)]
    ]
    outcome: Outcome = {
        "digest": manifest.digest[:_HEX],
        "index": _hash(index),
        "inputs": [inputs.read, inputs.filtered, inputs.rejected],
        "records": {name: split.records for name, split in manifest.splits.items()},
        "classes": len(manifest.labels),
        "notes": [note.code for note in manifest.notes],
    }
    if rejects:
        outcome["rejects"] = dict(sorted(Counter(one["reason"] for one in rejects).items()))
        outcome["rejected"] = _hash([[one["key"], one["reason"]] for one in rejects])
    if manifest.encoders:
        outcome["values"] = _hash(_values(made))
        outcome[_ENCODERS] = dict(manifest.encoders)
    if with_options:
        outcome["shaping"] = dict(manifest.options)
    return outcome


def _message(text: str, words: Sequence[str]) -> Outcome:
    """Return the options that a message names, and the values of the command that it repeats."""
    values = [word.rstrip("/") for word in words[1:] if not word.startswith("-")]
    names = {value.rpartition("/")[2] for value in values}
    repeated = [name for name in names if len(name) > 2 and name in text]
    options = set(re.findall(r"--[a-z][a-z-]*[a-z]", text))
    return {"options": sorted(options), "names": sorted(repeated)}


def _values(made: Made) -> Any:
    features = made.manifest.features
    kept = [name for name, one in features.items() if one.kind not in _MADE_BY_ENCODERS]
    return [
        [split, key, [[name, record.get(name)] for name in sorted(kept)]]
        for split in sorted(made.manifest.splits)
        for key, record in made.examples(split).items()
    ]


def _plan(printed: Any) -> Outcome:
    """Return what a dry run plans, but for sizes in bytes, which depend on encoders."""
    splits = {
        name: {key: value for key, value in split.items() if key != "bytes"}
        for name, split in printed["splits"].items()
    }
    return {
        "plan": _hash([splits, printed["classes"], printed["rejects"]]),
        "records": {name: split["records"] for name, split in splits.items()},
        "notes": [note["code"] for note in printed["notes"]],
    }


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, default=_as_json)
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX]


def _as_json(value: Any) -> Any:
    """Return bytes and NumPy's arrays and scalars as JSON has them."""
    return value.hex() if isinstance(value, bytes) else value.tolist()
