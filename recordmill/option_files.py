"""Reader of the small text files that options name, such as --labels-file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from recordmill.errors import ConfigError
from recordmill.format.file_content import HEAD, identify

if TYPE_CHECKING:
    import yaml

DELIMITERS = (",", ";", "\t")  # between the columns of small CSV files
LARGEST = 256 << 20  # bytes: millions of keys for --exclude-keys
_SHOWN = 5  # numbers of classes in a message
_NAMES_KEY = re.compile(r"^[ {\"]*names\"?\s*:", re.MULTILINE)
_KEY_VALUE = re.compile(r"\s*[^\s:#][^:]*:(\s|$)")
_LABEL_MAP = re.compile(r"item\s*\{")


def read_option_file(flag: str, path: str, *, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file that an option names.

    encoding: `utf-8-sig` accepts a byte order mark, `utf-8` does not.

    Raises:
      ConfigError: the file cannot be read, is larger than LARGEST, or is not UTF-8.
    """
    from recordmill.storage.files import Location, PathError  # the command line imports this

    try:
        place = Location.parse(path)
        size = place.stat().size if place.exists() else 0
        if size > LARGEST:
            raise ConfigError(
                f"{flag}: {path!r} has {size:,} bytes: expected a text file of at most {LARGEST:,}"
            )
        return place.read_bytes().decode(encoding)
    except PathError as error:
        raise ConfigError(f"{flag}: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{flag}: expected UTF-8 in {path!r}: {error}; save it as UTF-8"
        ) from error


def read_names(flag: str, path: str) -> tuple[str, ...]:
    """Return the class names in a file: one per line, or a YAML or JSON list, or its `names`.

    Ultralytics' data.yaml is such a mapping; its `names` are a list, or a mapping from 0, 1, ...

    Raises:
      ConfigError: the file cannot be read, has another format, or has an empty name.
    """
    return parse_names(read_option_file(flag, path), f"{flag} {path}", suffix=_suffix(path))


def parse_names(text: str, where: str, *, suffix: str = "") -> tuple[str, ...]:
    """Parse the content of a file of class names; see `read_names`.

    where: starts messages. suffix: YAML or JSON if the name of the file says so.
    """
    is_yaml = suffix or _NAMES_KEY.search(text) or text.lstrip().startswith("[")
    given = _mapping(text) if is_yaml else None
    if given is not None and "names" in given:
        names = _names_of_mapping(given, where)
    else:
        expect_plain_text(text, where, 'one class name per line, or {"names": [...]} in JSON')
        if suffix:
            raise ConfigError(f"{where}: expected `names` in this {suffix} file, found none")
        content = text.rstrip("\r\n")
        names = [line.removesuffix("\r") for line in content.split("\n")] if content else []
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise ConfigError(
                f"{where}: name {number} of {len(names)} is empty: names get their numbers in this"
                " order, so leave none out"
            )
    return tuple(names)


def expect_plain_text(text: str, where: str, expected: str, *, colons: bool = False) -> None:
    """Raise ConfigError if text is in another format than lines of values.

    where: starts the message. expected: the content. colons: whether values may look as YAML does.
    """
    found = _other_format(text, colons=colons)
    if found is not None:
        raise ConfigError(f"{where}: expected {expected}, got {found}")


def _suffix(path: str) -> str:
    """Return YAML or JSON if the name of a file ends so, else an empty text."""
    name = path.lower()
    return "YAML" if name.endswith((".yaml", ".yml")) else "JSON" if name.endswith(".json") else ""


def _mapping(text: str) -> Mapping[str, yaml.Node] | None:
    """Return the values of a YAML (or JSON) mapping by key; None if the text is not one.

    A list counts as `names` of a mapping.
    """
    import yaml  # only files with such a mapping need it

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    if isinstance(root, yaml.SequenceNode):
        return {"names": root}
    if not isinstance(root, yaml.MappingNode):
        return None
    return {str(key.value): node for key, node in root.value}


def _names_of_mapping(given: Mapping[str, yaml.Node], where: str) -> list[str]:
    from yaml import MappingNode, ScalarNode, SequenceNode

    names, count = given["names"], given.get("nc")
    nodes = names.value if isinstance(names, SequenceNode | MappingNode) else []
    if isinstance(names, MappingNode):
        numbers = [str(key.value) for key, _ in nodes]
        if numbers != [str(number) for number in range(len(nodes))]:
            raise ConfigError(
                f"{where}: expected the numbers 0, 1, ... in this order as the keys of `names`, got"
                f" {', '.join(numbers[:_SHOWN])}"
            )
        nodes = [node for _, node in nodes]
    if not nodes or not all(isinstance(node, ScalarNode) for node in nodes):
        raise ConfigError(
            f"{where}: expected `names` to be a list of class names, or a mapping from numbers"
        )
    if count is not None and str(count.value) != str(len(nodes)):
        raise ConfigError(f"{where}: nc is {count.value}, but `names` has {len(nodes)} names")
    return [str(node.value) for node in nodes]


def _other_format(text: str, *, colons: bool) -> str | None:
    """Return the format of a text that does not consist of plain lines; None if it does."""
    start = text.lstrip()[:100]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if "\0" in text:
        return "binary data"
    content = identify(text[:HEAD].encode(errors="replace"))
    if content is not None and not content.is_json:
        return str(content)
    if start.startswith(("[", "{")) and (_is_json(text) or all(map(_is_json, lines))):
        return "JSON"
    if _LABEL_MAP.match(start):
        return "a label map of TensorFlow: write the names of its items, one per line"
    if colons or not lines:
        return None
    if all(_KEY_VALUE.match(line) for line in lines):
        return f"lines of KEY: VALUE, such as {lines[0][:60]!r}"
    if all(line.startswith("- ") for line in lines):
        return f"a list in YAML, such as {lines[0][:60]!r}: leave the dashes out"
    return None


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False
