"""--card: what is said about a dataset, in all the places where others look for it."""

import dataclasses
import json
import pathlib
import shutil

import pytest
import tensorflow_datasets as tfds
import yaml

from recordmill.errors import RunError
from recordmill.format.dataset_card import DatasetCard
from recordmill.job import publishing
from recordmill.pipelines.cli import main
from recordmill.pipelines.earlier.report_file import write_report
from recordmill.storage.files import Location
from tests.image_runs import Made, images
from tests.make_dataset import rewrite
from tests.paths import DEMO, ROOT

pytestmark = pytest.mark.usefixtures("encoders")

CARD = ROOT / "examples" / "card.yaml"
OPTIONS = ("--input", DEMO / "hat", "--size", 8, "--splits", "train=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("card") / "out"
    assert images(*OPTIONS, "--output", folder, "--card", CARD) == 0
    return folder


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    names = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def report_of(folder: pathlib.Path) -> str:
    return pathlib.Path(str(write_report(Location.parse(str(folder))))).read_text()


def test_the_card_is_where_others_look_for_it(folder):
    manifest = Made(folder).manifest
    assert {"README.md", "croissant.json"} <= set(manifest.files)
    assert main(["verify", "--dataset", str(folder), "--quiet"]) == 0
    head = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    assert head["license"] == "cc0-1.0"
    assert head["size_categories"] == ["n<1K"]
    assert json.loads((folder / "croissant.json").read_text())["name"] == "Clothing"
    info = tfds.builder_from_directory(folder).info
    assert info.description.startswith("Photos of clothes in ten classes")
    assert info.citation.startswith("@misc{clothing,")
    assert info.homepage == "https://example.com/clothing"
    assert str(info.version) == "1.0.0"
    page = report_of(folder)
    for text in ("Photos of clothes in ten classes", "@misc{clothing,", "CC0-1.0", "Ada Example"):
        assert text in page


def test_equal_datasets_have_equal_descriptions(folder, tmp_path):
    out = tmp_path / "elsewhere"
    shutil.copytree(DEMO / "hat", tmp_path / "hat")
    options = ("--input", tmp_path / "hat", *OPTIONS[2:])
    assert images(*options, "--output", out, "--card", CARD) == 0
    assert (out / "croissant.json").read_bytes() == (folder / "croissant.json").read_bytes()
    assert (out / "dataset.json").read_bytes() == (folder / "dataset.json").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nlicence: MIT\n", "card.yaml:2: unknown key 'licence' (did you mean 'license'?)"),
        ("license: CC-BY\n", "card.yaml:1: license: expected a known SPDX identifier"),
        ("name: a\nname: b\n", "card.yaml:2: name is given a second time"),
        ("- a\n", "card.yaml: expected lines of `key: value`"),
        ("name: [\n", "not YAML"),
        ('description: "\\x1b"\n', "card.yaml:1: description: expected text without control"),
        ("keywords: [[[a]]]\n", "card.yaml:1: expected a value, a list or a mapping"),
        ("a: &a [x, x]\nb: &b [*a, *a]\n", "card.yaml:1: unknown key 'a'"),
        ("keywords: &a\n" + f"- {'x' * 90}\n" + "rai: {dataBiases: *a}\n" * 2, "second time"),
    ],
)
def test_a_wrong_card_is_an_error_before_any_work(text, message, tmp_path, capsys):
    card = tmp_path / "card.yaml"
    card.write_text(text)
    for argv in (["images", "--input", str(DEMO)], ["adopt", "--input", str(DEMO)]):
        out = tmp_path / argv[0]
        assert main([*argv, "--output", str(out), "--card", str(card)]) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()


def test_aliases_cannot_stand_for_any_amount_of_text(tmp_path, capsys):
    card = tmp_path / "card.yaml"
    aliases = ", ".join(["*a"] * 2_000)
    card.write_text(f"name: &a {'x' * 1_000}\nkeywords: [{aliases}]\n")
    argv = ["images", "--input", str(DEMO), "--output", str(tmp_path / "out")]
    assert main([*argv, "--card", str(card)]) == 2
    assert "card.yaml:2: the texts are larger than 1,048,576 bytes" in capsys.readouterr().err


def test_another_card_replaces_the_description_only(folder, tmp_path, capsys):
    out = pathlib.Path(shutil.copytree(folder, tmp_path / "out"))
    before, inodes = files_of(out), {path: path.stat().st_ino for path in out.glob("*.tfrecord*")}
    card = tmp_path / "card.yaml"
    card.write_text("license: MIT\nversion: 1.0\n")
    argv = ["images", *map(str, OPTIONS), "--output", str(out), "--workers", "1"]
    assert main([*argv, "--card", str(card), "--dry-run"]) == 0
    assert files_of(out) == before
    assert main([*argv, "--card", str(card)]) == 0
    assert "the card of" in capsys.readouterr().out
    after = files_of(out)
    changed = {name for name in before if after[name] != before[name]}
    described = {"README.md", "croissant.json", "dataset.json", "dataset_info.json"}
    assert changed == described | {"job.json"}
    assert {path: path.stat().st_ino for path in out.glob("*.tfrecord*")} == inodes
    assert main(["verify", "--dataset", str(out), "--quiet"]) == 0
    assert json.loads(after["job.json"])["options"]["card"] == str(card)
    assert main(argv) == 0  # without a card
    assert set(after) - set(files_of(out)) == {"README.md"}
    assert Made(out).manifest.card is None
    assert main([*argv, "--card", str(CARD)]) == 0
    ours = {**files_of(out), "job.json": b""}
    assert ours == {**before, "job.json": b""}
    assert main([*argv, "--card", str(CARD)]) == 0
    assert "nothing has changed" in capsys.readouterr().out


def test_a_rerun_completes_an_interrupted_replacement(folder, tmp_path, monkeypatch, capsys):
    out = pathlib.Path(shutil.copytree(folder, tmp_path / "out"))
    card = tmp_path / "card.yaml"
    card.write_text("license: MIT\n")
    argv = ["images", *map(str, OPTIONS), "--output", str(out), "--workers", "1"]
    with monkeypatch.context() as patch:

        def killed(*_: object, **__: object) -> None:
            raise RunError("killed")

        patch.setattr(publishing, "sync_folders", killed)  # before and after files are moved
        assert main([*argv, "--card", str(card)]) == 1
        assert Made(out).manifest.card.license == "CC0-1.0"
        done = publishing.finish
        patch.undo()
        patch.setattr(publishing, "finish", killed)
        assert main([*argv, "--card", str(card)]) == 1
        patch.setattr(publishing, "finish", done)
        (out / "dataset.json").unlink()  # as its first step does
    capsys.readouterr()
    assert main([*argv, "--card", str(card)]) == 0
    assert "Publishing of an interrupted run was completed" in capsys.readouterr().out
    assert Made(out).manifest.card.license == "MIT"
    assert main(["verify", "--dataset", str(out), "--quiet"]) == 0


def test_the_report_shows_hostile_texts_as_texts(folder, tmp_path):
    out = pathlib.Path(shutil.copytree(folder, tmp_path / "out"))
    text = "<script>alert(1)</script>\u202e"
    card = DatasetCard(name=text, description=text, citation=text, rai={"dataBiases": (text,)})
    rewrite(out, dataclasses.replace(Made(out).manifest, card=card))
    page = report_of(out)
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;\\u202e") == 4


def test_adopted_files_have_a_card(folder, tmp_path, capsys):
    out = tmp_path / "adopted"
    argv = ["adopt", "--input", str(folder), "--output", str(out), "--workers", "1"]
    assert main(argv) == 0
    assert not (out / "README.md").exists()
    assert json.loads((out / "croissant.json").read_text())["name"].startswith("recordmill-")
    assert main([*argv, "--card", str(CARD)]) == 0
    assert "the card of" in capsys.readouterr().out
    assert Made(out).manifest.card.name == "Clothing"
    assert main(["verify", "--dataset", str(out), "--quiet"]) == 0
