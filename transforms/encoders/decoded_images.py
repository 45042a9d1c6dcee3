"""Encoding of images that were decoded before they were staged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, RecordError
from recordmill.format.content_hashes import ContentHashes
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.ledger import Counted, Reduced, add_counted
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Features
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.encoders.labels import label_columns
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import process
from recordmill.transforms.model import batch
from recordmill.transforms.model.augmentations import augmentations_of
from recordmill.transforms.model.data_type import Context, Encoded, OutcomeCollector
from recordmill.transforms.model.generators import generator_for
from recordmill.transforms.model.ragged import binary_array

_DATA, _HEIGHT, _WIDTH = "image/encoded", "image/height", "image/width"
_NUMBER, _NAME = "image/class/label", "image/class/text"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedImageEncoder:
    """Encoder of the columns of `DecodeAndResizeImages`, and of columns that were added to them.

    The images are written as they are; only the images of augmented copies are decoded again.

    Args:
      options: Options with which the images were encoded.
      augment: Names of the augmentations of copies.
      unlabelled: Rows without a label may occur; they have no label features.

    Raises:
      ConfigError: An augmentation is unknown, or raw pixels are to be augmented.
    """

    options: ImageOptions
    augment: tuple[str, ...] = ()
    unlabelled: bool = False

    def __post_init__(self) -> None:
        self._of_files()  # checks the names
        if self.augment and self.options.is_raw:
            raise ConfigError(
                f"{option_name('augment')}: copies of raw pixels cannot be augmented: expected"
                f" {option_name('image_format', 'png')} or jpeg, got raw"
            )

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record, which are the features of `ImageEncoder`.

        Raises:
          ConfigError: A column of the images is missing; or as `ImageEncoder`.
        """
        own = self._of_files().features(pa.schema([]), dataclasses.replace(context, labels=()))
        if missing := [name for name in own if name not in rows.names]:
            raise ConfigError(
                f"expected the columns of DecodeAndResizeImages, got none named {missing[0]}: keep"
                " these columns, or select another encoder with EncodeExamples, such as"
                " TableEncoder()"
            )
        made = {*own, _NUMBER, _NAME}  # labels are numbered here, even if the step has done so
        others = pa.schema([field for field in rows if field.name not in made])
        return self._of_files().features(others, context)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that affect pixels or bytes."""
        return self._of_files().versions()

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Return the columns of rows in order; copies that cannot be augmented are rejected."""
        outcomes, hashes = OutcomeCollector("encode"), ContentHashes()
        reduced = Reduced()
        noted: Counted = {}
        again = dataclasses.replace(self.options, size=None, resize_mode="none")
        written: list[bytes] = []
        augmentations = augmentations_of(rows, self.augment, all_of_train=False)
        copies = rows[batch.COPY].to_pylist()
        facts = [ExampleFacts.from_text(one.as_py()) for one in rows[batch.FACTS]]
        for row, (key, data) in enumerate(zip(batch.keys(rows), rows[_DATA], strict=True)):
            name, image = key.as_py(), data.as_py()
            augmented = image
            if names := augmentations[row]:
                generator = generator_for(context.seed, key=name, copy=copies[row])
                try:
                    augmented = process(image, again, names, generator).data
                except RecordError as error:
                    outcomes.leave_out(name, error)
                    continue
            outcomes.keep(row)
            hashes.add(image)
            written.append(augmented)
            if not copies[row]:
                reduced = reduced.plus(facts[row].reduced_of(name))
                noted = add_counted(noted, facts[row].noted_of(name))
        outcome = outcomes.result()
        kept = rows.drop_columns([_DATA]).take(pa.array(outcome.kept))
        others = self.features(rows.schema, context).keys() - {_DATA, _NUMBER, _NAME}
        columns = {name: kept[name] for name in sorted(others)}
        columns[_DATA] = binary_array(written)
        if context.labels:
            numbers, classes = label_columns(kept, context)
            columns |= {_NUMBER: numbers, _NAME: classes}
        width, height = (np.asarray(kept[side], np.int64) for side in (_WIDTH, _HEIGHT))
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=outcome,
            content=hashes.result(),
            sizes=(width, height),
            reduced=reduced,
            noted=noted,
        )

    def _of_files(self) -> ImageEncoder:
        return ImageEncoder(options=self.options, augment=self.augment, unlabelled=self.unlabelled)
