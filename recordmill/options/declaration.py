"""Declare options as fields of a frozen dataclass, with their flags, keys of job files, and help.

`option` declares a field as an option: a flag, and a key of the same name in the file of --config.
The class that uses an option declares it. A command takes the options of such a class with
`option_group`; their names are unique within a command.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from recordmill.option_checks import list_text
from recordmill.options import values

_T = TypeVar("_T")

_METADATA_KEY, _GROUP_KEY = "option", "option group"  # in a field's metadata


@dataclasses.dataclass(frozen=True, order=True)
class Group:
    """A heading of the help. Groups are sorted by `order`, across all classes of a config.

    Attributes:
      order: Position among all groups.
      title: Text of the heading.
      shapes_bytes: Default of `option` for the options of the group.
      local: Default of `option` for the options of the group.
    """

    order: int
    title: str
    shapes_bytes: bool = dataclasses.field(default=False, compare=False)
    local: bool = dataclasses.field(default=False, compare=False)

    @property
    def topic(self) -> str:
        """Name of the group as a topic of `--help`."""
        return self.title.split()[0].strip(",").lower()


_GENERAL = Group(1000, "Options")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """A declared option.

    Attributes:
      name: Name with underscores, unique within a command.
      help: Description for the help.
      group: Heading in the help.
      default: Value without the flag; `dataclasses.MISSING` if the option is required.
      metavar: Placeholder of the value in the help.
      read: Parses a value from text, for a repeatable option from a list of texts. Raises
        ValueError.
      show: Converts a value to plain YAML and JSON data that `read` can parse.
      shapes_bytes: Whether the dataset's bytes depend on it.
      local: Whether it concerns the machine or the terminal of one run, so that a repetition of the
        command on another machine leaves it out.
      repeat: Whether the flag can be repeated.
      compound: Whether a file may give a list or a mapping instead of text.
      switch: Whether it is a boolean flag, which takes no value on the command line.
      bare: Value of a flag that no value follows; None if the flag needs a value.
      after: Option that it follows in the help; None if it follows the field before.
      holder: Field of the config with the `GroupValues` that hold its value; None if the config
        itself holds it.
      field: Field of the class that declares it.
      convert: Makes the value of `field` from that of the option; None if they are equal.
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
    after: str | None = None
    holder: str | None = None
    field: str
    convert: Callable[[Any], Any] | None = None

    @property
    def key(self) -> str:
        """The name with dashes: the flag without `--`, and the key in a job file."""
        return self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def of(self, config: Any) -> Any:
        """Return the value of the option in a config."""
        if self.holder is None:
            return getattr(config, self.field)
        return getattr(config, self.holder)[self.name]

    def shown_default(self) -> str:
        """Return the default as it is typed on the command line, "" without one.

        It is also "" if the help describes it.
        """
        if "Default: " in self.help:
            return ""
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
    group: Group | None = None,
    shapes_bytes: bool | None = None,
    local: bool | None = None,
    parse: Callable[[str], Any] | Callable[[Sequence[str]], Any] | None = None,
    show: Callable[[Any], Any] | None = None,
    repeat: bool = False,
    choices: Sequence[str] = (),
    metavar: str | None = None,
    bare: str | None = None,
    name: str | None = None,
    after: str | None = None,
    convert: Callable[[Any], Any] | None = None,
    given: Any = dataclasses.MISSING,
) -> Any:
    """Declare a field of a config. Without `default` the option is required.

    Args:
      default: Default of the field, and of the option unless `given` differs.
      help: Description for the help.
      group: Heading in the help. Default: `HEADING` of the class, or that of its `option_group`.
      shapes_bytes: Whether the dataset's bytes depend on the option. Default: as the group.
      local: Whether it concerns the machine or the terminal of one run. Default: as the group.
      parse: Converts text to a value. Fields of type str, int, float, bool and Literal need none.
      show: Converts a value back to text or plain data.
      repeat: Whether the flag can be repeated, and a file can hold a list; `parse` then takes a
        list of texts.
      choices: Accepted values. Default: those of a Literal annotation.
      metavar: Placeholder of the value in the help.
      bare: Value of a flag that no value follows.
      name: Name of the option. Default: that of the field.
      after: Option that it follows in the help. Default: that of the field before.
      convert: Makes the value of the field from that of the option.
      given: Default of the option, if it differs from that of the field.
    """
    declared = {
        "help": help, "group": group, "shapes_bytes": shapes_bytes, "local": local,
        "parse": parse, "show": show, "repeat": repeat, "choices": choices, "metavar": metavar,
        "bare": bare, "name": name, "after": after, "convert": convert, "given": given,
    }  # fmt: skip
    if isinstance(default, Mapping):
        return dataclasses.field(
            default_factory=functools.partial(dict, default), metadata={_METADATA_KEY: declared}
        )
    return dataclasses.field(default=default, metadata={_METADATA_KEY: declared})


@dataclasses.dataclass(frozen=True)
class GroupValues(Generic[_T]):
    """The values of the options that a class declares, as a command gives them.

    Attributes:
      kind: The class.
      values: {name of the option: value}.
    """

    kind: type[_T]
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def make(self, **others: Any) -> _T:
        """Return an instance of the class.

        Args:
          **others: Fields that are not options, or that replace the values of options.

        Raises:
          ConfigError: A value is invalid, or two options contradict each other.
        """
        declared = options_of(self.kind)
        fields = {
            one.field: value if one.convert is None else one.convert(value)
            for one, value in ((declared[name], value) for name, value in self.values.items())
            if one.field not in others
        }
        return self.kind(**fields, **others)


def option_group(
    kind: type[_T],
    *,
    group: Group,
    omit: Collection[str] = (),
    **changes: Mapping[str, Any],
) -> GroupValues[_T]:
    """Declare the options of a class as options of a config.

    Args:
      kind: The class.
      group: Heading of the options that have no group of their own.
      omit: Names of options to leave out.
      **changes: Arguments of `option` that differ for this config, by the name of the option.
    """
    values = {one.name: one.default for one in options_of(kind).values() if one.name not in omit}
    return dataclasses.field(
        default_factory=functools.partial(GroupValues, kind, values),
        metadata={_GROUP_KEY: (kind, group, frozenset(values), changes)},
    )


def options_of(config_class: type) -> Mapping[str, Option]:
    """Return {name: option} of a class, with those of its groups, in the order of the help."""
    return _options_of(config_class)


def values_of(config: Any) -> dict[str, Any]:
    """Return {name: value} of all options of a config."""
    return {name: one.of(config) for name, one in options_of(type(config)).items()}


def value_of(config: Any, name: str, default: Any = None) -> Any:
    """Return the value of an option; `default` if the config has no option of that name."""
    one = options_of(type(config)).get(name)
    return default if one is None else one.of(config)


def build(config_class: type[_T], given: Mapping[str, Any]) -> _T:
    """Return a config with the given values of options, and the defaults of the others.

    Raises:
      ConfigError: A value is invalid, or two options contradict each other.
    """
    declared, fields = options_of(config_class), dict(given)
    for field in dataclasses.fields(config_class):  # type: ignore[arg-type]
        if _GROUP_KEY in field.metadata:
            values: GroupValues[Any] = _default_of(field)
            own = {name: fields.pop(name) for name in given if declared[name].holder == field.name}
            fields[field.name] = dataclasses.replace(values, values={**values.values, **own})
    return config_class(**fields)


@functools.cache
def _options_of(config_class: Any) -> Mapping[str, Option]:
    found: list[Option] = []
    hints = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        if _METADATA_KEY in field.metadata:
            owner = next(one for one in config_class.__mro__ if _defines(one, field.name))
            heading = vars(owner).get("HEADING", _GENERAL)
            found.append(_declared(field, hint=hints[field.name], group=heading))
        elif _GROUP_KEY in field.metadata:
            found += _of_group(field)
    waiting = [one for one in found if one.after is not None]
    while waiting:
        one = next(one for one in waiting if one.after not in [other.name for other in waiting])
        waiting.remove(one)
        found.remove(one)
        found.insert([other.name for other in found].index(str(one.after)) + 1, one)
    by_name = {one.name: one for one in sorted(found, key=lambda one: one.group)}
    if len(by_name) < len(found):
        names = {one.name for one in found if one is not by_name[one.name]}
        raise TypeError(
            f"{config_class.__name__} declares options with the same name:"
            f" {', '.join(sorted(names))}"
        )
    return types.MappingProxyType(by_name)  # read-only, because all callers share it


def _defines(owner: type, name: str) -> bool:
    return name in vars(owner).get("__annotations__", {})


def _of_group(field: dataclasses.Field[Any]) -> Iterator[Option]:
    kind, group, names, changes = field.metadata[_GROUP_KEY]
    hints = typing.get_type_hints(kind)
    for own in dataclasses.fields(kind):
        if _METADATA_KEY not in own.metadata:
            continue
        name = own.metadata[_METADATA_KEY]["name"] or own.name
        if name in names:
            here = {"group": group, **changes.get(name, {})}
            one = _declared(own, hint=hints[own.name], **here)
            yield dataclasses.replace(one, holder=field.name)


def shaping(config: Any) -> dict[str, Any]:
    """Return {name: value} of the options that shape the dataset's bytes, as JSON data.

    Values are canonical: 128MB and 128000000 give the same result.
    """
    return {
        one.name: one.show(one.of(config))
        for one in options_of(type(config)).values()
        if one.shapes_bytes
    }


def as_given(config: Any) -> dict[str, Any]:
    """Return {name: value} of the options that a repetition of the command needs, as JSON data.

    Options with their default values are included, because defaults can change.
    """
    return {
        one.name: None if (value := one.of(config)) is None else one.show(value)
        for one in options_of(type(config)).values()
        if not one.local
    }


def _declared(field: dataclasses.Field[Any], *, hint: Any, group: Group, **changes: Any) -> Option:
    """Return the option of a field.

    Args:
      field: Field declared with `option`.
      hint: Type of the field.
      group: Heading, if the field has none.
      **changes: Arguments of `option` to replace.
    """
    declared = {**field.metadata[_METADATA_KEY], **changes}
    declared["group"] = declared["group"] or group
    name, default = declared.pop("name") or field.name, declared.pop("given")
    if default is dataclasses.MISSING:
        default = _default_of(field)
    for flag in ("shapes_bytes", "local"):
        if declared[flag] is None:
            declared[flag] = getattr(declared["group"], flag)
    read, show = declared.pop("parse"), declared.pop("show")
    choices, metavar = declared.pop("choices"), declared.pop("metavar")
    compound = read is not None
    if declared["convert"] is not None:
        hint = type(default)
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
    inferred, placeholder = by_type.get(hint, (None, "VALUE"))
    if choices:
        inferred, placeholder = values.one_of(*choices), "|".join(choices)
    read = read or inferred
    if read is None:
        raise TypeError(f"the option {field.name} has the type {hint}, which needs parse=")
    return Option(
        name=name,
        field=field.name,
        default=default,
        read=read,
        show=show or _plain,
        metavar=placeholder if metavar is None else metavar,
        compound=compound,
        switch=hint is bool,
        **declared,
    )


def _default_of(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
