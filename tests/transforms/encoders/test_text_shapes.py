"""Texts in records that are no texts: packed, or cut into chunks."""

import itertools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from recordmill.pipelines.cli import main
from recordmill.transforms.encoders.text.chunks import TextChunker
from recordmill.transforms.encoders.text.packing import end_each, pack
from recordmill.transforms.encoders.tokenization.subwords import load_subwords, read_tokenizer_file
from recordmill.transforms.encoders.tokenization.text_options import FROM_FILE, TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from tests.image_runs import Made, run
from tests.paths import SMS
from tests.pipelines.test_text import make
from tests.tensorflow_reads import parse
from tests.text_models import MESSAGES, save_bpe, save_byte_bpe, save_sentencepiece
from tests.texts import SAMPLES, context_of, rows_of, sms

pytestmark = pytest.mark.usefixtures("encoders")

MANY = 2000  # texts
LONG = [" ".join(MESSAGES[at : at + 9]) for at in range(0, 900, 9)]
TEXTS = [*SAMPLES, *LONG, "日本語" * 300, "a" * 999, " " * 99, "x  \n y " * 99]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> tuple[object, ...]:
    """Options that name the first texts of a file."""
    path = tmp_path_factory.mktemp("source") / "messages.tsv"
    lines = SMS.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: MANY + 1]), "utf-8")
    return ("--input", path, "--format", "tsv", "--seed", 7)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "bpe": save_bpe(folder),
        "byte bpe": save_byte_bpe(folder),
        "sentencepiece": save_sentencepiece(folder),
    }


# ---- packed


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 8), st.sampled_from([None, 77]))
def test_packs_hold_every_id_in_its_order(sizes, length, end):
    rows = [[100 * row + i for i in range(size)] for row, size in enumerate(sizes)]
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int64)
    ids = np.array(list(itertools.chain(*rows)), np.int64)
    if end is not None:
        ids, offsets = end_each(ids, offsets, end)
        rows = [[*row, end] for row in rows]
    packs = pack(ids, offsets, length=length, padding=-1)

    # The same, id by id.
    flat = [(row, at, value) for row, values in enumerate(rows) for at, value in enumerate(values)]
    for number in range(len(packs.ids)):
        segment, before, position = 0, None, 0
        for place in range(length):
            got = [int(a[number, place]) for a in (packs.ids, packs.segments, packs.positions)]
            if number * length + place >= len(flat):
                assert got == [-1, 0, 0]
                continue
            row, at, value = flat[number * length + place]
            if row != before:
                segment, before, position = segment + 1, row, 0
            if not place:
                assert (packs.row[number], packs.start[number]) == (row, at)
            assert got == [value, segment, position]
            position += 1
    assert packs.used == len(flat)
    assert len(packs.ids) == -(-len(flat) // length)


def ids_in_order(made: Made, split: str) -> list[int]:
    """All ids of a split, without padding, in the order of its records."""
    found: list[int] = []
    for example in made.examples(split).values():
        segments = example.get("tokens/segments", [1] * len(example["tokens"]))
        found += [i for i, segment in zip(example["tokens"], segments, strict=True) if segment]
    return found


@pytest.mark.parametrize("tokenizer", ["words", "bytes", "bpe", "byte bpe", "sentencepiece"])
def test_packing_changes_nothing_but_where_records_end(tmp_path, source, files, tokenizer):
    argv = (*source, "--tokenizer", files.get(tokenizer, tokenizer), "--num-shards", "2")
    plain = make(tmp_path / "plain", *argv)
    packed = make(tmp_path / "packed", *argv, "--pack", 128)
    for split in ("train", "validation", "test"):
        ids = ids_in_order(plain, split)
        assert ids_in_order(packed, split) == ids
        room = 128 * packed.manifest.splits[split].records
        assert packed.manifest.fill_rates[split] == len(ids) / room > 0.95
    ledger = packed.manifest.ledger
    assert (ledger.records.written, ledger.inputs.read) == (MANY, MANY)
    assert ledger.packs == sum(split.records for split in packed.manifest.splits.values())
    assert packed.manifest.labels == ()
    assert not (packed.folder / "labels.txt").exists()


def test_texts_end_with_the_token_that_is_asked_for(tmp_path, source, files):
    def ends(end: int, *argv: object) -> Made:
        made = make(tmp_path / str(end), *source, "--pack", 512, *argv)
        found = [ids_in_order(made, split) for split in made.manifest.splits]
        assert sum(ids.count(end) for ids in found) == MANY
        return made

    ends(0, "--tokenizer", files["byte bpe"], "--end-token", "<|endoftext|>")
    # Behind padding, [UNK] and <bos>.
    special = ("--special-tokens", "<bos>,<eos>", "--end-token", "<eos>")
    made = ends(3, "--tokenizer", "words", *special)
    # TensorFlow reads what is declared.
    example = parse(made, "test")[0]
    assert example["tokens"].shape == example["tokens/segments"].shape == (512,)
    positions = example["tokens/positions"].numpy()
    begins = np.flatnonzero(np.diff(example["tokens/segments"].numpy(), prepend=0) > 0)
    assert (positions[begins] == 0).all()
    assert example["tokens"].dtype == tf.int64


# ---- chunks


def options_of(files, tokenizer: str, **others: object) -> tuple[TextOptions, dict[str, bytes]]:
    if tokenizer not in files:
        return TextOptions(tokenizer=tokenizer, **others), {}
    file = read_tokenizer_file(str(files[tokenizer]))
    options = TextOptions(tokenizer=file.tokenizer, edge_tokens="no", **others)
    return options, {file.name: file.content}


def tokens_of(texts, options, artifacts) -> list[list[object]]:
    rows = rows_of(texts)["text"]
    if options.splitter == "bytes":
        return [list(text.encode()) for text in texts]
    if options.splitter in FROM_FILE:
        values, edges = load_subwords(options, artifacts).encode(rows, max_length=None)
    else:
        coded = tokenize(rows, options.splitter)
        values, edges = np.array(coded.distinct.to_pylist(), object)[coded.codes], coded.offsets
    return [values[a:b].tolist() for a, b in itertools.pairwise(edges.tolist())]


@pytest.mark.parametrize("size", [5, 64])
@pytest.mark.parametrize(
    "tokenizer", ["words", "whitespace", "chars", "bytes", "bpe", "byte bpe", "sentencepiece"]
)
def test_chunks_are_the_text(tmp_path, files, tokenizer, size):
    options, content = options_of(files, tokenizer, chunk=size, features=("text",))
    artifacts = context_of(tmp_path, content).artifacts
    cut, parents = TextChunker(options=options).cut(rows_of(TEXTS), artifacts)
    chunks = cut["text"].to_pylist()
    assert parents.tolist() == sorted(parents.tolist())
    for row, text in enumerate(TEXTS):
        assert "".join(chunks[i] for i in np.flatnonzero(parents == row)) == text
    counts = [len(tokens) for tokens in tokens_of(chunks, options, artifacts)]
    if tokenizer in files:
        long = [chunk for chunk, count in zip(chunks, counts, strict=True) if count > size]
        assert all(len(chunk) == 1 for chunk in long)  # which is six tokens by itself
        assert max(counts) > size * 0.8
        return
    assert max(counts) == size
    # No chunk could have been longer, but at the end of its text.
    last = np.append(parents[1:] != parents[:-1], True)
    least = size - 3 if tokenizer == "bytes" else size
    assert all(count >= least for count, ends in zip(counts, last, strict=True) if not ends)
    split = tokens_of(TEXTS, options, artifacts)
    for row, tokens in enumerate(split):
        pieces = tokens_of([chunks[i] for i in np.flatnonzero(parents == row)], options, artifacts)
        assert list(itertools.chain(*pieces)) == tokens


@pytest.mark.parametrize("tokenizer", ["words", "chars", "bytes", "byte bpe", "sentencepiece"])
def test_chunks_overlap(tmp_path, files, tokenizer):
    options, content = options_of(files, tokenizer, chunk=64, chunk_overlap=16)
    artifacts = context_of(tmp_path, content).artifacts
    cut, parents = TextChunker(options=options).cut(rows_of(LONG), artifacts)
    chunks = cut["text"].to_pylist()
    assert max(map(len, tokens_of(chunks, options, artifacts))) <= 64
    for row, text in enumerate(LONG):
        own = [chunks[i] for i in np.flatnonzero(parents == row)]
        assert len(own) > 1
        at = 0
        for before, after in itertools.pairwise(own):
            assert text[at:].startswith(before)
            shared = next(n for n in range(len(before), -1, -1) if after.startswith(before[-n:]))
            (tokens,) = tokens_of([before[len(before) - shared :]], options, artifacts)
            if tokenizer in ("words", "chars"):
                assert len(tokens) == 16
            assert 0 < len(tokens) <= 17
            at += len(before) - shared
        assert text[at:] == own[-1]


def test_the_chunks_of_a_text_stay_together(tmp_path, source):
    made = make(
        tmp_path / "out",
        *(*source, "--tokenizer", "words", "--features", "text,tokens", "--chunk", 10),
        *("--splits", "train=0.5,test=0.5"),
    )
    found: dict[str, dict[int, str]] = {}
    where: dict[str, set[str]] = {}
    for split in made.manifest.splits:
        for (key, _), example in made.examples(split).items():
            chunk, _, equal = key.partition("#")
            start, _, number = chunk.rpartition("/")
            whole = f"{start}#{equal}"
            assert len(example["tokens"]) <= 10
            found.setdefault(whole, {})[int(number)] = example["text"][0].decode()
            where.setdefault(whole, set()).add(split)
    assert all(len(splits) == 1 for splits in where.values())
    texts = ["".join(pieces[i] for i in range(len(pieces))) for pieces in found.values()]
    assert sorted(texts) == sorted(text for _, text in sms()[:MANY])
    assert made.manifest.ledger.unit == "chunk"
    assert made.manifest.ledger.records.written == sum(map(len, found.values())) > 1.4 * MANY


def test_a_tokenizer_file_travels_to_where_texts_are_cut(tmp_path, source, files):
    argv = (*source, "--tokenizer", files["bpe"], "--chunk", 12, "--max-length", 12)
    made = make(tmp_path / "out", *argv)
    lengths = [
        example["tokens/length"][0]
        for split in made.manifest.splits
        for example in made.examples(split).values()
    ]
    # Two of the twelve are for beginning and end.
    assert max(lengths) == 12
    assert len(lengths) > 1.4 * MANY
    assert run("text", *argv, "--workers", 1, "--output", tmp_path / "again") == 0
    assert Made(tmp_path / "again").manifest.digest == made.manifest.digest


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--pack", "0"), "--pack: expected 1 to"),
        (("--pack", "9"), "--pack: writes tokens only"),
        (("--pack", "9", "--features", "tokens,text"), "and no --features but tokens"),
        (("--pack", "9", "--tokenizer", "words", "--max-length", "5"), "use only one of them"),
        (
            ("--pack", "9", "--tokenizer", "words", "--end-token", "<e>"),
            "add it to --special-token",
        ),
        (("--tokenizer", "words", "--end-token", "<e>"), "--end-token: requires --pack"),
        (
            ("--pack", "9", "--tokenizer", "words", "--balance", "oversample"),
            "--balance oversample",
        ),
        (("--pack", "9", "--tokenizer", "BPE", "--end-token", "<e>"), "has no such token"),
        (("--chunk", "9"), "--chunk: requires --tokenizer"),
        (("--tokenizer", "words", "--chunk-overlap", "9"), "--chunk-overlap: requires --chunk"),
        (("--tokenizer", "words", "--chunk", "9", "--chunk-overlap", "9"), "expected 0 to 8"),
        (("--tokenizer", "bytes", "--chunk", "9", "--chunk-overlap", "6"), "expected 0 to 5"),
        (("--tokenizer", "bytes", "--chunk", "3"), "--chunk 3: expected 4 or more"),
        (("--tokenizer", "BPE", "--chunk", "2"), "--chunk 2: expected more than 2 tokens"),
    ],
)
def test_invalid_options_are_reported(tmp_path, capsys, source, files, argv, message):
    given_ = [str(files["bpe"]) if word == "BPE" else word for word in argv]
    assert main(["text", *map(str, source), "--output", str(tmp_path / "out"), *given_]) == 2
    assert message in capsys.readouterr().err


def test_a_tokenizer_with_dropout_is_refused(tmp_path, capsys, source, files):
    file = json.loads(files["bpe"].read_text())
    file["model"]["dropout"] = 0.1
    path = tmp_path / "dropout.json"
    path.write_text(json.dumps(file))
    argv = ["--output", str(tmp_path / "out"), "--tokenizer", str(path)]
    assert main(["text", *map(str, source), *argv]) == 2
    assert "uses dropout, which gives other ids each time" in capsys.readouterr().err
