"""The help of a command: the most used options, all options, or those of a topic."""

from __future__ import annotations

import dataclasses
import difflib
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from recordmill.errors import ConfigError
from recordmill.options.declaration import Group, Option
from recordmill.pipelines.options.common import job_file

ALL = "all"
# Options that the help without a topic describes, in addition to the required ones.
_MOST_USED = frozenset(
    {
        # of every command
        *("label-column", "label-from", "key-column", "group-column", "where"),
        *("splits", "stratify", "seed", "balance", "balance-target", "dedup", "num-shards"),
        *("workers", "overwrite", "dry-run", "runner", "config", "help"),
        # of some data types
        *("size", "resize-mode", "image-format", "augment", "annotations", "masks"),
        *("text-column", "tokenizer", "features", "vocab-size", "max-length"),
        *("types", "impute", "zscore", "one-hot"),
        *("time-column", "series-column", "window", "stride", "horizon", "target", "split-by"),
        *("sample-rate", "mono", "clip", "clip-frames", "clip-stride", "fps"),
        *("array", "label-array", "per-item", "dtype"),
    }
)
_FEW = 40  # commands with at most this many options describe all of them
_COLUMN = 34  # where the descriptions begin


@dataclasses.dataclass(frozen=True, kw_only=True)
class HelpPage:
    """The help of a command.

    Attributes:
      prog: The command, such as "recordmill images".
      description: First lines of the help.
      options: All options, in any order.
    """

    prog: str
    description: str
    options: Sequence[Option]

    def show(self, topic: str = "") -> str:
        """Return the help.

        Args:
          topic: `all`, words of the title of a group, or an option, whose name may be written as
            words; "" for the most used options.

        Raises:
          ConfigError: No topic or option has this name.
        """
        width = max(60, min(100, shutil.get_terminal_size((100, 24)).columns))
        if topic in ("", ALL):
            is_short = not topic and len(self.options) > _FEW
            lines = [self.description.strip(), "", f"Usage: {self.prog} --option VALUE ...", ""]
            lines += self._most_used(width) if is_short else self._by_group(self._groups(), width)
            lines += textwrap.wrap(self._last(), width)
            return "\n".join(lines).lstrip("\n")
        words = {*topic.lower().split()}
        found = [group for group in self._groups() if words <= _words(group)]
        if found:
            return "\n".join(self._by_group(found, width)).rstrip()
        named = [
            one for one in self.options if one.key == "-".join(topic.removeprefix("--").split())
        ]
        if not named:
            raise self._unknown(topic)
        return "\n".join(_option_lines(named[0], width))

    def _groups(self) -> list[Group]:
        return sorted({one.group for one in self.options})

    def _by_group(self, groups: Iterable[Group], width: int) -> Iterator[str]:
        for group in groups:
            yield f"{group.title}:"
            for one in self.options:
                if one.group == group:
                    yield from _option_lines(one, width)
            yield ""

    def _most_used(self, width: int) -> Iterator[str]:
        """Yield the most used options, and the names of the others by topic."""
        ordered = sorted(self.options, key=lambda one: one.group)
        yield "Most used options:"
        for one in ordered:
            if _is_most_used(one):
                yield from _option_lines(one, width)
        yield ""
        yield f"All {len(self.options)} options: {self.prog} --help {ALL}"
        yield f"Options of a topic: {self.prog} --help TOPIC"
        for group in self._groups():
            rest = [_flag(one) for one in ordered if one.group == group and not _is_most_used(one)]
            if rest:
                indent = " " * 14
                yield from textwrap.wrap(
                    ", ".join(rest), width, initial_indent=f"  {group.topic:<11} ",
                    subsequent_indent=indent, break_on_hyphens=False,
                )  # fmt: skip
        yield ""

    def _last(self) -> str:
        last = (
            "The file of --config takes the same options, one per line, as `option: value`, and the"
            f" command, as `{job_file.COMMAND}: {command_name(self.prog)}`."
        )
        if any(one.key == "runner" for one in self.options):
            last += " With --runner flink, Beam's own options for Flink are accepted, too."
        return last

    def _unknown(self, topic: str) -> ConfigError:
        topics = [group.topic for group in self._groups()]
        known = [*topics, *(one.key for one in self.options)]
        near = difflib.get_close_matches(topic.removeprefix("--"), known, n=1)
        advice = f" (did you mean {near[0]}?)" if near else ""
        return ConfigError(
            f"--help {topic}: no such topic or option{advice}; the topics are {', '.join(topics)},"
            f" and {ALL}"
        )


def command_name(prog: str) -> str:
    """Return the command in a program name, such as "images" in "recordmill images"."""
    return prog.rpartition(" ")[2]


def _is_most_used(one: Option) -> bool:
    return one.required or one.key in _MOST_USED


def _words(group: Group) -> set[str]:
    return {word.strip("(),").lower() for word in group.title.split()}


def _flag(one: Option) -> str:
    return f"--no-{one.key}" if one.switch and one.default is True else f"--{one.key}"


def _option_lines(one: Option, width: int) -> list[str]:
    flag = f"  {_flag(one)} {one.metavar}".rstrip()
    default = "required" if one.required else one.shown_default()
    note = f" ({'' if one.required else 'default: '}{default})" if default else ""
    indent = " " * _COLUMN
    lines = textwrap.wrap(
        one.help + note, width, initial_indent=indent, subsequent_indent=indent,
        break_on_hyphens=False,
    )  # fmt: skip
    if len(flag) + 2 > _COLUMN:
        return [flag, *lines]
    return [flag.ljust(_COLUMN) + lines[0].strip(), *lines[1:]]
