"""Options that Beam's parser knows: which are taken, and what the others suggest."""

import argparse
import json
import re
import shlex

import pytest
from apache_beam.options import pipeline_options

from recordmill.pipelines.cli import main
from recordmill.pipelines.options.arguments.beam_options import BEAM_OPTIONS
from tests.paths import ROOT


def names_of_beam() -> set[str]:
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for options in pipeline_options.PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    return {flag.removeprefix("--") for flag in flags}


@pytest.fixture
def run(tmp_path):
    """Run `recordmill table` on rows with two columns, and return its exit code."""
    rows = "".join(f"{number},{'xy'[number % 2]}\n" for number in range(20))
    (tmp_path / "rows.csv").write_text(f"number,emotion\n{rows}")

    def call(*argv: str, command: str = "table") -> int:
        places = ["--input", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "out")]
        return main([command, *places, *argv])

    return call


@pytest.mark.parametrize("runner", BEAM_OPTIONS)
def test_beam_has_every_option_that_is_passed_to_it(runner):
    assert BEAM_OPTIONS[runner] - names_of_beam() == set()


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("--label emotion", "unknown option --label; did you mean --label-column?"),
        ("--label=emotion", "unknown option --label; did you mean --label-column?"),
        ("--labels x", "unknown option --labels; did you mean --label-column?"),
        ("--labels", "unknown option --labels; did you mean --label-column?"),
        ("--labels=team=a", "unknown option --labels; did you mean --label-column?"),
        ("--labels=airflow-version", "unknown option --labels; did you mean --label-column?"),
        ("--label=airflow-version=v3-3-2", "unknown option --label; did you mean"),
        ("--region eu", "unknown option --region; --help all lists them"),
        ("--zone a", "unknown option --zone; --help all lists them"),
        ("--update", "unknown option --update; --help all lists them"),
        ("--streaming", "unknown option --streaming; --help all lists them"),
        ("--num_workers 2", "unknown option --num_workers; did you mean --workers?"),
        ("--num-workers 2", "unknown option --num-workers; did you mean --workers?"),
        ("--direct_num_workers=2", "did you mean --workers?"),
        ("--dry_run", "unknown option --dry_run; did you mean --dry-run?"),
        ("--job_name x --runner flink", "did you mean --job-name?"),
        ("--streaming --runner flink", "unknown option --streaming; --help all lists them"),
        ("--setup_file x.py", "an option of Beam that has an effect only with --runner flink"),
        ("--max-parallelism 2 --runner flink", "did you mean --max_parallelism?"),
        ("--group x", "did you mean --group-column?"),
        ("--tokenizer bpe", "unknown option --tokenizer; it is an option of recordmill text"),
        ("--size 9", "it is an option of recordmill images and video"),
    ],
)
def test_options_without_an_effect_are_unknown(run, given, advice, capsys, tmp_path):
    assert run(*shlex.split(given)) == 2
    assert advice in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_no_option_of_beam_alone_is_taken_by_the_direct_runner(run, capsys):
    for name in sorted(names_of_beam()):
        # Those that Recordmill has, too, are its own.
        if name in ("runner", "parallelism"):
            continue
        assert run(f"--{name}=1") == 2, name
        assert f"unknown option --{name};" in capsys.readouterr().err, name


@pytest.mark.parametrize("key", ["label", "labels"])
def test_a_job_file_cannot_name_an_option_of_beam_either(run, key, tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(f"seed: 1\n{key}: emotion\n")
    assert run("--config", str(tmp_path / "job.yaml")) == 2
    error = capsys.readouterr().err
    assert f"job.yaml:2: unknown option {key}; did you mean label-column?" in error


@pytest.mark.parametrize("version", ["v3-3-2", "v2-10-5-composer", "v3-1-0rc1"])
def test_the_label_that_airflow_adds_is_ignored(run, version, tmp_path):
    given = ["--runner=DirectRunner", f"--labels=airflow-version={version}"]
    assert run(*given, "--quiet", "--label-column=emotion") == 0
    manifest = json.loads((tmp_path / "out/dataset.json").read_text())
    assert manifest["ledger"]["records"]["written"] == 20


def test_the_page_on_flink_names_every_option_of_beam():
    page = (ROOT / "docs/flink.md").read_text()
    section = page.partition("## Options of Beam\n")[2].partition("\n## ")[0]
    table = "".join(line for line in section.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`--(\w+)`", table)) == BEAM_OPTIONS["flink"]
