"""Every data type as records in memory: the dataset is, byte for byte, that of the command."""

import collections
import dataclasses
import math
import pathlib
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from recordmill.checking.verify import verify
from recordmill.errors import ConfigError, RunError
from recordmill.pipelines.cli import main
from recordmill.runners import direct
from recordmill.storage.files import Location
from recordmill.transforms import (
    ArrayOptions,
    AssignSplits,
    AudioOptions,
    DecodeAndResizeImages,
    EncodeExamples,
    FileList,
    ImageOptions,
    ReadArrays,
    ReadAudio,
    ReadImages,
    ReadSeries,
    ReadTable,
    ReadText,
    ReadVideo,
    Rebalance,
    RowFormat,
    RunSpec,
    SerializeExamples,
    StageBatches,
    TableEncoder,
    TableOptions,
    TextEncoder,
    TextOptions,
    TokenizeText,
    WriteToTFRecord,
)
from tests.all_kinds import KINDS
from tests.folders import make_folder
from tests.image_runs import Made, encoders_kept
from tests.paths import DEMO

pytestmark = pytest.mark.usefixtures("encoders_of_runs")


@pytest.fixture(scope="module")
def encoders_of_runs():
    with encoders_kept():
        yield


def of_values(
    output: pathlib.Path,
    *steps: Any,
    seed: int = 7,
    assign: AssignSplits | None = None,
    **options: Any,
) -> Made:
    """The dataset of steps that begin with reading."""

    def build(pipeline: beam.Pipeline) -> None:
        records = pipeline | steps[0] | (assign or AssignSplits(seed=seed))
        for step in steps[1:]:
            records |= step
        records | WriteToTFRecord(str(output), **options)

    direct.run(build, workers=2)
    assert verify(Location.parse(str(output))).ok
    return Made(output)


def of_command(output: pathlib.Path, *argv: object) -> Made:
    argv = (*argv, "--output", output, "--seed", 7, "--quiet", "--workers", 2)
    assert main([*map(str, argv)]) == 0
    return Made(output)


def assert_same(ours: Made, theirs: Made) -> None:
    """The same records, splits, labels, copies, features and bytes."""
    found, expected = ours.manifest, theirs.manifest
    for name in expected.splits:
        assert ours.index(name) == theirs.index(name)
        assert found.splits[name].classes == expected.splits[name].classes
    assert found.features == expected.features
    assert ours.rejects == theirs.rejects
    assert found.digest == expected.digest
    assert found.ledger.inputs == expected.ledger.inputs
    assert found.ledger.records == expected.ledger.records
    assert found.ledger.filtered == expected.ledger.filtered
    # Only the submitter of a command knows where splits come from, and what a column is named for.
    ours_too = [note for note in expected.notes if note.code not in ("fractions", "leak")]
    assert [note for note in found.notes if note.code != "leak"] == ours_too


@dataclasses.dataclass(frozen=True)
class Case:
    """argv: of the command, given a folder for data; its --input comes first. steps: of it."""

    argv: Callable[[pathlib.Path], list[object]]
    steps: Callable[[str], list[Any]]


ZSCORES = TableOptions(zscore=("heat",), zscore_by="series")
PEOPLE = TableOptions(zscore=("height",), one_hot=("name",), impute=(("age", "mean"),))

CASES = {
    "images": Case(
        KINDS["pictures"],
        lambda data: [
            ReadImages(data, options=ImageOptions(size=(32, 32))),
            Rebalance("oversample"),
        ],
    ),
    "text": Case(
        KINDS["text"],
        lambda data: [
            ReadText(data, format=RowFormat(format="tsv")),
            TokenizeText("words", features=("text", "tokens", "tfidf")),
        ],
    ),
    "table": Case(
        KINDS["table"],
        lambda data: [
            ReadTable(data, label_column="team"),
            EncodeExamples(TableEncoder(options=PEOPLE)),
        ],
    ),
    "table-with-gaps": Case(
        KINDS["table-with-gaps"], lambda data: [ReadTable(data, label_column="team")]
    ),
    "series": Case(
        KINDS["windows"],
        lambda data: [
            ReadSeries(
                data,
                time_column="time",
                label_column="air",
                window=12,
                stride=4,
                split_by="time",
                horizon=3,
                target=("heat", "humidity"),
            ),
            EncodeExamples(TableEncoder(options=ZSCORES)),
        ],
    ),
    "arrays": Case(KINDS["arrays"], lambda data: [ReadArrays(data)]),
    "arrays-in-chunks": Case(
        KINDS["arrays-in-chunks"],
        lambda data: [ReadArrays(data, chunk=2, chunk_axis=1, options=ArrayOptions(nan="zero"))],
    ),
    "items": Case(
        KINDS["items"],
        lambda data: [ReadArrays(data, array="x", label_array="y", per_item=True)],
    ),
    "video": Case(
        KINDS["clips"],
        lambda data: [
            ReadVideo(data, options=ImageOptions(size=(32, 32)), clip_frames=4, clip_stride=3),
            Rebalance("oversample"),
        ],
    ),
    "audio": Case(
        KINDS["waveforms-of-any-length"],
        lambda data: [
            ReadAudio(data, options=AudioOptions(sample_rate=8000, dtype="int16")),
            EncodeExamples(rename={"audio/shape": "s"}),
        ],
    ),
    "audio-clips": Case(
        KINDS["audio-clips"],
        lambda data: [
            ReadAudio(
                data,
                options=AudioOptions(sample_rate=8000, mono=True, clip=100_000, clip_mode="split"),
            ),
            Rebalance("oversample"),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_data_type_is_written_as_by_its_command(name, tmp_path):
    case = CASES[name]
    argv = case.argv(tmp_path)
    data = str(argv[argv.index("--input") + 1])
    theirs = of_command(tmp_path / "command", *argv)
    shards = {"train": 3} if "train=3" in argv else None
    ours = of_values(tmp_path / "values", *case.steps(data), num_shards=shards)
    assert_same(ours, theirs)


def people(path: pathlib.Path, count: int = 80) -> pathlib.Path:
    """A table with keys, groups, weights, prices and a class; every tenth row has no class."""
    rows = ["id,visit,owner,price,weight,kind"]
    for number in range(count):
        kind = "" if number % 10 == 0 else ("cat", "dog")[number % 3 == 0]
        rows.append(f"r{number},{number % 5},o{number % 12},{number / 8:g},{1 + number % 2},{kind}")
    path.write_text("\n".join(rows) + "\n")
    return path


LENIENT = {"max_reject_fraction": 0.5}
COLUMNS = {
    "keys, groups and weights": (
        ("--key-column", "id", "--group-column", "owner", "--weight-column", "weight"),
        {"key_column": "id", "group_column": "owner", "weight_column": "weight"},
    ),
    "numbers to predict": (
        ("--label-column", "price", "--label-type", "float"),
        {"label_column": "price", "label_type": "float"},
    ),
    "rows without a class": (
        ("--label-column", "kind", "--unlabelled", "keep"),
        {"label_column": "kind", "unlabelled": "keep"},
    ),
    "some of the rows": (
        ("--where", "price >= 2 and owner != 'o3'", "--drop-columns", "owner"),
        {"where": "price >= 2 and owner != 'o3'", "drop_columns": ("owner",)},
    ),
    "rejected rows": (
        ("--label-column", "kind", "--types", "price=int", "--drop-columns", "owner"),
        {"label_column": "kind", "types": {"price": "int"}, "drop_columns": ("owner",)},
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_roles_of_options(name, tmp_path):
    argv, options = COLUMNS[name]
    data = people(tmp_path / "people.csv")
    more = () if "--label-column" in argv else ("--label-column", "kind", "--unlabelled", "keep")
    if more:
        options = {**options, "label_column": "kind", "unlabelled": "keep"}
    argv = ("table", "--input", data, *argv, *more, "--max-reject-fraction", 0.9)
    theirs = of_command(tmp_path / "command", *argv)
    ours = of_values(tmp_path / "values", ReadTable(data, **options), max_reject_fraction=0.9)
    assert_same(ours, theirs)
    assert bool(theirs.rejects) == (name == "rejected rows")


@pytest.mark.long
def test_a_rejected_row_does_not_disturb_what_is_learned(tmp_path):
    data = people(tmp_path / "people.csv")  # every tenth row has no class
    argv = ("table", "--input", data, "--label-column", "kind")
    argv += ("--zscore", "price", "--bucketize", "weight=2", "--one-hot", "owner")
    theirs = of_command(tmp_path / "command", *argv, "--max-reject-fraction", 0.5)
    learned = TableOptions(zscore=("price",), bucketize=(("weight", 2),), one_hot=("owner",))
    encode = EncodeExamples(TableEncoder(options=learned))
    read = ReadTable(str(data), label_column="kind")
    ours = of_values(tmp_path / "values", read, encode, **LENIENT)
    assert_same(ours, theirs)
    assert len(ours.rejects) == 8


@pytest.mark.long
def test_a_rejected_sample_does_not_disturb_windows(tmp_path):
    data = tmp_path / "series.csv"
    rows = [f"2024-01-01T{at // 60:02d}:{at % 60:02d}:00,{at % 9}" for at in range(600)]
    data.write_text("\n".join(["t,x", *rows, ",", ",1"]) + "\n")
    argv = ("sensor", "--input", data, "--time-column", "t", "--window", 10, "--split-by", "time")
    theirs = of_command(tmp_path / "command", *argv, "--max-reject-fraction", 0.5)
    read = ReadSeries(str(data), time_column="t", window=10, split_by="time")
    ours = of_values(tmp_path / "values", read, **LENIENT)
    assert_same(ours, theirs)
    assert ours.rejects


@pytest.mark.long
def test_numbers_beyond_float32_are_rejected_before_statistics_are_learned(tmp_path):
    data = tmp_path / "numbers.csv"
    data.write_text("x\n" + "".join(f"{number}\n" for number in range(50)) + "1e300\n")
    argv = ("table", "--input", data, "--zscore", "x", "--max-reject-fraction", 0.5)
    theirs = of_command(tmp_path / "command", *argv)
    encode = EncodeExamples(TableEncoder(options=TableOptions(zscore=("x",))))
    ours = of_values(tmp_path / "values", ReadTable(str(data)), encode, **LENIENT)
    assert_same(ours, theirs)
    assert len(ours.rejects) == 1


def test_statistics_of_dicts_are_learned_from_train(tmp_path):
    rows = [{"x": float(number)} for number in range(100)]
    encode = EncodeExamples(TableEncoder(options=TableOptions(zscore=("x",))))
    made = of_values(tmp_path / "out", beam.Create(rows), encode)
    scaled = np.array([one["x"][0] for one in made.examples("train").values()])
    assert (scaled.mean(), scaled.std()) == pytest.approx((0, 1), abs=1e-5)


def test_nan_is_a_missing_value(tmp_path):
    values = [float(number) if number % 7 else math.nan for number in range(60)]
    rows = [{"id": number, "x": value} for number, value in enumerate(values)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    theirs = of_command(tmp_path / "command", "table", "--input", tmp_path / "rows.parquet")
    ours = of_values(tmp_path / "values", beam.Create(rows))
    assert ours.manifest.digest == theirs.manifest.digest
    empty = [one for one in ours.examples().values() if not one.get("x")]
    assert empty


def test_equal_texts_are_stratified_as_by_the_command(tmp_path):
    data = tmp_path / "texts.csv"
    texts = [f"number {number * 7 % 40},{'ab'[number % 3 == 0]}" for number in range(200)]
    data.write_text("\n".join(["text,label", *texts]) + "\n")
    theirs = of_command(tmp_path / "command", "text", "--input", data, "--stratify")
    read, assign = ReadText(str(data)), AssignSplits(seed=7, stratify=True)
    ours = of_values(tmp_path / "values", read, assign=assign)
    assert_same(ours, theirs)


def texts(folder: pathlib.Path) -> pathlib.Path:
    for number in range(40):
        path = folder / ("ham", "spam")[number % 4 == 0] / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"message {number} of {number % 7}\nwith a second line\n")
    return folder


@pytest.mark.parametrize("documents", ["file", "line"])
def test_text_files_in_folders_are_texts(documents, tmp_path):
    data = texts(tmp_path / "texts")
    argv = ("text", "--input", data, "--documents", documents, "--tokenizer", "whitespace")
    theirs = of_command(tmp_path / "command", *argv, "--max-length", 4)
    ours = of_values(
        tmp_path / "values",
        ReadText(str(data), documents=documents),
        TokenizeText("whitespace", max_length=4),
    )
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("column", "options", "flags"),
    [
        ("file", {}, ()),
        ("doc", {"path_column": "doc"}, ("--path-column", "doc")),
        ("id", {"path_template": "{id}"}, ("--path-template", "{id}")),
    ],
)
def test_listed_text_files_are_texts(column, options, flags, tmp_path):
    data = texts(tmp_path / "texts")
    names = sorted(str(path.relative_to(data)) for path in data.rglob("*.txt"))
    listing = tmp_path / "list.csv"
    rows = (f"{name},{'ab'[number % 2]}" for number, name in enumerate(names))
    listing.write_text("\n".join([f"{column},label", *rows, ""]))
    argv = ("text", "--input", listing, "--input-root", data, *flags, "--tokenizer", "words")
    theirs = of_command(tmp_path / "command", *argv)
    ours = of_values(
        tmp_path / "values",
        ReadText(str(listing), input_root=str(data), **options),
        TokenizeText("words"),
    )
    assert_same(ours, theirs)
    with pytest.raises(ConfigError, match="expected columns of texts or of paths, got both"):
        ReadText(str(listing), input_root=str(data), text_column="label").source_of_paths()


@pytest.mark.long
def test_a_vocabulary_of_an_earlier_dataset_is_not_learned_again(tmp_path):
    data = texts(tmp_path / "texts")
    first = of_values(tmp_path / "first", ReadText(str(data)), TokenizeText("words"))
    vocabulary = tmp_path / "first" / "vocabulary" / "tokens.txt"
    again = of_values(
        tmp_path / "again",
        ReadText(str(data)),
        TokenizeText("words", vocabulary=str(vocabulary)),
    )
    assert again.manifest.digest == first.manifest.digest
    few = tmp_path / "few.txt"
    few.write_text("message\n")
    other = of_values(
        tmp_path / "other", ReadText(str(data)), TokenizeText("words", vocabulary=str(few))
    )
    ids = {one for example in other.examples().values() for one in example["tokens"]}
    assert ids == {1, 2}


def test_texts_of_dicts_are_tokenized(tmp_path):
    rows = [{"review": f"good number {number % 9}", "stars": number % 5} for number in range(60)]
    made = of_values(tmp_path / "out", beam.Create(rows), TokenizeText(text_column="review"))
    assert set(made.manifest.features) == {"stars", "tokens"}
    assert (tmp_path / "out" / "vocabulary" / "tokens.txt").exists()


def image_table(folder: pathlib.Path) -> pathlib.Path:
    """A Parquet file that holds images."""
    photos = make_folder(folder / "photos", {"cat": 12, "dog": 8})
    paths = sorted(photos.rglob("*.jpg"))
    rows = {
        "image": [
            path.read_bytes() if number else b"no image" for number, path in enumerate(paths)
        ],
        "label": [path.parent.name for path in paths],
    }
    pq.write_table(pa.table(rows), folder / "images.parquet")
    return folder / "images.parquet"


def test_images_in_tables_are_staged_for_the_encoder(tmp_path):
    argv = ("images", "--input", image_table(tmp_path), "--size", 16, "--balance", "undersample")
    theirs = of_command(tmp_path / "command", *argv, "--max-reject-fraction", 0.5)
    read = ReadImages(str(argv[2]), options=ImageOptions(size=(16, 16)))
    ours = of_values(tmp_path / "values", read, Rebalance("undersample"), **LENIENT)
    assert_same(ours, theirs)
    assert len(ours.rejects) == 1


def test_images_in_tables_are_decoded(tmp_path):
    data = image_table(tmp_path)
    argv = ("images", "--input", data, "--size", 16, "--max-reject-fraction", 0.5)
    theirs = of_command(tmp_path / "command", *argv)
    decode = DecodeAndResizeImages(size=16, labels=("cat", "dog"))
    ours = of_values(tmp_path / "values", ReadImages(data), decode, EncodeExamples(), **LENIENT)
    for split in theirs.manifest.splits:
        assert ours.keys(split) == theirs.keys(split)
        for key, example in theirs.examples(split).items():
            assert ours.examples(split)[key]["image/encoded"] == example["image/encoded"]


def only_cats(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.equal(rows["__label__"], "cat"))


def test_rows_that_refer_to_bytes_may_be_filtered(tmp_path):
    data = image_table(tmp_path)

    def build(pipeline: beam.Pipeline) -> None:
        images = pipeline | ReadImages(str(data), options=ImageOptions(size=(16, 16)))
        cats = images.with_batches(images.batches | beam.Map(only_cats))
        cats | WriteToTFRecord(str(tmp_path / "out"), max_reject_fraction=0.5)

    direct.run(build, workers=2)
    classes = collections.Counter()
    for split in Made(tmp_path / "out").manifest.splits.values():
        classes.update(split.classes)
    assert classes == {"cat": 11}


def test_a_listing_names_files_and_their_classes(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 12, "dog": 8})
    lines = ["file,species"]
    paths = sorted(photos.rglob("*.jpg"))
    lines += [f"{path.relative_to(photos)},{path.parent.name}" for path in paths]
    lines.append("cat/gone.jpg,cat")
    listing = tmp_path / "images.csv"
    listing.write_text("\n".join(lines) + "\n")
    argv = ("images", "--input", listing, "--input-root", photos, "--label-column", "species")
    theirs = of_command(tmp_path / "command", *argv, "--size", 16, "--max-reject-fraction", 0.5)
    options = ImageOptions(size=(16, 16))
    by_options = ReadImages(
        str(listing), input_root=str(photos), label_column="species", options=options
    )
    source = FileList(path=str(listing), input_root=str(photos), label_column="species")
    for number, read in enumerate((by_options, ReadImages(source, options=options))):
        assert_same(of_values(tmp_path / f"values{number}", read, **LENIENT), theirs)


def test_nothing_is_listed_while_the_graph_is_built(tmp_path):
    pipeline = beam.Pipeline()
    for number, step in enumerate((ReadText, ReadTable, ReadImages, ReadArrays, ReadVideo)):
        records = pipeline | f"Read{number}" >> step(str(tmp_path / "missing"))
        records | f"Write{number}" >> WriteToTFRecord(str(tmp_path / f"out{number}"))
    assert list(tmp_path.iterdir()) == []


MISTAKES = {
    "no path": (lambda: ReadText(3), "ReadText: input: expected a string or a path or a list"),
    "no paths": (
        lambda: ReadText(()),
        "ReadText: input: expected a path, several paths or a source",
    ),
    "empty path": (lambda: ReadTable(""), "ReadTable: input: expected a path"),
    "no times": (lambda: ReadSeries("a.csv", window=3), "ReadSeries: expected time_column"),
    "no duration": (
        lambda: ReadSeries("a.csv", time_column="t", window=3, step="soon"),
        "ReadSeries: step: expected a duration",
    ),
    "number without column": (
        lambda: ReadTable("a.csv", label_type="float"),
        "ReadTable: label_type='float' needs label_column",
    ),
    "unknown type": (
        lambda: ReadTable("a.csv", types={"x": "number"}),
        "types: expected one of int",
    ),
    "two texts": (
        lambda: ReadText("a.csv", text_column="a", text_columns=("b", "c")),
        "expected only one of text_column and text_columns",
    ),
    "items and chunks": (
        lambda: ReadArrays("a/", per_item=True, chunk=3),
        "expected only one of per_item and chunk",
    ),
    "options of a source": (
        lambda: ReadImages(FileList(path=str(DEMO.parent / "x.csv")), label_column="kind"),
        "ReadImages: label_column: a source has this option itself",
    ),
    "tokenizer": (lambda: TokenizeText("word"), "tokenizer: expected one of words, "),
    "tokenizer file": (lambda: TokenizeText("./no/tokenizer.json"), "TokenizeText: tokenizer: "),
    "vocabulary": (
        lambda: TokenizeText("bytes", vocabulary="tokens.txt"),
        "vocabulary: expected the tokenizer words, whitespace or chars",
    ),
    "clips": (lambda: ReadVideo("a/", clip_frames=0), "expected 1 or more, got 0"),
}


LOST = {
    "tokens": (
        lambda: [ReadText("a.csv"), TokenizeText(), SerializeExamples()],
        "TextEncoder makes",
    ),
    "images": (
        lambda: [ReadImages("a/"), SerializeExamples()],
        "ImageEncoder makes other features",
    ),
    "scaling": (
        lambda: [
            ReadTable("a.csv"),
            EncodeExamples(TableEncoder(options=PEOPLE)),
            SerializeExamples(),
        ],
        "TableEncoder makes other features",
    ),
    "balance": (
        lambda: [ReadTable("a.csv"), Rebalance("oversample"), SerializeExamples()],
        "SerializeExamples: Rebalance has no effect before it",
    ),
    "balance of staged batches": (
        lambda: [ReadTable("a.csv"), Rebalance("oversample"), StageBatches(RunSpec(output="out"))],
        "StageBatches: Rebalance has no effect before it",
    ),
    "windows": (
        lambda: [ReadSeries("a.csv", time_column="t", window=3), SerializeExamples()],
        "ReadSeries has no effect before it",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_options_that_would_be_lost_are_errors(name):
    make, message = LOST[name]
    *before, last = make()
    records = beam.Pipeline()
    for step in before:
        records |= step
    with pytest.raises(ConfigError, match=message):
        records | last


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_errors_of_the_step(name):
    make, message = MISTAKES[name]
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.long
def test_a_text_encoder_with_all_options_learns_its_vocabulary(tmp_path):
    data = texts(tmp_path / "texts")
    options = TextOptions(tokenizer="words", features=("bow",), ngrams=2, min_chars=25)
    argv = ("text", "--input", data, "--tokenizer", "words", "--features", "bow", "--ngrams", 2)
    theirs = of_command(tmp_path / "command", *argv, "--min-chars", 25)
    ours = of_values(
        tmp_path / "values", ReadText(str(data)), EncodeExamples(TextEncoder(options=options))
    )
    assert ours.manifest.digest == theirs.manifest.digest


SPLIT_CLIPS = AudioOptions(sample_rate=8000, mono=True, clip=100_000, clip_mode="split")


def recordings(place: pathlib.Path, *, bad: int) -> str:
    """A folder of recordings of speech, each of many clips, and of files that are none."""
    argv = KINDS["audio-clips"](place)
    folder = pathlib.Path(argv[argv.index("--input") + 1])
    for number in range(bad):
        (folder / f"bad{number}.wav").write_bytes(b"no sound")
    return str(folder)


@pytest.mark.long
def test_rejected_inputs_are_compared_with_inputs_not_with_their_clips(tmp_path):
    data = recordings(tmp_path, bad=4)
    count = sum(path.is_file() for path in pathlib.Path(data).rglob("*.*"))
    with pytest.raises(RunError, match=f"4 of {count} inputs were rejected"):
        of_values(
            tmp_path / "strict", ReadAudio(data, options=SPLIT_CLIPS), max_reject_fraction=0.1
        )
    made = of_values(tmp_path / "lenient", ReadAudio(data, options=SPLIT_CLIPS), **LENIENT)
    inputs = made.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected) == (count - 4, 4)
    assert made.manifest.ledger.records.made > 2 * count


@pytest.mark.parametrize("copies", [0, 1, 3])
def test_inputs_count_once_if_a_transform_leaves_out_or_adds_clips(copies, tmp_path):
    data = recordings(tmp_path, bad=1)
    count = sum(path.is_file() for path in pathlib.Path(data).rglob("*.*")) - 1

    def change(rows: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the first clip of a batch, or repeat all with other keys."""
        if not copies:
            return rows.slice(0, 1)
        at = np.repeat(np.arange(len(rows)), copies)
        keys = [f"{rows['__key__'][row]}-{number}" for number, row in enumerate(at.tolist())]
        place = rows.schema.get_field_index("__key__")
        return rows.take(pa.array(at)).set_column(place, "__key__", pa.array(keys))

    def build(pipeline: beam.Pipeline) -> None:
        clips = pipeline | ReadAudio(data, options=SPLIT_CLIPS)
        clips = clips.with_batches(clips.batches | beam.Map(change))
        clips | WriteToTFRecord(str(tmp_path / "out"), max_reject_fraction=0.2)

    direct.run(build, workers=2)
    ledger = Made(tmp_path / "out").manifest.ledger
    assert ledger.inputs.rejected == 1
    if copies < 2:
        assert ledger.inputs.read == count
    else:
        assert count < ledger.inputs.read < ledger.records.made


LOST_CLASSES = {"at listing": b"", "by content": b"no image"}


@pytest.mark.parametrize("name", LOST_CLASSES)
@pytest.mark.parametrize("decoded", [False, True])
def test_a_class_whose_files_are_all_rejected_is_noted(name, decoded, tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 12, "dog": 8})
    for number in range(2):
        lost = photos / "lost" / f"{number}.jpg"
        lost.parent.mkdir(exist_ok=True)
        lost.write_bytes(LOST_CLASSES[name])
    argv = ("images", "--input", photos, "--size", 16, "--max-reject-fraction", 0.5)
    theirs = of_command(tmp_path / "command", *argv)
    options = ImageOptions(size=(16, 16))

    def steps() -> list[Any]:
        decode = [DecodeAndResizeImages(options)] if decoded else []
        return [ReadImages(str(photos), options=options), *decode]

    ours = of_values(tmp_path / "values", *steps(), **LENIENT)
    found, expected = (
        [note for note in made.manifest.notes if note.code == "empty-class"]
        for made in (ours, theirs)
    )
    assert any("'lost'" in note for note in found)
    if name == "at listing" or not decoded:  # the command decodes when it writes
        assert found == expected
    with pytest.raises(RunError, match="'lost'"):
        of_values(tmp_path / "failing", *steps(), fail_on=("empty-class",), **LENIENT)


@pytest.mark.long
def test_a_class_whose_recordings_are_all_rejected_is_noted(tmp_path):
    data = pathlib.Path(recordings(tmp_path, bad=0))
    (data / "lost").mkdir()
    (data / "lost" / "a.wav").write_bytes(b"no sound")
    made = of_values(tmp_path / "out", ReadAudio(str(data), options=SPLIT_CLIPS), **LENIENT)
    assert any("no record is left of 'lost' (1)" in note for note in made.manifest.notes)
