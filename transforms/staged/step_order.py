"""The order of the steps: each checks that its input is the output of an earlier step."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.decorators import IOTypeHints

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options, unknown_option
from recordmill.transforms.staged.records import RecordValues, StagedRecords, is_of

_TRANSFORMED = tuple[pa.RecordBatch, dict[str, pa.Array]]  # a batch of tensorflow-transform
_NAMES = {
    pa.RecordBatch: "pyarrow.RecordBatch",
    dict: "dict",
    beam.Row: "beam.Row",
    bytes: "bytes",
    _TRANSFORMED: "(pyarrow.RecordBatch, dict)",
}
_ONCE = ("Check", "AssignSplits")
# Records in memory.
VALUES = (RecordValues, pa.RecordBatch, dict, beam.Row, bytes, _TRANSFORMED)


def check_input(given: Any, *, step: str, takes: tuple[Any, ...], after: str) -> None:
    """Raise ConfigError unless a step can take the input.

    Args:
      given: The input.
      step: Name of the step.
      takes: Results of earlier steps (named tuples), or element types of a PCollection, which are
        keys of `_NAMES`.
      after: Names of the steps with such a result; "" if the step can begin a pipeline.
    """
    elements = [one for one in takes if one in _NAMES]
    if isinstance(given, beam.PCollection):
        fits = any(is_of(given, one) for one in elements) or (
            dict in elements and dataclasses.is_dataclass(given.element_type)
        )
    elif isinstance(given, list):  # elements in memory, which Beam makes a PCollection of
        fits = bool(elements)
    else:
        fits = isinstance(given, tuple(one for one in takes if one not in elements))
    if not fits:
        expected = f"the output of {after}" if after else " or ".join(map(_shown, takes))
        advice = f": apply {after} before it" if after else ""
        if after and elements and isinstance(given, beam.PCollection):
            names = [_NAMES[one] for one in elements if one != _TRANSFORMED]
            expected += f", or a PCollection of {', '.join(names)}"
            advice = f": apply {after} before it, or make dicts of the elements"
        raise ConfigError(f"{step}: expected {expected}, got {_describe(given)}{advice}")
    if isinstance(given, StagedRecords):
        _check_steps(given.steps, step)


def _check_steps(applied: Sequence[str], step: str) -> None:
    """Raise ConfigError unless the steps that were applied may precede the step."""
    if step == "Analyze" and "AssignSplits" not in applied:
        raise ConfigError(
            "Analyze: expected the output of AssignSplits, got the output of"
            f" {applied[-1] if applied else 'Read or StageBatches'}: apply AssignSplits before it"
        )
    if step in _ONCE:
        refuse_repetition(step, was_applied=step in applied)
    if step == "Check" and "AssignSplits" in applied:
        raise ConfigError(
            "Check: expected the output of Read or StageBatches, got the output of AssignSplits:"
            " apply Check before AssignSplits"
        )


def refuse_repetition(step: str, *, was_applied: bool) -> None:
    """Raise ConfigError if a step that is applied only once was already applied."""
    if was_applied:
        raise ConfigError(f"{step}: it was already applied to these records: apply it once")


def refuse_options(step: str, options: Mapping[str, Any]) -> None:
    """Raise ConfigError for options that belong in the run of staged records; None is not given."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(
                f"{step}: {name}: staged records take this option from their RunSpec: set it there"
            )


def _shown(taken: Any) -> str:
    return f"a PCollection of {_NAMES[taken]}" if taken in _NAMES else taken.__name__


def _describe(given: Any) -> str:
    if not isinstance(given, beam.PCollection):
        return type(given).__name__
    kind = given.element_type
    if kind != typehints.Any:
        for element in _NAMES:
            if is_of(given, element):
                return _shown(element)
    return f"a PCollection of {getattr(kind, '__name__', kind)}"


def _check_arguments(step: type, given: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise ConfigError for arguments that a step does not have.

    Steps are also made without any, when they are copied or unpickled.
    """
    if not given and not options:
        return
    signature = inspect.signature(step)  # of `__init__`
    known = [
        name
        for name, one in signature.parameters.items()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    ]
    takes_others = any(one.kind == one.VAR_KEYWORD for one in signature.parameters.values())
    for name in options:
        if name not in known and not takes_others:
            takes = f"it takes {', '.join(known) or 'no options'}"
            raise unknown_option(step.__name__, name, known, takes)
    try:
        signature.bind(*given, **options)
    except TypeError as error:
        raise ConfigError(f"{step.__name__}: {error}") from error


class OrderedStep(beam.PTransform):
    """A step that checks its options when it is made, and its input before Beam checks it.

    takes, after: as in `check_input`.
    """

    takes: ClassVar[tuple[Any, ...]]
    after: ClassVar[str] = ""

    def __new__(cls, *given: Any, **options: Any) -> Self:
        _check_arguments(cls, given, options)
        made: Self = super().__new__(cls)
        return made

    def __post_init__(self) -> None:
        super().__init__()
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        """Raise ConfigError for options that contradict each other."""

    def default_type_hints(self) -> IOTypeHints:
        """Return no hints: Beam knows none for named tuples, and the input is checked here."""
        return IOTypeHints.empty()

    def _extract_input_pvalues(self, given: Any) -> Any:
        check_input(given, step=type(self).__name__, takes=self.takes, after=self.after)
        found, inputs = super()._extract_input_pvalues(given)
        if isinstance(given, tuple):
            # Beam expects PCollections only; a run, and a result that is known before it, are none.
            inputs = {tag: one for tag, one in inputs.items() if isinstance(one, beam.PCollection)}
        return found, inputs
