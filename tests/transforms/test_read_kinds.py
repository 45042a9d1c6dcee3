"""Every data type as records in memory: the dataset is, byte for byte, that of the command."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest

from recordmill.checking.verify import verify
from recordmill.pipelines.cli import main
from recordmill.runners import direct
from recordmill.storage.files import Location
from recordmill.transforms import (
    ArrayOptions,
    AssignSplits,
    AudioOptions,
    EncodeExamples,
    ImageOptions,
    ReadArrays,
    ReadAudio,
    ReadImages,
    ReadSeries,
    ReadTable,
    ReadText,
    ReadVideo,
    Rebalance,
    TableEncoder,
    TableOptions,
    TokenizeText,
    WriteToTFRecord,
)
from tests.all_kinds import KINDS
from tests.image_runs import Made

pytestmark = pytest.mark.usefixtures("encoders_of_runs")


@pytest.fixture(scope="module")
def encoders_of_runs():
    from tests.image_runs import encoders_kept

    with encoders_kept():
        yield


def of_values(output: pathlib.Path, *steps: Any, seed: int = 7, **options: Any) -> Made:
    """The dataset of steps that begin with reading."""

    def build(pipeline: beam.Pipeline) -> None:
        records = pipeline | steps[0] | AssignSplits(seed=seed)
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
    assert found.ledger.records == expected.ledger.records


@dataclasses.dataclass(frozen=True)
class Case:
    """argv: of the command, given a folder for data; its --input comes first. steps: of it."""

    argv: Callable[[pathlib.Path], list[object]]
    steps: Callable[[str], list[Any]]


def words(place: pathlib.Path) -> list[object]:
    return KINDS["text"](place)


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
        words,
        lambda data: [
            ReadText(data, format=tsv()),
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


def tsv() -> Any:
    from recordmill.transforms import RowFormat

    return RowFormat(format="tsv")


@pytest.mark.parametrize("name", CASES)
def test_each_data_type_is_written_as_by_its_command(name, tmp_path):
    case = CASES[name]
    argv = case.argv(tmp_path)
    data = str(argv[argv.index("--input") + 1])
    theirs = of_command(tmp_path / "command", *argv)
    shards = {"train": 3} if "train=3" in argv else None
    ours = of_values(tmp_path / "values", *case.steps(data), num_shards=shards)
    assert_same(ours, theirs)
