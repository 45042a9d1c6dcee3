"""Vectors of words, looked up in a table of the user's that is far larger than what is held of it.

The table is written once, as encoder processes map it into memory: what one has read all share.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.row_assembly import Ints
from recordmill.storage.files import Location
from recordmill.transforms.encoders.text.embedding_files import EmbeddingFile, Floats
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import DictionaryStrings, fixed_lists, list_array, padded

NAME = "embeddings"  # of the artifact

_Number = TypeVar("_Number", np.float32, np.uint64, np.int64)

_VECTORS, _HASHES, _ROWS, _DONE = "vectors.f32", "hashes.u64", "rows.i64", "table.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedEmbeddings:
    """A file of vectors, as a job makes it ready for its encoders; sha256: hex, of the file."""

    file: EmbeddingFile
    sha256: str

    def write(self, folder: Location) -> None:
        """Writes the table; done already on resume. Of a word that comes twice the first counts.

        Raises:
          ConfigError: the file is not what it should be.
        """
        if (folder / _DONE).exists():
            return
        folder.make_dirs()
        hashes: list[batch.UInt64Array] = []
        width = 0
        with (folder / _VECTORS).open_output() as out:
            for words, vectors in self.file.read():
                width = vectors.shape[1]
                hashes.append(batch.hash_strings(pa.array(words, pa.binary())))
                out.write(np.ascontiguousarray(vectors, "<f4").tobytes())
        if not hashes:
            raise ConfigError(f"--embeddings {self.file.path}: has no vectors")
        found, rows = np.unique(np.concatenate(hashes), return_index=True)
        (folder / _HASHES).write_bytes(found.astype("<u8").tobytes())
        (folder / _ROWS).write_bytes(rows.astype("<i8").tobytes())
        (folder / _DONE).write_bytes(json.dumps({"width": width}).encode())


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Embeddings:
    """vectors: float32[words, width]. A word is told by its hash: hashes is uint64[words] in
    ascending order, rows int64[words] has the vector of each.
    """

    vectors: Floats
    hashes: batch.UInt64Array
    rows: Ints

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    def find(self, words: pa.StringArray) -> Ints:
        """The vector of each word, int64[n]; -1 where there is none."""
        wanted = batch.hash_strings(words)
        at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return np.where(self.hashes[at] == wanted, self.rows[at], -1)

    def of_tokens(self, tokens: DictionaryStrings, *, length: int | None) -> pa.Array:
        """The vectors of the tokens of each row, zeros for a token without one, flat. float32 lists
        of any size; of length * width, where it is given.
        """
        vectors, _ = self._of_distinct(tokens)
        if length is None:
            return list_array(vectors[tokens.codes].ravel(), tokens.offsets * self.width)
        codes, _ = padded(tokens.codes, tokens.offsets, length=length, fill=len(tokens.distinct))
        return fixed_lists(vectors[codes].reshape(len(codes), length * self.width))

    def mean(self, tokens: DictionaryStrings) -> pa.Array:
        """The mean over the tokens of each row that have a vector, zeros where none has: lists of
        `width` float32.
        """
        vectors, known = self._of_distinct(tokens)
        out = np.zeros((len(tokens.offsets) - 1, self.width), np.float32)
        edges = tokens.offsets.tolist()
        for row in range(len(out)):
            codes = tokens.codes[edges[row] : edges[row + 1]]
            codes = codes[known[codes]]
            if codes.size:
                out[row] = vectors[codes].mean(axis=0, dtype=np.float64)
        return fixed_lists(out)

    def _of_distinct(self, tokens: DictionaryStrings) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The vector of each distinct token, zeros where it has none and in one row more, and
        whether it has one, bool[distinct].
        """
        found = self.find(tokens.distinct)
        known = found >= 0
        vectors = np.zeros((len(found) + 1, self.width), np.float32)
        vectors[:-1][known] = self.vectors[found[known]]
        return vectors, known


def load_embeddings(artifacts: Mapping[str, Artifact]) -> Embeddings:
    """The table, opened once per process."""
    return _open(artifacts[NAME])


@functools.lru_cache(maxsize=1)
def _open(artifact: Artifact) -> Embeddings:
    folder = Location.parse(artifact.path)
    width = json.loads((folder / _DONE).read_bytes())["width"]
    return Embeddings(
        vectors=_map(folder / _VECTORS, np.float32).reshape(-1, width),
        hashes=_map(folder / _HASHES, np.uint64),
        rows=_map(folder / _ROWS, np.int64),
    )


def _map(place: Location, dtype: type[_Number]) -> npt.NDArray[_Number]:
    if place.is_local:
        return np.memmap(place.local_path, dtype, mode="r")
    return np.frombuffer(place.read_bytes(), dtype)
