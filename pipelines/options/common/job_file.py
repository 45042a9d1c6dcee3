"""The job file of --config: reads and prints options as YAML.

Scalars are taken as text: the option's parser decides what `no` or `010` means, as it does on the
command line.
"""

from __future__ import annotations

import dataclasses
import pathlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from recordmill.errors import ConfigError
from recordmill.option_checks import Item
from recordmill.storage.redaction import redact_uri

COMMAND = "command"  # key of the command that a file runs
_LARGEST = 1 << 20  # bytes
_NULL, _BOOL = "tag:yaml.org,2002:null", "tag:yaml.org,2002:bool"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """An option as given on the command line or in a file.

    texts: its values. single: False if they come from a list or from a mapping (as `key=value`).
    bare: whether it is a flag without a value.
    line: its position in a file, such as `job.yaml:3`; empty for the command line.
    """

    key: str
    texts: Sequence[str]
    single: bool = True
    bare: bool = False
    line: str = ""

    @property
    def where(self) -> str:
        """The start of an error message about it."""
        return f"{self.line}: {self.key}" if self.line else f"--{self.key}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrintedOption:
    """An option to print. value: plain YAML data, or None if the option is not given."""

    key: str
    help: str
    group: str
    value: Any
    required: bool = False


def read(path: pathlib.Path) -> Iterator[Given]:
    """Yield the options of a file in order; options whose value is null are skipped.

    Raises:
      ConfigError: the file cannot be read, is not a YAML mapping, has a key twice, or a nested
        value.
    """
    try:
        with path.open("rb") as file:  # may be a pipe, such as a shell's <(...)
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}") from error
    if len(content) > _LARGEST:
        raise ConfigError(f"--config: expected a file of at most {_LARGEST:,} bytes, got {path}")
    root = compose(content, path)
    if root is None:  # empty, or comments only
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}:1: expected lines of `option: value`")
    texts: list[str]
    for key, node, line in pairs(root, path):
        if node.tag == _NULL:
            continue
        if isinstance(node, yaml.MappingNode):
            texts = [Item(f"{name}={_text(one, at)}") for name, one, at in pairs(node, path)]
        elif isinstance(node, yaml.SequenceNode):
            texts = [Item(_text(one, line)) for one in node.value]
        else:
            texts = [_text(node, line)]
        yield Given(
            key=key,
            texts=texts,
            single=isinstance(node, yaml.ScalarNode),
            bare=node.tag == _BOOL and texts == ["true"],
            line=line,
        )


def command_of(path: pathlib.Path) -> str:
    """Return the command that a file names.

    Raises:
      ConfigError: the file names no command, or cannot be read.
    """
    for one in read(path):
        if one.key == COMMAND and one.single:
            return one.texts[0]
    raise ConfigError(
        f"{path}: expected a line such as `{COMMAND}: images`, or the command before the options,"
        f" as in recordmill images --config {path}"
    )


def compose(content: bytes | str, path: object) -> yaml.Node | None:
    """Return the root of a YAML document; None if it is empty or has only comments.

    Raises:
      ConfigError: it is not YAML; the message names the path and the line.
    """
    try:
        root: yaml.Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: expected lines of `option: value`, got deeper lists") from error
    return root


def show(entries: Iterable[PrintedOption], *, heading: str) -> str:
    """Return the text of a job file with these entries.

    A required option without a value becomes a commented line to fill in.
    """
    lines = [f"# {heading}"]
    group = None
    for entry in entries:
        if entry.group != group:
            group = entry.group
            lines += ["", f"# {f'--- {group} ':-<70}"]
        lines.append("")
        lines += [f"# {line}" for line in textwrap.wrap(entry.help, 96)]
        if entry.required and entry.value is None:
            lines.append(f"# {entry.key}:")
            continue
        line = yaml.dump(
            {entry.key: entry.value},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            # Block style for the entry itself, flow style for a list or mapping in it.
            default_flow_style=None if isinstance(entry.value, dict | list) else False,
            width=2**31,
        )
        lines.append(line.rstrip("\n"))
    return "\n".join(lines) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes unprintable text in double quotes, because single quotes fold line breaks."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    text = redact_uri(text)
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def pairs(node: yaml.MappingNode, path: object) -> Iterator[tuple[str, yaml.Node, str]]:
    """Yield key, value and position, such as `job.yaml:3`, of the entries of a mapping.

    Raises:
      ConfigError: a key is not a name, or is given twice.
    """
    seen = set()
    for key, value in node.value:
        line = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{line}: expected a name before the colon")
        # The same option with dashes and with underscores counts as a repeated key.
        name = key.value.replace("_", "-")
        if name in seen:
            raise ConfigError(f"{line}: {key.value} is given a second time")
        seen.add(name)
        yield key.value, value, line


def _text(node: yaml.Node, line: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{line}: expected a value or a flat list, got a nested one")
    return str(node.value)
