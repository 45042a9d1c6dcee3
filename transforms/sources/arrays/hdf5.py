"""Arrays in HDF5 files, read through h5py. Contiguous datasets are read directly.

References to other files (external links, external storage, virtual datasets) are rejected, because
they would read files that were not listed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.optional_packages import import_package
from recordmill.storage.input_files import InputFile, open_file
from recordmill.transforms.sources.arrays.array_file import Array, ArrayFile, Span, label_values
from recordmill.transforms.sources.arrays.hdf5_chunks import ChunkCheck, check_filters, chunk_bytes
from recordmill.transforms.sources.arrays.npy import StoredArray, check_dtype, check_shape

MAGIC = b"\x89HDF\r\n\x1a\n"
# Attributes by which readers of NetCDF unpack values, or mask them as missing.
# https://docs.unidata.ucar.edu/nug/current/attribute_conventions.html
_PACKED = (
    *("scale_factor", "add_offset", "_FillValue", "missing_value"),
    *("valid_range", "valid_min", "valid_max", "_Unsigned"),
)
_NEUTRAL = {"scale_factor": 1, "add_offset": 0}
_MATLAB = "MATLAB_class"  # of arrays in MAT files of version 7.3, which keep MATLAB's memory order
_DEEPEST = 100  # levels of groups
PLACES = (0, 512, 1024, 2048, 4096)  # possible offsets of the magic, after a user block

# Errors of h5py for damaged files, and for types that numpy does not have.
_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError, OverflowError)


class Hdf5File(ArrayFile):
    """An HDF5 file. Raises ConfigError if h5py is not installed."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self._h5py = _library()
        self._stream = open_file(file.path, size=file.size, mtime=file.mtime)
        self._file: Any = None
        self._checks: dict[str, ChunkCheck] = {}
        try:
            with _reporting_damage():
                self._file = self._h5py.File(self._stream, "r", locking=False)
        except RecordError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._stream.close()
        super().close()

    def names(self) -> Sequence[str]:
        found: list[str] = []

        def collect(name: str, what: Any) -> None:
            if name.count("/") > _DEEPEST:  # h5py takes minutes for some thousand levels
                raise RecordError(
                    Reason.CORRUPT,
                    f"an HDF5 file whose groups are nested more than {_DEEPEST} deep",
                )
            if isinstance(what, self._h5py.Dataset):
                found.append(name)

        with _reporting_damage():
            self._file.visititems(collect)  # follows no external links
        return found

    def find(
        self, name: str | None, *, option: str = "--array", texts: bool = False
    ) -> StoredArray:
        return super().find(name and name.strip("/"), option=option, texts=texts)

    def stored(self, name: str, *, texts: bool = False) -> StoredArray:
        with _reporting_damage():
            link = self._file.get(name, getlink=True)
        if isinstance(link, self._h5py.ExternalLink):
            raise RecordError(Reason.UNSUPPORTED, f"its array {name!r} is in another file")
        with _reporting_damage():
            data = self._file[name]
            dtype, shape = data.dtype, data.shape
            is_text = self._h5py.check_string_dtype(dtype) is not None
            outside = data.is_virtual or data.external or data.file.filename != self._file.filename
            offset = data.id.get_offset() if not self._file.userblock_size else None
            chunk = 0 if outside else chunk_bytes(data)
            if chunk:
                check_filters(data)
        if outside:
            raise RecordError(Reason.UNSUPPORTED, f"its array {name!r} is in another file")
        if shape is None:
            raise RecordError(Reason.EMPTY, f"its array {name!r} has no values")
        if texts and is_text:
            return StoredArray(dtype="|S0", shape=shape, member=name, chunk=chunk)
        if self._h5py.check_ref_dtype(dtype) is not None:
            raise RecordError(
                Reason.UNSUPPORTED,
                f"its array {name!r} holds references to other arrays, as MATLAB writes cells and"
                " structs: save its parts as arrays of numbers",
            )
        if dtype.hasobject and dtype.names is None:
            of_text = "texts" if is_text else "lists of different lengths"
            raise RecordError(
                Reason.UNSUPPORTED, f"its array {name!r} holds {of_text}: expected numbers"
            )
        if dtype.names is None and not dtype.hasobject:
            dtype = np.dtype(dtype.str)  # without the metadata of h5py
        check_dtype(dtype, texts=texts)
        check_shape(shape, dtype.itemsize)
        found = StoredArray(dtype=dtype.str, shape=shape, offset=offset, member=name, chunk=chunk)
        if offset is not None and offset + found.bytes > self.file.size:
            raise RecordError(Reason.TRUNCATED, f"it ends within its array {name!r}")
        return found

    def unapplied(self, stored: StoredArray) -> Sequence[tuple[str, Sequence[str]]]:
        found: list[tuple[str, Sequence[str]]] = []
        # Attributes that cannot be read do not make the values unreadable.
        with contextlib.suppress(*_DAMAGED):
            attributes = self._file[stored.member].attrs
            packed = [name for name in _PACKED if _is_effective(attributes, name)]
            found += [("NetCDF's attributes for values", packed)] if packed else []
            if _MATLAB in attributes and len(stored.shape) > 1:
                found.append(("MATLAB's order of axes (reversed)", ()))
        return found

    def labels(
        self, stored: StoredArray, span: Span | None = None, *, numbers: bool = False
    ) -> pa.Array:
        if stored.dtype != "|S0":
            return super().labels(stored, span, numbers=numbers)
        with _reporting_damage():
            texts = np.ravel(self._checked(stored, span)[_selection(span)])
        return label_values(texts)

    def _load(self, stored: StoredArray, span: Span | None) -> Array:
        with _reporting_damage():
            selection = _selection(span)
            dataset = self._checked(stored, span)
            shape = list(stored.shape)
            if span is not None:
                shape[span.axis] = span.stop - span.start
            array = np.zeros(shape, stored.numbers)  # HDF5 may leave what is not stored unwritten
            if array.size:
                dataset.read_direct(array, selection or None)
        return array

    def _checked(self, stored: StoredArray, span: Span | None) -> Any:
        """Return a dataset whose chunks in a span were checked."""
        dataset = self._file[stored.member]
        if stored.chunk:
            if stored.member not in self._checks:
                self._checks[stored.member] = ChunkCheck(dataset)
            slices = [(0, size) for size in stored.shape]
            if span is not None:
                slices[span.axis] = (span.start, span.stop)
            self._checks[stored.member].check(slices)
        return dataset


def _is_effective(attributes: Any, name: str) -> bool:
    """Return whether an array has an attribute that changes its values, or masks some."""
    if name not in attributes:
        return False
    value = np.asarray(attributes[name])
    if name in _NEUTRAL:
        return bool((value != _NEUTRAL[name]).any())
    if name == "_Unsigned":
        return bool(np.isin(value.astype(str), ("true", "True")).any())
    # Missing values are read as NaN, so NaN as their mark changes nothing.
    return value.dtype.kind != "f" or not bool(np.isnan(value).all())


def _selection(span: Span | None) -> tuple[slice, ...]:
    return () if span is None else (*(slice(None),) * span.axis, slice(span.start, span.stop))


def _library() -> Any:
    return import_package("h5py", extra="arrays", needed_for="reading HDF5 files")


@contextlib.contextmanager
def _reporting_damage() -> Iterator[None]:
    """Raise the errors of a damaged file as RecordError."""
    try:
        yield
    except RecordError:
        raise
    except _DAMAGED as error:
        raise RecordError(
            Reason.CORRUPT,
            "an HDF5 file that cannot be read: it is damaged, or compressed by a filter that is not"
            " installed",
        ) from error
