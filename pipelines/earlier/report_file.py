"""The file of a dataset's report, and the command line that rebuilds the dataset."""

from __future__ import annotations

import importlib
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import JOB, JobContent, load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.typed_json import damage_of, parse_json, read_as
from recordmill.options.declaration import Option, options_of
from recordmill.pipelines.earlier.published import warn_complete
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.profile.statistics_file import SliceView
from recordmill.storage.files import Location, is_uri, shown
from recordmill.storage.machine_faults import machine_fault

_HEAD = 4096  # bytes of a report, its digest among them
_PLACE = re.compile("FILE|FOLDER|PATH|WHERE|DATASET")  # in the placeholder of an option
_SPLIT = re.compile(r"[\w-]+=")
_DIGEST = re.compile(rb'<meta name="recordmill-digest" content="([0-9a-f]*)">')


def write_report(
    dataset: Location,
    *,
    output: str | None = None,
    compared: Mapping[str, SliceView] | None = None,
    other: str | None = None,
    local_files: bool = False,
) -> Location:
    """Write the report of a dataset and return its place; by default `DATASET.report.html`.

    compared, other: the statistics of another dataset, and its name, for drift.
    local_files: whether to show paths of local files that job.json and rejects.jsonl name, and
      thumbnails of rejected images. Another person may have written these files.

    Raises:
      ConfigError: the output is not an HTML file, or lies in the dataset.
      DamageError: the dataset is missing or damaged.
      DatasetReplacedError: a run replaced it meanwhile.
      StorageError: a file cannot be read or written.
    """
    place = Location.parse(output) if output else _default_place(dataset)
    _check_target(place, dataset)
    with expect_unchanged(dataset):
        html = _page(dataset, compared=compared, other=other, local_files=local_files)
    place.write_bytes(html.encode())
    return place


def _page(
    dataset: Location,
    *,
    compared: Mapping[str, SliceView] | None,
    other: str | None,
    local_files: bool,
) -> str:
    """Return the report of a dataset as HTML."""
    from recordmill.reading.reader import Records  # imported here: they take 0.1 s
    from recordmill.report import page

    records = Records(dataset)
    data_type, job = records.manifest.command, dataset / JOB
    command, inputs = None, list[str]()
    if job.exists() and data_type in DATA_TYPES:
        with damage_of(JOB):
            data = read_as(JobContent, parse_json(job.read_bytes()))
            command = command_of(data_type, data, places=local_files)
            inputs = [*data.get("input", ())]
    return page.render(
        dataset,
        records,
        compared=compared,
        other=other,
        command=command,
        inputs=inputs if local_files else None,
    )


def update_report(dataset: Location, *, wanted: bool, prog: str, quiet: bool) -> None:
    """Write the report of a complete dataset, or warn if it has a report of an earlier dataset.

    wanted: whether to write it. A failure to write it is only a warning, because the dataset is
      complete.
    """
    if not wanted:
        stale = _stale_report(dataset)
        if stale is not None:
            warn_complete(
                prog,
                f"{shown(stale)} shows an earlier dataset; `recordmill report --dataset"
                f" {shown(dataset)}` replaces it",
            )
        return
    try:
        place = write_report(dataset)
    except (ConfigError, RunError, OSError, MemoryError) as error:
        warn_complete(prog, f"no report was written: {machine_fault(error) or error}")
        return
    if not quiet:
        print(f"The report is in {shown(place)}")


def _stale_report(dataset: Location) -> Location | None:
    """Return the report beside a dataset if it shows another one, such as one since replaced.

    Only local folders are looked at.
    """
    place = _default_place(dataset)
    if not place.is_local:
        return None
    try:
        with open(place.local_path, "rb") as file:
            found = _DIGEST.search(file.read(_HEAD))
    except OSError:  # there is no report, or none that can be read
        return None
    return place if found and found[1].decode() != load(dataset).digest else None


def _default_place(dataset: Location) -> Location:
    return dataset.parent / f"{dataset.name}.report.html"


def _check_target(place: Location, dataset: Location) -> None:
    """Refuse to replace anything but a page."""
    if not place.name.endswith((".html", ".htm")):
        raise ConfigError(f"--output: expected a name that ends in .html, got {shown(place)}")
    both_local = place.is_local and dataset.is_local
    target, folder = (
        os.path.realpath(one.local_path) if both_local else f"{one.root}/{one.path}".rstrip("/")
        for one in (place, dataset)
    )
    if target.startswith(f"{folder}/"):
        raise ConfigError(
            f"--output: {shown(place)} is inside the dataset: choose a file outside of it"
        )
    if both_local and os.path.lexists(place.local_path) and not os.path.isfile(place.local_path):
        raise ConfigError(f"--output: {shown(place)} exists and is no file")


def command_of(data_type: str, job: Mapping[str, Any], *, places: bool = True) -> str:
    """Return the command that builds a dataset, from the options of its job.json.

    Options with their default values are left out, and so are those of the machine. The output is
    OUT.

    places: whether to show paths of local files; if False, FILE, FOLDER and the like replace them.

    Raises:
      ValueError, TypeError: the job is damaged.
    """
    found = DATA_TYPES[data_type]
    options = options_of(getattr(importlib.import_module(found.module), found.config))
    given = job.get("options", {})
    inputs = [*job.get("input", ())]
    if not places:
        inputs = [_without_place(options["input"], text) for text in inputs]
    parts = ["recordmill", data_type, *_flags("input", inputs)]
    parts += ["--output", "OUT"]
    for name, one in options.items():
        value = given.get(name)
        default = None if one.required or one.default is None else one.show(one.default)
        if value in (None, default):
            continue
        if one.switch:
            parts.append(f"--{one.key}" if value else f"--no-{one.key}")
        else:
            texts = _texts(one, value)
            parts += _flags(
                one.key, texts if places else [_without_place(one, text) for text in texts]
            )
    return shlex.join(parts)


def _without_place(one: Option, text: str) -> str:
    """Return the text of an option with its placeholder instead of a local path."""
    place = _PLACE.search(one.metavar)
    if place is None or text in one.metavar.split("|"):
        return text
    if "OLD=NEW" in one.metavar and "=" in text:
        return text
    split = _SPLIT.match(text)
    prefix = split[0] if split is not None and "=" in one.metavar else ""
    where = text.removeprefix(prefix)
    in_store = is_uri(where) and not where.lower().startswith("file:")
    return text if in_store else f"{prefix}{place[0]}"


def _flags(key: str, texts: Iterable[str]) -> list[str]:
    """Return an option as it is typed on the command line, once for each text."""
    found = []
    for text in texts:
        # A value that looks like a flag is only read as a value after an equals sign.
        found += [f"--{key}={text}"] if text.startswith("--") else [f"--{key}", text]
    return found


def _texts(one: Option, value: Any) -> list[str]:
    """Return the texts that an option is given with: one if that means the same, else several."""
    if isinstance(value, Mapping):
        value = [f"{name}={each}" for name, each in value.items()]
    texts = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    joined = ",".join(texts)
    try:
        return [joined] if not one.repeat or one.read([joined]) == one.read(texts) else texts
    except ValueError:
        return texts
