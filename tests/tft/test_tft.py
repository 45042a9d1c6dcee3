"""--preprocessing-fn: what tensorflow-transform learns from train, stored and published."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from recordmill.pipelines.cli import main
from tests.flink.conftest import flink  # noqa: F401  (a fixture)
from tests.flink.jobs import Job
from tests.image_runs import Made
from tests.paths import IMBALANCED, SMS
from tests.tensorflow_reads import parse

FUNCTION = "tests.tft.preprocessing:words_and_weights"
OPTIONS = ("--preprocessing-fn", FUNCTION, "--splits", "train=0.8,test=0.2")


@pytest.fixture(scope="module")
def messages(tmp_path_factory) -> pathlib.Path:
    """Two thousand of the messages, below their header: what a function learns is there, and
    TensorFlow, which every step on Flink starts anew, takes most of the time.
    """
    path = tmp_path_factory.mktemp("messages") / "messages.tsv"
    path.write_bytes(b"\n".join(SMS.read_bytes().split(b"\n")[:2001]) + b"\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory, messages) -> Made:
    folder = tmp_path_factory.mktemp("tft") / "out"
    job = Job(folder, *OPTIONS, source=messages, kind="text")
    job.finish()
    assert main(["verify", "--dataset", str(folder)]) == 0
    return Made(folder)


def texts(made: Made, split: str) -> list[str]:
    found = made.examples(split)
    return [found[at]["text"][0].decode() for at in sorted(found) if at[1] == 0]


def test_the_published_function_gives_what_is_stored(made):
    output = tft.TFTransformOutput(str(made.folder / "transform_fn"))
    for split in ("train", "test"):
        examples = parse(made, split)
        assert len(examples) == made.manifest.splits[split].records
        inputs = {"text": tf.stack([example["text"] for example in examples])}
        found = output.transform_raw_features(inputs)
        for name in ("tokens", "tfidf/indices", "tfidf/values"):
            rows = tf.RaggedTensor.from_sparse(found[name]).to_list()
            for row, example in zip(rows, examples, strict=True):
                stored = tf.sparse.to_dense(example[name]).numpy().tolist()
                assert stored == row
        stored = [example["length"].numpy() for example in examples]
        np.testing.assert_allclose(stored, found["length"].numpy(), rtol=1e-6)
        assert [e["first"].numpy()[0] for e in examples] == found["first"].numpy()[:, 0].tolist()


def test_it_is_learned_from_train_alone_and_not_from_copies(made):
    train = texts(made, "train")
    counts: dict[str, int] = {}
    for text in train:
        for word in tf.strings.split(tf.strings.lower(text)).numpy().tolist():
            counts[word] = counts.get(word, 0) + 1
    vocabulary = made.folder / "transform_fn/transform_fn/assets/words"
    lines = vocabulary.read_bytes().split(b"\n")[:-1]
    assert len(lines) == 1000
    assert [counts[line] for line in lines] == sorted(counts.values(), reverse=True)[:1000]
    lengths = np.array([len(text.encode()) for text in train], np.float64)
    example = parse(made, "test")[0]
    length = len(example["text"].numpy())
    expected = (length - lengths.mean()) / lengths.std()
    assert example["length"].numpy() == pytest.approx(expected, rel=1e-4)


def test_the_same_bytes_with_one_worker_and_on_flink(made, messages, flink, tmp_path):  # noqa: F811
    one = Job(tmp_path / "one", *OPTIONS, "--workers", "1", source=messages, kind="text")
    one.finish()
    assert Made(one.output).manifest.digest == made.manifest.digest
    job = Job(tmp_path / "flink", *OPTIONS, source=messages, kind="text").on(flink, "loopback")
    job.finish()
    assert Made(job.output).manifest.digest == made.manifest.digest


def test_nothing_is_done_twice(made, messages):
    again = Job(made.folder, *OPTIONS, source=messages, kind="text").run()
    assert again.code == 0
    assert "nothing has changed" in again.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("tests.tft.preprocessing:missing",), "has no function 'missing'"),
        (("tests.tft.nowhere:f",), "cannot import tests.tft.nowhere"),
        (("tests.tft.preprocessing:fails",), "--preprocessing-fn tests.tft.preprocessing:fails"),
    ],
)
def test_what_cannot_work_is_told(tmp_path: pathlib.Path, capsys, argv, message):
    options = ["--input", str(SMS), "--format", "tsv", "--output", str(tmp_path / "out")]
    assert main(["text", *options, "--preprocessing-fn", *argv]) == 2
    assert message in capsys.readouterr().err


def test_a_name_that_is_taken(tmp_path, capsys):
    options = ["--input", str(SMS), "--format", "tsv", "--output", str(tmp_path / "out")]
    argv = ["--preprocessing-fn", "tests.tft.preprocessing:label", "--quiet"]
    assert main(["text", *options, *argv]) == 1
    assert "returns a feature 'label'" in capsys.readouterr().err


def test_columns_of_tables_go_through_a_function_too(tmp_path):
    """As what is built in makes them of the same rows, within a float32's last bits."""
    columns = ("area", "grey", "gradient", "noise", "contrast", "moment")
    options = ("--columns", ",".join((*columns, "label")), "--splits", "train=0.8,test=0.2")
    ours, theirs = (
        Job(tmp_path / name, *options, *more, source=IMBALANCED, kind="table")
        for name, more in (
            ("ours", ("--zscore", ",".join(columns))),
            ("theirs", ("--preprocessing-fn", "tests.tft.preprocessing:scaled")),
        )
    )
    ours.finish()
    theirs.finish()
    for split in ("train", "test"):
        found, expected = (Made(job.output).examples(split) for job in (theirs, ours))
        assert found.keys() == expected.keys()
        for at, example in found.items():
            for name in columns:
                np.testing.assert_allclose(example[name], expected[at][name], atol=1e-5)


def test_a_learned_function_is_applied_to_other_texts(made, messages, tmp_path):
    lines = messages.read_bytes().split(b"\n")
    other = tmp_path / "other.tsv"
    other.write_bytes(b"\n".join([lines[0], *lines[1:120:2], b"ham\tzyzzyva unseen", b""]))
    options = (*OPTIONS, "--learned-from", str(made.folder), "--trust-transform")
    job = Job(tmp_path / "out", *options, "--workers", "1", source=other, kind="text")
    job.finish()
    applied = Made(tmp_path / "out")
    names = [name for name in made.manifest.files if name.startswith("transform_fn/")]
    assert names
    for name in names:  # the exported function is the same
        assert (applied.folder / name).read_bytes() == (made.folder / name).read_bytes()
    before = {one["text"][0]: one["tokens"] for one in made.examples("train").values()}
    found = {one["text"][0]: one["tokens"] for one in applied.examples("train").values()}
    common = before.keys() & found.keys()
    assert len(common) > 20
    assert all(before[text] == found[text] for text in common)


def test_the_model_of_a_dataset_runs_only_if_it_is_trusted(tmp_path, monkeypatch, capsys):
    """The model writes a file into the current folder, so that it shows whether it ran."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{number},{number * 7 % 10}\n" for number in range(60))
    (tmp_path / "rows.csv").write_text(f"number,other\n{rows}")
    function = ("--preprocessing-fn", "tests.tft.preprocessing:writing", "--workers", "1")
    table = ("table", "--input", "rows.csv", "--quiet", *function)
    assert main([*table, "--output", "theirs"]) == 0
    written = tmp_path / "written_by_the_model"
    written.unlink()
    capsys.readouterr()
    assert main([*table, "--output", "ours", "--learned-from", "theirs"]) == 2
    error = capsys.readouterr().err
    assert "theirs/transform_fn is a TensorFlow SavedModel" in error
    assert "add --trust-transform" in error
    assert not written.exists()
    assert not (tmp_path / "ours").exists()
    for argv in (
        ["inspect", "--dataset", "theirs"],
        ["verify", "--dataset", "theirs", "--deep"],
        ["report", "--dataset", "theirs", "--output", "report.html"],
    ):
        assert main(argv) == 0
    assert main(["export-transform", "--dataset", "theirs", "--output", "model"]) == 2
    assert not written.exists()
    assert main([*table, "--output", "ours", "--learned-from", "theirs", "--trust-transform"]) == 0
    assert written.exists()
