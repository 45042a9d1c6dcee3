"""Damaged files in staging that encoders read are named, with what to do."""

import numpy as np
import pytest

from recordmill.errors import DamageError
from recordmill.storage.files import Location
from recordmill.transforms.encoders.preprocessed import stored_features
from recordmill.transforms.encoders.text.embedding_files import EmbeddingFile
from recordmill.transforms.encoders.text.embeddings import NAME, PreparedEmbeddings, load_embeddings
from recordmill.transforms.model.data_type import Artifact

DAMAGED = (
    b"",
    b"[]",
    b"{}",
    b'{"width": NaN}',
    b'{"width": 0}',
    b'{"width": true}',
    b"[" * 100_000,
)


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_table_of_embeddings(content, tmp_path) -> None:
    np.save(tmp_path / "v.npy", np.ones((2, 3), np.float32))
    (tmp_path / "words.txt").write_text("one\ntwo")
    file = EmbeddingFile(path=str(tmp_path / "v.npy"), words=str(tmp_path / "words.txt"))
    table = PreparedEmbeddings(file=file, sha256=file.sha256())
    table.write(Location.parse(str(tmp_path / "table")))
    (tmp_path / "table" / "table.json").write_bytes(content)
    artifact = Artifact(path=str(tmp_path / "table"), sha256=table.sha256, published=False)
    with pytest.raises(DamageError, match=r"table is damaged: .*; delete the folder \.recordmill"):
        load_embeddings({NAME: artifact})


@pytest.mark.parametrize("content", [b"", b"[]", b'{"inputs": 1}', b'{"inputs": {"a": {}}}'])
def test_damaged_features_of_a_preprocessing_function(content, tmp_path) -> None:
    (tmp_path / "features.json").write_bytes(content)
    artifact = Artifact(path=str(tmp_path / "features.json"), sha256="")
    with pytest.raises(DamageError, match=r"features\.json is damaged: .*; delete the folder"):
        stored_features(artifact)
