"""The command `recordmill report`: one HTML file that shows a finished dataset.

It raises ConfigError for wrong usage and RunError if there is no readable dataset.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import JOB, ManifestError, load
from recordmill.format.shard_index import IndexDamagedError
from recordmill.pipelines.options.declaration import Group, option, options_of, parse_command
from recordmill.profile import statistics_file
from recordmill.profile.statistics_file import STATISTICS, load_compared
from recordmill.reading.reader import DatasetDamagedError
from recordmill.storage.files import Location, shown

_DATASET = Group(10, "Dataset")
_OUTPUT = Group(20, "Output")
_DATA_TYPES = ("images", "text", "table", "sensor", "arrays", "video")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportPageConfig:
    """Options of `recordmill report`."""

    dataset: str = option(
        group=_DATASET, metavar="FOLDER", help="Folder of the dataset: a path, or s3://, gs://."
    )
    compare_with: str | None = option(
        None,
        group=_DATASET,
        metavar="FOLDER",
        help="Show the drift from another dataset; both datasets need statistics.",
    )
    output: str | None = option(
        None,
        group=_OUTPUT,
        metavar="FILE",
        help="HTML file to write, replaced if it exists; default: FOLDER.report.html.",
    )
    open: bool = option(False, group=_OUTPUT, help="Open the report in the default browser.")


def report_main(argv: Sequence[str]) -> int:
    """Writes one HTML file that shows a dataset: its counts, and a sample of its records.

    Example:
      recordmill report --dataset out --open
    """
    config = parse_command(ReportPageConfig, argv, report_main)
    dataset = Location.parse(config.dataset.rstrip("/") or "/")
    compared = None
    try:
        manifest = load(dataset)
        if config.compare_with is not None:
            if STATISTICS not in manifest.files:
                raise ConfigError(
                    f"--compare-with: {config.dataset} has no {STATISTICS}; expected a dataset"
                    " that was made with --statistics"
                )
            compared = statistics_file.parse(load_compared(config.compare_with))
        written = write_report(
            dataset,
            output=config.output,
            compared=compared,
            other=config.compare_with,
        )
    except (ManifestError, IndexDamagedError, DatasetDamagedError) as error:
        raise RunError(
            f"no report was written: {error}; `recordmill verify` lists all damage"
        ) from error
    print(f"The report is in {shown(written)}")
    if config.open:
        import webbrowser

        is_local = written.is_local
        webbrowser.open(
            pathlib.Path(written.local_path).absolute().as_uri() if is_local else str(written)
        )
    return 0


def write_report(
    dataset: Location,
    *,
    output: str | None = None,
    compared: Mapping[str, statistics_file.SliceView] | None = None,
    other: str | None = None,
) -> Location:
    """Write the report of a dataset and return its place; by default `DATASET.report.html`.

    compared, other: the statistics of another dataset, and its name, for drift.

    Raises:
      ManifestError, IndexDamagedError, DatasetDamagedError: the dataset is missing or damaged.
      StorageError: a file cannot be read or written.
    """
    from recordmill.report import page

    place = Location.parse(output or f"{str(dataset).rstrip('/')}.report.html")
    manifest = load(dataset)
    job = dataset / JOB
    command = None
    if job.exists() and manifest.options.get("kind") in _DATA_TYPES:
        command = command_of(str(manifest.options["kind"]), json.loads(job.read_bytes()))
    html = page.render(dataset, compared=compared, other=other, command=command)
    place.write_bytes(html.encode())
    return place


def command_of(data_type: str, job: Mapping[str, Any]) -> str:
    """Return the command that makes a dataset, from the options of its job.json.

    Options with their default values are left out. The output is OUT.
    """
    module = importlib.import_module(f"recordmill.pipelines.{data_type}")
    options = options_of(getattr(module, f"{data_type.capitalize()}Config"))
    given = job.get("options", {})
    parts = ["recordmill", data_type]
    for text in job.get("input", ()):
        parts += ["--input", text]
    parts += ["--output", "OUT"]
    for name, value in given.items():
        one = options.get(name)
        if one is None or value == (None if one.required else one.show(one.default)):
            continue
        if one.switch:
            parts.append(f"--{one.key}" if value else f"--no-{one.key}")
        elif value is not None:
            parts += [f"--{one.key}", _typed(value)]
    return shlex.join(parts)


def _typed(value: Any) -> str:
    """Return a value as it is typed on the command line."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
