"""Tokens of the vocabularies of a dataset, by their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from recordmill.format.manifest import Manifest
from recordmill.storage.files import Location
from recordmill.tfrecord.varint import read_varint

_ENTRIES = 2_000_000  # tokens of a vocabulary that are read
_MODEL = "vocabulary/sentencepiece.model"
_PADDING = b"<pad>"
_UNKNOWN = 2  # SentencePiece.Type.UNKNOWN


def vocabularies(dataset: Location, manifest: Manifest) -> dict[str, dict[int, str]]:
    """Return {feature: {number: token}} of the features that have a vocabulary in the dataset.

    Numbers without a token are padding (0) and unknown tokens.
    """
    found = {}
    pieces = dict[int, str]()
    if _MODEL in manifest.files:
        pieces = model_pieces((dataset / _MODEL).read_bytes())
    for name, feature in manifest.features.items():
        file = f"vocabulary/{name}.txt"
        if feature.kind != "index" or feature.size is None:
            continue
        if file not in manifest.files:
            if pieces and max(pieces) < feature.size:
                found[name] = pieces
            continue
        text = (dataset / file).read_bytes().decode(errors="replace")
        tokens = text.removesuffix("\n").split("\n")[:_ENTRIES]
        # Padding and unknown tokens come first (docs/text.md).
        found[name] = dict(enumerate(tokens, start=max(feature.size - len(tokens), 0)))
    return found


def model_pieces(model: bytes) -> dict[int, str]:
    """Return {number: piece} of a SentencePiece model; empty if it is damaged.

    Source: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
    """
    found = {}
    try:
        pieces = (value for field, value in _fields(model) if field == 1)
        for number, piece in enumerate(pieces):
            parts = dict(_fields(piece)) if isinstance(piece, bytes) else {}
            text = parts.get(1)
            if isinstance(text, bytes) and text != _PADDING and parts.get(3) != _UNKNOWN:
                found[number] = text.decode(errors="replace")
    except ValueError:
        return {}
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of the fields of a protobuf message.

    Raises:
      ValueError: the message is damaged.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = read_varint(message, at, end)
        wire_type = tag & 7
        if wire_type == 0:
            value, at = read_varint(message, at, end)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire_type)
        if wire_type == 2:
            size, at = read_varint(message, at, end)
        if size is None or at + size > end:
            raise ValueError("a field of a SentencePiece model is damaged")
        yield tag >> 3, message[at : at + size]
        at += size
