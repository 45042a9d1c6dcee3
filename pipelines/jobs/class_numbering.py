"""Integer labels of the classes of a job: from options, the input, or --learned-from."""

from __future__ import annotations

from collections.abc import Mapping

from recordmill.errors import ConfigError
from recordmill.job.input_facts import ColumnRoles, InputFacts
from recordmill.pipelines.earlier.learned_from import LearnedDataset
from recordmill.pipelines.jobs.interpretation import gives_values, listed_roles
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.transforms.model import batch
from recordmill.transforms.model.class_numbers import ClassNumbers, merge_numbers
from recordmill.transforms.model.source import Layout
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout
from recordmill.transforms.sources.tfrecords.known_numbers import (
    NumberedInput,
    numbered_inputs,
    with_label_maps,
)

_OF_DATASETS = ColumnRoles(label=batch.LABEL)
_REMEDY = (
    "classes of inputs that are read together need the same numbers: give all of them with"
    " --labels-file, one name per line, in the order of their numbers"
)


def class_numbers(
    config: CommonConfig,
    layout: Layout,
    facts: InputFacts,
    *,
    labels: tuple[str, ...] | None,
    learned: LearnedDataset | None,
) -> ClassNumbers:
    """Return the rule for the integer labels of a job, once its input is listed.

    Args:
      config: Options of the command.
      layout: Layout of the rows.
      facts: Facts about the input.
      labels: Classes of --labels-file or --learned-from.
      learned: Dataset of --learned-from.

    Raises:
      ConfigError: The classes of inputs have different numbers, or are not those of the dataset of
        --learned-from.
    """
    of_source = facts.labels
    if of_source is not None and learned is not None:
        learned.refuse_labels(of_source, "the input")
    if labels is None and config.label_bins is not None:
        labels = ()  # Examples get no class
    roles = listed_roles(config, layout, facts)
    offset = config.label_offset
    if learned is not None and offset is None:
        offset = learned.manifest.label_offset
    found = _stated(config, layout, facts, roles)
    known: Mapping[str, int] = {}
    if config.labels_file is None and learned is None:
        known = merge_numbers(found, remedy=_REMEDY)
        if known:
            of_source = None  # they are some of these
    elif offset is None and found:
        offset = _common_offset(found)
    return ClassNumbers(
        labels=labels if of_source is None else of_source,
        offset=offset,
        known=known,
        by_value=gives_values(config, roles),
        rules=None if facts.labels is None else config.label_rules(),
    )


def _stated(
    config: CommonConfig, layout: Layout, facts: InputFacts, roles: ColumnRoles | None
) -> list[NumberedInput]:
    """Return the numbers that the input states for its classes, none if they follow from values."""
    of_objects = facts.labels is not None
    if of_objects and (found := numbered_inputs(config.inputs, _OF_DATASETS)):
        return found
    if facts.class_numbers:
        numbers = with_label_maps(facts.class_numbers, config.inputs)
        return [NumberedInput(str(config.inputs), numbers)]
    if roles is None or roles.classes is None or config.number_type is not None:
        return []
    if isinstance(layout, RowLayout) and layout.class_names is not None:
        numbers = {name: int(number) for number, name in layout.class_names.items()}
        return [NumberedInput(str(config.inputs), numbers)]
    return numbered_inputs(config.inputs, roles)


def _common_offset(found: list[NumberedInput]) -> int:
    """Return the number of the first class of all inputs. Raises ConfigError if they differ."""
    offsets = {ClassNumbers(offset=None, known=one.numbers).first: one.place for one in found}
    if len(offsets) > 1:
        (one, place), (other, another) = sorted(offsets.items())[:2]
        raise ConfigError(
            f"the classes of {place} begin at {one}, and those of {another} at {other}: give the"
            " number of the first one with --label-offset"
        )
    return next(iter(offsets))
