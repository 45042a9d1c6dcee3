"""Options: one frozen dataclass is a command's flags, the keys of its job file, and its help.

A field declared with `option` is the flag of its name with dashes, and the same key in the file
that --config names; both pass through one reader, so a mistake gives the same message in either.
What is no option of ours is left to Beam, by Beam's own names.
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

_DECLARED = "option"  # the key in a field's metadata
_HELP_COLUMN = 34


@dataclasses.dataclass(frozen=True, order=True)
class Group:
    """A heading of the help; those of a lower order come first, whichever class declares them."""

    order: int
    title: str


_GENERAL = Group(1000, "Options")
_COMMAND = Group(2000, "This command line")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """An option as declared.

    read: text -> value; that of a repeatable option takes all its texts. Raises ValueError.
    show: value -> what YAML and JSON can hold, and `read` understands.
    compound: a list or a mapping may stand for it in a file.
    """

    name: str
    help: str
    group: Group
    default: Any
    metavar: str
    read: Callable[[Any], Any]
    show: Callable[[Any], Any]
    shapes_bytes: bool = False
    repeat: bool = False
    compound: bool = False
    switch: bool = False

    @property
    def key(self) -> str:
        return self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def shown_default(self) -> str:
        """The default as one would type it; empty where there is none."""
        shown = None if self.required else self.show(self.default)
        if isinstance(shown, Mapping):
            shown = ",".join(f"{name}={value}" for name, value in shown.items())
        if isinstance(shown, list):
            shown = ",".join(map(str, shown))
        return "" if shown is None or self.switch else str(shown)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parsed(Generic[Config]):
    """A command line that works: our options, and Beam's as `--name=value`."""

    config: Config
    passthrough: list[str]


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,  # noqa: A002, the word every option parser has for it
    group: Group = _GENERAL,
    shapes_bytes: bool = False,
    parse: Callable[[str], Any] | Callable[[Sequence[str]], Any] | None = None,
    show: Callable[[Any], Any] | None = None,
    repeat: bool = False,
    choices: Sequence[str] = (),
    metavar: str | None = None,
) -> Any:
    """Declares a field of a config. Without `default` the option is required.

    parse, show: read a value from text, and show it as text or plain data that reads back; for
      str, int, float, bool and Literal both come from the annotation.
    repeat: the flag may be repeated, the file may hold a list; `parse` takes all the texts.
    shapes_bytes: whether the dataset's bytes depend on it.
    """
    declared = {
        "help": help, "group": group, "shapes_bytes": shapes_bytes, "parse": parse, "show": show,
        "repeat": repeat, "choices": choices, "metavar": metavar,
    }  # fmt: skip
    if isinstance(default, Mapping):
        return dataclasses.field(
            default_factory=functools.partial(dict, default), metadata={_DECLARED: declared}
        )
    return dataclasses.field(default=default, metadata={_DECLARED: declared})


def options_of(config_class: type) -> Mapping[str, Option]:
    """{field: option} of a config class, in the order of the help."""
    hints = typing.get_type_hints(config_class)
    fields = dataclasses.fields(config_class)
    found = [_declared(field, hint=hints[field.name]) for field in fields]
    return {one.name: one for one in sorted(found, key=lambda one: one.group)}


def parse(
    config_class: type[Config],
    argv: Sequence[str],
    *,
    prog: str,
    description: str = "",
    beam: bool = True,
) -> Parsed[Config]:
    """Reads a command line, and the file it names; the command line wins.

    beam: whether Beam's options may pass through.

    --help and --print-config print to stdout and exit with 0.

    Raises:
      ConfigError: an unknown, missing or impossible option.
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
        # Without what is required it is a form to fill in.
        shown = given if missing else vars(config_class(**given))
        print(_show_config(options, shown, prog=prog, passthrough=passthrough), end="")
        raise SystemExit(0)
    if missing:
        raise ConfigError(f"missing {' and '.join(missing)}; see {prog} --help")
    return Parsed(config=config_class(**given), passthrough=passthrough)


def parse_command(
    config_class: type[Config], argv: Sequence[str], command: Callable[[Sequence[str]], int]
) -> Config:
    """Reads the command line of `NAME_main`, which is `recordmill NAME` and describes itself.

    Raises:
      ConfigError: as `parse`; Beam's options are unknown here.
    """
    prog = f"recordmill {command.__name__.removesuffix('_main').replace('_', '-')}"
    description = inspect.cleandoc(command.__doc__ or "")
    return parse(config_class, argv, prog=prog, description=description, beam=False).config


def shaping(config: Any) -> dict[str, Any]:
    """{field: value} of the options that shape the dataset's bytes, as JSON can hold them.

    Equal values are equal here, however they were spelled.
    """
    return {
        one.name: one.show(getattr(config, one.name))
        for one in options_of(type(config)).values()
        if one.shapes_bytes
    }


def show_config(config: Any, *, prog: str, passthrough: Sequence[str] = ()) -> str:
    """A job file of every option with its help, which reads back as this config."""
    return _show_config(options_of(type(config)), vars(config), prog=prog, passthrough=passthrough)


def show_help(config_class: type, *, prog: str, description: str = "", beam: bool = True) -> str:
    """The help of a command: the description, then the options by group."""
    width = max(60, min(100, shutil.get_terminal_size((100, 24)).columns))
    lines = [description.strip(), "", f"Usage: {prog} --option VALUE ...", ""]
    every = [*options_of(config_class).values(), *options_of(_CommandLine).values()]
    for group in sorted({one.group for one in every}):
        lines += [f"{group.title}:"]
        for one in every:
            if one.group == group:
                lines += _help_lines(one, width)
        lines += [""]
    last = "Every option can stand in the file that --config names, as `option: value`."
    if beam:
        last += " Beam's own pipeline options pass through by their own names."
    lines += textwrap.wrap(last, width)
    return "\n".join(lines).lstrip("\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CommandLine:
    """What a command line has and a job file has not."""

    config: str | None = option(
        None, group=_COMMAND, metavar="FILE", help="Read options from YAML; flags win over it."
    )
    print_config: bool = option(
        False, group=_COMMAND, help="Print every option and its value as such a file, and exit."
    )
    help: bool = option(False, group=_COMMAND, help="Print this and exit.")


def _declared(field: dataclasses.Field[Any], *, hint: Any) -> Option:
    declared = dict(field.metadata[_DECLARED])
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
        raise TypeError(f"the option {field.name} is {hint}: expected parse= to read it")
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
    while rest:
        token = rest.pop(0)
        flag, equals, text = token.partition("=")
        key = flag[2:]
        if not flag.startswith("--") or not key:
            raise ConfigError(
                f"unexpected argument {token!r}; expected flags only, as --option VALUE"
            )
        negated = known.get(key.removeprefix("no-"))
        switch = key in known and known[key].switch
        if equals:
            yield Given(key=key, texts=[text])
        elif key not in known and negated is not None and negated.switch:
            yield Given(key=negated.key, texts=["false"])
        elif switch:
            yield Given(key=key, texts=["true"], bare=True)
        elif rest and not rest[0].startswith("--"):
            yield Given(key=key, texts=[rest.pop(0)])
        elif key in known:
            raise ConfigError(f"--{key} needs a value: {known[key].metavar}")
        else:
            yield Given(key=key, texts=[], bare=True)


def _split(
    given: Iterable[Given], options: Mapping[str, Option]
) -> tuple[dict[str, Any], list[Given]]:
    """The values of `options`, and what is given beside them: Beam's, or nobody's."""
    by_key = {key: one for one in options.values() for key in (one.key, one.name)}
    ours: dict[str, list[Given]] = {}
    rest = []
    for one in given:
        # Underscores are for files; Beam's flags have them, so on a command line they are Beam's.
        known = by_key.get(one.key) if one.line or "_" not in one.key else None
        if known is None:
            rest.append(one)
        elif known.repeat:
            ours.setdefault(known.name, []).append(one)
        else:
            ours[known.name] = [one]
    return {name: _value(options[name], all_of_it) for name, all_of_it in ours.items()}, rest


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
                value=None if value is None and one.default is None else one.show(value),
                required=one.required,
            )
        )
    entries += [
        job_file.PrintedOption(key=key, help="", group="Beam's own options", value=value)
        for key, value in beam_options.by_name(passthrough).items()
    ]
    return job_file.show(entries, heading=f"{prog} --config FILE reads this.")
