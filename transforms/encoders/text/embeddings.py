"""Lookup of word vectors in a table that is larger than an encoder process should hold.

The table is written to files once. Encoder processes map these into memory and share their pages.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill import strict_json
from recordmill.errors import ConfigError
from recordmill.format.typed_json import damage_of, parse_json, read_as
from recordmill.option_checks import Between
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.text.embedding_files import EmbeddingFile, Floats
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import DictionaryStrings, fixed_lists, list_array, padded
from recordmill.transforms.staged.mapped_files import map_array

NAME = "embeddings"  # name of the artifact

_VECTORS, _HASHES, _ROWS, _DONE = "vectors.f32", "hashes.u64", "rows.i64", "table.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedEmbeddings:
    """Table of word vectors that a job writes for its encoders.

    file: the file of the user.
    sha256: hash of that file's content, hex.
    """

    file: EmbeddingFile
    sha256: str

    def write(self, folder: Location) -> None:
        """Write the table, unless an earlier attempt has written it.

        The first vector of a repeated word counts.

        Raises:
            ConfigError: the file is invalid.
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
            raise ConfigError(f"{option_name('embeddings', self.file.path)}: has no vectors")
        found, rows = np.unique(np.concatenate(hashes), return_index=True)
        (folder / _HASHES).write_bytes(found.astype("<u8").tobytes())
        (folder / _ROWS).write_bytes(rows.astype("<i8").tobytes())
        (folder / _DONE).write_bytes(strict_json.to_text({"width": width}).encode())


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Embeddings:
    """Table of word vectors, indexed by hashes of words.

    vectors: float32[words, width].
    hashes: uint64[words], ascending.
    rows: int64[words], the row in `vectors` for each hash.
    """

    vectors: Floats
    hashes: batch.UInt64Array
    rows: Ints

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    def find(self, words: pa.StringArray) -> Ints:
        """Return the row of each word's vector, int64[n]; -1 for unknown words."""
        wanted = batch.hash_strings(words)
        at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return np.where(self.hashes[at] == wanted, self.rows[at], -1)

    def of_tokens(self, tokens: DictionaryStrings, *, length: int | None) -> pa.Array:
        """Return the vectors of each row's tokens, concatenated; zeros for unknown tokens.

        length: number of tokens per row, which are cut or padded with zeros: the result has lists
            of length * width float32. If None, lists have a variable length.
        """
        vectors, _ = self._of_distinct(tokens)
        if length is None:
            return list_array(vectors[tokens.codes].ravel(), tokens.offsets * self.width)
        codes, _ = padded(tokens.codes, tokens.offsets, length=length, fill=len(tokens.distinct))
        return fixed_lists(vectors[codes].reshape(len(codes), length * self.width))

    def mean(self, tokens: DictionaryStrings) -> pa.Array:
        """Return the mean vector of each row's known tokens, zeros without any.

        Vectors are lists of `width` float32.
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
        """Return the vectors of distinct tokens, and which are known, bool[distinct].

        Vectors are float32[distinct + 1, width]; unknown tokens and the additional row are zeros.
        """
        found = self.find(tokens.distinct)
        known = found >= 0
        vectors = np.zeros((len(found) + 1, self.width), np.float32)
        vectors[:-1][known] = self.vectors[found[known]]
        return vectors, known


def load_embeddings(artifacts: Mapping[str, Artifact]) -> Embeddings:
    """Return the table, opened once per process."""
    return _open(artifacts[NAME])


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stored:
    """The content of table.json. width: numbers of a vector."""

    width: Annotated[int, Between(1, 1 << 20)]


@functools.lru_cache(maxsize=1)
def _open(artifact: Artifact) -> Embeddings:
    folder = Location.parse(artifact.path)
    advice = "delete the folder .recordmill of the output, then run the same command again"
    with damage_of(shown(folder), advice=advice):
        width = read_as(_Stored, parse_json((folder / _DONE).read_bytes())).width
        return Embeddings(
            vectors=map_array(folder / _VECTORS, np.float32).reshape(-1, width),
            hashes=map_array(folder / _HASHES, np.uint64),
            rows=map_array(folder / _ROWS, np.int64),
        )
