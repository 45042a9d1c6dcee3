"""The dataset of --learned-from: what it learned is applied, and nothing is learned again.

The files that it learned, its classes and the types of its columns are taken as they are. Its
options for features, and the features themselves, have to be those of the run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.file_info import file_info
from recordmill.format.manifest import Manifest, ManifestError, read_manifest
from recordmill.format.typed_json import damage_of
from recordmill.job.staging import Staging, to_json
from recordmill.option_checks import list_text
from recordmill.options.declaration import value_of
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.option_text import option_name, option_text
from recordmill.profile import statistics_file
from recordmill.profile.statistics_file import STATISTICS
from recordmill.storage.files import Location, PathError, shown
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.checks.schema_check import RequiredColumns
from recordmill.transforms.encoders.artifacts import parse_frequencies, vocabulary_lines
from recordmill.transforms.encoders.preprocessed import (
    FEATURES_FILE,
    FOLDER,
    parse_features,
    stored_features,
)
from recordmill.transforms.encoders.table_numbers import NUMBERS_FILE, parse_numbers
from recordmill.transforms.model.data_type import (
    Analysis,
    Artifact,
    Context,
    DataType,
    Preprocessing,
    RowCheck,
)
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import user_feature, user_fields
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout
from recordmill.transforms.sources.rows.values.table_rows import TableRows

_FLAG = "--learned-from"
_CHECKS: Mapping[str, Callable[[bytes], object]] = {
    NUMBERS_FILE: parse_numbers,
    FEATURES_FILE: parse_features,
}
_SHOWN = 8  # columns or classes in a message

# Options that shaped what was learned, or that say how it is applied.
_OF_ALL = ("label_offset", "rename")
_OF_COLUMNS = (
    *("indicator", "impute", "clip", "log", "zscore", "minmax", "bucketize", "one_hot"),
    *("vocabulary", "hash", "date_parts", "time_zone", "vocab_size", "min_frequency"),
    *("oov_buckets", "preprocessing_fn"),
)
_OF_WINDOWS = ("window", "sequence_example", "horizon", "target", "static_columns", "zscore_by")
_OF_TEXTS = (
    *("tokenizer", "features", "max_length", "vocab_size", "min_frequency", "oov_buckets"),
    *("special_tokens", "ngrams", "tfidf", "tfidf_norm", "embeddings", "pooling", "unicode"),
    *("edge_tokens", "pack", "end_token", "chat_template", "preprocessing_fn"),
)
_FIXED: Mapping[str, Sequence[str]] = {
    "table": (*_OF_ALL, *_OF_COLUMNS),
    "sensor": (*_OF_ALL, *_OF_COLUMNS, *_OF_WINDOWS),
    "text": (*_OF_ALL, *_OF_TEXTS),
}


def check_learned(name: str, content: bytes) -> None:
    """Raise ValueError if a file that a dataset learned is invalid. name: in the dataset."""
    check = _CHECKS.get(name)
    if check is None and name.startswith("vocabulary/"):
        check = {".txt": vocabulary_lines, ".npy": parse_frequencies}.get(name[-4:])
    if check is not None:
        check(content)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedDataset:
    """The dataset of --learned-from.

    sha256: of its manifest. files: names of the files that it learned and that this run needs.
    learner: the analysis that this run would learn them with.
    """

    place: Location
    manifest: Manifest
    sha256: str
    files: tuple[str, ...]
    learner: Analysis | Preprocessing | None

    @classmethod
    def of(cls, config: CommonConfig, data_type: DataType) -> LearnedDataset | None:
        """Open the dataset of --learned-from; None without the option.

        Raises:
          ConfigError: it is not a dataset of this data type, lacks a file, is the output, or has a
            model that would run without --trust-transform.
        """
        if config.learned_from is None:
            return None
        place = Location.parse(config.learned_from)
        try:
            content = read_manifest(place)
            manifest = Manifest.from_bytes(content)
        except (ManifestError, PathError) as error:
            raise ConfigError(f"{_FLAG} {config.learned_from}: {error}") from error
        if manifest.command != data_type.name:
            raise ConfigError(
                f"{_FLAG} {config.learned_from}: expected a dataset that recordmill"
                f" {data_type.name} wrote, got one of recordmill {manifest.command}"
            )
        if place.without_links() == Location.parse(config.output).without_links():
            raise ConfigError(
                f"{_FLAG} {config.learned_from}: is the --output, whose files would be replaced:"
                " write to another folder"
            )
        files = _files(data_type, manifest)
        if missing := [name for name in files if name not in manifest.files]:
            raise ConfigError(
                f"{_FLAG} {config.learned_from}: the dataset has no {missing[0]}, which these"
                " options need: check that it was written with the same options for features"
            )
        if FEATURES_FILE in files and not value_of(config, "trust_transform"):
            model = place / FOLDER
            raise ConfigError(
                f"{_FLAG} {config.learned_from}: {shown(model)} is a TensorFlow SavedModel, which"
                " is a program: it would run with your rights, instead of"
                f" --preprocessing-fn, and the hashes in a dataset do not protect it, because its"
                f" author set them. If you trust the author, add --trust-transform; else learn"
                f" again without {_FLAG}"
            )
        return cls(
            place=place,
            manifest=manifest,
            sha256=hashlib.sha256(content).hexdigest(),
            files=tuple(files),
            learner=data_type.analysis,
        )

    def __str__(self) -> str:
        return f"{_FLAG} {shown(self.place)}"

    @property
    def shaping(self) -> dict[str, Any]:
        """The identity of the dataset, for the manifest."""
        return {"learned_from": {"digest": self.manifest.digest, "manifest_sha256": self.sha256}}

    @property
    def statistics(self) -> bytes | None:
        """The content of statistics.pb, to report drift from; None without one."""
        if STATISTICS not in self.manifest.files:
            return None
        content = self._read(STATISTICS)
        with damage_of(f"{_FLAG} {shown(self.place / STATISTICS)}"):
            statistics_file.parse(content)
        return content

    def applied_to(self, data_type: DataType) -> DataType:
        """Return the data type without its analysis, with the column types of the dataset."""
        source = data_type.source
        if isinstance(source, TableRows):
            expected = {**self._column_types(), **dict(source.expected)}
            source = dataclasses.replace(source, expected=tuple(expected.items()))
        return dataclasses.replace(data_type, source=source, analysis=None)

    def refuse_options(self, shaping: Mapping[str, Any]) -> None:
        """Raise ConfigError for options that contradict those that the dataset was made with.

        shaping: the options of the run, as a manifest has them.
        """
        now = json.loads(to_json(dict(shaping)))  # tuples become lists
        before = self.manifest.options
        differ = [
            f"{option_name(name)} is {option_text(now.get(name))}, and was"
            f" {option_text(before.get(name))}"
            for name in _FIXED.get(self.manifest.command, _OF_ALL)
            if (now.get(name) or None) != (before.get(name) or None)
            and (name, now.get(name)) != ("label_offset", None)  # the dataset's is taken
        ]
        if differ:
            raise ConfigError(
                f"{self} was made with other options: {'; '.join(differ)}. Pass the same values, or"
                f" learn again without {_FLAG}"
            )

    def labels(self, given: Sequence[str] | None, data_type: DataType) -> tuple[str, ...] | None:
        """Return the classes, in the order of their numbers; None if nothing names them.

        given: the classes of --labels-file.

        Raises:
          ConfigError: --labels-file has other classes than the dataset.
        """
        if given is not None:
            self.refuse_labels(given, "--labels-file")
        elif data_type.of_objects:
            return None  # the annotations name them
        return self.manifest.labels or None

    def refuse_labels(self, labels: Sequence[str], where: str) -> None:
        """Raise ConfigError if classes differ from those of the dataset.

        where: the source of the classes.
        """
        known = self.manifest.labels
        if tuple(labels) != known:
            place = next(
                (n for n, (a, b) in enumerate(zip(labels, known, strict=False)) if a != b),
                min(len(labels), len(known)),
            )
            names = [repr(some[place]) if place < len(some) else "none" for some in (labels, known)]
            raise ConfigError(
                f"{self} has other classes than {where}: class {place} is {names[0]} in {where},"
                f" and {names[1]} in the dataset. The numbers of classes have to be the same:"
                f" correct {where}, or learn again without {_FLAG}"
            )

    def match(
        self,
        layout: Layout,
        data_type: DataType,
        context: Context,
        records: Callable[[Layout], Layout],
    ) -> tuple[Layout, tuple[str, ...]]:
        """Return the layout with columns that may be null where those of the dataset may.

        layout: of the rows. context: with the learned artifacts. records: returns the layout of the
        records, given that of the rows.

        Returns:
          The layout, and the columns that have missing values but must not; their rows are to be
          rejected.

        Raises:
          ConfigError: the columns are not those of the dataset.
        """
        expected = self._expected(context)
        differ = _differing(expected, self._made(records(layout), data_type, context))
        changed: list[pa.Field] = []
        if isinstance(layout, RowLayout) and differ:
            tried = _of_columns(differ, layout.columns)
            other = records(_with_other_nulls(layout, tried))
            left = _differing(expected, self._made(other, data_type, context))
            unmatched = _of_columns(left, layout.columns)
            changed = [field for field in tried if field not in unmatched]
            layout = _with_other_nulls(layout, changed)
            differ = _differing(expected, self._made(records(layout), data_type, context))
        if differ:
            drop = ""
            if {*layout.columns.names}.difference(expected).issuperset(differ):
                columns = shlex.quote(list_text(differ))
                drop = f"leave out new columns with --drop-columns {columns}, or "
            raise ConfigError(
                f"{self} has other features than this input gives: {_some(differ.values())}. The"
                f" columns and their types have to be the same; {drop}learn again without {_FLAG}"
                " if the data has changed"
            )
        return layout, tuple(field.name for field in changed if field.nullable)

    def check(self, first: RowCheck | None, required: Sequence[str]) -> RowCheck | None:
        """Return a check that also rejects rows without a value in the required columns."""
        if not required:
            return first
        return RequiredColumns(columns=tuple(required), first=first)

    def analysis(self, config: CommonConfig, artifacts: Mapping[str, Artifact]) -> Analysis | None:
        """Return the analysis of --max-unknown, which learns nothing; None without the option."""
        limit = value_of(config, "max_unknown")
        if limit is None:
            return None
        # Only texts need these modules.
        from recordmill.transforms.encoders.tokenization.coverage import VocabularyCoverage
        from recordmill.transforms.encoders.tokenization.vocabulary import (
            TOKENS_FILE,
            VocabularyAnalysis,
        )

        assert isinstance(self.learner, VocabularyAnalysis), self.learner
        return VocabularyCoverage(
            options=self.learner.options, tokens=artifacts[TOKENS_FILE], limit=limit
        )

    def stage(self, staging: Staging) -> dict[str, Artifact]:
        """Copy the learned files into staging, and return them as artifacts.

        Raises:
          ConfigError: TensorFlow cannot read them there.
          DamageError: a file is damaged.
        """
        if FEATURES_FILE in self.files and not staging.intermediate.is_local:
            raise ConfigError(
                "--preprocessing-fn: TensorFlow can only read from a local folder, or one that all"
                f" workers share, and --output is {staging.root.root}: write to a folder, and copy"
                " the dataset afterwards"
            )
        artifacts = {}
        for name in self.files:
            place = staging.place(f"artifacts/learned/{name}")
            if not place.exists():
                content = self._checked(name)
                place.parent.make_dirs()
                place.write_bytes(content)
            artifacts[name] = Artifact(path=str(place), sha256=self.manifest.files[name].sha256)
        return artifacts

    def _checked(self, name: str) -> bytes:
        """Return the content of a learned file, after checking that the run can use it."""
        content = self._read(name)
        with damage_of(f"{_FLAG} {shown(self.place / name)}"):
            check_learned(name, content)
        return content

    def _read(self, name: str) -> bytes:
        content = (self.place / name).read_bytes()
        with damage_of(f"{_FLAG} {shown(self.place / name)}", advice="run recordmill verify"):
            if file_info(content) != self.manifest.files[name]:
                raise ValueError("its content is not that of the manifest")
        return content

    def _column_types(self) -> dict[str, str]:
        """Return {column: name in TYPES} of the columns, from statistics or from features."""
        if (content := self.statistics) is not None:
            return statistics_file.column_types(content)
        names = {"int64": "int", "float32": "float", "string": "string"}
        options = self.manifest.options
        given = [options.get(option) for option in _OF_COLUMNS]
        made = {name for one in given if isinstance(one, list | dict) for name in one}
        return {
            name: names[feature.dtype]
            for name, feature in self.manifest.features.items()
            if name not in made and feature.kind in ("value", "text")
            if feature.shape in ((), (None,))
        }

    def _expected(self, context: Context) -> Features:
        """Return the features of the dataset, or with --preprocessing-fn those of its inputs."""
        if FEATURES_FILE in self.files:
            return stored_features(context.artifacts[FEATURES_FILE])["inputs"]
        return self.manifest.features

    def _made(self, records: Layout, data_type: DataType, context: Context) -> Features:
        """Return the features that the run would write, to compare with `_expected`."""
        if FEATURES_FILE in self.files:
            return {field.name: user_feature(field) for field in user_fields(records.columns)}
        made = data_type.encoder.features(records.columns, context)
        return {context.name(name): feature for name, feature in made.items()}


def _files(data_type: DataType, manifest: Manifest) -> list[str]:
    analysis = data_type.analysis
    if analysis is None:
        return []
    if isinstance(analysis, Preprocessing):
        found = [name for name in manifest.files if name.startswith(f"{FOLDER}/")]
        return sorted({FEATURES_FILE, *found})
    return list(analysis.files)


def _differing(before: Features, now: Features) -> dict[str, str]:
    """Return {feature: its difference, in words}."""
    found = {}
    for name in sorted({*before, *now}):
        if name not in now:
            found[name] = f"{name!r} is missing"
        elif name not in before:
            found[name] = f"{name!r} is new"
        elif before[name] != now[name]:
            found[name] = f"{name!r} {_change(before[name], now[name])}"
    return found


def _of_columns(features: Collection[str], columns: pa.Schema) -> list[pa.Field]:
    """Return the columns that features are made of."""
    return [
        field
        for field in user_fields(columns)
        if any(name == field.name or name.startswith(f"{field.name}/") for name in features)
    ]


def _with_other_nulls(layout: Layout, fields: Sequence[pa.Field]) -> Layout:
    """Return a layout in which these columns may be null if they may not, and the reverse."""
    columns = layout.columns
    for field in fields:
        other = field.with_nullable(not field.nullable)
        columns = columns.set(columns.get_field_index(field.name), other)
    return dataclasses.replace(layout, columns=columns)


def _change(before: Feature, now: Feature) -> str:
    """Return the difference of a feature, in words."""
    is_, was = _feature_text(now), _feature_text(before)
    if is_ != was:
        return f"is {is_}, and was {was}"
    facts, earlier = now.to_json(), before.to_json()
    differ = [name for name in {**earlier, **facts} if facts.get(name) != earlier.get(name)]
    return "; ".join(
        f"has {name} {option_text(facts.get(name))}, and had {option_text(earlier.get(name))}"
        for name in differ
    )


def _feature_text(feature: Feature) -> str:
    shape = ", ".join("any" if size is None else str(size) for size in feature.shape)
    size = "" if feature.size is None else f" below {feature.size}"
    return f"{feature.dtype} [{shape}]{size}"


def _some(texts: Any) -> str:
    listed = list(texts)
    more = f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return "; ".join(listed[:_SHOWN]) + more
