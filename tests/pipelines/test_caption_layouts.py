"""Captions of images: tables with a row for each, and files beside the images."""

import json
import pathlib
import re
import shlex

import pytest

from tests.archive_files import tar_of, zip_of
from tests.folders import make_picture
from tests.image_runs import Made, images, make

pytestmark = pytest.mark.usefixtures("encoders")

SPLIT = ("--splits", "train=1", "--num-shards", "1")
CAPTIONS = {"0.jpg": ["A dog , left .", 'A "dog" runs .'], "1.jpg": ["A cat"], "2.jpg": ["Zwölf"]}


def captions_of(made: Made, split: str = "train") -> dict[str, list[str]]:
    return {
        pathlib.PurePath(key).name: [text.decode() for text in example["image/caption"]]
        for (key, _), example in made.examples(split).items()
    }


def labels_of(example: dict[str, list[bytes]]) -> list[str | None]:
    return [text.decode() for text in example.get("image/class/text", [])] or [None]


@pytest.fixture
def photos(tmp_path: pathlib.Path) -> pathlib.Path:
    for number in range(3):
        make_picture(tmp_path / "in" / "Images" / f"{number}.jpg", number)
    return tmp_path / "in" / "Images"


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


PAIRS = [(name, number, text) for name, texts in CAPTIONS.items()
         for number, text in enumerate(texts)]  # fmt: skip
TABLES = {
    "Flickr8k.token.txt": [f"{name}#{number}\t{text}" for name, number, text in PAIRS],
    "results.token": [f"{name}#{number}\t{text}" for name, number, text in PAIRS],
    "captions.txt": ["image,caption", *(f"{name},{quoted(text)}" for name, _, text in PAIRS)],
    "captions.csv": ["split;Image;Caption", *(f"a;{name};{quoted(t)}" for name, _, t in PAIRS)],
    "results.csv": ["image_name| comment_number| comment",
                    *(f"{name}| {number}| {text}" for name, number, text in PAIRS)],
    "captions.tsv": ["caption\tfile",
                     *(f"{quoted(text)}\tImages/{name}" for name, _, text in PAIRS)],
    "ids.csv": ["image_id,caption", *(f"{name[:-4]},{quoted(text)}" for name, _, text in PAIRS)],
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_a_row_for_each_caption(photos, tmp_path, table):
    path = tmp_path / "in" / table
    path.write_text("\n".join([*TABLES[table], ""]), encoding="utf-8-sig")
    for number, folder in enumerate((photos, photos.parent)):  # not a class
        argv = ("--input", folder, "--annotations", path, *SPLIT)
        made = make(tmp_path / f"out{number}", *argv)
        assert captions_of(made) == CAPTIONS
        assert not made.rejects
        assert "image/class/text" not in next(iter(made.examples().values()))


@pytest.mark.parametrize("name", ["captions.txt", "captions.csv"])
@pytest.mark.parametrize(
    "lines",
    [
        [f"{name}, {text}" for name, _, text in PAIRS],
        [f"Images/{name}\t{quoted(text)}" for name, _, text in PAIRS],
    ],
    ids=["commas", "tabs"],
)
def test_tables_of_captions_may_lack_a_header(photos, tmp_path, name, lines):
    path = tmp_path / name
    path.write_text("\n".join([*lines, ""]))
    made = make(tmp_path / "out", "--input", photos, "--annotations", path, *SPLIT)
    assert captions_of(made) == CAPTIONS
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert note.endswith("there is no header line: lines are read as image, caption")


@pytest.mark.parametrize("name", ["captions.csv", "captions.txt", "Flickr8k.token.txt"])
def test_the_error_of_a_folder_names_its_table(photos, tmp_path, capfd, name):
    table = tmp_path / "in" / name
    lines = TABLES["Flickr8k.token.txt" if "token" in name else "captions.txt"]
    table.write_text("\n".join([*lines, ""]))
    argv = ["--input", photos, *SPLIT]
    out = tmp_path / "none"
    assert images("--output", out, *argv, "--annotations", table.parent) == 2
    (option,) = re.findall(r"captions of many images: pass (.*)", capfd.readouterr().err)
    assert captions_of(make(tmp_path / "out", *argv, *shlex.split(option))) == CAPTIONS


def test_metadata_wins_over_texts_in_its_folder(photos, tmp_path):
    (photos / "texts").mkdir()
    (photos / "texts" / "0.txt").write_text("A house")
    rows = [{"file_name": name, "text": text} for name, _, text in PAIRS]
    for name, content in (
        ("metadata.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows)),
        ("metadata.csv", "\n".join(["file_name,text", *(f"{n},{quoted(t)}" for n, _, t in PAIRS)])),
    ):
        path = photos / name
        path.write_text(content)
        made = make(tmp_path / name, "--input", photos, "--annotations", photos, *SPLIT)
        assert captions_of(made) == CAPTIONS
        path.unlink()


def test_metadata_wins_over_other_tables_in_its_folder(photos, tmp_path, capfd):
    def write(name, text):
        rows = [json.dumps({"file_name": one, "text": text}) for one in CAPTIONS]
        (photos / name).write_text("\n".join(rows))

    write("metadata.jsonl", "new")
    write("old_metadata.jsonl", "old")
    (photos / "metadata.csv").write_text("file_name,text\n0.jpg,of csv\n")
    given = ("--input", photos, *SPLIT)
    made = make(tmp_path / "out", *given, "--annotations", photos)
    assert captions_of(made) == {name: ["new"] for name in CAPTIONS}
    found = {note for note in made.manifest.notes if note.code == "annotations"}
    assert found == {
        "Images: metadata.csv was not read where metadata.jsonl is beside it",
        "Images: captions in old_metadata.jsonl were not read, because metadata.jsonl or"
        f" metadata.csv holds captions, too: --annotations {photos}/old_metadata.jsonl reads these"
        " captions instead",
    }
    tables = f"{photos}/metadata.jsonl,{photos}/metadata.csv,{photos}/old_metadata.jsonl"
    made = make(tmp_path / "all", *given, "--annotations", tables)
    assert captions_of(made)["0.jpg"] == ["new", "of csv", "old"]
    (photos / "metadata.jsonl").unlink()
    (photos / "metadata.csv").unlink()
    assert images(*given, "--output", tmp_path / "none", "--annotations", photos) == 2
    option = f"pass --annotations {photos}/old_metadata.jsonl\n"
    assert capfd.readouterr().err.endswith(option)


def test_several_tables_and_the_first_caption(photos, tmp_path):
    (tmp_path / "a.txt").write_text("0.jpg#0\tone\n1.jpg#0\ttwo\n")
    (tmp_path / "b.txt").write_text("2.jpg#0\tthree\n0.jpg#1\tfour\n")
    argv = ("--input", photos, "--annotations", f"{tmp_path / 'a.txt'},{tmp_path / 'b.txt'}")
    made = make(tmp_path / "out", *argv, *SPLIT)
    assert captions_of(made) == {"0.jpg": ["one", "four"], "1.jpg": ["two"], "2.jpg": ["three"]}
    made = make(tmp_path / "first", *argv, *SPLIT, "--captions", "first")
    assert captions_of(made) == {"0.jpg": ["one"], "1.jpg": ["two"], "2.jpg": ["three"]}


def test_rows_and_images_that_lack_something_are_rejected(photos, tmp_path):
    path = tmp_path / "captions.csv"
    path.write_text("image,caption\n0.jpg,one\n1.jpg,\n,two\n9.jpg,three\n0.jpg,four\n2.jpg\n")
    argv = ("--input", photos, "--annotations", path, *SPLIT, "--max-reject-fraction", "1")
    made = make(tmp_path / "out", *argv)
    assert captions_of(made) == {"0.jpg": ["one", "four"]}
    assert made.rejects == {
        "captions.csv#2": "bad_value",
        "captions.csv#3": "bad_value",
        "captions.csv#6": "bad_value",
        "9.jpg": "missing",
        "1.jpg": "unlabelled",
        "2.jpg": "unlabelled",
    }
    details = (made.folder / "rejects.jsonl").read_text()
    assert "line 3: no caption of '1.jpg'" in details
    made = make(tmp_path / "kept", *argv, "--unannotated", "keep", "--absent-images", "drop")
    assert captions_of(made) == {"0.jpg": ["one", "four"], "1.jpg": [], "2.jpg": []}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "0.jpg A dog\n", "expected lines such as 1.jpg#0, a tab and a caption, or"
         " 1.jpg, a comma and a caption, or a header with the columns image and caption, got '0.jpg"
         " A dog' in line 1 of {path}"),
        ("a.txt", "\udcff\udcfe0\0", "{path} is not UTF-8, at line 1"),
        ("a.csv", "image,caption_1\n0.jpg,A dog\n", "it has image, caption_1; a table of captions"
         " has columns such as image and caption"),
        ("a.csv", "image,caption\n0.jpg,\n", "has no row with a caption: line 2: no caption of"),
        ("a.csv", 'image,caption\n0.jpg,"A dog\n', "has no row with a caption: line 2: not CSV"),
        ("a.csv", "image,caption\n5.jpg,A dog\n", "no image of the input matches the annotations"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_read(photos, tmp_path, capfd, name, text, message):
    path = tmp_path / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    argv = ("--input", photos, "--annotations", path, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert message.format(path=path) in capfd.readouterr().err


BAD_LINES = {  # {file: (lines, {number of a bad row: (its line, part of the reject)})}
    "a.txt": (
        [
            "# of Flickr",
            "0.jpg#0\tA dog",
            "1.jpg A cat",
            "1.jpg#0 \tA #2 cat",
            "2.jpg#0  A b\udce9b",
        ],
        {
            1: (1, "expected IMAGE#N, a tab and a caption, got '# of Flickr'"),
            3: (3, "got '1.jpg A cat'"),
            5: (5, "not UTF-8 (iconv -f cp1252 -t utf-8 converts a file whose encoding is cp1252)"),
        },
    ),
    "b.token": (["0.jpg#0 A dog", "1.jpg#0", "1.jpg#1 A #2 cat"], {2: (2, "got '1.jpg#0'")}),
    "c.csv": (
        [
            *("image,caption", '0.jpg,"A ', 'dog"', '1.jpg,"A cat', '1.jpg,"A #2 cat"'),
            *("1.jpg,A cat, left", '2.jpg,"A b\udce9b"', '2.jpg,"A tree'),
        ],
        {
            2: (4, "not CSV: "),
            4: (6, "expected 2 columns, got 3: quote captions with ','"),
            5: (7, "not UTF-8"),
            6: (8, "not CSV: "),
        },
    ),
    "headerless.csv": (
        ["0.jpg, A dog", "A bird", "1.jpg,", '1.jpg,"A #2 cat"', "2.jpg, A b\udce9b"],
        {2: (2, "expected IMAGE,CAPTION, got 'A bird'"), 3: (3, "no caption"), 5: (5, "not UTF-8")},
    ),
    "d.jsonl": (
        [
            '{"file_name": ',
            '{"file_name": "0.jpg", "text": "A dog"}',
            '{"file_name": "1.jpg", "text": 5}',
            '{"file_name": "1.jpg", "text": "A #2 cat"}',
            '{"file_name": "2.jpg", "text": "\udce9"}',
        ],
        {
            1: (1, "expected a JSON object with texts 'file_name' and 'caption' or 'text'"),
            3: (3, "expected a JSON object"),
            5: (5, "not UTF-8"),
        },
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_lines_are_rejected(photos, tmp_path, capfd, name):
    lines, bad = BAD_LINES[name]
    path = tmp_path / name
    path.write_bytes("\n".join([*lines, ""]).encode(errors="surrogateescape"))
    argv = ("--input", photos, "--annotations", path, *SPLIT, "--unannotated", "keep")
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", "1")
    captions = {key: [" ".join(one.split()) for one in of] for key, of in captions_of(made).items()}
    assert captions == {"0.jpg": ["A dog"], "1.jpg": ["A #2 cat"], "2.jpg": []}
    assert made.rejects == {f"{name}#{row}": "bad_value" for row in bad}
    rejects = map(json.loads, (made.folder / "rejects.jsonl").read_text().splitlines())
    details = {reject["key"]: reject["detail"] for reject in rejects}
    for row, (line, text) in bad.items():
        assert details[f"{name}#{row}"].startswith(f"line {line}: ")
        assert text in details[f"{name}#{row}"]
    assert images(*argv, "--output", tmp_path / "few") == 1
    assert "more than --max-reject-fraction 0.01 allows" in capfd.readouterr().err


@pytest.mark.parametrize("where", ["metadata.jsonl", ""])
def test_lines_of_json(photos, tmp_path, where):
    lists = [{"file_name": name, "text": texts} for name, texts in CAPTIONS.items()]
    rows = [{"file_name": name, "text": text} for name, _, text in PAIRS]
    for number, lines in enumerate((lists, rows)):
        text = "\n".join(json.dumps(line) for line in lines)
        (photos / "metadata.jsonl").write_text(f"{text}\n\n[1]\n")
        argv = ("--input", photos, "--annotations", photos / where, "--max-reject-fraction", "1")
        made = make(tmp_path / f"out{number}", *argv, *SPLIT)
        assert captions_of(made) == CAPTIONS
        line = len(lines) + 2
        assert made.rejects == {f"metadata.jsonl#{line}": "bad_value"}


@pytest.mark.parametrize("name", ["captions.json", "metadata.jsonl"])
@pytest.mark.parametrize("indent", [None, 2])
def test_items_of_a_json_array(photos, tmp_path, name, indent):
    lists = [{"image": name, "captions": texts} for name, texts in CAPTIONS.items()]
    items = [{"file_name": name, "caption": text, "id": 1} for name, _, text in PAIRS]
    path = photos / name
    argv = ("--input", photos, "--annotations", path, "--max-reject-fraction", "1", *SPLIT)
    for number, rows in enumerate((lists, items)):
        path.write_text(json.dumps([*rows, {"image": "0.jpg"}, 5], indent=indent), "utf-8-sig")
        made = make(tmp_path / f"out{number}", *argv)
        assert captions_of(made) == CAPTIONS
        count = len(rows)
        assert made.rejects == {f"{name}#{row}": "bad_value" for row in (count + 1, count + 2)}
        details = (made.folder / "rejects.jsonl").read_text()
        assert f"item {count + 1}: no caption of '0.jpg'" in details
        assert f"item {count + 2}: expected a JSON object with texts 'file_name' and" in details


@pytest.mark.parametrize("indent", [None, 2])
def test_objects_with_the_captions_of_many_images(photos, tmp_path, indent):
    sentences = {name: [{"raw": text} for text in texts] for name, texts in CAPTIONS.items()}
    entries = [
        {"filename": name, "imgid": 1, "sentences": some, "split": "train"}
        for name, some in sentences.items()
    ]
    path = tmp_path / "captions.json"
    argv = ("--input", photos, "--annotations", path, "--max-reject-fraction", 1, *SPLIT)
    one_each = {name: texts[0] for name, texts in CAPTIONS.items()}
    for document, expected, row in (
        ({**CAPTIONS, "3.jpg": 5}, CAPTIONS, 5),
        ({**one_each, "3.jpg": None}, FIRST, 4),
        ({"images": [*entries, {"filename": "3.jpg"}], "dataset": "flickr8k"}, CAPTIONS, 4),
    ):
        path.write_text(json.dumps(document, indent=indent))
        made = make(tmp_path / f"out{row}{len(document)}", *argv)
        assert captions_of(made) == expected
        assert made.rejects == {f"captions.json#{row}": "bad_value"}


def test_lines_of_json_in_a_file_json(photos, tmp_path):
    path = tmp_path / "captions.json"
    path.write_text("\n".join(json.dumps({"image": n, "text": t}) for n, _, t in PAIRS))
    made = make(tmp_path / "out", "--input", photos, "--annotations", path, *SPLIT)
    assert captions_of(made) == CAPTIONS


ROW = {"file_name": "0.jpg", "text": "A dog"}
JSON_FILES = {  # {case: (name of the file, its text, message)}
    "pretty": (
        "metadata.jsonl",
        json.dumps(ROW, indent=2) + "\n" + json.dumps(ROW, indent=2),
        "{path} holds a JSON object over several lines, not one JSON object per line: write each"
        " record into a line of its own, for example by jq -c . FILE > FILE.jsonl",
    ),
    "pretty with boxes": (
        "metadata.jsonl",
        json.dumps({**ROW, "objects": {"bbox": [], "categories": []}}, indent=2),
        "{path} holds a JSON object over several lines, not one JSON object per line: write each",
    ),
    "array with boxes": (
        "boxes.json",
        json.dumps([{"file_name": "0.jpg", "objects": {"bbox": [], "categories": []}}]),
        "{path} holds one JSON array, not one JSON object per line: write each record into a line"
        " of its own, for example by jq -c '.[]' FILE > FILE.jsonl",
    ),
    "lines of other names": (
        "metadata.jsonl",
        json.dumps({"image": "0.jpg", "conversations": []}),
        "{path}: no line has 'objects' with boxes in 'bbox'; captions are in lines with texts such"
        " as 'file_name' and 'caption' or 'text'",
    ),
    "array of other names": (
        "captions.json",
        json.dumps([{"img": "0.jpg", "says": "A dog"}]),
        "{path} has no row with a caption: item 1: no image",
    ),
    "array that ends early": (
        "captions.json",
        json.dumps([ROW, ROW])[:-9],
        "{path}: invalid JSON at or after item 1: got '",
    ),
}


@pytest.mark.parametrize("case", JSON_FILES)
def test_json_that_cannot_be_read(photos, tmp_path, capfd, case):
    name, text, message = JSON_FILES[case]
    (photos / name).write_text(text)
    argv = ("--input", photos, "--output", tmp_path / "out", "--annotations")
    for place in (photos / name, *([photos] if name == "metadata.jsonl" else [])):
        assert images(*argv, place) == 2
        assert message.format(path=photos / name) in capfd.readouterr().err


def test_lines_of_json_in_the_folders_of_splits(tmp_path):
    folder = tmp_path / "in"
    for split in ("train", "test"):
        make_picture(folder / split / "0.jpg", len(split))
        line = json.dumps({"file_name": "0.jpg", "caption": f"of {split}"})
        (folder / split / "metadata.jsonl").write_text(f"{line}\n")
    made = make(tmp_path / "out", "--input", folder, "--annotations", folder)
    for split in ("train", "test"):
        assert captions_of(made, split) == {"0.jpg": [f"of {split}"]}


def test_the_reject_of_an_absent_image_names_the_file(tmp_path):
    folder = tmp_path / "in"
    for split in ("train", "test"):
        make_picture(folder / split / "0.jpg", len(split))
        rows = [{"file_name": name, "text": "A dog"} for name in ("0.jpg", f"{split}.jpg")]
        (folder / split / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    argv = ("--input", folder, "--annotations", folder, "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *argv)
    rejects = map(json.loads, (made.folder / "rejects.jsonl").read_text().splitlines())
    why = "names it, but no image has a path that ends with this name; --absent-images drop allows"
    assert {reject["key"]: reject["detail"] for reject in rejects} == {
        f"{split}/{split}.jpg": f"{split}/metadata.jsonl {why} this" for split in ("train", "test")
    }


def test_texts_given_as_annotations(photos, tmp_path, capfd):
    for name, texts in CAPTIONS.items():
        (photos / f"{name[:-4]}.txt").write_text(texts[0])
    argv = ("--input", photos, "--annotations", photos, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert "if they are captions, --captions-from .txt reads them" in capfd.readouterr().err


def samples(photos: pathlib.Path, texts: dict[str, list[str]]) -> dict[str, bytes]:
    """Return the files of WebDataset samples: an image, its texts, and its JSON."""
    found = {}
    for name, lines in texts.items():
        found[name] = (photos / name).read_bytes()
        found[f"{name[:-4]}.txt"] = "".join(f"{line}\n" for line in lines).encode()
        several = {"caption": lines[0], "more": {"all": lines}, "width": 3}
        found[f"{name[:-4]}.json"] = json.dumps(several).encode()
    return found


FIRST = {name: texts[:1] for name, texts in CAPTIONS.items()}


@pytest.mark.parametrize("place", ["tar", "zip", "folder"])
@pytest.mark.parametrize(
    ("option", "wanted"),
    [(".txt", CAPTIONS), (".json:caption", FIRST), (".json:more.all", CAPTIONS)],
)
def test_files_beside_images(photos, tmp_path, place, option, wanted):
    files = samples(photos, CAPTIONS)
    where = tmp_path / f"shards.{place}"
    if place == "folder":
        where.mkdir()
        for name, content in files.items():
            (where / name).write_bytes(content)
        (where / "readme.txt").write_text("These are photos.\n")
    else:
        {"tar": tar_of, "zip": zip_of}[place](where, files)
    made = make(tmp_path / "out", "--input", where, "--captions-from", option, *SPLIT)
    assert captions_of(made) == wanted
    assert not made.rejects


def test_shards_of_splits_in_which_names_repeat(photos, tmp_path):
    for split in ("train", "test"):
        texts = {name: [f"{split} {one}" for one in some] for name, some in CAPTIONS.items()}
        (tmp_path / "shards").mkdir(exist_ok=True)
        tar_of(tmp_path / "shards" / f"{split}-0000.tar", samples(photos, texts))
    made = make(tmp_path / "out", "--input", tmp_path / "shards", "--captions-from", ".txt")
    for split in ("train", "test"):
        assert captions_of(made, split)["1.jpg"] == [f"{split} A cat"]
    assert not made.rejects


def test_classes_and_captions(photos, tmp_path):
    files = samples(photos, CAPTIONS) | {f"{n}.cls": f"c{n}".encode() for n in range(3)}
    shard = tar_of(tmp_path / "a.tar", dict(sorted(files.items())))
    argv = ("--input", shard, "--label-from", ".cls", "--captions-from", ".txt", *SPLIT)
    made = make(tmp_path / "out", *argv)
    assert captions_of(made) == CAPTIONS
    texts = {example["image/class/text"][0] for example in made.examples().values()}
    assert texts == {b"c0", b"c1", b"c2"}


def test_files_that_hold_no_caption_are_rejected(photos, tmp_path):
    files = samples(photos, CAPTIONS)
    files |= {"0.txt": b" \n", "0.json": b'{"caption": 5}', "1.json": b"{"}
    files["2.txt"] = "Zwölf".encode("latin-1")
    del files["2.json"]
    shard = tar_of(tmp_path / "a.tar", files)
    argv = ("--input", shard, *SPLIT, "--max-reject-fraction", "1", "--captions-from")
    made = make(tmp_path / "txt", *argv, ".txt")
    assert captions_of(made) == {"1.jpg": ["A cat"]}
    assert made.rejects == {"0.jpg": "bad_value", "2.jpg": "bad_value"}
    details = (made.folder / "rejects.jsonl").read_text()
    assert "0.txt: no caption" in details
    assert "2.txt: not UTF-8" in details
    kept = make(tmp_path / "kept", *argv, ".txt", "--unannotated", "keep")
    assert captions_of(kept) == {"0.jpg": [], "1.jpg": ["A cat"]}
    made = make(tmp_path / "json", *argv, ".json:caption", "--unannotated", "keep")
    assert captions_of(made) == {"2.jpg": []}
    details = (made.folder / "rejects.jsonl").read_text()
    assert "0.json: expected a text or a list of texts in the field 'caption', got 5" in details
    assert "1.json: not JSON" in details


IN_FOLDERS = {  # {case: (image, file of its captions, both without extension; split; class)}
    "sibling": ("images/{n}", "captions/{n}", "train", None),
    "texts": ("ds/imgs/{n}", "ds/Texts/{n}", "train", None),
    "labels": ("images/{n}", "labels/{n}", "train", None),
    "classes": ("images/k{n}/0", "text_c10/k{n}/0", "train", "k{n}"),
    "in splits": ("{split}/images/0", "{split}/prompts/0", "{split}", None),
    "around splits": ("images/{split}/0", "captions/{split}/0", "{split}", None),
    "names of splits": ("{split}_images/0", "{split}_captions/0", "{split}", None),
    "beside splits": ("{split}/0", "{split}_captions/0", "{split}", None),
    "inside": ("{n}", "captions/{n}", "train", None),
    "other folder": ("photos/{n}", "captions/{n}", "train", "photos"),
}
SPLITS = ("train", "validation", "test")


@pytest.mark.parametrize(
    ("case", "place"), [*((case, "folder") for case in IN_FOLDERS), ("sibling", "zip")]
)
def test_files_in_a_folder_for_captions(photos, tmp_path, case, place):
    given = IN_FOLDERS[case]
    expected, files = {}, {}
    for number, by_default in enumerate(SPLITS):
        image, text, split, label = (
            one and one.format(n=number, split=by_default) for one in given
        )
        files[f"{image}.jpg"] = (photos / f"{number}.jpg").read_bytes()
        files[f"{text}.txt"] = f"caption {number}".encode()
        expected[f"{image}.jpg"] = (split, label, [f"caption {number}"])
    where = tmp_path / f"data.{place}"
    if place == "zip":
        zip_of(where, files)
    for name, content in files.items() if place == "folder" else ():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(content)
    argv = SPLIT if given[2] == "train" else ()
    made = make(tmp_path / "out", "--input", where, "--captions-from", ".txt", *argv)
    assert not made.rejects
    found = {
        key: (split, *labels_of(example), [text.decode() for text in example["image/caption"]])
        for split in made.manifest.splits
        for (key, _), example in made.examples(split).items()
    }
    assert found == expected


def test_captions_beside_an_image_and_in_a_folder_are_ambiguous(photos, tmp_path, capfd):
    (photos.parent / "captions").mkdir()
    for folder in ("Images", "captions"):
        for number in range(3):
            (photos.parent / folder / f"{number}.txt").write_text(folder)
    argv = ("--input", photos.parent, "--captions-from", ".txt")
    assert images(*argv, "--output", tmp_path / "out") == 2
    assert "are both captions of the image" in capfd.readouterr().err


def test_captions_win_over_labels(photos, tmp_path):
    for folder in ("captions", "labels"):
        (photos.parent / folder).mkdir()
        for number in range(3):
            (photos.parent / folder / f"{number}.txt").write_text(folder)
    argv = ("--input", photos.parent, "--captions-from", ".txt", *SPLIT)
    made = make(tmp_path / "out", *argv)
    assert captions_of(made) == {f"{number}.jpg": ["captions"] for number in range(3)}
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert "captions of 3 images in .txt files that are not in the input were dropped" in note


def test_the_error_names_folders_for_captions(photos, tmp_path, capfd):
    (photos.parent / "others").mkdir()
    for number in range(3):
        (photos.parent / "others" / f"{number}.txt").write_text("A dog")
    argv = ("--captions-from", ".txt", "--output", tmp_path / "out", "--input")
    assert images(*argv, photos.parent) == 2
    assert "beside that of the images needs a name such as captions" in capfd.readouterr().err
    assert images(*argv, photos) == 2
    assert "such as captions beside images: pass the folder that holds" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--captions-from", "txt"], "--captions-from: expected the extension of files, as in .txt,"
         " or of files of JSON and a field, as in .json:caption, got 'txt'"),
        (["--captions-from", ".json"], "as in .json:caption, got '.json'"),
        (["--captions-from", ".txt"], "found no .txt file in"),
        (["--captions-from", ".txt", "--annotations", "a.txt"], "--captions-from"),
        (["--captions", "first"], "--captions"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_used(photos, tmp_path, capfd, more, message):
    assert images("--input", photos, *more, "--output", tmp_path / "out") == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("noun", "header", "rows"),
    [
        ("captions", "path,caption", ("0.jpg,one", "0.jpg,two", "1.jpg,three", "2.jpg,four")),
        (
            "boxes",
            "image,xmin,ymin,xmax,ymax,class",
            ("0.jpg,1,1,4,4,a", "0.jpg,2,2,5,5,b", "1.jpg,1,1,4,4,a"),
        ),
    ],
)
def test_the_reject_of_a_listing_names_options_that_work(photos, tmp_path, noun, header, rows):
    path = tmp_path / "in" / "table.csv"
    path.write_text("\n".join([header, *(f"Images/{row}" for row in rows), ""]))
    made = make(tmp_path / "out", "--input", path, *SPLIT, "--max-reject-fraction", "1",
                "--unlabelled", "keep")  # fmt: skip
    assert {*made.rejects} == {"Images/0.jpg"}
    details = (made.folder / "rejects.jsonl").read_text()
    found = re.search(rf"; (--input .*) reads all {noun} of an image into one record", details)
    assert found is not None
    kept = () if noun == "captions" else ("--unannotated", "keep")
    read = make(tmp_path / "read", *shlex.split(found[1]), *SPLIT, *kept)
    assert not read.rejects
    assert len(read.examples()) == 3
    if noun == "captions":
        assert captions_of(read) == {"0.jpg": ["one", "two"], "1.jpg": ["three"], "2.jpg": ["four"]}


def test_the_note_on_texts_beside_images_names_the_option(photos, tmp_path):
    shard = tar_of(tmp_path / "a.tar", samples(photos, CAPTIONS))
    made = make(tmp_path / "out", "--input", shard, *SPLIT)
    (note,) = [str(note) for note in made.manifest.notes if note.code == "left-unread"]
    assert "0.txt (--captions-from .txt reads captions)" in note
    made = make(tmp_path / "read", "--input", shard, "--captions-from", ".txt", *SPLIT)
    assert not [note for note in made.manifest.notes if note.code == "left-unread"]


BOX = "image,xmin,ymin,xmax,ymax,class,split"
DIVIDED = {
    "captions.csv": ["image,caption,split", "0.jpg,a,test", "1.jpg,b,train", "2.jpg,c,train"],
    "boxes.csv": [BOX, *(f"{n}.jpg,1,1,9,9,a,{s}" for n, s in enumerate(["test", *["train"] * 2]))],
    "metadata.jsonl": [
        json.dumps({"file_name": f"{n}.jpg", "text": "a", "split": "train" if n else "test"})
        for n in range(3)
    ],
    "objects.jsonl": [
        json.dumps(
            {
                "file_name": f"{n}.jpg",
                "objects": {"bbox": [[1, 1, 9, 9]], "categories": [0]},
                "split": "train" if n else "test",
            }
        )
        for n in range(3)
    ],
}


@pytest.mark.parametrize("table", DIVIDED)
def test_splits_in_a_table_of_annotations_are_noted(photos, tmp_path, table):
    path = photos / table
    path.write_text("\n".join(DIVIDED[table]))
    argv = ("--annotations", path, "--num-shards", 1, "--size", 16)
    argv += ("--annotation-format", "hub") if table == "objects.jsonl" else ()
    made = make(tmp_path / "out", "--input", photos, *argv, "--splits", "train=1")
    (note,) = [note for note in made.manifest.notes if note.code == "splits"]
    also = " --drop-columns objects" if table == "objects.jsonl" else ""
    given = f"--input {path}{also}"
    assert f"{table}: the column 'split' was not read: {given} reads the images" in note
    given = ("--split-from", "none", "--splits", "train=1")
    made = make(tmp_path / "none", "--input", photos, *argv, *given)
    assert not [note for note in made.manifest.notes if note.code == "splits"]
    made = make(tmp_path / "listed", "--input", path, *argv, *also.split())
    assert not [note for note in made.manifest.notes if note.code == "splits"]
    assert {split: len(made.keys(split)) for split in made.manifest.splits} == {
        "test": 1,
        "train": 2,
    }


def test_a_table_with_several_rows_per_image_is_no_listing_of_splits(photos, tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text("\n".join([*DIVIDED["boxes.csv"], "0.jpg,2,2,9,9,b,test"]))
    made = make(tmp_path / "out", "--input", photos, "--annotations", path, *SPLIT)
    (note,) = [note for note in made.manifest.notes if note.code == "splits"]
    assert "--input TABLE takes splits from a table with one row per image" in note


def test_further_columns_of_captions_are_noted(photos, tmp_path):
    path = tmp_path / "captions.csv"
    path.write_text("id,image,caption,author\n1,0.jpg,a,me\n2,1.jpg,b,\n3,2.jpg,c,you\n")
    made = make(tmp_path / "out", "--input", photos, "--annotations", path, *SPLIT)
    (note,) = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert note.endswith("fields (author) of 2 annotations, such as one of 0.jpg")
