"""Every option of `recordmill images` does what its help says; the last test asks for all of them.

A test says with `shows` which options it is about. Twelve small pictures are enough for most.
"""

import hashlib
import io
import os
import pathlib
import re
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from recordmill.job.staging import Staging
from recordmill.options.declaration import options_of
from recordmill.pipelines.cli import main
from recordmill.pipelines.images import ImagesConfig
from recordmill.pipelines.options.common.duplicates import DUPLICATES
from recordmill.pipelines.options.common.flink import FLINK
from recordmill.pipelines.options.common.selection import SELECTION
from recordmill.pipelines.options.inputs.annotations import ANNOTATIONS
from recordmill.pipelines.options.inputs.masks import MASKS
from recordmill.pipelines.options.inputs.rows import ROWS
from recordmill.processes import pool
from tests.folders import make_folder, make_picture
from tests.image_runs import Made, images, make

pytestmark = pytest.mark.usefixtures("encoders")

SHOWN: set[str] = set()


def shows(*options: str) -> Callable[[Any], Any]:
    """Names the options that a test is about, by their flags without dashes."""
    SHOWN.update(options)
    return lambda test: test


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
    """12 pictures of 40x30; the left half of bee/clear.png is transparent."""
    root = make_folder(tmp_path_factory.mktemp("photos"), {"ant": 6, "bee": 3, "cow": 2})
    pixels = np.full((30, 40, 4), (0, 0, 200, 255), np.uint8)
    pixels[:, :20, 3] = 0
    Image.fromarray(pixels).save(root / "bee" / "clear.png")
    return root


@pytest.fixture(scope="module")
def plain(photos, tmp_path_factory) -> Made:
    """All that is not said otherwise: JPEG, of their own size, one shard of each split."""
    return make(tmp_path_factory.mktemp("plain") / "out", "--input", photos, "--splits", "train=1")


def source(photos: pathlib.Path, key: str) -> np.ndarray:
    with Image.open(photos / key) as image:
        return np.asarray(image.convert("RGB")).astype(float)


def picture(made: Made, key: str, copy: int = 0) -> Image.Image:
    return Image.open(io.BytesIO(made.examples()[key, copy]["image/encoded"][0]))


def pixels(made: Made, key: str, dtype: type) -> np.ndarray:
    """A raw picture, by the shape features beside it."""
    example = made.examples()[key, 0]
    shape = [example[f"image/{side}"][0] for side in ("height", "width", "channels")]
    return np.frombuffer(example["image/encoded"][0], dtype).reshape(shape)


@shows("input", "output", "num-shards", "image-format", "resize-mode")
def test_what_is_made_without_options(plain, photos):
    assert plain.keys("train") == {os.fspath(f.relative_to(photos)) for f in photos.rglob("*.*")}
    assert [path.name for path in plain.folder.glob("train*")] == ["train.tfrecord-00000-of-00001"]
    assert picture(plain, "ant/000.jpg").format == "JPEG"
    assert picture(plain, "ant/000.jpg").size == (40, 30)


# --- Pictures ----------------------------------------------------------------------------------

KEY = "ant/001.jpg"
FIGURE, GROUND = (12, 13), (12, 6)  # (row, column) in the source; the figure begins at column 10


@shows("size", "resize-mode", "mode", "image-format")
def test_crop_covers_the_size_in_gray(photos, tmp_path):
    argv = ["--size", "20x16", "--mode", "gray", "--image-format", "raw"]
    made = make(tmp_path / "out", "--input", photos, "--splits", "train=1", *argv)
    found = pixels(made, KEY, np.uint8)
    assert found.shape == (20, 16, 1)
    gray = source(photos, KEY)[FIGURE] @ (0.299, 0.587, 0.114)
    assert found[8, 3, 0] == pytest.approx(gray, abs=8)  # column 13 of the source, 9 for stretch


@shows("size", "resize-mode", "background", "image-format")
def test_pad_fills_up_with_the_background(photos, tmp_path):
    argv = ["--size", "20x16", "--resize-mode", "pad", "--background", "255,0,0"]
    made = make(
        tmp_path / "out",
        *("--input", photos, "--splits", "train=1", "--image-format", "png", *argv),
    )
    assert picture(made, KEY).format == "PNG"
    padded, clear = (np.asarray(picture(made, key)) for key in (KEY, "bee/clear.png"))
    assert padded.shape == (20, 16, 3)
    assert padded[[0, -1]].tolist() == [[[255, 0, 0]] * 16] * 2
    assert clear[10, 2].tolist() == [255, 0, 0]
    assert clear[10, 14].tolist() == [0, 0, 200]


@shows("size", "resize-mode", "normalize")
def test_stretch_ignores_proportions_and_imagenet_its_mean(photos, tmp_path):
    argv = ["--size", 16, "--resize-mode", "stretch", "--image-format", "raw"]
    made = make(
        tmp_path / "out",
        *("--input", photos, "--splits", "train=1", "--normalize", "imagenet", *argv),
    )
    found = pixels(made, KEY, np.float32)
    assert found.shape == (16, 16, 3)
    levels = 255 * (found[6, 2] * (0.229, 0.224, 0.225) + (0.485, 0.456, 0.406))
    # Column 2 of 16 is column 6 of 40: left of the figure, which a crop would show there.
    assert levels == pytest.approx(source(photos, KEY)[GROUND], abs=8)


@shows("size", "resize-mode", "normalize")
def test_fit_shrinks_into_the_size_and_unit_is_from_zero_to_one(photos, tmp_path):
    argv = ["--size", 16, "--resize-mode", "fit", "--image-format", "raw"]
    made = make(
        tmp_path / "out",
        *("--input", photos, "--splits", "train=1", "--normalize", "unit", *argv),
    )
    found = pixels(made, KEY, np.float32)
    assert found.shape == (12, 16, 3)
    assert 255 * found[5, 2] == pytest.approx(source(photos, KEY)[GROUND], abs=8)


@shows("resize-mode", "mode", "image-format")
def test_none_keeps_bytes_that_comply_and_rgba_what_is_transparent(photos, tmp_path):
    argv = ["--resize-mode", "none", "--mode", "rgba", "--image-format", "png"]
    made = make(tmp_path / "out", "--input", photos, "--splits", "train=1", *argv)
    examples = made.examples()
    clear = (photos / "bee/clear.png").read_bytes()
    assert examples["bee/clear.png", 0]["image/encoded"] == [clear]
    assert examples[KEY, 0]["image/channels"] == [4]
    assert (picture(made, KEY).format, picture(made, KEY).mode) == ("PNG", "RGBA")


@shows("max-pixels", "min-size", "max-reject-fraction")
def test_pictures_too_large_are_rejected_and_too_small_left_out(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "in")
    make_picture(tmp_path / "in/ant/large.jpg", 1, size=(41, 30))
    make_picture(tmp_path / "in/ant/small.jpg", 1, size=(40, 29))
    argv = ["--max-pixels", 40 * 30, "--min-size", 30, "--max-reject-fraction", 0.1]
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv)
    records = made.manifest.ledger.records
    assert (records.written, records.rejected, records.filtered) == (12, 1, 1)
    assert made.rejects == {"ant/large.jpg": "too_many_pixels"}


# --- Copies ------------------------------------------------------------------------------------


@shows("balance", "augment", "augment-all")
@pytest.mark.parametrize("more", [("--balance", "oversample"), ("--augment-all",)])
def test_what_is_augmented(more, photos, tmp_path):
    argv = ["--input", photos, "--splits", "train=1", "--image-format", "png"]
    changes = ["--augment", "flip,crop", "--augment", "brightness,contrast,rotate"]
    made = make(tmp_path / "out", *argv, *changes, *more)
    for (key, copy), example in made.examples().items():
        found = np.asarray(Image.open(io.BytesIO(example["image/encoded"][0])))
        as_it_was = np.array_equal(found, source(photos, key))
        if not key.endswith("clear.png"):
            assert as_it_was == (copy == 0 and more != ("--augment-all",)), (key, copy)
    copies = made.manifest.ledger.copies.written
    assert copies == (0 if more == ("--augment-all",) else 6)


# --- What is planned ---------------------------------------------------------------------------

ALL, HALVES = ("--splits", "train=1"), ("--splits", "train=0.5,test=0.5", "--stratify")
OVER, UNDER = ("--balance", "oversample"), ("--balance", "undersample")

PLANS = [
    (
        (*ALL, "--balance", "none", "--shard-size", "1KB"),
        ["ant +6$", "cow +2$", "train +12 +0 +12 "],
    ),
    ((*ALL, *OVER, "--balance-target", 5), ["ant +6 +6$", "bee +4 +5$", "train +16 +4 +1 "]),
    ((*ALL, *OVER, "--balance-target", "median"), ["ant +6 +6$", "bee +4 +4$", "cow +2 +4$"]),
    ((*ALL, *UNDER, "--balance-target", 3), ["ant +6 +3$", "bee +4 +3$", "cow +2 +2$"]),
    ((*HALVES, "--num-shards", 3), ["bee +2 +2$", "train +6 +0 +3 ", "test +6 +0 +3 "]),
    (
        (*HALVES, "--num-shards", "train=2", "--balance", "weights"),
        ["ant +3 +3$", "cow +1 +1$", "train +6 +0 +2 ", "test +6 +0 +1 "],
    ),
]


@shows("splits", "stratify", "balance", "balance-target", "num-shards", "shard-size", "dry-run")
@pytest.mark.parametrize(("argv", "lines"), PLANS, ids=lambda value: " ".join(map(str, value)))
def test_plan(argv, lines, photos, tmp_path, capfd):
    assert main(["images", *plan_of(photos, tmp_path / "out"), *map(str, argv)]) == 0
    said = capfd.readouterr().out
    for line in lines:
        assert re.search(line, said, re.MULTILINE), said
    assert not (tmp_path / "out").exists(), "a dry run leaves nothing"


def plan_of(photos: pathlib.Path, out: pathlib.Path) -> list[str]:
    return ["--input", str(photos), "--output", str(out), "--workers", "1", "--dry-run"]


@shows("probe")
@pytest.mark.parametrize(
    ("probe", "balance", "line"),
    [
        ("header", "none", "bee +4$"),
        ("auto", "oversample", "bee +4 +6$"),
        ("none", "oversample", "bee +5 +6$"),
    ],
)
def test_probing_headers_finds_bad_pictures_before_balancing(
    probe, balance, line, photos, tmp_path, capfd
):
    shutil.copytree(photos, tmp_path / "in")
    (tmp_path / "in/bee/bad.jpg").write_text("no picture")
    argv = [*ALL, "--balance", balance, "--probe", probe, "--max-reject-fraction", "0.1"]
    assert main(["images", *plan_of(tmp_path / "in", tmp_path / "out"), *argv]) == 0
    assert re.search(line, capfd.readouterr().out, re.MULTILINE)


@shows("workers")
def test_workers_are_encoder_processes(photos, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(pool, "shared_pool", lambda workers, **_: started.append(workers))
    assert main(["images", *plan_of(photos, tmp_path / "out"), "--quiet", "--workers", "3"]) == 0
    assert started == [3]


@shows("runner", "quiet")
def test_the_runner_goes_by_beams_name_too_and_quiet_says_nothing(photos, tmp_path, capfd):
    argv = [*plan_of(photos, tmp_path / "out"), "--runner", "DirectRunner", "--quiet"]
    assert main(["images", *argv, "--labels=airflow-version=v3-3-2"]) == 0
    assert capfd.readouterr() == ("", "")


# --- Files and names ---------------------------------------------------------------------------


def dressed_argv(photos: pathlib.Path, labels: pathlib.Path) -> list[str]:
    labels.write_text("cow\nant\nbee\n")
    return [
        *("--input", str(photos), "--splits", "train=0.75,rest=0.25", "--seed", "9"),
        *("--quality", "30", "--one-hot-label", "--labels-file", str(labels)),
        *("--label-offset", "5", "--compression", "gzip", "--num-shards", "train=2"),
        *("--rename", "image/encoded=image_raw", "--rename", "image/class/label=y"),
    ]


@pytest.fixture(scope="module")
def dressed(photos, tmp_path_factory) -> Made:
    """A run with many options that do not touch each other; its staging folder stays."""
    folder = tmp_path_factory.mktemp("dressed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "sweep", lambda self: None)
        return make(folder / "out", *dressed_argv(photos, folder / "labels"), "--spill-above", 1)


@shows("quality")
def test_quality(dressed, plain):
    assert len(picture_bytes(dressed, "image_raw")) < len(picture_bytes(plain, "image/encoded"))


def picture_bytes(made: Made, feature: str) -> bytes:
    examples = {k: v for split in made.manifest.splits for k, v in made.examples(split).items()}
    return b"".join(example[feature][0] for example in examples.values())


@shows("one-hot-label", "labels-file", "label-offset", "rename")
def test_labels_and_names(dressed):
    assert (dressed.folder / "labels.txt").read_text() == "cow\nant\nbee\n"
    for (key, _), example in dressed.examples().items():
        number = ["cow", "ant", "bee"].index(key[:3])
        assert example["y"] == [number + 5]
        assert example["image/class/one_hot"] == [float(i == number) for i in range(3)]
        assert not {"image/encoded", "image/class/label"} & set(example)


DECODERS = ("--feature-set", "tf-object-detection", "--label-offset", 1)


@shows("feature-set")
def test_features_for_decoders_of_object_detection(photos, tmp_path):
    made = make(
        tmp_path / "out",
        *("--input", photos, "--splits", "train=1", "--size", 16, "--balance", "oversample"),
        *DECODERS,
    )
    ids = {}
    for (key, _), example in made.examples().items():
        (number,), (digest,) = example["image/source_id"], example["image/key/sha256"]
        assert ids.setdefault(key, number) == number  # copies are of the same image
        assert 2**52 <= int(number) < 2**53
        assert digest.decode() == hashlib.sha256(example["image/encoded"][0]).hexdigest()
    assert len(set(ids.values())) == len(ids) < len(made.index("train"))
    stored = (made.folder / "label_map.pbtxt").read_bytes()
    assert made.manifest.files["label_map.pbtxt"].sha256 == hashlib.sha256(stored).hexdigest()
    assert stored.startswith(b'item {\n  name: "ant"\n  id: 1\n  display_name: "ant"\n}\nitem {')


@shows("feature-set")
@pytest.mark.parametrize("ids", [[7, "", 9], ["x", "", "é"]])
def test_source_ids_of_a_listing_are_kept(ids, photos, tmp_path):
    keys = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.*"))[:3]
    lines = [f"{key},a,{number},old" for key, number in zip(keys, ids, strict=True)]
    header = "path,label,image/source_id,image/key/sha256"
    (tmp_path / "list.csv").write_text("\n".join([header, *lines]))
    argv = ["--input", tmp_path / "list.csv", "--input-root", photos, "--splits", "train=1"]
    examples = make(tmp_path / "out", *argv, *DECODERS).examples()
    first, made, last = (examples[key, 0]["image/source_id"][0].decode() for key in keys)
    assert (first, last) == (str(ids[0]), str(ids[2]))
    assert int(made) >= 2**52
    for example in examples.values():
        digest = hashlib.sha256(example["image/encoded"][0]).hexdigest()
        assert example["image/key/sha256"] == [digest.encode()]


@shows("feature-set")
def test_source_ids_that_are_no_ids_are_an_error(photos, tmp_path, capfd):
    (tmp_path / "list.csv").write_text("path,label,image/source_id\nbee/clear.png,a,0.5\n")
    argv = ["--input", tmp_path / "list.csv", "--input-root", photos, *DECODERS]
    assert images("--output", tmp_path / "out", *argv) == 2
    said = capfd.readouterr().err
    assert "column 'image/source_id': expected ids of images, text or whole numbers" in said


@shows("feature-set")
def test_images_without_classes_have_no_label_map(photos, tmp_path):
    made = make(tmp_path / "out", "--input", photos / "ant", "--splits", "train=1", *DECODERS[:2])
    assert not (made.folder / "label_map.pbtxt").exists()
    assert all("image/source_id" in one for one in made.examples().values())


@shows("compression", "num-shards", "splits")
def test_tensorflow_reads_gzip(dressed):
    files = sorted(map(os.fspath, dressed.folder.glob("train.tfrecord-*-of-00002.gz")))
    assert len(files) == 2
    records = tf.data.TFRecordDataset(files, compression_type="GZIP")
    assert sum(1 for _ in records) == dressed.manifest.splits["train"].records > 0
    assert set(dressed.manifest.splits) == {"train", "rest"}


@shows("config", "print-config")
def test_a_printed_config_makes_the_same_dataset(dressed, photos, tmp_path, capsys):
    argv = [*dressed_argv(photos, tmp_path / "labels"), "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="0"):
        main(["images", *argv, "--print-config"])
    (tmp_path / "job.yaml").write_text(capsys.readouterr().out)
    made = make(tmp_path / "out", "--config", tmp_path / "job.yaml")
    assert (made.folder / "dataset.json").read_bytes() == (
        dressed.folder / "dataset.json"
    ).read_bytes()


@shows("seed", "overwrite")
def test_another_seed_is_another_dataset_and_must_be_meant(plain, photos, tmp_path, capfd):
    shutil.copytree(plain.folder, tmp_path / "out")
    argv = ["--input", photos, "--splits", "train=1", "--seed", 1]
    assert images(*argv, "--output", tmp_path / "out") == 2
    assert "--seed was 0, is 1" in capfd.readouterr().err
    assert Made(tmp_path / "out").manifest == plain.manifest
    made = make(tmp_path / "out", *argv, "--overwrite")
    assert made.manifest.digest != plain.manifest.digest
    assert made.keys("train") == plain.keys("train")


@shows("spill-above")
def test_spilling_writes_files_on_the_way(dressed):
    assert list(dressed.folder.glob(".recordmill/*/spill/*"))


# --- Listings ----------------------------------------------------------------------------------


@shows(
    *("path-column", "label-column", "group-column", "split-column", "key-column", "input-root"),
    *("unlabelled", "drop-columns", "weight-column"),
)
def test_columns(photos, tmp_path):
    (tmp_path / "list.csv").write_text(
        "pic,species,who,part,id,age,sex,mass\n"
        "ant/000.jpg,Formica,x,train,one,1,f,2\n"
        "ant/001.jpg,,x,train,two,1,f,2\n"
        "bee/000.jpg,Apis,y,dev,three,1,f,2\n"
        "cow/000.jpg,Bos,,dev,four,1,f,2\n"
    )
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "list.csv", "--input-root", photos, "--path-column", "pic"),
        *("--label-column", "species", "--group-column", "who", "--split-column", "part"),
        *("--key-column", "id", "--unlabelled", "keep"),
        *("--drop-columns", "age", "--weight-column", "mass"),
    )
    assert {"age", "sex", "mass", "weight"} & {*made.manifest.features} == {"sex", "weight"}
    assert {example["weight"][0] for example in made.examples().values()} == {2}
    rows = {
        split: sorted((row["key"], row["label"], row["group"]) for row in made.index(split))
        for split in ("train", "validation")
    }
    assert rows["train"] == [("one", "Formica", "x"), ("two", None, "x")]
    assert rows["validation"] == [("four", "Bos", None), ("three", "Apis", "y")]
    labels = {
        key: example.get("image/class/label") for (key, _), example in made.examples().items()
    }
    assert labels == {"one": [2], "two": None}


@shows("statistics", "schema", "infer-schema", "on-violation", "compare-with")
def test_headers_and_classes_are_what_a_schema_is_about(photos, plain, tmp_path, capsys):
    schema = tmp_path / "schema.pbtxt"
    flags = ("--input", photos, "--splits", "train=1")
    assert images(*flags, "--output", tmp_path / "none", "--infer-schema", schema) == 0
    assert 'value: "cow"' in schema.read_text()
    before = make(tmp_path / "before", *flags, "--statistics")
    assert "statistics.pb" in before.manifest.files
    assert "statistics.pb" not in plain.manifest.files
    schema.write_text(schema.read_text().replace('  value: "cow"\n', ""))
    made = make(tmp_path / "out", *flags, "--schema", schema, "--max-reject-fraction", "1")
    assert set(made.rejects) == {"cow/000.jpg", "cow/001.jpg"}
    kept = make(tmp_path / "kept", *flags, "--schema", schema, "--on-violation", "keep")
    assert kept.manifest.digest == plain.manifest.digest
    assert kept.manifest.notes[0].startswith("2 records violate the schema, by column 'label'")
    flags = [*map(str, flags), "--statistics", "--compare-with", str(before.folder)]
    capsys.readouterr()
    assert main(["images", *flags, "--output", str(tmp_path / "again")]) == 0
    assert "Drift is relative to" in capsys.readouterr().out


# --- All of them -------------------------------------------------------------------------------


@shows("help")
def test_every_option_is_shown(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["images", "--help", "all"])
    keys = {option.key for option in options_of(ImagesConfig).values()}
    keys.remove("near-similarity")  # it applies to texts only
    found = re.findall("^  --([a-z0-9-]+)", capsys.readouterr().out, re.MULTILINE)
    flags = {flag if flag in keys else flag.removeprefix("no-") for flag in found}
    assert keys < flags
    elsewhere = {  # tests/flink, tests/transforms/encoders/test_boxes.py and test_class_masks.py
        one.key
        for one in options_of(ImagesConfig).values()
        if one.group in (FLINK, ANNOTATIONS, MASKS)
    }
    elsewhere |= {  # test_selection.py, test_duplicates.py, test_file_formats.py
        one.key
        for one in options_of(ImagesConfig).values()
        if one.group in (SELECTION, DUPLICATES, ROWS)
    }
    # test_notes.py, test_input_splits.py, test_repeated_rows.py, tests/transforms/imaging
    elsewhere |= {"fail-on", "label-from", "split-from", "conflicts", "intensity-window"}
    elsewhere |= {"group-from"}  # test_path_facts.py
    # test_split_map.py, test_split_files.py, test_path_columns.py, test_path_template.py
    elsewhere |= {"split-map", "split-files", "column-from", "key-from", "path-template"}
    elsewhere |= {"depth", "json"}  # test_image_depth.py, test_interpretation.py
    # test_card.py, test_report_page.py, test_verify_option.py, test_hostile_listings.py,
    # test_road.py
    elsewhere |= {"card", "report", "verify", "allow-store", "confine", "max-worker-memory"}
    elsewhere |= {"max-worker-seconds", "scratch"}  # test_endless_records.py, test_scratch.py
    elsewhere |= {"learned-from", "max-drift"}  # test_learned_from.py
    elsewhere |= {"bytes-column"}  # test_media_tables.py
    elsewhere |= {"damaged"}  # test_damaged_images.py
    elsewhere |= {"reuse", "reuse-required", "no-reuse", "fingerprint"}  # test_reuse.py
    assert flags == (SHOWN | elsewhere) - {"near-similarity"}
