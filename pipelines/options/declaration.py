"""Declares options as fields of a frozen dataclass: flags, keys of a job file, and help.

A field declared with `option` is a flag of the same name with dashes, and the same key in the file
of --config. Both are parsed by the same function and give the same error messages. Options that
the dataclass does not declare are passed to Beam under Beam's own names.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pathlib
import shutil
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from recordmill.errors import ConfigError
from recordmill.pipelines.options import beam_options, job_file, values
from recordmill.pipelines.options.job_file import Given

Config = TypeVar("Config")

_METADATA_KEY = "option"  # in a field's metadata
_HELP_COLUMN = 34


@dataclasses.dataclass(frozen=True, order=True)
class Group:
    """A heading of the help. Groups are sorted by `order`, across all classes of a config."""

    order: int
    title: str


_GENERAL = Group(1000, "Options")
_COMMAND = Group(2000, "Command line")


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
            shown = ",".join(f"{name}={value}" for name, value in shown.items())
        if isinstance(shown, list):
            shown = ",".join(map(str, shown))
        return "" if shown is None or self.switch else str(shown)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parsed(Generic[Config]):
    """A parsed command line: the config, and Beam's options as `--name=value`."""

    config: Config
    passthrough: list[str]


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
) -> Any:
    """Declare a field of a config. Without `default` the option is required.

    shapes_bytes: whether the dataset's bytes depend on the option.
    local: whether it concerns the machine or the terminal of one run.
    parse, show: convert a value from text, and back to text or plain data. Fields of type str, int,
      float, bool and Literal do not need them.
    repeat: the flag can be repeated, and a file can hold a list; `parse` takes a list of texts.
    choices: the values to accept; by default those of a Literal annotation.
    metavar: the placeholder of the value in the help.
    """
    declared = {
        "help": help, "group": group, "shapes_bytes": shapes_bytes, "local": local,
        "parse": parse, "show": show, "repeat": repeat, "choices": choices, "metavar": metavar,
    }  # fmt: skip
    if isinstance(default, Mapping):
        return dataclasses.field(
            default_factory=functools.partial(dict, default), metadata={_METADATA_KEY: declared}
        )
    return dataclasses.field(default=default, metadata={_METADATA_KEY: declared})


def options_of(config_class: type) -> Mapping[str, Option]:
    """Return {field: option} of a config class, in the order of the help."""
    return _options_of(config_class)


@functools.cache
def _options_of(config_class: Any) -> Mapping[str, Option]:
    hints = typing.get_type_hints(config_class)
    fields = dataclasses.fields(config_class)
    found = [_declared(field, hint=hints[field.name]) for field in fields]
    # Read-only, because all callers share it.
    return types.MappingProxyType(
        {one.name: one for one in sorted(found, key=lambda one: one.group)}
    )


def parse(
    config_class: type[Config],
    argv: Sequence[str],
    *,
    prog: str,
    description: str = "",
    beam: bool = True,
) -> Parsed[Config]:
    """Parse a command line and the job file that it names; flags override the file.

    --help and --print-config print to stdout and exit with 0.

    prog: the command, for messages and help. description: the first lines of the help. beam:
    whether to accept Beam's options.

    Raises:
      ConfigError: an option is unknown or missing, or its value is invalid.
    """
    if "--help" in argv or "-h" in argv:
        print(show_help(config_class, prog=prog, description=description, beam=beam))
        raise SystemExit(0)
    options = options_of(config_class)
    commands = options_of(_CommandLine)
    given, beams = _split(_tokens(argv, {**options, **commands}), {**options, **commands})
    command = _CommandLine(**{name: given.pop(name) for name in commands if name in given})
    if command.config is not None:
        in_file, beams_in_file = _split(job_file.read(pathlib.Path(command.config)), options)
        given = in_file | given
        flags = {one.key for one in beams}
        beams = [one for one in beams_in_file if one.key not in flags] + beams
    keys = [one.key for one in options.values()]
    if beams and not beam:
        raise beam_options.unknown(beams[0], keys)
    passthrough = beam_options.passthrough(beams, ours=keys)
    missing = [f"--{one.key}" for one in options.values() if one.required and one.name not in given]
    if command.print_config:
        # If required options are missing, the printed file has empty lines for them.
        shown = given if missing else vars(config_class(**given))
        print(_show_config(options, shown, prog=prog, passthrough=passthrough), end="")
        raise SystemExit(0)
    if missing:
        raise ConfigError(f"missing {' and '.join(missing)}; see {prog} --help")
    return Parsed(config=config_class(**given), passthrough=passthrough)


def parse_command(
    config_class: type[Config], argv: Sequence[str], command: Callable[[Sequence[str]], int]
) -> Config:
    """Parse the command line of the function `NAME_main`, which implements `recordmill NAME`.

    The function's docstring is the description in the help.

    Raises:
      ConfigError: as `parse`; Beam's options are not accepted.
    """
    prog = f"recordmill {command.__name__.removesuffix('_main').replace('_', '-')}"
    description = inspect.cleandoc(command.__doc__ or "")
    return parse(config_class, argv, prog=prog, description=description, beam=False).config


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


def show_config(config: Any, *, prog: str, passthrough: Sequence[str] = ()) -> str:
    """Return a job file with every option, its value and its help, which parses to this config."""
    return _show_config(options_of(type(config)), vars(config), prog=prog, passthrough=passthrough)


def show_help(config_class: type, *, prog: str, description: str = "", beam: bool = True) -> str:
    """Return the help of a command: the description, then the options by group."""
    width = max(60, min(100, shutil.get_terminal_size((100, 24)).columns))
    lines = [description.strip(), "", f"Usage: {prog} --option VALUE ...", ""]
    every = [*options_of(config_class).values(), *options_of(_CommandLine).values()]
    for group in sorted({one.group for one in every}):
        lines += [f"{group.title}:"]
        for one in every:
            if one.group == group:
                lines += _help_lines(one, width)
        lines += [""]
    last = "The file of --config takes the same options, one per line, as `option: value`."
    if beam:
        last += " Beam's own pipeline options are accepted under their own names."
    lines += textwrap.wrap(last, width)
    return "\n".join(lines).lstrip("\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CommandLine:
    """Options of the command line that a job file does not take."""

    config: str | None = option(
        None,
        group=_COMMAND,
        metavar="FILE",
        help="Read options from a YAML file; flags override it.",
    )
    print_config: bool = option(
        False,
        group=_COMMAND,
        help="Print all options and their values as a file for --config, and exit.",
    )
    help: bool = option(False, group=_COMMAND, help="Print this help and exit.")


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


def _tokens(argv: Sequence[str], options: Mapping[str, Option]) -> Iterator[Given]:
    known = {one.key: one for one in options.values()}
    rest = list(argv)
    before: Given | None = None
    while rest:
        token = rest.pop(0)
        flag, equals, text = token.partition("=")
        key = flag[2:]
        if not flag.startswith("--") or not key:
            raise _unexpected(token, before, known)
        negated = known.get(key.removeprefix("no-"))
        switch = key in known and known[key].switch
        if equals:
            before = Given(key=key, texts=[text])
        elif key not in known and negated is not None and negated.switch:
            before = Given(key=negated.key, texts=["false"])
        elif switch:
            before = Given(key=key, texts=["true"], bare=True)
        elif rest and not rest[0].startswith("--"):
            before = Given(key=key, texts=[rest.pop(0)])
        elif key in known:
            raise ConfigError(f"--{key} needs a value: {known[key].metavar}")
        else:
            before = Given(key=key, texts=[], bare=True)
        yield before


def _unexpected(token: str, before: Given | None, known: Mapping[str, Option]) -> ConfigError:
    """Return the error for an argument that is no option, and not the value of the one before."""
    what = f"unexpected argument {token!r}"
    repeated = before is not None and before.key in known and known[before.key].repeat
    if before is None or not repeated or token.startswith("-"):
        return ConfigError(f"{what}; expected only options, as --option VALUE")
    advice = f"repeat --{before.key} before each value"
    if before.key == "input":
        advice += ", or put a pattern such as '*.csv' in quotes, because the shell expands it"
    return ConfigError(f"{what} after --{before.key} {before.texts[-1]}: {advice}")


def _split(
    given: Iterable[Given], options: Mapping[str, Option]
) -> tuple[dict[str, Any], list[Given]]:
    """Return the parsed values of `options`, and the remaining arguments, which may be Beam's."""
    by_key = {key: one for one in options.values() for key in (one.key, one.name)}
    ours: dict[str, list[Given]] = {}
    rest = []
    for one in given:
        # Files may spell our options with underscores. Flags may not: those are Beam's.
        known = by_key.get(one.key) if one.line or "_" not in one.key else None
        if known is None:
            rest.append(one)
        elif known.repeat:
            ours.setdefault(known.name, []).append(one)
        else:
            ours[known.name] = [one]
    return {name: _value(options[name], every) for name, every in ours.items()}, rest


def _value(one: Option, given: Sequence[Given]) -> Any:
    texts = [text for each in given for text in each.texts]
    where = given[-1].where
    if not given[-1].single and not one.compound:
        raise ConfigError(f"{where}: expected one value, got a list")
    try:
        return one.read(texts if one.repeat else ",".join(texts))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _help_lines(one: Option, width: int) -> list[str]:
    flag = f"  --{one.key} {one.metavar}".rstrip()
    if one.switch and one.default is True:
        flag = f"  --no-{one.key}"
    default = "required" if one.required else one.shown_default()
    note = f" ({'' if one.required else 'default: '}{default})" if default else ""
    indent = " " * _HELP_COLUMN
    lines = textwrap.wrap(
        one.help + note, width, initial_indent=indent, subsequent_indent=indent,
        break_on_hyphens=False,
    )  # fmt: skip
    if len(flag) + 2 > _HELP_COLUMN:
        return [flag, *lines]
    return [flag.ljust(_HELP_COLUMN) + lines[0].strip(), *lines[1:]]


def _show_config(
    options: Mapping[str, Option],
    shown: Mapping[str, Any],
    *,
    prog: str,
    passthrough: Sequence[str],
) -> str:
    entries = []
    for one in options.values():
        value = shown.get(one.name, None if one.required else one.default)
        entries.append(
            job_file.PrintedOption(
                key=one.key,
                help=one.help,
                group=one.group.title,
                value=None if value in (None, "") else one.show(value),
                required=one.required,
            )
        )
    entries += [
        job_file.PrintedOption(key=key, help="", group="Beam's own options", value=value)
        for key, value in beam_options.by_name(passthrough).items()
    ]
    return job_file.show(entries, heading=f"Job file for {prog} --config FILE.")
