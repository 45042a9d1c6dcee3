"""A job of a command: lists the input, builds and runs the pipeline, and reports the outcome."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from recordmill.errors import ConfigError, RunError
from recordmill.job import lock, publishing
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.job.scratch import begin_scratch, names_option, with_scratch
from recordmill.job.staging import FOLDER, Listing, PlanContent, Staging
from recordmill.notes import Note, join_left_unread
from recordmill.options.declaration import as_given
from recordmill.pipelines.earlier.input_changes import describe_changes
from recordmill.pipelines.earlier.known_datasets import KnownDatasets
from recordmill.pipelines.earlier.learned_from import LearnedDataset
from recordmill.pipelines.earlier.limits_of_published import keeps_limits
from recordmill.pipelines.earlier.published import Published, finish_publishing
from recordmill.pipelines.earlier.reused_datasets import stage_reused
from recordmill.pipelines.earlier.schemas import SchemaRequest
from recordmill.pipelines.jobs.class_numbering import class_numbers
from recordmill.pipelines.jobs.duplicate_rules import check_rules, compared_columns
from recordmill.pipelines.jobs.early_work import early_work
from recordmill.pipelines.jobs.identity import job_id, shaping_of, versions_of
from recordmill.pipelines.jobs.interpretation import (
    bins_of,
    conflicts_of,
    group_noun,
    interpret,
    listed_roles,
    renames_of,
    rules_of,
    target_of,
    unread_label,
)
from recordmill.pipelines.jobs.job_outcome import JobOutcome, Status
from recordmill.pipelines.jobs.layout_checks import (
    check_layout,
    check_not_nested,
    check_splits,
    layout_of_records,
)
from recordmill.pipelines.jobs.listing import list_input
from recordmill.pipelines.jobs.windowing import window_numbers, windowing_of
from recordmill.pipelines.options.common.card import read_card
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.common.labels_file import read_labels
from recordmill.runners.beam_patches import permanent_imports
from recordmill.storage.files import Location, results_of, shown
from recordmill.storage.redaction import redact_uris
from recordmill.transforms.advice.input_names import input_notes
from recordmill.transforms.advice.readings import reading_advice
from recordmill.transforms.advice.split_columns import column_notes, unused_split_columns
from recordmill.transforms.encoders.artifacts import store_artifacts
from recordmill.transforms.model.class_numbers import ClassNumbers
from recordmill.transforms.model.data_type import Artifact, Context, DataType
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.renames import check_renames
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.source import Layout, RowSource
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.reuse.frame_places import FramePlaces
from recordmill.transforms.sources.tfrecords.known_inputs import dataset_splits
from recordmill.transforms.staged.listing import class_counts
from recordmill.transforms.staged.row_reader import RowReader
from recordmill.transforms.windowing.window_layout import window_layout

if TYPE_CHECKING:
    from recordmill.pipelines.jobs.road import Road


class Job:
    """One run of a command, which holds the lock of its output.

    shaping: the options that shape the bytes of the dataset. encoders: {library: version}. id: a
    hash of both and the seed, the name of the staging folder.
    """

    def __init__(self, config: CommonConfig, data_type: DataType) -> None:
        self.config = config
        self.learned = LearnedDataset.of(config, data_type)
        if self.learned is not None:
            data_type = self.learned.applied_to(data_type)
        self.data_type = data_type
        self.output = Location.parse(config.output)
        self.card = read_card(config.card)
        self.labels = read_labels(config.labels_file)
        self.shaping = shaping_of(config, data_type, self.labels)
        if self.learned is not None:
            self.learned.refuse_options(self.shaping)
            self.labels = self.learned.labels(self.labels, data_type)
            self.shaping |= self.learned.shaping
        check_rules(config, data_type)
        self.known_contents = KnownDatasets.open(
            config.exclude_like, kind=data_type.name, near=data_type.near
        )
        self.shaping |= self.known_contents.shaping
        self.rules = rules_of(config, self.labels, of_objects=data_type.of_objects)
        self.schema_request = SchemaRequest.of(config, data_type, self.learned)
        if self.schema_request.rules is not None:
            # Its content counts, not its path.
            self.shaping["schema"] = self.schema_request.rules.sha256
        self.encoders = versions_of(config, data_type)
        self.id = job_id([self.shaping, config.seed, self.encoders])
        self.staging = Staging.of(self.output, self.id)
        if config.runner == "direct":  # all workers are on this machine
            self.staging = with_scratch(self.staging, config.scratch)
        self._interpretation: Mapping[str, str] = {}
        self._facts = NO_FACTS
        self._notes_of_input: tuple[Note, ...] = ()
        self._listed_classes: Mapping[str, int] = {}
        self._reuse: FramePlaces | None = None
        self._numbers = ClassNumbers()
        self._has_checked_output = False

    def check_output(self) -> None:
        """Check that a dataset can be written to the output; later calls do nothing.

        Raises:
          ConfigError: the output is a file, lies in the input, or holds other files.
        """
        if self._has_checked_output:
            return
        for one in self.config.input:
            check_not_nested(Location.parse(one.path), self.output)
        publishing.check_output_folder(self.output)
        self._has_checked_output = True

    def run(
        self,
        run_pipeline: Callable[[Road], None],
        *,
        on_listed: Callable[[int], None],
        on_interpreted: Callable[[Mapping[str, str]], None] = lambda facts: None,
        follow: Callable[[lock.ClusterJob], None] | None = None,
        is_running: lock.IsRunning | None = None,
        private: bool = True,
    ) -> JobOutcome:
        """Run the job, or the rest of it if an earlier run was interrupted.

        run_pipeline: builds and runs the pipeline. on_listed: called with numbers of listed rows.
        on_interpreted: called with the content of `interpret` before the pipeline. follow: waits
        for the job that an earlier run has left on a cluster. is_running: returns if such a job
        still runs. private: only this user sees staging.

        Raises:
          ConfigError: the options or the input cannot be used.
          RunError: the job failed.
        """
        self.check_output()
        follows = None if follow is None or self.config.detach else self.id
        with (
            lock.hold_lock(
                self.output / FOLDER, is_running=is_running, follows=follows, private=private
            ) as running,
            self.staging.dropped_if_refused(),
            names_option(self.staging),
        ):
            if running is not None and follow is not None:
                follow(running)
            outcome = self._run(run_pipeline, on_listed, on_interpreted)
            # The job of the earlier run has published the dataset.
            ended = running is not None and outcome.status == "unchanged"
            return dataclasses.replace(outcome, resumed=True) if ended else outcome

    def _run(
        self,
        run_pipeline: Callable[[Road], None],
        on_listed: Callable[[int], None],
        on_interpreted: Callable[[Mapping[str, str]], None],
    ) -> JobOutcome:
        resumed = finish_publishing(self.staging, overwrite=self.config.overwrite)
        begin_scratch(self.staging)
        published = None if self.schema_request.infers else Published.find(self.output)
        if published is not None and not self.config.overwrite:
            published.refuse_others(self.shaping, seed=self.config.seed, encoders=self.encoders)
        source = self.data_type.source
        rules = LabelRules() if isinstance(source, RowSource) else self.rules
        new = published is None
        listing = list_input(
            source,
            self.staging,
            rules=rules,
            on_rows=on_listed,
            imports=new,
        )
        fingerprint = f"{self.id}-{listing.fingerprint}"
        damage = None
        if published is not None and published.job.get("fingerprint") in (fingerprint, None):
            try:
                damage = published.find_damage(self.config)
                done = damage is None and keeps_limits(published, self.config, self.schema_request)
            except RunError:
                self.staging.sweep()
                raise
            if done:
                status = published.describe(self.staging, self.card, config=self.config)
                left = publishing.sweep(self.staging)
                return JobOutcome(status=status, resumed=resumed, leftovers=left)
        elif published is not None and not self.config.overwrite:
            old, encoder = published.manifest, self.data_type.encoder
            differ = describe_changes(listing, self.staging, self.output, old, encoder)
            self.staging.sweep()
            raise ConfigError(
                f"the input has changed since {shown(self.output)} was written{differ}:"
                " --overwrite replaces the dataset, another --output keeps it"
            )
        layout = layout_of_records(self.data_type, listing, self.staging)
        self._name_columns(layout, listing.facts)
        self._compare_as(layout)
        self._facts, self._notes_of_input = listing.facts, (*listing.notes, *layout.notes)
        self._numbers = class_numbers(
            self.config, layout, listing.facts, labels=self.labels, learned=self.learned
        )
        required: tuple[str, ...] = ()
        if self.learned is not None:
            context = self._context(layout)
            layout, required = self.learned.match(layout, self.data_type, context, self._records)
        counts = class_counts(listing, self.staging)
        if self.config.number_type is None:  # else they are numbers to predict
            self._listed_classes = Counter(counts) + Counter(listing.rejected_labels)
        replaced = None if published is None else self.output
        reused = stage_reused(
            self.config, self.data_type, self.staging, options=self.shaping, replaced=replaced
        )
        self._reuse = reused.places
        unused: Mapping[str, Sequence[str]] = {}
        if self.config.split_from == "auto":
            unused = unused_split_columns(self.data_type, layout, listing, self.staging)
        facts = interpret(self.config, self.data_type, listing, layout, counts, unused)
        learned = {} if self.learned is None else {"learned": f"from {shown(self.learned.place)}"}
        self._interpretation = {**facts, **reused.facts, **learned}
        self._notes_of_input += (
            *column_notes(unused),
            *input_notes(self.config.inputs, layout, self.config.unlabelled),
        )
        on_interpreted(self._interpretation)
        check_splits(self.config, self.data_type.windows, layout)
        self.schema_request.refuse(layout)
        records = self._records(layout)
        check_layout(self.config, self.data_type.windows, records)
        self.staging.begin()
        shards = None if damage is None else damage.shards
        with contextlib.ExitStack() as self._early:
            run_pipeline(self._road(listing, layout, records, required, fingerprint, shards))
        if self.config.detach:
            return JobOutcome(status="detached")
        if published is not None and shards is not None and self.staging.verdict() is None:
            repaired = published.repair(self.staging, shards)
            leftovers = publishing.sweep(self.staging)
            return JobOutcome(status="repaired", repaired=repaired, leftovers=leftovers)
        try:
            return self._outcome()
        except RunError as error:
            publishing.expect_published(self.staging, error)
            return JobOutcome(status="published", leftovers=str(error))

    def _outcome(self) -> JobOutcome:
        staging = self.staging
        verdict, plan, rejects = results_of(
            staging.verdict,
            functools.partial(staging.read_json, "plan.json", PlanContent),
            staging.rejects,
            at=staging.intermediate,
        )
        notes = self._notes() if plan is None else tuple(map(Note.from_json, plan["notes"]))
        facts = self._interpretation
        outcome = JobOutcome(
            status="planned", plan=plan, rejects=rejects, notes=notes, interpretation=facts
        )
        if verdict is not None:
            verdict = verdict.with_advice(reading_advice(self.data_type.source, rejects))
            return dataclasses.replace(outcome, status="refused", verdict=verdict)
        if self.schema_request.infers:
            self.schema_request.keep_schema(self.staging)
            self.staging.sweep()
            return JobOutcome(status="inferred", notes=notes)
        status: Status = "planned" if self.config.dry_run else "published"
        return dataclasses.replace(outcome, status=status, leftovers=publishing.sweep(self.staging))

    def _name_columns(self, layout: Layout, facts: InputFacts) -> None:
        """Put columns in place of patterns in options. Raises ConfigError."""
        roles = listed_roles(self.config, layout, facts)
        taken = () if roles is None else (roles.target, roles.weight)
        fields = [one for one in user_fields(layout.columns) if one.name not in taken]
        changed, self.data_type = self.config.for_columns(fields, self.data_type)
        self.shaping |= changed
        self.schema_request = dataclasses.replace(self.schema_request, data_type=self.data_type)

    def _compare_as(self, layout: Layout) -> None:
        """Match the classes that options name as values or as texts, as the layout says."""
        self.rules = self.rules.beside(values=layout.of_values)
        if (windows := self.data_type.windows) is not None:
            rules = dataclasses.replace(self.rules, of_values=layout.of_values)
            rule = dataclasses.replace(windows.label, name=rules.selected([windows.label.name])[0])
            windows = dataclasses.replace(windows, label=rule)
            self.data_type = dataclasses.replace(self.data_type, windows=windows)

    def _artifacts(self) -> dict[str, Artifact]:
        """Return the files that are not learned in this run, for encoders to read."""
        given = store_artifacts(self.data_type.artifacts, self.staging)
        return given | ({} if self.learned is None else self.learned.stage(self.staging))

    def _records(self, layout: Layout) -> Layout:
        """Return the layout of the records. layout: layout of the rows."""
        if (windows := self.data_type.windows) is None:
            return layout
        return window_layout(layout, windows, window_numbers(self.config, layout))

    def _context(self, layout: Layout) -> Context:
        """Return a context for features before the names of the classes are known."""
        roles = listed_roles(self.config, layout, self._facts)
        return Context(
            seed=self.config.seed,
            label_offset=self._numbers.first,
            labels=("",) if layout.labelled and self.config.number_type is None else (),
            rename=renames_of(self.config, roles),
            artifacts=self._artifacts(),
        )

    def _road(
        self,
        listing: Listing,
        rows: Layout,
        records: Layout,
        required: Sequence[str],
        fingerprint: str,
        shards: frozenset[str] | None,
    ) -> Road:
        """Return the pipeline to run.

        rows, records: layouts of the rows and of the records, which differ if records are windows.
        required: columns of which rows without a value are rejected.
        shards: the shards to write; None for all, and to publish them.
        """
        config, data_type = self.config, self.data_type
        context = self._context(rows)
        # Report a column that no feature can hold before the work. Loading artifacts takes longer.
        unlearned = dataclasses.replace(context, artifacts={})
        features = data_type.encoder.features(records.columns, unlearned)
        implied = {old: new for old, new in context.rename.items() if old not in config.rename}
        check_renames(context.rename, features, implied=implied)
        roles = listed_roles(config, rows, self._facts)
        check, analysis = self.schema_request.check(rows), data_type.analysis
        if self.learned is not None:
            check = self.learned.check(check, required)
            analysis = self.learned.analysis(config, context.artifacts)
        by_content = config.needs_content or config.fingerprint == "content"
        content = data_type.content if by_content else None
        known = self.known_contents.stage(self.staging, workers=config.workers)
        reader = None
        if isinstance(data_type.source, RowSource):
            reader = RowReader(
                source=data_type.source,
                layout=rows,
                staging=self.staging,
                check=check,
                content=content,
                duplicates=data_type.duplicates,
                chunker=data_type.chunker,
                rules=self.rules if data_type.windows is None else self.rules.of_rows,
                known=known,
                artifacts=context.artifacts,
                conflicts=conflicts_of(config, data_type),
                keeps_labels=self.rules.names_classes
                or (data_type.windows is not None and data_type.windows.label.name != ""),
            )
        run = self._run_spec(rows, records, fingerprint)
        early = early_work(config, data_type, run, listing, reader, artifacts=context.artifacts)
        self._early.enter_context(early)
        # Many runs end before they need Beam, whose import takes as long as thousands of files.
        with permanent_imports():
            from recordmill.pipelines.jobs.road import Road
            from recordmill.transforms.checks.select_records import RecordSelection
        windowing = None
        if data_type.windows is not None:
            windowing = windowing_of(config, data_type.windows, rows, records, self.staging)
        return Road(
            run=run,
            listing=listing,
            reader=reader,
            check=check,
            duplicates=data_type.duplicates,
            content=None if reader is not None else content,
            known=known,
            near=data_type.near,
            conflicts=config.conflicts,
            windowing=windowing,
            selection=RecordSelection(
                rules=None if windowing is None else self.rules.of_windows,
                limit=config.limit,
                limit_per_class=config.limit_per_class,
            ),
            label_bins=bins_of(config, roles),
            stratify=config.stratify,
            analysis=analysis,
            profiling=self.schema_request.profiling(rows, self.staging),
            artifacts=context.artifacts,
            unique_keys=data_type.source.unique_keys,
            balance=config.balance,
            balance_target=target_of(config),
            dry_run=config.dry_run,
            shards=shards,
        )

    def _notes(self) -> tuple[Note, ...]:
        """Return the notes on the input as a whole, and on options that have no effect."""
        found = self._notes_of_input
        if self.config.labels_file is not None:  # it decides the numbers of classes
            found = tuple(note for note in found if note.code != "class-numbers")
        return join_left_unread((*found, *self.schema_request.notes))

    def _run_spec(self, rows: Layout, layout: Layout, fingerprint: str) -> RunSpec:
        config, data_type = self.config, self.data_type
        roles = listed_roles(config, rows, self._facts)
        given = redact_uris(as_given(config))
        return RunSpec(
            output=config.output,
            encoder=data_type.encoder,
            splits=config.fractions,
            seed=config.seed,
            num_shards=config.num_shards,
            shard_bytes=config.shard_size,
            compression=config.compression,
            class_numbers=self._numbers,
            number_labels=unread_label(config, roles),
            rename=renames_of(config, roles),
            max_reject_fraction=config.max_reject_fraction,
            overwrite=config.overwrite,
            workers=config.workers,
            worker_memory=config.max_worker_memory,
            worker_seconds=config.max_worker_seconds,
            spill_above=config.spill_above,
            fingerprint=config.fingerprint,
            reuse=self._reuse,
            input_splits=dataset_splits(config.inputs, rows.split_source),
            layout=layout,
            windows=data_type.windows,
            unit=data_type.unit,
            notes=self._notes(),
            fail_on=config.fail_on,
            listed_classes=self.rules.renamed(self._listed_classes),
            group_noun=group_noun(config, data_type, roles),
            compared=compared_columns(config, data_type, rows),
            rules=self.rules,
            card=self.card,
            job_id=self.id,
            scratch="" if self.staging.scratch is None else self.staging.scratch.path,
            options=self.shaping,
            versions=self.encoders,
            job={
                "fingerprint": fingerprint,
                "input": given.pop("input"),
                "interpretation": redact_uris(self._interpretation),
                "options": given,
                "python": platform.python_version(),
            },
            watched=not config.detach,
        )
