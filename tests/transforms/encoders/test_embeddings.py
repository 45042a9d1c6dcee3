"""Vectors of words, from the files they come in to the features of records."""

import gzip
import pathlib
from collections.abc import Callable

import numpy as np
import pytest

from recordmill.errors import ConfigError
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from recordmill.transforms.encoders.text.embedding_files import EmbeddingFile
from recordmill.transforms.encoders.text.embeddings import NAME, PreparedEmbeddings, load_embeddings
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from recordmill.transforms.model.data_type import Artifact, Context
from tests.paths import SMS
from tests.pipelines.test_text import make
from tests.tensorflow_reads import parse
from tests.texts import listed, rows_of, sms, strings

pytestmark = pytest.mark.usefixtures("encoders")

INPUT = ("--input", SMS, "--format", "tsv", "--seed", 7)
WIDTH = 5


def vocabulary() -> list[str]:
    """Half of the words of the messages, and some that are in none."""
    texts = strings([text for _, text in sms()])
    return [*tokenize(texts, "words").distinct.to_pylist()[::2], "日本", "größe"]


WORDS = vocabulary()
VECTORS = np.random.default_rng(5).normal(size=(len(WORDS), WIDTH)).astype(np.float32)


def as_text(words=WORDS, vectors=VECTORS, *, head=False, end="\n") -> bytes:
    lines = [f"{len(words)} {WIDTH}"] if head else []
    for word, vector in zip(words, vectors, strict=True):
        lines.append(" ".join([word, *(repr(float(value)) for value in vector)]))
    return "".join(line + end for line in lines).encode()


def as_binary(*, newline: bytes) -> bytes:
    rows = zip(WORDS, VECTORS, strict=True)
    records = [word.encode() + b" " + vector.tobytes() + newline for word, vector in rows]
    return f"{len(WORDS)} {WIDTH}\n".encode() + b"".join(records)


def flipped(data: bytes, at: int) -> bytes:
    """Return data with other bits in one byte."""
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


def save_array(folder: pathlib.Path) -> EmbeddingFile:
    np.save(folder / "v.npy", VECTORS.astype(np.float64))
    (folder / "words.txt").write_text("\n".join(WORDS))
    return EmbeddingFile(path=str(folder / "v.npy"), words=str(folder / "words.txt"))


def saved(name: str, content: bytes) -> Callable[[pathlib.Path], EmbeddingFile]:
    def save(folder: pathlib.Path) -> EmbeddingFile:
        (folder / name).write_bytes(content)
        return EmbeddingFile(path=str(folder / name))

    return save


def prepared(file: EmbeddingFile, folder: pathlib.Path) -> Context:
    table = PreparedEmbeddings(file=file, sha256=file.sha256())
    table.write(Location.parse(str(folder / "table")))
    artifact = Artifact(path=str(folder / "table"), sha256=table.sha256, published=False)
    return Context(seed=7, artifacts={NAME: artifact})


@pytest.mark.parametrize("block", [1 << 10, 16 << 20])
@pytest.mark.parametrize(
    "save",
    [
        pytest.param(saved("glove.txt", as_text()), id="GloVe"),
        pytest.param(saved("w2v.txt", as_text(head=True, end=" \n")), id="word2vec"),
        pytest.param(saved("dos.txt", as_text(end="\r\n")), id="DOS"),
        pytest.param(saved("tab.txt", as_text().replace(b" ", b"\t")), id="tabs"),
        pytest.param(saved("cut.txt", as_text().removesuffix(b"\n")), id="no newline at the end"),
        pytest.param(saved("ft.vec.gz", gzip.compress(as_text(head=True), mtime=0)), id="fastText"),
        pytest.param(saved("w2v.bin", as_binary(newline=b"\n")), id="binary"),
        pytest.param(saved("gensim.bin", as_binary(newline=b"")), id="binary without newlines"),
        pytest.param(
            saved("w2v.bin.gz", gzip.compress(as_binary(newline=b""), mtime=0)), id="packed"
        ),
        pytest.param(save_array, id="npy"),
    ],
)
def test_every_format_is_the_same_table(tmp_path, monkeypatch, save, block):
    monkeypatch.setattr("recordmill.transforms.encoders.text.embedding_files._BLOCK", block)
    monkeypatch.setattr("recordmill.transforms.encoders.text.embedding_files._WORD", 100)
    table = load_embeddings(prepared(save(tmp_path), tmp_path).artifacts)
    assert table.width == WIDTH
    found = table.find(strings([*WORDS, "", "no such word"]))
    assert found.tolist() == [*range(len(WORDS)), -1, -1]
    np.testing.assert_allclose(table.vectors, VECTORS, rtol=1e-6)


def test_words_with_spaces_and_those_that_come_twice(tmp_path):
    words = ["a", "New York", "b", "a", ". . .", "1", "2 3x"]
    file = saved("t.txt", as_text(words, VECTORS[: len(words)]))(tmp_path)
    table = load_embeddings(prepared(file, tmp_path).artifacts)
    assert table.find(strings(words)).tolist() == [0, 1, 2, 0, 4, 5, 6]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", b"a 1 2\nb 1 2 3\nc 1 2\n", "line 2 has 3 numbers, expected 2 as"),
        ("t.txt", b"a 1 2\nb 1\nc 1 2\n", "line 2 has 1 numbers, expected 2 as"),
        ("t.txt", b"3 2\na 1 2\nb 1 x\nc 1 2\n", "line 3 has an invalid number"),
        ("t.txt", b"", "expected lines of a word and its numbers"),
        ("t.txt", b"word\n", "expected lines of a word and its numbers"),
        ("t.txt", b"9 3\n", "has 0 words, but its first line declares 9"),
        ("t.txt", b"3 2\na 1 2\nb 1 2\n", "has 2 words, but its first line declares 3"),
        ("t.txt", b"1 1\na \0\0\0\0", "word2vec's binary format has the extension .bin"),
        ("t.txt.gz", b"a 1 2\n", "Not a gzipped file"),
        ("t.txt.gz", gzip.compress(b"a 1 2\n" * 99, mtime=0)[:-9], "ended before"),
        (
            "t.bin.gz",
            flipped(gzip.compress(as_binary(newline=b""), mtime=0), -8),
            "CRC check failed",
        ),
        ("t.txt.gz", flipped(gzip.compress(b"a 1 2\n" * 99, mtime=0), 10), "while decompressing"),
        ("t.bin", b"a 1 2\n", "expected the number of words and their width in the first line"),
        ("t.bin", as_binary(newline=b"")[:-1], f"ends before the last of its {len(WORDS)} words"),
        ("t.npy", b"a 1 2\n", "has no words; name a file with one word per line"),
    ],
)
def test_invalid_files_raise(tmp_path, name, content, message):
    with pytest.raises(ConfigError, match=message):
        prepared(saved(name, content)(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, np.float32), r"expected rows of floats.*got float32 of shape \(3,\)"),
        (np.zeros((3, 2), np.int64), "got int64"),
        (np.asfortranarray(np.zeros((3, 2), np.float32)), "is in Fortran order"),
        (np.zeros((2, 2), np.float32), "has 2 rows, but .* 3 words"),
    ],
)
def test_invalid_arrays_raise(tmp_path, array, message):
    np.save(tmp_path / "v.npy", array)
    (tmp_path / "w.txt").write_text("a\nb\nc\n")
    file = EmbeddingFile(path=str(tmp_path / "v.npy"), words=str(tmp_path / "w.txt"))
    with pytest.raises(ConfigError, match=message):
        prepared(file, tmp_path)
    with pytest.raises(ConfigError, match="has its own words"):
        EmbeddingFile(path="t.txt", words="w.txt")


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "chars"])
def test_records_are_vectors_of_their_tokens(tmp_path, tokenizer):
    context = prepared(saved("t.txt", as_text())(tmp_path), tmp_path)
    texts = ["", "zzz qqq", *(text for _, text in sms()[:200])]
    rows = rows_of(texts)
    known = dict(zip(WORDS, VECTORS, strict=True))
    nothing = np.zeros(WIDTH, np.float32)
    tokens = listed(tokenize(strings(texts), tokenizer))

    def made(**options):
        options = TextOptions(tokenizer=tokenizer, features=("embeddings",), **options)
        encoder = TextEncoder(options=options)
        assert encoder.features(rows.schema, Context(seed=7))["embeddings"].shape[-1] is None
        feature = encoder.features(rows.schema, context)["embeddings"]
        return feature.shape, encoder.encode(rows, context).columns["embeddings"].to_pylist()

    shape, found = made()
    assert shape == (WIDTH,)
    for row, some in zip(found, tokens, strict=True):
        vectors = [known[token] for token in some if token in known] or [nothing]
        np.testing.assert_allclose(row, np.mean(vectors, axis=0), rtol=1e-5, atol=1e-6)

    shape, found = made(pooling="none")
    assert shape == (None, WIDTH)
    all_of_them = [[known.get(token, nothing) for token in some] for some in tokens]
    for row, vectors in zip(found, all_of_them, strict=True):
        assert row == np.array(vectors, np.float32).ravel().tolist()

    shape, found = made(pooling="none", max_length=4)
    assert shape == (4, WIDTH)
    for row, vectors in zip(found, all_of_them, strict=True):
        padded = [*vectors, nothing, nothing, nothing, nothing][:4]
        assert row == np.array(padded, np.float32).ravel().tolist()


def test_a_dataset_of_vectors(tmp_path):
    (tmp_path / "glove.txt").write_bytes(as_text())
    argv = (*INPUT, "--embeddings", tmp_path / "glove.txt", "--features", "text,embeddings")
    made = make(tmp_path / "out", *argv, "--pooling", "none", "--max-length", 6)
    assert not [name for name in made.manifest.files if "embed" in name]
    assert not list(made.folder.rglob("*.f32"))
    example = parse(made, "test")[0]
    assert example["embeddings"].shape == (6, WIDTH)
    text = rows_of([example["text"].numpy().decode()])["text"]
    known = dict(zip(WORDS, VECTORS, strict=True))
    first = listed(tokenize(text, "words"))[0][:6]
    for row, word in zip(example["embeddings"].numpy(), first, strict=False):
        np.testing.assert_allclose(row, known.get(word, np.zeros(WIDTH)), rtol=1e-6)
    # Another table is another dataset, wherever it stands.
    (tmp_path / "glove.txt").rename(tmp_path / "other.txt")
    other = ("--embeddings", tmp_path / "other.txt", "--features", "text,embeddings")
    again = [*INPUT, *other, "--pooling", "none", "--max-length", "6", "--workers", "1"]
    assert main(["text", *map(str, again), "--output", str(tmp_path / "out")]) == 0
    (tmp_path / "other.txt").write_bytes(as_text(vectors=VECTORS[::-1]))
    assert main(["text", *map(str, again), "--output", str(tmp_path / "out")]) == 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--features", "embeddings"), "--features embeddings: has no effect without --embed"),
        (("--features", "text", "--embeddings", "T"), "expected both --features embeddings"),
        (("--embeddings", "missing.txt"), "--embeddings missing.txt: there is no such file"),
        (
            ("--embeddings", "T", "--tokenizer", "bytes"),
            "--features embeddings: requires whole words",
        ),
        (("--embeddings", "T", "--embedding-words", "T"), "has its own words"),
        (("--embedding-words", "T"), "has no effect without --embeddings"),
        (("--embeddings", "T", "--max-length", "3"), "--max-length: has no effect"),
        (("--features", "text", "--pooling", "none"), "--pooling none: has no effect"),
        (("--embeddings", "BAD"), "line 2 has 1 numbers, expected 2"),
    ],
)
def test_invalid_options_are_reported(tmp_path, capsys, argv, message):
    (tmp_path / "t.txt").write_bytes(as_text())
    (tmp_path / "bad.txt").write_bytes(b"a 1 2\nb 1\n")
    places = {"T": str(tmp_path / "t.txt"), "BAD": str(tmp_path / "bad.txt")}
    words = [places.get(word, word) for word in (*map(str, INPUT), *argv)]
    assert main(["text", *words, "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out/dataset.json").exists()
