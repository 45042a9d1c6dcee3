"""A SavedModel gives, for the texts of a dataset, what stands in it."""

import csv
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from recordmill.pipelines.cli import main
from recordmill.transforms.serving.models import argument_names
from tests.image_runs import Made
from tests.image_runs import make as make_any
from tests.paths import SMS
from tests.pipelines.test_sensor import OPTIONS as AIR_OPTIONS
from tests.pipelines.test_sensor import air_rows, windows
from tests.pipelines.test_text import make
from tests.row_keys import places_of_keys

pytestmark = pytest.mark.usefixtures("encoders")

INPUT = ("--format", "tsv", "--seed", 7)


@pytest.fixture(scope="module")
def messages(tmp_path_factory) -> pathlib.Path:
    """The first messages, under the name of the whole."""
    path = tmp_path_factory.mktemp("messages") / SMS.name
    path.write_bytes(b"".join(SMS.read_bytes().splitlines(keepends=True)[:500]))
    return path


def export(made: Made, folder: pathlib.Path) -> tf.Module:
    argv = ["export-transform", "--dataset", str(made.folder), "--output", str(folder / "model")]
    assert main(argv) == 0
    return tf.saved_model.load(str(folder / "model"))


def expect_equal(got, wanted) -> None:
    if wanted and isinstance(wanted[0], float):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)
    else:
        assert np.ravel(got).tolist() == list(wanted)


@pytest.mark.parametrize(
    "argv",
    [
        ("--features", "text,tokens,bow,tfidf"),
        ("--features", "text,tokens,bow,tfidf", "--ngrams", 2, "--tfidf-norm", "none"),
        ("--features", "text,tokens", "--max-length", 9, "--oov-buckets", 5, "--vocab-size", 300),
        ("--features", "text,tfidf", "--tfidf", "dense", "--vocab-size", 200),
        ("--features", "text,tokens", "--tokenizer", "whitespace", "--special-tokens", "<a>,<b>"),
        ("--features", "text,tokens,bow", "--tokenizer", "chars", "--rename", "tokens=ids"),
        ("--features", "text,tokens", "--tokenizer", "bytes"),
    ],
)
def test_the_model_gives_what_is_stored(messages, tmp_path, argv):
    made = make(tmp_path / "out", "--input", messages, *INPUT, *argv)
    model = export(made, tmp_path)
    stored = [example for split in ("train", "test") for example in made.examples(split).values()]
    # TensorFlow's lower case and ours differ beyond ASCII, as docs/text.md says.
    stored = [example for example in stored if example["text"][0].isascii()]
    texts = tf.constant([example["text"][0] for example in stored])
    found = model(texts)
    assert set(found) == {name for example in stored for name in example} - {"label"}
    served = model.signatures["serving_default"](texts=texts)
    assert set(served) >= set(found)
    for name, values in found.items():
        rows = values.to_list() if isinstance(values, tf.RaggedTensor) else values.numpy()
        for row, padded, example in zip(rows, served[name].numpy(), stored, strict=True):
            wanted = example.get(name, [])
            assert len(np.ravel(row)) == len(wanted)
            expect_equal(row, wanted)
            expect_equal(np.ravel(padded)[: len(wanted)], wanted)
    assert model(tf.constant([], tf.string)).keys() == found.keys()


def test_packed_ids_are_those_of_texts_by_themselves(messages, tmp_path):
    argv = ("--input", messages, *INPUT)
    made = make(tmp_path / "out", *argv, "--tokenizer", "words", "--pack", 64)
    model = export(made, tmp_path)
    key, example = next(iter(made.examples("train").items()))
    row = int(places_of_keys("text", *argv)[key[0].partition("@")[0]].rpartition("#")[2])
    text = messages.read_text(encoding="utf-8").split("\n")[row].split("\t", 1)[1]
    ids = model(tf.constant([text]))["tokens"].to_list()[0]
    assert example["tokens"][: len(ids)] == ids[:64]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--unicode", "nfc", "--tokenizer", "words"), "--unicode nfc: TensorFlow has no"),
        (("--tokenizer", "bpe", "--vocab-size", 600), "--tokenizer bpe: TensorFlow has no"),
        (
            ("--tokenizer", "words", "--embeddings", "T", "--features", "embeddings"),
            "--embeddings:",
        ),
    ],
)
def test_what_tensorflow_cannot_do_is_told(messages, tmp_path, capsys, argv, message):
    (tmp_path / "t.txt").write_text("a 1 2\nb 3 4\n")
    words = [tmp_path / "t.txt" if word == "T" else word for word in argv]
    made = make(tmp_path / "out", "--input", messages, *INPUT, *words)
    argv = ["export-transform", "--dataset", str(made.folder), "--output", str(tmp_path / "model")]
    assert main(argv) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_outputs_that_cannot_be(tmp_path, capsys):
    argv = ["export-transform", "--dataset", str(tmp_path / "none"), "--output"]
    assert main([*argv, str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*argv, str(tmp_path / "model")]) == 1
    assert "no dataset" in capsys.readouterr().err
    assert main([*argv, "s3://bucket/model"]) == 2
    assert "expected a local folder" in capsys.readouterr().err


TABLE = """when,age,city,code,x,tag
2024-02-29 23:59:58,31,Paris,7,0.5,
2000-01-01 00:00:00,,Rome,8,-1.25,a
,62,,7,,
1969-07-20 20:17:40,18,Paris,,3e5,b
2026-11-22 12:00:01,45,Köln,9,7,a
"""


def test_a_model_of_columns_gives_what_is_stored(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text(TABLE + "\n".join(TABLE.splitlines()[1:] * 30) + "\n")
    made = make_any(
        tmp_path / "out",
        *("--input", source, "--types", "when=timestamp", "--impute", "age=mean"),
        *("--zscore", "age", "--bucketize", "x=3", "--one-hot", "city", "--hash", "code=10"),
        *("--date-parts", "when=year+month+day+weekday+hour+minute+second", "--indicator", "x,age"),
        *("--rename", "age=years", "--impute", "tag=none", "--vocabulary", "tag"),
        command="table",
    )
    model = export(made, tmp_path)
    rows = list(csv.DictReader(source.open()))
    columns = {
        name: tf.constant([float(row[name] or "nan") for row in rows], tf.float64)
        for name in ("age", "x")
    } | {name: tf.constant([row[name] for row in rows]) for name in ("when", "city", "code", "tag")}
    found = model.serve(columns)
    stored = {}
    places = places_of_keys("table", "--input", source, "--types", "when=timestamp")
    for split in made.manifest.splits:
        for (key, _), example in made.examples(split).items():
            stored[int(places[key].partition("#")[2]) - 1] = example
    assert len(stored) == len(rows)
    assert set(found) == set(made.manifest.features)
    for name, values in found.items():
        for row, value in enumerate(values.numpy()):
            if name in stored[row]:
                assert np.ravel(value).tolist() == list(stored[row][name]), (name, row)
            else:
                assert np.isnan(value) if value.dtype.kind == "f" else value == -1


def test_a_model_of_windows_gives_what_is_stored(tmp_path):
    made = make_any(
        tmp_path / "out",
        *(*AIR_OPTIONS, "--window", 24, "--splits", "train=1", "--zscore", "T"),
        *("--bucketize", "RH=5", "--impute", "AH=median", "--clip", "AH=0.5:1.5"),
        *("--indicator", "T", "--minmax", "CO(GT)"),
        command="sensor",
    )
    model = export(made, tmp_path)
    rows = air_rows()
    inputs = {
        name: np.array([values[name] for _, values in rows[: len(rows) // 24 * 24]]).reshape(-1, 24)
        for name in ("T", "RH", "AH", "CO(GT)")
    }
    found = model.serve({name: tf.constant(column) for name, column in inputs.items()})
    examples = windows(made)
    assert sorted(found) == ["AH", "CO(GT)", "RH", "T", "T/missing"]
    arguments = {name.replace("CO(GT)", "CO_GT_"): tf.constant(c) for name, c in inputs.items()}
    served = model.signatures["serving_default"](**arguments)
    for name, values in found.items():
        np.testing.assert_array_equal(values, served[name])
    for row in range(len(rows) // 24):
        stored = examples[f"AirQualityUCI.csv@{rows[row * 24][0].isoformat()}"]
        for name, values in found.items():
            np.testing.assert_array_equal(values[row].numpy(), stored[name])


def test_names_that_tensorflow_would_not_take():
    columns = ["CO(GT)", "co gt ", "T", "1x", "ü", "_", "text/length"]
    assert list(argument_names(columns).values()) == [
        *("CO_GT_", "co_gt__2", "T", "column_1x", "column__", "column___2", "text_length")
    ]


def test_a_dataset_gives_the_model_of_the_one_it_learned_from(tmp_path):
    for name, step in (("old", 1), ("new", 3)):
        lines = [f"{n * step % 31},{'abcd'[n * step % 3]}" for n in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,word", *lines]) + "\n")
    options = ("--zscore", "x", "--vocabulary", "word")
    old = make_any(tmp_path / "a", "--input", tmp_path / "old.csv", *options, command="table")
    options = (*options, "--learned-from", old.folder)
    new = make_any(tmp_path / "b", "--input", tmp_path / "new.csv", *options, command="table")
    inputs = {"x": tf.constant([3.0, 77.0], tf.float64), "word": tf.constant(["a", "unseen"])}
    results = []
    for made in (old, new):
        model = export(made, tmp_path / f"model of {made.folder.name}")
        found = model.signatures["serving_default"](**inputs)
        results.append({name: value.numpy().tolist() for name, value in found.items()})
    assert results[0] == results[1]
