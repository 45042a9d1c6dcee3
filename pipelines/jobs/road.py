"""The road of every data type, written once.

    Read -> Check -> AssignSplits -> Analyze -> Rebalance -> Reshuffle -> WriteToTFRecord -> Publish

These eight names are the top level of Beam's graph. Handles on batches in staging pass from step to
step up to Analyze; after it the plan, pieces of shards, and facts on finished shards.
"""

import dataclasses
from collections.abc import Mapping

import apache_beam as beam

from recordmill.job.staging import Listing
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Check,
    Publish,
    Read,
    Rebalance,
    Reshuffle,
    RunSpec,
    WriteToTFRecord,
)
from recordmill.transforms.balancing.label_bins import LabelBins
from recordmill.transforms.balancing.quotas import Balance, Target
from recordmill.transforms.checks.select_records import RecordSelection
from recordmill.transforms.model import data_type
from recordmill.transforms.model.data_type import Artifact, Duplicates, Preprocessing
from recordmill.transforms.model.known_content import KnownContents
from recordmill.transforms.planning.profiling import Profiling
from recordmill.transforms.sources.rows.references.repeated_rows import Conflicts
from recordmill.transforms.staged.row_reader import RowReader
from recordmill.transforms.windowing.window_tasks import Windowing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Road:
    """One run over one listing: the options that one step alone takes, beside those of the run.

    reader: reads the rows where the listing only names places; it applies the check as well.
    windowing: set if the records are windows of the rows. selection: the records to keep.
    label_bins: bins of a number to predict, which balancing and stratification take for classes.
    artifacts: files of the user that the encoder needs. shards: names of the shards to write, to
      replace damaged ones; None writes all, and publishes.
    """

    run: RunSpec
    listing: Listing
    reader: RowReader | None = None
    check: data_type.RowCheck | None = None
    duplicates: Duplicates | None = None
    content: data_type.ContentReader | None = None
    known: KnownContents | None = None
    near: data_type.NearDuplicates | None = None
    conflicts: Conflicts = "reject"
    windowing: Windowing | None = None
    selection: RecordSelection = RecordSelection()  # noqa: RUF009, it is frozen
    label_bins: LabelBins | None = None
    stratify: bool = False
    analysis: data_type.Analysis | Preprocessing | None = None
    profiling: Profiling | None = None
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    unique_keys: bool = False
    balance: Balance = "none"
    balance_target: Target = None
    dry_run: bool = False
    shards: frozenset[str] | None = None

    def build(self, pipeline: beam.Pipeline) -> None:
        """Put the whole graph into a pipeline; without a dataset to write, only its beginning."""
        profiling = self.profiling
        infers = profiling is not None and profiling.infer
        analyzed = (
            pipeline
            | Read(self.run, listing=self.listing, reader=self.reader)
            | Check(
                check=self._check,
                duplicates=self.duplicates,
                content=self.content,
                known=self.known,
                near=self.near,
                conflicts=self.conflicts,
            )
            | AssignSplits(
                stratify=self.stratify and not infers,
                windowing=None if infers else self.windowing,
                selection=self.selection,
                label_bins=None if infers else self.label_bins,
                keep_source=profiling is not None and profiling.profiles_source,
                remedy=self._remedy,
            )
            | Analyze(
                analysis=self.analysis,
                profiling=profiling,
                artifacts=self.artifacts,
                unique_keys=self._unique_keys,
            )
        )
        if infers:
            return
        planned = analyzed | Rebalance(
            self.balance, target=self.balance_target, plan_only=self.dry_run
        )
        if self.dry_run:
            return
        written = planned | Reshuffle() | WriteToTFRecord(only=self.shards)
        if self.shards is None:
            written | Publish(at_most=self._at_most)

    @property
    def _at_most(self) -> int | None:
        """Upper bound of the number of records of the dataset; None if it is not known yet."""
        is_known = self.reader is None and self.windowing is None and self.balance != "oversample"
        return self.listing.rows if is_known else None

    @property
    def _check(self) -> data_type.RowCheck | None:
        return None if self.reader is not None else self.check

    @property
    def _unique_keys(self) -> bool:
        """True if the source, or the decision on rows of the same key, guarantees unique keys."""
        decided = self.reader is not None and self.reader.conflicts is not None
        return self.unique_keys or (decided and self.windowing is None)

    @property
    def _remedy(self) -> str:
        for option, rule in (("dedup", self.duplicates), ("near-duplicates", self.near)):
            if rule is not None and rule.mode == "group":
                return f"take --{option} drop"
        return "leave --group-column or --group-from out"
