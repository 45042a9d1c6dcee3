"""The commands on a finished dataset: `recordmill verify` and `recordmill inspect`.

Both raise ConfigError for wrong usage and RunError if there is no readable dataset.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import recordmill
from recordmill import strict_json
from recordmill.checking import inspection, record_inspection, verify
from recordmill.checking.shard_check import Damage, ShardReport
from recordmill.errors import ConfigError, DamageError, RunError
from recordmill.format import manifest
from recordmill.format.manifest import ManifestError
from recordmill.format.replaced_datasets import DatasetReplacedError, expect_unchanged
from recordmill.format.shard_index import IndexDamagedError
from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Staging
from recordmill.options import values
from recordmill.options.declaration import Group, option
from recordmill.pipelines.commands.dataset_options import (
    DATASET,
    ComparedDatasetConfig,
    DatasetConfig,
)
from recordmill.pipelines.commands.in_processes import in_processes
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.pipelines.terminal import distances, report
from recordmill.profile.statistics_file import parse_compared
from recordmill.reading.reader import RecordPlace
from recordmill.runners.progress import Snapshot, Watcher
from recordmill.storage.files import Location
from recordmill.tfrecord.decode import Value, decoder
from recordmill.tfrecord.framing import MAX_RECORD_BYTES

_RECORD = Group(20, "One record")
_SHEET = Group(25, "Contact sheet")
_OUTPUT = Group(30, "Output")
_SMALLEST_TILE = 16  # pixels; smaller images show nothing, and narrow ones would have no pixel
_LARGEST = 1_000  # pixels of a tile, and records of a class, on a contact sheet


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerifyConfig(DatasetConfig):
    """Options of `recordmill verify`."""

    deep: bool = option(False, group=DATASET, help="Also decode every image and frame.")
    manifest_sha256: str | None = option(
        None,
        group=DATASET,
        metavar="HEX",
        help="Check that dataset.json has this sha256, from a trusted source. dataset.json holds"
        " the sha256 of all other files but job.json.",
    )
    max_record_bytes: int = option(
        MAX_RECORD_BYTES,
        group=DATASET,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Report larger records of gzip shards as damage, before they are decompressed.",
    )
    workers: int = option(0, group=DATASET, help="Number of processes; 0 is one per core.")
    json: bool = option(
        False, group=_OUTPUT, help="Print everything that is missing or damaged as JSON."
    )
    quiet: bool = option(
        False, group=_OUTPUT, help="Print only what is missing or damaged, and no progress."
    )

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"--workers: expected 0 or more, got {self.workers}")
        given = self.manifest_sha256
        if given is not None and not re.fullmatch("[0-9a-fA-F]{64}", given):
            raise ConfigError(f"--manifest-sha256: expected 64 hexadecimal digits, got {given!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectConfig(ComparedDatasetConfig):
    """Options of `recordmill inspect`."""

    split: str | None = option(
        None,
        group=_RECORD,
        metavar="NAME",
        help="Split of --record, by default train; of --sheet, by default all.",
    )
    record: int | None = option(
        None, group=_RECORD, help="Show this record of the split, counted from 0."
    )
    save: str | None = option(
        None,
        group=_RECORD,
        metavar="FILE",
        help="Write the record's image to this file; its extension is set to that of the image"
        " format. In an existing folder the file is named after the record's key.",
    )
    sheet: str | None = option(
        None,
        group=_SHEET,
        metavar="FILE",
        help="Draw a contact sheet of all classes and splits into this image file, such as"
        " sheet.png.",
    )
    label: str | None = option(
        None, group=_SHEET, metavar="NAME", help="Draw this class only; default: all."
    )
    per_class: int = option(12, group=_SHEET, help="Number of records per class and split.")
    tile_size: int = option(
        72, group=_SHEET, help="Longer side of an image on the sheet in pixels."
    )
    json: bool = option(False, group=_OUTPUT, help="Print JSON.")

    def __post_init__(self) -> None:
        limits = (("per-class", self.per_class, 1), ("tile-size", self.tile_size, _SMALLEST_TILE))
        for name, value, least in limits:
            if not least <= value <= _LARGEST:
                raise ConfigError(f"--{name}: expected {least} to {_LARGEST:,}, got {value:,}")
        if self.sheet is not None and (self.record is not None or self.json or self.compare_with):
            raise ConfigError("--sheet: cannot be combined with --record, --json or --compare-with")
        if self.sheet is None:
            if self.label is not None:
                raise ConfigError("--label: requires --sheet FILE")
            if self.split is not None and self.record is None:
                raise ConfigError("--split: requires --record N or --sheet FILE")
        if self.compare_with is not None and self.record is not None:
            raise ConfigError(
                "--compare-with: cannot be combined with --record, because it compares datasets"
            )
        if self.save is not None and self.record is None:
            raise ConfigError("--save: requires --record N, the record with the image")


def verify_main(argv: Sequence[str]) -> int:
    """Reads every byte of a dataset and lists what is missing or damaged.

    Example:
      recordmill verify --dataset out --deep
    """
    config = parse_command(VerifyConfig, argv, verify_main)
    dataset = Location.parse(config.dataset)
    with _reading(dataset, lambda error: _say_unread(config, error)):
        if config.manifest_sha256 is not None:
            verify.check_manifest_sha256(dataset, config.manifest_sha256)
        shards = sum(len(split.shards) for split in manifest.load(dataset).splits.values())
        counted = _Counted(shards)
        with Watcher(counted.snapshot, quiet=config.quiet):
            found = verify.verify(
                dataset,
                deep=config.deep,
                max_record_bytes=config.max_record_bytes,
                run=functools.partial(in_processes, workers=config.workers),
                on_progress=counted.add,
            )
    if config.json:
        strict_json.show(found.to_json())
    elif not (config.quiet and found.ok):
        report.show(report.verification(found, dataset=dataset))
    return 0 if found.ok else 1


def inspect_main(argv: Sequence[str]) -> int:
    """Shows the content of a dataset: splits, classes, features and rejects; or records.

    Example:
      recordmill inspect --dataset out
      recordmill inspect --dataset out --split test --record 12 --save image.jpg
    """
    config = parse_command(InspectConfig, argv, inspect_main)
    dataset = Location.parse(config.dataset)
    with _reading(dataset, lambda error: _say_json(config, {"error": _problem(error)})):
        if config.sheet is not None:
            return _draw_sheet(dataset, config, config.sheet)
        if config.record is not None:
            return _inspect_record(dataset, config, config.record)
        summary = inspection.inspect(
            dataset, compared=parse_compared(config.dataset, config.compare_with)
        )
    if config.json:
        strict_json.show(summary.to_json())
    else:
        tables = distances.tables(summary.skew, summary.drift, other=config.compare_with)
        columns: tuple[str, ...] = ()
        with contextlib.suppress(DamageError):
            job = Staging(dataset).read_json(manifest.JOB, manifest.JobContent) or {}
            columns = job.get("compared", ())
        report.show(report.inspection(summary, dataset=dataset, distances=tables, compared=columns))
    return 0


def _draw_sheet(dataset: Location, config: InspectConfig, path: str) -> int:
    from recordmill.report.contact_sheet import contact_sheet

    if pathlib.PurePath(path).suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise ConfigError(f"--sheet: expected a name that ends in .png, .jpg or .webp, got {path}")
    try:
        sheet = contact_sheet(
            dataset,
            splits=None if config.split is None else [config.split],
            labels=None if config.label is None else [config.label],
            size=config.tile_size,
            per_class=config.per_class,
        )
        sheet.save(path, optimize=True)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise RunError(f"--sheet: cannot write {path}: {error.strerror or error}") from error
    print(f"The contact sheet is in {path}")
    return 0


def _inspect_record(dataset: Location, config: InspectConfig, number: int) -> int:
    stated = manifest.load(dataset)
    try:
        split = config.split or TRAIN
        records = recordmill.open(dataset, split)
        if number < 0:
            raise IndexError(
                f"expected a record of {split} from 0 to {len(records) - 1}, got {number}"
            )
        found, payload = records.place(number), records.payload(number)
    except (ValueError, IndexError) as error:
        raise ConfigError(str(error)) from error
    example = decoder(stated.features)(payload)
    values = record_inspection.describe_record(
        example, stated.features, labels=stated.labels, label_offset=stated.label_offset
    )
    saved = None
    if config.save is not None:
        # Before anything is printed, so that a failure with --json leaves one object on stdout.
        saved = _save(example, stated, _file_for(config.save, found))
    if config.json:
        facts = {name: getattr(found, name) for name in ("key", "label", "copy", "file", "number")}
        strict_json.show({**facts, "features": dict(values)})
        return 0
    report.show(report.record(found, values))
    if saved is not None:
        print(f"The image was written to {saved}")
    return 0


def _file_for(save: str, found: RecordPlace) -> pathlib.Path:
    """Return the file of --save; in a folder its name is the last part of the record's key.

    Copies get a suffix: `1.jpg`, `1-copy2.jpg`.
    """
    path = pathlib.Path(save)
    if not path.is_dir() and not save.endswith("/"):
        return path
    name = pathlib.PurePosixPath(pathlib.PurePosixPath(found.key).name.lstrip(".") or "record")
    copy = f"-copy{found.copy}" if found.copy else ""
    return path / f"{name.stem}{copy}{name.suffix}"


def _save(
    example: Mapping[str, Value], stated: manifest.Manifest, path: pathlib.Path
) -> pathlib.Path:
    try:
        return record_inspection.save_image(example, stated.features, path)
    except ValueError as error:
        raise ConfigError(f"--save: {error}") from error
    except OSError as error:
        raise RunError(f"--save: cannot write {path}: {error.strerror or error}") from error


class _Counted:
    """Progress in shards verified."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._reports: list[ShardReport] = []

    def add(self, done: ShardReport) -> None:
        self._reports.append(done)

    def snapshot(self) -> Snapshot:
        done = self._reports[:]
        return Snapshot(
            phase="verifying",
            done=len(done),
            total=self._total,
            records=sum(one.records for one in done),
            bytes=sum(one.bytes for one in done),
            rejects=None,
            unit="shards",
        )


@contextlib.contextmanager
def _reading(dataset: Location, on_error: Callable[[Exception], None]) -> Iterator[None]:
    """Turn errors of reading a dataset into RunError, after calling `on_error`."""
    try:
        with expect_unchanged(dataset):
            yield
    except DamageError as error:
        on_error(error)
        raise RunError(_problem(error)) from error
    except RunError as error:
        on_error(error)
        raise


def _problem(error: Exception) -> str:
    if isinstance(error, IndexDamagedError):
        return f"an index is damaged; `recordmill verify` lists all damage: {error}"
    return str(error)


def _say_unread(config: VerifyConfig, error: Exception) -> None:
    """Print the JSON report of an unreadable dataset: one damage, of the manifest or the whole.

    A dataset that was replaced meanwhile has none.
    """
    replaced = isinstance(error, DatasetReplacedError)
    file = manifest.MANIFEST if isinstance(error, ManifestError) else "."
    damages = () if replaced else (Damage(file=file, what=_problem(error)),)
    found = verify.VerificationReport(
        shards=0, records=0, bytes=0, deep=config.deep, damages=damages, replaced=replaced
    )
    _say_json(config, found.to_json())


def _say_json(config: VerifyConfig | InspectConfig, data: object) -> None:
    if config.json:
        strict_json.show(data)
