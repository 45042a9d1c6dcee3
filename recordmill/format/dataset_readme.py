"""README.md of a dataset: a header in YAML, which dataset hubs read, and a page in Markdown.

The header follows https://huggingface.co/docs/hub/datasets-cards.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from recordmill.format.dataset_card import Creator, DatasetCard
from recordmill.format.file_names import INDEX, number_globs
from recordmill.format.manifest import Manifest
from recordmill.format.split_names import in_order

README = "README.md"

_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")


def readme(manifest: Manifest, card: DatasetCard) -> bytes:
    """Return README.md. The description may hold Markdown, but no HTML; all else is plain text."""
    header = yaml.safe_dump(
        _header(manifest, card), sort_keys=False, allow_unicode=True, width=2**31
    )
    parts = [
        f"---\n{header}---",
        f"# {_plain(card.name or 'Dataset')}",
        *([_visible(card.description).strip().replace("<", "&lt;")] if card.description else []),
        *_content(manifest),
        *_authorship(card),
    ]
    return ("\n\n".join(parts) + "\n").encode()


def size_category(records: int) -> str:
    """Return the size of a dataset as hubs name it: `n<1K`, `1K<n<10K`, and so on."""
    for place, name in enumerate(_SIZES):
        if records < 10 ** (3 + place):
            return f"{_SIZES[place - 1]}<n<{name}" if place else f"n<{name}"
    return f"n>{_SIZES[-1]}"


def _header(manifest: Manifest, card: DatasetCard) -> dict[str, Any]:
    records = sum(split.records for split in manifest.splits.values())
    header: dict[str, Any] = {
        "pretty_name": card.name and _visible(card.name),
        "license": card.hub_license,
        "license_link": card.license if card.hub_license == "other" else None,
        "language": list(card.languages),
        "task_categories": list(card.task_categories),
        "size_categories": [size_category(records)],
        "tags": [*dict.fromkeys((*map(_visible, card.keywords), "tfrecord"))],
        "configs": _configs(manifest),
    }
    return {name: value for name, value in header.items() if value}


def _configs(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the indexes as a config, because hubs do not read TFRecord files."""
    files = [
        {
            "split": name.replace("-", "_"),  # hubs know no other characters
            "path": [
                f"{INDEX}/{name}-{numbers}.parquet"
                for numbers in number_globs(len(manifest.splits[name].shards))
            ],
        }
        for name in in_order(manifest.splits)
        if manifest.splits[name].shards
    ]
    if len({one["split"] for one in files}) < len(files):
        return []
    return [{"config_name": INDEX, "data_files": files}]


def _content(manifest: Manifest) -> list[str]:
    rows = [
        f"| {_plain(name)} | {split.records:,} | {len(split.shards):,} | {split.bytes:,} |"
        for name in in_order(manifest.splits)
        for split in (manifest.splits[name],)
    ]
    table = ["| split | records | shards | bytes |", "|---|---:|---:|---:|", *rows]
    return [
        "## Content",
        "\n".join(table),
        "`dataset.json` lists all files with their SHA-256, `croissant.json` describes them in the"
        " Croissant format, and `index/` lists the records.",
    ]


def _authorship(card: DatasetCard) -> list[str]:
    parts = []
    facts = {
        "Home page": card.url and f"<{card.url}>",
        "Version": card.version and _plain(card.version),
        "Published": card.date_published,
        "Licence": _license(card),
    }
    lines = [f"- {name}: {value}" for name, value in facts.items() if value]
    lines += [f"- {_maker(one)}" for one in card.creators]
    if lines:
        parts += ["## Licence and creators", "\n".join(lines)]
    if card.citation:
        longest = max((len(run) for run in re.findall("`+", card.citation)), default=0)
        fence = "`" * max(3, longest + 1)
        parts += ["## Citation", f"{fence}bibtex\n{_visible(card.citation).strip()}\n{fence}"]
    if card.rai:
        parts.append("## Responsible AI")
    for name, texts in sorted(card.rai.items()):
        every = (texts,) if isinstance(texts, str) else texts
        parts += [f"### {name}", *(_plain(" ".join(one.split())) for one in every)]
    return parts


def _license(card: DatasetCard) -> str | None:
    if card.license is None:
        return None
    if card.license == card.license_url:
        return f"<{card.license}>"
    return f"[{card.license}]({card.license_url})"


def _maker(creator: Creator) -> str:
    kind = "Creator" if creator.type == "person" else "Creator (organization)"
    places = [f"<{one}>" for one in (creator.url, creator.email) if one]
    return ", ".join([f"{kind}: {_plain(creator.name)}", *places])


def _plain(text: str) -> str:
    """Return text with escapes for all characters that have a meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", _visible(text))


def _visible(text: str) -> str:
    """Return text with escapes for bidirectional control characters."""
    return _DIRECTION.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
