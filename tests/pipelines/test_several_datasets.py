"""Several datasets of recordmill as the input of one command."""

import pathlib

import numpy as np
import pytest
import soundfile

import recordmill
from tests.folders import make_folder
from tests.image_runs import images, make, run

pytestmark = pytest.mark.usefixtures("encoders")

WHOLE = ("--split-from", "none", "--splits", "train=1", "--num-shards", "1")


def arrays(place: pathlib.Path, name: str, *, dtype: str, shape: tuple[int, ...]) -> pathlib.Path:
    (place / f"{name}-in").mkdir()
    for number in range(3):
        np.save(place / f"{name}-in" / f"{name}{number}.npy", np.full(shape, number, dtype))
    argv = ("--input", place / f"{name}-in", "--output", place / name, *WHOLE)
    assert run("arrays", *argv) == 0
    return place / name


@pytest.mark.parametrize(
    ("dtype", "shape", "why"),
    [
        ("<i4", (3, 4), "int32 arrays (3x4) in 'array/encoded'"),
        ("<f4", (2, 6), "float32 arrays (2x6) in 'array/encoded'"),
    ],
)
def test_arrays_of_different_forms(dtype, shape, why, tmp_path, capsys) -> None:
    """The bytes of one would fill the other: the values would be wrong without a reject."""
    one = arrays(tmp_path, "a", dtype="<f4", shape=(3, 4))
    other = arrays(tmp_path, "b", dtype=dtype, shape=shape)
    argv = ("--input", one, "--input", other, "--output", tmp_path / "out", *WHOLE)
    assert run("arrays", *argv) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"holds float32 arrays (3x4) in 'array/encoded', and --input {other} {why}" in said


def test_arrays_of_one_form(tmp_path) -> None:
    one, other = (arrays(tmp_path, name, dtype="<f4", shape=(3, 4)) for name in "ab")
    argv = ("--input", one, "--input", other, "--output", tmp_path / "out", *WHOLE)
    assert run("arrays", *argv) == 0
    values = [record["array/encoded"] for record in recordmill.read(str(tmp_path / "out"), "train")]
    assert sorted(value.mean() for value in values) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("channels", "options"), [(1, ("--mono", "--dtype", "int16")), (2, ())], ids=["dtype", "stereo"]
)
def test_waveforms_of_different_forms(channels, options, tmp_path, capsys) -> None:
    sound = np.sin(np.arange(800) / 9) / 2
    for name, count in (("a", 1), ("b", channels)):
        (tmp_path / f"{name}-in").mkdir()
        samples = np.stack([sound] * count, axis=1)
        soundfile.write(tmp_path / f"{name}-in" / f"{name}.wav", samples, 8000)
    for name, more in (("a", ("--mono",)), ("b", options)):
        argv = ("--input", tmp_path / f"{name}-in", "--output", tmp_path / name, *WHOLE, *more)
        assert run("audio", *argv) == 0
    inputs = ("--input", tmp_path / "a", "--input", tmp_path / "b")
    assert run("audio", *inputs, "--output", tmp_path / "out") == 2
    assert "need the same feature in the same form" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("form", ["raw", "jpeg"])
def test_raw_pixels_beside_others(form, tmp_path, capsys) -> None:
    photos = make_folder(tmp_path / "photos", {"ant": 3})
    options = ("--input", photos, *WHOLE, "--resize-mode", "stretch", "--image-format")
    one = make(tmp_path / "one", *options, "raw", "--size", "8")
    other = make(tmp_path / "other", *options, form, "--size", "4x16")
    argv = ("--input", one.folder, "--input", other.folder, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert "holds uint8 arrays (8x8x3) in 'image/encoded'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["arrays", "table"])
def test_shards_of_several_datasets(command, tmp_path, capsys) -> None:
    """They are no files of other programs, whose features are columns."""
    for name in "ab":
        if command == "arrays":
            arrays(tmp_path, name, dtype="<f4", shape=(3, 4))
        else:
            (tmp_path / f"{name}.csv").write_text("x,y\n1,p\n2,q\n3,p\n")
            assert (
                run("table", "--input", tmp_path / f"{name}.csv", "--output", tmp_path / name) == 0
            )
    given = tmp_path / "[ab]" / "*.tfrecord*"
    assert run(command, "--input", given, "--output", tmp_path / "out") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"give each dataset as its own --input, such as --input {tmp_path}/" in said
