"""Time for a dataset of images that lie in archives, tables and TFRecords, beside the same folder.

    python -m benchmarks.input_forms                    4,000 images, 7 runs of each
    python -m benchmarks.input_forms --images 400 --runs 1 --only folder,tar

The images are copies of real photos under new names, in ten class folders. Each form holds the same
bytes under the same keys, so each must give the same dataset, byte for byte: its digest is compared
after every run. A first round, which is not timed, reads all into the page cache and measures
memory. Then whole processes run in alternation, on two cores, and the median of each counts.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contest import Command, Contender, add_options, alternate, medians, table
from benchmarks.images import copy_photos, ours
from benchmarks.measure import FailedError, bar, machine, two_cores
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from recordmill.tfrecord.example import encode_frames

_LEAST = 4000  # images; with fewer, starting Python and its libraries is much of it
_BAR = 0.9  # median of throughput: that of a form over that of the folder, at least
_IMAGES_A_ROW_GROUP = 100  # of Parquet, as dataset hubs export them
_BYTES_AND_PATH = pa.struct({"bytes": pa.binary(), "path": pa.string()})
_COLUMNS = ("--key-column", "key", "--label-column", "label", "--bytes-column", "image")


def _row_groups(folder: pathlib.Path) -> Iterator[list[tuple[str, bytes]]]:
    """Yield keys and bytes of images, in the order of keys."""
    paths = sorted(folder.rglob("*.jpg"))
    for first in range(0, len(paths), _IMAGES_A_ROW_GROUP):
        group = paths[first : first + _IMAGES_A_ROW_GROUP]
        yield [(str(path.relative_to(folder)), path.read_bytes()) for path in group]


def _label(key: str) -> str:
    return key.partition("/")[0]


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    archive.addfile(header, io.BytesIO(content))


def write_forms(folder: pathlib.Path) -> None:
    """Write the images of a folder, beside it, in the other forms."""
    beside = folder.parent
    plain = pa.schema({"key": pa.string(), "label": pa.string(), "image": pa.binary()})
    nested = pa.schema({"key": pa.string(), "label": pa.string(), "image": _BYTES_AND_PATH})
    with (
        tarfile.open(beside / "images.tar", "w") as tar,
        zipfile.ZipFile(beside / "images.zip", "w") as archive,
        tarfile.open(beside / "shard-00000.tar", "w") as shard,
        pq.ParquetWriter(beside / "bytes.parquet", plain) as of_bytes,
        pq.ParquetWriter(beside / "struct.parquet", nested) as of_structs,
        (beside / "images.tfrecord").open("wb") as records,
    ):
        for files in _row_groups(folder):
            for key, image in files:
                _add(tar, key, image)
                archive.writestr(key, image)
                _add(shard, key, image)
                _add(shard, key.removesuffix(".jpg") + ".cls", _label(key).encode())
            keys, images = zip(*files, strict=True)
            labels = [_label(key) for key in keys]
            rows = pa.record_batch([keys, labels, images], schema=plain)
            of_bytes.write_batch(rows)
            records.write(encode_frames(rows).data)
            structs = [{"bytes": image, "path": key} for key, image in files]
            of_structs.write_batch(pa.record_batch([keys, labels, structs], schema=nested))


def _of(name: str, *options: object) -> Command:
    """Return the command that reads a file beside the folder."""

    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        return ours(*options)(source.parent / name, output)

    return command


_FORMS = (
    Contender(name="folder", what="folder", command=ours()),
    Contender(name="tar", what="tar", command=_of("images.tar")),
    Contender(name="zip", what="zip", command=_of("images.zip")),
    Contender(
        name="webdataset",
        what="WebDataset, `--label-from .cls`",
        command=_of("shard-00000.tar", "--label-from", ".cls"),
    ),
    Contender(name="bytes", what="Parquet, bytes", command=_of("bytes.parquet", *_COLUMNS)),
    Contender(
        name="struct", what="Parquet, bytes and path", command=_of("struct.parquet", *_COLUMNS)
    ),
    Contender(name="tfrecord", what="TFRecord", command=_of("images.tfrecord", *_COLUMNS)),
)


class Check:
    """Raises FailedError unless all datasets hold all images and have one digest."""

    def __init__(self, images: int) -> None:
        self._images = images
        self.digest = ""

    def __call__(self, output: pathlib.Path) -> None:
        manifest = load(Location.parse(str(output)))
        written = manifest.ledger.records.written
        if written != self._images:
            raise FailedError(f"{output.name}: expected {self._images} records, got {written}")
        self.digest = self.digest or manifest.digest
        if manifest.digest != self.digest:
            raise FailedError(f"{output.name}: expected digest {self.digest}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=_LEAST)
    add_options(parser, _FORMS)
    parser.set_defaults(runs=7)
    arguments = parser.parse_args()
    two_cores()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as name:
        folder = pathlib.Path(name, "images")
        copy_photos(arguments.images, folder)
        write_forms(folder)
        check = Check(arguments.images)
        results = alternate(arguments.only, source=folder, check=check, runs=arguments.runs)
    print(f"\n{arguments.images} images, {arguments.runs} runs of each in alternation\n")
    print(table(arguments.only, results, records=arguments.images, unit="images"))
    found = medians(results)
    of_folder = found.pop("folder", None)
    at_least = _BAR if arguments.images >= _LEAST else None
    print(f"\n- digest of all: {check.digest}")
    for form, wall in found.items() if of_folder is not None else ():
        print(bar(f"speed of {form} / folder", of_folder / wall, at_least=at_least))


if __name__ == "__main__":
    main()
