"""The job file: options as YAML, read strictly and printed with their help.

Scalars are taken as they are written: what `no` or `010` means is for the option's reader to say,
as on the command line.
"""

from __future__ import annotations

import dataclasses
import pathlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from recordmill.errors import ConfigError

_NULL, _BOOL = "tag:yaml.org,2002:null", "tag:yaml.org,2002:bool"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """An option as it is given on the command line or in a file.

    texts: its values; those of a list or mapping (as `key=value`) in a file are not `single`.
    bare: it is a flag without a value.
    line: where in a file it stands, as `job.yaml:3`.
    """

    key: str
    texts: Sequence[str]
    single: bool = True
    bare: bool = False
    line: str = ""

    @property
    def where(self) -> str:
        """What a message about it begins with."""
        return f"{self.line}: {self.key}" if self.line else f"--{self.key}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrintedOption:
    """An option to print. A `value` of None is one that is not given."""

    key: str
    help: str
    group: str
    value: Any
    required: bool = False


def read(path: pathlib.Path) -> Iterator[Given]:
    """Yields the options of a file in its order; null is an option that is not given.

    Raises:
      ConfigError: no such file, no YAML, not a mapping, a key that repeats, a nested value.
    """
    try:
        root = yaml.compose(path.read_bytes(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if root is None:  # empty, or comments only
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}:1: expected lines of `option: value`")
    for key, node, line in _pairs(root, path):
        if node.tag == _NULL:
            continue
        if isinstance(node, yaml.MappingNode):
            texts = [f"{name}={_text(one, at)}" for name, one, at in _pairs(node, path)]
        elif isinstance(node, yaml.SequenceNode):
            texts = [_text(one, line) for one in node.value]
        else:
            texts = [_text(node, line)]
        yield Given(
            key=key,
            texts=texts,
            single=isinstance(node, yaml.ScalarNode),
            bare=node.tag == _BOOL and texts == ["true"],
            line=line,
        )


def show(entries: Iterable[PrintedOption], *, heading: str) -> str:
    """The text of a job file that reads back as the entries; a missing required one is a form."""
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
            # The line itself as a block, a list or mapping in it on the same line.
            default_flow_style=None if isinstance(entry.value, dict | list) else False,
            width=2**31,
        )
        lines.append(line.rstrip("\n"))
    return "\n".join(lines) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes in double quotes, as escapes, what single quotes would fold into spaces."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def _pairs(node: yaml.MappingNode, path: pathlib.Path) -> Iterator[tuple[str, yaml.Node, str]]:
    seen = set()
    for key, value in node.value:
        line = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{line}: expected a name before the colon")
        # An option is one key, with dashes or underscores.
        name = key.value.replace("_", "-")
        if name in seen:
            raise ConfigError(f"{line}: {key.value} stands here a second time")
        seen.add(name)
        yield key.value, value, line


def _text(node: yaml.Node, line: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{line}: expected a value or a flat list, got one inside another")
    return str(node.value)
