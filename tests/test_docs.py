"""README and docs say what is so: their commands run or parse, their code runs, links lead on."""

import importlib
import importlib.util
import io
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import recordmill
from recordmill.errors import Reason
from recordmill.format.manifest import load
from recordmill.options.declaration import options_of
from recordmill.pipelines.cli import main
from recordmill.pipelines.commands import (
    bench_load_command,
    dataset_commands,
    diff_command,
    export_command,
    export_index_command,
    flink_commands,
    report_command,
)
from recordmill.pipelines.options.arguments import command_line
from recordmill.pipelines.options.common import job_file
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.pipelines.options.inputs.adopt_config import AdoptConfig
from recordmill.processes.pool import close_shared_pool
from recordmill.report import contact_sheet
from recordmill.storage.files import Location
from tests.doc_commands import PAGES, blocks, commands, layout_commands
from tests.paths import BOXES, DEMO, ROOT
from tests.sounds import speech
from tests.video_files import make_film

CONFIGS = {
    **{
        name: getattr(importlib.import_module(one.module), one.config)
        for name, one in DATA_TYPES.items()
    },
    "adopt": AdoptConfig,
    "verify": dataset_commands.VerifyConfig,
    "inspect": dataset_commands.InspectConfig,
    "diff": diff_command.DiffConfig,
    "report": report_command.ReportPageConfig,
    "bench-load": bench_load_command.BenchLoadConfig,
    "export-transform": export_command.ExportConfig,
    "export-index": export_index_command.ExportIndexConfig,
    "status": flink_commands.StatusConfig,
    "cancel": flink_commands.CancelConfig,
    "worker-pool": flink_commands.PoolConfig,
    "flink-library": flink_commands.LibraryConfig,
}
KINDS = tuple(DATA_TYPES)
PAGE_OF = dict.fromkeys(("status", "cancel", "worker-pool", "flink-library"), "flink")


ALL_COMMANDS = [
    pytest.param(page, words, id=f"{page.name}: {' '.join(words)[:60]}")
    for page in PAGES
    for words in commands(page)
]


@pytest.mark.parametrize(("page", "words"), ALL_COMMANDS)
def test_every_command_is_one(page, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for job in blocks(page, "yaml"):
        (tmp_path / "job.yaml").write_text(job)
    command, *flags = words
    if command == "--config":
        command, flags = job_file.command_of(tmp_path / flags[0]), words
    if command == "diff":
        flags = diff_command.with_flags(flags)
    parsed = command_line.parse(CONFIGS[command], flags, prog=command)
    assert isinstance(parsed.config, CONFIGS[command])
    assert parsed.passthrough == []


LAYOUTS = [
    pytest.param(words[0], words[1:], id=f"{page.name}: {' '.join(words)[:60]}")
    for page in PAGES
    for words in layout_commands(page)
]


@pytest.mark.parametrize(("command", "flags"), LAYOUTS)
def test_every_command_for_a_layout_is_one(command, flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parsed = command_line.parse(CONFIGS[command], [*flags, "--output", "out"], prog=command)
    assert isinstance(parsed.config, CONFIGS[command])
    assert parsed.passthrough == []


def test_the_pages_of_data_types_begin_with_layouts():
    for name in ("README.md", "docs/images.md", "docs/text.md", "docs/audio.md"):
        assert layout_commands(ROOT / name), name


@pytest.mark.parametrize("command", CONFIGS)
def test_a_page_names_every_option_of_its_command_and_no_other(command):
    named = named_in(PAGE_OF.get(command, command))
    declared = declared_by(command)
    common = named_in("options") | named_in("duplicates")
    assert declared - (named | common if command in KINDS else named) == set()
    if command not in PAGE_OF:
        assert named - declared <= {"config", "print-config", "output", "report"}


def test_the_common_page_names_no_option_that_there_is_not():
    declared = set.union(*map(declared_by, KINDS))
    assert named_in("options") - declared <= {"config", "print-config", "help"}


def named_in(page: str) -> set[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return set(re.findall(r"--(?:no-)?([a-z][a-z0-9-]*)", text))


def declared_by(command: str) -> set[str]:
    return {one.key.removeprefix("no-") for one in options_of(CONFIGS[command]).values()}


def test_every_reason_of_a_reject_is_explained():
    section = (ROOT / "docs" / "options.md").read_text().split("\n## ")[-2]
    assert section.startswith("Rejects")
    assert set(re.findall(r"^\| `([a-z_]+)`", section, re.MULTILINE)) == set(Reason)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_demo_is_small_and_has_its_licence():
    pictures = list(DEMO.rglob("*.jpg"))
    assert len(pictures) >= 60
    assert sum(path.stat().st_size for path in pictures) < 10**6
    assert "CC0 1.0 Universal" in (ROOT / "examples" / "clothing.LICENSE").read_text()
    assert (ROOT / "docs" / "contact-sheet.png").stat().st_size < 300_000


@pytest.fixture(scope="module")
def readme_dataset(tmp_path_factory):
    """The folder in which the README's commands ran, on the pictures of the demo and some texts."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(DEMO, folder / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        lines = [f"{'bad' if i % 3 else 'good'},review {i} is {i % 7}" for i in range(90)]
        (folder / "reviews.csv").write_text("\n".join(["label,text", *lines]))
        jobs = ("clerk", "cook", "pilot")
        people = [
            f"{20 + i % 50},{i % 41},{'office' if i % 3 else '?'},{jobs[i % 3]},{i % 4 == 0}"
            for i in range(200)
        ]
        (folder / "people.csv").write_text("\n".join(["age,hours,work,job,income", *people]))
        (folder / "plant").mkdir()
        for name in ("one", "two"):
            hours = [f"2026-01-{1 + i // 24:02d},{i % 24:02d}:00,{i % 7}" for i in range(700)]
            (folder / "plant" / f"{name}.csv").write_text("\n".join(["date,time,heat", *hours]))
        (folder / "volumes").mkdir()
        for number in range(6):
            np.save(folder / "volumes" / f"{number}.npy", np.ones((40, 3, 2), "f4") * number)
        speech(folder / "speech", speakers=9)
        for number in range(4):
            label = ("run", "walk")[number % 2]
            make_film(folder / "videos" / label / f"{number}.mp4", 40, offset=8 * number)
        images, *others = commands(ROOT / "README.md")
        assert main([*images, "--quiet"]) == 0
        for command in others:
            assert main(command) == 0
    return folder


def test_readme_commands_make_a_balanced_dataset(readme_dataset):
    manifest = load(Location.parse(str(readme_dataset / "out")))
    train, validation, test = (manifest.splits[s] for s in ("train", "validation", "test"))
    assert len(set(train.classes.values())) == 1
    assert validation.records
    assert test.records
    assert manifest.ledger.records.written == len(list(DEMO.rglob("*.jpg")))
    windows = load(Location.parse(str(readme_dataset / "plant-windows")))
    assert windows.ledger.inputs.read + windows.ledger.inputs.filtered == 1400
    assert windows.features["heat"].shape == (24,)
    people = load(Location.parse(str(readme_dataset / "people")))
    assert len(set(people.splits["train"].classes.values())) == 1
    texts = load(Location.parse(str(readme_dataset / "reviews")))
    assert len(set(texts.splits["train"].classes.values())) == 1
    assert texts.ledger.records.written == 90
    slabs = load(Location.parse(str(readme_dataset / "slabs")))
    assert slabs.ledger.records.written == 6 * 4
    assert slabs.features["array/encoded"].raw_shape == (16, 3, 2)
    clips = load(Location.parse(str(readme_dataset / "clips")))
    assert clips.ledger.records.written == 4 * 4
    assert clips.features["image/encoded"].raw_shape == (112, 112, 3)
    words = load(Location.parse(str(readme_dataset / "words")))
    assert words.labels == ("aye", "go", "yes")


def test_the_pipeline_of_the_readme_makes_the_dataset_of_its_command(readme_dataset, monkeypatch):
    monkeypatch.chdir(readme_dataset)
    exec(blocks(ROOT / "README.md", "python")[0], {"__name__": "example"})
    by_code, by_command = (load(Location.parse(name)) for name in ("by-code", "out"))
    assert {n: s.classes for n, s in by_code.splits.items()} == {
        n: s.classes for n, s in by_command.splits.items()
    }
    assert by_code.labels == by_command.labels


@pytest.mark.parametrize(
    "number", range(1, 5), ids=["training", "tensorflow", "tfds", "without tensorflow"]
)
def test_readme_code_reads_it_back(number, readme_dataset, monkeypatch, capfd):
    monkeypatch.chdir(readme_dataset)
    namespace: dict = {}
    exec(blocks(ROOT / "README.md", "python")[number], namespace)
    printed = capfd.readouterr().out.splitlines()
    records = load(Location.parse("out")).splits["train"].records
    match number:
        case 1:
            assert len(namespace["model"].history.history["val_accuracy"]) == 2
        case 2:
            assert printed[0] == "(32, 224, 224, 3) (32,)"
            assert sum(int(re.match(r"\((\d+)", line)[1]) for line in printed) == records
        case 3:
            assert len(list(namespace["train"])) == records
        case 4:
            assert len(printed) == records


def test_the_code_about_loading_runs(readme_dataset, monkeypatch, capfd):
    monkeypatch.chdir(readme_dataset)
    (images, *_) = commands(ROOT / "README.md")
    other = [one.replace("out/", "other/") for one in images]
    assert main([*other, "--seed", "1", "--quiet"]) == 0
    namespace: dict = {}
    for code in blocks(ROOT / "docs" / "loading.md", "python"):
        exec(code, namespace)
    (shown,) = re.findall(r"# (\(.*)", (ROOT / "docs" / "loading.md").read_text())
    assert shown in capfd.readouterr().out
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    spread = strategy.distribute_datasets_from_function(namespace["part"])
    assert len(next(iter(spread))) == 3
    assert next(iter(namespace["mixed"]))[0].shape[0] == 64
    for code in blocks(ROOT / "docs" / "resume.md", "python")[:2]:
        exec(code, namespace)
    assert next(iter(namespace["train"]))[0].shape[0] <= 16


def test_the_code_about_arrays_reads_them_back(readme_dataset):
    namespace: dict = {}
    (code,) = blocks(ROOT / "docs" / "arrays.md", "python")
    exec(code, namespace)
    split = recordmill.read(readme_dataset / "slabs", "train")
    files = sorted(map(str, (readme_dataset / "slabs").glob("train.tfrecord-*")))
    for array, record in zip(
        tf.data.TFRecordDataset(files).map(namespace["parse"]), split, strict=True
    ):
        np.testing.assert_array_equal(array, record["array/encoded"])


def test_the_code_about_films_reads_them_back(readme_dataset):
    namespace: dict = {}
    (code,) = blocks(ROOT / "docs" / "video.md", "python")
    exec(code, namespace)
    split = recordmill.read(readme_dataset / "clips", "train")
    files = sorted(map(str, (readme_dataset / "clips").glob("train.tfrecord-*")))
    for (frames, label), record in zip(
        tf.data.TFRecordDataset(files).map(namespace["parse"]), split, strict=True
    ):
        assert frames.shape == (16, 112, 112, 3)
        assert label == record["clip/label/index"]


def test_the_contact_sheet_draws_every_record(readme_dataset, capsys):
    target = readme_dataset / "sheet.png"
    arguments = ["inspect", "--sheet", str(target), "--tile-size", "40"]
    assert main([*arguments, "--dataset", str(readme_dataset / "out")]) == 0
    assert str(target) in capsys.readouterr().out
    with Image.open(target) as picture:
        picture = picture.convert("RGB")
    copies = load(Location.parse(str(readme_dataset / "out"))).ledger.copies.written
    frame = tuple(bytes.fromhex(contact_sheet.COPY[1:]))
    colours = {colour: n for n, colour in picture.getcolors(picture.width * picture.height)}
    around = 38 * 38 - (38 - 2 * contact_sheet.FRAME) ** 2  # pixels of a frame
    legend = 15 * 15 - (15 - 2 * contact_sheet.FRAME) ** 2
    assert colours[frame] == copies * around + legend
    assert main([*arguments, "--dataset", str(readme_dataset)]) == 1
    assert "no dataset" in capsys.readouterr().err


def test_a_kind_can_be_added_as_the_page_shows(tmp_path, monkeypatch):
    (code,) = blocks(ROOT / "docs" / "adding-a-data-type.md", "python")
    (tmp_path / "lines.py").write_text(code)
    (tmp_path / "texts").mkdir()
    for label, count in {"ham": 60, "spam": 20}.items():
        lines = [f"{label} line {number}" for number in range(count)]
        (tmp_path / "texts" / f"{label}.txt").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    close_shared_pool()  # its processes know the path of before
    assert importlib.import_module("lines").main() == 0
    assert main(["verify", "--dataset", "out", "--quiet"]) == 0
    written = load(Location.parse("out"))
    assert written.ledger.records.written == 80
    assert len(set(written.splits["train"].classes.values())) == 1
    assert len(written.splits["train"].shards) == 2


def test_the_reject_of_the_page_is_what_is_written(tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(DEMO / "hat", photos / "roses")
    (photos / "roses" / "notes.jpg").write_text("no picture")
    flags = ["--size", "8", "--balance", "oversample", "--max-reject-fraction", "1", "--quiet"]
    places = ["--input", str(photos), "--output", str(tmp_path / "out")]
    assert main(["images", *places, *flags]) == 0
    (shown,) = blocks(ROOT / "docs" / "output.md", "json")
    assert json.loads((tmp_path / "out" / "rejects.jsonl").read_text()) == json.loads(shown)


def test_the_contact_sheet_draws_clips_as_strips(readme_dataset):
    target = readme_dataset / "strips.png"
    arguments = ["inspect", "--dataset", str(readme_dataset / "clips"), "--sheet", str(target)]
    assert main([*arguments, "--tile-size", "40"]) == 0
    with Image.open(target) as picture:
        row = np.asarray(picture.convert("RGB"))[
            contact_sheet.HEAD : contact_sheet.HEAD + 40, contact_sheet.NAME_WIDTH :
        ]
    places = recordmill.open(readme_dataset / "clips", "train").places()
    records = zip(places, recordmill.read(readme_dataset / "clips", "train"), strict=True)
    _, first = min(
        ((one.key, record) for one, record in records if one.label == "run"),
        key=lambda pair: pair[0],
    )
    for place in range(4):
        drawn = row[1:39, 40 * place + 1 : 40 * place + 39]
        frame = Image.open(io.BytesIO(first["image/encoded"][4 * place]))
        wanted = frame.resize((38, 38), Image.Resampling.LANCZOS)
        assert np.abs(drawn.astype(int) - np.asarray(wanted)).mean() < 2


def test_the_contact_sheet_draws_boxes(tmp_path):
    flags = ["--annotations", str(BOXES / "annotations.json"), "--size", "96", "--quiet"]
    out = tmp_path / "out"
    assert main(["images", "--input", str(BOXES), "--output", str(out), *flags]) == 0
    target = tmp_path / "sheet.png"
    arguments = ["inspect", "--dataset", str(out), "--sheet", str(target)]
    assert main([*arguments, "--tile-size", "98"]) == 0
    with Image.open(target) as picture:
        drawn = {colour for _, colour in picture.convert("RGB").getcolors(2**24)}
    assert drawn >= {tuple(bytes.fromhex(one[1:])) for one in contact_sheet.BOX_COLOURS[:3]}


def test_the_contact_sheet_shows_all_levels_of_gray_of_16_bits(tmp_path):
    levels = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    (tmp_path / "in" / "a").mkdir(parents=True)
    Image.fromarray(levels).save(tmp_path / "in" / "a" / "1.png")
    argv = ("--mode", "gray", "--depth", "16", "--image-format", "png", "--splits", "train=1")
    out = str(tmp_path / "out")
    assert main(["images", "--input", str(tmp_path / "in"), "--output", out, "--quiet", *argv]) == 0
    target = str(tmp_path / "sheet.png")
    assert main(["inspect", "--dataset", out, "--sheet", target, "--tile-size", "66"]) == 0
    pixels = np.asarray(Image.open(target).convert("L"))
    assert len(np.unique(pixels)) > 200
