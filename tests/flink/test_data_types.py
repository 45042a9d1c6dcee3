"""The same bytes on Flink as on this machine, for rows, videos, arrays and audio."""

import pathlib

import numpy as np
import pytest

from benchmarks.rows import write_wide_rows
from tests.flink.jobs import Job, finish_both
from tests.paths import AIR, SMS
from tests.sounds import speech
from tests.video_files import make_film


@pytest.mark.parametrize("mode", ["drop", "group"])
def test_texts_and_what_is_learned_from_them(flink, tmp_path, mode):
    options = (
        *("--format", "tsv", "--dedup", mode, "--features", "text,tokens,tfidf", "--ngrams", "2"),
        *("--augment", "word-swap", "--spill-above", "1"),
    )
    direct, job = finish_both(flink, tmp_path, *options, source=SMS, kind="text")
    assert job.files == direct.files


@pytest.mark.parametrize("kind", ["arrays", "sensor"])
def test_numbers_to_predict_in_bins(flink, kind, tmp_path):
    rng = np.random.default_rng(5)
    (tmp_path / "in").mkdir()
    options: tuple[str, ...] = ("--label-type", "float", "--label-bins", "7", "--spill-above", "1")
    options += ("--balance", "undersample", "--max-reject-fraction", "0.1")
    for number in range(5):
        targets = np.where(rng.random(700) < 0.02, np.nan, rng.exponential(3, 700))
        if kind == "arrays":
            np.savez(tmp_path / "in" / f"{number}.npz", x=rng.random((700, 4)), y=targets)
            continue
        lines = [f"{60 * row},{row}.5,{target}" for row, target in enumerate(targets)]
        text = "\n".join(["time,x,y", *lines]).replace("nan", "")
        (tmp_path / "in" / f"{number}.csv").write_text(text)
    if kind == "arrays":
        options += ("--array", "x", "--label-array", "y", "--per-item", "--stratify")
    else:
        options += ("--time-column", "time", "--window", "6", "--window-label", "ahead:3")
        options += ("--label-column", "y", "--split-by", "series-time", "--last-window", "test")
        options += ("--horizon", "2", "--target", "x", "--zscore", "x", "--zscore-by", "series")
    direct, job = finish_both(flink, tmp_path, *options, source=tmp_path / "in", kind=kind)
    assert job.files == direct.files


def test_a_table_with_equal_rows_groups_samples_and_buckets(flink, tmp_path):
    """Whatever compares rows of several parts before they are split."""
    rng = np.random.default_rng(5)
    lines = [
        f"{rng.integers(40)},{'' if n % 9 == 0 else rng.integers(6)},{rng.choice(['a', 'A', 'b'])},"
        f"g{rng.integers(90)}"
        for n in range(3000)
    ]
    rows = tmp_path / "rows.csv"
    rows.write_text("\n".join(["x,y,label,group", *lines]))
    options = (
        *("--group-column", "group", "--stratify", "--fold-labels", "--limit-per-class", "800"),
        *("--bucketize", "x=7", "--impute", "y=median", "--spill-above", "1"),
    )
    direct, job = finish_both(flink, tmp_path, *options, source=rows, kind="table")
    assert job.files == direct.files


def test_rows_that_repeat_a_key(flink, tmp_path):
    rng = np.random.default_rng(7)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        rows = [(rng.integers(900), rng.integers(2)) for _ in range(400)]
        lines = [f'k{one}; "{two},5" ;"a \\"b\\""' for one, two in rows]
        (folder / f"{number}.csv").write_text("\n".join(["by hand", "id;x;label", *lines]))
    options = ("--key-column", "id", "--max-reject-fraction", "1", "--skip-rows", "1")
    options = (*options, "--trim", "--escape", "\\", "--decimal", ",", "--delimiter", ";")
    direct, job = finish_both(flink, tmp_path, *options, source=folder, kind="table")
    assert job.files == direct.files


def narrowed(schema: pathlib.Path) -> tuple[str, ...]:
    """Options that reject the rows that are hotter than 40 degrees."""
    text = schema.read_text()
    assert text.count("max: 44.6") == 1
    schema.write_text(text.replace("max: 44.6", "max: 40"))
    return "--schema", str(schema), "--max-reject-fraction", "1"


def test_a_table_and_what_is_learned_from_it(flink, tmp_path):
    options = (
        *("--delimiter", ";", "--decimal", ",", "--missing", "-200", "--vocabulary", "Time"),
        *("--zscore", "T,RH", "--impute", "AH=median", "--bucketize", "AH=7", "--one-hot", "Date"),
        *("--num-shards", "train=4", "--balance", "none", "--spill-above", "1"),
        *("--label-column", "PT08.S1(CO)", "--label-type", "float", "--unlabelled", "keep"),
        *("--label-bins", "5", "--stratify"),
    )
    here, there = tmp_path / "here.pbtxt", tmp_path / "there.pbtxt"
    jobs = [
        Job(tmp_path / "none", *options, "--infer-schema", str(place), source=AIR, kind="table")
        for place in (here, there)
    ]
    jobs[0].finish_here()
    jobs[1].on(flink, "loopback").finish_here()
    assert here.read_bytes() == there.read_bytes()
    options += narrowed(here)
    direct, job = finish_both(flink, tmp_path, *options, source=AIR, kind="table")
    assert "out_of_schema" in (tmp_path / "direct" / "rejects.jsonl").read_text()
    assert job.files == direct.files


def test_statistics_of_a_wide_table(flink, tmp_path):
    """Even those of one part are larger than Flink's sort buffer."""
    rows = tmp_path / "rows.csv"
    write_wide_rows(10_000, 60, rows)
    direct, job = finish_both(flink, tmp_path, source=rows, kind="table")
    assert job.files == direct.files


def test_what_an_earlier_dataset_learned(flink, tmp_path):
    options = ("--zscore", "x", "--vocabulary", "word")
    for name, step in (("old", 1), ("new", 3)):
        lines = [f"{n * step % 31},{'abcd'[n * step % 3]},{'ab'[n % 2]}" for n in range(200)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,word,label", *lines]) + "\n")
    old = Job(tmp_path / "old", *options, source=tmp_path / "old.csv", kind="table")
    old.finish_here()
    options = (*options, "--learned-from", str(old.output), "--max-drift", "0.9")
    direct, job = finish_both(flink, tmp_path, *options, source=tmp_path / "new.csv", kind="table")
    assert job.files == direct.files
    assert job.files["learned.json"] == old.files["learned.json"]


def test_windows_of_series(flink, tmp_path):
    options = (
        *("--delimiter", ";", "--decimal", ",", "--missing", "-200", "--time-column", "Date,Time"),
        *("--time-format", "%d/%m/%Y %H.%M.%S", "--window", "24", "--stride", "6"),
        *("--split-by", "time", "--purge", "1d", "--zscore", "T,RH", "--bucketize", "AH=7"),
        *("--num-shards", "train=4", "--balance", "none", "--spill-above", "1"),
    )
    schema = tmp_path / "air.pbtxt"
    Job(
        tmp_path / "none", *options, "--infer-schema", str(schema), source=AIR, kind="sensor"
    ).finish_here()
    options += narrowed(schema)
    direct, job = finish_both(flink, tmp_path, *options, source=AIR, kind="sensor")
    assert "out_of_schema" in (tmp_path / "direct" / "rejects.jsonl").read_text()
    assert job.files == direct.files


def test_films(flink, tmp_path):
    source = tmp_path / "films"
    for number in range(8):
        path = source / "ab"[number % 2] / f"{number}.mp4"
        make_film(path, 40 + number, offset=7 * number, sound=number == 3)
    (source / "a" / "bad.mp4").write_text("no film")
    options = (
        *("--clip-frames", "8", "--clip-stride", "4", "--fps", "20", "--size", "32"),
        *("--max-reject-fraction", "0.2", "--spill-above", "1", "--num-shards", "train=3"),
    )
    direct, job = finish_both(flink, tmp_path, *options, source=source, kind="video")
    assert job.files == direct.files


def test_arrays(flink, tmp_path):
    draw = np.random.default_rng(3)
    for number in range(40):
        folder = tmp_path / "volumes" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        array = draw.normal(size=(8 + number % 3, 5, 6))
        np.save(folder / f"{number}.npy", np.asfortranarray(array) if number % 4 else array)
    (tmp_path / "volumes" / "a" / "bad.npy").write_bytes(b"\x93NUMPY")
    options = (
        *("--chunk", "4", "--chunk-axis", "1", "--chunk-stride", "2", "--dtype", "float32"),
        *("--cast", "same-kind", "--max-reject-fraction", "0.1", "--spill-above", "1"),
    )
    source = tmp_path / "volumes"
    direct, job = finish_both(flink, tmp_path, *options, source=source, kind="arrays")
    assert job.files == direct.files


@pytest.mark.parametrize("mode", ["start", "split"])
def test_audio(flink, tmp_path, mode):
    source = speech(tmp_path / "speech", speakers=4)
    (source / "go" / "bad.wav").write_bytes(b"RIFF")
    options = (
        *("--sample-rate", "16000", "--clip", "150ms", "--clip-mode", mode, "--augment", "noise"),
        *("--features", "melspectrogram", "--max-reject-fraction", "0.1", "--spill-above", "1"),
    )
    direct, job = finish_both(flink, tmp_path, *options, source=source, kind="audio")
    assert job.files == direct.files
