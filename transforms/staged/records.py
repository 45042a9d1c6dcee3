"""The records that steps pass on: staged records, and values in memory.

`Read` and `StageBatches` take a run, and pass it on with handles on staged batches. Values are
batches in memory that become a dataset in `WriteToTFRecord`. The steps before it only add their
options to the values, because a plan needs all records and all options.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

from recordmill.errors import ConfigError, Reject
from recordmill.format.ledger import INPUT
from recordmill.notes import Note
from recordmill.transforms.model.batch import GROUP, KEY
from recordmill.transforms.model.data_type import Artifact, Encoder
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.staged.batch_records import BatchRecords, Record
from recordmill.transforms.staged.handles import Element
from recordmill.transforms.staged.parse_examples import parse_examples

if TYPE_CHECKING:
    from recordmill.transforms.balancing.quotas import Balance, Target
    from recordmill.transforms.windowing.window_tasks import Windowing


class StagedRecords(NamedTuple):
    """Handles on staged batches, and the run that they belong to.

    Attributes:
      handles: The handles.
      run: Options of the run.
      unique_keys: Whether the source guarantees unique keys; otherwise `Analyze` checks them.
      steps: Names of the steps that were applied, without `Read` and `StageBatches`.
      ungrouped: Whether it is known that no record has a group, even if the layout of the run is
        unknown.
    """

    handles: beam.PCollection[Element]
    run: RunSpec
    unique_keys: bool = False
    steps: tuple[str, ...] = ()
    ungrouped: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """The options of the steps before `WriteToTFRecord`; None where a step was not applied.

    Attributes:
      encoder: Encoder of the records.
      artifacts: Files that the encoder needs, and that are not learned.
      windows: Options for cutting series into windows.
      windowing: Makes the `Windowing` from `windows`, the staging folder and the splits.
      unit: Name of a record in the ledger.
      implied_names: {feature: new name} that follow from the roles of columns.
      unique_keys: Whether it is known that keys cannot repeat, so that they are not checked.
      ungrouped: Whether it is known that no record has a group, so that groups are not checked.
      rename: Option of `EncodeExamples`.
      labels, label_offset: Options of `DecodeAndResizeImages`.
      splits, seed, stratify: Options of `AssignSplits`.
      balance, target: Options of `Rebalance`.
    """

    encoder: Encoder | None = None
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    windows: WindowOptions | None = None
    windowing: Callable[..., Windowing] | None = None
    unit: str = INPUT
    implied_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unique_keys: bool = False
    ungrouped: bool = False
    rename: Mapping[str, str] | None = None
    labels: tuple[str, ...] | AsSideInput | None = None
    label_offset: int | None = None
    splits: Mapping[str, float] | None = None
    seed: int | None = None
    stratify: bool = False
    balance: Balance | None = None
    target: Target = None


class InputCount(NamedTuple):
    """Inputs or records that a step left out, such as hidden files or images below `min_size`.

    Attributes:
      reason: The option that excludes them, or another reason of the ledger.
      number: Number of inputs or records.
      are_records: Whether they are records; otherwise they are inputs.
    """

    reason: str
    number: int
    are_records: bool = False


class CutInputs(NamedTuple):
    """Inputs that were cut into several records each, such as clips.

    Attributes:
      inputs: Number of inputs.
      records: Number of their records.
    """

    inputs: int
    records: int


class LostClasses(NamedTuple):
    """Classes of which a step rejected or left out all inputs of a batch.

    Attributes:
      counts: {class: number of inputs}.
    """

    counts: Mapping[str, int]


# What a step tells `WriteToTFRecord` of the inputs beside the records and rejects.
StepRemark: TypeAlias = InputCount | CutInputs | LostClasses | Note


class RecordValues(NamedTuple):
    """Batches of records in memory, with the rejects and the options of earlier steps.

    Attributes:
      batches: Batches of records, with a column per value, and system columns.
      rejects: Rejects of earlier steps; None if no earlier step rejects records.
      options: Options of earlier steps, which `WriteToTFRecord` applies.
      remarks: Notes of earlier steps, and counts of the inputs and records that they read or left
        out.
    """

    batches: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[Reject] | None = None
    options: ValueOptions = ValueOptions()
    remarks: beam.PCollection[StepRemark] | None = None

    def with_batches(self, batches: beam.PCollection[pa.RecordBatch]) -> RecordValues:
        """Return other batches with the same rejects, remarks and options.

        Example::

            images = images.with_batches(images.batches | beam.Map(add_column))
        """
        options = dataclasses.replace(self.options, unique_keys=False, ungrouped=False)
        return self._replace(batches=batches, options=options)

    def __or__(self, step: Any) -> Any:
        """Raise ConfigError for a transform that would lose the rejects; steps are applied."""
        if getattr(step, "takes", None) or getattr(getattr(step, "transform", None), "takes", None):
            return NotImplemented  # the step applies itself
        name = getattr(step, "label", type(step).__name__)
        raise ConfigError(
            f"{name}: expected a PCollection, got RecordValues: apply it to .batches, and pass the"
            " result to .with_batches(...), which keeps the rejects"
        )


# `RecordValues`, or a PCollection of batches, records for `BatchRecords`, or serialized Examples.
Values: TypeAlias = RecordValues | beam.PCollection[Record]


def is_of(given: beam.PCollection[Any], element: Any) -> bool:
    """Return whether elements may have a type; True if Beam does not know their type."""
    kind = given.element_type  # None if Beam infers no types (--no_pipeline_type_check)
    known = kind is not None
    if element is beam.Row and hasattr(kind, "_fields"):  # a named tuple is a record as well
        return True
    return not known or bool(typehints.is_consistent_with(kind, convert_to_beam_type(element)))


def values_of(records: Values) -> RecordValues:
    """Return records in memory as values; Examples are parsed, and other records are batched."""
    if isinstance(records, RecordValues):
        return records
    if records.element_type is bytes:
        return RecordValues(*parse_examples(records, {}, None))
    if records.element_type is not pa.RecordBatch:  # or Beam does not know the type
        records |= BatchRecords()
    made = _maker_of(records)
    if made is None:
        return RecordValues(records)
    return RecordValues(
        records,
        options=ValueOptions(unique_keys=not made.has(KEY), ungrouped=not made.has(GROUP)),
    )


def _maker_of(batches: beam.PCollection[Any]) -> BatchRecords | None:
    """Return the `BatchRecords` that made the batches; None if they have another producer."""
    node = batches.producer
    while node is not None:
        if isinstance(node.transform, BatchRecords):
            return node.transform
        node = node.parent
    return None


def refuse_noted(step: str, options: ValueOptions) -> None:
    """Raise ConfigError for options that only `WriteToTFRecord` applies, not the given step."""
    noted = {
        "AssignSplits(stratify=True)": options.stratify,
        "Rebalance": options.balance not in (None, "none"),
        "EncodeExamples(rename=...)": options.rename,
        "ReadSeries": options.windows,
    }
    for name, given in noted.items():
        if given:
            raise ConfigError(
                f"{step}: {name} has no effect before it, because WriteToTFRecord applies it: leave"
                f" {name} out, or write the records with WriteToTFRecord"
            )
