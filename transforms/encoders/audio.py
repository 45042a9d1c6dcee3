"""Audio as Examples: waveforms, log-mel spectrograms, or the bytes of the files.

Features are named `audio/...`, like those of images: `audio/encoded` corresponds to
`image/encoded`, `audio/class/label` to `image/class/label`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, RecordError, Stage
from recordmill.format.content_hashes import ContentHashes
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.ledger import Counted, add_counted
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.audio import audio_decoders, resampling
from recordmill.transforms.audio.audio_augment import augment_waveform, check_augmentations
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.audio.mel_filters import check_filters
from recordmill.transforms.audio.spectrogram import frames_of
from recordmill.transforms.audio.waveforms import RecordArrays
from recordmill.transforms.encoders.labels import label_columns, label_feature, text_feature
from recordmill.transforms.model import batch
from recordmill.transforms.model.augmentations import augmentations_of, describe_augmentations
from recordmill.transforms.model.data_type import (
    Context,
    Encoded,
    ExampleInputs,
    OutcomeCollector,
    RowCheck,
    RowOutcome,
)
from recordmill.transforms.model.generators import generator_for
from recordmill.transforms.model.ragged import binary_array, fixed_lists, string_array
from recordmill.transforms.model.user_columns import user_fields, with_users
from recordmill.transforms.sources.audio.audio_reading import (
    SOURCE_COLUMNS,
    AudioHeaderCheck,
    Sound,
    audio_references,
    content_name,
    read_records,
)
from recordmill.transforms.sources.audio.audio_splitter import read_clips
from recordmill.transforms.sources.splitters.segments import FROM, NAME, TO

_NOTHING, _BEYOND = ExampleFacts(), ExampleFacts(noted={"samples_beyond": 1})
_FEATURES = {
    "waveform": "audio/waveform",
    "melspectrogram": "audio/melspectrogram",
    "encoded": "audio/encoded",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioEncoder(abc.ABC):
    """Encoder of audio.

    augment: names of the augmentations of copies.
    augment_all: augment all records of split `train`, not only copies.
    unlabelled: rows without a label may occur; they have no label features.
    """

    options: AudioOptions
    augment: tuple[str, ...] = ()
    augment_all: bool = False
    unlabelled: bool = False

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_augmentations(self.augment)
        if self.options.features == "melspectrogram":
            check_filters(self.options.mel, self.options.sample_rate or 0)

    @abc.abstractmethod
    def _sounds(self, rows: pa.RecordBatch) -> Iterator[Sound | RecordError]:
        """Yield the audio of each row, or why it is rejected."""

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record.

        Raises:
            ConfigError: a column of the user has an unsupported type or the name of a feature.
        """
        integer, text = Feature(dtype="int64"), Feature(dtype="string", kind="text")
        declared = {
            _FEATURES[self.options.features]: self._feature(context),
            "audio/filename": text,
            "audio/format": text,
            "audio/sample_rate": integer,
            "audio/samples": integer,
        }
        if self._has_shape:
            declared["audio/shape"] = Feature(dtype="int64", shape=(2,))
        if FROM in rows.names or self.options.splits:
            declared["audio/start/timestamp"] = integer
        if context.labels:
            declared["audio/class/label"] = label_feature(rows, unlabelled=self.unlabelled)
            declared["audio/class/text"] = text_feature(rows, unlabelled=self.unlabelled)
        return with_users(declared, user_fields(rows), where="listing")

    @property
    def _has_shape(self) -> bool:
        return self.options.features == "waveform" and not self.options.is_mono

    def _feature(self, context: Context) -> Feature:
        options = self.options
        if options.features == "encoded":
            return Feature(dtype="string")
        length = options.clip_samples
        if options.features == "melspectrogram":
            frames = None
            if length is not None and options.sample_rate is not None:
                frames = frames_of(length, options.mel, rate=options.sample_rate)
            return Feature(
                dtype="string",
                kind="raw",
                raw_dtype="float32",
                raw_shape=(frames, options.mel.bins),
            )
        shape = (length,) if options.is_mono else (length, None)
        names = (context.name("audio/shape"),) if self._has_shape else ()
        return Feature(
            dtype="string",
            kind="raw",
            raw_dtype=options.dtype,
            raw_shape=shape,
            shape_features=names,
        )

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that affect samples."""
        if self.options.features == "encoded":
            return {}
        own = {"numpy": np.__version__}
        return audio_decoders.versions() | resampling.versions() | own

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode the audio of rows, in order; invalid audio is rejected."""
        outcomes = OutcomeCollector("encode")
        arrays = RecordArrays(self.options)
        files: list[bytes] = []
        facts: list[tuple[str, int, int, int]] = []  # format, rate, real and start of each sound
        found: list[ExampleFacts] = []
        noted: Counted = {}
        # Rows have the hash if duplicates were looked for before, or if they are clips.
        hashes = ContentHashes() if batch.CONTENT not in rows.schema.names else None
        augmentations, copies = self._augmentations(rows), rows[batch.COPY].to_pylist()
        for row, (key, sound) in enumerate(
            zip(rows[batch.KEY].to_pylist(), self._sounds(rows), strict=True)
        ):
            if isinstance(sound, RecordError):
                outcomes.leave_out(key, sound)
                continue
            outcomes.keep(row)
            if hashes is not None:
                _add_content(hashes, sound)
            facts.append((sound.format, sound.rate, sound.real, sound.start))
            found.append(_BEYOND if sound.is_beyond else _NOTHING)
            if sound.is_beyond and not copies[row]:
                noted = add_counted(noted, _BEYOND.noted_of(key))
            if self.options.features == "encoded":
                files.append(sound.data)
            elif augmentations[row]:
                generator = generator_for(context.seed, key=key, copy=copies[row])
                arrays.add(augment_waveform(sound.samples, augmentations[row], generator))
            else:
                padded_at_end = self.options.clip_mode != "centre"
                arrays.add(sound.samples, silent_from=sound.real if padded_at_end else None)
        outcome = outcomes.result()
        kept = rows.take(pa.array(outcome.kept))
        columns = self._columns(kept, facts, context)
        encoded = self.options.features == "encoded"
        columns[_FEATURES[self.options.features]] = (
            binary_array(files) if encoded else arrays.column()
        )
        if self._has_shape:
            columns["audio/shape"] = fixed_lists(arrays.shapes)
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=outcome,
            content=None if hashes is None else hashes.result(),
            facts=found,
            noted=noted,
        )

    def _columns(
        self, kept: pa.RecordBatch, facts: list[tuple[str, int, int, int]], context: Context
    ) -> dict[str, pa.Array]:
        """Return the columns beside the audio. facts: format, rate, real and start of each row."""
        names = kept.schema.names
        rates, reals, starts = np.array([one[1:] for one in facts], np.int64).reshape(-1, 3).T
        columns = {
            "audio/filename": kept[NAME if NAME in names else batch.KEY],
            "audio/format": string_array([one[0] for one in facts]),
            "audio/sample_rate": pa.array(rates),
            "audio/samples": pa.array(reals),
        }
        if FROM in names or self.options.splits:
            columns["audio/start/timestamp"] = pa.array(starts)
        if context.labels:
            numbers, classes = label_columns(kept, context)
            columns |= {"audio/class/label": numbers, "audio/class/text": classes}
        return columns | {field.name: kept[field.name] for field in user_fields(kept.schema)}

    def _augmentations(self, rows: pa.RecordBatch) -> list[tuple[str, ...]]:
        """Return the names of the augmentations of each row."""
        return augmentations_of(rows, self.augment, all_of_train=self.augment_all)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioFileEncoder(AudioEncoder):
    """Encoder that reads the files, or their segments, that rows name.

    Args:
      options: Form of the audio.
      augment: Names of the augmentations of copies.
      augment_all: Augment all records of split `train`, not only copies.
      unlabelled: Rows without a label may occur; they have no label features.
    """

    def row_check(self, *, balanced: bool = False) -> RowCheck | None:
        """Return the check of headers, if classes are balanced."""
        return AudioHeaderCheck(options=self.options) if balanced else None

    def _sounds(self, rows: pa.RecordBatch) -> Iterator[Sound | RecordError]:
        return read_records((place for _, place in audio_references(rows)), self.options)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file."""
        return SOURCE_COLUMNS

    def settings(self) -> str:
        """Return the options that shape every Example; augmentations are those of a row."""
        return repr(dataclasses.replace(self, augment=(), augment_all=False))

    def inputs(self, rows: pa.RecordBatch, context: Context) -> ExampleInputs:
        """Return all that shapes the Examples of rows, beside files and settings."""
        augmentations = self._augmentations(rows)
        described = describe_augmentations(rows, augmentations, seed=context.seed)
        columns = {batch.KEY: rows[batch.KEY], "": described}
        columns |= {name: rows[name] for name in (NAME, FROM, TO) if name in rows.schema.names}
        if context.labels:
            numbers, classes = label_columns(rows, context)
            columns |= {batch.LABEL: classes, "number": numbers}
        columns |= {field.name: rows[field.name] for field in user_fields(rows.schema)}
        return ExampleInputs(common=None, columns=columns)

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, dict[str, pa.Array]]:
        """Return the hash of the audio of each row; invalid audio is rejected."""
        stage: Stage = "check"
        outcomes = OutcomeCollector(stage)
        hashes = ContentHashes()
        keys = rows[batch.KEY].to_pylist()
        for row, (key, sound) in enumerate(zip(keys, self._sounds(rows), strict=True)):
            if isinstance(sound, RecordError):
                outcomes.leave_out(key, sound)
            else:
                outcomes.keep(row)
                _add_content(hashes, sound)
        return outcomes.result(), {batch.CONTENT: hashes.result()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioClipEncoder(AudioEncoder):
    """Encoder of clips of audio files, whose samples are in staged files."""

    def _sounds(self, rows: pa.RecordBatch) -> Iterator[Sound | RecordError]:
        yield from read_clips(rows)


def audio_encoder(
    options: AudioOptions,
    *,
    augment: tuple[str, ...] = (),
    augment_all: bool = False,
    unlabelled: bool = False,
) -> AudioFileEncoder | AudioClipEncoder:
    """Return the encoder of files, or of clips if files are split into them.

    Raises:
      ConfigError: an option contradicts another.
    """
    if augment and options.features == "encoded":
        raise ConfigError(
            f"{option_name('augment')}: has no effect with {option_name('features', 'encoded')},"
            " which writes the bytes of the files as they are: leave it out, or use"
            f" {option_name('features', 'waveform')}"
        )
    kind = AudioClipEncoder if options.splits else AudioFileEncoder
    return kind(options=options, augment=augment, augment_all=augment_all, unlabelled=unlabelled)


def _add_content(hashes: ContentHashes, sound: Sound) -> None:
    """Add the hash of the samples of a record, or of the bytes of an encoded file."""
    if sound.data:
        hashes.add(sound.data)
        return
    samples = np.ascontiguousarray(sound.samples)
    hashes.add(samples.data, name=content_name(sound.rate, samples.shape))
