"""Validates Beam's own pipeline options, and explains options that are unknown.

Beam's parser knows two hundred options, and most of them have no effect with a given runner. Only
those that have one are accepted, so that no misspelled option is taken for one of them.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from recordmill.errors import ConfigError
from recordmill.pipelines.options.common.job_file import Given
from recordmill.pipelines.options.common.rules import offered
from recordmill.pipelines.options.data_types import DATA_TYPES

# Beam's options that have an effect, by runner. In the direct runner, encoder processes do the
# work, and their number is an option of Recordmill. Options that only check transforms while they
# are written (types, coders), and those of clouds, are left out.
BEAM_OPTIONS: Mapping[str, frozenset[str]] = {
    "direct": frozenset(),
    "flink": frozenset(
        {
            # Read by FlinkOptions.
            *("environment_config", "environment_type", "flink_job_server_jar", "flink_master"),
            *("flink_version", "parallelism"),
            # Read by Beam's runner inside Flink.
            *("environment_cache_millis", "max_parallelism", "sdk_worker_parallelism"),
            # Files that workers install.
            *("extra_package", "extra_packages", "file_to_stage", "files_to_stage"),
            *("requirements_cache", "requirements_cache_only_sources", "requirements_file"),
            "setup_file",
            # Read by workers.
            *("beam_plugin", "beam_plugins", "default_sdk_harness_log_level"),
            *("element_processing_timeout_minutes", "experiment", "experiments"),
            *("max_cache_memory_usage_mb", "pickle_library", "profile_cpu", "profile_location"),
            *("profile_memory", "profile_sample_rate", "sdk_harness_log_level_overrides"),
        }
    ),
}
# Airflow's operator for Beam pipelines adds this label to every command.
_AIRFLOW = re.compile(r"airflow-version=v[0-9A-Za-z_-]+")
# Similarity, from 0 to 1, above which difflib suggests a name.
_SIMILARITY = 0.8  # for Beam's options: among so many, one is always similar
_NEAR = 0.73  # for the options of Recordmill


def passthrough(given: Iterable[Given], *, config_class: type, runner: str) -> list[str]:
    """Return Beam's options as `--name=value`, after Beam's parser has accepted them.

    config_class: declares our own options, for suggestions. runner: the value of --runner.

    Raises:
      ConfigError: an option has no effect with this runner, or Beam rejects its value.
    """
    given = [one for one in given if not _is_of_scheduler(one)]
    for one in given:
        if one.key not in BEAM_OPTIONS[runner]:
            raise unknown(one, config_class, runner=runner)
    tokens = [(token, one) for one in given for token in _tokens(one)]
    parser = _parser() if tokens else None
    for token, one in tokens:
        assert parser is not None
        try:
            parser.parse_args([token])
        except ConfigError as error:
            prefix = f"{one.line}: " if one.line else ""
            raise ConfigError(f"{prefix}Beam rejects {token}: {error}") from error
    return [token for token, _ in tokens]


def unknown(given: Given, config_class: type, *, runner: str | None = None) -> ConfigError:
    """Return the error for an unknown option; it suggests the nearest spelling.

    config_class: declares the options of the command. runner: its value of --runner, or None if the
    command has no such option.
    """
    dashes = "" if given.line else "--"
    prefix = f"{given.line}: " if given.line else ""
    ours = [one.key for one in offered(config_class)]
    beams = {} if runner is None else {_dashed(one): one for one in sorted(BEAM_OPTIONS[runner])}
    nearest = next(_nearest(given.key, ours, beams), None)
    hints: list[str] = []
    if runner is not None and (nearest is None or _dashed(nearest) != _dashed(given.key)):
        hints += _elsewhere(given.key, config_class, dashes)
    if nearest is not None:
        hints.append(f"did you mean {dashes}{nearest}?")
    return ConfigError(
        f"{prefix}unknown option {dashes}{given.key}; {'; '.join(hints) or '--help all lists them'}"
    )


def by_name(tokens: Iterable[str]) -> dict[str, str | bool | list[str]]:
    """Return the result of `passthrough` as {name: value}, for a job file."""
    out: dict[str, str | bool | list[str]] = {}
    for token in tokens:
        name, equals, text = token[2:].partition("=")
        before = out.get(name)
        if not equals:
            out[name] = True
        elif isinstance(before, list):
            before.append(text)
        else:
            out[name] = [before, text] if isinstance(before, str) else text
    return out


def _is_of_scheduler(given: Given) -> bool:
    return (
        given.key == "labels"
        and not given.line
        and len(given.texts) == 1
        and _AIRFLOW.fullmatch(given.texts[0]) is not None
    )


def _nearest(key: str, ours: Sequence[str], beams: Mapping[str, str]) -> Iterator[str]:
    """Yield names of options that may be meant by `key`, the most likely first.

    Names of options that take a column end in -column, and --num-workers of other programs is
    --workers here. beams: Beam's options, by their names with dashes.
    """
    key = _dashed(key)
    yield from (one for one in ours if one == key)
    yield from (name for dashed, name in beams.items() if dashed == key)
    yield from (one for one in (f"{key}-column", f"{key.removesuffix('s')}-column") if one in ours)
    yield from (one for one in ours if one.startswith(f"{key}-"))
    yield from (one for one in ours if key.endswith(f"-{one}"))
    yield from difflib.get_close_matches(key, ours, n=1, cutoff=_NEAR)
    near = difflib.get_close_matches(key, beams, n=1, cutoff=_SIMILARITY)
    yield from (beams[one] for one in near)


def _elsewhere(key: str, config_class: type, dashes: str) -> Iterator[str]:
    """Yield where else an option of this name exists: with another command, or another runner."""
    commands = []
    for command, data_type in DATA_TYPES.items():
        other = getattr(importlib.import_module(data_type.module), data_type.config)
        if other is not config_class and _dashed(key) in (one.key for one in offered(other)):
            commands.append(command)
    if commands:
        yield f"it is an option of recordmill {' and '.join(commands)}"
    runners = [runner for runner, names in BEAM_OPTIONS.items() if key in names]
    if runners:
        yield f"it is an option of Beam that has an effect only with {dashes}runner {runners[0]}"


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _tokens(given: Given) -> list[str]:
    if given.bare:
        return [f"--{given.key}"]
    return [f"--{given.key}={text}" for text in given.texts]


def _parser() -> argparse.ArgumentParser:
    # Imported here because it takes more than a second, and only Beam's options need it.
    from apache_beam.options import pipeline_options

    class Parser(pipeline_options._BeamArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ConfigError(message)

    parser: Any = Parser(add_help=False, allow_abbrev=False)
    for options in pipeline_options.PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser  # type: ignore[no-any-return]
