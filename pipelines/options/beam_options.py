"""Validates Beam's own pipeline options, which are accepted under their own names."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from recordmill.errors import ConfigError
from recordmill.pipelines.options.job_file import Given

# Similarity, from 0 to 1, above which difflib suggests a name.
_SIMILARITY = 0.8  # for Beam's options
_NEAR = 0.73  # for the options of Recordmill


def passthrough(given: Iterable[Given], *, ours: Sequence[str]) -> list[str]:
    """Return options as `--name=value`, after Beam's parser has accepted them.

    ours: the keys of our own options, for suggestions of the nearest spelling.

    Raises:
      ConfigError: Beam does not know an option, or rejects its value.
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
            raise ConfigError(f"{prefix}Beam rejects {token}: {error}") from error
        if rest:
            raise unknown(one, ours, beams=list(vars(known)))
    return [token for token, _ in tokens]


def unknown(given: Given, ours: Sequence[str], *, beams: Sequence[str] = ()) -> ConfigError:
    """Return the error for an unknown option; it suggests the nearest spelling.

    Beam has so many options that one is always a little similar, so only a close match to one of
    them is suggested.
    """
    dashes = "" if given.line else "--"
    prefix = f"{given.line}: " if given.line else ""
    # Compared with dashes, so that --num_shards suggests --num-shards; ours win over Beam's.
    key = given.key.replace("_", "-")
    spelled = {name.replace("_", "-"): name for name in (*reversed(beams), *reversed(ours))}
    near = [
        *difflib.get_close_matches(key, [one.replace("_", "-") for one in ours], n=1, cutoff=_NEAR),
        *[name for name in spelled if name.startswith(f"{key}-")][:1],
        *difflib.get_close_matches(
            key, [one.replace("_", "-") for one in beams], n=1, cutoff=_SIMILARITY
        ),
    ]
    nearest = difflib.get_close_matches(key, near, n=1)
    hint = f"did you mean {dashes}{spelled[nearest[0]]}?" if nearest else "--help lists all"
    return ConfigError(f"{prefix}unknown option {dashes}{given.key}; {hint}")


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
