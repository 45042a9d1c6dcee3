"""Beam's own pipeline options, which pass through by their own names once they are known to be."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from recordmill.errors import ConfigError
from recordmill.pipelines.options.job_file import Given

_NEARLY = 0.8  # as difflib compares


def passthrough(given: Iterable[Given], *, ours: Sequence[str]) -> list[str]:
    """What is given, as `--name=value`, if Beam has an option of that name and takes the value.

    ours: our own keys, among which to look for the nearest spelling.

    Raises:
      ConfigError: Beam does not know it either, or does not take the value.
    """
    tokens = [(token, one) for one in given for token in _tokens(one)]
    if not tokens:
        return []
    parser = _parser()
    for token, one in tokens:
        try:
            known, rest = parser.parse_known_args([token])
        except ConfigError as error:
            prefix = f"{one.line}: " if one.line else ""
            raise ConfigError(f"{prefix}Beam does not take {token}: {error}") from error
        if rest:
            raise unknown(one, ours, beams=list(vars(known)))
    return [token for token, _ in tokens]


def unknown(given: Given, ours: Sequence[str], *, beams: Sequence[str] = ()) -> ConfigError:
    """The error for an option that is neither ours nor Beam's; it names the nearest spelling.

    Beam has so many that one is always a little like it: of those it has to be nearly the same.
    """
    dashes = "" if given.line else "--"
    prefix = f"{given.line}: " if given.line else ""
    # Compared with dashes, so that --num_shards leads to --num-shards; the first ones win.
    key = given.key.replace("_", "-")
    spelled = {name.replace("_", "-"): name for name in (*reversed(beams), *reversed(ours))}
    near = [
        *difflib.get_close_matches(key, [one.replace("_", "-") for one in ours], n=1),
        *difflib.get_close_matches(
            key, [one.replace("_", "-") for one in beams], n=1, cutoff=_NEARLY
        ),
    ]
    nearest = difflib.get_close_matches(key, near, n=1)
    hint = f"did you mean {dashes}{spelled[nearest[0]]}?" if nearest else "--help lists all"
    return ConfigError(f"{prefix}unknown option {dashes}{given.key}; {hint}")


def by_name(tokens: Iterable[str]) -> dict[str, str | bool | list[str]]:
    """What `passthrough` returned, as a job file holds it."""
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


def _tokens(given: Given) -> list[str]:
    if given.bare:
        return [f"--{given.key}"]
    return [f"--{given.key}={text}" for text in given.texts]


def _parser() -> argparse.ArgumentParser:
    # Beam takes more than a second to import: only whoever gives it options waits for it here.
    from apache_beam.options import pipeline_options

    class Parser(pipeline_options._BeamArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ConfigError(message)

    parser: Any = Parser(add_help=False, allow_abbrev=False)
    for options in pipeline_options.PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser  # type: ignore[no-any-return]
