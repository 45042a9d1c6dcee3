"""`recordmill text` from end to end: real messages in, read back by TensorFlow."""

import codecs
import itertools
import json
import pathlib
import random
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from recordmill.pipelines.cli import main
from recordmill.transforms.encoders.tokenization.word_pattern import (
    SPLIT_WORDS,
    SPLIT_WORDS_REWRITE,
)
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.paths import SMS
from tests.row_keys import places_of_keys
from tests.tensorflow_reads import parse_at_once
from tests.texts import sms

pytestmark = pytest.mark.usefixtures("encoders")

MESSAGES = ("--input", SMS, "--format", "tsv", "--seed", 7)
_FEW = 1000


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> tuple[object, ...]:
    """Options that read the first messages alone."""
    path = tmp_path_factory.mktemp("few") / SMS.name
    path.write_bytes(b"".join(SMS.read_bytes().splitlines(keepends=True)[: _FEW + 1]))
    return ("--input", path, *MESSAGES[2:])


def make(folder: pathlib.Path, *argv: object) -> Made:
    made = make_any(folder, *argv, command="text")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def texts(made: Made, split: str) -> dict[tuple[str, int], str]:
    return {at: example["text"][0].decode() for at, example in made.examples(split).items()}


@pytest.fixture(scope="module")
def spam(tmp_path_factory) -> Made:
    """What the README makes of the messages."""
    return make(
        tmp_path_factory.mktemp("spam") / "out",
        *(*MESSAGES, "--tokenizer", "words", "--features", "text,tokens", "--max-length", 40),
        *("--balance", "oversample", "--dedup", "group"),
        *("--splits", "train=0.8,validation=0.1,test=0.1", "--num-shards", "train=3"),
    )


def test_every_message_is_there_once(spam):
    written = [
        (row["label"], text)
        for split in spam.manifest.splits
        for row, text in zip(spam.index(split), texts(spam, split).values(), strict=True)
        if row["copy"] == 0
    ]
    assert len(written) == 5574
    assert Counter(written) == Counter(sms())


def test_train_is_balanced_and_nothing_else_is(spam):
    train = spam.manifest.splits["train"].classes
    assert train["ham"] == train["spam"] > 3500
    assert not any(row["copy"] for split in ("validation", "test") for row in spam.index(split))


def test_no_text_stands_in_two_splits(spam):
    found = [
        {" ".join(text.lower().split()) for text in texts(spam, split).values()}
        for split in ("train", "validation", "test")
    ]
    assert all(found)
    for one, other in itertools.combinations(found, 2):
        assert not one & other


def compared(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def vectorizer(made: Made, **options) -> tf.keras.layers.TextVectorization:
    """As `word_pattern` says, with the published file."""

    def standardize(batch):
        lowered = tf.strings.lower(batch, encoding="utf-8")
        return tf.strings.regex_replace(lowered, SPLIT_WORDS, SPLIT_WORDS_REWRITE)

    return tf.keras.layers.TextVectorization(
        standardize=standardize,
        split="whitespace",
        vocabulary=str(made.folder / "vocabulary/tokens.txt"),
        **options,
    )


def test_ids_are_those_of_text_vectorization(spam):
    layer = vectorizer(spam, output_sequence_length=40)
    for split in ("train", "test"):
        examples = parse_at_once(spam, split)
        got = examples["tokens"].numpy()
        assert len(got) == spam.manifest.splits[split].records > 0
        assert np.array_equal(got, layer(examples["text"]))
        masks = examples["tokens/mask"].numpy()
        assert np.array_equal(masks, got != 0)
        assert np.array_equal(masks.sum(1), examples["tokens/length"])


def words(made: Made, split: str) -> set[str]:
    # Every message is of Unicode's first planes: the layer without a vocabulary splits them.
    layer = tf.keras.layers.TextVectorization(
        standardize=vectorizer(made)._standardize, split="whitespace"
    )
    layer.adapt(list(texts(made, split).values()))
    return set(layer.get_vocabulary()[2:])


def test_the_vocabulary_is_learned_from_train_alone(spam):
    lines = (spam.folder / "vocabulary/tokens.txt").read_text().splitlines()
    train = words(spam, "train")
    assert set(lines) == train
    others = words(spam, "validation") | words(spam, "test")
    only_there = others - train
    assert len(only_there) > 100
    assert not only_there & set(lines)


def test_the_same_bytes_with_any_number_of_workers(spam, tmp_path):
    argv = ("--workers", 2, "--num-shards", "train=3", "--spill-above", "10kB")
    again = make(
        tmp_path / "out",
        *(*MESSAGES, "--tokenizer", "words", "--features", "text,tokens", "--max-length", 40),
        *("--balance", "oversample", "--dedup", "group", *argv),
        *("--splits", "train=0.8,validation=0.1,test=0.1"),
    )
    assert again.manifest.digest == spam.manifest.digest
    assert (again.folder / "dataset.json").read_bytes() == (
        spam.folder / "dataset.json"
    ).read_bytes()


def test_tfidf_is_that_of_scikit_learn(few, tmp_path):
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import TfidfVectorizer

    made = make(tmp_path / "out", *few, "--features", "text,tfidf", "--ngrams", 2)
    lines = (made.folder / "vocabulary/tokens.txt").read_text().splitlines()
    split = vectorizer(made)._standardize
    every = [text for name in ("train", "test") for text in texts(made, name).values()]
    tokens_of = dict(zip(every, map(bytes.decode, split(tf.constant(every)).numpy()), strict=True))

    def terms(text):
        tokens = tokens_of[text].split()
        return tokens + [" ".join(pair) for pair in itertools.pairwise(tokens)]

    theirs = TfidfVectorizer(analyzer=terms, vocabulary={line: i for i, line in enumerate(lines)})
    theirs.fit(texts(made, "train").values())
    for name in ("train", "test"):
        examples = made.examples(name).values()
        wanted = theirs.transform([example["text"][0].decode() for example in examples])
        places = [example["tfidf/indices"] for example in examples]
        values = np.concatenate([example["tfidf/values"] for example in examples])
        starts = np.cumsum([0, *map(len, places)])
        got = csr_array((values, np.concatenate(places), starts), shape=wanted.shape)
        assert abs(got - wanted).max() < 1e-6


def test_copies_vary_and_records_do_not(few, tmp_path):
    varied = ("--balance", "oversample", "--augment", "word-dropout,word-swap")
    made = make(tmp_path / "a", *few, *varied)
    again = make(tmp_path / "b", *few, *varied, "--workers", 2)
    assert made.manifest.digest == again.manifest.digest
    by_place = {f"SMSSpamCollection#{row}": text for row, (_, text) in enumerate(sms()[:_FEW], 1)}
    plain = {key: by_place[place] for key, place in places_of_keys("text", *few).items()}
    changed = unchanged = 0
    for (key, copy), text in texts(made, "train").items():
        if copy == 0:
            assert text == plain[key]
        elif text == plain[key]:
            unchanged += 1
        else:
            changed += 1
            assert not Counter(text.split()) - Counter(plain[key].split())
    assert changed > 5 * unchanged


def test_copies_of_texts_without_spaces_vary(tmp_path):
    draw = random.Random(1)
    rows = [{"text": "".join(chr(0x4E00 + draw.randrange(300)) for _ in range(60)),
             "label": "rare" if place < 8 else "usual"} for place in range(48)]  # fmt: skip
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    varied = ("--balance", "oversample", "--augment", "word-dropout,word-swap")
    made = make(tmp_path / "out", "--input", tmp_path / "in.jsonl", *varied, "--splits", "train=1")
    found = texts(made, "train")
    assert len(found) == 80
    for (key, copy), text in found.items():
        original = found[key, 0]
        assert (copy == 0) == (text == original)
        assert not Counter(text) - Counter(original)


def test_duplicates_are_dropped_and_told(tmp_path):
    made = make(tmp_path / "out", *MESSAGES, "--dedup", "drop")
    found = [text for split in made.manifest.splits for text in texts(made, split).values()]
    assert sorted(map(compared, found)) == sorted({compared(text) for _, text in sms()})
    records = made.manifest.ledger.records
    assert records.filtered == 5574 - len(found) > 400
    assert records.made == 5574


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (("--min-chars", 100), lambda text: len(text) >= 100),
        (("--max-chars", 50), lambda text: len(text) <= 50),
        (("--tokenizer", "whitespace", "--min-tokens", 5, "--max-tokens", 9),
         lambda text: 5 <= len(text.encode().split()) <= 9),
    ],
)  # fmt: skip
def test_lengths(few, tmp_path, argv, kept):
    made = make(tmp_path / "out", *few, "--features", "text", *argv)
    found = [text for split in made.manifest.splits for text in texts(made, split).values()]
    assert sorted(found) == sorted(text for _, text in sms()[:_FEW] if kept(text))
    assert made.manifest.ledger.records.filtered == _FEW - len(found) > 0


def test_a_tokenizer_of_hugging_face(few, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE(unk_token="[UNK]"))
    trained.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"], show_progress=False)
    trained.train_from_iterator([text for _, text in sms()[:_FEW]], trainer)
    trained.save(str(tmp_path / "tokenizer.json"))
    made = make(
        tmp_path / "out",
        *(*few, "--tokenizer", tmp_path / "tokenizer.json", "--features", "text,tokens"),
    )
    for example in made.examples("test").values():
        assert example["tokens"] == trained.encode(example["text"][0].decode()).ids
    published = made.folder / "vocabulary/tokenizer.json"
    assert published.read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    # What counts is what the file holds, not where it stands.
    (tmp_path / "tokenizer.json").rename(tmp_path / "other.json")
    argv = (*few, "--tokenizer", tmp_path / "other.json", "--features", "text,tokens")
    assert run("text", *argv, "--output", tmp_path / "out") == 0


def test_a_folder_by_split_and_class(tmp_path):
    for split, label, number in [
        (split, label, number)
        for split in ("train", "test")
        for label in ("good", "bad")
        for number in range(3)
    ]:
        place = tmp_path / "in" / split / label
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(f"{label} {split}\n{number} ä")
    made = make(tmp_path / "out", "--input", tmp_path / "in")
    assert set(made.manifest.splits) >= {"train", "test"}
    assert made.manifest.labels == ("bad", "good")
    assert texts(made, "test")["test/bad/2.txt", 0] == "bad test\n2 ä"


def test_columns_beside_the_text_are_carried_along(tmp_path):
    lines = [
        {"id": i, "body": f"text {i}", "score": i / 2, "tags": ["a"] * (i % 3)} for i in range(40)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = make(tmp_path / "out", "--input", tmp_path / "in.jsonl", "--key-column", "id")
    found = {
        key: example
        for split in made.manifest.splits
        for key, example in made.examples(split).items()
    }
    assert found["7", 0] == {"text": [b"text 7"], "score": [3.5], "tags": [b"a"]}
    assert len(found) == 40


def test_quotes_that_hide_rows_are_told(tmp_path, capsys):
    argv = ("--input", SMS, "--format", "tsv", "--quoting", "on", "--output", tmp_path / "out")
    assert main(["text", "--workers", "1", *map(str, argv)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "1 row with a value that spans lines, the first is SMSSpamCollection#5082" in told
    assert "--quoting off reads quotes as data" in told
    assert Made(tmp_path / "out").manifest.ledger.inputs.read == 5572


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--text-column", "txet"), "it has 'Label', 'SMS'"),
        (("--tokenizer", "wrods"), "expected words, whitespace, chars, bytes, bpe or"),
        (("--tokenizer", "missing.json"), "--tokenizer missing.json: there is no such file"),
        (("--tokenizer", str(SMS)), "expected a Hugging Face tokenizer.json or a SentencePiece"),
        (("--min-frequency", "3"), "--min-frequency: requires a learned vocabulary"),
        (("--tokenizer", "words", "--min-frequency", "99999"), "no token in the"),
    ],
)
def test_invalid_options_are_reported(tmp_path, capsys, argv, message):
    code = run("text", *MESSAGES, "--output", tmp_path / "out", *argv)
    assert code == (1 if "no token" in message else 2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out/dataset.json").exists()


def test_equal_texts_that_the_input_puts_into_two_splits_are_told(tmp_path, capsys):
    lines = ["text,split", "one,train", "two,test", "one,test"]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    argv = ("--input", tmp_path / "in.csv", "--output", tmp_path / "out", "--split-column", "split")
    assert run("text", *argv, "--dedup", "group") == 1
    told = capsys.readouterr().err
    assert (
        "(test: in.csv#3, train: in.csv#1); name one split for each group, or take --dedup drop"
        in told
    )


def test_texts_of_white_space_are_rejected_and_utf_16_names_its_option(tmp_path):
    texts = {"1": b"one", "2": b" \r\n\t", "3": "\u00a0\u2003".encode(), "4": b"\n" * 99 + b"four",
             "5": "five".encode("utf-16"), "6": "six".encode("utf-16-le"), "7": b"se\0ven",
             "8": b"caf\xe9"}  # fmt: skip
    folder = tmp_path / "in"
    folder.mkdir()
    for name, data in texts.items():
        (folder / f"{name}.txt").write_bytes(data)
    argv = ("--splits", "train=1", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", "--input", folder, *argv)
    assert made.keys("train") == {"1.txt", "4.txt"}
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    found = {one["key"][0]: (one["reason"], one["detail"]) for one in map(json.loads, lines)}
    utf_16 = ("bad_value", "not UTF-8: it looks like UTF-16, which --encoding utf-16 reads")
    assert found == {
        **dict.fromkeys("23", ("empty", "only white space")),
        **dict.fromkeys("56", utf_16),
        "7": ("bad_value", "a zero byte: expected text"),
        "8": ("bad_value", "not UTF-8: name the encoding with --encoding"),
    }
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.txt").write_text("one\n\u00a0\n\ntwo\n")
    (tmp_path / "lines" / "5.txt").write_bytes("five\n".encode("utf-16"))
    (tmp_path / "rows.csv").write_text("text,label\none,a\n\u00a0 ,a\ntwo,b\n")
    for given, more in (("lines", ("--documents", "line")), ("rows.csv", ())):
        made = make(tmp_path / f"of-{given}", "--input", tmp_path / given, *argv, *more)
        assert made.manifest.ledger.records.written == 2
        utf_16 = {"5.txt": "bad_value"} if given == "lines" else {}
        assert made.rejects.items() >= utf_16.items()
        assert sorted(made.rejects.values()) == [*utf_16.values(), "empty"]


def test_columns_of_bytes_and_of_files_hold_texts(tmp_path):
    """Also in another encoding; a byte order mark of a file is no part of its text."""
    words = ["café", "naïve", "ünder", "plain"] * 5
    labels = ["a", "b"] * 10
    rows = "".join(
        json.dumps({"text": t, "label": y}) + "\n" for t, y in zip(words, labels, strict=True)
    )
    (tmp_path / "in.jsonl").write_text(rows)
    texts_of = (("utf-8", ()), ("latin-1", ("--encoding", "latin-1")))
    inputs = [(tmp_path / "in.jsonl", ())]
    for encoding, options in texts_of:
        values = [word.encode(encoding) for word in words]
        files = [{"bytes": one, "path": f"{n}.txt"} for n, one in enumerate(values)]
        if encoding == "utf-8":
            files[0]["bytes"] = codecs.BOM_UTF8 + values[0]
        for name, column in (("bytes", pa.array(values, pa.binary())), ("files", pa.array(files))):
            path = tmp_path / f"{encoding}-{name}.parquet"
            pq.write_table(pa.table({"text": column, "label": labels}), path)
            inputs.append((path, options))
    made = [
        make(tmp_path / f"out{n}", "--input", path, *options)
        for n, (path, options) in enumerate(inputs)
    ]
    assert {one.manifest.digest for one in made} == {made[0].manifest.digest}


def test_bytes_that_are_no_text_are_rejected(tmp_path, capsys):
    values = [b"caf\xe9", b"plain", b"more"]
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": pa.array(values, pa.binary()), "y": [1, 2, 3]}), path)
    argv = ("--input", path, "--splits", "train=1", "--max-reject-fraction", "0.5")
    for options, why in (
        ((), "not UTF-8: expected text in column 'text', which holds bytes (--encoding names"),
        (("--encoding", "ascii"), "not ASCII: expected text in column 'text', which holds bytes"),
    ):
        made = make(tmp_path / f"out{len(options)}", *argv, *options)
        (reject,) = map(json.loads, (made.folder / "rejects.jsonl").read_text().splitlines())
        assert (reject["key"], reject["reason"]) == ("in.parquet#1", "bad_value")
        assert why in reject["detail"]
    pq.write_table(pa.table({"text": ["a", "b"]}), path)
    assert run("text", *argv, "--output", tmp_path / "x", "--encoding", "latin-1") == 2
    assert "--encoding applies to text and to columns of bytes, and" in capsys.readouterr().err


def test_lines_of_several_text_files_are_documents(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"first of {name}\nsecond of {name}\n")
    argv = ("--documents", "line", "--label-from", "file", "--splits", "train=1")
    files = ("--input", tmp_path / "a.txt", "--input", tmp_path / "b.txt")
    made = make(tmp_path / "files", *files, *argv)
    pattern = make(tmp_path / "pattern", "--input", tmp_path / "*.txt", *argv)
    assert made.manifest.digest == pattern.manifest.digest
    assert made.manifest.labels == ("a", "b")
    alone = make(tmp_path / "alone", "--input", tmp_path / "a.txt", *argv)
    assert alone.manifest.ledger.records.written == 2


def documents(root: pathlib.Path, count: int = 24) -> list[tuple[str, str, str]]:
    """Write documents in folders of splits and classes, and return (path, split, class) of each."""
    rows = []
    for number in range(count):
        split, label = ("train", "test")[number % 4 == 0], ("good", "bad")[number % 3 == 0]
        name = f"{split}/{label}/{number:02}.txt"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        bom = codecs.BOM_UTF8 * (number % 5 == 0)
        (root / name).write_bytes(bom + f"{label}\r\n{number} ä, café\n".encode())
        rows.append((name, split, label))
    return rows


def table(path: pathlib.Path, header: str, rows: list[tuple[str, ...]]) -> pathlib.Path:
    path.write_text("\n".join([header, *map(",".join, rows), ""]))
    return path


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("Filename", ()),
        ("doc", ("--path-column", "doc")),
        ("id", ("--path-template", "{id}.txt")),
        ("path", ("--input-root", "in")),
    ],
)
def test_listed_text_files_are_documents(column, options, tmp_path, monkeypatch):
    """The dataset of a listing is, byte for byte, that of the folder that it lists."""
    monkeypatch.chdir(tmp_path)
    rows = documents(tmp_path / "in")
    argv = ("--tokenizer", "words", "--features", "text,tokens", "--dedup", "drop")
    folder = make(tmp_path / "folder", "--input", "in", *argv)
    beside = tmp_path if "--input-root" in options else tmp_path / "in"
    if column == "id":
        rows = [(name.removesuffix(".txt"), *rest) for name, *rest in rows]
    listing = table(beside / "list.csv", f"{column},split,label", rows)
    listed = make(tmp_path / "listed", "--input", listing, *argv, *options)
    assert listed.manifest.digest == folder.manifest.digest
    for split in ("train", "test"):
        assert listed.index(split) == folder.index(split)


def test_columns_of_a_listing_become_features_groups_and_classes(tmp_path):
    rows = [
        (*row, f"writer {number // 3}", str(number / 2))
        for number, row in enumerate(documents(tmp_path / "in"))
    ]
    listing = table(tmp_path / "in" / "list.csv", "file,part,label,writer,score", rows)
    made = make(
        tmp_path / "out",
        *("--input", listing, "--drop-columns", "part", "--group-column", "writer"),
        *("--where", "score >= 1", "--splits", "train=0.5,test=0.5"),
    )
    found = {
        key: (split, example)
        for split in made.manifest.splits
        for (key, _), example in made.examples(split).items()
    }
    assert {*found} == {name for name, *_, score in rows if float(score) >= 1}
    groups = {}
    for name, _, label, writer, score in rows[2:]:
        split, example = found[name]
        assert example["score"] == [float(score)]
        assert made.manifest.labels[example["label"][0]] == label
        groups.setdefault(writer, set()).add(split)
    assert {len(one) for one in groups.values()} == {1}
    assert made.manifest.ledger.filtered.inputs == {"where": 2}


def test_paths_of_listed_texts_give_groups(tmp_path):
    rows = [(name, label) for name, _, label in documents(tmp_path / "in")]
    listing = table(tmp_path / "in" / "list.csv", "path,label", rows)
    argv = ("--input", listing, "--group-from", r"(\d)[.]txt", "--splits", "train=0.5,test=0.5")
    made = make(tmp_path / "out", *argv)
    digits = {split: {row["key"][-5] for row in made.index(split)} for split in ("train", "test")}
    assert digits["train"].isdisjoint(digits["test"])
    assert digits["train"] | digits["test"] == {*"0123456789"}
    assert all(digits.values())


def test_listed_files_that_are_no_texts_are_rejected(tmp_path, capsys):
    rows = documents(tmp_path / "in")
    odd = {"empty": b"", "blank": b" \n", "latin": b"caf\xe9", "zero": b"a\0b", "long": b"x" * 99}
    for name, content in odd.items():
        (tmp_path / "in" / f"{name}.txt").write_bytes(content)
    rows += [(f"{name}.txt", "train", "good") for name in (*odd, "gone")]
    listing = table(tmp_path / "in" / "list.csv", "path,split,label", rows)
    argv = ("--input", listing, "--max-row-bytes", 60, "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *argv)
    assert made.rejects == {
        **{"empty.txt": "empty", "blank.txt": "empty", "latin.txt": "bad_value"},
        **{"zero.txt": "bad_value", "long.txt": "too_large", "gone.txt": "missing"},
    }
    assert made.manifest.ledger.inputs.read == 24


def test_several_listings_are_splits_of_their_own(tmp_path, capsys):
    rows = [(name, label) for name, _, label in documents(tmp_path / "in")]
    parts = {"train": rows[:16], "test": rows[16:]}
    argv = []
    for split, some in parts.items():
        listing = table(tmp_path / "in" / f"{split}.csv", "path,label", some)
        argv += ["--input", f"{split}={listing}"]
    assert run("text", *argv, "--output", tmp_path / "out", "--verify") == 0
    made = Made(tmp_path / "out")
    found = {split: {row["key"] for row in made.index(split)} for split in parts}
    assert found == {split: {name for name, _ in some} for split, some in parts.items()}
    assert main(["text", *map(str, argv), "--output", str(tmp_path / "plan"), "--dry-run"]) == 0
    assert "text     the files that the column 'path' names" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("path,label", ("--text-column", "path"), None),
        ("doc,label", (), "such as test/bad/00.txt: --path-column doc reads these files"),
        ("path,text", ("--path-column", "path"), "a column 'text' beside the column of paths"),
        ("path,label", ("--documents", "line"), "--documents line: applies only to text files"),
        (
            "path,label",
            ("--path-column", "path", "--text-column", "label"),
            "to files of rows, but",
        ),
        ("id,label", (), "if the keys name files, --path-template '{id}.txt' reads these files"),
        ("path,label", ("--input-root", "other"), "is neither a folder nor an archive"),
    ],
)
def test_listings_and_tables_of_texts_are_told_apart(header, options, message, tmp_path, capsys):
    rows = [(name, label) for name, _, label in documents(tmp_path / "in")]
    if header.startswith("id"):
        rows = [(name.removesuffix(".txt"), label) for name, label in rows]
    listing = table(tmp_path / "in" / "list.csv", header, rows)
    code = run("text", "--input", listing, *options, "--output", tmp_path / "out")
    assert code == (0 if message is None else 2)
    assert (message or "") in capsys.readouterr().err
    if message is None:
        assert "train/bad/03.txt" in {*texts(Made(tmp_path / "out"), "train").values()}


def test_options_of_paths_need_a_listing(tmp_path, capsys):
    documents(tmp_path / "in")
    argv = ("--input", tmp_path / "in", "--path-column", "path", "--output", tmp_path / "out")
    assert run("text", *argv) == 2
    assert "expected a listing, which is one table" in capsys.readouterr().err


def test_a_dry_run_needs_no_output(tmp_path, capsys, monkeypatch):
    """Its temporary folder is removed, also after an error."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"t {n},x\n" for n in range(20)))
    argv = ("--input", tmp_path / "a.csv", "--dry-run")
    assert run("text", *argv, "--json") == 0
    assert json.loads(capsys.readouterr().out)["classes"]["number"] == 1
    assert run("text", *argv, "--text-column", "none") == 2
    assert not [*(tmp_path / "scratch").glob("recordmill-*")]
    capsys.readouterr()
    assert run("text", *argv, "--runner", "flink") == 2
    assert "missing --output: a dry run on Flink needs a folder" in capsys.readouterr().err
    assert run("text", *argv[:2]) == 2
    assert "missing --output; see recordmill text --help" in capsys.readouterr().err
