import dataclasses
import html
import importlib
import json
import pathlib
import re
import shlex
from typing import Any

import pytest

from recordmill.checking import inspection
from recordmill.errors import ConfigError, RunError
from recordmill.format.file_info import file_info
from recordmill.format.manifest import load
from recordmill.options import declaration
from recordmill.pipelines import table
from recordmill.pipelines.cli import main
from recordmill.pipelines.commands.adopt_command import adopt_main
from recordmill.pipelines.commands.report_command import report_main
from recordmill.pipelines.earlier.report_file import command_of
from recordmill.pipelines.options.arguments import command_line
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.reading import reader
from recordmill.storage.files import Location
from recordmill.storage.redaction import redact_uris
from tests.make_dataset import flower, make_dataset, rewrite
from tests.s3_store import S3Store


def test_the_report_is_written_beside_the_dataset(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_dataset(tmp_path / "out")
    before = sorted(tmp_path.joinpath("out").rglob("*"))
    assert report_main(["--dataset", f"{tmp_path / 'out'}/"]) == 0
    path = tmp_path / "out.report.html"
    assert capsys.readouterr().out == f"The report is in {path}\n"
    assert path.read_text().startswith("<!doctype html>")
    assert sorted(tmp_path.joinpath("out").rglob("*")) == before


def test_the_report_of_a_dataset_in_a_store_is_beside_it(
    tmp_path: pathlib.Path, store: S3Store
) -> None:
    make_dataset(tmp_path / "two")
    dataset = Location.parse(store.uri("bucket/sets/two"))
    for path in filter(pathlib.Path.is_file, (tmp_path / "two").rglob("*")):
        (dataset / str(path.relative_to(tmp_path / "two"))).write_bytes(path.read_bytes())
    assert report_main(["--dataset", str(dataset)]) == 0
    page = Location.parse(store.uri("bucket/sets/two.report.html")).read_bytes()
    assert page.startswith(b"<!doctype html>")
    with pytest.raises(ConfigError, match=r"--output: .* is inside the dataset"):
        report_main(["--dataset", str(dataset), "--output", store.uri("bucket/sets/two/a.html")])


def test_output_names_the_file(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    assert (
        report_main(["--dataset", f"{tmp_path / 'out'}", "--output", f"{tmp_path / 'a.html'}"]) == 0
    )
    assert (tmp_path / "a.html").exists()
    assert not (tmp_path / "out.report.html").exists()


def test_a_damaged_dataset_has_no_report(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "out"
    make_dataset(folder)
    shard = folder / "train.tfrecord-00000-of-00002"
    shard.write_bytes(shard.read_bytes()[:40])
    with pytest.raises(RunError, match=r"no report was written: .*recordmill verify"):
        report_main(["--dataset", str(folder)])
    (folder / "dataset.json").unlink()
    with pytest.raises(RunError, match="no report was written: no dataset"):
        report_main(["--dataset", str(folder)])
    assert not (tmp_path / "out.report.html").exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("job.json", b'{"inp'),
        ("job.json", b"[1, 2]"),
        ("job.json", b'{"options": [1]}'),
        ("job.json", b'{"input": 5}'),
        ("near_duplicates.jsonl", b'{"keys": 3}\n'),
        ("near_duplicates.jsonl", b'{"keys": ["a", "b"], "dist'),
        ("near_duplicates.jsonl", b"\xff\xfe"),
    ],
)
def test_a_damaged_side_file_is_named(tmp_path: pathlib.Path, file: str, content: bytes) -> None:
    folder = tmp_path / "out"
    manifest = make_dataset(folder)
    (folder / file).write_bytes(content)
    options = {**manifest.options, "kind": "images"}
    files = {**manifest.files, "near_duplicates.jsonl": file_info(content)}
    if file == "job.json":
        files = manifest.files
    rewrite(folder, dataclasses.replace(manifest, options=options, files=files))
    with pytest.raises(RunError, match=f"no report was written: {re.escape(file)}.* is damaged"):
        report_main(["--dataset", str(folder)])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("out/dataset.json", "expected a name that ends in .html"),
        ("out/report.html", "is inside the dataset"),
        ("folder.html", "exists and is no file"),
    ],
)
def test_nothing_but_a_page_is_replaced(tmp_path: pathlib.Path, target: str, message: str) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "folder.html").mkdir()
    before = (tmp_path / "out/dataset.json").read_bytes()
    with pytest.raises(ConfigError, match=re.escape(message)):
        report_main(["--dataset", f"{tmp_path / 'out'}", "--output", f"{tmp_path / target}"])
    assert (tmp_path / "out/dataset.json").read_bytes() == before


def test_drift_needs_statistics(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"has no statistics\.pb"):
        report_main(["--dataset", f"{tmp_path / 'out'}", "--compare-with", f"{tmp_path / 'out'}"])


def test_a_run_writes_the_report_of_its_dataset(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["table", "--input", f"{tmp_path}/a.csv", "--output", f"{tmp_path}/out", "--report"]
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n3,a\n4,b\n")
    assert main([*argv, "--splits", "train=1"]) == 0
    path = tmp_path / "out.report.html"
    assert capsys.readouterr().out.endswith(f"The report is in {path}\n")
    assert "recordmill table \\\n  --input WHERE \\\n  --output OUT" in path.read_text()
    assert not list((tmp_path / "out").glob("*.html"))
    path.unlink()
    path.mkdir()  # the dataset stays complete if its report cannot be written
    assert main([*argv, "--splits", "train=1"]) == 0
    assert "the dataset is complete, but no report was written" in capsys.readouterr().err


def test_a_page_of_many_classes_shows_twenty_first(tmp_path: pathlib.Path) -> None:
    argv = ["table", "--input", f"{tmp_path}/a.csv", "--output", f"{tmp_path}/out", "--report"]
    rows = [f"{row},c{n:02}" for n in range(50) for row in range(n + 1)]
    (tmp_path / "a.csv").write_text("\n".join(["x,label", *rows]))
    assert main([*argv, "--splits", "train=1"]) == 0
    page = (tmp_path / "out.report.html").read_text()
    hidden = re.findall(r'<tr data-text="(c\d\d)" data-more>', page)
    assert hidden == [f"c{n:02}" for n in range(10, 40)]
    assert len(re.findall(r'<tr data-text="c\d\d">', page)) == 20
    assert ">Show 30 more classes</button>" in page


def test_adopt_writes_a_report_or_warns_of_an_earlier_one(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_dataset(tmp_path / "made")
    files = f"{tmp_path}/made/train.tfrecord-*"
    argv = ["adopt", "--input", files, "--output", f"{tmp_path}/out", "--report"]
    assert main(argv) == 0
    path = tmp_path / "out.report.html"
    assert capsys.readouterr().out.endswith(f"The report is in {path}\n")
    digest = load(Location.parse(f"{tmp_path}/out")).digest
    assert f'<meta name="recordmill-digest" content="{digest}">' in path.read_text()
    argv = [*argv[:-1], "--quiet", "--overwrite", "--split", "test"]
    assert main(argv) == 0
    assert f"recordmill adopt: warning: the dataset is complete, but {path} shows an earlier" in (
        capsys.readouterr().err
    )
    assert main([*argv, "--report"]) == 0
    assert capsys.readouterr().err == ""
    assert main(argv) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="--report: cannot be combined with --dry-run"):
        adopt_main([*argv[1:], "--report", "--dry-run"])


def test_a_run_warns_of_the_report_of_an_earlier_dataset(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["table", "--input", f"{tmp_path}/a.csv", "--output", f"{tmp_path}/out", "--quiet"]
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n3,a\n4,b\n")
    assert main([*argv, "--report", "--splits", "train=1"]) == 0
    assert main([*argv, "--splits", "train=1"]) == 0
    assert capsys.readouterr().err == ""
    page = (tmp_path / "out.report.html").read_bytes()
    assert main([*argv, "--splits", "train=1", "--seed", "3", "--overwrite"]) == 0
    assert f"{tmp_path}/out.report.html shows an earlier dataset; `recordmill report" in (
        capsys.readouterr().err
    )
    assert (tmp_path / "out.report.html").read_bytes() == page


def test_every_command_of_a_page_prints_what_it_stands_for(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    label = '--it\'s "a" <class>'
    rows = [dataclasses.replace(flower(str(n), "rose"), label=label) for n in range(3)]
    rows[0] = rows[0].having(caption=[b"longer than the others"])
    splits = {"train": [rows], "validation": [], "test": []}
    make_dataset(tmp_path / "an out", splits, labels=(label, "tulip"))
    monkeypatch.chdir(tmp_path)
    assert report_main(["--dataset", "an out"]) == 0
    text = (tmp_path / "an out.report.html").read_text()
    commands = {html.unescape(one) for one in re.findall('data-command="([^"]*)"', text)}
    assert {shlex.split(one)[4] for one in commands if len(shlex.split(one)) > 4} == {
        "--json", "--split", "--sheet",
    }  # fmt: skip
    for one in commands:
        assert main(shlex.split(one)[1:]) == 0, one
    assert (tmp_path / "sheet.png").exists()


def test_the_manifest_is_read_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_dataset(tmp_path / "out")
    loads = []
    for module in (reader, inspection):
        monkeypatch.setattr(module, "load", lambda place: loads.append(place) or load(place))
    assert report_main(["--dataset", f"{tmp_path}/out"]) == 0
    assert len(loads) == 1


def test_a_report_needs_a_dataset_of_this_run() -> None:
    given = ["--input", "in", "--output", "OUT", "--label-column", "a", "--report", "--dry-run"]
    with pytest.raises(ConfigError, match="--report: cannot be combined with --dry-run"):
        command_line.parse(table.TableConfig, given, prog="x")


COMMANDS = {
    "images": (
        "--size 64x32 --splits train=1 --augment flip --augment-all",
        "--rename image/encoded=x --rename image/width=y,z --balance oversample --seed 3",
        "--label-map cat=pet,dog=pet --label-map 'names of classes.csv' --exclude-keys bad.txt"
        " --fold-labels --include-labels a,b --exclude-labels c --limit 9 --limit-per-class 3",
        "--exclude-like benchmark --exclude-like s3://box/test,set?region=eu --dedup drop"
        " --near-duplicates group --near-distance 3 --conflicts first",
        "--annotations a.json,b.json --annotation-format coco --box-units fractions --boxes drop"
        " --min-box 3.5 --without-boxes drop --unannotated keep --absent-images drop"
        " --box-frame stored"
        " --image-class largest --no-segmentation --captions first",
        "--input-root /photos --no-confine --allow-store s3://box --allow-store s3://other"
        " --path-column file --label-column class --max-reject-fraction 0.5",
        "--label-columns b,'is_*' --drop-columns 'Unnamed*'",
        "--size 32 --resize-mode pad --mode gray --background 1,2,3 --depth 8 --quality 80"
        " --damaged reject --intensity-window -100:400",
        "--path-template 'fold{fold}/{name}' --split-column fold --split-map '5=test,*=train'"
        " --captions-from .txt",
        "--split-files 'test=test.txt,train=*' --key-from file --column-from 'site=top'",
        "--one-hot-label --max-pixels 1000 --min-size 10 --probe none"
        " --image-format raw --normalize unit",
        "--label-from parent --labels-file labels.txt --label-offset 1 --unlabelled keep"
        " --split-from folders --fail-on no-classes --max-worker-memory 2GiB"
        " --max-worker-seconds 60",
        "--input test=other --splits train=0.8,validation=0.1,test=0.1",
        "--no-one-hot-label --label-map=--a=b",
        "--bytes-column photo --label-separator '|' --where 'age >= 18' --weight-column mass",
        "--annotations a.json --instance-masks --feature-set tf-object-detection --label-offset 1",
        "--masks masks --mask-suffix .jpg=_mask.png --mask-labels classes.txt --mask-depth 16"
        " --mask-values 0,255 --mask-ignore 9 --mask-padding 0 --mask-frame stored"
        " --unmasked drop",
        "--masks masks --mask-colours colours.csv",
    ),
    "text": (
        "--tokenizer bytes",
        "--tokenizer words --max-length 16 --vocab-size 9 --min-frequency 2 --oov-buckets 3",
        "--tokenizer models/words.json --pack 128 --end-token '</s>' --edge-tokens no",
        "--tokenizer words --chunk 64 --chunk-overlap 8 --special-tokens '[CLS],[SEP]'",
        "--embeddings glove.npy --embedding-words words.txt --pooling none --tokenizer words",
        "--features bow,tfidf --tfidf dense --tfidf-norm none --ngrams 2 --tokenizer words",
        "--preprocessing-fn mine:prepare --statistics --compare-with earlier",
        "--text-column a --documents line --unicode nfc --min-chars 1 --max-chars 9 --min-tokens 2"
        " --max-tokens 8 --tokenizer chars --near-duplicates drop --near-similarity 0.7",
        "--augment word-dropout --balance oversample --tokenizer words",
        "--learned-from earlier --statistics --max-drift 0.2,age=0.5 --max-unknown 0.3",
        "--tokenizer words --text-columns question,answer --text-pairs separate --max-length 9",
        "--tokenizer bytes --chat-column messages --chat-template llama3",
        "--path-template '{id}.txt' --input-root docs --no-confine --allow-store s3://box",
        "--path-column file",
    ),
    "table": (
        "--label-column 'the class' --zscore a,b --no-statistics",
        "--delimiter whitespace --header no --skip-rows 2",
        "--units-rows 1 --time-format 'day=%d.%m.%Y'",
        "--delimiter ';' --columns b,a --quoting on --escape '\\' --comment '#' --trim"
        " --skip-rows 2 --encoding latin-1 --format csv --decimal , --missing '?,a=-200'"
        " --max-row-bytes 1MB",
        "--types a=int --indicator a --impute 'a=mean,b=0' --clip a=0: --log c --minmax d"
        " --bucketize e=4 --one-hot f --vocabulary g --hash h=9 --date-parts i=year+month"
        " --time-zone Europe/Berlin",
        "--key-column id,name --group-column g --drop-columns x --drop-columns y --stratify"
        " --split-column s --num-shards train=2,test=1 --compression gzip",
        "--header yes --schema schema.pbtxt --on-violation keep --shard-size 1MB --statistics",
        "--label-type float --label-bins 4 --balance oversample --balance-target median",
        "--columns=--b,a",
    ),
    "sensor": (
        "--window 24 --time-column 'a b' --split-by time --purge 1d",
        "--window 24 --time-column a --time-column b --series-column s --step 10s --resample max"
        " --max-gap 1m --gap-policy fill --fill missing --fill-rows 3 --stride 12",
        "--window 9 --time-column a --split-by time --split-times test=2026-01-31T18:00"
        " --window-label majority --sequence-example --time-unit ms --join-files",
        "--window 9 --time-column a --time-format %Y --input-time-zone UTC --label-map a=b",
        "--window 9 --time-column a --horizon 3 --target load,heat --static-columns place"
        " --zscore load --zscore-by window --last-window all",
        "--window 9 --time-column a --intervals events.csv --outside-label normal",
    ),
    "arrays": (
        "--array x --label-array y --per-item --array-format values --dtype float32",
        "--chunk 4 --chunk-axis 1 --chunk-stride 2 --chunk-rest drop --nan zero",
        "--label-from '(\\w+)_' --group-from parent --dtype float32 --cast same-kind"
        " --max-array-bytes 1MB",
        "--label-input labels.npy --per-item --exclude-keys bad.txt --card card.yaml"
        " --fingerprint content",
    ),
    "video": (
        "--start-column a --end-column b --segment-unit s"
        " --clip-frames 8 --clip-stride 4 --frame-step 2 --fps 12.5",
        "--clip-rest pad --max-clip-bytes 1MiB --size 32 --input-root / --background #ff0000",
    ),
    "audio": (
        "--sample-rate 16000 --mono --clip 1s --clip-mode centre --trim-silence 30"
        " --max-seconds 60 --start-column from --duration-column time --segment-unit ms",
        "--sample-rate 8000 --features melspectrogram --mel-bins 40 --window-size 25ms --hop 10ms"
        " --f-min 20 --f-max 3000",
    ),
}


def config_class(data_type: str) -> type[CommonConfig]:
    module = importlib.import_module(f"recordmill.pipelines.{data_type}")
    found: type[CommonConfig] = getattr(module, f"{data_type.capitalize()}Config")
    return found


def parsed(data_type: str, argv: list[str]) -> CommonConfig:
    return command_line.parse(config_class(data_type), argv, prog="x").config


def options_in_json(config: CommonConfig) -> dict[str, Any]:
    given = redact_uris(declaration.as_given(config))
    return dict(json.loads(json.dumps({"input": given.pop("input"), "options": given})))


@pytest.mark.parametrize(
    ("data_type", "given"),
    [(data_type, given) for data_type, every in COMMANDS.items() for given in every],
)
def test_the_command_makes_the_dataset_again(data_type: str, given: str) -> None:
    base = ["--input", "in put", "--output", "OUT"]
    if given.startswith("--input test="):
        base[1] = "train=in put"
    first = parsed(data_type, [*base, *shlex.split(given), "--workers", "1", "--quiet"])
    made = shlex.split(command_of(data_type, options_in_json(first)))
    assert made[:4] == ["recordmill", data_type, *base[:2]]
    assert made[made.index("--output") + 1] == "OUT"
    again = parsed(data_type, made[2:])
    assert again == dataclasses.replace(first, workers=0, quiet=False)
    assert len(made) - 6 <= 2 * len(shlex.split(given))


def test_every_option_of_a_dataset_is_in_a_command_above() -> None:
    commands = {flag for every in COMMANDS.values() for one in every for flag in shlex.split(one)}
    missing = {
        one.key
        for data_type in COMMANDS
        for one in declaration.options_of(config_class(data_type)).values()
        if not one.local and not {f"--{one.key}", f"--no-{one.key}"} & commands
    }
    assert missing == set()


def test_a_secret_is_not_in_the_command() -> None:
    where = "s3://KEY:hunter2@box/x"
    argv = ["--input", where, "--output", where, "--exclude-keys", where, "--label-map", where]
    command = command_of("table", options_in_json(parsed("table", argv)))
    assert "hunter2" not in command
    assert command.count("s3://***@box/x") == 3


def test_the_command_of_a_dataset_with_renamed_classes_makes_it_again(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "a.csv").write_text("x,label\n" + "1,a\n2,b\n3,c\n" * 3)
    (tmp_path / "new.csv").write_text("a,A\nb,A\n")
    given = ["--input", f"{tmp_path}/a.csv", "--label-map", f"{tmp_path}/new.csv"]
    given += ["--label-map", "c=C", "--splits", "train=1", "--quiet", "--max-reject-fraction", "1"]
    assert main(["table", *given, "--output", f"{tmp_path}/out"]) == 0
    command = shlex.split(command_of("table", json.loads((tmp_path / "out/job.json").read_text())))
    command[command.index("OUT")] = f"{tmp_path}/again"
    assert main([*command[1:], "--quiet"]) == 0
    first, again = (load(Location.parse(f"{tmp_path}/{name}")) for name in ("out", "again"))
    assert again == first
    assert first.labels == ("A", "C")
