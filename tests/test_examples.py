"""The examples that train learn what labels say; `tests/soak/examples.py` trains for all epochs.

Accuracies are those of the test split, where all classes count the same: who gives the same answer
to all has about 1/2 of two classes, and 1/4 of four.
"""

import ast
import contextlib
import csv
import dataclasses
import datetime
import functools
import io
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest
import tensorflow as tf

from recordmill.format.manifest import load
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.paths import AIR, ROOT, SMALL_CLOTHING, SMS

SENSORS = {
    "benzene": "C6H6(GT)",
    "co": "PT08.S1(CO)",
    "nox": "PT08.S3(NOx)",
    "no2": "PT08.S4(NO2)",
    "ozone": "PT08.S5(O3)",
    "heat": "T",
    "humidity": "RH",
}
Order = Callable[[list[str]], list[str]]  # of labels, by which they are given to records


def as_they_are(labels: list[str]) -> list[str]:
    return labels


def lay_photos(folder: pathlib.Path, order: Order, *, every: int = 1) -> None:
    """Four classes: 121, 234, 99 and 398 photos, or a part of each."""
    photos = sorted(SMALL_CLOTHING.glob("*/*.jpg"))[::every]
    for photo, label in zip(photos, order([photo.parent.name for photo in photos]), strict=True):
        (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
        (folder / "photos" / label / photo.name).symlink_to(photo)


def lay_texts(folder: pathlib.Path, order: Order) -> None:
    lines = SMS.read_text("utf-8").splitlines()[1:]
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    rows = zip(order([*labels]), texts, strict=True)
    table = ["label\ttext", *("\t".join(row) for row in rows)]
    (folder / "messages.tsv").write_text("\n".join(table), "utf-8")


def lay_windows(folder: pathlib.Path, order: Order) -> None:
    """Hours in which the sensors were out are left out, and so are those six hours after one."""
    hours: dict[datetime.datetime, list[float]] = {}
    with AIR.open(newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            values = [float((row[name] or "-200").replace(",", ".")) for name in SENSORS.values()]
            if -200 not in values:
                when = f"{row['Date']} {row['Time']}"
                hours[datetime.datetime.strptime(when, "%d/%m/%Y %H.%M.%S")] = values
    six = datetime.timedelta(hours=6)
    known = [when for when in hours if when - six in hours]
    trends = ["up" if hours[when][0] > hours[when - six][0] else "down" for when in known]
    labels = dict(zip(known, order(trends), strict=True))
    with (folder / "air.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["time", "trend", *SENSORS])
        for when, values in hours.items():
            table.writerow([when.isoformat(), labels.get(when, ""), *values])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A script that trains.

    lay: writes the data that the commands of its docstring begin with.
    epochs: after which it reaches the accuracy `soon` already. least: the accuracy after all
      epochs. most: the accuracy that it stays below with shuffled labels. All leave room for other
      seeds.
    """

    name: str
    lay: Callable[[pathlib.Path, Order], None]
    epochs: int
    soon: float
    least: float
    most: float

    @property
    def script(self) -> pathlib.Path:
        return ROOT / "examples" / f"{self.name}.py"

    @property
    def commands(self) -> tuple[list[str], list[str]]:
        """What makes the dataset, and what trains."""
        docstring = ast.get_docstring(ast.parse(self.script.read_text())) or ""
        lines = docstring.replace("\\\n", " ").splitlines()
        make, train = (shlex.split(line) for line in lines if line.startswith("    "))
        return make, train

    def make(self, folder: pathlib.Path, order: Order) -> None:
        """The dataset, from a folder that had nothing but the data."""
        self.lay(folder, order)
        program, *words = self.commands[0]
        assert program == "recordmill"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert main([*words, "--quiet"]) == 0

    def command(self, *more: str) -> list[str]:
        """That trains, with other options behind its own."""
        program, script, *words = self.commands[1]
        assert (program, script) == ("python", f"examples/{self.name}.py")
        return [sys.executable, str(self.script), *words, *more]

    def train(self, folder: pathlib.Path, *more: str) -> list[str]:
        """The lines it prints; it runs in this process, which has imported TensorFlow already."""
        tf.keras.backend.clear_session()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(io.StringIO()) as out,
        ):
            patch.chdir(folder)
            patch.setattr(sys, "argv", self.command(*more)[1:])
            runpy.run_path(str(self.script), run_name="__main__")
        return out.getvalue().splitlines()


ENVIRONMENT = os.environ | {"TF_DETERMINISTIC_OPS": "1", "PYTHONUNBUFFERED": "1"}
BY_HAND = Example(
    name="train_images_by_hand", lay=lay_photos, epochs=4, soon=0.55, least=0.7, most=0.4
)
EXAMPLES = [
    Example(name="train_images", lay=lay_photos, epochs=4, soon=0.55, least=0.7, most=0.4),
    BY_HAND,
    Example(name="train_text", lay=lay_texts, epochs=2, soon=0.9, least=0.9, most=0.6),
    Example(name="train_sensor", lay=lay_windows, epochs=2, soon=0.75, least=0.75, most=0.6),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_short(example):
    assert len(example.script.read_text().splitlines()) < 60


def test_every_example_that_trains_is_run():
    assert {path.stem for path in (ROOT / "examples").glob("train_*.py")} == {
        example.name for example in EXAMPLES
    }


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_true_labels_are_learned(example, tmp_path):
    example.make(tmp_path, as_they_are)
    assert shares_of_one_answer(dataset_of(example, tmp_path)) < example.most
    assert accuracy(example.train(tmp_path, "--epochs", str(example.epochs))) >= example.soon


@pytest.mark.long
def test_the_loop_by_hand_goes_on_where_it_was_killed(tmp_path):
    example = dataclasses.replace(BY_HAND, lay=functools.partial(lay_photos, every=4))
    example.make(tmp_path, as_they_are)
    whole = measures(BY_HAND.train(tmp_path, "--epochs", "2", "--checkpoints", "whole"))
    killed = BY_HAND.command("--epochs", "2", "--checkpoints", "killed")
    with subprocess.Popen(
        killed, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as run:
        before = measures([run.stdout.readline()])
        run.kill()
    after = measures(BY_HAND.train(tmp_path, "--epochs", "2", "--checkpoints", "killed"))
    assert before == whole[:1]
    assert 0 < len(after) < len(whole)
    assert after == whole[-len(after) :]


def dataset_of(example: Example, folder: pathlib.Path) -> Location:
    words = example.commands[1]
    return Location.parse(str(folder / words[words.index("--dataset") + 1]))


def shares_of_one_answer(dataset: Location) -> float:
    """The highest accuracy of those who give the same answer to all of the test split."""
    manifest = load(dataset)
    classes = manifest.splits["test"].classes
    totals = [manifest.class_weights[label] * count for label, count in classes.items()]
    return max(totals) / sum(totals)


def accuracy(lines: list[str]) -> float:
    found = re.fullmatch(r"test accuracy (\d\.\d\d)", lines[-1])
    assert found, lines[-1]
    return float(found[1])


def measures(lines: list[str]) -> list[str]:
    """What is measured after each epoch and at the end, without how long it took."""
    return [match[0] for line in lines if (match := re.search(r"(test )?accuracy.*", line))]
