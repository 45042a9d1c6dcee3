"""Parses the command line and the job file that it names, and shows help and job files.

Flags and the keys of the file are parsed by the same function and give the same error messages.
Of the options that the config does not declare, those of Beam that have an effect with the runner
are passed to Beam.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from recordmill.errors import ConfigError
from recordmill.option_checks import list_text
from recordmill.options.declaration import (
    Group,
    Option,
    build,
    option,
    options_of,
    values_of,
)
from recordmill.pipelines.options.arguments import beam_options
from recordmill.pipelines.options.arguments.help_page import HelpPage, command_name
from recordmill.pipelines.options.common import job_file
from recordmill.pipelines.options.common.job_file import Given
from recordmill.pipelines.options.common.rules import offered

Config = TypeVar("Config")

_COMMAND = Group(2000, "Command line")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parsed(Generic[Config]):
    """A parsed command line: the config, and Beam's options as `--name=value`."""

    config: Config
    passthrough: list[str]


def parse(
    config_class: type[Config],
    argv: Sequence[str],
    *,
    prog: str,
    description: str = "",
    temporary: Callable[[], str] | None = None,
) -> Parsed[Config]:
    """Parse a command line and the job file that it names; flags override the file.

    --help [TOPIC] and --print-config print to stdout and exit with 0.

    Args:
      config_class: Class that declares the options.
      argv: Arguments after the name of the command.
      prog: The command, for messages and help.
      description: First lines of the help.
      temporary: Makes the output folder of a dry run on this machine without --output.

    Raises:
      ConfigError: An option is unknown or missing, or its value is invalid.
    """
    options = options_of(config_class)
    commands = options_of(_CommandLine)
    if (topic := _help_topic(argv)) is not None:
        every = [*offered(config_class), *commands.values()]
        page = HelpPage(prog=prog, description=description, options=every)
        print(page.show(topic))
        raise SystemExit(0)
    given, beams = _split(_tokens(argv, {**options, **commands}), {**options, **commands})
    command = _CommandLine(**{name: given.pop(name) for name in commands if name in given})
    if command.config is not None:
        in_file, beams_in_file = _split(_options_in_file(command.config, prog), options)
        given = in_file | given
        flags = {one.key for one in beams}
        beams = [one for one in beams_in_file if one.key not in flags] + beams
    if beams and "runner" not in options:
        raise beam_options.unknown(beams[0], config_class)
    passthrough = []
    if beams:
        runner = given.get("runner", options["runner"].default)
        passthrough = beam_options.passthrough(beams, config_class=config_class, runner=runner)
    missing = [f"--{one.key}" for one in options.values() if one.required and one.name not in given]
    if command.print_config:
        # If required options are missing, the printed file has empty lines for them.
        shown = given if missing else values_of(build(config_class, given))
        print(
            _show_config(offered(config_class), shown, prog=prog, passthrough=passthrough), end=""
        )
        raise SystemExit(0)
    if missing == ["--output"] and given.get("dry_run") and temporary is not None:
        if given.get("runner", "direct") != "direct":
            raise ConfigError(
                "missing --output: a dry run on Flink needs a folder that all workers can write to"
            )
        given["output"], missing = temporary(), []
    if missing:
        raise ConfigError(f"missing {' and '.join(missing)}; see {prog} --help")
    return Parsed(config=build(config_class, given), passthrough=passthrough)


def config_path(argv: Sequence[str]) -> pathlib.Path | None:
    """Return the path that --config names in a command line without a command, None without."""
    commands = options_of(_CommandLine)
    for one in _tokens(argv, commands):
        if one.key == "config" and one.texts:
            return pathlib.Path(one.texts[0])
    return None


def _options_in_file(path: str, prog: str) -> Iterator[Given]:
    """Yield the options of a job file.

    Raises:
      ConfigError: The file names another command than `prog`, or cannot be read.
    """
    for one in job_file.read(pathlib.Path(path)):
        if one.key != job_file.COMMAND:
            yield one
        elif [*one.texts] != [command_name(prog)]:
            named = ", ".join(one.texts)
            raise ConfigError(
                f"{one.where}: expected {command_name(prog)}, as on the command line, got {named}"
            )


def parse_command(
    config_class: type[Config],
    argv: Sequence[str],
    command: Callable[[Sequence[str]], int],
    *,
    temporary: Callable[[], str] | None = None,
) -> Config:
    """Parse the command line of the function `NAME_main`, which implements `recordmill NAME`.

    The function's docstring is the description in the help. temporary: as in `parse`.

    Raises:
      ConfigError: as `parse`.
    """
    prog = f"recordmill {command.__name__.removesuffix('_main').replace('_', '-')}"
    description = inspect.cleandoc(command.__doc__ or "")
    return parse(config_class, argv, prog=prog, description=description, temporary=temporary).config


@contextlib.contextmanager
def temporary_outputs() -> Iterator[Callable[[], str]]:
    """Return a function that makes an output folder for a dry run; all are removed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(
            tempfile.TemporaryDirectory(prefix="recordmill-", ignore_cleanup_errors=True)
        )


def show_config(config: Any, *, prog: str, passthrough: Sequence[str] = ()) -> str:
    """Return a job file with every option, its value and its help, which parses to this config."""
    return _show_config(
        offered(type(config)), values_of(config), prog=prog, passthrough=passthrough
    )


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
    help: str = option(
        "",
        group=_COMMAND,
        metavar="[all|TOPIC|OPTION]",
        bare="",
        help="Describe the most used options, all options, a topic or one option, and exit.",
    )


def _help_topic(argv: Sequence[str]) -> str | None:
    """Return the topic after --help or -h, "" without a topic; None without the flag."""
    for at, token in enumerate(argv):
        flag, _, topic = token.partition("=")
        if flag in ("--help", "-h"):
            rest = argv[at + 1 :]
            words = itertools.takewhile(lambda one: not one.startswith("--"), rest)
            return topic or " ".join(rest if len(rest) == 1 else words)
    return None


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
        elif key in known and (bare := known[key].bare) is not None:
            before = Given(key=key, texts=[bare], bare=True)
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
    where, single = given[-1].where, given[-1].single
    if not single and not one.compound:
        raise ConfigError(f"{where}: expected one value, got a list")
    try:
        return one.read(texts if one.repeat else "".join(texts) if single else list_text(texts))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _show_config(
    options: Sequence[Option],
    shown: Mapping[str, Any],
    *,
    prog: str,
    passthrough: Sequence[str],
) -> str:
    entries = [
        job_file.PrintedOption(
            key=job_file.COMMAND,
            help="Command that recordmill --config FILE runs.",
            group=_COMMAND.title,
            value=command_name(prog),
        )
    ]
    for one in options:
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
