"""mlcroissant accepts croissant.json of every data type, and reads the indexes through it."""

import fnmatch
import hashlib
import json
import pathlib

import mlcroissant
import pyarrow.parquet as pq
import pytest

from recordmill.format.manifest import load
from recordmill.format.metadata_files import add_metadata
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.all_kinds import make
from tests.make_dataset import make_dataset, rewrite
from tests.paths import ROOT

KINDS = (
    *("pictures", "grey-png-gzip", "raw-of-any-size", "boxes", "packed-text", "table-with-gaps"),
    *("windows", "windows-in-sequences", "arrays-in-chunks", "items-of-one-number", "clips"),
)
CARD = ROOT / "examples" / "card.yaml"


def check(folder: pathlib.Path) -> mlcroissant.Dataset:
    """Checks croissant.json of a dataset against its files, and returns what mlcroissant reads."""
    dataset = mlcroissant.Dataset(folder / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert "http://mlcommons.org/croissant/1.1" in dataset.metadata.conforms_to
    check_files(folder, dataset)
    check_index(folder, dataset)
    manifest = load(Location.parse(str(folder)))
    [records] = [one for one in dataset.metadata.record_sets if one.uuid == "records"]
    assert {field.name for field in records.fields[1:]} == set(manifest.features)
    found = {one["splits/name"]: one["splits/records"] for one in dataset.records("splits")}
    assert found == {name: one.records for name, one in manifest.splits.items() if one.shards}
    if manifest.labels:
        named = [(one["labels/number"], one["labels/name"]) for one in dataset.records("labels")]
        assert named == [*enumerate(manifest.labels, start=manifest.label_offset)]
    return dataset


def check_files(folder: pathlib.Path, dataset: mlcroissant.Dataset) -> None:
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".recordmill" not in path.parts
    }
    stated = {one.content_url: one for one in dataset.metadata.file_objects}
    unstated = {"dataset.json", "job.json", "croissant.json", "recipes.parquet"}
    assert set(files) - set(stated) == unstated & files.keys()
    for name, one in stated.items():
        assert one.sha256 == hashlib.sha256(files[name]).hexdigest(), name
        assert one.content_size == f"{len(files[name])} B"
    for one in dataset.metadata.file_sets:
        held = {name for name in files if any(fnmatch.fnmatch(name, g) for g in one.includes)}
        split = one.uuid.removesuffix("-shards")
        start = {"shards": "", "index-files": "index/"}.get(split, f"{split}.tfrecord-")
        names = (name for name in files if ".tfrecord-" in name or name.startswith("index/"))
        kind = "index/" if split == "index-files" else ".tfrecord-"
        assert held == {name for name in names if name.startswith(start) and kind in name}


def check_index(folder: pathlib.Path, dataset: mlcroissant.Dataset) -> None:
    expected = []
    for path in sorted((folder / "index").iterdir()):
        split = path.name.rsplit("-", 3)[0]
        for row in pq.read_table(path).to_pylist():
            plain = {
                name: value.encode() if isinstance(value, str) else value
                for name, value in row.items()
            }
            expected.append({"split": split.encode(), **plain})
    found = [
        {name.removeprefix("index/"): value for name, value in row.items()}
        for row in dataset.records("index")
    ]
    assert found == expected
    assert len(found) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_mlcroissant_reads_every_kind(kind, tmp_path):
    folder = make(kind, place=tmp_path).folder
    check(folder)
    adopted = tmp_path / "adopted"
    argv = ["adopt", "--input", str(folder), "--output", str(adopted), "--quiet"]
    assert main([*argv, "--card", str(CARD)]) == 0
    dataset = check(adopted)
    assert not dataset.metadata.ctx.issues.warnings


def test_mlcroissant_reads_one_split(tmp_path):
    make_dataset(tmp_path / "out")
    folder = Location.parse(str(tmp_path / "out"))
    manifest, files = add_metadata(load(folder), None, places_of=lambda name: (folder / name,))
    for name, content in files.items():
        (tmp_path / "out" / name).write_bytes(content)
    rewrite(tmp_path / "out", manifest)
    dataset = check(tmp_path / "out")
    some = dataset.records("index", filters={"index/split": "validation"})
    assert [one["index/split"] for one in some] == [b"validation"] * 2


def test_mlcroissant_reads_the_card(tmp_path):
    folder = make("table-with-gaps", place=tmp_path).folder
    out = tmp_path / "adopted"
    argv = ["adopt", "--input", str(folder), "--output", str(out), "--quiet", "--card", str(CARD)]
    assert main(argv) == 0
    metadata = mlcroissant.Dataset(out / "croissant.json").metadata
    assert metadata.name == "Clothing"
    assert metadata.description.startswith("Photos of clothes")
    assert metadata.license == ["https://spdx.org/licenses/CC0-1.0.html"]
    assert metadata.cite_as.startswith("@misc{clothing,")
    assert [one.name for one in metadata.creators] == ["Ada Example", "Example Laboratory"]
    assert metadata.version == "1.0.0"
    assert metadata.date_published.date().isoformat() == "2026-01-31"
    assert metadata.keywords == ["clothes", "photos"]
    assert metadata.data_collection == "Volunteers took photos of their own clothes."
    assert metadata.data_biases == ["Most of the volunteers live in Europe."]
    assert metadata.personal_sensitive_information == ["Photos show no people."]


def test_the_code_of_the_page_reads_the_index(tmp_path, monkeypatch, capsys):
    out = make("pictures", place=tmp_path)
    monkeypatch.chdir(tmp_path)
    code = (ROOT / "docs" / "metadata.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    rows = [f"{row['key'].encode()} {row['label'].encode()}" for row in out.index("test")]
    assert capsys.readouterr().out.splitlines() == rows


def test_mlcroissant_reads_names_of_any_characters(tmp_path):
    names = ["a b", "</script>", "..", ".", "a//b", "x/../y", 'q"\\', "é:#?", "%41", "A", "split"]
    (tmp_path / "rows.csv").write_text(
        ",".join('"' + name.replace('"', '""') + '"' for name in [*names, "label"])
        + "\n"
        + "".join(
            f"{','.join(str(number + k) for k in range(len(names)))},c d\n" for number in range(40)
        )
    )
    out = tmp_path / "out"
    argv = ["table", "--input", tmp_path / "rows.csv", "--output", out, "--quiet"]
    assert main([*map(str, argv), "--split-from", "none"]) == 0
    check(out)
    stated = json.loads((out / "croissant.json").read_text())
    ids = [field["@id"] for one in stated["recordSet"] for field in one["field"]]
    assert len(set(ids)) == len(ids)
