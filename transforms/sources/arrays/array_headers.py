"""Reading of array headers: array, labels and number of records of each file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from recordmill import strict_json
from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.storage.files import Location
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.array_labels import check_labels
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.arrays.npy import StoredArray, format_shape
from recordmill.transforms.sources.folders.number_labels import LabelType, NumberLabels
from recordmill.transforms.sources.folders.references import Unlabelled

_MOST_PER_BYTE = 1032  # records: deflate makes at most so many bytes of one


class ProbedFile(NamedTuple):
    """Headers of a file.

    array: the array. labels: JSON of the location of its labels, if any. records: their number.
    unapplied: as of `ArrayFile.unapplied`.
    """

    array: StoredArray
    labels: str | None
    records: int
    unapplied: Sequence[tuple[str, Sequence[str]]] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayProbe:
    """Reads the headers of files of arrays. The `help` of each option describes it.

    Attributes:
      cut: How an array is split into records.
      label_type: Type of the labels; None for classes, which must not be decimals.
      unlabelled: Whether to reject or keep files without a label.
    """

    cut: ArraySlicing = dataclasses.field(default_factory=ArraySlicing)
    array: str | None = option(
        None,
        metavar="NAME",
        help="Name of the array in an .npz or HDF5 file. Default: the only one.",
    )
    label_array: str | None = option(
        None,
        metavar="NAME",
        help="Name of the array with the label of each file or, with --per-item, of each item.",
    )
    label_input: str | None = option(
        None,
        metavar="FILE",
        help="If the input is a single file: another file with the labels of its items.",
    )
    label_type: LabelType | None = None
    unlabelled: Unlabelled = "reject"
    max_bytes: int = option(
        1 << 28,
        name="max_array_bytes",
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject larger records, judged by the header before the data is read.",
    )

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def has_labels(self) -> bool:
        """True if arrays hold the labels."""
        return self.label_array is not None or self.label_input is not None

    @property
    def numbers(self) -> NumberLabels | None:
        """Converter of labels to numbers to predict; None if this probe finds no such labels."""
        if not self.has_labels or self.label_type not in ("int", "float"):
            return None
        return NumberLabels(label_type=self.label_type, unlabelled=self.unlabelled)

    def inspect(self, file: tuple[str, int, int]) -> ProbedFile:
        """Read the headers of a file, given (path, size, mtime). Raises RecordError."""
        path, size, mtime = file
        with open_arrays(path, size=size, mtime=mtime) as opened:
            stored = opened.find(self.array)
            count = self.cut.count(stored.shape)
            _check_count(count, size)
            self._check_size(stored)
            unapplied = opened.unapplied(stored)
            labels = None
            if self.label_array is not None:
                found = opened.find(self.label_array, option="--label-array", texts=True)
                self._check_chunk(found)
                header = [path, size, mtime, found.to_text()]
                labels = strict_json.to_text(header, ascii_only=True)
        if self.label_input is not None:
            labels, found = self._probe_labels(self.label_input)
        if labels is not None:
            check_labels(found, count, self.cut.unit, self.label_type)
        return ProbedFile(stored, labels, count, unapplied)

    def _probe_labels(self, path: str) -> tuple[str, StoredArray]:
        """Return the location and the header of a file of labels. Raises ConfigError."""
        place = Location.parse(path)
        if not place.exists():
            raise ConfigError(
                f"{option_name('label_input')}: {path} does not exist: check the path"
            )
        entry = place.stat()
        try:
            with open_arrays(str(place), size=entry.size, mtime=entry.mtime_ns) as opened:
                found = opened.find(self.label_array, option="--label-array", texts=True)
                self._check_chunk(found)
        except RecordError as error:
            raise ConfigError(f"{option_name('label_input', path)}: {error.detail}") from error
        header = [str(place), entry.size, entry.mtime_ns, found.to_text()]
        return strict_json.to_text(header, ascii_only=True), found

    def _check_size(self, stored: StoredArray) -> None:
        """Raise RecordError if reading a record takes more memory than allowed."""
        self._check_chunk(stored)
        whole = stored.solid and self.cut.unit != "array"
        size = stored.bytes if whole else self._record_bytes(stored)
        size = size * stored.numbers.itemsize // (stored.layout.itemsize or 1)  # as float32
        if size <= self.max_bytes:
            return
        what = f"{format_shape(stored.shape)} {stored.type_name}"
        advice = "split it with --chunk, or raise the limit"
        if whole:
            what += ", compressed in one piece"
            advice = "save it uncompressed (np.savez, .npy), or raise the limit"
        raise RecordError(
            Reason.TOO_LARGE,
            f"{what}: {size} bytes at once, more than --max-array-bytes {self.max_bytes}: {advice}",
        )

    def _check_chunk(self, stored: StoredArray) -> None:
        """Raise RecordError if a chunk takes more memory than allowed."""
        if stored.chunk > self.max_bytes:
            raise RecordError(
                Reason.TOO_LARGE,
                f"its chunks have {stored.chunk} bytes each, more than --max-array-bytes"
                f" {self.max_bytes}: save it in smaller chunks (h5repack -l), or raise the limit",
            )

    def _record_bytes(self, stored: StoredArray) -> int:
        """Return the size in bytes of the largest record."""
        if self.cut.unit == "array":
            return stored.bytes
        length = stored.shape[self.cut.along(stored.shape)]
        steps = 1 if self.cut.unit == "item" else min(self.cut.size, length)
        return stored.bytes // length * steps


def _check_count(count: int, size: int) -> None:
    """Raise RecordError if a file of this size in bytes cannot hold so many records."""
    if count > size * _MOST_PER_BYTE:
        raise RecordError(
            Reason.CORRUPT, f"its header declares {count} records, more than {size} bytes can hold"
        )
