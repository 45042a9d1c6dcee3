"""The same bytes on Flink as on this machine, wherever Flink and its workers run."""

import json
import pathlib
import re
import shutil
import socket

import numpy as np
import pytest
from PIL import Image

from benchmarks.flink_cluster import FlinkCluster, wait_for_end_of_workers, worker_pool
from tests.archive_files import zip_of
from tests.flink.conftest import GZIP
from tests.flink.jobs import Job, command, finish_both
from tests.media_tables import FORMS
from tests.painted_masks import png, shapes, write
from tests.paths import BOXES, DEMO, SMALL_CLOTHING
from tests.tfrecord_inputs import write_records


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
    wait_for_end_of_workers()
    assert flink.cluster._call("GET", "/v1/jars")["files"] == []


def test_a_shard_that_all_slots_encode(flink, tmp_path):
    """A task encodes a few of these images, so the shard is divided."""
    noise = np.random.default_rng(7)
    for number in range(30):
        pixels = noise.integers(0, 256, (400, 400, 3), dtype=np.uint8)
        write(tmp_path, f"in/{number % 2}/{number}.png", png(Image.fromarray(pixels)))
    options = ("--num-shards", "1", "--size", "384", "--balance", "none")
    one, other = (
        Job(tmp_path / name, *options, source=tmp_path / "in") for name in ("one", "other")
    )
    one.finish_here()
    other.on(flink, "loopback", "--parallelism", "2").finish_here()
    assert other.files == one.files


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
        one["keypoints"] = [x, y, 2]
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
    direct, job = finish_both(flink, tmp_path, *options, source=BOXES)
    assert job.files == direct.files
    assert "taken as stored: keypoints of" in (tmp_path / "direct" / "dataset.json").read_text()
    anew = ("--split-from", "none", "--stratify", "--size", "48", "--balance-target", "repeat:0.5")
    again = Job(tmp_path / "again", *anew, source=direct.output)
    again.finish_here()
    job = Job(tmp_path / "again-flink", *anew, source=direct.output).on(flink, "loopback")
    job.finish_here()
    assert job.files == again.files


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
    direct, job = finish_both(flink, tmp_path, *options, source=tmp_path / "in", kind="text")
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
    direct, job = finish_both(flink, tmp_path, *options, source=folder)
    assert job.files == direct.files
    assert {"duplicates.jsonl", "near_duplicates.jsonl"} <= direct.files.keys()


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
    direct, job = finish_both(flink, tmp_path, *options, source=archive)
    assert job.files == direct.files
    if kind == "zip":
        hub, *options = FORMS["hub"](photos, tmp_path)
        table = Job(tmp_path / "table", *options, source=hub).on(flink, "loopback")
        table.finish_here()
        places = (tmp_path / name / "dataset.json" for name in ("table", "direct"))
        digests = {json.loads(place.read_text())["digest"] for place in places}
        assert len(digests) == 1
