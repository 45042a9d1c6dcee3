"""Table of the rules for combinations of options, which `check` applies and docs/options.md lists.

A rule names options without leading dashes: `label-map`, `label-type=int|float` for certain values,
or `@rows` for the options of a help topic, of which `-encoding` excludes one. A rule applies to the
commands that have its options.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any, Literal, NamedTuple

from recordmill.errors import ConfigError
from recordmill.options.declaration import Option, options_of
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.pipelines.options.option_text import option_text
from recordmill.transforms.model.shape import NOUNS, Payload

# Remedies for options that do not apply to an input, by its payload.
_REMEDIES: Mapping[Payload | None, str] = {
    "self": ", or pass a listing as --input",
    "document": ", or add --format if they hold rows",
}
# Payloads that each command reads. Messages name those of them that a rule allows.
_ROWS: tuple[Payload, ...] = ("values", "document")
_READ: Mapping[str | None, tuple[Payload, ...]] = {
    "text": ("named", *_ROWS), "table": _ROWS, "sensor": _ROWS,
    **dict.fromkeys(("images", "video", "audio", "arrays"), ("self", "named", "held", "placed")),
}  # fmt: skip
_COMMANDS = {one.config: command for command, one in DATA_TYPES.items()}


class Rule(NamedTuple):
    """A condition on an option that is given.

    Attributes:
      options: Options to which the rule applies, one at a time.
      kind: needs: one of `others` must be given. excludes: none of them may. only: the input must
        have one of `shapes`. never: the option has no meaning for a data type.
      others: Other options.
      unless: Option that suspends the rule if it is given.
      why: Reason in the message, before the remedy.
      of: Data types; empty for all.
      shapes: Payloads of the input; empty if the rule does not depend on the input.
      found: Whether the input may replace one of `others`, as records that hold boxes do.
    """

    options: str
    kind: Literal["needs", "excludes", "only", "never"]
    others: str = ""
    unless: str = ""
    why: str = ""
    of: str = ""
    shapes: str = ""
    found: bool = False

    def concerns(self, command: str | None, shape: Payload | None, *, seen: bool) -> bool:
        """Return whether a check of the options alone, or of an input, includes the rule.

        Args:
          command: Data type.
          shape: Payload of the input; None to check the options alone.
          seen: Whether the contents of records are known, which are read after the first check.
        """
        if (self.of and command not in self.of.split()) or (shape is None) == self.of_input:
            return False
        if shape == "placed" and seen != self.found:
            return False
        return not self.shapes or (shape in self.shapes.split()) == (self.kind != "only")

    @property
    def of_input(self) -> bool:
        """True if the rule depends on the input."""
        return bool(self.shapes) or self.found


def _needs(options: str, *others: str, **more: Any) -> Rule:
    return Rule(options, "needs", " ".join(others), **more)


def _excludes(options: str, *others: str, **more: Any) -> Rule:
    return Rule(options, "excludes", " ".join(others), **more)


def _only(options: str, shapes: str, **more: Any) -> Rule:
    return Rule(options, "only", shapes=shapes, **more)


def _never(options: str, of: str, why: str) -> Rule:
    return Rule(options, "never", of=of, why=why)


_NUMBERS = "label-type=int|float"
_CLASSES = "labels-file label-map fold-labels include-labels exclude-labels limit-per-class"
_OF_LABELS = f"{_CLASSES} balance stratify label-offset unlabelled"
_HAVE_COLUMNS = "named held placed values"
_SEGMENTS = "start-column end-column duration-column"
_ALL_FEATURES = "which makes all features"
_WINDOWS = "compares records by their content, but windows of a series share rows"

RULES: tuple[Rule, ...] = (
    # Options that never apply to a data type.
    _never("key-column", "sensor", "gives keys to rows, and windows have keys of their own"),
    _never("conflicts", "sensor", "decides between rows of one key, and windows have keys of"
           " their own"),
    _never("weight-column", "sensor", "gives weights to rows, and records are windows"),
    _never("label-columns label-separator", "sensor", "gives rows several classes, and windows have"
           " one"),
    _never("dedup exclude-like near-duplicates near-distance near-similarity", "sensor", _WINDOWS),
    _never("near-duplicates near-distance near-similarity", "table arrays audio", "compares"
           " images, clips or texts: use --dedup, which compares any content"),
    _never("near-similarity", "images video", "is for texts: use --near-distance for images and"
           " clips"),
    _never("near-distance", "text", "is for images and clips: use --near-similarity for texts"),
    # Input, labels and groups.
    _excludes("label-column", "label-from"),
    _excludes("group-column", "group-from"),
    _excludes("split-column", "split-from", unless="split-from=none"),
    _excludes("split-files", "split-column split-from", why="which gives splits, too"),
    _needs("split-map", "split-column", "split-from"),
    _excludes("split-map", "split-from=files", why="which is the split in the name of a file"),
    _excludes("label-from", "label-type=none"),
    _excludes(_OF_LABELS, "label-type=none", why="which reads no labels",
              of="text table sensor arrays video audio"),
    _excludes("label-columns", "label-column label-from label-separator", why="because columns of 0"
              " and 1 give the classes"),
    _excludes("label-columns label-separator", "label-type=none|int|float", why="which gives no"
              " classes"),
    _needs("label-bins", _NUMBERS),
    _excludes("balance=weights", "label-bins", why="which makes no classes to weigh"),
    _needs("label-bins", "stratify", "balance"),
    _excludes(_CLASSES, _NUMBERS, why="which gives numbers, not classes"),
    _excludes("balance stratify", _NUMBERS, unless="label-bins", why="which gives numbers, not"
              " classes"),
    _needs("trust-transform", "preprocessing-fn"),
    _needs("trust-transform", "learned-from"),
    _needs("confine", "input-root", shapes="self named placed values document",
           why="because local paths of a listing are confined only with it"),
    _excludes("path-template", "path-column", why="which holds whole paths"),
    _excludes("path-template", "bytes-column", why="whose rows hold the files"),
    _excludes("bytes-column", "path-column", why="because a row either holds a file or names it"
              " (for structs of bytes and a path, give --bytes-column)"),
    # Duplicates.
    _needs("near-distance near-similarity", "near-duplicates"),
    _excludes("dedup=group", "group-column group-from", why="because a record has one group; "
              "--dedup drop and --near-duplicates group go with it"),
    _excludes("dedup=group", "near-duplicates", why="which includes equal records"),
    _never("dedup=group", "video", "cannot join the clips of a video, which stay together: use"
           " --dedup drop, or --near-duplicates group --near-distance 0, which joins groups"),
    _excludes("dedup=group", "clip-mode=split", why="because the clips of a file stay together, and"
              " a record has one group; --dedup drop goes with it", of="audio"),
    _excludes("dedup=group", "chunk", why="because the chunks of an array stay together, and a"
              " record has one group; --dedup drop goes with it", of="arrays"),
    # Balance, shards and augmentation.
    _needs("balance-target", "balance=oversample|undersample"),
    _excludes("balance-target=repeat:*", "balance=undersample", why="because it repeats records"),
    _excludes("num-shards=[0-9]*", "shard-size"),
    _needs("augment-all", "augment"),
    _needs("augment", "balance=oversample", "augment-all", why="because it applies to oversampled"
           " copies", of="images text audio"),
    # Statistics, schema and earlier datasets.
    _needs("on-violation", "schema"),
    _excludes("infer-schema", "schema", why="which is what it writes"),
    _excludes("infer-schema", "learned-from", why="because it writes no dataset"),
    _needs("compare-with max-drift", "statistics=true", why="which it compares"),
    _needs("max-drift", "compare-with", "learned-from", why="which name the dataset to compare"
           " with"),
    _excludes("no-reuse", "reuse reuse-required"),
    # The job.
    _needs("json", "dry-run", why="because it prints the plan"),
    _excludes("verify report", "dry-run detach"),
    _needs("@flink", "runner=flink"),
    _needs("scratch", "runner=direct", why="because the workers of a cluster need the files, too"),
    _excludes("detach", "dry-run infer-schema", why="which needs the result of the job"),
    # Listings and tables that hold files.
    _excludes("end-column", "duration-column"),
    _needs("segment-unit", *_SEGMENTS.split()),
    _only("label-column", _HAVE_COLUMNS, why="or use --label-from"),
    _only("split-column", _HAVE_COLUMNS, why="or use --split-from"),
    _only("group-column", _HAVE_COLUMNS, why="or use --group-from"),
    _only("key-column", _HAVE_COLUMNS, why="or use --key-from"),
    _only("where", _HAVE_COLUMNS, why="or select files with a pattern as --input"),
    _only("drop-columns label-separator", _HAVE_COLUMNS),
    _only("label-columns weight-column", "named held values"),
    _only("path-column path-template", "named"),
    _only(_SEGMENTS, "named held"),
    _only(_SEGMENTS, "named", of="audio", unless="clip-mode=split",
          why="or add --clip-mode split"),
    _only("input-root allow-store confine", "named held"),
    _only("text-column text-columns chat-column", "values"),
    _only("documents", "document"),
    _only("label-from", "self held values document", why="or use --label-column"),
    _only("group-from", "self named held values document", why="or use --group-column"),
    _only("column-from", "self held values document"),
    _only("key-from", "self document", why="or use --key-column"),
    _excludes("key-from", "documents=line", why="which makes several records of a file"),
    _excludes("key-column", "key-from"),
    _only("split-files", "self named document", why="or use --split-column or --split-from"),
    _only("@rows -decimal -encoding -format -max-row-bytes", "named held values"),
    _only("decimal", "named held values", unless="annotations"),
    _only("encoding", "named held values document"),
    _only("annotations masks label-input", "self named"),
    _needs("conflicts=error", "key-column", shapes="self placed values document", found=True,
           why="because other keys do not repeat"),
    _needs("conflicts=first", "key-column", "dedup=drop", "near-duplicates=drop", found=True,
           shapes="self placed values document", why="because other keys do not repeat"),
    # Boxes and masks.
    _needs("@boxes -unannotated -captions -captions-from", "annotations", found=True),
    _needs("unannotated captions", "annotations", "captions-from", found=True),
    _excludes("captions-from", "annotations", why="which give captions, too"),
    _only("captions-from", "self", why="or use --annotations"),
    _needs("@masks", "masks", found=True),
    _only("annotation-format box-units unannotated absent-images mask-suffix", "self named"),
    _excludes("label-column label-columns label-separator label-type=class|int|float",
              "annotations", found=True,
              why="whose boxes give the classes"),
    # Columns as features.
    _excludes("@features -types zscore-by sequence-example", "preprocessing-fn", why=_ALL_FEATURES),
    _excludes("weight-column", "preprocessing-fn", why="which can return it as one of the"
              " features"),
    _needs("vocab-size min-frequency", "vocabulary", "one-hot", of="table sensor"),
    _needs("oov-buckets", "vocabulary", of="table sensor"),
    # Series.
    _excludes("time-unit=ms|us|ns|excel|matlab", "time-format", why="which reads text"),
    _excludes("window-label=majority|any:*|all:*", _NUMBERS, why="because it chooses a class: last,"
              " first and ahead:ROWS choose a number"),
    _excludes("split-column group-column group-from stratify", "split-by=time|series-time"),
    _needs("outside-label", "intervals"),
    _excludes("label-column label-from label-type=class|int|float", "intervals", why="which gives"
              " the classes"),
    # Texts.
    _excludes("@text -text-column -text-columns -documents -min-chars -max-chars",
              "preprocessing-fn", why=_ALL_FEATURES),
    _excludes("text-column", "text-columns"),
    _excludes("chat-column", "text-column text-columns", why="because a record is a conversation or"
              " texts"),
    _excludes("chat-column", "chunk", why="which cuts texts, but the parts of a conversation belong"
              " together"),
    _excludes("chat-column", "augment", why="which changes single texts"),
    _excludes("chat-column", "features=bow|tfidf|embeddings", why="which are features of texts"),
    _excludes("chat-column", "edge-tokens=yes", why="because the template has its own special"
              " tokens"),
    _needs("chat-template", "chat-column"),
    _excludes("near-duplicates", "text-columns chunk", why="because it compares whole, single"
              " texts"),
    _excludes("conflicts", "chunk", why="which refuses keys that repeat", of="text"),
    _excludes("balance weight-column label-type=int|float", "pack", why="because packed texts have"
              " no label and no weight"),
    _needs("features=embeddings", "embeddings", of="text"),
    _needs("embedding-words", "embeddings"),
    _needs("max-unknown", "learned-from", why="which names the dataset with the vocabulary"),
    # Audio, arrays and images.
    _needs("@spectrograms", "features=melspectrogram"),
    _excludes("features=encoded", _SEGMENTS, why="because it writes whole files; --features"
              " waveform writes segments", of="audio"),
    _needs("cast", "dtype", why="the dtype to cast to", of="arrays"),
    _needs("chunk-axis chunk-stride chunk-rest", "chunk"),
    _excludes("per-item", "chunk", why="whose value 1 makes items that keep the axis"),
    _needs("label-input", "per-item", why="which makes a record of every item"),
    _excludes("label-array label-input", "label-type=none"),
    _excludes("label-columns", "label-array label-input"),
    _excludes("label-column", "label-type=none", of="arrays"),
    _excludes("label-column", "label-array label-input"),
    _excludes("feature-set=tf-object-detection", "image-format=raw", why="because its decoders read"
              " JPEG and PNG"),
)  # fmt: skip


class _Term(NamedTuple):
    """An option with some of its values; without values, the option if it is not the default."""

    option: Option
    values: tuple[str, ...]

    def is_given(self, config: Any) -> bool:
        value = self.option.of(config)
        if not self.values:
            return bool(value != self.option.default)
        shown = "" if value is None else self.option.show(value)
        texts = [str(one).lower() for one in (shown if isinstance(shown, list) else [shown])]
        return any(fnmatch.filter(texts, pattern) for pattern in self.values)

    @property
    def flag(self) -> str:
        negated = self.option.default is True and self.values != ("true",)
        return f"--{'no-' if negated else ''}{self.option.key}"

    def __str__(self) -> str:
        values = "" if self.option.switch else either(self.values)
        return f"{self.flag} {values.replace('[0-9]*', 'N').replace('*', 'X')}".strip()

    def shown(self, config: Any) -> str:
        """Return the option with its value, as it is typed."""
        text = "" if self.option.switch else option_text(self.option.show(self.option.of(config)))
        return f"{self.flag} {text}".strip()


def check(
    config: Any,
    *,
    shape: Payload | None = None,
    where: object = "",
    found: Mapping[str, str] | None = None,
) -> None:
    """Check the options against the rules.

    Args:
      config: The options.
      shape: Payload of the input. If it is given, the rules that depend on the input are checked,
        otherwise all others.
      where: The input, for messages.
      found: {option: noun} of the contents of records that replace options. If it is given, the
        rules that depend on these contents are checked.

    Raises:
      ConfigError: A rule is broken; the message is that of the first one.
    """
    declared = {one.key: one for one in options_of(type(config)).values()}
    command, gives = _COMMANDS.get(type(config).__name__), found or {}
    for rule in RULES:
        if not rule.concerns(command, shape, seen=found is not None):
            continue
        given = [one for one in terms(rule.options, declared) if one.is_given(config)]
        if not given or any(one.is_given(config) for one in terms(rule.unless, declared)):
            continue
        others = terms(rule.others, declared)
        if rule.others and not others:
            continue
        names = [gives.get(one.option.key) or one.shown(config) for one in others
                 if one.option.key in gives or one.is_given(config)]  # fmt: skip
        if rule.kind == {True: "needs", False: "excludes"}[bool(names)]:
            continue
        first = given[0]
        flag = first.shown(config) if first.values or "|" in first.option.metavar else first.flag
        why, noun = f", {rule.why}" if rule.why else "", "" if shape is None else NOUNS[shape]
        part = _part_of_paths(config, first, declared.get("column-from"))
        remedy = f"{why}{part}{_REMEDIES.get(shape, '')}"
        also = f", or add --{rule.unless}" if rule.unless else ""
        raise ConfigError(flag + {
            "needs": f": has no effect without {either(others)}{why}: add it, or leave {first.flag}"
                     " out",
            "excludes": f": cannot be combined with {either(names[:1])}{why}: leave one of them out"
                        f"{also}",
            "never": f" {rule.why}{'' if ':' in rule.why else ': leave it out'}",
            "only": f": applies only to {fitting(rule, command)}, but --input {where} is read as"
                    f" {noun}: leave the option out{remedy}",
        }[rule.kind])  # fmt: skip


def _part_of_paths(config: Any, column: _Term, parts: Option | None) -> str:
    """Return the value of --column-from whose column an option names, as it is typed."""
    if parts is None or not column.option.key.endswith("-column"):
        return ""
    part = parts.of(config).get(column.option.of(config))
    return "" if part is None else f" {quote(part)}"


def fitting(rule: Rule, command: str | None = None) -> str:
    """Return nouns for the payloads that a rule allows and a command (None: any) reads."""
    read = _READ.get(command, NOUNS)
    return either(NOUNS[one] for one in NOUNS if one in rule.shapes.split() and one in read)


def offered(config_class: type) -> list[Option]:
    """Return the options that help and job files show: all except those that never apply."""
    declared = {one.key: one for one in options_of(config_class).values()}
    command = _COMMANDS.get(config_class.__name__)
    never = {
        one.option.key
        for rule in RULES
        if rule.kind == "never" and rule.concerns(command, None, seen=False)
        for one in terms(rule.options, declared)
        if not one.values
    }
    return [one for key, one in declared.items() if key not in never]


def terms(text: str, declared: Mapping[str, Option]) -> list[_Term]:
    """Return those of the declared options that a rule names."""
    words = text.split()
    without = {one[1:] for one in words if one[0] == "-"}
    found = []
    for word in words:
        name, _, values = word.partition("=")
        keys = [name]
        if name[0] == "@":
            keys = [key for key, one in declared.items() if one.group.topic == name[1:]]
        found += [
            _Term(declared[key], tuple(values.split("|")) if values else ())
            for key in keys
            if key in declared and key not in without
        ]
    return found


def either(parts: Iterable[object], *, last: str = " or ") -> str:
    *most, end = [*map(str, parts)] or [""]
    return f"{', '.join(most)}{last}{end}" if most else end
