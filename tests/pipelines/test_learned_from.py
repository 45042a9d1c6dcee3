"""--learned-from: what an earlier dataset learned is applied to other input."""

import hashlib
import json
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from recordmill.pipelines.cli import main
from tests.image_runs import Made, make, run
from tests.labelled import OPTIONS, write_labelled

pytestmark = pytest.mark.usefixtures("encoders")

FEATURES = (
    *("--label-column", "class", "--zscore", "income", "--impute", "income=mean"),
    *("--bucketize", "age=4", "--vocabulary", "city", "--one-hot", "code", "--minmax", "size"),
)
CITIES = ("oslo", "rome", "lima")


def rows(
    path: pathlib.Path,
    *,
    count: int = 120,
    seed: int = 0,
    cities: Sequence[str] = CITIES,
    classes: Sequence[str] = ("a", "b", "c"),
    size: str = "{:.2f}",
) -> pathlib.Path:
    """A table. size: format of a column of numbers."""
    draw = np.random.default_rng(seed)
    lines = ["age,city,income,code,size,plain,class"]
    for n in range(count):
        income = "" if n % 40 == 7 else f"{draw.normal(5, 2):.2f}"
        age, number = draw.integers(18, 90), size.format(draw.normal(3, 1))
        city, code, label = (draw.choice(some) for some in (cities, ("7", "8"), classes))
        lines.append(f"{age},{city},{income},{code},{number},{draw.random():.3f},{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("base")
    source = rows(folder / "rows.csv")
    return make(folder / "out", "--input", source, *FEATURES, command="table")


def apply(folder: pathlib.Path, base: Made, source: pathlib.Path, *argv: object) -> Made:
    options = (*FEATURES, "--learned-from", base.folder, *argv)
    return make(folder, "--input", source, *options, command="table")


def test_values_are_those_of_the_earlier_dataset(tmp_path: pathlib.Path, base: Made) -> None:
    source = rows(tmp_path / "new.csv", seed=1, cities=("oslo", "bern"), classes=("a", "b"))
    made = apply(tmp_path / "out", base, source)
    assert main(["verify", "--dataset", str(made.folder), "--deep", "--quiet"]) == 0
    for name in ("learned.json", "vocabulary/city.txt", "vocabulary/code.txt", "labels.txt"):
        assert (made.folder / name).read_bytes() == (base.folder / name).read_bytes()
    assert made.manifest.features == base.manifest.features
    assert made.manifest.labels == ("a", "b", "c")  # the class without records keeps its number
    lines = (base.folder / "vocabulary/city.txt").read_text().split()
    learned = json.loads((base.folder / "learned.json").read_text())["income"]
    source_rows = [line.split(",") for line in source.read_text().splitlines()[1:]]
    examples = [one for split in made.manifest.splits for one in made.examples(split).values()]
    assert {tuple(one["city"]) for one in examples} == {(2 + lines.index("oslo"),), (1,)}  # 1: OOV
    incomes = [float(row[2] or learned["fill"]) for row in source_rows]
    scaled = [(one - learned["mean"]) / learned["deviation"] for one in incomes]
    found = sorted(float(one["income"][0]) for one in examples)
    np.testing.assert_allclose(found, sorted(scaled), rtol=1e-5, atol=1e-6)


def test_the_manifest_names_the_dataset_by_its_content_and_not_by_its_place(
    tmp_path: pathlib.Path, base: Made
) -> None:
    made = apply(tmp_path / "out", base, rows(tmp_path / "new.csv", seed=1))
    manifest = (base.folder / "dataset.json").read_bytes()
    assert made.manifest.options["learned_from"] == {
        "digest": base.manifest.digest,
        "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
    }
    assert str(base.folder) not in (made.folder / "dataset.json").read_text()
    again = apply(tmp_path / "more", made, tmp_path / "new.csv")  # a dataset of the second hand
    assert again.manifest.digest == made.manifest.digest


def test_the_same_rows_give_the_same_shards(tmp_path: pathlib.Path, base: Made) -> None:
    made = apply(tmp_path / "out", base, base.folder.parent / "rows.csv", "--workers", "2")
    assert made.manifest.digest == base.manifest.digest


def test_classes_that_were_not_learned_are_rejected(tmp_path: pathlib.Path, base: Made) -> None:
    source = rows(tmp_path / "new.csv", seed=1, classes=("a", "new"))
    made = apply(tmp_path / "out", base, source, "--max-reject-fraction", "1")
    assert set(made.rejects.values()) == {"bad_value"}
    assert made.manifest.ledger.inputs.rejected == source.read_text().count("new\n")


def test_types_of_columns_are_those_of_the_earlier_dataset(
    tmp_path: pathlib.Path, base: Made
) -> None:
    made = apply(tmp_path / "out", base, rows(tmp_path / "new.csv", seed=1, size="{:.0f}"))
    assert made.manifest.features == base.manifest.features
    source = rows(tmp_path / "text.csv", seed=1)
    source.write_text(source.read_text().replace(",7,", ",7x,", 1))
    made = apply(tmp_path / "odd", base, source, "--max-reject-fraction", "0.5")
    assert made.manifest.ledger.inputs.rejected == 1  # code holds integers


def test_rows_without_a_value_that_was_always_there_are_rejected(
    tmp_path: pathlib.Path, base: Made
) -> None:
    source = rows(tmp_path / "new.csv", seed=1)
    head, first, *others = source.read_text().splitlines()
    cells = first.split(",")
    cells[5] = ""
    source.write_text("\n".join([head, ",".join(cells), *others]) + "\n")
    made = apply(tmp_path / "out", base, source)
    assert list(made.rejects.values()) == ["bad_value"]
    assert "column 'plain': no value" in (made.folder / "rejects.jsonl").read_text()
    assert made.manifest.features == base.manifest.features


@pytest.mark.parametrize(
    ("column", "rejected"), [(1, False), (2, False), (4, True)], ids=["city", "income", "size"]
)
def test_a_column_may_have_no_value_at_all(
    tmp_path: pathlib.Path,
    base: Made,
    column: int,
    rejected: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = rows(tmp_path / "new.csv", seed=1)
    cells = [line.split(",") for line in source.read_text().splitlines()]
    for row in cells[1:]:
        row[column] = ""
    source.write_text("\n".join(map(",".join, cells)) + "\n")
    if rejected:
        argv = ["--input", source, "--output", tmp_path / "out", *FEATURES]
        assert run("table", *argv, "--learned-from", base.folder) == 1
        assert "column 'size': no value, but the dataset of" in capsys.readouterr().err
    else:
        made = apply(tmp_path / "out", base, source)
        assert made.manifest.features == base.manifest.features
        assert made.manifest.ledger.inputs.rejected == 0


@pytest.mark.parametrize(
    ("change", "argv", "message"),
    [
        ("", ["--bucketize", "plain=3"], "--bucketize is age=4,plain=3, and was age=4"),
        ("", ["--vocab-size", "7"], "--vocab-size is 7, and was 20000"),
        ("", ["--oov-buckets", "3"], "--oov-buckets is 3, and was 1"),
        ("", ["--label-offset", "1"], "--label-offset is 1, and was 0"),
        ("plain=noise", [], "'noise' is new; 'plain' is missing"),
        ("", ["--labels-file", "{tmp}/ab.txt"], "class 0 is 'b' in --labels-file, and 'a' in"),
    ],
)
def test_contradictions_are_errors_before_work(
    tmp_path: pathlib.Path,
    base: Made,
    capsys: pytest.CaptureFixture[str],
    change: str,
    argv: list[str],
    message: str,
) -> None:
    (tmp_path / "ab.txt").write_text("b\na\n")
    source = rows(tmp_path / "new.csv", seed=1)
    if change:
        source.write_text(source.read_text().replace(*change.split("=")))
    given = [one.format(tmp=tmp_path) for one in argv]
    options = ["--input", source, "--output", tmp_path / "out", *FEATURES, *given]
    assert run("table", *options, "--learned-from", base.folder) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists() or not [*(tmp_path / "out").rglob("shards")]


def test_the_option_that_leaves_out_a_new_column_is_named(
    tmp_path: pathlib.Path, base: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows(tmp_path / "new.csv", seed=1)
    head, *others = source.read_text().splitlines()
    source.write_text("\n".join([f"{head},my note", *(f"{line},x" for line in others)]) + "\n")
    given = ["--input", source, "--output", tmp_path / "out", *FEATURES, "--learned-from"]
    assert run("table", *given, base.folder) == 2
    assert "'my note' is new. The columns" in (said := capsys.readouterr().err)
    assert "leave out new columns with --drop-columns 'my note', or learn again without" in said
    assert run("table", *given, base.folder, "--drop-columns", "my note") == 0


def test_other_folders_are_errors(
    tmp_path: pathlib.Path, base: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows(tmp_path / "new.csv")
    options = ["--input", source, "--output", tmp_path / "out", "--learned-from"]
    assert run("table", *options, tmp_path) == 2
    assert "no dataset" in capsys.readouterr().err
    assert run("text", "--text-column", "city", *options, base.folder) == 2
    message = "expected a dataset that recordmill text wrote, got one of recordmill table"
    assert message in capsys.readouterr().err
    options = ["--input", source, *FEATURES, "--output", base.folder, "--overwrite"]
    assert run("table", *options, "--learned-from", f"{base.folder}/") == 2
    assert "is the --output" in capsys.readouterr().err


def test_a_damaged_file_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows(tmp_path / "rows.csv")
    before = make(tmp_path / "old", "--input", source, *FEATURES, command="table")
    (before.folder / "learned.json").write_text("{}")
    options = ["--input", source, *FEATURES, "--output", tmp_path / "out"]
    assert run("table", *options, "--learned-from", before.folder) == 1
    assert "old/learned.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limit", "code", "message"),
    [
        ("0.9", 0, ""),
        ("0.9,city=0.1", 1, "column 'city' has a drift of 0.5, but --max-drift allows 0.1: 'bern'"),
        ("0.3,city=1,age=1", 0, ""),
        ("citi=0.5", 1, "of this name (did you mean 'city'?); the columns are age, city"),
    ],
)
def test_drift_over_its_limit_publishes_nothing(
    tmp_path: pathlib.Path,
    base: Made,
    capsys: pytest.CaptureFixture[str],
    limit: str,
    code: int,
    message: str,
) -> None:
    source = rows(tmp_path / "new.csv", cities=("oslo", "rome"))
    lines = source.read_text().splitlines()
    lines[1::2] = [line.replace("oslo", "bern").replace("rome", "bern") for line in lines[1::2]]
    source.write_text("\n".join(lines) + "\n")
    options = ["--input", source, *FEATURES, "--output", tmp_path / "out", "--max-drift", limit]
    assert run("table", *options, "--learned-from", base.folder) == code
    assert message in capsys.readouterr().err
    assert (tmp_path / "out" / "dataset.json").exists() == (code == 0)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--max-drift", "2"], "expected a limit from 0 to 1"),
        (["--max-drift", "0.1"], "has no effect without --compare-with or --learned-from"),
    ],
)
def test_limits_that_cannot_be_are_errors(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    source = rows(tmp_path / "new.csv", count=20)
    assert run("table", "--input", source, "--output", tmp_path / "out", *argv) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ("--tokenizer", "words", "--features", "tokens,tfidf", "--vocab-size", "12"),
        ("--tokenizer", "bpe", "--vocab-size", "600"),
        ("--tokenizer", "chars", "--max-length", "9"),
    ],
    ids=lambda argv: argv[1],
)
def test_texts(tmp_path: pathlib.Path, argv: tuple[str, ...]) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    words = ("red", "green", "blue", "grey", "sea", "sky")
    for path, some in ((old, words), (new, ("red", "mauve"))):
        texts = [f"{some[n % len(some)]} {some[n * 7 % len(some)]} n{n % 5}" for n in range(60)]
        lines = [f"{text},{'xy'[n % 2]}" for n, text in enumerate(texts)]
        path.write_text("\n".join(["text,label", *lines]) + "\n")
    before = make(tmp_path / "old", "--input", old, *argv, command="text")
    options = ("--input", new, *argv, "--learned-from", before.folder)
    made = make(tmp_path / "new", *options, command="text")
    learned = [name for name in before.manifest.files if name.startswith("vocabulary/")]
    assert learned
    for name in learned:
        assert (made.folder / name).read_bytes() == (before.folder / name).read_bytes()
    assert made.manifest.features == before.manifest.features
    assert run("text", "--output", tmp_path / "x", *options, "--vocab-size", "77") == 2


def test_windows_of_series(tmp_path: pathlib.Path) -> None:
    argv = ("--time-column", "time", "--window", "4", "--zscore", "x", "--bucketize", "y=3")
    for name, scale in (("old", 1), ("new", 5)):
        lines = [f"2026-01-01 00:{n:02},{n * scale},{n % 7}.5,{'ab'[n // 30]}" for n in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,x,y,label", *lines]) + "\n")
    split = ("--split-by", "time")
    before = make(
        tmp_path / "old", "--input", tmp_path / "old.csv", *argv, *split, command="sensor"
    )
    options = ("--input", tmp_path / "new.csv", *argv, *split, "--learned-from", before.folder)
    made = make(tmp_path / "new", *options, command="sensor")
    learned = (before.folder / "learned.json").read_bytes()
    assert (made.folder / "learned.json").read_bytes() == learned
    assert run("sensor", "--output", tmp_path / "x", *options, "--window", "5") == 2


@pytest.mark.parametrize("command", ["images", "arrays"])
def test_classes_of_files(
    tmp_path: pathlib.Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old = write_labelled(tmp_path / "old", command, ["a", "b", "c"] * 4)
    new = write_labelled(tmp_path / "new", command, ["b", "c"] * 4)
    options = OPTIONS[command]
    before = make(tmp_path / "before", "--input", old, *options, command=command)
    options = (*options, "--learned-from", before.folder)
    made = make(tmp_path / "after", "--input", new, *options, command=command)
    assert made.manifest.labels == ("a", "b", "c")
    assert made.manifest.features == before.manifest.features
    if command == "images":
        argv = ["--input", new, "--output", tmp_path / "larger", *options, "--size", "40"]
        assert run("images", *argv) == 2
        assert "'image/encoded' has raw_shape 40,40,3, and had" in capsys.readouterr().err


def test_a_job_file_keeps_the_limits(
    tmp_path: pathlib.Path, base: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    source = rows(tmp_path / "new.csv", count=20)
    options = [
        "--input",
        str(source),
        "--output",
        str(tmp_path / "out"),
        "--max-drift",
        "a=0.1,0.2",
    ]
    options += ["--learned-from", str(base.folder)]
    with pytest.raises(SystemExit, match="0"):
        main(["table", *options, "--print-config"])
    text = capsys.readouterr().out
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(SystemExit, match="0"):
        main(["table", "--config", str(tmp_path / "job.yaml"), "--print-config"])
    assert capsys.readouterr().out == text
    assert "a=0.1" in text


def test_types_without_statistics(tmp_path: pathlib.Path) -> None:
    options = (*FEATURES, "--no-statistics")
    source = rows(tmp_path / "old.csv")
    before = make(tmp_path / "old", "--input", source, *options, command="table")
    lines = source.read_text().splitlines()
    cells = [line.split(",") for line in lines[1:]]
    plain = [",".join([*cell[:5], "3", cell[6]]) for cell in cells]  # integers, which were floats
    source.write_text("\n".join([lines[0], *plain]) + "\n")
    options = (*options, "--learned-from", before.folder)
    made = make(tmp_path / "new", "--input", source, *options, command="table")
    assert made.manifest.features == before.manifest.features


def test_a_column_of_another_type_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, number in (("old", "1"), ("new", "1.5")):
        lines = [f'{{"x": {number}, "y": {n}}}' for n in range(30)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    before = make(tmp_path / "old", "--input", tmp_path / "old.jsonl", command="table")
    options = ["--input", tmp_path / "new.jsonl", "--output", tmp_path / "new"]
    assert run("table", *options, "--learned-from", before.folder) == 2
    assert "'x' is float32 [any], and was int64 [any]" in capsys.readouterr().err


def test_too_many_unknown_tokens_fail_a_run(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, words in (("old", "red green blue"), ("new", "red green mauve")):
        some = words.split()
        texts = [f"{some[n % 3]} {some[n * n % 3]} x{n % 2}" for n in range(50)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text", *texts]) + "\n")
    options = ("--tokenizer", "words")
    before = make(tmp_path / "a", "--input", tmp_path / "old.csv", *options, command="text")
    options = ("--input", tmp_path / "new.csv", *options, "--learned-from", before.folder)
    made = make(tmp_path / "b", *options, "--max-unknown", "0.5", command="text")
    tokens = [token for one in made.examples("train").values() for token in one["tokens"]]
    share = tokens.count(1) / len(tokens)
    assert 0.1 < share < 0.5
    assert run("text", *options, "--output", tmp_path / "c", "--max-unknown", "0.1") == 1
    assert f"{share:.3g} of the tokens in the {len(made.examples('train'))} records of train" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "c" / "dataset.json").exists()
    assert run("text", *options, "--output", tmp_path / "c", "--max-unknown", "2") == 2
    assert run("text", *options[:4], "--output", tmp_path / "c", "--max-unknown", "0.5") == 2
    options = (*options[:2], "--tokenizer", "bytes", "--learned-from", before.folder)
    assert run("text", *options, "--output", tmp_path / "c", "--max-unknown", "0.5") == 2
    errors = capsys.readouterr().err
    for part in ("expected 0 to 1", "without --learned-from", "without a vocabulary"):
        assert part in errors


def test_classes_of_folders_with_masks_keep_their_numbers(tmp_path: pathlib.Path) -> None:
    for part, classes in (("old", "abc"), ("new", "bcd")):
        for label in classes:
            for number in range(4):
                for room, image in (("in", "RGB"), ("masks", "L")):
                    path = tmp_path / part / room / label / f"{number}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    draw = np.random.default_rng([number, ord(label)])
                    pixels = draw.integers(0, 2, (8, 8, 3) if image == "RGB" else (8, 8), np.uint8)
                    Image.fromarray(pixels).save(path)

    def build(part: str, *argv: object) -> Made:
        given = ("--input", tmp_path / part / "in", "--masks", tmp_path / part / "masks", *argv)
        return make(tmp_path / part / "out", *given, "--splits", "train=1", command="images")

    old = build("old")
    new = build("new", "--learned-from", old.folder, "--max-reject-fraction", "0.5")
    assert new.manifest.labels == old.manifest.labels == ("a", "b", "c")
    assert {key.split("/")[0] for key in new.rejects} == {"d"}
