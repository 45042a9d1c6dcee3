"""Hugging Face tokenizers, with a cache of the tokens of repeated pieces of text."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.tokenization.pairs import Joined, PairTemplate, Tokens
from recordmill.transforms.encoders.tokenization.text_pieces import pieces, splits_at_spaces
from recordmill.transforms.model.ragged import DictionaryStrings, flattened, picked, stretches

_PADDING = ("[PAD]", "<pad>", "<|padding|>")  # common names of the padding token
_CACHED_PIECES = 1 << 18  # limits of the cache
_CACHED_CHARS = 4 << 20


class HuggingFace:
    """Adapter of a `tokenizers.Tokenizer` to the protocol `Subwords`.

    edges: add the tokenizer's tokens for beginning and end.
    """

    def __init__(self, tokenizer: Any, *, edges: bool) -> None:
        self._tokenizer = tokenizer
        padding = tokenizer.padding
        ids = tokenizer.get_vocab(with_added_tokens=True)
        usual = next((ids[token] for token in _PADDING if token in ids), 0)
        self.padding: int = padding["pad_id"] if padding else usual
        self.size = max(ids.values(), default=0) + 1
        self._edges = edges
        self.edges = tokenizer.num_special_tokens_to_add(is_pair=False) if edges else 0
        self.pair_edges = tokenizer.num_special_tokens_to_add(is_pair=True) if edges else 0
        self.by_chance = bool(getattr(tokenizer.model, "dropout", None))
        tokenizer.no_padding()
        self._ends = self._find_ends()
        self._by_piece = splits_at_spaces(tokenizer) and self._ends is not None
        self._template = self._find_template() if splits_at_spaces(tokenizer) else None
        self._cache = _PieceCache(tokenizer)
        self._lock = threading.Lock()  # guards the cache and the tokenizer's truncation setting

    def encode(self, texts: pa.StringArray, *, max_length: int | None) -> tuple[Ints, Ints]:
        with self._lock:
            return self._encode(texts, max_length)

    def _encode(self, texts: pa.StringArray, max_length: int | None) -> tuple[Ints, Ints]:
        if self._by_piece and (max_length is None or max_length > self.edges):
            return self._encode_pieces(texts, max_length)
        if max_length is None:
            self._tokenizer.no_truncation()
        else:
            self._tokenizer.enable_truncation(max_length)
        encodings = self._tokenizer.encode_batch_fast(
            texts.to_pylist(), add_special_tokens=self._edges
        )
        return flattened([encoding.ids for encoding in encodings])

    def encode_pairs(
        self, first: pa.StringArray, second: pa.StringArray, *, max_length: int | None
    ) -> Joined:
        with self._lock:
            if self._template is None:
                return self._encode_pairs(first, second, max_length)
            tokens = (Tokens(*self._cache.encode(pieces(texts))) for texts in (first, second))
            return self._template.join(*tokens, max_length=max_length)

    def _encode_pairs(
        self, first: pa.StringArray, second: pa.StringArray, max_length: int | None
    ) -> Joined:
        if max_length is None:
            self._tokenizer.no_truncation()
        else:
            self._tokenizer.enable_truncation(max_length, strategy="longest_first")
        encodings = self._tokenizer.encode_batch_fast(
            list(zip(first.to_pylist(), second.to_pylist(), strict=True)),
            add_special_tokens=self._edges,
        )
        ids, offsets = flattened([encoding.ids for encoding in encodings])
        types, _ = flattened([encoding.type_ids for encoding in encodings])
        return Joined(ids, types, offsets)

    def _find_template(self) -> PairTemplate | None:
        """Return the special tokens around every pair of texts; None if unclear."""
        self._tokenizer.no_truncation()
        found = self._tokenizer.encode("a", "a", add_special_tokens=self._edges)
        tokens = list(zip(found.ids, found.type_ids, strict=True))
        texts = [[at for at, of in enumerate(found.sequence_ids) if of == text] for text in (0, 1)]
        if not all(texts) or len(tokens) - self.pair_edges != sum(map(len, texts)):
            return None
        (start, *_), (next_start, *_) = texts
        end, last = start + len(texts[0]), next_start + len(texts[1])
        if texts != [[*range(start, end)], [*range(next_start, last)]] or next_start < end:
            return None
        return PairTemplate(
            head=tuple(tokens[:start]),
            middle=tuple(tokens[end:next_start]),
            tail=tuple(tokens[last:]),
            types=(tokens[start][1], tokens[next_start][1]),
        )

    def _encode_pieces(self, texts: pa.StringArray, max_length: int | None) -> tuple[Ints, Ints]:
        ids, offsets = self._cache.encode(pieces(texts))
        if max_length is not None:
            sizes = np.minimum(np.diff(offsets), max_length - self.edges)
            ids = ids[stretches(offsets[:-1], sizes)]
            offsets = offsets_of(sizes)
        if not self.edges:
            return ids, offsets
        return self._with_ends(ids, offsets)

    def _with_ends(self, ids: Ints, offsets: Ints) -> tuple[Ints, Ints]:
        assert self._ends is not None
        head, tail = self._ends
        sizes = np.diff(offsets) + self.edges
        edges = offsets_of(sizes)
        out = np.empty(int(edges[-1]), np.int64)
        for place, token in enumerate(head):
            out[edges[:-1] + place] = token
        for place, token in enumerate(tail):
            out[edges[1:] - len(tail) + place] = token
        out[stretches(edges[:-1] + len(head), sizes - self.edges)] = ids
        return out, edges

    def _find_ends(self) -> tuple[list[int], list[int]] | None:
        """Return the ids that are added before and after every text; None if unclear."""
        if not self.edges:
            return [], []
        self._tokenizer.no_truncation()
        found = self._tokenizer.encode("a", add_special_tokens=True)
        own = [place for place, added in enumerate(found.special_tokens_mask) if not added]
        if not own or len(found.ids) - self.edges != own[-1] + 1 - own[0]:
            return None
        return found.ids[: own[0]], found.ids[own[-1] + 1 :]

    def ends(self, texts: pa.StringArray) -> tuple[Ints, Ints]:
        with self._lock:
            self._tokenizer.no_truncation()
            encodings = self._tokenizer.encode_batch(texts.to_pylist(), add_special_tokens=False)
        return flattened([[end for _, end in encoding.offsets] for encoding in encodings])

    def id_of(self, token: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(token)
        return found


class _PieceCache:
    """Cache of the ids of pieces, which is cleared when it is full."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids, self._edges = np.zeros(0, np.int64), np.zeros(1, np.int64)
        self._chars = 0

    def encode(self, parts: DictionaryStrings) -> tuple[Ints, Ints]:
        """Return the ids of rows of pieces, int64[...], and the offsets, int64[rows + 1]."""
        texts = parts.distinct.to_pylist()
        if len(self._numbers) > _CACHED_PIECES or self._chars > _CACHED_CHARS:
            self._clear()
        new = [text for text in texts if text not in self._numbers]
        if new:
            self._add(new)
        numbers = np.fromiter(map(self._numbers.__getitem__, texts), np.int64, len(texts))
        ids, edges = picked(self._ids, self._edges, numbers[parts.codes])
        return ids, edges[parts.offsets]

    def _add(self, texts: list[str]) -> None:
        self._tokenizer.no_truncation()
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids, edges = flattened([encoding.ids for encoding in encodings])
        first = len(self._numbers)
        self._numbers.update(zip(texts, range(first, first + len(texts)), strict=True))
        self._ids = np.concatenate([self._ids, ids])
        self._edges = np.concatenate([self._edges, edges[1:] + self._edges[-1]])
        self._chars += sum(map(len, texts))
