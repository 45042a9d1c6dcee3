"""Writes docs/api.md from the docstrings of the public names: `make docs`."""

import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any

import apache_beam as beam

import recordmill
from recordmill import transforms
from tests.paths import ROOT

PAGE = ROOT / "docs" / "api.md"
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Example):(:?)$")
_ITEM = re.compile(r"^  ([A-Za-z_][\w, ]*): (.*)$")
_INTRODUCTION = """\
# API

`make docs` generates this page from the docstrings of `recordmill.run` and of the public names of
`recordmill.transforms`. [Custom pipelines](pipelines.md) shows how they are used together.
"""


@dataclasses.dataclass(frozen=True)
class Docstring:
    """The sections of a docstring in Google style.

    text: the paragraphs before the sections. fields: {argument or attribute: text}. raises:
    {exception: text}. example: code.
    """

    text: str
    fields: Mapping[str, str]
    raises: Mapping[str, str]
    example: str

    @classmethod
    def parse(cls, text: str) -> "Docstring":
        """Parse a docstring without indentation."""
        sections: dict[str, list[str]] = {"": []}
        name = ""
        for line in text.splitlines():
            if match := _SECTION.match(line):
                name = match[1]
                sections[name] = []
            else:
                sections[name].append(line)
        fields = _items(sections.get("Args", [])) | _items(sections.get("Attributes", []))
        return cls(
            text="\n".join(sections[""]).strip(),
            fields=fields,
            raises=_items(sections.get("Raises", [])),
            example=textwrap.dedent("\n".join(sections.get("Example", []))).strip(),
        )


def _items(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if match := _ITEM.match(line):
            names = match[1].split(", ")
            found |= dict.fromkeys(names, match[2])
        elif line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def public() -> dict[str, Any]:
    """The public names, and what they name."""
    return {name: getattr(transforms, name) for name in transforms.__all__}


def parameters(named: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a class that are not private; none of a protocol."""
    if getattr(named, "_is_protocol", False):
        return {}
    found = inspect.signature(named).parameters
    hints = _hints(named)
    return {
        name: one.replace(annotation=hints.get(name, one.annotation))
        for name, one in found.items()
        if not name.startswith("_")
    }


def _hints(named: type) -> dict[str, Any]:
    """The types of the fields of a dataclass, without ranges and the like."""
    hints: dict[str, Any] = {}
    for base in reversed(named.__mro__):
        if "__dataclass_fields__" in vars(base):
            hints |= inspect.get_annotations(base, eval_str=True)

    def described() -> None:
        """Holds the annotations."""

    described.__annotations__ = hints
    return typing.get_type_hints(described)


def docstring_of(named: Any) -> Docstring:
    """The docstring of a class, with the fields that its bases describe."""
    own = Docstring.parse(inspect.getdoc(named) or "")
    fields: dict[str, str] = {}
    for base in reversed(named.__mro__[1:]):
        if base.__module__.startswith("recordmill") and base.__doc__:
            fields |= Docstring.parse(inspect.cleandoc(base.__doc__)).fields
    return dataclasses.replace(own, fields=fields | dict(own.fields))


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return ""
    if value is inspect.Parameter.empty:
        return "required"
    if dataclasses.is_dataclass(value):
        return f"`{type(value).__name__}()`"
    shown = repr(value)
    return "" if " at 0x" in shown or shown.startswith("<") else f"`{shown}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _methods(protocol: type) -> list[str]:
    """A table of the methods and properties of a protocol."""
    lines = ["", "| method | meaning |", "|---|---|"]
    for name, member in vars(protocol).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        signature = ""
        if inspect.isfunction(member):
            given = [*inspect.signature(member).parameters][1:]
            signature = f"({', '.join(given)})"
        first = (inspect.getdoc(member) or "").partition("\n\n")[0].replace("\n", " ")
        lines.append(f"| `{name}{signature}` | {_escaped(first)} |")
    return lines


def _type_text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " | ".join(map(_type_text, typing.get_args(annotation)))
    if annotation is type(None):
        return "None"
    return inspect.formatannotation(annotation)


def _type(parameter: inspect.Parameter) -> str:
    text = _type_text(parameter.annotation)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    return f"`{_escaped(text)}`"


def _section(name: str, named: Any) -> str:
    found = docstring_of(named)
    lines = [f"### {name}", "", found.text.replace("::", ":")]
    known = parameters(named)
    names = [one for one in known if one in found.fields] if known else list(found.fields)
    if names:
        lines += ["", "| argument | type | default | meaning |", "|---|---|---|---|"]
    for text, same in itertools.groupby(names, key=found.fields.__getitem__):
        several = [*same]
        shown = ", ".join(f"`{one}`" for one in several)
        given = [known[one] for one in several if one in known]
        cells = [
            ", ".join(filter(None, dict.fromkeys(map(cell, given)))) for cell in (_type, _default)
        ]
        lines.append(f"| {shown} | {' | '.join(cells)} | {_escaped(text)} |")
    if getattr(named, "_is_protocol", False):
        lines += _methods(named)
    for error, text in found.raises.items():
        lines += ["", f"Raises `{error}`: {text}"]
    if found.example:
        lines += ["", "```text", found.example, "```"]
    return "\n".join(lines)


def _kind(named: Any) -> str:
    if isinstance(named, type) and issubclass(named, beam.PTransform):
        return "Steps"
    module = named.__module__
    if named.__name__.endswith("Options") or module.endswith(("run_spec", "row_format")):
        return "Options"
    if ".encoders." in module or ".sources.audio" in module:
        return "Encoders, analyses and checks"
    return "Sources, records and protocols"


def page() -> str:
    """The content of docs/api.md."""
    run = Docstring.parse(inspect.getdoc(recordmill.run) or "")
    parts = [
        _INTRODUCTION,
        "## recordmill.run",
        run.text,
        "[Custom pipelines](pipelines.md#run) lists the options.",
    ]
    sections: dict[str, list[str]] = {}
    for name, named in public().items():
        sections.setdefault(_kind(named), []).append(_section(name, named))
    for kind in ("Steps", *sorted({*sections} - {"Steps"})):
        parts += [f"## {kind}", *sections[kind]]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
