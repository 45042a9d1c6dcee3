"""`recordmill video` from end to end: through its command line, read back by PyAV and tf.data."""

import io
import json
import os
import pathlib
from fractions import Fraction

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

import recordmill
from recordmill.storage.files import Location
from tests.image_runs import Made, make, run
from tests.paths import VIDEO
from tests.s3_server import s3_server
from tests.video_files import (
    CLOSED_GOP,
    difference,
    frames_of,
    make_film,
    make_sound,
    picture,
    resized,
    spoil,
    times_of,
    turn,
)

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

ALL = ("--splits", "train=1")
# Of a frame by our scaling and JPEG of quality 90, against Pillow's of FFmpeg's default conversion:
# levels of 255, on average over a picture.
JPEG_ERROR = 4.0


def made_of(tmp_path: pathlib.Path, source: object, *options: object) -> Made:
    return make(tmp_path / "out", "--input", source, *ALL, *options, command="video")


def clips(made: Made) -> dict[str, list[np.ndarray]]:
    """The frames of each clip by its key, as `recordmill.read` gives them, decoded by Pillow."""
    records = recordmill.read(made.folder, "train")
    keys = [row["key"] for row in made.index("train")]
    return {
        key: [np.asarray(Image.open(io.BytesIO(one))) for one in record["image/encoded"]]
        for key, record in zip(keys, records, strict=True)
    }


def error_of(capfd, *argv: object) -> str:
    assert run("video", *argv) == 2
    return capfd.readouterr().err


@pytest.mark.parametrize(
    ("mode", "stride", "wide", "qcif"), [("stretch", 8, 30, 14), ("none", 16, 15, 7)]
)
def test_clips_of_real_films_are_those_of_a_plain_decode(
    mode, stride, wide, qcif, tmp_path
) -> None:
    size = ("--size", 112) if mode == "stretch" else ()
    options = ("--clip-frames", 16, "--clip-stride", stride, "--resize-mode", mode, *size)
    made = made_of(tmp_path, VIDEO, *options)
    keys = [row["key"] for row in made.index("train")]
    records = dict(zip(keys, recordmill.read(made.folder, "train"), strict=True))
    for name, count in (("wide.mp4", wide), ("qcif.mp4", qcif)):
        frames, times = frames_of(VIDEO / name), times_of(VIDEO / name)
        expected = [f"{name}#{n}" for n in range(0, len(frames) - 15, stride)]
        assert [key for key in sorted(keys, key=number_of) if key.startswith(name)] == expected
        assert len(expected) == count
        for key in expected:
            first = number_of(key)
            record = records[key]
            for place in (0, 15):
                frame = frames[first + place]
                wanted = resized(frame, (112, 112)) if mode == "stretch" else frame
                got = np.asarray(Image.open(io.BytesIO(record["image/encoded"][place])))
                assert difference(got, wanted) < JPEG_ERROR
            seconds = record["image/timestamp"] / 1e6
            np.testing.assert_allclose(seconds, times[first : first + 16], atol=1e-6)
            assert record["clip/start/timestamp"] == record["image/timestamp"][0]
            assert record["clip/data_path"] == name.encode()
            assert record["clip/frames"] == 16
    assert run_tool("verify", "--dataset", made.folder, "--deep", "--quiet") == 0


def number_of(key: str) -> int:
    return int(key.rpartition("#")[2])


def run_tool(*argv: object) -> int:
    from recordmill.pipelines.cli import main

    return main([str(one) for one in argv])


def test_folders_give_class_and_split_and_clips_of_a_film_stay_together(tmp_path) -> None:
    root = tmp_path / "in"
    for number in range(8):
        label = "ab"[number % 2]
        make_film(root / label / f"{number}.mp4", 20, offset=5 * number)
    options = ("--clip-frames", 4, "--splits", "train=0.5,test=0.5", "--stratify", "--seed", 2)
    made = make(tmp_path / "out", "--input", root, *options, command="video")
    train, test = made.keys("train"), made.keys("test")
    assert len(train) == len(test) == 20
    assert not {key.partition("#")[0] for key in train} & {key.partition("#")[0] for key in test}
    for (key, _), example in made.examples().items():
        assert example["clip/label/string"] == [key[0].encode()]
        assert example["clip/label/index"] == ["ab".index(key[0])]
    ledger = made.manifest.ledger
    assert (ledger.unit, ledger.inputs.read, ledger.records.made) == ("clip", 8, 40)
    x, y = next(iter(recordmill.load(made.folder, batch_size=3, image_size=(20, 30))))
    assert (x.shape, x.dtype, y.shape) == ((3, 4, 20, 30, 3), tf.uint8, (3,))


def test_split_folders_are_respected(tmp_path) -> None:
    for split in ("train", "val"):
        for label in ("x", "y"):
            make_film(tmp_path / "in" / split / label / "1.mp4", 8)
    made = make(tmp_path / "out", "--input", tmp_path / "in", "--clip-frames", 4, command="video")
    assert made.keys("validation") == {f"val/{label}/1.mp4#{n}" for label in "xy" for n in (0, 4)}


def test_clips_are_balanced_and_left_out_by_labels_of_a_file(tmp_path) -> None:
    root = tmp_path / "in"
    for label, count in (("a", 3), ("b", 1), ("c", 1)):
        for number in range(count):
            make_film(root / label / f"{number}.mp4", 12)
    (tmp_path / "labels.txt").write_text("a\nb\n")
    options = ("--clip-frames", 4, "--labels-file", tmp_path / "labels.txt")
    options += ("--max-reject-fraction", 0.3, "--balance", "oversample", "--num-shards", 2)
    made = made_of(tmp_path, root, *options)
    assert made.manifest.splits["train"].classes == {"a": 9, "b": 9}
    assert set(made.rejects) == {f"c/0.mp4#{n}" for n in (0, 4, 8)}
    ledger = made.manifest.ledger
    assert (ledger.inputs.read, ledger.records.made, ledger.records.rejected) == (5, 15, 3)


def test_bad_files_are_rejects_and_stop_nothing(tmp_path, capfd) -> None:
    root = tmp_path / "in"
    make_film(root / "good.mp4", 20, sound=True)
    make_film(root / "one.mp4", 1)
    make_film(root / "no-index.mp4", 40)
    make_film(root / "bare.h264", 20, container="h264")
    (root / "empty.mp4").write_bytes(b"")
    (root / "text.mp4").write_text("hello")
    (root / "no-matroska.mkv").write_bytes(b"\x1a\x45\xdf\xa3" + bytes(50))
    data = (root / "no-index.mp4").read_bytes()
    (root / "no-index.mp4").write_bytes(data[: data.index(b"moov")])
    make_sound(root / "sound.m4a")
    make_sound(root / "cover.mp3", cover=True)
    (root / "notes.txt").write_text("left out by its name")
    options = ("--input", root, *ALL, "--clip-frames", 5, "--max-reject-fraction", 1)
    argv = [str(one) for one in ("video", "--output", tmp_path / "out", *options)]
    assert run_tool(*argv, "--workers", 1) == 0
    made = Made(tmp_path / "out")
    assert made.keys("train") == {f"good.mp4#{n}" for n in range(0, 20, 5)}
    assert made.rejects == {
        "bare.h264": "unsupported",
        "cover.mp3": "unsupported",
        "empty.mp4": "empty",
        "no-index.mp4": "truncated",
        "no-matroska.mkv": "corrupt",
        "one.mp4": "bad_value",
        "sound.m4a": "unsupported",
        "text.mp4": "unsupported",
    }
    told = (made.folder / "rejects.jsonl").read_text()
    details = {one["key"]: one["detail"] for one in map(json.loads, told.splitlines())}
    assert details["cover.mp3"] == "only cover art: expected a video"
    assert details["sound.m4a"] == "no video stream: expected a video"
    assert "--clip-rest pad" in details["one.mp4"]
    assert str(tmp_path) not in told
    inputs = made.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected, inputs.filtered) == (1, 8, 1)
    assert "1 video has an audio track, which is dropped" in capfd.readouterr().out


def test_too_many_clips_that_are_spoilt_end_the_job(tmp_path, capfd) -> None:
    root = tmp_path / "in"
    spoil(make_film(root / "x.mkv", 60, size=(96, 128), options=CLOSED_GOP), 2)
    options = ("--input", root, "--output", tmp_path / "out", *ALL, "--clip-frames", 4)
    assert run("video", *options, "--max-reject-fraction", 0) == 1
    assert "of 15 clips were rejected" in capfd.readouterr().err
    made = make(
        tmp_path / "out", "--input", root, *ALL, "--clip-frames", 4, "--max-reject-fraction", 0.9,
        command="video",
    )  # fmt: skip
    ledger = made.manifest.ledger
    assert ledger.inputs.read == 1
    assert ledger.records.rejected == len(made.rejects) > 0
    assert ledger.records.made == 15


@pytest.mark.parametrize("fps", [5, 12.5, 40])
def test_a_frame_rate_shows_what_is_shown_then(fps, tmp_path) -> None:
    times = [n * 40 + n % 3 * 9 for n in range(30)]
    path = make_film(tmp_path / "in" / "x.mkv", 30, times=times, size=(32, 48))
    made = made_of(tmp_path, path, "--fps", fps, "--clip-frames", 1)
    found = clips(made)
    expected = []
    slot = 0
    while Fraction(slot) / Fraction(str(fps)) * 1000 < times[-1] + 40:
        shown = Fraction(slot) / Fraction(str(fps)) * 1000
        expected.append(max(n for n, time in enumerate(times) if time <= shown))
        slot += 1
    assert abs(len(found) - len(expected)) <= 1  # how long the last frame is shown is not certain
    for number, frame in enumerate(expected[: len(found)]):
        got = found[f"x.mkv#{number}"][0]
        differences = [difference(got, picture(n, height=32, width=48)) for n in range(30)]
        assert int(np.argmin(differences)) == frame
    records = dict(zip(found, recordmill.read(made.folder, "train"), strict=True))
    assert records["x.mkv#3"]["image/timestamp"].tolist() == [round(3e6 / fps)]
    assert records["x.mkv#3"]["image/frame_rate"] == fps


@pytest.mark.parametrize("size", [(), ("--size", "40x24", "--resize-mode", "stretch")])
def test_films_are_upright(size, tmp_path) -> None:
    root = tmp_path / "in"
    turns = {90: 3, 180: 2, 270: 1, "mirrored": 0}
    for turned in turns:
        turn(make_film(root / f"{turned}.mp4", 8, size=(48, 80)), turned)
    found = clips(made_of(tmp_path, root, "--clip-frames", 8, *size))
    assert found.keys() == {f"{turned}.mp4#0" for turned in turns}
    for turned, steps in turns.items():
        stored_frames = frames_of(root / f"{turned}.mp4")
        for got, stored in zip(found[f"{turned}.mp4#0"], stored_frames, strict=True):
            upright = np.rot90(stored, steps)
            if turned == "mirrored":
                upright = stored[:, ::-1]
            wanted = resized(upright, (40, 24)) if size else upright
            assert difference(got, wanted) < JPEG_ERROR


@pytest.mark.parametrize("mode", ["crop", "pad", "fit", "stretch"])
def test_how_frames_get_to_a_size(mode, tmp_path) -> None:
    root = tmp_path / "in"
    shapes = {"x": (60, 120), "wide": (60, 180)}  # pixels are as wide as the film says
    make_film(root / "x.mp4", 2, size=(60, 120))
    make_film(root / "wide.mp4", 2, size=(60, 120), aspect=Fraction(3, 2))
    options = ("--size", 40, "--resize-mode", mode, "--background", "0,255,0")
    options += ("--image-format", "png")
    found = clips(made_of(tmp_path, root, "--clip-frames", 2, *options))
    pairs = [
        (got, stored, shown)
        for name, shown in shapes.items()
        for got, stored in zip(found[f"{name}.mp4#0"], frames_of(root / f"{name}.mp4"), strict=True)
    ]
    assert len(pairs) == 4
    for got, stored, shown in pairs:
        frame = Image.fromarray(stored).resize(shown[::-1], Image.Resampling.BILINEAR)
        low = round(40 * shown[0] / shown[1])
        match mode:
            case "stretch":
                wanted = frame.resize((40, 40), Image.Resampling.BILINEAR)
            case "crop":
                side = (shown[1] - shown[0]) // 2
                box = (side, 0, side + 60, 60)
                wanted = frame.resize((40, 40), Image.Resampling.BILINEAR, box)
            case "fit":
                wanted = frame.resize((40, low), Image.Resampling.BILINEAR)
            case _:
                wanted = Image.new("RGB", (40, 40), (0, 255, 0))
                inner = frame.resize((40, low), Image.Resampling.BILINEAR)
                wanted.paste(inner, (0, (40 - low) // 2))
        assert difference(got, np.asarray(wanted)) < JPEG_ERROR


def test_segments_of_films(tmp_path) -> None:
    root = tmp_path / "films"
    make_film(root / "x.mp4", 100)  # 4 seconds
    make_film(root / "y.mkv", 50)
    rows = [
        "path,from,to,label,note",
        "x.mp4,0,1,run,first",
        "x.mp4,0.5,2,walk,over the first",
        "x.mp4,3,9,run,beyond",
        "x.mp4,4.5,5,run,behind",
        "x.mp4,2,1,run,negative",
        "x.mp4,1,1.1,run,short",
        "y.mkv,,,walk,all of it",
        "y.mkv,1.5,,run,to the end",
    ]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    options = ("--input-root", root, "--start-column", "from", "--end-column", "to")
    options += ("--clip-frames", 5, "--max-reject-fraction", 0.6)
    made = made_of(tmp_path, tmp_path / "list.csv", *options)
    expected = {
        "x.mp4@0-1": range(0, 25, 5),
        "x.mp4@0.5-2": range(13, 50 - 4, 5),
        "y.mkv@0-": range(0, 50, 5),
        "y.mkv@1.5-": range(38, 50 - 4, 5),
    }
    assert made.keys("train") == {f"{key}#{n}" for key, starts in expected.items() for n in starts}
    assert made.rejects == dict.fromkeys(
        ["x.mp4@3-9", "x.mp4@4.5-5", "x.mp4@2-1", "x.mp4@1-1.1"], "bad_value"
    )
    found = clips(made)
    for key, starts in expected.items():
        frames = frames_of(root / key.partition("@")[0])
        for start in starts:
            assert difference(found[f"{key}#{start}"][0], frames[start]) < JPEG_ERROR
    examples = made.examples()
    assert examples["x.mp4@0.5-2#13", 0]["clip/label/string"] == [b"walk"]
    assert examples["x.mp4@0.5-2#13", 0]["note"] == [b"over the first"]
    assert not {"from", "to"} & set(made.manifest.features)
    ledger = made.manifest.ledger
    assert (ledger.inputs.read, ledger.inputs.rejected) == (4, 4)
    split = make(
        tmp_path / "split", "--input", tmp_path / "list.csv", *options, "--splits",
        "train=0.5,test=0.5", "--seed", 3, command="video",
    )  # fmt: skip
    names = [{key.partition("@")[0] for key in split.keys(one)} for one in ("train", "test")]
    assert not names[0] & names[1]  # segments of a film never part


def test_a_listing_may_name_its_rows(tmp_path) -> None:
    make_film(tmp_path / "films" / "x.mp4", 20)
    rows = ["path,name,start", "films/x.mp4,one,0", "films/x.mp4,two,0"]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    options = ("--key-column", "name", "--start-column", "start", "--clip-frames", 10)
    made = made_of(tmp_path, tmp_path / "list.csv", *options)
    assert made.keys("train") == {"one#0", "one#10", "two#0", "two#10"}
    assert {row["group"] for row in made.index("train")} == {"films/x.mp4"}
    assert made.examples()["one#0", 0]["clip/data_path"] == [b"films/x.mp4"]


def test_the_rest_of_a_film(tmp_path) -> None:
    path = make_film(tmp_path / "in" / "x.mp4", 11)
    options = ("--clip-frames", 4, "--clip-rest", "pad")
    made = made_of(tmp_path, path, *options)
    found = clips(made)
    assert found.keys() == {"x.mp4#0", "x.mp4#4", "x.mp4#8"}
    assert np.array_equal(found["x.mp4#8"][2], found["x.mp4#8"][3])
    examples = made.examples()
    assert examples["x.mp4#8", 0]["clip/frames"] == [3]
    assert examples["x.mp4#4", 0]["clip/frames"] == [4]


@pytest.mark.parametrize("size", [(), ("--size", "20x30")])
@pytest.mark.parametrize("mode", ["rgb", "gray"])
def test_raw_clips_are_arrays(size, mode, tmp_path) -> None:
    root = tmp_path / "in"
    make_film(root / "a" / "x.mp4", 8, size=(48, 64))
    make_film(root / "b" / "y.mp4", 8, size=(32, 40))
    options = ("--clip-frames", 4, "--image-format", "raw", "--mode", mode, *size)
    made = made_of(tmp_path, root, *options)
    channels = 3 if mode == "rgb" else 1
    sides = (20, 30) if size else (None, None)
    feature = made.manifest.features["image/encoded"]
    assert (feature.raw_shape, feature.raw_dtype) == ((4, *sides, channels), "uint8")
    records = list(recordmill.read(made.folder, "train"))
    data = recordmill.load(made.folder, as_supervised=False).as_numpy_iterator()
    for record, loaded in zip(records, data, strict=True):
        pixels = record["image/encoded"]
        assert pixels.shape == (4, record["image/height"], record["image/width"], channels)
        np.testing.assert_array_equal(pixels, loaded["image/encoded"])
        if not size:
            name = record["clip/data_path"].decode()
            first = round(float(record["image/timestamp"][0]) / 40_000)
            stored = frames_of(root / name)[first]
            if mode == "gray":
                stored = np.asarray(Image.fromarray(stored).convert("L"))[..., None]
            assert difference(pixels[0], stored) < JPEG_ERROR
    assert (made.folder / "features.json").exists()
    if size:
        x, _ = next(
            iter(recordmill.load(made.folder, batch_size=2, augment="flip", normalize="unit"))
        )
        assert (x.shape, x.dtype) == ((2, 4, 20, 30, channels), tf.float32)


def test_all_frames_of_a_clip_are_varied_alike(tmp_path) -> None:
    """Where all frames are the same, they are after it; and it is no other than of a picture."""
    from recordmill.loading import images

    frame = tf.constant(picture(3, height=40, width=60))
    clip = tf.stack([frame] * 3)
    for names in (["flip"], ["crop"], ["rotate", "flip"], ["brightness", "contrast"]):
        for number in range(4):
            seed = tf.constant([7, number], tf.int64)
            varied = images.augment(clip, names, seed)
            single = images.augment(frame, names, seed)
            for one in varied:
                np.testing.assert_array_equal(one, single)


def test_tensorflow_reads_the_sequences(tmp_path) -> None:
    path = make_film(tmp_path / "in" / "x.mp4", 12)
    made = made_of(tmp_path, path, "--clip-frames", 3)
    context = {"image/height": tf.io.FixedLenFeature([], tf.int64)}
    steps = {
        "image/encoded": tf.io.FixedLenSequenceFeature([], tf.string),
        "image/timestamp": tf.io.FixedLenSequenceFeature([], tf.int64),
    }
    files = [str(made.folder / shard.file) for shard in made.manifest.splits["train"].shards]
    seen = 0
    for record in tf.data.TFRecordDataset(files):
        found, lists = tf.io.parse_single_sequence_example(record, context, steps)
        assert int(found["image/height"]) == 48
        assert lists["image/timestamp"].shape == (3,)
        assert tf.io.decode_jpeg(lists["image/encoded"][2]).shape == (48, 64, 3)
        seen += 1
    assert seen == 4


def test_an_output_of_any_name(tmp_path) -> None:
    path = make_film(tmp_path / "in" / "x.mp4", 20)
    named = os.fsdecode(os.fsencode(tmp_path) + b"/\xff out")
    digests = set()
    for out in (tmp_path / "plain", pathlib.Path(named)):
        options = (*ALL, "--clip-frames", 4, "--clip-stride", 2)
        assert run("video", "--input", path, "--output", out, *options) == 0
        digests.add(Made(out).manifest.digest)
    assert len(digests) == 1


def test_the_same_bytes_with_one_worker_and_with_two(tmp_path) -> None:
    for number in range(6):
        make_film(tmp_path / "in" / "ab"[number % 2] / f"{number}.mp4", 20 + number)
    digests = set()
    for workers in (1, 2):
        options = ("--num-shards", "train=3", "--balance", "oversample", "--workers", workers)
        options += ("--clip-frames", 4, "--clip-stride", 2, "--size", 32, "--seed", 3)
        out = tmp_path / f"out-{workers}"
        assert run("video", "--input", tmp_path / "in", "--output", out, *options) == 0
        digests.add(Made(out).manifest.digest)
    assert len(digests) == 1


def test_from_a_store_come_the_same_bytes(tmp_path) -> None:
    root = tmp_path / "in"
    make_film(root / "a" / "x.mp4", 12)
    make_film(root / "b" / "y.mkv", 12)
    make_film(root / "b" / "z.ts", 12)
    options = ("--clip-frames", 4, "--size", 32)
    here = made_of(tmp_path, root, *options)
    with s3_server() as uri:
        for path in root.rglob("*.*"):
            place = Location.parse(uri(f"films/{path.relative_to(root)}"))
            place.write_bytes(path.read_bytes())
        there = make(tmp_path / "there", "--input", uri("films"), *ALL, *options, command="video")
    assert there.manifest.digest == here.manifest.digest


def test_large_frames_are_rejects_by_their_header(tmp_path) -> None:
    make_film(tmp_path / "in" / "x.mp4", 4)
    make_film(tmp_path / "in" / "y.mp4", 4, size=(96, 128))
    options = ("--clip-frames", 4, "--max-pixels", 5000, "--max-reject-fraction", 1)
    made = made_of(tmp_path, tmp_path / "in", *options)
    assert made.rejects == {"y.mp4": "too_many_pixels"}


def test_inspect_shows_a_clip(tmp_path, capfd) -> None:
    path = make_film(tmp_path / "in" / "x.mp4", 8)
    made = made_of(tmp_path, path, "--clip-frames", 4)
    argv = ("inspect", "--dataset", made.folder, "--record", "0", "--split", "train")
    assert run_tool(*argv, "--save", tmp_path / "frame") == 0
    assert "JPEG 64x48 RGB" in capfd.readouterr().out
    with Image.open(tmp_path / "frame.jpg") as frame:
        assert frame.size == (64, 48)


WRONG = {
    "frames": (["--clip-frames", 0], "--clip-frames: expected 1 or more, got 0"),
    "fps": (["--fps", 0], "--fps: expected 0.001 to 10000"),
    "rest": (["--clip-rest", "keep"], "--clip-rest"),
    "column": (["--start-column", "x"], "--start-column: applies only to listings"),
    "mode": (["--resize-mode", "pad"], "--resize-mode pad: requires --size"),
    "huge": (
        ["--image-format", "raw", "--size", 8000, "--clip-frames", 64],
        "a clip takes 12288000000 bytes",
    ),
    "balance": (["--balance", "oversample"], "needs classes, and the input has none"),
    "rename": (["--rename", "image/encoded=image/format"], "would both be named"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_told_before_anything_is_written(name, tmp_path, capfd) -> None:
    options, message = WRONG[name]
    make_film(tmp_path / "in" / "x.mp4", 4)
    where = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert message in error_of(capfd, *where, *options)
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_listing_without_usable_rows_gives_the_reason_of_the_first(tmp_path, capfd) -> None:
    make_film(tmp_path / "x.mp4", 4)
    (tmp_path / "l.csv").write_text("file,from,to,action\nx.mp4,0,2,a\nx.mp4,0,2,b\n")
    where = ("--input", tmp_path / "l.csv", "--output", tmp_path / "out", "--clip-frames", 4)
    columns = ("--start-column", "from", "--end-column", "to", "--label-column", "action")
    said = error_of(capfd, *where, *columns)
    assert "no video can be used; the first: x.mp4: l.csv#1 has the same key as l.csv#2" in said


def test_an_input_without_films_and_columns_that_are_none(tmp_path, capfd) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.mp4").write_text("hello")
    where = ("--output", tmp_path / "out")
    assert "no video can be used; the first: x.mp4" in error_of(
        capfd, "--input", tmp_path / "in", *where
    )
    (tmp_path / "list.csv").write_text("path,begins\nin/x.mp4,soon\n")
    listing = ("--input", tmp_path / "list.csv", *where)
    told = error_of(capfd, *listing, "--start-column", "begin")
    assert "no column 'begin' (did you mean 'begins'?)" in told
    told = error_of(capfd, *listing, "--start-column", "begins")
    assert "begins: expected seconds as a number, got 'soon'" in told


def test_a_segment_that_says_no_seconds_is_a_reject(tmp_path) -> None:
    make_film(tmp_path / "x.mp4", 48)
    (tmp_path / "list.csv").write_text(
        "path,from,to\nx.mp4,0,1\nx.mp4,00:00:01,\nx.mp4,1,\nx.mp4,0.5,later\n"
    )
    columns = ("--start-column", "from", "--end-column", "to")
    made = made_of(
        tmp_path,
        tmp_path / "list.csv",
        *(*columns, "--clip-frames", 4, "--max-reject-fraction", 0.5),
    )
    assert {key.split("#")[0] for key in made.keys("train")} == {"x.mp4@0-1", "x.mp4@1-"}
    assert made.manifest.ledger.inputs.rejected == 2
    assert set(made.rejects.values()) == {"bad_value"}


def test_the_frames_of_real_films_are_all_there(tmp_path) -> None:
    """Counted by PyAV's own decoding, one clip a frame."""
    made = made_of(tmp_path, VIDEO, "--clip-frames", 1, "--size", 16)
    for name in ("wide.mp4", "qcif.mp4"):
        with av.open(str(VIDEO / name)) as film:
            count = sum(1 for _ in film.decode(video=0))
        keys = {key for key in made.keys("train") if key.startswith(name)}
        assert keys == {f"{name}#{number}" for number in range(count)}


def test_segments_of_films_in_a_table(tmp_path) -> None:
    """The columns of seconds are no features, however the end is given."""
    film = make_film(tmp_path / "x.mp4", 50).read_bytes()
    columns = {"key": ["one", "two"], "from": [0.0, 0.5], "to": [1.0, 1.0], "time": [1.0, 0.5]}
    table = pa.table(columns | {"film": pa.array([film, film], pa.binary())})
    for ends, other in (("end", "to"), ("duration", "time")):
        rest = table.drop_columns([{"to": "time", "time": "to"}[other]])
        pq.write_table(rest, tmp_path / f"{ends}.parquet")
    options = ("--bytes-column", "film", "--key-column", "key", "--clip-frames", 5)
    digests = set()
    for ends, column in (("end", "to"), ("duration", "time")):
        columns = ("--start-column", "from", f"--{ends}-column", column)
        source = tmp_path / f"{ends}.parquet"
        made = made_of(tmp_path / ends, source, *options, *columns)
        assert not {"from", column} & set(made.manifest.features)
        digests.add(made.manifest.digest)
    assert len(digests) == 1
