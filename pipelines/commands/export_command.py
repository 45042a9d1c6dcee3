"""The command `recordmill export-transform`, which exports preprocessing as a SavedModel."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from recordmill.errors import ConfigError, DamageError, RunError, install_extra
from recordmill.format.file_info import file_info
from recordmill.format.manifest import MANIFEST, Manifest, ManifestError, load
from recordmill.format.typed_json import Count, damage_of, read_as
from recordmill.options.declaration import Group, GroupValues, option, options_of
from recordmill.pipelines.commands.new_folder import check_new_folder, new_folder
from recordmill.pipelines.earlier.learned_from import check_learned
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.storage.files import Location, shown
from recordmill.transforms.encoders.artifacts import parse_frequencies
from recordmill.transforms.encoders.table_learning import vocabulary_file
from recordmill.transforms.encoders.table_numbers import (
    NUMBERS_FILE,
    LearnedNumbers,
    parse_numbers,
)
from recordmill.transforms.encoders.table_options import TableOptions
from recordmill.transforms.encoders.tokenization.text_options import (
    SUBWORDS,
    TextOptions,
    Tokenizer,
)
from recordmill.transforms.encoders.tokenization.vocabulary import IDF_FILE, TOKENS_FILE

_MODEL = Group(10, "Model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Options of `recordmill export-transform`."""

    dataset: str = option(
        group=_MODEL,
        metavar="FOLDER",
        help="Folder of a dataset of type text, table or sensor: a path, or s3://, gs://.",
    )
    output: str = option(
        group=_MODEL, metavar="FOLDER", help="New local folder for the SavedModel."
    )


def export_transform_main(argv: Sequence[str]) -> int:
    """Exports the preprocessing of a dataset's texts or columns as a TensorFlow SavedModel.

    Example:
      recordmill export-transform --dataset out --output model
    """
    config = parse_command(ExportConfig, argv, export_transform_main)
    check_new_folder(config.output)
    dataset = Location.parse(config.dataset)
    try:
        manifest = load(dataset)
    except ManifestError as error:
        raise RunError(str(error)) from error
    export = _EXPORTS.get(manifest.command)
    if export is None:
        raise ConfigError(
            f"expected a dataset of type {', '.join(_EXPORTS)}, got {manifest.command}:"
            " other types have no preprocessing to export"
        )
    if "preprocessing_fn" in manifest.options:
        raise ConfigError(
            "the features were made by --preprocessing-fn: the dataset's transform_fn/ already is"
            " a SavedModel of it"
        )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no messages about missing GPUs
    with new_folder(config.output) as model, tempfile.TemporaryDirectory() as scratch:
        try:
            what = export(dataset, manifest, pathlib.Path(scratch), model)
        except ImportError as error:
            raise ConfigError(
                f"a SavedModel needs TensorFlow, which is not installed: {install_extra('train')}"
            ) from error
    print(f"a SavedModel of {what} written to {config.output}")
    return 0


def _export_text(
    dataset: Location, manifest: Manifest, scratch: pathlib.Path, model: pathlib.Path
) -> str:
    options = text_options(manifest)
    from recordmill.transforms.serving import models, texts

    vocabulary = idf = None
    if TOKENS_FILE in manifest.files:
        vocabulary = scratch / "tokens.txt"
        vocabulary.write_bytes(_read(dataset, manifest, TOKENS_FILE))
    if IDF_FILE in manifest.files:
        idf = parse_frequencies(_read(dataset, manifest, IDF_FILE))
        if vocabulary is None or len(idf) != vocabulary.read_bytes().count(b"\n"):
            raise DamageError(f"{IDF_FILE} is damaged: it has another length than {TOKENS_FILE}")
    transform = texts.TextTransform(
        options, vocabulary=vocabulary, idf=idf, rename=manifest.options.get("rename", {})
    )
    models.save(transform, model)
    return ", ".join(sorted(options.output_features))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TableOptions:
    """The options of a manifest that say how columns were transformed."""

    bucketize: Mapping[str, str]
    hash: Mapping[str, str]
    clip: Mapping[str, str]
    impute: Mapping[str, str]
    date_parts: Mapping[str, str]
    vocab_size: Count
    min_frequency: Count
    oov_buckets: Count
    indicator: tuple[str, ...]
    log: tuple[str, ...]
    zscore: tuple[str, ...]
    minmax: tuple[str, ...]
    one_hot: tuple[str, ...]
    vocabulary: tuple[str, ...]
    time_zone: str | None = None
    zscore_by: str | None = None
    window: Count | None = None


def _export_table(
    dataset: Location, manifest: Manifest, scratch: pathlib.Path, model: pathlib.Path
) -> str:
    with damage_of(f"{MANIFEST}, options"):
        read_as(_TableOptions, manifest.options, open_ended=True)
        given = {one: manifest.options.get(one) for one in options_of(TableOptions)}
        recipes = GroupValues(TableOptions, given).make().column_transforms()
    if not recipes:
        raise ConfigError("the dataset's columns were not transformed: there is nothing to export")
    zoned = [name for name, recipe in recipes.items() if recipe.time_zone is not None]
    if zoned:
        raise ConfigError(
            f"column {zoned[0]!r} was split by the clock of --time-zone, which an exported model"
            " cannot compute: write the dataset without --time-zone"
        )
    scaled = [name for name, recipe in recipes.items() if recipe.by is not None]
    if scaled:
        raise ConfigError(
            f"column {scaled[0]!r} was scaled by series or window, which an exported model cannot"
            " compute: write the dataset without --zscore-by"
        )
    from recordmill.transforms.serving import models, tables

    numbers: Mapping[str, LearnedNumbers] = {}
    if NUMBERS_FILE in manifest.files:
        numbers = parse_numbers(_read(dataset, manifest, NUMBERS_FILE))
    vocabularies: dict[str, pathlib.Path] = {}
    for column in recipes:
        name = vocabulary_file(column)
        if name in manifest.files:
            vocabularies[column] = scratch / f"{len(vocabularies)}.txt"
            vocabularies[column].write_bytes(_read(dataset, manifest, name))
    transform = tables.TableTransform(
        recipes,
        numbers=numbers,
        vocabularies=vocabularies,
        rename=manifest.options.get("rename", {}),
        window=manifest.options.get("window"),
    )
    models.save(transform, model)
    return ", ".join(sorted(recipes))


def text_options(manifest: Manifest) -> TextOptions:
    """Return the text options of a dataset, without those that have no meaning for one text.

    Raises:
      ConfigError: TensorFlow has no operation for one of them.
    """
    written: Mapping[str, Any] = manifest.options
    names = {field.name for field in dataclasses.fields(TextOptions)} - {"tokenizer", "augment"}
    given = {name: value for name, value in written.items() if name in names}
    if given.get("text_columns"):
        raise ConfigError(
            "the dataset has several texts per record (--text-columns), and an exported model has"
            " one input"
        )
    if given.get("chat_column"):
        raise ConfigError(
            "the dataset has conversations (--chat-column), and an exported model takes texts;"
            " render them with the template, and encode them with the tokenizer"
        )
    # The model turns one text into one record.
    given |= {"pack": None, "end_token": None, "chunk": None, "chunk_overlap": 0}
    tokenizer = None if "tokenizer" not in written else str(written["tokenizer"]).split(" ")[0]
    if tokenizer is not None and tokenizer not in get_args(Tokenizer):
        raise ConfigError(f"the dataset was made with an unknown tokenizer, {tokenizer!r}")
    with damage_of(f"{MANIFEST}, options"):
        options = read_as(TextOptions, {**given, "tokenizer": tokenizer})
    if options.splitter in SUBWORDS and "tokens" in options.output_features:
        raise ConfigError(
            f"--tokenizer {options.splitter}: TensorFlow has no operation for it; serve the model"
            " in vocabulary/ with its own library"
        )
    if "embeddings" in written:
        raise ConfigError(
            "--embeddings: the vectors are not part of the dataset, so they cannot be exported;"
            " export a dataset made without them"
        )
    if options.unicode != "none":
        raise ConfigError(
            f"--unicode {options.unicode}: TensorFlow has no operation for it; export a dataset"
            " made with --unicode none"
        )
    return options


_EXPORTS = {"text": _export_text, "table": _export_table, "sensor": _export_table}


def _read(dataset: Location, manifest: Manifest, name: str) -> bytes:
    """Return the content of a learned file, checked. Raises DamageError."""
    content = (dataset / name).read_bytes()
    if file_info(content) != manifest.files[name]:
        raise DamageError(f"{shown(dataset / name)} is damaged: run recordmill verify for details")
    with damage_of(shown(dataset / name)):
        check_learned(name, content)
    return content


if __name__ == "__main__":
    sys.exit(export_transform_main(sys.argv[1:]))
