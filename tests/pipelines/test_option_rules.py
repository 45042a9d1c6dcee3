"""Each rule for combinations of options refuses its cases, and accepts the others."""

import copy
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from recordmill.errors import ConfigError
from recordmill.options.declaration import build, options_of
from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.data_types import DATA_TYPES
from tests.paths import ROOT

CONFIGS = {
    command: getattr(importlib.import_module(one.module), one.config)
    for command, one in DATA_TYPES.items()
}
REQUIRED = {"input": "in", "output": "out", "time-column": "t", "window": "2"}
VALUES = {"near-distance": 3, "near-similarity": 0.7, "shard-size": 5, "resample": "mean"}


def defaults(command: str) -> Any:
    declared = options_of(CONFIGS[command])
    given = {
        one.name: one.read([REQUIRED[one.key]] if one.repeat else REQUIRED[one.key])
        for one in declared.values()
        if one.key in REQUIRED
    }
    return build(CONFIGS[command], given)


def another(term: Any) -> Any:
    """Return a value of an option to which a rule applies."""
    one = term.option
    if term.values:
        text = term.values[0].replace("repeat:*", "repeat:0.1").replace("[0-9]*", "3")
        return one.read([text] if one.repeat else text)
    if isinstance(one.default, bool):
        return not one.default
    if isinstance(one.default, int | float):
        return one.default + 1
    if isinstance(one.default, tuple | dict):
        return ("x",) if isinstance(one.default, tuple) else {"x": 1}
    choices = [text for text in one.metavar.split("|") if text != one.default]
    return choices[0] if one.metavar.islower() else VALUES.get(one.key, "x")


def with_values(config: Any, *terms: Any) -> Any:
    """Return a config with given options, without checks of their values."""
    config = copy.copy(config)
    for term in terms:
        one, value = term.option, another(term)
        if one.holder is None:
            object.__setattr__(config, one.field, value)
        else:
            held = copy.copy(getattr(config, one.holder))
            object.__setattr__(held, "values", {**held.values, one.name: value})
            object.__setattr__(config, one.holder, held)
    return config


def pairs():
    """Yield (rule, command, option, other) for each pair of options of a rule."""
    for number, rule in enumerate(rules.RULES):
        for command, config in CONFIGS.items():
            if rule.of and command not in rule.of.split():
                continue
            declared = {one.key: one for one in options_of(config).values()}
            others = rules.terms(rule.others, declared)
            for one in rules.terms(rule.options, declared):
                for other in others or ([] if rule.others else [None]):
                    if other is None or not (
                        other.option is one.option or other.is_given(defaults(command))
                    ):
                        name = f"{number}-{command}-{one}-{other}"
                        yield pytest.param(rule, command, one, other, id=name)


@pytest.mark.parametrize(("rule", "command", "one", "other"), pairs())
def test_a_rule_refuses_and_accepts(rule, command, one, other, monkeypatch):
    monkeypatch.setattr(rules, "RULES", (rule,))
    shapes = [*rules.NOUNS] if rule.of_input else [None]
    some = rule.shapes.split() or shapes
    config = defaults(command)
    alone = with_values(config, one)
    both = alone if other is None else with_values(alone, other)
    refused, kept = {"needs": (alone, both), "excludes": (both, alone)}.get(
        rule.kind, (alone, config)
    )
    seen: dict[str, str] | None = {} if rule.found else None
    for shape in shapes:
        rules.check(config, shape=shape, found=seen)
        rules.check(kept, shape=shape, found=seen)
        if (shape in some) == (rule.kind == "only"):
            rules.check(refused, shape=shape, found=seen)
            continue
        with pytest.raises(ConfigError) as error:
            rules.check(refused, shape=shape, where="in/", found=seen)
        assert str(error.value).startswith(one.flag)
        if other is not None and rule.kind == "excludes":
            assert other.flag in str(error.value)
        if other is not None and rule.kind == "needs" and rule.found:
            rules.check(alone, shape=shape, found={other.option.key: "the records"})
    if rule.unless:
        declared = {one.key: one for one in options_of(CONFIGS[command]).values()}
        for exception in rules.terms(rule.unless, declared):
            rules.check(with_values(refused, exception), shape=shapes[0])


@pytest.mark.parametrize("command", CONFIGS)
def test_every_rule_has_an_option_of_some_command_and_defaults_break_none(command):
    config = defaults(command)
    for shape in (None, *rules.NOUNS):
        rules.check(config, shape=shape)


def test_every_rule_names_options_that_exist():
    declared = {one.key: one for kind in CONFIGS.values() for one in options_of(kind).values()}
    topics = {one.group.topic for one in declared.values()}
    for rule in rules.RULES:
        for word in f"{rule.options} {rule.others} {rule.unless}".split():
            name = word.partition("=")[0]
            known = name[1:] in topics if name[0] == "@" else name.removeprefix("-") in declared
            assert known, word
        assert {*rule.of.split()} <= {*DATA_TYPES}
        assert {*rule.shapes.split()} <= {*rules.NOUNS}


def table(declared) -> Iterator[str]:
    """Yield the rows of the table of docs/options.md. declared: {key: option} of all commands."""
    for rule in rules.RULES:
        options = named(rule.options, declared)
        others = named(rule.others, declared, last=" or ")
        rest = {
            "needs": f"only with {others}",
            "excludes": f"not with {others}",
            "only": f"only for {rules.fitting(rule)}",
            "never": f"not for {rules.either(codes(rule.of))}: it {rule.why}",
        }[rule.kind]
        if rule.why and rule.kind != "never":
            rest += f", {rule.why}"
        if rule.unless:
            rest += f", except with {named(rule.unless, declared)}"
        if rule.of and rule.kind != "never":
            rest = f"{', '.join(codes(rule.of))}: {rest}"
        yield f"| {options} | {rest} |"


def codes(names):
    return [f"`{one}`" for one in names.split()]


def named(text, declared, *, last=", "):
    """Return options for the documentation."""
    topics = [f"the options of `--help {one[1:]}`" for one in text.split() if one[0] == "@"]
    but = [f"`--{one[1:]}`" for one in text.split() if one[0] == "-"]
    names = " ".join(one for one in text.split() if one[0] not in "@-")
    if but:
        topics[-1] += f" but {', '.join(but)}"
    return rules.either([*topics, *(f"`{one}`" for one in rules.terms(names, declared))], last=last)


def test_the_rules_are_documented():
    declared = {one.key: one for kind in CONFIGS.values() for one in options_of(kind).values()}
    page = (ROOT / "docs" / "options.md").read_text()
    section = page.partition("## Options that go together\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith(("| `", "| the"))]
    assert rows == list(table(declared))
