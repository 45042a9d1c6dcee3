"""Declares options as fields of a frozen dataclass: flags, keys of a job file, and help.

A field declared with `option` is a flag of the same name with dashes, and the same key in the file
of --config.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from recordmill.errors import ConfigError
from recordmill.option_checks import list_text
from recordmill.pipelines.options import values

_METADATA_KEY = "option"  # in a field's metadata


@dataclasses.dataclass(frozen=True, order=True)
class Group:
    """A heading of the help. Groups are sorted by `order`, across all classes of a config."""

    order: int
    title: str


_GENERAL = Group(1000, "Options")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """A declared option.

    read: parses a value from text, for a repeatable option from a list of texts. Raises ValueError.
    show: converts a value to plain YAML and JSON data that `read` can parse.
    shapes_bytes: whether the dataset's bytes depend on it.
    local: whether it concerns the machine or the terminal of one run, so that a repetition of the
      command on another machine leaves it out.
    repeat: whether the flag can be repeated.
    compound: whether a file may give a list or a mapping instead of text.
    switch: whether it is a boolean flag, which takes no value on the command line.
    bare: the value of the flag if none follows it; None if it needs one.
    """

    name: str
    help: str
    group: Group
    default: Any
    metavar: str
    read: Callable[[Any], Any]
    show: Callable[[Any], Any]
    shapes_bytes: bool = False
    local: bool = False
    repeat: bool = False
    compound: bool = False
    switch: bool = False
    bare: str | None = None

    @property
    def key(self) -> str:
        """The name with dashes: the flag without `--`, and the key in a job file."""
        return self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def shown_default(self) -> str:
        """Return the default as it is typed on the command line; empty without a default."""
        shown = None if self.required else self.show(self.default)
        if isinstance(shown, Mapping):
            shown = [f"{name}={value}" for name, value in shown.items()]
        if isinstance(shown, list):
            shown = list_text(map(str, shown))
        return "" if shown is None or self.switch else str(shown)


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,  # noqa: A002, the name that argparse and others use
    group: Group = _GENERAL,
    shapes_bytes: bool = False,
    local: bool = False,
    parse: Callable[[str], Any] | Callable[[Sequence[str]], Any] | None = None,
    show: Callable[[Any], Any] | None = None,
    repeat: bool = False,
    choices: Sequence[str] = (),
    metavar: str | None = None,
    bare: str | None = None,
) -> Any:
    """Declare a field of a config. Without `default` the option is required.

    shapes_bytes: whether the dataset's bytes depend on the option.
    local: whether it concerns the machine or the terminal of one run.
    parse, show: convert a value from text, and back to text or plain data. Fields of type str, int,
      float, bool and Literal do not need them.
    repeat: the flag can be repeated, and a file can hold a list; `parse` takes a list of texts.
    choices: the values to accept; by default those of a Literal annotation.
    metavar: the placeholder of the value in the help.
    bare: the value of the flag if none follows it.
    """
    declared = {
        "help": help, "group": group, "shapes_bytes": shapes_bytes, "local": local,
        "parse": parse, "show": show, "repeat": repeat, "choices": choices, "metavar": metavar,
        "bare": bare,
    }  # fmt: skip
    if isinstance(default, Mapping):
        return dataclasses.field(
            default_factory=functools.partial(dict, default), metadata={_METADATA_KEY: declared}
        )
    return dataclasses.field(default=default, metadata={_METADATA_KEY: declared})


def options_of(config_class: type) -> Mapping[str, Option]:
    """Return {field: option} of a config class, in the order of the help."""
    return _options_of(config_class)


def offered(config_class: type) -> list[Option]:
    """Return the options that help and job files show, in the order of the help.

    These are all but the fields in `REFUSED`, {field: why}, of a class that inherits options which
    never apply to it. They are refused when they are given, with this reason.
    """
    refused = getattr(config_class, "REFUSED", {})
    return [one for one in options_of(config_class).values() if one.name not in refused]


def check_offered(config: Any) -> None:
    """Raise ConfigError if an option that the config's class refuses is given."""
    declared = options_of(type(config))
    for name, why in getattr(config, "REFUSED", {}).items():
        if getattr(config, name) != declared[name].default:
            raise ConfigError(f"--{declared[name].key} {why}: leave it out")


@functools.cache
def _options_of(config_class: Any) -> Mapping[str, Option]:
    hints = typing.get_type_hints(config_class)
    fields = dataclasses.fields(config_class)
    found = [_declared(field, hint=hints[field.name]) for field in fields]
    # Read-only, because all callers share it.
    return types.MappingProxyType(
        {one.name: one for one in sorted(found, key=lambda one: one.group)}
    )


def shaping(config: Any) -> dict[str, Any]:
    """Return {field: value} of the options that shape the dataset's bytes, as JSON data.

    Values are canonical: 128MB and 128000000 give the same result.
    """
    return {
        one.name: one.show(getattr(config, one.name))
        for one in options_of(type(config)).values()
        if one.shapes_bytes
    }


def as_given(config: Any) -> dict[str, Any]:
    """Return {field: value} of the options that a repetition of the command needs, as JSON data.

    Those with their defaults are included, because defaults can change.
    """
    return {
        one.name: None if (value := getattr(config, one.name)) is None else one.show(value)
        for one in options_of(type(config)).values()
        if not one.local
    }


def _declared(field: dataclasses.Field[Any], *, hint: Any) -> Option:
    declared = dict(field.metadata[_METADATA_KEY])
    read, show = declared.pop("parse"), declared.pop("show")
    choices, metavar = declared.pop("choices"), declared.pop("metavar")
    compound = read is not None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        hint = rest[0] if len(rest) == 1 else hint
    if typing.get_origin(hint) is Literal:
        choices = choices or typing.get_args(hint)
    by_type: dict[Any, tuple[Callable[[str], Any], str]] = {
        str: (values.text, "TEXT"),
        int: (values.whole_number, "N"),
        float: (values.number, "X"),
        bool: (values.boolean, ""),
    }
    inferred, name = by_type.get(hint, (None, "VALUE"))
    if choices:
        inferred, name = values.one_of(*choices), "|".join(choices)
    read = read or inferred
    if read is None:
        raise TypeError(f"the option {field.name} has the type {hint}, which needs parse=")
    factory = field.default_factory
    return Option(
        name=field.name,
        default=field.default if factory is dataclasses.MISSING else factory(),
        read=read,
        show=show or _plain,
        metavar=name if metavar is None else metavar,
        compound=compound,
        switch=hint is bool,
        **declared,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
