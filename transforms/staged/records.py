"""The records that steps hand on: staged ones, and values in memory.

`Read` and `StageBatches` begin with a run, and hand it on with handles on staged batches. Values
are batches in memory that become a dataset in `WriteToTFRecord`; the steps before it only note
their options, because a plan needs all records and all options.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
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

    unique_keys: whether the source guarantees unique keys; otherwise `Analyze` compares them.
    steps: names of the steps that were applied, without `Read` and `StageBatches`.
    ungrouped: whether it is known that no record has a group, beside what the run knows.
    """

    handles: beam.PCollection[Element]
    run: RunSpec
    unique_keys: bool = False
    steps: tuple[str, ...] = ()
    ungrouped: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """The options of the steps before `WriteToTFRecord`; None where a step was not applied.

    artifacts: files that the encoder needs, and that are not learned. windows: how series are cut
    into windows; then `windowing` makes all options for that, given these, `staging` and `splits`.
    unit: name of a record in the ledger. implied_names: {feature: new name} that follow from the
    roles of columns.
    unique_keys, ungrouped: whether it is known that keys cannot repeat, and that no record has a
    group, so that nothing needs to be checked.
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
    splits: Mapping[str, float] | None = None
    seed: int | None = None
    stratify: bool = False
    balance: Balance | None = None
    target: Target = None


class InputCount(NamedTuple):
    """Inputs or records that a step left out, such as hidden files or images below `min_size`.

    Attributes:
      reason: The option that excludes them, or another reason of the ledger.
      number: How many.
      are_records: Whether they had become records.
    """

    reason: str
    number: int
    are_records: bool = False


class RecordValues(NamedTuple):
    """Batches of records, the rejects of the steps before, and the options that were noted.

    Attributes:
      batches: Batches of records, with a column per value, and system columns.
      rejects: The rejects; None if no step before rejects records.
      options: The noted options.
      remarks: What else the steps before found: counts for the ledger, and notes.
    """

    batches: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[Reject] | None = None
    options: ValueOptions = ValueOptions()
    remarks: beam.PCollection[InputCount | Note] | None = None

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
            f"{name}: expected a PCollection, got RecordValues: apply it to .batches, and go on"
            " with .with_batches(...), which keeps the rejects"
        )


# `RecordValues`, or a PCollection of batches, records for `BatchRecords`, or serialized Examples.
Values: TypeAlias = RecordValues | beam.PCollection[Record]


def is_of(given: beam.PCollection[Any], element: Any) -> bool:
    """Return whether elements may have a type; True if Beam does not know theirs."""
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
    """Return the `BatchRecords` whose output this is, if there is one."""
    node = batches.producer
    while node is not None:
        if isinstance(node.transform, BatchRecords):
            return node.transform
        node = node.parent
    return None


def refuse_noted(step: str, options: ValueOptions) -> None:
    """Raise ConfigError for noted options that `WriteToTFRecord` applies, and a step would lose."""
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
