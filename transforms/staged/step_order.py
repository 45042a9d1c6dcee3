"""The order of the steps: each checks that its input is the output of an earlier step."""

from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

from recordmill.errors import ConfigError
from recordmill.transforms.staged.handles import Element

_NAMES = {pa.RecordBatch: "pyarrow.RecordBatch", Element: "handles"}


def check_input(given: Any, *, step: str, takes: tuple[Any, ...], after: str) -> None:
    """Raise ConfigError for the input of another step.

    step: name of the step. takes: results of earlier steps (named tuples), or types of the elements
      of a PCollection: `pa.RecordBatch`, `Element`. after: the steps with such an output, if any.
    """
    elements = [one for one in takes if one in _NAMES]
    if isinstance(given, beam.PCollection):
        fits = any(_is_of(given, one) for one in elements)
    elif isinstance(given, list):  # elements in memory, which Beam makes a PCollection of
        fits = bool(elements)
    else:
        fits = isinstance(given, tuple(one for one in takes if one not in elements))
    if not fits:
        expected = f"the output of {after}" if after else _shown(takes[0])
        advice = f": apply {after} before it" if after else ""
        raise ConfigError(f"{step}: expected {expected}, got {_describe(given)}{advice}")


def _is_of(given: beam.PCollection[Any], element: Any) -> bool:
    kind = given.element_type  # None if Beam infers no types (--no_pipeline_type_check)
    known = kind is not None
    return not known or bool(typehints.is_consistent_with(kind, convert_to_beam_type(element)))


def _shown(element: Any) -> str:
    return f"a PCollection of {_NAMES[element]}"


def _describe(given: Any) -> str:
    if not isinstance(given, beam.PCollection):
        return type(given).__name__
    kind = given.element_type
    if kind != typehints.Any:
        for element in _NAMES:
            if _is_of(given, element):
                return _shown(element)
    return f"a PCollection of {getattr(kind, '__name__', kind)}"


class OrderedStep(beam.PTransform):
    """A step that checks its input, before Beam looks into it; fields as in `check_input`."""

    takes: ClassVar[tuple[Any, ...]]
    after: ClassVar[str] = ""

    def _extract_input_pvalues(self, given: Any) -> Any:
        check_input(given, step=type(self).__name__, takes=self.takes, after=self.after)
        return super()._extract_input_pvalues(given)
