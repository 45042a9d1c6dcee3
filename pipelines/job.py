"""A job from its options to its published dataset: what stands before and after the pipeline."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyarrow as pa

from recordmill.errors import ConfigError, Reject, RunError
from recordmill.job import lock
from recordmill.job.publishing import check_output_folder
from recordmill.job.staging import FOLDER, Listing, Staging, Verdict, to_json
from recordmill.pipelines.options import declaration as option_machinery
from recordmill.pipelines.options.config import CommonConfig
from recordmill.pipelines.options.labels_file import read_labels
from recordmill.pipelines.published import Published, finish_publishing
from recordmill.pipelines.road import Road
from recordmill.pipelines.schemas import SchemaRequest
from recordmill.storage.files import Location, shown
from recordmill.transforms.balancing.quotas import Target
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import (
    Context,
    DataType,
    InformedSource,
    Layout,
    RowSource,
    check_renames,
    needs_classes,
)
from recordmill.transforms.model.label_sets import RepeatFactors
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.learning import store_artifacts
from recordmill.transforms.planning.plan import unknown_splits
from recordmill.transforms.staged.listing import read_part, row_layout, stage_listing
from recordmill.transforms.staged.row_reader import RowReader
from recordmill.transforms.windowing.series import Windowing
from recordmill.transforms.windowing.windows import window_layout

RunPipeline = Callable[[Road], None]
Status = Literal["published", "unchanged", "planned", "inferred", "refused", "detached"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """The end of a job.

    status: published, unchanged, planned (a dry run), inferred (a schema is all that was wanted),
      refused, with the verdict, or detached: a cluster goes on with it.
    plan: as plan.json has it. rejects: of what was run, sorted by key.
    resumed: it finished the publishing of an interrupted run.
    """

    status: Status
    resumed: bool = False
    verdict: Verdict | None = None
    plan: Mapping[str, Any] | None = None
    rejects: tuple[Reject, ...] = ()


class Job:
    """One run of one command, under the lock of its output."""

    def __init__(self, config: CommonConfig, kind: DataType) -> None:
        self.config = config
        self.kind = kind
        self.output = Location.parse(config.output)
        self.shaping = {
            key: value for key, value in option_machinery.shaping(config).items() if key != "seed"
        }
        self.shaping |= {"kind": kind.name, **kind.shaping}
        self.labels = read_labels(config.labels_file)
        if self.labels is not None:
            self.shaping["labels_file"] = list(self.labels)
        self.asked = SchemaRequest.of(config, kind)
        if self.asked.rules is not None:
            self.shaping["schema"] = self.asked.rules.sha256  # wherever it stands
        self.encoders = dict(kind.encoder.versions())
        if config.compression == "gzip":
            self.encoders["zlib"] = zlib.ZLIB_RUNTIME_VERSION
        self.id = hashlib.sha256(to_json([self.shaping, config.seed, self.encoders])).hexdigest()[
            :16
        ]
        self.staging = Staging.of(self.output, self.id)

    def check_output(self) -> None:
        """Refuses an output that is not ours.

        Raises:
          ConfigError: it is a file, lies in the input, or holds what is not a dataset of ours.
        """
        _not_nested(Location.parse(self.config.input), self.output)
        check_output_folder(self.output)

    def run(
        self,
        run_pipeline: RunPipeline,
        *,
        on_listed: Callable[[int], None],
        is_running: lock.IsRunning | None = None,
    ) -> JobOutcome:
        """Does what is left to do.

        is_running: whether the (cluster, job) works still to which an earlier run left the output.

        Raises:
          ConfigError, RunError
        """
        self.check_output()
        with lock.hold_lock(self.output / FOLDER, is_running=is_running):
            fresh = not self.staging.root.exists()
            try:
                return self._run(run_pipeline, on_listed)
            except ConfigError:
                if fresh:
                    self.staging.root.delete_tree()
                raise

    def _run(self, run_pipeline: RunPipeline, on_listed: Callable[[int], None]) -> JobOutcome:
        resumed = finish_publishing(self.staging, overwrite=self.config.overwrite)
        published = None if self.asked.infers else Published.find(self.output)
        if published is not None and not self.config.overwrite:
            published.refuse_others(self.shaping, seed=self.config.seed, encoders=self.encoders)
        source = self.kind.source
        listing = stage_listing(
            source,
            self.staging,
            labels=None if isinstance(source, RowSource) else self.labels,
            on_rows=on_listed,
        )
        fingerprint = f"{self.id}-{listing.fingerprint}"
        if published is not None and published.job.get("fingerprint") == fingerprint:
            missing = published.missing()
            if missing is None:
                self.staging.sweep()
                return JobOutcome(status="unchanged", resumed=resumed)
            if not self.config.overwrite:
                self.staging.sweep()
                raise RunError(
                    f"the dataset in {shown(self.output)} is damaged: {missing}; --overwrite writes"
                    " it anew"
                )
        elif published is not None and not self.config.overwrite:
            self.staging.sweep()
            raise ConfigError(
                f"the input has changed since {shown(self.output)} was written: --overwrite"
                " replaces the dataset, another --output keeps it"
            )
        layout = self._layout(listing)
        self.asked.refuse(layout)
        records = layout if self.kind.windows is None else window_layout(layout, self.kind.windows)
        self._check_layout(records)
        self.staging.begin()
        run_pipeline(self._road(listing, layout, records, fingerprint))
        if self.config.detach:
            return JobOutcome(status="detached")
        verdict = self.staging.verdict()
        plan, rejects = self.staging.read_json("plan.json"), self.staging.rejects()
        if verdict is not None:
            return JobOutcome(status="refused", verdict=verdict, plan=plan, rejects=rejects)
        if self.asked.infers:
            self.asked.keep_schema(self.staging)
            self.staging.sweep()
            return JobOutcome(status="inferred")
        self.staging.sweep()
        status: Status = "planned" if self.config.dry_run else "published"
        return JobOutcome(status=status, plan=plan, rejects=rejects)

    def _layout(self, listing: Listing) -> Layout:
        """Return the layout of the rows, as they were listed or as workers will read them."""
        source, duplicates = self.kind.source, self.kind.duplicates
        if not isinstance(source, RowSource):
            return Layout(
                columns=_columns(listing, self.staging),
                labelled=listing.labelled > 0,
                grouped=listing.grouped > 0,
                presplit=listing.presplit > 0,
            )
        layout = row_layout(source, listing, self.staging)
        together = self.kind.cutter is not None or (
            duplicates is not None and duplicates.mode == "group"
        )
        return dataclasses.replace(layout, grouped=layout.grouped or together)

    def _check_layout(self, layout: Layout) -> None:
        config = self.config
        if not layout.presplit and (problems := unknown_splits(config.num_shards, config.splits)):
            raise ConfigError(problems[0])
        rule = None if self.kind.windows is None else self.kind.windows.label.kind
        for flag, wanted in (
            (f"--window-label {rule}", rule not in (None, "last")),
            (f"--balance {config.balance}", config.balance != "none"),
            ("--stratify", config.stratify and batch.STRATUM not in layout.columns.names),
        ):
            if wanted and not layout.labelled:
                raise needs_classes(flag)

    def _labels(self) -> tuple[str, ...] | None:
        """The classes in the order of their numbers, where they do not follow from the rows."""
        source = self.kind.source
        said = source.labels if isinstance(source, InformedSource) else None
        return self.labels if said is None else said

    def _balance_target(self) -> Target:
        target = self.config.balance_target
        if not isinstance(target, str):
            return target
        threshold = self.config.repeat_threshold
        return "median" if threshold is None else RepeatFactors(threshold)

    def _road(self, listing: Listing, rows: Layout, records: Layout, fingerprint: str) -> Road:
        """rows, records: their layouts; the same but for windows, which are cut from rows."""
        config, kind = self.config, self.kind
        # A column that no feature can hold is an error now, not when all is written. The classes
        # are not known yet, only whether there are any.
        context = Context(seed=config.seed, labels=("",) if records.labelled else ())
        check_renames(config.rename, kind.encoder.features(records.columns, context))
        artifacts = store_artifacts(kind.artifacts, self.staging)
        check = self.asked.check(rows)
        reader = None
        if isinstance(kind.source, RowSource):
            reader = RowReader(
                source=kind.source,
                layout=rows,
                staging=self.staging,
                check=check,
                duplicates=kind.duplicates,
                cutter=kind.cutter,
                labels=self.labels,
                artifacts=artifacts,
            )
        windowing = None
        if kind.windows is not None:
            windowing = Windowing(
                options=kind.windows,
                schema=records.columns,
                staging=self.staging,
                splits=config.splits,
                by_series=kind.windows.split_by == "series" and not rows.presplit,
                by_group=kind.windows.split_by == "series" and rows.grouped,
                reject_unlabelled=records.labelled and config.unlabelled == "reject",
            )
        return Road(
            run=self._run_spec(records, fingerprint),
            listing=listing,
            reader=reader,
            check=check,
            duplicates=kind.duplicates,
            windowing=windowing,
            stratify=config.stratify,
            analysis=kind.analysis,
            examination=self.asked.examination(rows, self.staging),
            artifacts=artifacts,
            unique_keys=kind.source.unique_keys,
            balance=config.balance,
            balance_target=self._balance_target(),
            dry_run=config.dry_run,
        )

    def _run_spec(self, layout: Layout, fingerprint: str) -> RunSpec:
        config, kind = self.config, self.kind
        return RunSpec(
            output=config.output,
            encoder=kind.encoder,
            splits=config.splits,
            seed=config.seed,
            num_shards=config.num_shards,
            shard_bytes=config.shard_size,
            compression=config.compression,
            labels=self._labels(),
            label_offset=config.label_offset,
            rename=config.rename,
            max_reject_fraction=config.max_reject_fraction,
            overwrite=config.overwrite,
            workers=config.workers,
            spill_above=config.spill_above,
            layout=layout,
            windows=kind.windows,
            unit=kind.unit,
            notes=kind.source.notes if isinstance(kind.source, InformedSource) else (),
            job_id=self.id,
            options=self.shaping,
            versions=self.encoders,
            job={
                "fingerprint": fingerprint,
                "input": config.input,
                "options": option_machinery.shaping(config),
                "python": platform.python_version(),
            },
            watched=not config.detach,
        )


def _columns(listing: Listing, staging: Staging) -> pa.Schema:
    if not listing.parts:
        return pa.schema([])
    return read_part(listing.parts[0].name, staging=staging).schema


def _not_nested(source: Location, output: Location) -> None:
    """A dataset inside its own input would be listed by the next run, and the reverse removed."""
    if (source.root, source.query) != (output.root, output.query):
        return
    inner, outer = f"{output.path.rstrip('/')}/", f"{source.path.rstrip('/')}/"
    if source.is_local:
        inner, outer = (f"{os.path.realpath(path)}/" for path in (inner, outer))
    if inner.startswith(outer):
        raise ConfigError(
            f"--output {shown(output)} lies inside --input {shown(source)}: its files would be"
            " listed as input by the next run; choose a folder outside of it"
        )
