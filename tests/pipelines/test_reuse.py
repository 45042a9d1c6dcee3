"""Runs that take records from earlier datasets write what a run from scratch writes."""

import errno
import json
import os
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordmill.format.manifest import RECIPES
from recordmill.format.shard_index import index_bytes
from recordmill.pipelines.cli import main
from recordmill.transforms.checks import prepare_parts
from tests.folders import make_folder, make_picture
from tests.paths import BOXES
from tests.reuse_changes import check_sequence, files_of, reused, run

pytestmark = pytest.mark.usefixtures("encoders")


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
    return make_folder(tmp_path_factory.mktemp("photos") / "in", {"ant": 20, "bee": 10})


@pytest.fixture(scope="module")
def first(photos, tmp_path_factory) -> pathlib.Path:
    """A dataset of them."""
    out = tmp_path_factory.mktemp("first") / "out"
    assert run(out, "--input", photos) == 0
    return out


def test_a_sequence_of_changes(tmp_path):
    assert check_sequence(tmp_path, seed=3, generations=5) > 20


@pytest.mark.parametrize(
    "options",
    [
        ["--num-shards", "4"],
        ["--splits", "train=0.5,other=0.5", "--compression", "gzip"],
        ["--seed", "5", "--balance", "oversample"],
    ],
)
def test_what_shapes_no_record_encodes_none(photos, first, tmp_path, options, monkeypatch):
    argv = ["--input", photos, *options]
    assert run(tmp_path / "whole", *argv) == 0
    assert run(tmp_path / "out", *argv, "--reuse", first) == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    written = json.loads((tmp_path / "out/dataset.json").read_bytes())["splits"].values()
    assert reused(tmp_path / "out") == sum(split["records"] for split in written)


def _changed(folder: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    shutil.copytree(folder, copy)
    return copy


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:500] + bytes([data[500] ^ 4]) + data[501:],
        lambda data: data[: len(data) // 2],
        lambda data: data[16:] + bytes(16),
    ],
)
def test_damaged_frames_are_encoded_again(photos, first, tmp_path, damage):
    old = _changed(first, tmp_path / "old")
    shard = old / "train.tfrecord-00000-of-00001"
    shard.write_bytes(damage(shard.read_bytes()))
    assert run(tmp_path / "out", "--input", photos, "--reuse", old) == 0
    assert files_of(tmp_path / "out") == files_of(first)
    assert 0 < (reused(tmp_path / "out") or 0) < 30


def test_shards_that_vanished_are_encoded_again(photos, first, tmp_path):
    old = _changed(first, tmp_path / "old")
    for shard in old.glob("*.tfrecord-*"):
        shard.unlink()
    assert run(tmp_path / "out", "--input", photos, "--reuse", old) == 0
    assert files_of(tmp_path / "out") == files_of(first)
    assert reused(tmp_path / "out") == 0


def _other_recipes(dataset: pathlib.Path, photos: pathlib.Path) -> None:
    """The recipes of another dataset."""
    assert run(dataset.parent / "other", "--input", photos, "--seed", "9") == 0
    shutil.copy(dataset.parent / "other" / RECIPES, dataset / RECIPES)


def _flipped(name: str) -> Callable[[pathlib.Path, pathlib.Path], None]:
    def flip(dataset: pathlib.Path, _: pathlib.Path) -> None:
        (place,) = dataset.glob(name)
        data = bytearray(place.read_bytes())
        data[100] ^= 1
        place.write_bytes(data)

    return flip


def _cut_off(name: str) -> Callable[[pathlib.Path, pathlib.Path], None]:
    def cut_off(dataset: pathlib.Path, _: pathlib.Path) -> None:
        (place,) = dataset.glob(name)
        place.write_bytes(place.read_bytes()[:-9])

    return cut_off


def _without_contents(dataset: pathlib.Path, _: pathlib.Path) -> None:
    (place,) = dataset.glob("index/train*")
    place.write_bytes(index_bytes(pq.read_table(place).drop_columns(["content"])))


def _without_widths(dataset: pathlib.Path, _: pathlib.Path) -> None:
    """A column that an index need not have gets another name."""
    (place,) = dataset.glob("index/train*")
    place.write_bytes(place.read_bytes().replace(b"width", b"wodth"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_without_contents, "it changed after it was written"),
        (_other_recipes, "recipes.parquet belongs to another dataset"),
        (_flipped(RECIPES), "recipes.parquet is damaged"),
        (_cut_off("index/train*"), "it changed after it was written"),
        (_without_widths, "it changed after it was written"),
        (lambda dataset, _: (dataset / RECIPES).unlink(), "recipes.parquet"),
        (lambda dataset, _: (dataset / "dataset.json").unlink(), "there is no"),
    ],
)
def test_a_dataset_that_cannot_be_used(photos, first, tmp_path, capfd, change, why):
    """The run says why, and writes everything itself."""
    old = _changed(first, tmp_path / "old")
    change(old, photos)
    out = tmp_path / "out"
    argv = ["images", "--workers", "1", "--input", str(photos), "--output", str(out)]
    argv += ["--reuse", str(old)]
    assert main([*argv, "--reuse-required"]) == 2
    assert "--reuse-required: no record can be reused" in capfd.readouterr().err
    assert main(argv) == 0
    said = capfd.readouterr()
    assert "nothing of" in said.err
    assert why in said.err
    assert "reused" not in said.out
    assert files_of(out) == files_of(first)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--size", "8"], "made with other options (--size was not given, is 8)"),
        (["--fingerprint", "content"], "made with --fingerprint stat"),
    ],
)
def test_other_options(photos, first, tmp_path, capfd, options, why):
    argv = ["--input", str(photos), "--output", str(tmp_path / "out"), *options]
    assert main(["images", "--dry-run", *argv, "--reuse", str(first)]) == 0
    assert why in capfd.readouterr().err


def test_an_empty_name_is_an_error(photos, tmp_path, capfd):
    argv = ["images", "--input", str(photos), "--output", str(tmp_path / "out"), "--reuse", ""]
    assert main(argv) == 2
    assert "--reuse: expected a value, got nothing" in capfd.readouterr().err


def test_the_closing_line(photos, first, tmp_path, capfd):
    argv = ["images", "--workers", "1", "--input", str(photos), "--output", str(tmp_path / "out")]
    assert main([*argv, "--seed", "1", "--reuse", str(first)]) == 0
    said = capfd.readouterr()
    assert f"records of {first}" in said.err
    assert "(30 reused, 0 encoded)" in said.out


def test_the_newest_of_a_pattern(photos, first, tmp_path, capfd):
    """The newest usable dataset of a folder of nights is reused."""
    for number, name in enumerate(("monday", "tuesday")):
        night = _changed(first, tmp_path / "sets" / name)
        os.utime(night / "dataset.json", ns=(number, number))
    (tmp_path / "sets/wednesday").mkdir()
    argv = ["--input", str(photos), "--output", str(tmp_path / "out"), "--dry-run", "--reuse"]
    pattern = str(tmp_path / "sets/*")
    assert main(["images", *argv, pattern]) == 0
    assert f"reuse    records of {tmp_path}/sets/tuesday\n" in capfd.readouterr().err
    (tmp_path / "sets/tuesday" / RECIPES).unlink()
    assert main(["images", *argv, pattern]) == 0
    said = capfd.readouterr().err
    assert f"records of {tmp_path}/sets/monday; nothing of {tmp_path}/sets/tuesday" in said
    assert main(["images", *argv, str(tmp_path / "none*")]) == 0
    assert f"nothing of {tmp_path}/none*: there is no dataset" in capfd.readouterr().err


def test_an_unreadable_dataset_of_a_pattern(photos, first, tmp_path, monkeypatch, capfd):
    """Each is named, as one that is given by its name."""
    os_stat = os.stat

    def stat(path, **options):
        if str(path).endswith("sets/closed/dataset.json"):
            raise PermissionError(errno.EACCES, "no", str(path))
        return os_stat(path, **options)

    for name in ("open", "closed"):
        shutil.copytree(first, tmp_path / "sets" / name)
    monkeypatch.setattr(os, "stat", stat)
    argv = ["--input", str(photos), "--output", str(tmp_path / "out"), "--dry-run", "--reuse"]
    assert main(["images", *argv, str(tmp_path / "sets/*")]) == 0
    said = capfd.readouterr().err
    assert f"records of {tmp_path}/sets/open; nothing of {tmp_path}/sets/closed: cannot" in said
    assert "permission denied" in said


def test_overwrite_reuses_unless_told_otherwise(photos, tmp_path):
    out, folder = tmp_path / "out", tmp_path / "in"
    shutil.copytree(photos, folder)
    argv = ["--input", folder, "--overwrite"]
    assert run(out, *argv) == 0
    make_picture(folder / "ant/new.jpg", 77)
    assert run(out, *argv) == 0
    assert reused(out) == 30
    make_picture(folder / "ant/newer.jpg", 78)
    assert run(out, *argv, "--no-reuse") == 0
    assert reused(out) is None


def test_moved_files_are_recognized_by_content(photos, first, tmp_path):
    """By default a file with another path counts as changed."""
    moved = _changed(photos, tmp_path / "moved")
    argv = ["--input", moved, "--num-shards", "2"]
    assert run(tmp_path / "stat", *argv, "--reuse", first) == 0
    assert reused(tmp_path / "stat") == 0
    by_content = ["--fingerprint", "content"]
    assert run(tmp_path / "old", "--input", photos, *by_content) == 0
    assert run(tmp_path / "out", *argv, *by_content, "--reuse", tmp_path / "old") == 0
    assert reused(tmp_path / "out") == 30
    assert run(tmp_path / "whole", *argv, *by_content) == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_the_error_on_changed_input_names_the_changes(photos, tmp_path, capfd):
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(photos, folder)
    argv = ["images", "--quiet", "--input", str(folder), "--output", str(out)]
    assert main(argv) == 0
    for number in range(4):
        make_picture(folder / f"bee/new{number}.jpg", number)
    (folder / "ant/003.jpg").unlink()
    os.utime(folder / "ant/005.jpg", ns=(5, 5))
    assert main(argv) == 2
    said = capfd.readouterr().err
    assert "(4 added, such as bee/new0.jpg, bee/new1.jpg, bee/new2.jpg" in said
    assert "; 1 removed: ant/003.jpg; 1 changed: ant/005.jpg): --overwrite" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "(2 added: bee/new0.jpg, bee/new1.jpg; 1 newly rejected: ant/003.jpg; 2 no longer"
         " rejected: bee/empty.jpg, bee/text.jpg): --overwrite"),
        (["--min-size", "5"], "(at least 2 added; 1 newly rejected: ant/003.jpg; 2 no longer"
         " rejected: bee/empty.jpg, bee/text.jpg): --overwrite"),
    ],
)  # fmt: skip
def test_the_error_on_changed_input_counts_rejected_and_filtered_inputs(
    photos, tmp_path, capfd, options, said
):
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(photos, folder)
    (folder / "bee/empty.jpg").touch()
    (folder / "bee/text.jpg").write_text("no image")
    shutil.copy(folder / "bee/000.jpg", folder / "bee/.hidden.jpg")
    Image.new("RGB", (4, 4)).save(folder / "bee/small.png")
    argv = ["images", "--quiet", "--input", str(folder), "--output", str(out), *options]
    argv += ["--max-reject-fraction", "0.5"]
    assert main(argv) == 0
    for number in range(2):
        make_picture(folder / f"bee/new{number}.jpg", number)
    (folder / "ant/003.jpg").write_bytes(b"")
    make_picture(folder / "bee/empty.jpg", 7)
    (folder / "bee/text.jpg").unlink()
    assert main(argv) == 2
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (
            "in",
            ["--fingerprint", "content"],
            "sizes, times of change, labels or other columns differ",
        ),
        ("list.csv", [], "the same records by name; labels or other columns differ): --overwrite"),
    ],
)
def test_the_error_on_changes_of_no_record(photos, tmp_path, capfd, source, options, said):
    folder, listing = tmp_path / "in", tmp_path / "list.csv"
    shutil.copytree(photos, folder)
    rows = [f"in/ant/{number:03}.jpg,{'ab'[number % 2]}" for number in range(9)]
    listing.write_text("\n".join(["path,label", *rows]) + "\n")
    argv = ["images", "--quiet", "--input", str(tmp_path / source), *options]
    argv += ["--output", str(tmp_path / "out")]
    assert main(argv) == 0
    listing.write_text("\n".join(["path,label", *rows[1:], "in/ant/000.jpg,b"]) + "\n")
    os.utime(folder / "ant/015.jpg", ns=(5, 5))
    assert main(argv) == 2
    assert said in capfd.readouterr().err


def test_verify_checks_the_recipes(first, photos, tmp_path, capfd):
    argv = ["verify", "--dataset"]
    assert main([*argv, str(first)]) == 0
    for number, change in enumerate((_other_recipes, _flipped(RECIPES))):
        old = _changed(first, tmp_path / f"{number}/old")
        change(old, photos)
        assert main([*argv, str(old)]) == 1
        assert f"{RECIPES}: {RECIPES} " in capfd.readouterr().out


def test_images_with_boxes(tmp_path, capfd):
    """Counts of boxes, and the note on dropped ones, come out as if all were encoded."""
    argv = ["images", "--workers", "1", "--input", str(BOXES / "images")]
    argv += ["--annotations", str(BOXES / "annotations.json"), "--size", "32", "--min-box", "3"]
    assert main([*argv, "--output", str(tmp_path / "old")]) == 0
    argv += ["--seed", "2"]
    assert main([*argv, "--output", str(tmp_path / "whole")]) == 0
    out = tmp_path / "out"
    assert main([*argv, "--output", str(out), "--reuse", str(tmp_path / "old")]) == 0
    assert files_of(out) == files_of(tmp_path / "whole")
    manifest = json.loads((out / "dataset.json").read_bytes())
    assert manifest["ledger"]["objects"]["dropped"]
    assert ", 0 encoded)" in capfd.readouterr().out


def test_images_of_16_bits(tmp_path):
    """The note on their reduction names the same records."""
    folder = tmp_path / "in"
    for number in range(12):
        pixels = np.full((9, 9), 300 * (number + 1), np.uint16)
        (folder / f"class-{number % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"class-{number % 2}/{number}.png")
    argv = ["--input", folder, "--mode", "gray"]
    assert run(tmp_path / "old", *argv) == 0
    argv += ["--balance", "oversample", "--seed", "2"]
    assert run(tmp_path / "whole", *argv) == 0
    assert run(tmp_path / "out", *argv, "--reuse", tmp_path / "old") == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert b'"code": "bit-depth"' in (tmp_path / "out/dataset.json").read_bytes()
    assert (reused(tmp_path / "out") or 0) >= 12


@pytest.mark.parametrize("chunk", [[], ["--chunk", "2"]])
def test_arrays(tmp_path, chunk):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(20):
        values = np.arange(6, dtype=np.int16).reshape(3, 2) + number
        np.save(folder / f"{number}.npy", values)
    argv = ["--quiet", "--workers", "1", "--input", str(folder), "--unlabelled", "keep", *chunk]
    assert main(["arrays", *argv, "--output", str(tmp_path / "old")]) == 0
    np.save(folder / "3.npy", np.zeros((3, 2), np.int16))
    argv += ["--seed", "4"]
    assert main(["arrays", *argv, "--output", str(tmp_path / "whole")]) == 0
    out = tmp_path / "out"
    assert main(["arrays", *argv, "--output", str(out), "--reuse", str(tmp_path / "old")]) == 0
    assert files_of(out) == files_of(tmp_path / "whole")
    assert reused(out) == (38 if chunk else 19)


def test_rows_are_encoded_again(tmp_path, capfd):
    """Rows of tables are not reused, and the run says so."""
    table = tmp_path / "rows.csv"
    table.write_text("x,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(40)))
    argv = ["table", "--workers", "1", "--input", str(table)]
    assert main([*argv, "--output", str(tmp_path / "old")]) == 0
    assert main([*argv, "--output", str(tmp_path / "out"), "--reuse", str(tmp_path / "old")]) == 0
    assert "its records are not read from files" in capfd.readouterr().err
    assert main([*argv, "--output", str(tmp_path / "out"), "--fingerprint", "content"]) == 2
    assert "recordmill table reuses no records; leave it out" in capfd.readouterr().err
    assert not (tmp_path / "out" / RECIPES).exists()


def test_headers_of_reused_images_are_not_read(photos, first, tmp_path, monkeypatch):
    """Only those of new files, which may be invalid."""
    folder = tmp_path / "in"
    argv = ["--input", photos, "--balance", "oversample", "--max-reject-fraction", "0.5"]
    checked = []
    check = prepare_parts.row_task

    def noting(*args, rows, **options):
        checked.extend(rows["__key__"].to_pylist())
        return check(*args, rows=rows, **options)

    monkeypatch.setattr(prepare_parts, "row_task", noting)
    assert run(tmp_path / "out", *argv, "--reuse", first) == 0
    assert checked == []
    shutil.copytree(photos, folder)
    argv[1] = folder
    assert run(tmp_path / "old", *argv) == 0
    checked.clear()
    (folder / "bee/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0broken")
    make_picture(folder / "bee/new.jpg", 5)
    assert run(tmp_path / "whole", *argv) == 0
    checked.clear()
    assert run(tmp_path / "new", *argv, "--reuse", tmp_path / "old") == 0
    assert sorted(checked) == ["bee/broken.jpg", "bee/new.jpg"]
    assert files_of(tmp_path / "new") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("options", [["--fingerprint", "content"], ["--dedup", "drop"]])
def test_arrays_whose_content_was_read_before(options, tmp_path) -> None:
    """The first task of a shard takes frames of the sample, the second encodes."""
    np.save(tmp_path / "in.npy", np.arange(1100, dtype=np.float32))
    argv = ("arrays", "--input", tmp_path / "in.npy", "--per-item", "--splits", "train=1")
    for name, some in (("plain", []), ("out", options)):
        assert main([*map(str, argv), "--output", str(tmp_path / name), "--quiet", *some]) == 0
    shard = "train.tfrecord-00000-of-00001"
    assert (tmp_path / "out" / shard).read_bytes() == (tmp_path / "plain" / shard).read_bytes()
    assert reused(tmp_path / "out") is None
