"""Classes keep the names, the order and the numbers that they have in the input."""

import io
import json
import pathlib
import re
import tarfile
from collections.abc import Iterable

import numpy as np
import pytest

import recordmill
from recordmill.pipelines.cli import main
from tests.folders import make_folder
from tests.image_runs import Made, make, run
from tests.tfrecord_inputs import write_records

pytestmark = pytest.mark.usefixtures("encoders")

WHOLE = ("--splits", "train=1", "--num-shards", "1")


def numbered(made: Made) -> dict[str, int]:
    """{class: number} in the manifest, after a check of the stored labels against it."""
    labels, offset = made.manifest.labels, made.manifest.label_offset
    numbers = {name: number for number, name in enumerate(labels, start=offset)}
    assert main(["verify", "--dataset", str(made.folder), "--deep", "--quiet"]) == 0
    feature = next(name for name, one in made.manifest.features.items() if one.kind == "label")
    stored = {key: example[feature][0] for key, example in made.examples().items()}
    of_index = {(row["key"], row["copy"]): numbers[row["label"]] for row in made.index("train")}
    assert stored == of_index
    return numbers


def note_of(made: Made, code: str = "class-numbers") -> str | None:
    return next((str(note) for note in made.manifest.notes if note.code == code), None)


def rows(path: pathlib.Path, classes: Iterable[object], *, first: int = 0) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"x": n, "y": 0.5 * n, "label": label})
        for n, label in enumerate(classes, start=first)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def records(path: pathlib.Path, classes: Iterable[int]) -> pathlib.Path:
    return write_records(path, [{"x": [n], "label": [one]} for n, one in enumerate(classes)])


def dataset(
    place: pathlib.Path, classes: Iterable[str], names: Iterable[str], *argv: object, first: int = 0
) -> Made:
    """A dataset of a table whose classes have the order of a file of names."""
    file = place / "names.txt"
    place.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name}\n" for name in names))
    argv = (
        "--input",
        rows(place / "in.jsonl", classes, first=first),
        "--labels-file",
        file,
        *argv,
        *WHOLE,
    )
    return make(place / "out", *argv, command="table")


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """owl 1, elk 2, fox 3 (without a record), bee 4."""
    place = tmp_path_factory.mktemp("pets")
    names = ("owl", "elk", "fox", "bee")
    return dataset(place, ["elk", "owl", "bee", "elk"], names, "--label-offset", "1")


@pytest.mark.parametrize("source", ["jsonl", "csv", "tfrecord", "listing", "intervals"])
def test_contiguous_integers_keep_their_numbers(source: str, tmp_path: pathlib.Path) -> None:
    classes = [3, 4, 2, 3, 5]
    command, argv = "table", ()
    if source == "jsonl":
        given = rows(tmp_path / "in.jsonl", classes)
    elif source == "csv":
        given = tmp_path / "in.csv"
        given.write_text("x,label\n" + "".join(f"{n},{one}\n" for n, one in enumerate(classes)))
    elif source == "tfrecord":
        given = records(tmp_path / "in.tfrecord", classes)
    elif source == "listing":
        photos = make_folder(tmp_path / "photos", {"a": 5})
        files = sorted((photos / "a").iterdir())
        given = photos / "list.csv"
        lines = [f"a/{file.name},{one}" for file, one in zip(files, classes, strict=True)]
        given.write_text("\n".join(["path,label", *lines]) + "\n")
        command = "images"
    else:
        given, file = tmp_path / "in.csv", tmp_path / "intervals.csv"
        times = [f"2024-01-01T00:00:{n:02}" for n in range(20)]
        lines = [f"a,{time},{n}" for n, time in enumerate(times)]
        given.write_text("\n".join(["series,time,x", *lines]) + "\n")
        spans = [f"a,{times[4 * n]},{times[4 * n + 3]},{one}" for n, one in enumerate(classes)]
        file.write_text("\n".join(["series,start,end,label", *spans]) + "\n")
        command = "sensor"
        argv = ("--series-column", "series", "--time-column", "time")
        argv += ("--window", 4, "--intervals", file)
    made = make(tmp_path / "out", "--input", given, *argv, *WHOLE, command=command)
    assert numbered(made) == {"2": 2, "3": 3, "4": 4, "5": 5}
    assert {note.code for note in made.manifest.notes} & {"class-numbers", "tfds"} == set()


@pytest.mark.parametrize(
    ("classes", "numbers", "said"),
    [
        ([1, 3, 7], {"1": 0, "3": 1, "7": 2}, "'1' was 1, is 0, '3' was 3, is 1, '7' was 7, is 2"),
        ([0, 1, 3], {"0": 0, "1": 1, "3": 2}, "1 of 3 classes: '3' was 3, is 2"),
        ([-1, 0, 1], {"-1": 0, "0": 1, "1": 2}, "'-1' was -1, is 0, '0' was 0, is 1"),
        ([2**40, 2**40 + 1], {str(2**40): 0, str(2**40 + 1): 1}, f"was {2**40}, is 0"),
    ],
)
def test_other_integers_are_noted(classes, numbers, said, tmp_path: pathlib.Path) -> None:
    given = records(tmp_path / "in.tfrecord", classes)
    made = make(tmp_path / "out", "--input", given, *WHOLE, command="table")
    assert numbered(made) == numbers
    assert said in str(note_of(made))
    argv = ("--input", given, "--fail-on", "class-numbers", "--output", tmp_path / "failed")
    assert run("table", *argv) == 1


def test_the_note_names_a_few_of_many_classes(tmp_path: pathlib.Path) -> None:
    given = records(tmp_path / "in.tfrecord", range(0, 200, 2))
    argv = ("--input", given, "--label-type", "class", *WHOLE)
    made = make(tmp_path / "out", *argv, command="table")
    note = str(note_of(made))
    assert "99 of 100 classes: '2' was 2, is 1," in note
    assert "and 94 more; --labels-file with a name for each number from 0 to 198 keeps" in note
    names = tmp_path / "names.txt"
    names.write_text("".join(f"{n}\n" for n in range(199)))
    kept = make(tmp_path / "kept", *argv, "--labels-file", names, command="table")
    assert numbered(kept) == {str(n): n for n in range(199)}
    assert note_of(kept) is None


def test_folders_of_integers_are_numbered_from_0_with_a_note(tmp_path: pathlib.Path) -> None:
    photos = make_folder(tmp_path / "photos", {"1": 2, "2": 2, "10": 2})
    argv = ("--input", photos, *WHOLE, "--size", "8")
    made = make(tmp_path / "out", *argv)
    assert numbered(made) == {"1": 0, "2": 1, "10": 2}
    assert "'10' was 10, is 2" in str(note_of(made))
    two = make(tmp_path / "two", *argv, "--exclude-labels", "10")
    assert str(note_of(two)).endswith("--label-offset 1 keeps the numbers")
    for offset, wanted in ((1, {"1": 1, "2": 2}), (0, {"1": 0, "2": 1})):
        argv = ("--input", photos, *WHOLE, "--size", "8", "--exclude-labels", "10")
        made = make(tmp_path / f"{offset}", *argv, "--label-offset", offset)
        assert (numbered(made), note_of(made)) == (wanted, None)


def test_a_dataset_keeps_its_classes(pets: Made, tmp_path: pathlib.Path) -> None:
    again = make(tmp_path / "out", "--input", pets.folder, "--num-shards", 1, command="table")
    assert numbered(again) == {"owl": 1, "elk": 2, "fox": 3, "bee": 4}
    assert again.manifest.class_weights == pets.manifest.class_weights
    assert again.manifest.splits["train"].shards[0].sha256 == (
        pets.manifest.splits["train"].shards[0].sha256
    )
    assert note_of(again) is None
    loaded = recordmill.load(str(again.folder), "train", batch_size=4, one_hot=True)
    assert next(iter(loaded))[1].shape == (4, 4)


@pytest.mark.parametrize(
    ("options", "numbers", "said"),
    [
        (("--label-offset", "0"), {"owl": 0, "elk": 1, "fox": 2, "bee": 3}, None),
        (("--label-offset", "5"), {"owl": 5, "elk": 6, "fox": 7, "bee": 8}, None),
        (
            ("--exclude-labels", "elk"),
            {"owl": 1, "fox": 2, "bee": 3},
            "2 of 4 classes: 'fox' was 3, is 2, 'bee' was 4, is 3; --labels-file with a name for"
            " each number from 1 to 4 and --label-offset 1 keeps the numbers",
        ),
        (("--include-labels", "bee,owl"), {"owl": 1, "bee": 2}, "'bee' was 4, is 2"),
        (("--label-map", "owl=uhu"), {"uhu": 1, "elk": 2, "fox": 3, "bee": 4}, None),
        (("--label-map", "bee=elk"), {"owl": 1, "elk": 2, "fox": 3}, "'bee' was 4, is 2"),
        (("--label-map", "owl="), {"elk": 1, "fox": 2, "bee": 3}, "'elk' was 2, is 1"),
        (
            ("--label-map", "elk=zoo", "--label-map", "owl=zoo", "--label-offset", "0"),
            {"zoo": 0, "fox": 1, "bee": 2},
            "'fox' was 3, is 1",
        ),
        (("--labels-file", "{tmp}/names"), {"bee": 1, "elk": 2, "owl": 3}, None),
        (
            ("--labels-file", "{tmp}/names", "--label-offset", "0"),
            {"bee": 0, "elk": 1, "owl": 2},
            None,
        ),
        (("--label-column", "x"), {"0": 0, "1": 1, "2": 2, "3": 3}, None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_options_change_the_classes_of_a_dataset(
    options: tuple[str, ...],
    numbers: dict[str, int],
    said: str | None,
    pets: Made,
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "names").write_text("bee\nelk\nowl\n")
    argv = [one.format(tmp=tmp_path) for one in options]
    made = make(tmp_path / "out", "--input", pets.folder, *argv, command="table")
    assert numbered(made) == numbers
    assert (note_of(made) is None) == (said is None)
    assert (said or "") in str(note_of(made))


@pytest.mark.parametrize(
    ("classes", "options", "numbers", "said"),
    [
        ("12345", ("--label-map", "3=three"), "1 2 three 4 5 from 1", None),
        (
            "12345",
            ("--label-map", "1=bad,2=bad,4=good,5=good"),
            "bad 3 good from 1",
            "'2' was 2, is 1, '3' was 3, is 2, '4' was 4, is 3",
        ),
        ("12345", ("--label-map", "1=e,2=d,3=c,4=b,5=a"), "e d c b a from 1", None),
        ("01", ("--label-map", "0=normal,1=fault"), "normal fault from 0", None),
        ("12345", ("--label-map", "3="), "1 2 4 5 from 1", "'4' was 4, is 3, '5' was 5, is 4"),
        ("12345", ("--label-map", "1=one,3="), "one 2 4 5 from 1", "'4' was 4, is 3"),
        ("12345", ("--exclude-labels", "3"), "1 2 4 5 from 1", "'4' was 4, is 3"),
        ("12345", ("--include-labels", "2,5"), "2 5 from 1", "'2' was 2, is 1"),
        ("12345", ("--exclude-labels", "1"), "2 3 4 5 from 2", None),
        ("12345", ("--include-labels", "2,3"), "2 3 from 2", None),
        ("12345", ("--label-map", "2=1"), "1 3 4 5 from 1", "'3' was 3, is 2"),
        ("12345", ("--label-map", "1=0,2=1,3=2,4=3,5=4"), "0 1 2 3 4 from 0", None),
        ("12345", ("--label-map", "1=10"), "2 3 4 5 10 from 0", "'10' was 10, is 4"),
        ("137", ("--label-map", "7=seven"), "1 3 seven from 0", "'7' was 7, is 2"),
        ("123", ("--label-map", "3=x", "--label-offset", "0"), "1 2 x from 0", None),
        ("abc", ("--label-map", "b=zebra"), "a c zebra from 0", None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("command", ["table", "text"])
def test_options_change_the_classes_of_whole_numbers(
    command, classes, options, numbers, said, tmp_path
) -> None:
    """The positions are those of the numbers; the first number stays."""
    lines = [f"row number {n},{classes[n % len(classes)]}" for n in range(20)]
    (tmp_path / "in.csv").write_text("\n".join(["text,label", *lines]))
    argv = ("--input", tmp_path / "in.csv", *WHOLE, *options)
    argv += ("--text-column", "text") if command == "text" else ()
    made = make(tmp_path / "out", *argv, command=command)
    names, offset = numbers.split(" from ")
    assert numbered(made) == {n: at for at, n in enumerate(names.split(), start=int(offset))}
    assert (note_of(made) is None) == (said is None)
    assert (said or "") in str(note_of(made))
    if said is not None:
        argv = (*argv, "--fail-on", "class-numbers", "--output", tmp_path / "failed")
        assert run(command, *argv) == 1


@pytest.mark.parametrize(
    ("classes", "options", "kept", "of_joined"),
    [
        ("12345", ("--exclude-labels", "3"), {"1": 1, "2": 2, "4": 4, "5": 5}, False),
        ("12345", ("--label-map", "3="), {"1": 1, "2": 2, "4": 4, "5": 5}, False),
        ("137", (), {"1": 1, "3": 3, "7": 7}, False),
        ("023", ("--label-map", "3=x"), {"0": 0, "2": 2, "x": 3}, False),
        ("12345", ("--label-map", "1=a,2=a,4=b,5=b"), {"a": 1, "3": 3, "b": 4}, True),
    ],
)
def test_the_advice_of_the_note_keeps_the_numbers(
    classes, options, kept, of_joined, tmp_path
) -> None:
    given = rows(tmp_path / "in.jsonl", [int(classes[n % len(classes)]) for n in range(20)])
    argv = ("--input", given, *WHOLE, *options)
    note = str(note_of(make(tmp_path / "out", *argv, command="table")))
    assert (", of joined classes the first" in note) == of_joined
    advice = re.search(r"from (\d+) to (\d+)(?: and --label-offset (\d+))? keeps", note)
    low, high = int(advice[1]), int(advice[2])
    names = {number: name for name, number in kept.items()}
    lines = [names.get(number, f"unused {number}") for number in range(low, high + 1)]
    (tmp_path / "names").write_text("\n".join(lines))
    argv = (*argv, "--labels-file", tmp_path / "names", "--label-offset", advice[3] or 0)
    made = make(tmp_path / "kept", *argv, command="table")
    assert {name: number for name, number in numbered(made).items() if name in kept} == kept
    assert note_of(made) is None


def test_an_offset_is_advised_only_where_it_keeps_the_numbers(tmp_path: pathlib.Path) -> None:
    photos = make_folder(tmp_path / "photos", {"1": 2, "2": 2, "3": 2})
    argv = ("--input", photos, "--size", "8", *WHOLE)
    note = str(note_of(make(tmp_path / "out", *argv)))
    assert note.endswith("; --label-offset 1 keeps the numbers")
    made = make(tmp_path / "kept", *argv, "--label-offset", "1")
    assert numbered(made) == {"1": 1, "2": 2, "3": 3}
    assert note_of(made) is None
    one = dataset(tmp_path / "a", ["ant", "bee", "cat"], ("ant", "bee", "cat"))
    joined = make(
        tmp_path / "joined", "--input", one.folder, "--label-map", "cat=bee", command="table"
    )
    assert str(note_of(joined)).endswith("1 of 3 classes: 'cat' was 2, is 1")


def test_folded_classes_keep_the_first_number(tmp_path: pathlib.Path) -> None:
    one = dataset(tmp_path / "a", ["Owl", "elk", "owl"], ("elk", "Owl", "owl", "bee"))
    made = make(tmp_path / "out", "--input", one.folder, "--fold-labels", command="table")
    assert numbered(made) == {"elk": 0, "owl": 1, "bee": 2}


def test_datasets_of_agreeing_numbers_are_joined(pets: Made, tmp_path: pathlib.Path) -> None:
    names = ("elk", "fox", "bee", "ant")
    other = dataset(tmp_path / "a", ["ant", "elk"], names, "--label-offset", 2, first=9)
    argv = ("--input", pets.folder, "--input", other.folder)
    made = make(tmp_path / "out", *argv, command="table")
    assert numbered(made) == {"owl": 1, "elk": 2, "fox": 3, "bee": 4, "ant": 5}


def test_datasets_of_different_numbers_need_a_labels_file(
    pets: Made, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = dataset(tmp_path / "a", ["owl", "elk"], ("elk", "owl"), first=9)
    argv = ["--input", pets.folder, "--input", other.folder, "--output", tmp_path / "out"]
    assert run("table", *argv) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"the class 'elk' has the number 2 in {pets.folder}, and 0 in {other.folder}" in said
    assert "give all of them with --labels-file" in said
    (tmp_path / "names").write_text("bee\nowl\nelk\n")
    argv += ["--labels-file", tmp_path / "names"]
    assert run("table", *argv) == 2
    assert "begin at 0" in (said := " ".join(capsys.readouterr().err.split()))
    assert "give the number of the first one with --label-offset" in said
    assert run("table", *argv, "--label-offset", 0) == 0
    assert numbered(Made(tmp_path / "out")) == {"bee": 0, "owl": 1, "elk": 2}


def test_an_adopted_dataset_keeps_its_classes(tmp_path: pathlib.Path) -> None:
    records(tmp_path / "in/a.tfrecord", [2, 0, 2])
    (tmp_path / "names").write_text("owl\nbee\nelk\nant\n")
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "adopted", "--quiet")
    assert main(["adopt", *map(str, argv), "--labels-file", str(tmp_path / "names")]) == 0
    made = make(tmp_path / "out", "--input", tmp_path / "adopted", command="table")
    assert made.manifest.labels == ("owl", "bee", "elk", "ant")
    assert made.manifest.splits["train"].classes == {"elk": 2, "owl": 1}


@pytest.mark.parametrize("names", ["owl\nelk\nbee\n", None], ids=["names", "count"])
def test_a_folder_of_tfds_keeps_its_classes(names: str | None, tmp_path: pathlib.Path) -> None:
    """bee, the last class, has no record."""
    records(tmp_path / "in/pets-train.tfrecord-00000-of-00001", [1, 0, 1])
    label = {"pythonClassName": "ClassLabel", "classLabel": {"numClasses": "3"}}
    features = {"featuresDict": {"features": {"label": label, "x": {}}}}
    (tmp_path / "in/features.json").write_text(json.dumps(features))
    if names is not None:
        (tmp_path / "in/label.labels.txt").write_text(names)
    made = make(tmp_path / "out", "--input", tmp_path / "in", *WHOLE[2:], command="table")
    expected = ("owl", "elk", "bee") if names else ("0", "1", "2")
    assert numbered(made) == {name: number for number, name in enumerate(expected)}


PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU"
    b"\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82"
)


@pytest.mark.parametrize(
    ("pairs", "numbers", "said"),
    [
        ([(2, "cat"), (1, "dog"), (3, "ape")], {"dog": 1, "cat": 2, "ape": 3}, None),
        ([(5, "cat"), (1, "dog")], {"dog": 0, "cat": 1}, "'dog' was 1, is 0, 'cat' was 5, is 1"),
        ([(1, "cat"), (1, "dog")], {"cat": 0, "dog": 1}, "'cat' and 'dog' have the number 1"),
        ([(1, "cat"), (2, "cat")], {"cat": 0}, "'cat' has the numbers 1 and 2"),
        ([(-1, "cat"), (0, "dog")], {"cat": 0, "dog": 1}, "'cat' was -1, is 0"),
    ],
)
def test_names_beside_numbers_keep_these(pairs, numbers, said, tmp_path: pathlib.Path) -> None:
    """As in the TFRecords of ImageNet and of image classifiers of the TensorFlow models."""
    examples = [
        {
            "image/encoded": [PIXEL],
            "image/class/label": [number],
            "image/class/text": [name.encode()],
        }
        for number, name in pairs
    ]
    write_records(tmp_path / "in/a.tfrecord", examples)
    made = make(tmp_path / "out", "--input", tmp_path / "in", *WHOLE)
    assert numbered(made) == numbers
    assert (note_of(made) is None) == (said is None)
    assert (said or "") in str(note_of(made))


def test_numbers_beside_names_in_compressed_files_are_noted(tmp_path: pathlib.Path) -> None:
    given = tmp_path / "in/a.tfrecord.gz"
    features = {"image/encoded": [PIXEL], "image/class/label": [2], "image/class/text": [b"cat"]}
    write_records(given, [features], compressed=True)
    made = make(tmp_path / "out", "--input", given, *WHOLE)
    assert numbered(made) == {"cat": 0}
    assert "decompress them (gunzip -k), or give the names" in str(note_of(made))


@pytest.mark.parametrize("source", ["lists", "webdataset"])
def test_integers_in_lists_and_beside_images_keep_their_numbers(
    source: str, tmp_path: pathlib.Path
) -> None:
    if source == "lists":
        given = rows(tmp_path / "in.jsonl", [[1, 2], [3], [2, 4]])
        made = make(tmp_path / "out", "--input", given, *WHOLE, command="table")
        again = make(tmp_path / "again", "--input", made.folder, command="table")
        stored = [tuple(example["label"]) for example in again.examples().values()]
        assert sorted(stored) == [(1, 2), (2, 4), (3,)]
        return
    with tarfile.open(tmp_path / "in.tar", "w") as file:
        for number, label in enumerate((3, 1, 2)):
            for name, data in ((f"{number}.png", PIXEL), (f"{number}.cls", str(label).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))
    argv = ("--input", tmp_path / "in.tar", "--label-from", ".cls")
    assert numbered(make(tmp_path / "out", *argv, *WHOLE)) == {"1": 1, "2": 2, "3": 3}


def boxes(path: pathlib.Path, classes: Iterable[tuple[int, str]]) -> pathlib.Path:
    corners = {f"image/object/bbox/{side}": [at] for side, at in zip(
        ("xmin", "ymin", "xmax", "ymax"), (0.0, 0.0, 1.0, 1.0), strict=True
    )}  # fmt: skip
    return write_records(
        path,
        [
            {
                "image/encoded": [PIXEL],
                **corners,
                "image/object/class/label": [number],
                "image/object/class/text": [name.encode()],
            }
            for number, name in classes
        ],
    )


def test_boxes_keep_the_numbers_of_their_classes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label map begins at 1; decoders of other programs need no --label-offset then."""
    boxes(tmp_path / "in/a.tfrecord", [(2, "cat"), (1, "dog"), (3, "ape")])
    options = ("--feature-set", "tf-object-detection", "--image-class", "largest")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *WHOLE, *options)
    assert (made.manifest.labels, made.manifest.label_offset) == (("dog", "cat", "ape"), 1)
    stored = {
        example["image/object/class/text"][0]: example["image/object/class/label"][0]
        for example in made.examples().values()
    }
    assert stored == {b"dog": 1, b"cat": 2, b"ape": 3}
    again = make(tmp_path / "again", "--input", made.folder, *options, "--num-shards", 1)
    assert (again.manifest.labels, again.manifest.label_offset) == (("dog", "cat", "ape"), 1)
    fewer = make(tmp_path / "fewer", "--input", made.folder, *options, "--exclude-labels", "dog")
    assert (fewer.manifest.labels, fewer.manifest.label_offset) == (("cat", "ape"), 1)
    assert "'cat' was 2, is 1" in str(note_of(fewer))
    boxes(tmp_path / "other/b.tfrecord", [(1, "cat"), (2, "dog")])
    other = make(tmp_path / "b", "--input", tmp_path / "other", *WHOLE, *options)
    inputs = ("--input", made.folder, "--input", other.folder)
    assert run("images", *inputs, *options, "--output", tmp_path / "both") == 2
    assert "give all of them with --labels-file" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "names").write_text("ape\ncat\ndog\n")
    argv = (*inputs, *options, "--labels-file", tmp_path / "names")
    both = make(tmp_path / "both", *argv)
    assert (both.manifest.labels, both.manifest.label_offset) == (("ape", "cat", "dog"), 1)


@pytest.mark.parametrize(
    ("items", "numbers"),
    [
        ({"dog": 1, "cat": 2, "yak": 3, "ape": 4}, {"dog": 1, "cat": 2, "yak": 3, "ape": 4}),
        ({"dog": 2, "cat": 1, "yak": 3, "ape": 4}, {"dog": 0, "cat": 1, "ape": 2}),
    ],
    ids=["same", "others"],
)
def test_a_label_map_names_classes_without_records(items, numbers, tmp_path: pathlib.Path) -> None:
    """Exports of annotation tools hold one in the folder of each split."""
    for split in ("train", "valid"):
        boxes(tmp_path / f"in/{split}/{split}.tfrecord", [(2, "cat"), (1, "dog"), (4, "ape")])
        lines = [f'item {{\n  name: "{name}",\n  id: {n}\n}}' for name, n in items.items()]
        (tmp_path / f"in/{split}/cells_label_map.pbtxt").write_text("\n".join(lines))
    made = make(tmp_path / "out", "--input", tmp_path / "in")
    labels = enumerate(made.manifest.labels, start=made.manifest.label_offset)
    assert {name: number for number, name in labels} == numbers
    assert (note_of(made) is None) == ("yak" in numbers)


def test_numbers_learned_from_a_dataset(tmp_path: pathlib.Path) -> None:
    """The earlier dataset decides the numbers, also of classes without records."""
    given = rows(tmp_path / "a.jsonl", [2, 3, 4, 3])
    one = make(tmp_path / "one", "--input", given, *WHOLE, command="table")
    later = rows(tmp_path / "b.jsonl", [4, 3, 3])
    argv = ("--input", later, "--learned-from", one.folder, *WHOLE)
    two = make(tmp_path / "two", *argv, command="table")
    assert numbered(two) == {"2": 2, "3": 3, "4": 4}
    assert run("table", *argv, "--label-offset", 0, "--output", tmp_path / "three") == 2


def test_a_dataset_with_kept_numbers_is_up_to_date(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = rows(tmp_path / "in.jsonl", [1, 2, 1])
    argv = ("--input", given, "--output", tmp_path / "out", *WHOLE)
    assert run("table", *argv) == 0
    before = (tmp_path / "out/dataset.json").read_bytes()
    assert run("table", *argv) == 0
    assert (tmp_path / "out/dataset.json").read_bytes() == before
    capsys.readouterr()
    assert run("table", *argv, "--label-offset", 0) == 2
    assert "--label-offset was" in capsys.readouterr().err


def test_numbers_of_label_arrays_are_kept(tmp_path: pathlib.Path) -> None:
    """The digits of SVHN are 1 to 10."""
    np.savez(tmp_path / "in.npz", x=np.zeros((10, 4), "f4"), y=np.arange(10, 0, -1))
    argv = ("--input", tmp_path / "in.npz", "--array", "x", "--label-array", "y")
    argv += ("--per-item", *WHOLE)
    made = make(tmp_path / "out", *argv, command="arrays")
    assert numbered(made) == {str(n): n for n in range(1, 11)}


def test_copies_in_a_dataset_are_left_out_with_a_note(tmp_path: pathlib.Path) -> None:
    photos = make_folder(tmp_path / "photos", {"ant": 6, "bee": 2})
    argv = ("--balance", "oversample", "--size", "8")
    one = make(tmp_path / "one", "--input", photos, *argv, *WHOLE)
    assert one.manifest.ledger.copies.written == 4
    two = make(tmp_path / "two", "--input", one.folder)
    assert str(note_of(two, "copies")).startswith("4 copies of records were left out")
    assert "--balance oversample makes copies again" in str(note_of(two, "copies"))
    again = make(tmp_path / "again", "--input", one.folder, "--balance", "oversample")
    assert "balancing makes its own" in str(note_of(again, "copies"))
    assert again.manifest.splits["train"].records == 12
    assert main(["adopt", "--input", str(one.folder), "--output", str(tmp_path / "a")]) == 0
    kept = make(tmp_path / "kept", "--input", tmp_path / "a")
    assert kept.manifest.splits["train"].records == 12
    assert note_of(kept, "copies") is None


def test_copies_of_rows_are_noted(tmp_path: pathlib.Path) -> None:
    given = rows(tmp_path / "in.jsonl", ["a", "a", "a", "b"])
    argv = ("--input", given, "--balance", "oversample", *WHOLE)
    one = make(tmp_path / "one", *argv, command="table")
    two = make(tmp_path / "two", "--input", one.folder, command="table")
    assert str(note_of(two, "copies")).startswith("2 copies of records were left out")
