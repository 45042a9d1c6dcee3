"""EncodeExamples and SerializeExamples: from batches to the features of Examples."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.option_checks import options_of
from recordmill.tfrecord.example import encode_examples
from recordmill.transforms.encoders.table_options import TableOptions
from recordmill.transforms.encoders.tables import TableEncoder
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Encoder
from recordmill.transforms.model.run_spec import EncoderOption, Names, RunSpec
from recordmill.transforms.model.user_columns import flat_list
from recordmill.transforms.staged.batch_records import roles_of
from recordmill.transforms.staged.parse_examples import parse_examples
from recordmill.transforms.staged.records import RecordValues, Values, refuse_noted, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep


def serialize_rows(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Yield a serialized tf.train.Example per row, without columns that start with `__`.

    Raises:
      ValueError: as `encode_examples`.
    """
    RecordCounters("SerializeExamples").add(read=len(rows), out=len(rows))
    names = rows.schema.names  # they may repeat, so columns are selected by their places
    places = [place for place, name in enumerate(names) if not name.startswith("__")]
    encoded = encode_examples(
        pa.RecordBatch.from_arrays(
            [flat_list(rows[place]) for place in places], [names[place] for place in places]
        )
    )
    edges = encoded.offsets.tolist()
    for start, end in itertools.pairwise(edges):
        yield encoded.data[start:end]


@dataclasses.dataclass(eq=False)
class EncodeExamples(OrderedStep):
    """Select the features of the Examples: batches or `RecordValues` in, `RecordValues` out.

    `WriteToTFRecord` encodes the records in its encoder processes. Without this step and the step
    of a data type, it writes the columns as they are, and the class as the feature `label`.

    Args:
      encoder: Makes the features; it learns from the records of train, for example the means of
        columns. Default: the encoder of an earlier step, such as `TextEncoder` after
        `TokenizeText`; otherwise `TableEncoder`, which writes the columns.
      rename: {feature: new name}.

    Raises:
      ConfigError: `encoder` is not an encoder.

    Example::

        rows | EncodeExamples(rename={"label": "species"}) | WriteToTFRecord("out/")
    """

    takes = VALUES

    encoder: EncoderOption | None = None
    _: dataclasses.KW_ONLY
    rename: Names = dataclasses.field(default_factory=dict)

    def _check_together(self) -> None:
        with options_of("EncodeExamples"):
            RunSpec(encoder=self.encoder or TableEncoder(), rename=self.rename)  # checks both

    def expand(self, records: Values) -> RecordValues:
        values = values_of(records)
        options = dataclasses.replace(values.options, rename=self.rename)
        if self.encoder is not None:
            options = dataclasses.replace(options, encoder=self.encoder, artifacts={})
        return values._replace(options=options)


@dataclasses.dataclass(eq=False)
class ParseExamples(OrderedStep):
    """Parse serialized `tf.train.Example`s: bytes in, `RecordValues` out.

    The batches have a column per feature. Elements that are not Examples, and SequenceExamples, are
    rejected. The other steps also parse bytes; this step is for Examples whose key, class, group or
    split is a feature. A feature with one value in each record becomes a column of values, other
    features become columns of lists. Integers become floats if the feature has floats in other
    records. Without arguments, the records of the dataset have the features of the input,
    serialized deterministically.

    Args:
      key_column, label_column, group_column, split_column: Features with the unique name of a
        record, its class, its group and its split. They become system columns, not features.
      schema: Names and types of the features; other features are left out, and Examples that do not
        fit are rejected. Default: all features.

    Raises:
      ConfigError: Two of these arguments name the same feature, a named feature is missing, or a
        feature holds numbers in some records and bytes in others.

    Example::

        examples | ParseExamples(label_column="species") | WriteToTFRecord("out/")
    """

    takes = (bytes,)

    _: dataclasses.KW_ONLY
    key_column: str | None = None
    label_column: str | None = None
    group_column: str | None = None
    split_column: str | None = None
    schema: pa.Schema | None = None

    def _check_together(self) -> None:
        self._roles = roles_of(self)

    def expand(self, records: beam.PCollection[bytes]) -> RecordValues:
        return RecordValues(*parse_examples(records, self._roles, self.schema))


@dataclasses.dataclass(eq=False)
class SerializeExamples(OrderedStep):
    """Serialize records: batches with a column per feature in, Examples as bytes out.

    Beam's own `beam.io.WriteToTFRecord` takes the output. Column types are mapped as in
    `recordmill.tfrecord.example`.

    Raises:
      ConfigError: The input is not records in memory, or an earlier step selected an encoder that
        makes other features of the columns.
      ValueError: A column has a type that no feature holds, or a name occurs twice.

    Example::

        batches | SerializeExamples() | beam.io.WriteToTFRecord("out/train.tfrecord")
    """

    takes = VALUES

    def expand(self, records: Values) -> beam.PCollection[bytes]:
        values = values_of(records)
        refuse_noted("SerializeExamples", values.options)
        encoder = values.options.encoder
        if encoder is not None and not _writes_columns(encoder):
            raise ConfigError(
                "SerializeExamples: expected columns that are the features, got columns of which"
                f" {type(encoder).__name__} makes other features in WriteToTFRecord: write the"
                " records with WriteToTFRecord"
            )
        return values.batches | "Serialize" >> beam.FlatMap(serialize_rows).with_output_types(bytes)


def _writes_columns(encoder: Encoder) -> bool:
    """Return whether the features of an encoder are the columns as they are."""
    if isinstance(encoder, TableEncoder):
        return encoder.options == TableOptions() and not encoder.sequences
    return isinstance(encoder, TextEncoder) and encoder.options.output_features == {"text"}
