"""Commands that read a dataset while a run with --overwrite replaces it."""

import contextlib
import json
import pathlib
import shutil
from collections.abc import Iterator

import pytest

import recordmill
from recordmill.format.replaced_datasets import DatasetReplacedError
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.image_runs import make

pytestmark = pytest.mark.usefixtures("encoders")

REPLACED = "was replaced or removed while it was read"


def write(folder: pathlib.Path, rows: int, *options: object) -> pathlib.Path:
    source = folder / f"{rows}.csv"
    source.write_text("\n".join(["x,label", *(f"{n},{'ab'[n % 2]}" for n in range(rows))]))
    argv = ("--input", source, "--splits", "train=0.5,test=0.5", "--statistics", *options)
    make(folder / "out", *argv, command="table")
    return folder / "out"


@contextlib.contextmanager
def replaced_at_the_first_file(dataset: pathlib.Path) -> Iterator[list[str]]:
    """Replaces the dataset when a file beside dataset.json is first opened; yields its name."""
    opened: list[str] = []
    original = Location.open_input

    def open_input(self: Location):
        inside = str(self).startswith(f"{dataset}/") and self.name != "dataset.json"
        if inside and not opened and ".recordmill" not in str(self):
            opened.append(self.name)
            write(dataset.parent, 90, "--overwrite", "--seed", 7)
        return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Location, "open_input", open_input)
        yield opened
    assert opened, "nothing was opened"


def test_verify_reports_no_damage(tmp_path, capsys):
    out = write(tmp_path, 60)
    capsys.readouterr()
    with replaced_at_the_first_file(out):
        assert main(["verify", "--dataset", str(out), "--json", "--workers", "1"]) == 1
    found, err = capsys.readouterr()
    report = json.loads(found)
    assert (report["ok"], report["replaced"], report["damages"]) == (False, True, [])
    assert REPLACED in err
    assert main(["verify", "--dataset", str(out), "--json", "--deep"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["replaced"]) == (True, False)


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", "--dataset", "OUT", "--deep"],
        ["inspect", "--dataset", "OUT"],
        ["inspect", "--dataset", "OUT", "--record", "3"],
        ["report", "--dataset", "OUT"],
        ["diff", "OUT", "OTHER"],
        ["diff", "OTHER", "OUT"],
        ["inspect", "--dataset", "OTHER", "--compare-with", "OUT"],
    ],
)
def test_every_command_says_that_the_dataset_was_replaced(argv, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    places = {"OUT": write(tmp_path, 60), "OTHER": write(tmp_path / "other", 40)}
    argv = [str(places.get(one, one)) for one in argv]
    with replaced_at_the_first_file(places["OUT"]):
        assert main(argv) == 1
    err = capsys.readouterr().err
    assert REPLACED in err
    assert "damage" not in err
    assert main(argv) == 0


def test_a_reader_stops_at_another_dataset(tmp_path):
    out = write(tmp_path, 60)
    records = recordmill.open(out, "train")
    first = records[0]
    write(tmp_path, 90, "--overwrite", "--seed", 7)
    assert first
    with pytest.raises(DatasetReplacedError, match=REPLACED):
        list(records)
    with pytest.raises(DatasetReplacedError, match=REPLACED):
        list(recordmill.Records.payloads(records))
    assert len(list(recordmill.read(out))) == 90


def test_a_dataset_that_was_removed_and_written_again_alike_was_replaced(tmp_path):
    """Its manifest has the same content, but files were missing in between."""
    out = write(tmp_path, 60)
    before = (out / "dataset.json").read_bytes()
    records = recordmill.open(out)
    shutil.rmtree(out)
    write(tmp_path, 60)
    assert (out / "dataset.json").read_bytes() == before
    with pytest.raises(DatasetReplacedError, match=REPLACED):
        list(records)


def test_damage_is_damage_when_nothing_was_replaced(tmp_path, capsys):
    out = write(tmp_path, 60)
    shard = next(out.glob("train.tfrecord-*"))
    content = bytearray(shard.read_bytes())
    content[40] ^= 1
    shard.write_bytes(content)
    assert main(["verify", "--dataset", str(out), "--quiet"]) == 1
    assert shard.name in capsys.readouterr().out
