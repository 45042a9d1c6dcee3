"""Files that options name: those of another format, or made to cost time or memory, are errors."""

import json
import os
import pathlib
from collections.abc import Callable

import pytest
from PIL import Image

from recordmill import option_files
from recordmill.errors import ConfigError
from recordmill.option_files import read_option_file
from recordmill.pipelines.cli import main
from recordmill.pipelines.options.common import job_file
from recordmill.pipelines.options.common.labels_file import read_labels
from recordmill.profile import schema_rules


def test_large_files_are_not_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keys.txt"
    with path.open("wb") as file:
        file.truncate(option_files.LARGEST + 1)
    with pytest.raises(ConfigError, match="has 268,435,457 bytes: expected a text file of at most"):
        read_option_file("--exclude-keys", str(path))
    with pytest.raises(ConfigError, match="--config: expected a file of at most 1,048,576 bytes"):
        list(job_file.read(path))


@pytest.mark.parametrize(
    "read",
    [lambda path: read_option_file("--labels-file", path), schema_rules.load],
    ids=["labels", "schema"],
)
def test_what_is_no_file_is_not_waited_for(
    read: Callable[[str], object], tmp_path: pathlib.Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is a pipe, a socket or a device"):
        read(str(tmp_path / "pipe"))
    with pytest.raises(ConfigError, match="a folder is where a file is needed"):
        read(str(tmp_path))


@pytest.mark.parametrize("text", ["feature { struct_domain { " * 20_000, "feature { type: " * 9])
def test_a_schema_that_nests_deeply(text: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "schema.pbtxt"
    path.write_text(text)
    with pytest.raises(ConfigError, match="expected a tensorflow_metadata Schema in text format"):
        schema_rules.load(str(path))


def test_repeated_names_of_many_classes(tmp_path: pathlib.Path) -> None:
    """Each name was counted in all: minutes for 100,000 names."""
    path = tmp_path / "labels.txt"
    names = [f"class {n}" for n in range(200_000)]
    path.write_text("\n".join(names))
    assert read_labels(str(path)) == tuple(names)
    path.write_text("\n".join([*names, "class 7"]))
    with pytest.raises(ConfigError, match="each once; got 'class 7' twice"):
        read_labels(str(path))


@pytest.fixture
def table(tmp_path: pathlib.Path) -> list[str]:
    """A command for a table of 20 rows with the classes okra and bean."""
    rows = "".join(f"k{number},{number},{('okra', 'bean')[number % 2]}\n" for number in range(20))
    (tmp_path / "rows.csv").write_text(f"key,number,label\n{rows}")
    places = ["--input", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "out")]
    return ["table", *places, "--key-column", "key", "--quiet"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 okra\n1 bean\n", "'0 okra', '1 bean'"),
        ("okra,bean\n", "'okra,bean'"),
        ("id,name\n0,okra\n1,bean\n", "'id,name', '0,okra', '1,bean'"),
    ],
)
@pytest.mark.parametrize("most", [0.01, 1])
def test_a_labels_file_without_a_class_of_the_records_is_named(
    most: float,
    text: str,
    first: str,
    table: list[str],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "names.txt").write_text(text)
    argv = ["--labels-file", str(tmp_path / "names.txt"), "--max-reject-fraction", str(most)]
    assert main([*table, *argv]) == 1
    said = capsys.readouterr().err
    assert f"no record has a class of --labels-file, which holds {first}: expected one" in said
    (tmp_path / "names.txt").write_text("okra\n")
    assert main([*table, "--labels-file", str(tmp_path / "names.txt")]) == 1
    assert "no record has a class" not in capsys.readouterr().err


@pytest.mark.parametrize("names", ["[okra, bean]", "\n  0: okra\n  1: bean"])
def test_labels_file_reads_the_names_of_a_data_yaml(
    names: str, table: list[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "data.yaml").write_text(f"path: ../datasets/okra\nnc: 2\nnames: {names}\n")
    assert main([*table, "--labels-file", str(tmp_path / "data.yaml")]) == 0
    assert json.loads((tmp_path / "out/dataset.json").read_text())["labels"] == ["okra", "bean"]


@pytest.mark.parametrize(
    ("option", "name", "text", "problem"),
    [
        ("labels-file", "data.yaml", "path: ../datasets/okra\ntrain: images\n", "KEY: VALUE"),
        ("labels-file", "names.txt", "0: okra\n1: bean\n", "got lines of KEY: VALUE"),
        ("labels-file", "names.json", '{"okra": 0}', "got JSON"),
        ("labels-file", "names.txt", "okra\n\nbean\n", "name 2 of 3 is empty"),
        ("label-map", "map.txt", '{"okra": "a", "bean": "b"}', "expected two columns, old and new"),
        ("label-map", "map.txt", "okra: a, b\nbean: b, c\n", "got lines of KEY: VALUE"),
        ("exclude-keys", "keys.json", '["k1", "k2"]', "expected one key per line, got JSON"),
        ("exclude-keys", "keys.txt", '{"key": "k1"}\n{"key": "k2"}\n', "got JSON"),
    ],
)
def test_files_of_another_format_are_errors_before_any_work(
    option: str,
    name: str,
    text: str,
    problem: str,
    table: list[str],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(text)
    assert main([*table, f"--{option}", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert f"--{option} {tmp_path / name}: " in error
    assert problem in error
    assert not (tmp_path / "out").exists()


def test_label_map_reads_json(table: list[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "map.json").write_text('{"okra": "a", "bean": "b"}')
    assert main([*table, "--label-map", str(tmp_path / "map.json")]) == 0
    assert json.loads((tmp_path / "out/dataset.json").read_text())["labels"] == ["a", "b"]


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("mask-labels", "0: road\n1: sky\n", "got lines of KEY: VALUE"),
        ("mask-labels", "road\n\nsky\n", "name 2 of 3 is empty"),
        ("mask-colours", "256 0 0 road\n0 0 255 sky\n", "levels from 0 to 255, line 1 is '256 0"),
        ("mask-colours", "0.5 0.5 0.5 road\n0 0 255 sky\n", "line 1 is '0.5 0.5"),
    ],
)
def test_names_and_colours_of_masks_lose_no_line(
    option: str, text: str, problem: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
        Image.new("L", (8, 8)).save(tmp_path / folder / "a.png")
    (tmp_path / "classes.txt").write_text(text)
    argv = ["--masks", str(tmp_path / "masks"), f"--{option}", str(tmp_path / "classes.txt")]
    places = ["--input", str(tmp_path / "images"), "--output", str(tmp_path / "out")]
    assert main(["images", *places, *argv]) == 2
    assert problem in capsys.readouterr().err


def test_names_of_yolo_keep_their_numbers(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "images/a.png")
    (tmp_path / "labels/a.txt").write_text("2 0.5 0.5 0.5 0.5\n")
    (tmp_path / "labels/classes.txt").write_text("cat\n\ndog\n")
    places = ["--input", str(tmp_path / "images"), "--output", str(tmp_path / "out")]
    argv = ["images", *places, "--annotations", str(tmp_path / "labels"), "--splits", "train=1"]
    assert main(argv) == 2
    assert "labels/classes.txt: name 2 of 3 is empty" in capsys.readouterr().err
    (tmp_path / "labels/classes.txt").write_text("cat\nhen\ndog\n")
    assert main(argv) == 0
    assert (tmp_path / "out/labels.txt").read_text() == "cat\nhen\ndog\n"
