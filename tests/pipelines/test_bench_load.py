"""`recordmill bench-load` measures each loader, and says what limits it."""

import json

import pytest

from recordmill.pipelines.cli import main
from recordmill.pipelines.commands.bench_load_command import Loaded, _plan, advise
from recordmill.reading.loading_speed import LoadingTask, Speed, measure
from tests.numbered_records import numbered_dataset
from tests.reading_page import pictures_dataset


def loaded(name: str, rate: float, workers: int = 0) -> Loaded:
    return Loaded(
        name=name, workers=workers, speed=Speed(records=int(rate * 10), seconds=10.0, first=0.1)
    )


def test_the_slowest_stage_is_the_limit() -> None:
    stages = [loaded("files", 50_000), loaded("read", 30_000), loaded("decode", 1_000)]
    workers = [loaded("torch_dataset", rate, n) for n, rate in ((0, 900), (2, 1900), (4, 1950))]
    assert advise([*stages, *workers], cores=4) == [
        "The limit is decoding: write the dataset in the size that the model needs, or raw"
        " (4,000 records/s on 4 cores).",
        "The fastest loader is recordmill.torch_dataset with num_workers=2: 1,900 records/s.",
    ]
    found = advise([loaded("files", 900), *stages[1:], *workers, loaded("load", 3000)], cores=1)
    assert found[0].startswith("The limit is reading the files: put the dataset on a faster disk")
    assert found[0].endswith("(900 records/s on 1 core).")
    assert found[1:] == [
        "The fastest loader is recordmill.load: 3,000 records/s.",
        "For PyTorch, num_workers=2: 1,900 records/s.",
    ]
    assert advise([Loaded(name="load", workers=0, speed=None, error="x")], cores=1) == []


def test_numbers_of_workers_double() -> None:
    for most, numbers in {1: [0, 1], 2: [0, 1, 2], 6: [0, 1, 2, 4, 6], 8: [0, 1, 2, 4, 8]}.items():
        plan = _plan(most, ["torch_dataset", "load"])
        assert [n for name, n in plan if name == "torch_dataset"] == numbers
        assert plan[-1] == ("load", 0)


@pytest.mark.parametrize("name", ["files", "read", "decode", "grain_source", "load"])
@pytest.mark.parametrize("kind", ["pictures", "numbers"])
def test_each_loader_is_measured(tmp_path, name, kind) -> None:
    size = None
    if kind == "pictures":
        pictures_dataset(tmp_path / "out", records=30)
        size = 6, 5
    else:
        numbered_dataset(tmp_path / "out")
    task = LoadingTask(
        dataset=str(tmp_path / "out"), split="train", batch_size=8, image_size=size, seconds=1e-6
    )
    found = measure(name, 0, task)
    assert found.records >= 1
    assert 0 < found.first <= found.seconds
    assert found.per_second > 0


def test_the_command_prints_a_table(tmp_path, capsys) -> None:
    pictures_dataset(tmp_path / "out", records=30)
    argv = ["bench-load", "--dataset", str(tmp_path / "out"), "--seconds", "0.001"]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    for text in ("records/s", "decoding alone", "grain_source", "The limit is", "fastest loader"):
        assert text in shown
    assert main([*argv, "--image-size", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in found["measured"]} >= {"files", "read", "decode", "load"}
    assert all(one["error"] is None for one in found["measured"])


def test_what_cannot_be_measured(tmp_path, capsys) -> None:
    numbered_dataset(tmp_path / "out")
    for argv, code, message in [
        (["--dataset", tmp_path / "none"], 1, "no dataset"),
        (["--dataset", tmp_path / "out", "--split", "dev"], 2, "--split: expected one of the"),
        (["--dataset", tmp_path / "out", "--split", "validation"], 2, "validation has no records"),
        (["--dataset", tmp_path / "out", "--batch-size", "0"], 2, "--batch-size: expected 1 or"),
        (["--dataset", tmp_path / "out", "--max-workers", "-1"], 2, "--max-workers: expected 0"),
        (["--dataset", tmp_path / "out", "--seconds", "0"], 2, "--seconds: expected a number"),
    ]:
        assert main(["bench-load", *map(str, argv)]) == code
        assert message in capsys.readouterr().err
