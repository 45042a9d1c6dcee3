"""Files that options name, made to cost time or memory: one sentence before any work."""

import os
import pathlib
from collections.abc import Callable

import pytest

from recordmill import option_files
from recordmill.errors import ConfigError
from recordmill.option_files import read_option_file
from recordmill.pipelines.options import job_file
from recordmill.pipelines.options.labels_file import read_labels
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
