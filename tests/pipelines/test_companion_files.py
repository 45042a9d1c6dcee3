"""Notes on files among the images that another option would read: masks, annotations, tables."""

import json
import pathlib
import re
import shlex

import pytest
from PIL import Image

from recordmill.notes import Note
from recordmill.pipelines.jobs import listing
from recordmill.processes import pool
from tests.folders import make_picture
from tests.image_runs import make, run
from tests.sounds import chirp, write

pytestmark = pytest.mark.usefixtures("encoders")


def notes(folder: pathlib.Path, *argv: object, command: str = "images") -> dict[str, list[str]]:
    """{code: notes} of a dataset of a folder."""
    out = folder.with_name("out")
    made = make(out, "--input", folder, "--splits", "train=1", "--overwrite", *argv,
                command=command)  # fmt: skip
    found: dict[str, list[str]] = {}
    for note in made.manifest.notes:
        assert isinstance(note, Note)
        found.setdefault(note.code, []).append(str(note))
    return {code: found[code] for code in ("masks", "unread") if code in found}


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        make_picture(tmp_path / "in" / f"{number}.png", number)
    return tmp_path / "in"


def test_masks_beside_their_images(folder):
    for number in range(2):
        make_picture(folder / f"{number}_mask.png", number)
    make_picture(folder / "alone_mask.png", 7)
    assert notes(folder) == {
        "masks": [
            "2 files of the dataset look like masks of others, such as 0_mask.png of 0.png: --masks"
            f" {folder} --mask-suffix _mask reads them as masks"
        ]
    }
    (folder / "alone_mask.png").unlink()
    assert notes(folder, "--masks", folder, "--mask-suffix", "_mask", "--unmasked", "keep",
                 "--mask-colours", colours_of(folder)) == {}  # fmt: skip


def colours_of(folder: pathlib.Path) -> pathlib.Path:
    """A file of the colours of the masks in a folder."""
    masks = [Image.open(path).convert("RGB") for path in sorted(folder.glob("*_mask.png"))]
    found = {colour for mask in masks for _, colour in mask.getcolors()}
    path = folder.with_name("colours.txt")
    path.write_text("".join(f"{r} {g} {b}\n" for r, g, b in sorted(found)))
    return path


def test_a_folder_of_masks(folder):
    for number in range(3):
        make_picture(folder / "images" / f"{number}.png", number)
        make_picture(folder / "masks" / f"{number}.png", number)
        (folder / f"{number}.png").unlink()
    assert notes(folder) == {
        "masks": [
            "3 files of the dataset look like masks of others, such as masks/0.png of"
            f" images/0.png: --masks {folder} reads them as masks"
        ]
    }
    make_picture(folder / "images" / "3.png", 3)
    assert notes(folder) == {}, "mask may be the name of a class"


def test_files_that_lie_beside_images_and_are_no_masks(folder):
    make_picture(folder / "road_mask.png", 1)
    make_picture(folder / "4_mask_2.png", 1)
    (folder / "readme.txt").write_text("4 photos\n")
    (folder / "settings.json").write_text('{"size": 3}')
    (folder / "page.xml").write_text("<page/>")
    assert notes(folder) == {}


def test_tables_and_annotations(folder):
    (folder / "labels.csv").write_text("image,label\n0.png,a\n")
    (folder / "metadata.jsonl").write_text('{"file_name": "0.png"}\n')
    (folder / "a.json").write_text(json.dumps({"info": {}, "images": [], "annotations": []}))
    for number in range(2):
        (folder / f"{number}.xml").write_text("<annotation></annotation>")
        (folder / f"{number}.txt").write_text("0 0.5 0.5 0.25 0.25\n")
    assert notes(folder) == {
        "unread": [
            f"2 tables among the files of {folder} were not read, such as {folder}/labels.csv:"
            f" --input {folder}/labels.csv reads the files that it lists, and their columns",
            f"1 .json file among the files of {folder} was not read, such as {folder}/a.json, which"
            f" holds annotations (COCO): --annotations {folder}/a.json reads them",
            f"2 .txt files among the files of {folder} were not read, such as {folder}/0.txt, which"
            f" holds annotations (YOLO): --annotations {folder} reads them",
            f"2 .xml files among the files of {folder} were not read, such as {folder}/0.xml, which"
            f" holds annotations (Pascal VOC): --annotations {folder} reads them",
        ]
    }
    for number in range(3):
        (folder / f"{number}.xml").write_text(
            "<annotation><object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax>"
            "<ymax>9</ymax></bndbox></object></annotation>"
        )
    options = ("--annotations", folder, "--annotation-format", "voc")
    assert notes(folder, *options) == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("captions.txt", "image,caption\n0.png,A dog\n"),
        ("captions.json", '[\n {"caption": "A dog",\n "file_name": "0.png"}\n]\n'),
    ],
)
def test_a_table_of_captions(folder, name, content):
    (folder / name).write_text(content)
    assert notes(folder)["unread"] == [
        f"1 .{name.partition('.')[2]} file among the files of {folder} was not read, such as"
        f" {folder}/{name}, which holds annotations (captions): --annotations {folder}/{name} reads"
        " them"
    ]


@pytest.mark.parametrize("inner", ["", "images"])
@pytest.mark.parametrize("place", ["meta", "splits", "lists", "other", ".", "images", "images/a"])
def test_lists_of_splits_in_or_beside_a_folder_of_images(tmp_path, inner, place):
    for number in range(4):
        path = tmp_path / "food/images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_picture(path, number)
    (meta := tmp_path / "food" / place).mkdir(exist_ok=True)
    for name, lines in {"train": "a/0\nb/1\n", "test": "a/2\nb/3\n", "classes": "a\nb\n"}.items():
        (meta / f"{name}.txt").write_text(lines)
    (meta / "train_words.txt").write_text("good\n")
    given = tmp_path / "food" / inner
    option = f"--split-files test={meta}/test.txt,train={meta}/train.txt"
    found = notes(given, "--label-from", "parent").get("unread", [])
    if inner and place == "other":  # not a usual folder
        assert not found
        return
    assert found == [
        f"2 lists of the files of splits in {given} were not read: {option} takes the splits from"
        " them"
    ]
    options = ("--size", 8, "--label-from", "parent", *option.split())
    made = make(tmp_path / "divided", "--input", given, *options)
    assert (len(made.index("train")), len(made.index("test"))) == (2, 2)


@pytest.mark.parametrize(
    ("files", "lists"),
    [
        ({"train.txt": "1\n", "val.txt": "0\n", "cat_test.txt": "1\n"}, ("val", "train")),
        ({"train.txt": "0 0.5 0.5 0.1 0.1\n", "test.txt": "1 cat\n"}, ()),
        ({"train.txt": "x/0\n", "val.txt": "nothing\n"}, ()),
    ],
)
def test_only_names_of_files_are_lists_of_splits(folder, files, lists):
    for name, content in files.items():
        (folder / name).write_text(content)
    found = [note for note in notes(folder).get("unread", []) if "--split-files" in note]
    assert len(found) == bool(lists)
    assert all(f"{name}.txt" in note for name in lists for note in found)
    assert not any("cat_test" in note for note in found)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"a.csv": "id,label\n"}, "if it lists the files, pass it as --input, and the name of its"
         " column of paths as --path-column"),
        ({"metadata.jsonl": '{"file_name": "0.png", "label": "a"}\n'},
         "--input {folder}/metadata.jsonl reads the files that it lists, and their columns"),
        ({"test.csv": "split;File\n", "train.csv": '"path",label\n', "z.csv": "path\n"},
         "--input {folder}/test.csv --input {folder}/train.csv reads the files that they list"),
        ({"clips/0.wav": "", "dev.tsv": "id\tpath\n1\t0.wav\n", "train.tsv": "path\n0.wav\n"},
         "--input {folder}/dev.tsv --input {folder}/train.tsv --input-root {folder}/clips reads"),
        ({"metadata.jsonl": '{"file_name": "0.png", "text": "A dog"}\n'},
         "--annotations {folder}/metadata.jsonl reads boxes or captions from it"),
        ({"a/metadata.csv": "file_name,text\n", "b/metadata.csv": "file_name,text\n"},
         "--annotations {folder} reads boxes or captions from it"),
        ({"a/captions.csv": "file_name,text\n", "b/captions.csv": "file_name,text\n"},
         "--annotations {folder}/a/captions.csv reads boxes or captions from it"),
        ({"a/metadata.jsonl": '{"image": "0.png", "objects": {}}\n',
          "b/metadata.jsonl": '{"image": "0.png", "objects": {}}\n'},
         "--annotations {folder} reads boxes or captions from it"),
    ],
)  # fmt: skip
def test_the_note_on_tables_names_the_option_that_reads_them(folder, files, text):
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    (note,) = notes(folder, "--unlabelled", "keep")["unread"]
    assert text.format(folder=folder) in note


@pytest.mark.parametrize("listing", [False, True])
def test_tables_of_colours_list_no_files(folder, listing):
    (folder / "colours.csv").write_text("b,g,r,name\n0,0,9,roof\n")
    (folder / "classes.csv").write_text("name;Red;Green;Blue\nroof;9;0;0\n")
    if listing:
        (folder / "labels.csv").write_text("image,label\n0.png,a\n")
    found = notes(folder).get("unread", [])
    assert len(found) == listing
    assert all("1 table among" in note and f"{folder}/labels.csv" in note for note in found)


@pytest.mark.parametrize("command", ["images", "audio"])
@pytest.mark.parametrize("name", ["metadata.jsonl", "metadata.csv"])
def test_the_error_names_a_command_that_reads_hub_metadata(tmp_path, capfd, command, name):
    folder = tmp_path / "in"
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        lines = ["file_name,label"] if name.endswith("csv") else []
        for number in range(2):
            file = f"{number}.png" if command == "images" else f"{number}.wav"
            if command == "images":
                make_picture(folder / split / file, number)
            else:
                write(folder / split / file, chirp(16000, 4000 + number))
            row = {"file_name": file, "label": "ab"[number]}
            lines.append(json.dumps(row) if name.endswith("jsonl") else ",".join(row.values()))
        (folder / split / name).write_text("\n".join([*lines, ""]))
    assert run(command, "--input", folder, "--output", tmp_path / "none") == 2
    (given,) = re.findall(r"is a table: (--input .*) reads the files", capfd.readouterr().err)
    made = make(tmp_path / "out", *shlex.split(given), command=command)
    for split in ("train", "test"):
        assert len(made.index(split)) == 2


def test_a_listing_made_in_an_encoder_process_has_notes(folder, monkeypatch):
    (folder / "labels.tsv").write_text("image\tlabel\n")
    monkeypatch.setattr(listing, "running_pool", pool.running_pool)
    assert "1 table among the files" in notes(folder)["unread"][0]


def test_tables_among_arrays(folder):
    import numpy as np

    for path in folder.iterdir():
        path.unlink()
    np.save(folder / "0.npy", np.arange(3))
    (folder / "labels.csv").write_text("path,label\n")
    assert "such as" in notes(folder, command="arrays")["unread"][0]
