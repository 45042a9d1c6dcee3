"""Chunking: long texts become several records of a limited number of tokens."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.tokenization.subwords import Subwords, load_subwords
from recordmill.transforms.encoders.tokenization.text_options import FROM_FILE, TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import normalize, token_starts
from recordmill.transforms.encoders.tokenization.vocabulary import TEXT
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import Flat, string_array

_SPACE = np.frombuffer(b" \t\n\v\f\r", np.uint8)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _CutPoints:
    """Places where texts can be cut.

    at: int64[places], ascending byte offsets in `Flat` where tokens begin; the first place of a
        text is its start.
    before: int64[places], number of tokens of the text before each place.
    offsets: int64[texts + 1], the range of each text's places.
    tokens: int64[texts], number of tokens of each text.
    good: bool[places], true if both sides keep their tokens when the text is cut there.
    """

    at: Ints
    before: Ints
    offsets: Ints
    tokens: Ints
    good: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextChunker:
    """Cuts the column `text` into chunks of at most `options.chunk` tokens.

    Each chunk begins with the last `options.chunk_overlap` tokens of the previous one.
    """

    options: TextOptions

    def cut(
        self, rows: pa.RecordBatch, artifacts: Mapping[str, Artifact]
    ) -> tuple[pa.RecordBatch, Ints]:
        """Return the chunks of all texts, and the row that each chunk comes from, int64[chunks]."""
        texts = normalize(rows[TEXT], self.options.unicode)
        flat = Flat.of(texts)
        size = self._size
        subwords = None
        if self.options.splitter in FROM_FILE:
            subwords = load_subwords(self.options, artifacts)
            size -= subwords.edges
            places = _subword_places(subwords, texts, flat)
        else:
            places = self._token_places(flat)
        data = flat.data.tobytes()

        def cut(row: int, size: int) -> list[str]:
            own = slice(int(places.offsets[row]), int(places.offsets[row + 1]))
            start, stop = int(flat.starts[row]), int(flat.ends[row])
            tokens = int(places.tokens[row])
            if tokens <= size:
                return [data[start:stop].decode()]
            overlap = min(self.options.chunk_overlap, size - 1)
            before, good = places.before[own], places.good[own]
            at = [*places.at[own].tolist(), stop]
            cuts = _cuts(before, good, tokens=tokens, size=size, overlap=overlap)
            return [data[at[first] : at[last]].decode() for first, last in cuts]

        chunks = [cut(row, size) for row in range(len(rows))]
        if subwords is not None:
            _shorten(chunks, np.flatnonzero(places.tokens > size), subwords, cut, size)
        columns = {TEXT: string_array(list(itertools.chain.from_iterable(chunks)))}
        parents = np.repeat(np.arange(len(rows)), [len(own) for own in chunks])
        return pa.RecordBatch.from_pydict(columns), parents

    @property
    def _size(self) -> int:
        assert self.options.chunk is not None
        return self.options.chunk

    def _token_places(self, flat: Flat) -> _CutPoints:
        """Return the cut points of built-in tokenizers, whose tokens ignore their context."""
        assert self.options.splitter is not None
        # Texts are cut between characters only, even if tokens are bytes.
        in_bytes = self.options.splitter == "bytes"
        at = token_starts(flat, "chars" if in_bytes else self.options.splitter)
        offsets = np.append(np.searchsorted(at, flat.starts), at.size)
        counts = np.diff(offsets)
        at[offsets[:-1][counts > 0]] = flat.starts[counts > 0]
        before = np.arange(at.size) - np.repeat(offsets[:-1], counts)
        if in_bytes:
            before, counts = at - np.repeat(flat.starts, counts), flat.ends - flat.starts
        good = np.ones(at.size, np.bool_)
        return _CutPoints(at=at, before=before, offsets=offsets, tokens=counts, good=good)


def _subword_places(subwords: Subwords, texts: pa.StringArray, flat: Flat) -> _CutPoints:
    """Return the cut points of subword tokens; those at spaces are known to keep the tokens."""
    ends, offsets = subwords.ends(texts)
    counts = np.diff(offsets)
    rows = np.repeat(np.arange(len(texts)), counts)
    # A token begins where the previous one ends, the first one at the start of its text.
    begins = np.append(0, ends[:-1])[: ends.size]
    begins[offsets[:-1][counts > 0]] = 0
    heads = np.flatnonzero(flat.data & 0xC0 != 0x80)
    at = heads[np.searchsorted(heads, flat.starts)[rows] + begins]
    at = np.maximum.accumulate(at)
    before = np.arange(at.size) - np.repeat(offsets[:-1], counts)
    # Several tokens may share a character: a text can be cut only after the last of them.
    kept = (np.append(at[1:], -1) != at) & (at < flat.ends[rows])
    first = np.searchsorted(rows[kept], np.arange(len(texts) + 1))
    good = np.isin(flat.data[at[kept]], _SPACE)
    return _CutPoints(at=at[kept], before=before[kept], offsets=first, tokens=counts, good=good)


def _shorten(
    chunks: list[list[str]],
    rows: Ints,
    subwords: Subwords,
    cut: Callable[[int, int], list[str]],
    size: int,
) -> None:
    """Cut texts again, with smaller chunks, if a chunk on its own has too many tokens.

    A chunk may have more tokens on its own than as a part of its text.
    """
    sizes = np.full(len(chunks), size)
    while rows.size:
        pieces = list(itertools.chain.from_iterable(chunks[row] for row in rows))
        _, edges = subwords.encode(string_array(pieces), max_length=None)
        counts = np.diff(edges) - subwords.edges
        firsts = offsets_of(np.array([len(chunks[row]) for row in rows]))[:-1]
        beyond = np.maximum.reduceat(counts, firsts) - size
        rows, beyond = rows[beyond > 0], beyond[beyond > 0]
        rows, beyond = rows[sizes[rows] > 1], beyond[sizes[rows] > 1]
        sizes[rows] = np.maximum(sizes[rows] - beyond, 1)
        for row in rows.tolist():
            chunks[row] = cut(row, int(sizes[row]))


def _cuts(
    before: Ints, good: npt.NDArray[np.bool_], *, tokens: int, size: int, overlap: int
) -> Iterator[tuple[int, int]]:
    """Yield where each chunk of a text begins and ends, as indices of places; -1 is the end."""
    start = 0
    while tokens - before[start] > size:
        # As long as possible, and long enough for the next chunk to begin after this one's start.
        least = int(np.searchsorted(before, before[start] + overlap, side="right"))
        most = int(np.searchsorted(before, before[start] + size, side="right")) - 1
        most = max(most, start + 1)
        choice = np.flatnonzero(good[least : most + 1])
        stop = least + int(choice[-1]) if choice.size else most
        if stop == len(before):
            break
        yield start, stop
        least = max(int(np.searchsorted(before, before[stop] - overlap)), start + 1)
        choice = np.flatnonzero(good[least:stop])
        start = least + int(choice[0]) if choice.size else least
    yield start, -1
