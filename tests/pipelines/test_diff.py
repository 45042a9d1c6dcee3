"""`recordmill diff` from end to end."""

import json
import pathlib
import shutil
import wave
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordmill.checking.dataset_diff import Changed
from recordmill.format.shard_index import index_bytes
from recordmill.pipelines.cli import main
from recordmill.pipelines.terminal.differences import _differing_parts
from tests.folders import make_folder
from tests.image_runs import make
from tests.painted_masks import painted, png, write

pytestmark = pytest.mark.usefixtures("encoders")

LINES = [f"k{n},{n},{'ab'[n % 2]}" for n in range(40)]


def table(folder: pathlib.Path, lines: list[str], *argv: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "rows.csv"
    source.write_text("\n".join(["id,x\x1b[31m,class", *lines]) + "\n")
    out = folder / "out"
    make(out, "--input", source, "--key-column", "id", *argv, command="table")
    return str(out)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> str:
    return table(tmp_path_factory.mktemp("before"), LINES)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> str:
    lines = ["k0,0,b", "k1,100,b", *LINES[3:], "k41,41,a", "k42,42,a"]
    return table(tmp_path_factory.mktemp("after"), lines, "--balance", "oversample")


def json_of(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["diff", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_records_and_options_are_compared(
    before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json_of(capsys, before, after)
    records = found["records"]
    counts = {kind: records[kind]["count"] for kind in ("added", "removed", "moved", "changed")}
    assert counts == {"added": 2, "removed": 1, "moved": 0, "changed": 1}
    assert records["relabelled"]["pairs"] == [{"before": "a", "after": "b", "count": 1}]
    assert [one["key"] for one in records["removed"]["examples"]] == ["k2"]
    assert records["compared_by"] == "content"
    assert records["changed"]["examples"][0]["key"] == "k1"
    assert found["options"] == {"balance": {"before": "none", "after": "oversample"}}
    assert found["features"] == found["versions"] == found["labels"] == {}
    assert {one["column"] for one in found["statistics"]["distances"]} >= {"label"}
    assert found["splits"]["train"]["after"] > 0


def test_another_seed_moves_records(
    tmp_path: pathlib.Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = table(tmp_path, LINES, "--seed", "1", "--label-offset", "1")
    found = json_of(capsys, "--before", before, "--after", other)
    assert found["options"]["seed"] == {"before": 0, "after": 1}
    assert found["labels"]["a"] == {"before": 0, "after": 1}
    moved = found["records"]["moved"]
    assert moved["count"] == sum(one["count"] for one in moved["pairs"]) > 0
    assert found["records"]["changed"]["count"] == 0  # a content has no label, as its hash shows
    assert main(["diff", before, other, "--fail-on", "moved", "--quiet"]) == 1
    error = capsys.readouterr().err
    assert error == f"recordmill diff: error: --fail-on: moved {moved['count']}\n"
    assert main(["diff", before, other, "--fail-on", "added,removed", "--quiet"]) == 0


def test_the_tables_name_records_and_hide_control_characters(
    before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", before, after, "--fail-on", "all"]) == 1
    captured = capsys.readouterr()
    for part in ("added", "k2 (rows.csv#3): ", "oversample", "the digests differ", "drift"):
        assert part in captured.out
    assert "\x1b[31m" not in captured.out.replace("\x1b[0m", "")
    assert "added 2, removed 1" in captured.err


def test_a_changed_feature_shows_the_part_that_differs() -> None:
    before = {"dtype": "string", "kind": "image", "raw_dtype": "uint8", "raw_shape": [32, 32, 3]}
    one = Changed(before=before, after={**before, "raw_shape": [16, 16, 3]})
    shown = _differing_parts(one)
    assert shown == ({"raw_shape": [32, 32, 3]}, {"raw_shape": [16, 16, 3]})
    gone = Changed(before={"size": None, **before}, after=before)
    assert _differing_parts(gone) == ({"size": None}, {})
    assert _differing_parts(Changed(before=None, after=before)) == (None, before)


def test_a_dataset_is_equal_to_itself(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, before, before, "--fail-on", "all")
    assert found["records"]["same"] == 40


def test_equal_records_of_different_sources_are_the_same(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dataset of a dataset has the same shards, and other hashes of its sources."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (90 * number, 0, 0)).save(tmp_path / "in" / f"{number}.png")
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    make(pathlib.Path(one), "--input", tmp_path / "in", "--size", "4", "--image-format", "png")
    make(pathlib.Path(two), "--input", one, "--resize-mode", "none", "--image-format", "png")
    found = json_of(capsys, one, two, "--fail-on", "changed")
    assert found["digests"]["before"] == found["digests"]["after"]
    assert found["records"]["same"] == 3


def counts_of(records: dict[str, Any]) -> dict[str, int]:
    """The kinds of differences of records that occur, with their numbers."""
    kinds = ("added", "removed", "moved", "relabelled", "changed", "copies")
    return {kind: records[kind]["count"] for kind in kinds if records[kind]["count"]}


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_dataset_of_a_dataset_has_the_same_records(
    compression: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hashes are those of the resized images; classes have other numbers, images are equal."""
    photos = make_folder(tmp_path / "photos", {"ant": 40, "bee": 8})
    argv = ("--size", 8, "--balance", "oversample", "--label-offset", 1, "--num-shards", "train=2")
    one = make(tmp_path / "one", "--input", photos, *argv)
    argv = ("--label-offset", 0, "--compression", compression)
    two = make(tmp_path / "two", "--input", one.folder, *argv)
    found = json_of(capsys, str(one.folder), str(two.folder))
    assert counts_of(found["records"]).keys() == {"copies"}
    assert found["records"]["same"] + found["records"]["copies"]["count"] == 48
    assert found["labels"] == {
        "ant": {"before": 1, "after": 0},
        "bee": {"before": 2, "after": 1},
    }
    argv = (*argv, "--mode", "gray", "--exclude-labels", "bee")
    gray = make(tmp_path / "gray", "--input", one.folder, *argv)
    found = json_of(capsys, str(one.folder), str(gray.folder))
    assert counts_of(found["records"]) == {"changed": 40, "removed": 8}


def test_one_changed_image_of_a_dataset_of_a_dataset(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = make_folder(tmp_path / "photos", {"ant": 90, "bee": 10})
    one = make(tmp_path / "one", "--input", photos, "--size", 8)
    shutil.copy(photos / "ant/003.jpg", photos / "ant/071.jpg")
    other = make(tmp_path / "other", "--input", photos, "--size", 8)
    two = make(tmp_path / "two", "--input", other.folder)
    records = json_of(capsys, str(one.folder), str(two.folder))["records"]
    assert counts_of(records) == {"changed": 1}
    assert [one["key"] for one in records["changed"]["examples"]] == ["ant/071.jpg"]
    assert records["same"] == 99


def test_an_adopted_dataset_and_one_of_it_have_the_same_records(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adopted dataset has no hashes, and its classes begin at another number."""
    photos = make_folder(tmp_path / "photos", {"ant": 5, "bee": 3})
    one = make(tmp_path / "one", "--input", photos, "--size", 8, "--label-offset", 1)
    adopted = tmp_path / "adopted"
    assert main(["adopt", "--input", str(one.folder), "--output", str(adopted)]) == 0
    two = make(tmp_path / "two", "--input", adopted, "--label-offset", 5)
    capsys.readouterr()
    found = json_of(capsys, str(adopted), str(two.folder))
    assert (counts_of(found["records"]), found["records"]["same"]) == ({}, 8)


def test_a_table_of_a_dataset_has_the_same_records(
    before: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = make(tmp_path / "two", "--input", before, "--label-offset", 3, command="table")
    found = json_of(capsys, before, str(two.folder))
    assert (counts_of(found["records"]), found["records"]["same"]) == ({}, 40)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["{before}"], 2, "BEFORE AFTER; got 1 folder"),
        (["{before}", "{before}", "{before}"], 2, "BEFORE AFTER; got 3"),
        (["{before}", "/nowhere"], 1, "no dataset"),
        (["{before}", "{before}", "--fail-on", "moved,gone"], 2, "gone"),
        (["{before}", "{before}", "--json", "--quiet"], 2, "contradicts --json"),
        (["--before", "{before}"], 2, "--after"),
        (["{before}", "{before}", "--after={before}"], 2, "--after: the two folders are given"),
        (["{before}", "{before}", "--fail-on", ""], 2, "--fail-on: expected a value, got nothing"),
    ],
)
def test_wrong_usage(
    before: str, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, message: str
) -> None:
    assert main(["diff", *(one.format(before=before) for one in argv)]) == code
    assert message in capsys.readouterr().err


def test_a_damaged_index_is_named(
    tmp_path: pathlib.Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = table(tmp_path, LINES[1:])
    (index,) = pathlib.Path(other).glob("index/train-*.parquet")
    index.write_bytes(index.read_bytes()[:-9])
    assert main(["diff", before, other]) == 1
    assert index.name in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["missing", "short", "empty"])
@pytest.mark.parametrize("files", ["train*.tfrecord-*", "index/train-*.parquet", "index"])
def test_equal_digests_do_not_hide_missing_files(
    files: str, damage: str, before: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(before, damaged)
    place = sorted(damaged.glob(files))[0]
    if place.is_dir():
        shutil.rmtree(place)
    elif damage == "missing":
        place.unlink()
    else:
        place.write_bytes(place.read_bytes()[:-1] if damage == "short" else b"")
    for pair in ((before, str(damaged)), (str(damaged), before)):
        assert main(["diff", *pair, "--fail-on", "all"]) == 1
        said = capsys.readouterr().err
        assert place.name in said
        assert str(damaged) in said


def test_a_changed_index_is_damage(
    before: str, after: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows are valid, and so were compared without a word."""
    changed = tmp_path / "changed"
    shutil.copytree(after, changed)
    index = sorted((changed / "index").glob("train-*"))[0]
    rows = pq.read_table(index)
    others = pa.array([f"other-{n}" for n in range(len(rows))])
    index.write_bytes(index_bytes(rows.set_column(0, "key", others)))
    content = bytearray((pathlib.Path(after) / "index" / index.name).read_bytes())
    content[len(content) // 2] ^= 1
    for damaged in (index.read_bytes(), content):  # of another size, and of the same
        index.write_bytes(damaged)
        for pair in ((before, str(changed)), (str(changed), before)):
            assert main(["diff", *pair]) == 1
            said = capsys.readouterr().err
            assert said.startswith(f"recordmill diff: error: index/{index.name}: ")
            assert "it changed after it was written" in said


def annotated(folder: pathlib.Path, changed: dict[str, np.ndarray], *argv: str) -> str:
    """Images with masks of classes and of objects, boxes and a column; some masks are changed."""
    rows = ["path,note"]
    coco: dict[str, list[Any]] = {"images": [], "annotations": []}
    coco["categories"] = [{"id": 1, "name": "leaf"}]
    for number in range(6):
        name = f"{number}.png"
        ids = np.zeros((8, 8), np.uint8)
        ids[:4, :4] = 1
        write(folder, f"images/{name}", png(painted(ids)))
        write(folder, f"masks/{name}", png(Image.fromarray(changed.get(f"mask {number}", ids))))
        rows.append(f"{name},{changed.get(f'note {number}', 'none')}")
        coco["images"].append({"id": number, "file_name": name, "width": 8, "height": 8})
        counts = changed.get(f"object {number}", [0, 4, 4, 4, 52])  # run lengths by column
        coco["annotations"].append(
            {"id": number, "image_id": number, "category_id": 1, "bbox": [0, 0, 4, 4],
             "area": 8, "iscrowd": 0, "segmentation": {"size": [8, 8], "counts": counts}}
        )  # fmt: skip
    (folder / "coco.json").write_text(json.dumps(coco))
    options = ("--masks", folder / "masks", "--annotations", folder / "coco.json")
    out = folder / "out"
    make(out, "--input", folder / "images", *options, "--instance-masks", "--seed", 3, *argv)
    return str(out)


def test_a_changed_mask_is_a_change_of_its_record(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = annotated(tmp_path / "one", {})
    ids = np.zeros((8, 8), np.uint8)
    ids[:3, :3] = 1
    masks = {"mask 2": ids, "mask 4": ids, "object 4": [0, 3, 5, 3, 53]}
    two = annotated(tmp_path / "two", masks)
    records = json_of(capsys, one, two)["records"]
    assert records["changed"]["count"] == 2
    changed = records["changed"]["features"]
    assert changed["image/segmentation/class/encoded"] == 2
    assert changed["image/object/mask"] == 1
    assert {one["key"] for one in records["changed"]["examples"]} == {"2.png", "4.png"}
    assert (records["same"], records["features_uncompared_because"]) == (4, [])
    assert main(["diff", one, two]) == 0
    assert "2 in image/segmentation/class/encoded" in capsys.readouterr().out
    other = annotated(tmp_path / "three", masks, "--size", "4")
    records = json_of(capsys, one, other)["records"]
    assert records["changed"]["count"] == 0
    assert records["features_uncompared_because"] == ["size"]
    assert main(["diff", one, other, "--fail-on", "changed"]) == 1, "it is not known"
    assert "that no hash covers were not compared, because size" in capsys.readouterr().err
    assert main(["diff", one, other]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "are not compared, because these options or versions differ: size" in text


def test_changed_numbers_that_no_hash_covers_are_changes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hashes of rows cover neither weights nor numbers to predict."""
    made = []
    for name, third in (("one", "k3,3,0.5"), ("two", "k3,4,0.25")):
        rows = [*(f"k{n},{n},0.5" for n in range(3)), third]
        options = (
            "--label-type",
            "float",
            "--label-column",
            "class",
            "--weight-column",
            "x\x1b[31m",
        )
        made.append(table(tmp_path / name, rows, *options))
    records = json_of(capsys, *made)["records"]
    assert records["changed"]["features"] == {"label": 1, "weight": 1}
    assert records["changed"]["count"] == 1


@pytest.mark.parametrize("kind", ["arrays", "audio"])
def test_changed_media_are_changes_of_their_records(
    kind: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []
    for name in ("one", "two"):
        for number in range(3):
            value = 100 * number + (name == "two" and number == 1)
            path = tmp_path / name / "in" / f"{number}.{'npy' if kind == 'arrays' else 'wav'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            values = np.full(8, value, "<i2")
            if kind == "arrays":
                np.save(path, values)
            else:
                with wave.open(str(path), "wb") as file:
                    file.setparams((1, 2, 8000, 0, "NONE", ""))
                    file.writeframes(values.tobytes())
        made.append(str(tmp_path / name / "out"))
        make(pathlib.Path(made[-1]), "--input", tmp_path / name / "in", command=kind)
    records = json_of(capsys, *made)["records"]
    assert records["changed"]["count"] == 1
    [example] = records["changed"]["examples"]
    assert example["key"].startswith("1.")
