"""`recordmill export-transform`: what texts went through, as a model to serve."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from pipelines.options import Group, option, parse_command
from recordmill.errors import ConfigError, RunError
from recordmill.files import Location, shown
from recordmill.manifest import Manifest, ManifestError, file_info, load
from transforms.encoders.text_options import SUBWORDS, TextOptions, Tokenizer
from transforms.encoders.vocabulary import IDF_FILE, TOKENS_FILE

_MODEL = Group(10, "Model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Options of `recordmill export-transform`."""

    dataset: str = option(
        group=_MODEL,
        metavar="FOLDER",
        help="Folder of a dataset of texts: a path, or s3://, gs://.",
    )
    output: str = option(
        group=_MODEL, metavar="FOLDER", help="Folder to make, for the SavedModel: a local path."
    )


def export_transform_main(argv: Sequence[str]) -> int:
    """Writes what texts became in a dataset, tokens and features, as a TensorFlow SavedModel.

    Example:
      recordmill export-transform --dataset out --output model
    """
    config = parse_command(ExportConfig, argv, export_transform_main)
    output = Location.parse(config.output)
    if not output.is_local:
        raise ConfigError(f"--output {config.output}: expected a local folder; copy it from there")
    if output.exists():
        raise ConfigError(f"--output {config.output}: is there already; name a new folder")
    dataset = Location.parse(config.dataset)
    try:
        manifest = load(dataset)
    except ManifestError as error:
        raise RunError(str(error)) from error
    options = text_options(manifest)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it tells of graphics cards at length
    try:
        from transforms import serving
    except ImportError as error:
        raise ConfigError(
            "a SavedModel is made with TensorFlow: pip install 'recordmill[train]'"
        ) from error
    place = pathlib.Path(output.local_path)
    with tempfile.TemporaryDirectory(prefix="recordmill-export-") as name:
        folder = pathlib.Path(name)
        vocabulary = idf = None
        if TOKENS_FILE in manifest.files:
            vocabulary = folder / "tokens.txt"
            vocabulary.write_bytes(_read(dataset, manifest, TOKENS_FILE))
        if IDF_FILE in manifest.files:
            idf = np.load(io.BytesIO(_read(dataset, manifest, IDF_FILE)), allow_pickle=False)
        transform = serving.TextTransform(
            options, vocabulary=vocabulary, idf=idf, rename=manifest.options.get("rename", {})
        )
        serving.save(transform, folder / "model")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "model", place)
    print(f"a SavedModel of {', '.join(sorted(options.outcome))} written to {shown(output)}")
    return 0


def text_options(manifest: Manifest) -> TextOptions:
    """Those that a dataset was made with, as far as a model can do them.

    Raises:
      ConfigError: it is no dataset of texts, or takes what TensorFlow has not.
    """
    written: Mapping[str, Any] = manifest.options
    if written.get("kind") != "text":
        raise ConfigError(
            f"expected a dataset of texts, got one of {written.get('kind')}: of other kinds there"
            " is nothing to export"
        )
    names = {field.name for field in dataclasses.fields(TextOptions)} - {"tokenizer", "augment"}
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in written.items()
        if name in names
    }
    # One text in, one record out.
    given |= {"pack": None, "end_token": None, "chunk": None, "chunk_overlap": 0}
    tokenizer = None if "tokenizer" not in written else str(written["tokenizer"]).split(" ")[0]
    if tokenizer is not None and tokenizer not in get_args(Tokenizer):
        raise ConfigError(f"the dataset is of a tokenizer {tokenizer!r} that is not known here")
    options = TextOptions(tokenizer=tokenizer, **given)  # type: ignore[arg-type]
    if options.splitter in SUBWORDS and "tokens" in options.outcome:
        raise ConfigError(
            f"--tokenizer {options.splitter}: TensorFlow by itself cannot split texts so; serve the"
            " model in vocabulary/ with its own library"
        )
    if "embeddings" in written:
        raise ConfigError(
            "--embeddings: the table is no part of the dataset, so its vectors cannot be given;"
            " export a dataset made without it"
        )
    if options.unicode != "none":
        raise ConfigError(
            f"--unicode {options.unicode}: TensorFlow by itself cannot normalise texts; export a"
            " dataset of texts that are normal already"
        )
    return options


def _read(dataset: Location, manifest: Manifest, name: str) -> bytes:
    content = (dataset / name).read_bytes()
    if file_info(content) != manifest.files[name]:
        raise RunError(f"{shown(dataset / name)} is damaged: recordmill verify says more")
    return content


if __name__ == "__main__":
    sys.exit(export_transform_main(sys.argv[1:]))
