import dataclasses
import importlib
import pathlib
import re
import subprocess
import sys
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.options import declaration, values
from recordmill.pipelines.cli import main
from recordmill.pipelines.commands.dataset_commands import InspectConfig
from recordmill.pipelines.options.arguments import command_line, help_page
from recordmill.pipelines.options.common import config, rules
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.transforms.sources.files.input_paths import InputPath
from tests.paths import ROOT

PICTURE = declaration.Group(30, "Pictures")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pictures(config.CommonConfig):
    """Options that a data type adds."""

    size: tuple[int, int] | None = declaration.option(
        (224, 224),
        group=PICTURE,
        shapes_bytes=True,
        parse=values.size,
        show=values.show_size,
        metavar="N|HxW",
        help="Height and width.",
    )
    background: tuple[int, int, int] = declaration.option(
        (255, 255, 255),
        group=PICTURE,
        shapes_bytes=True,
        parse=values.colour,
        show=values.show_colour,
        help="What shows through.",
    )
    augment: tuple[str, ...] = declaration.option(
        (),
        group=PICTURE,
        shapes_bytes=True,
        parse=values.some_of("flip", "crop", "rotate"),
        repeat=True,
        help="How copies differ.",
    )
    mode: Literal["rgb", "gray"] = declaration.option("rgb", group=PICTURE, help="Colours or not.")
    upright: bool = declaration.option(True, group=PICTURE, help="Turn by the EXIF orientation.")
    quality: float = declaration.option(0.9, group=PICTURE, help="Of JPEG.")


def parsed(*argv: str) -> command_line.Parsed[Pictures]:
    return command_line.parse(
        Pictures, ["--input=in", "--output=out", *argv], prog="recordmill pictures"
    )


def from_file(tmp_path: pathlib.Path, text: str, *argv: str) -> command_line.Parsed[Pictures]:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return parsed("--config", str(path), *argv)


@pytest.mark.parametrize(
    ("argv", "field", "expected"),
    [
        (["--size", "32"], "size", (32, 32)),
        (["--size=480x640"], "size", (480, 640)),
        (["--stratify"], "stratify", True),
        (["--stratify=true"], "stratify", True),
        (["--stratify=False"], "stratify", False),
        (["--stratify", "--no-stratify"], "stratify", False),
        (["--no-upright"], "upright", False),
        (["--no-upright", "--upright"], "upright", True),
        (["--seed", "1", "--seed", "2"], "seed", 2),
        (["--augment=rotate,flip"], "augment", ("flip", "rotate")),
        (["--augment", "rotate", "--augment", "flip,rotate"], "augment", ("flip", "rotate")),
        (["--rename", "a=b", "--rename", "x=y"], "rename", {"a": "b", "x": "y"}),
        (["--rename", "weight, kg=1=weight"], "rename", {"weight, kg=1": "weight"}),
        (["--runner=DirectRunner"], "runner", "direct"),
        (["--runner", "FlinkRunner"], "runner", "flink"),
        (["--key-column", "null"], "key_column", "null"),
        (["--num-shards=train=16,test=2"], "num_shards", {"train": 16, "test": 2}),
        (["--background=#0080ff"], "background", (0, 128, 255)),
    ],
)
def test_flags(argv: list[str], field: str, expected: Any) -> None:
    assert getattr(parsed(*argv).config, field) == expected


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("size: 32", "size", (32, 32)),
        ("splits: {train: 0.5, test: 0.5}", "splits", {"train": 0.5, "test": 0.5}),
        ("splits: train=0.5,test=0.5", "splits", {"train": 0.5, "test": 0.5}),
        ("num_shards: {train: 3}", "num_shards", {"train": 3}),
        ("num-shards: 3", "num_shards", 3),
        ("augment: [rotate, flip]", "augment", ("flip", "rotate")),
        ("augment: rotate,flip", "augment", ("flip", "rotate")),
        ("augment:\n- rotate", "augment", ("rotate",)),
        ("rename: {'a, b': c}", "rename", {"a, b": "c"}),
        ("rename: [a=b, c=d]", "rename", {"a": "b", "c": "d"}),
        ("background: [1, 2, 3]", "background", (1, 2, 3)),
        ("stratify: yes", "stratify", True),
        ("upright: false", "upright", False),
        ("seed: null", "seed", 0),
        ("seed:", "seed", 0),
        # YAML would read these as a boolean, an octal, a sexagesimal number and nothing.
        ("key-column: no", "key_column", "no"),
        ("key-column: 010", "key_column", "010"),
        ("key-column: 12:30:45", "key_column", "12:30:45"),
        ("key-column: 'null'", "key_column", "null"),
        ("# nothing but a comment", "seed", 0),
    ],
)
def test_job_file(tmp_path: pathlib.Path, text: str, field: str, expected: Any) -> None:
    assert getattr(from_file(tmp_path, text).config, field) == expected


def test_the_command_line_wins_over_the_file(tmp_path: pathlib.Path) -> None:
    text = (
        "runner: flink\nseed: 1\nrename: {a: b}\naugment: flip\n"
        "flink_version: 1.19\nmax_parallelism: 4\n"
    )
    both = from_file(tmp_path, text, "--seed=2", "--rename=c=d", "--flink_version=1.20")
    assert both.config.seed == 2
    assert both.config.rename == {"c": "d"}
    assert both.config.augment == ("flip",)
    assert sorted(both.passthrough) == ["--flink_version=1.20", "--max_parallelism=4"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--blance", "x"], "unknown option --blance; did you mean --balance?"),
        (["--num_shards=3"], "unknown option --num_shards; did you mean --num-shards?"),
        (["--max-per-class=3"], "unknown option --max-per-class; did you mean --limit-per-class?"),
        (["--max-per-box=3"], "unknown option --max-per-box; --help all lists them"),
        (["--strat"], "unknown option --strat; did you mean --stratify?"),
        (["--no-upight"], "unknown option --no-upight; did you mean --upright?"),
        (["--direct_num_worker=2"], "unknown option --direct_num_worker; --help all lists them"),
        (["--nosuch"], "unknown option --nosuch; --help all lists them"),
        (["--qqqq"], "unknown option --qqqq; --help all lists them"),
        (
            ["--runner=flink", "--max_parallelism=two"],
            "--max_parallelism: invalid int value: 'two'",
        ),
        (["photos"], "unexpected argument 'photos'; expected only options"),
        (["-s", "3"], "unexpected argument '-s'; expected only options"),
        (["--seed", "3", "4"], "unexpected argument '4'; expected only options"),
        (
            ["--augment", "flip", "crop"],
            "unexpected argument 'crop' after --augment flip: repeat --augment before each value",
        ),
        (["--"], "unexpected argument '--'; expected only options"),
        (["--seed"], "--seed needs a value: N"),
        (["--seed", "--quiet"], "--seed needs a value: N"),
        (["--seed=x"], "--seed: expected a whole number, got 'x'"),
        (["--seed="], "--seed: expected a whole number, got ''"),
        (["--key-column="], "--key-column: expected a value, got nothing"),
        (["--quality=high"], "--quality: expected a number, got 'high'"),
        (["--stratify=maybe"], "--stratify: expected true or false, got 'maybe'"),
        (["--mode=cmyk"], "--mode: expected one of rgb, gray; got 'cmyk'"),
        (["--augment=flip,blur"], "--augment: expected some of flip, crop, rotate; got 'blur'"),
        (["--augment="], "--augment: expected a value, got nothing"),
        (["--exclude-labels", ","], "--exclude-labels: expected a value, got nothing"),
        (["--config=nowhere.yaml"], "--config: cannot read nowhere.yaml: No such file"),
    ],
)
def test_bad_command_lines(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parsed(*argv)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nblance: oversample", "job.yaml:2: unknown option blance; did you mean balance?"),
        ("seed: x", "job.yaml:1: seed: expected a whole number, got 'x'"),
        ("seed: [1, 2]", "job.yaml:1: seed: expected one value, got a list"),
        ("output: {a: b}", "job.yaml:1: output: expected one value, got a list"),
        ("num-shards: 1\n\nnum_shards: 2", "job.yaml:3: num_shards is given a second time"),
        ("splits: {train: 0.5, train: 0.5}", "job.yaml:1: train is given a second time"),
        ("splits: {train: {a: 1}}", "job.yaml:1: expected a value or a flat list"),
        ("augment: &a [*a]", "job.yaml:1: expected a value or a flat list"),
        (
            "input: " + "[" * 100_000,
            "job.yaml: expected lines of `option: value`, got deeper lists",
        ),
        ("{a: " * 20_000, "job.yaml: expected lines of `option: value`, got deeper lists"),
        ("seed: " + "9" * 5_000, "job.yaml:1: seed: expected a whole number"),
        ("- seed", "job.yaml:1: expected lines of `option: value`"),
        ("seed", "job.yaml:1: expected lines of `option: value`"),
        ("? [seed]\n: 1", "job.yaml:1: expected a name before the colon"),
        ("seed: 1\n  x: [", "job.yaml:2: not YAML: mapping values are not allowed here"),
        ("seed: 1\n---\nseed: 2", "job.yaml:2: not YAML: but found another document"),
        ("seed: \x07", "job.yaml: not YAML: unacceptable character"),
        ("config: other.yaml", "job.yaml:1: unknown option config"),
        (
            "max_parallelism: two\nrunner: flink",
            "job.yaml:1: Beam rejects --max_parallelism=two",
        ),
    ],
)
def test_bad_job_files(tmp_path: pathlib.Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_file(tmp_path, text)


def test_job_file_of_another_encoding(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"key-column: gr\xf6\xdfe")
    with pytest.raises(
        ConfigError, match=r"job\.yaml: not YAML: .*unexpected end|can't decode|invalid"
    ):
        parsed("--config", str(path))


def test_what_is_required() -> None:
    with pytest.raises(ConfigError, match="missing --input and --output; see mill --help"):
        command_line.parse(Pictures, ["--seed=1"], prog="mill")


def test_beams_options_pass_through(tmp_path: pathlib.Path) -> None:
    given = ["--max_parallelism", "2", "--experiments=a=1", "--experiments=b", "--profile_cpu"]
    expected = ["--max_parallelism=2", "--experiments=a=1", "--experiments=b", "--profile_cpu"]
    assert parsed("--runner=flink", *given).passthrough == expected
    text = "runner: flink\nmax_parallelism: 2\nexperiments: [a=1, b]\nprofile_cpu: true"
    assert from_file(tmp_path, text).passthrough == expected


def test_a_command_without_a_runner_has_no_options_of_beam(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ConfigError, match="unknown option --max_parallelism; --help"):
        command_line.parse(InspectConfig, ["--max_parallelism=2"], prog="mill")
    with pytest.raises(SystemExit):
        command_line.parse(InspectConfig, ["--help"], prog="mill")
    assert "Beam" not in capsys.readouterr().out


def test_print_config(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--size=8x9", "--rename=a=b", "--runner=flink", "--profile_cpu"]
    argv += ["--experiments=a=b", "--experiments=c"]
    with pytest.raises(SystemExit) as ended:
        parsed(*argv, "--print-config")
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "# Height and width.\nsize: 8x9\n" in printed
    (tmp_path / "job.yaml").write_text(printed)
    again = command_line.parse(
        Pictures, [f"--config={tmp_path / 'job.yaml'}"], prog="recordmill pictures"
    )
    assert again == parsed(*argv)


def test_print_config_without_what_is_required_is_a_form(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command_line.parse(Pictures, ["--print-config", "--seed=3"], prog="recordmill pictures")
    form = capsys.readouterr().out
    assert "\n# input:\n" in form
    assert from_file(tmp_path, form).config.seed == 3
    filled = form.replace("# input:", "input: a").replace("# output:", "output: b")
    path = tmp_path / "job.yaml"
    path.write_text(filled)
    assert command_line.parse(
        Pictures, ["--config", str(path)], prog="recordmill pictures"
    ).config.input == (InputPath("a"),)


def test_a_job_file_of_another_command_is_an_error(tmp_path: pathlib.Path) -> None:
    given = "command: films\n"
    with pytest.raises(
        ConfigError, match=r":1: command: expected pictures, as on the command line, got films"
    ):
        from_file(tmp_path, given)
    with pytest.raises(
        ConfigError, match=r":1: command: expected pictures, as on the command line, got a, b"
    ):
        from_file(tmp_path, "command: [a, b]\n")
    assert from_file(tmp_path, "command: pictures\n").config == parsed().config


def test_a_job_file_can_name_the_command(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: verify\ndataset: nowhere\n")
    assert main([f"--config={path}"]) == 1
    assert "/nowhere/dataset.json" in capsys.readouterr().err
    assert main(["--dataset", "elsewhere", "--config", str(path)]) == 1
    assert "/elsewhere/dataset.json" in capsys.readouterr().err
    path.write_text("command: films\n")
    assert main(["--config", str(path)]) == 2
    assert "unknown command 'films'" in capsys.readouterr().err
    path.write_text("dataset: nowhere\n")
    for argv, message in (
        (["--config", str(path)], "job.yaml: expected a line such as `command: images`"),
        (
            ["--dataset", "x"],
            "recordmill: error: expected a command, or --config FILE; see recordmill --help",
        ),
        (["--config", str(tmp_path / "none.yaml")], "--config: cannot read"),
    ):
        assert main(argv) == 2
        assert message in capsys.readouterr().err


# Line breaks of every kind are what a YAML writer gets wrong; the last is a byte that is not UTF-8.
BREAKS = st.sampled_from("\n\r\x85\u2028\ufeff\0 \udcf6")
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | BREAKS, min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    given=st.builds(
        Pictures,
        input=st.lists(TEXT.map(InputPath.parse), min_size=1, max_size=2).map(tuple),
        output=TEXT,
        key_column=st.none() | TEXT,
        label_offset=st.integers(0, 10**20),
        splits=st.sampled_from([{"test": 0.25, "train": 0.75}, {"a-b": 0.1, "train": 0.9}]),
        stratify=st.booleans(),
        seed=st.integers(0, 2**63 - 1),
        num_shards=st.none() | st.dictionaries(st.from_regex(r"\A[\w-]+\Z", fullmatch=True).filter(
            str.isascii), st.integers(1, 99), min_size=1),
        shard_size=st.integers(1, 2**60),
        rename=st.dictionaries(TEXT, TEXT.filter(lambda name: "=" not in name), max_size=1),
        max_reject_fraction=st.floats(0, 1),
        size=st.tuples(st.integers(1, 9999), st.integers(1, 9999)),
        augment=st.sampled_from([(), ("flip",), ("flip", "rotate")]),
        upright=st.booleans(),
        quality=st.floats(allow_nan=False, allow_infinity=False),
    )
)  # fmt: skip
def test_a_printed_config_reads_back(tmp_path: pathlib.Path, given: Pictures) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(command_line.show_config(given, prog="mill"), encoding="utf-8", newline="")
    assert command_line.parse(Pictures, ["--config", str(path)], prog="mill").config == given


def test_shaping_does_not_depend_on_the_spelling() -> None:
    one = declaration.shaping(parsed("--shard-size=128MB", "--splits=test=0.20,train=.8").config)
    two = declaration.shaping(
        parsed("--splits=train=0.8,test=0.2", "--workers=3", "--size=224x224", "--quiet").config
    )
    assert one == two
    assert list(one["splits"]) == ["train", "test"]
    assert one["size"] == "224"
    assert "workers" not in one
    assert one["label_offset"] is None
    assert one != declaration.shaping(parsed("--splits=train=0.8,test=0.2", "--seed=1").config)


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        command_line.parse(
            Pictures, ["--help", "all"], prog="mill pictures", description="Example: mill"
        )
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("Example: mill\n\nUsage: mill pictures ")
    assert max(map(len, text.splitlines())) <= 80
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Input and output:",
        "Keys, classes and columns:",
        "Labels and selection of records:",
        "Duplicates:",
        "Pictures:",
        "Splits:",
        "Statistics and schema:",
        "Balance of classes (split train only):",
        "Dataset files:",
        "Job:",
        "Flink:",
        "Command line:",
    ]
    assert "  --no-upright " in text
    assert "(default: True)" not in text
    assert "--mode rgb|gray" in text
    flat = " ".join(text.split())
    assert "Height and width. (default: 224)" in flat
    assert "(default: train=0.8,validation=0.1,test=0.1)" in flat
    for field in dataclasses.fields(Pictures):
        assert f"{field.name.replace('_', '-')}" in text


DATASETS = ("arrays", "audio", "images", "sensor", "table", "text", "video")


def helped(capsys: pytest.CaptureFixture[str], command: str, *topic: str) -> str:
    with pytest.raises(SystemExit, match="0"):
        main([command, *topic])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", DATASETS)
def test_the_help_describes_few_options_and_names_all(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short = helped(capsys, command, "--help")
    described = re.findall(r"^  (--[a-z-]+)", short, re.MULTILINE)
    assert 20 <= len(described) <= 32
    assert {"--input", "--output", "--seed", "--workers", "--help"} <= {*described}
    every = re.findall(r"^  (--[a-z0-9-]+)", helped(capsys, command, "--help", "all"), re.MULTILINE)
    assert len(every) > 100
    assert {*every} <= {*re.findall(r"--[a-z0-9-]+", short)}
    assert len(short.splitlines()) <= 150


@pytest.mark.parametrize("command", DATASETS)
def test_topics_together_show_every_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short = helped(capsys, command, "--help").partition("TOPIC\n")[2]
    topics = re.findall(r"^  ([a-z]+) ", short, re.MULTILINE)
    assert len({*topics}) == len(topics)
    every = set(re.findall(r"^  --\S+", helped(capsys, command, "-h", "all"), re.MULTILINE))
    pages = [helped(capsys, command, f"--help={topic}") for topic in (*topics, "input", "balance")]
    shown = {one for page in pages for one in re.findall(r"^  --\S+", page, re.MULTILINE)}
    assert shown == every


def test_the_help_of_an_option_is_shown_alone(capsys: pytest.CaptureFixture[str]) -> None:
    page = helped(capsys, "images", "--help", "mask-suffix")
    assert page == helped(capsys, "images", "--help", "mask", "suffix")
    for argv in (["help", "images", "mask-suffix"], ["--help", "images", "mask", "suffix"]):
        with pytest.raises(SystemExit):
            main(argv)
        assert capsys.readouterr().out == page
    assert page.startswith("  --mask-suffix [END=]SUFFIX,... ")
    assert page.count("--mask-suffix") == 1
    assert helped(capsys, "table", "--help", "where").startswith("  --where CONDITION")


def test_commands_with_few_options_describe_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert helped(capsys, "inspect", "--help") == helped(capsys, "inspect", "--help", "all")


def test_an_unknown_topic_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "--help", "maks"]) == 2
    printed = capsys.readouterr().err
    assert "no such topic or option (did you mean masks?); the topics are input, keys," in printed


def test_the_most_used_options_exist() -> None:
    offered = set()
    for name in DATASETS:
        data_type = DATA_TYPES[name]
        declared = getattr(importlib.import_module(data_type.module), data_type.config)
        offered |= {one.key for one in rules.offered(declared)}
    assert help_page._MOST_USED - {"config", "help"} <= offered


def test_a_type_that_nobody_can_read_is_a_mistake_of_ours() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Broken:
        point: tuple[int, int] = declaration.option((1, 2), help="A point.")

    with pytest.raises(TypeError, match=r"point has .* needs parse="):
        declaration.options_of(Broken)


def test_commands_without_images_import_no_decoders_of_images(tmp_path: pathlib.Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "a b c,x\nd e,y\n" * 10)
    program = (
        "import sys\nfrom recordmill.pipelines.cli import main\n"
        "for command in ('text', 'table'):\n"
        "    out = f'{sys.argv[2]}/{command}'\n"
        "    assert main([command, '--input', sys.argv[1], '--output', out, '--quiet']) == 0\n"
        "found = {'PIL', 'av', 'soundfile', 'tensorflow'} & sys.modules.keys()\n"
        "sys.exit(repr(sorted(found)) if found else 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(rows), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_start_up_imports_nothing_heavy() -> None:
    """NumPy would start threads before they are limited, and encoder processes not be forked."""
    program = (
        "import sys, recordmill.pipelines.cli, recordmill.pipelines.options.common.config\n"
        "import recordmill.pipelines.options.arguments.command_line\n"
        "heavy = {'apache_beam', 'numpy', 'pyarrow', 'PIL', 'rich', 'tensorflow'}\n"
        "sys.exit(repr(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    root = ROOT
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
