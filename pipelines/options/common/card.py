"""The option --card: a YAML file with licence, citation, description and the like."""

from __future__ import annotations

import dataclasses
from typing import Any

import yaml

from recordmill.errors import ConfigError
from recordmill.format.dataset_card import MAX_CARD_BYTES, DatasetCard
from recordmill.option_files import read_option_file
from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.common import job_file

_DEPTH = 3  # of a text in it, such as the name of a creator in a list
_NULL = "tag:yaml.org,2002:null"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CardConfig:
    """The option for the card of the dataset."""

    card: str | None = option(
        None,
        group=Group(60, "Dataset files"),
        metavar="FILE",
        help="YAML file with name, description, license, citation, creators and the like of the"
        " dataset, for croissant.json, README.md and TFDS.",
    )


def read_card(path: str | None) -> DatasetCard | None:
    """Return the card in a file; None if `path` is None.

    Scalars are taken as text, so that `version: 1.0` needs no quotes.

    Raises:
      ConfigError: the file cannot be read, or a key or a value is invalid; the message names the
        line.
    """
    if path is None:
        return None
    text = read_option_file("--card", path)
    if len(text.encode()) > MAX_CARD_BYTES:
        raise ConfigError(f"--card: {path} is larger than {MAX_CARD_BYTES:,} bytes")
    root = job_file.compose(text, f"--card: {path}")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"--card: {path}: expected lines of `key: value`, such as `license: MIT`")
    given, budget = {}, _Budget()
    for key, node, line in job_file.pairs(root, f"--card: {path}"):
        if node.tag == _NULL:
            continue
        try:
            given[key] = budget.plain(node, line)
            DatasetCard.from_json({key: given[key]})
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"{line}: {error}") from error
    return DatasetCard.from_json(given) if given else None


class _Budget:
    """Limits the text of a card, because a few aliases of YAML can stand for any amount of it."""

    def __init__(self) -> None:
        self._left = MAX_CARD_BYTES

    def plain(self, node: yaml.Node, line: str, depth: int = 1) -> Any:
        """Return a node as texts, lists and mappings, in which entries that are null are left out.

        Raises:
          ConfigError: it is nested too deeply, or too large.
        """
        if depth > _DEPTH:
            raise ConfigError(f"{line}: expected a value, a list or a mapping, got deeper nesting")
        self._left -= 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self._left < 0:
            raise ConfigError(f"{line}: the texts are larger than {MAX_CARD_BYTES:,} bytes")
        if isinstance(node, yaml.MappingNode):
            return {
                key: self.plain(value, at, depth + 1)
                for key, value, at in job_file.pairs(node, line.rpartition(":")[0])
                if value.tag != _NULL
            }
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(one, line, depth + 1) for one in node.value]
        return str(node.value)
