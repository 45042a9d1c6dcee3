"""Long texts in several records, each of so many tokens at most."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.weave import Ints
from transforms.encoders.ragged import Flat, string_array
from transforms.encoders.subwords import Subwords, load_subwords
from transforms.encoders.text_options import FROM_FILE, TextOptions
from transforms.encoders.tokenizers import normalize, token_starts
from transforms.encoders.vocabulary import TEXT
from transforms.kind import Artifact

_NEVER = np.iinfo(np.int64).max  # a size that no text has
_SPACE = np.frombuffer(b" \t\n\v\f\r", np.uint8)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Places:
    """Where texts can be cut.

    at: int64[places], ascending, the byte of `Flat` where a token begins; the first of a text is
    its beginning. before: int64[places], tokens of its text before each. offsets: int64[texts + 1],
    the places of a text. tokens: int64[texts], of each. good: bool[places], where both sides come
    out as the same tokens that they are together.
    """

    at: Ints
    before: Ints
    offsets: Ints
    tokens: Ints
    good: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextCutter:
    """Cuts the column `text` into chunks of `options.chunk` tokens at most; each begins with the
    last `options.chunk_overlap` of the one before.
    """

    options: TextOptions

    def cut(
        self, rows: pa.RecordBatch, artifacts: Mapping[str, Artifact]
    ) -> tuple[pa.RecordBatch, Ints]:
        texts = normalize(rows[TEXT], self.options.unicode)
        flat = Flat.of(texts)
        size = self._size
        if self.options.splitter in FROM_FILE:
            subwords = load_subwords(self.options, artifacts)
            size -= subwords.edges
            places = _subword_places(subwords, texts, flat)
            chunks = self._chunks(flat, places, np.full(len(rows), size))
            chunks = self._shorter(chunks, subwords, flat, places, size)
        else:
            chunks = self._chunks(flat, self._token_places(flat), np.full(len(rows), size))
        columns = {TEXT: string_array(list(itertools.chain.from_iterable(chunks)))}
        parents = np.repeat(np.arange(len(rows)), [len(own) for own in chunks])
        return pa.RecordBatch.from_pydict(columns), parents

    def _chunks(self, flat: Flat, places: _Places, sizes: Ints) -> list[list[str]]:
        """Those of each text, of its size at most."""
        data = flat.data.tobytes()
        starts, ends, tokens = (a.tolist() for a in (flat.starts, flat.ends, places.tokens))
        chunks = []
        for row, size in enumerate(sizes.tolist()):
            pieces = [[starts[row], ends[row]]]
            if tokens[row] > size:
                own = slice(int(places.offsets[row]), int(places.offsets[row + 1]))
                cuts = _cuts(
                    places.before[own],
                    places.good[own],
                    tokens=tokens[row],
                    size=size,
                    overlap=min(self.options.chunk_overlap, size - 1),
                )
                at = [*places.at[own].tolist(), ends[row]]
                pieces = [[at[first], at[last]] for first, last in cuts]
            chunks.append([data[first:last].decode() for first, last in pieces])
        return chunks

    def _shorter(
        self, chunks: list[list[str]], subwords: Subwords, flat: Flat, places: _Places, size: int
    ) -> list[list[str]]:
        """Cuts texts shorter of which a chunk, by itself, comes out as more tokens than it had as a
        part of them.
        """
        sizes = np.full(len(chunks), size)
        cut = np.ones(len(chunks), np.bool_)
        while cut.any():
            rows = np.flatnonzero(cut)
            pieces = list(itertools.chain.from_iterable(chunks[row] for row in rows))
            _, edges = subwords.encode(string_array(pieces), max_length=None)
            counts = np.diff(edges) - subwords.edges
            firsts = np.cumsum([0, *(len(chunks[row]) for row in rows)])[:-1]
            beyond = np.maximum.reduceat(counts, firsts) - size
            again = rows[(beyond > 0) & (sizes[rows] > 1)]
            sizes[rows] = np.maximum(sizes[rows] - np.maximum(beyond, 0), 1)
            cut[:] = False
            cut[again] = True
            made = self._chunks(flat, places, np.where(cut, sizes, _NEVER))
            for row in again.tolist():
                chunks[row] = made[row]
        return chunks

    @property
    def _size(self) -> int:
        assert self.options.chunk is not None
        return self.options.chunk

    def _token_places(self, flat: Flat) -> _Places:
        """Every token of ours is the same, whatever stands before and after it."""
        assert self.options.splitter is not None
        # Bytes are cut where characters begin.
        in_bytes = self.options.splitter == "bytes"
        at = token_starts(flat, "chars" if in_bytes else self.options.splitter)
        offsets = np.append(np.searchsorted(at, flat.starts), at.size)
        counts = np.diff(offsets)
        at[offsets[:-1][counts > 0]] = flat.starts[counts > 0]
        before = np.arange(at.size) - np.repeat(offsets[:-1], counts)
        if in_bytes:
            before, counts = at - np.repeat(flat.starts, counts), flat.ends - flat.starts
        good = np.ones(at.size, np.bool_)
        return _Places(at=at, before=before, offsets=offsets, tokens=counts, good=good)


def _subword_places(subwords: Subwords, texts: pa.StringArray, flat: Flat) -> _Places:
    """Where a token ends; what splits on both sides as it does together, is known of spaces."""
    ends, offsets = subwords.ends(texts)
    counts = np.diff(offsets)
    rows = np.repeat(np.arange(len(texts)), counts)
    # A token begins where the one before it ends, the first where its text does.
    begins = np.append(0, ends[:-1])[: ends.size]
    begins[offsets[:-1][counts > 0]] = 0
    heads = np.flatnonzero(flat.data & 0xC0 != 0x80)
    at = heads[np.searchsorted(heads, flat.starts)[rows] + begins]
    at = np.maximum.accumulate(at)
    before = np.arange(at.size) - np.repeat(offsets[:-1], counts)
    # Of tokens that share a character, it is the last after which there is a place.
    kept = (np.append(at[1:], -1) != at) & (at < flat.ends[rows])
    first = np.searchsorted(rows[kept], np.arange(len(texts) + 1))
    good = np.isin(flat.data[at[kept]], _SPACE)
    return _Places(at=at[kept], before=before[kept], offsets=first, tokens=counts, good=good)


def _cuts(
    before: Ints, good: npt.NDArray[np.bool_], *, tokens: int, size: int, overlap: int
) -> Iterator[tuple[int, int]]:
    """The places (and -1 for the end) between which the chunks of one text are."""
    start = 0
    while tokens - before[start] > size:
        # As far as it goes, but so far that the next one begins behind this one.
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
