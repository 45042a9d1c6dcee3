"""The same bytes on Flink as on this machine, wherever Flink and its workers run."""

import json
import pathlib
import re
import shutil
import socket

import numpy as np
import pytest
from PIL import Image

from benchmarks.flink_cluster import WORKERS, FlinkCluster, processes, wait_until, worker_pool
from tests.archive_files import zip_of
from tests.flink.conftest import GZIP
from tests.flink.jobs import Job, command
from tests.media_tables import FORMS
from tests.painted_masks import png, shapes, write
from tests.paths import AIR, BOXES, DEMO, SMALL_CLOTHING, SMS
from tests.sounds import speech
from tests.tfrecord_inputs import write_records
from tests.video_files import make_film


def test_embedded(undisturbed, tmp_path):
    job = Job(tmp_path / "out").on_flink("--parallelism", "2")
    job.finish()
    assert job.files == undisturbed.files


@pytest.mark.parametrize("environment", ["loopback", "process"])
def test_on_a_cluster_whose_page_shows_the_eight_steps(environment, flink, undisturbed, tmp_path):
    before = set(flink.cluster.jobs())
    job = Job(tmp_path / "out").on(flink, environment)
    job.finish()
    assert job.files == undisturbed.files
    assert not (tmp_path / "out" / ".recordmill").exists()
    (number,) = set(flink.cluster.jobs()) - before
    plan = flink.cluster._call("GET", f"/v1/jobs/{number}/plan")["plan"]
    described = " ".join(node["description"] for node in plan["nodes"])
    steps = ["Read", "Check", "AssignSplits", "Analyze", "Rebalance", "Reshuffle"]
    for step in [*steps, "WriteToTFRecord", "Publish"]:
        assert re.search(rf"\b{step}\b", described), f"{step} is not in: {described}"


def test_with_a_worker_pool_and_gzip_and_everything_spilled(flink, large, tmp_path):
    with worker_pool() as address:
        options = ("--environment-config", address, "--parallelism", "2", "--spill-above", "1")
        job = Job(tmp_path / "out", *GZIP, source=SMALL_CLOTHING).on(flink, "external", *options)
        job.finish_here()
        assert job.files == large.files
        assert command("verify", "--dataset", str(job.output)).code == 0
    # Nothing of all that is left: no worker, no jar on the cluster.
    wait_until(lambda: not list(processes(*WORKERS)), "the end of all workers")
    assert flink.cluster._call("GET", "/v1/jars")["files"] == []


def test_a_stratified_split_and_a_dry_run(flink, tmp_path, capsys):
    options = ("--stratify", "--balance", "undersample")
    direct, other = Job(tmp_path / "direct", *options), Job(tmp_path / "flink", *options)
    direct.finish_here()
    other.on(flink, "loopback").finish_here()
    assert other.files == direct.files
    capsys.readouterr()
    planned = []
    dry = Job(tmp_path / "dry", "--dry-run")
    for job in (dry, dry.on(flink, "loopback")):
        job.finish_here()
        planned.append(capsys.readouterr().out)
    counts = [[line for line in text.splitlines() if "takes" not in line] for text in planned]
    assert "train" in planned[0]
    assert not (tmp_path / "dry" / "dataset.json").exists()
    assert counts[0] == counts[1]


def test_boxes_and_pictures_of_several_classes(flink, tmp_path):
    for path in (BOXES / "images").iterdir():
        with Image.open(path) as image:
            ids = Image.fromarray(shapes(image.width, image.size))
        write(tmp_path, f"masks/images/{path.stem}.png", png(ids))
    coco = json.loads((BOXES / "annotations.json").read_text())
    for one in coco["annotations"]:
        x, y, width, height = one["bbox"]
        right, low = x + width, y + height
        one["segmentation"] = [[x, y, right, y, right, low, x, low]]
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    options = (
        *("--masks", str(tmp_path / "masks"), "--instance-masks", "--no-segmentation"),
        *(
            "--annotations",
            str(tmp_path / "coco.json"),
            "--stratify",
            "--augment",
            "flip,rotate",
        ),
        *("--balance-target", "repeat:0.5", "--spill-above", "1"),
    )
    direct = Job(tmp_path / "direct", *options, source=BOXES)
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=BOXES).on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files
    anew = ("--split-from", "none", "--stratify", "--size", "48", "--balance-target", "repeat:0.5")
    again = Job(tmp_path / "again", *anew, source=direct.output)
    again.finish_here()
    job = Job(tmp_path / "again-flink", *anew, source=direct.output).on(flink, "loopback")
    job.finish_here()
    assert job.files == again.files


@pytest.mark.parametrize("mode", ["drop", "group"])
def test_texts_and_what_is_learned_from_them(flink, tmp_path, mode):
    options = (
        *("--format", "tsv", "--dedup", mode, "--features", "text,tokens,tfidf", "--ngrams", "2"),
        *("--augment", "word-swap", "--spill-above", "1"),
    )
    direct = Job(tmp_path / "direct", *options, source=SMS, kind="text")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=SMS, kind="text").on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files


def test_records_of_several_labels_that_fulfil_a_condition(flink, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(4):
        rows = [
            {
                "text": f"text {number} {row}",
                "label": [name for place, name in enumerate("abcde") if row * 7 % (place + 2) == 0],
                "from": {"day": row % 5},
            }
            for row in range(300)
        ]
        lines = "\n".join(map(json.dumps, rows))
        (tmp_path / "in" / f"{number}.jsonl").write_text(lines)
    options = (
        *("--text-column", "text", "--stratify", "--unlabelled", "keep", "--spill-above", "1"),
        *("--where", "`from.day` > 0", "--limit-per-class", "200"),
    )
    direct = Job(tmp_path / "direct", *options, source=tmp_path / "in", kind="text")
    direct.finish_here()
    other = Job(tmp_path / "flink", *options, source=tmp_path / "in", kind="text")
    job = other.on(flink, "loopback")
    job.finish_here()
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
        options += ("--label-column", "y", "--split-by", "time", "--last-window", "test")
        options += ("--horizon", "2", "--target", "x", "--zscore", "x", "--zscore-by", "series")
    direct = Job(tmp_path / "direct", *options, source=tmp_path / "in", kind=kind)
    direct.finish_here()
    other = Job(tmp_path / "flink", *options, source=tmp_path / "in", kind=kind)
    job = other.on(flink, "loopback")
    job.finish_here()
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
    direct = Job(tmp_path / "direct", *options, source=rows, kind="table")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=rows, kind="table").on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files


def test_images_of_equal_and_similar_content(flink, tmp_path):
    """Records of several parts meet by their content, and by bands of their hashes."""
    folder = tmp_path / "in"
    shutil.copytree(DEMO, folder)
    for number, path in enumerate(sorted(folder.glob("*/*.jpg"))[::4]):
        if number % 2:
            shutil.copy(path, path.with_name(f"same-{number}.jpg"))
        else:
            image = Image.open(path)
            half = image.resize((image.width // 2, image.height // 2))
            half.save(path.with_name(f"half-{number}.jpg"))
    options = ("--size", "32", "--dedup", "drop", "--near-duplicates", "group")
    direct = Job(tmp_path / "direct", *options, source=folder)
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=folder).on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files
    assert {"duplicates.jsonl", "near_duplicates.jsonl"} <= direct.files.keys()


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
    direct = Job(tmp_path / "direct", *options, source=folder, kind="table")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=folder, kind="table").on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files


def test_the_pool_listens_here_alone_and_takes_no_port_twice():
    with worker_pool() as address:
        port = address.rpartition(":")[2]
        with socket.socket() as probe:
            own = socket.gethostbyname(socket.gethostname())
            if not own.startswith("127."):
                assert probe.connect_ex((own, int(port))) != 0
        second = command("worker-pool", "--port", port)
        assert second.code == 2
        assert f"cannot listen at 127.0.0.1:{port}" in second.last


def test_jobs_of_two_outputs_share_a_cluster(
    flink: FlinkCluster, undisturbed, tmp_path: pathlib.Path
):
    jobs = [Job(tmp_path / name).on(flink, "loopback", "--parallelism", "1") for name in "ab"]
    running = [job.start() for job in jobs]
    for process in running:
        _, err = process.communicate(timeout=280)
        assert process.returncode == 0, err[-2000:]
    assert [job.files for job in jobs] == [undisturbed.files] * 2


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
    direct = Job(tmp_path / "direct", *options, source=AIR, kind="table")
    direct.finish_here()
    assert "out_of_schema" in (tmp_path / "direct" / "rejects.jsonl").read_text()
    job = Job(tmp_path / "flink", *options, source=AIR, kind="table").on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files


def test_what_an_earlier_dataset_learned(flink, tmp_path):
    options = ("--zscore", "x", "--vocabulary", "word")
    for name, step in (("old", 1), ("new", 3)):
        lines = [f"{n * step % 31},{'abcd'[n * step % 3]},{'ab'[n % 2]}" for n in range(200)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,word,label", *lines]) + "\n")
    old = Job(tmp_path / "old", *options, source=tmp_path / "old.csv", kind="table")
    old.finish_here()
    options = (*options, "--learned-from", str(old.output), "--max-drift", "0.9")
    direct = Job(tmp_path / "direct", *options, source=tmp_path / "new.csv", kind="table")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=tmp_path / "new.csv", kind="table")
    job = job.on(flink, "loopback")
    job.finish_here()
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
    direct = Job(tmp_path / "direct", *options, source=AIR, kind="sensor")
    direct.finish_here()
    assert "out_of_schema" in (tmp_path / "direct" / "rejects.jsonl").read_text()
    job = Job(tmp_path / "flink", *options, source=AIR, kind="sensor").on(flink, "loopback")
    job.finish_here()
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
    direct = Job(tmp_path / "direct", *options, source=source, kind="video")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=source, kind="video").on(flink, "loopback")
    job.finish_here()
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
    direct = Job(tmp_path / "direct", *options, source=source, kind="arrays")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=source, kind="arrays").on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files


@pytest.mark.parametrize("mode", ["start", "split"])
def test_audio(flink, tmp_path, mode):
    source = speech(tmp_path / "speech", speakers=4)
    (source / "go" / "bad.wav").write_bytes(b"RIFF")
    options = (
        *("--sample-rate", "16000", "--clip", "150ms", "--clip-mode", mode, "--augment", "noise"),
        *("--features", "melspectrogram", "--max-reject-fraction", "0.1", "--spill-above", "1"),
    )
    direct = Job(tmp_path / "direct", *options, source=source, kind="audio")
    direct.finish_here()
    job = Job(tmp_path / "flink", *options, source=source, kind="audio").on(flink, "loopback")
    job.finish_here()
    assert job.files == direct.files


def test_records_of_an_earlier_dataset(flink, undisturbed, tmp_path):
    """A run on the cluster reuses what was made here; nothing is encoded but what is new."""
    earlier = Job(tmp_path / "earlier", "--splits", "train=1", "--num-shards", "3")
    earlier.finish_here()
    job = Job(tmp_path / "out", "--reuse", str(earlier.output)).on(flink, "loopback")
    job.finish_here()
    assert job.files == undisturbed.files
    written = json.loads((tmp_path / "out/dataset.json").read_text())["ledger"]
    counts = written["records"]["written"] + written["copies"]["written"]
    assert json.loads((tmp_path / "out/job.json").read_text())["reused"] == counts


@pytest.mark.parametrize("kind", ["zip", "tfrecord"])
def test_an_archive(kind, flink, tmp_path):
    photos = {str(path.relative_to(DEMO)): path.read_bytes() for path in DEMO.rglob("*.jpg")}
    options = ()
    if kind == "zip":
        archive = zip_of(tmp_path / "photos.zip", photos)
    else:
        records = [
            {"key": [key.encode()], "image": [data], "label": [key.split("/")[0].encode()]}
            for key, data in photos.items()
        ]
        archive = write_records(tmp_path / "photos.tfrecord", records)
        options = ("--key-column", "key")
    direct = Job(tmp_path / "direct", *options, source=archive)
    direct.finish_here()
    other = Job(tmp_path / "flink", *options, source=archive).on(flink, "loopback")
    other.finish_here()
    assert other.files == direct.files
    if kind == "zip":
        hub, *options = FORMS["hub"](photos, tmp_path)
        table = Job(tmp_path / "table", *options, source=hub).on(flink, "loopback")
        table.finish_here()
        places = (tmp_path / name / "dataset.json" for name in ("table", "direct"))
        digests = {json.loads(place.read_text())["digest"] for place in places}
        assert len(digests) == 1
