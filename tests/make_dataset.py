"""Builds a small dataset directory by hand, without the code that writes datasets.

The Examples come from fifteen lines of protobuf, not from the encoder, so that readers are held
against something else than their own counterpart.
"""

import dataclasses
import gzip
import hashlib
import io
import json
import pathlib
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from recordmill.format import shard_index
from recordmill.format.file_info import file_info
from recordmill.format.file_names import index_name, shard_name
from recordmill.format.ledger import CopyCounts, InputCounts, Ledger, RecordCounts
from recordmill.format.manifest import Manifest, Shard, SplitInfo, class_weights, digest_of
from recordmill.format.schema import schema_text
from recordmill.format.tfds import tfds_files
from recordmill.tfrecord.features import Feature, Features
from recordmill.tfrecord.framing import frame

LABELS = ("rose", "tulip")
FEATURES: Features = {
    "image/encoded": Feature(dtype="string", kind="image"),
    "image/class/label": Feature(dtype="int64", kind="label"),
    "image/class/text": Feature(dtype="string", kind="text"),
    "grid": Feature(dtype="string", kind="raw", raw_dtype="float32", raw_shape=(2, 2)),
    "size": Feature(dtype="float32", shape=(3,)),
    "caption": Feature(dtype="string", shape=(None,), kind="text"),
}

Values = Sequence[int] | Sequence[float] | Sequence[bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A record as it is going to be written; `values` None leaves a feature out."""

    key: str
    label: str | None
    values: Mapping[str, Values | None]
    copy: int = 0
    group: str | None = None

    def having(self, **values: Values | None) -> "Row":
        """With other values of features whose '/' is written as '__'."""
        named = {name.replace("__", "/"): value for name, value in values.items()}
        return dataclasses.replace(self, values={**self.values, **named})


Splits = Mapping[str, Sequence[Sequence[Row]]]


def picture(seed: int, *, height: int = 4, width: int = 5) -> bytes:
    """A PNG of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def flower(key: str, label: str, *, copy: int = 0, label_offset: int = 0) -> Row:
    """A record with all of FEATURES; those whose key is 'b' have no caption."""
    seed = ord(key[0])
    return Row(
        key=key,
        label=label,
        copy=copy,
        group=f"bed {key}",
        values={
            "image/encoded": [picture(seed)],
            "image/class/label": [LABELS.index(label) + label_offset],
            "image/class/text": [label.encode()],
            "grid": [np.full((2, 2), seed, "<f4").tobytes()],
            "size": [1.0, 2.0, float(seed)],
            "caption": None if key == "b" else [f"a {label}".encode(), b"!"],
        },
    )


def flowers(*, label_offset: int = 0) -> dict[str, list[list[Row]]]:
    """Five records and a copy in two shards of train, two in validation, none in test."""

    def shard(*rows: tuple[str, str, int]) -> list[Row]:
        return [
            flower(key, label, copy=copy, label_offset=label_offset) for key, label, copy in rows
        ]

    return {
        "train": [
            shard(("a", "rose", 0), ("b", "tulip", 0), ("b", "tulip", 1)),
            shard(("c", "rose", 0), ("d", "tulip", 0), ("e", "rose", 0)),
        ],
        "validation": [shard(("f", "rose", 0), ("g", "tulip", 0))],
        "test": [],
    }


def example(values: Mapping[str, Values | None]) -> bytes:
    """A serialised tf.train.Example."""
    entries = [
        _field(1, _field(1, name.encode()) + _field(2, _feature(some)))
        for name, some in sorted(values.items())
        if some is not None
    ]
    return _field(1, b"".join(entries))


def _feature(values: Values) -> bytes:
    if all(isinstance(value, bytes) for value in values):
        return _field(1, b"".join(_field(1, value) for value in values))
    if all(isinstance(value, float) for value in values):
        return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))
    return _field(3, _field(1, b"".join(_varint(value % 2**64) for value in values)))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def make_dataset(
    folder: pathlib.Path,
    splits: Splits | None = None,
    *,
    features: Features = FEATURES,
    labels: Sequence[str] = LABELS,
    label_offset: int = 0,
    compression: str = "none",
) -> Manifest:
    """Writes a whole dataset and returns its manifest."""
    splits = flowers(label_offset=label_offset) if splits is None else splits
    (folder / "index").mkdir(parents=True)
    infos = {}
    for split, shards in splits.items():
        made = [
            _shard(folder, rows, split, (number, len(shards)), compression)
            for number, rows in enumerate(shards)
        ]
        infos[split] = SplitInfo.of(made)
    rows = [row for shards in splits.values() for shard in shards for row in shard]
    copies = sum(row.copy > 0 for row in rows)
    originals = Counter(row.label for shard in splits["train"] for row in shard if not row.copy)
    tfds = tfds_files(
        features=features,
        labels=labels,
        label_offset=label_offset,
        compression=compression,
        splits=infos,
    )
    reject = {"key": "z", "stage": "check", "reason": "empty", "detail": "a file of no bytes"}
    files = {
        **tfds.files,
        "labels.txt": "".join(f"{label}\n" for label in labels).encode(),
        "schema.pbtxt": schema_text(features, labels=labels, label_offset=label_offset).encode(),
        "rejects.jsonl": json.dumps(reject).encode() + b"\n",
    }
    manifest = Manifest(
        digest=digest_of(infos),
        seed=7,
        options={"compression": compression, "label_offset": label_offset},
        features=features,
        labels=tuple(labels),
        class_weights=class_weights(
            {label: infos["train"].classes.get(label, 0) for label in labels}
        ),
        source_weights=class_weights({label: originals[label] for label in labels}),
        splits=infos,
        ledger=Ledger(
            inputs=InputCounts(read=len(rows) - copies + 1),
            records=RecordCounts(
                made=len(rows) - copies + 1, written=len(rows) - copies, rejected=1
            ),
            copies=CopyCounts(planned=copies, written=copies),
        ),
        encoders={"pillow": "12.3.0"},
        files={name: file_info(content) for name, content in files.items()},
        notes=tfds.notes,
    )
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "job.json").write_text("{}\n")
    rewrite(folder, manifest)
    return manifest


def rewrite(folder: pathlib.Path, manifest: Manifest) -> None:
    """Replaces dataset.json."""
    (folder / "dataset.json").write_bytes(manifest.to_bytes())


def _shard(
    folder: pathlib.Path,
    rows: Sequence[Row],
    split: str,
    place: tuple[int, int],
    compression: str,
) -> Shard:
    number, count = place
    frames = [frame(example(row.values)) for row in rows]
    lengths = [len(piece) for piece in frames]
    content = b"".join(frames)
    if compression == "gzip":
        content = gzip.compress(content, mtime=0)
    file = shard_name(split, number, count, compression)
    (folder / file).write_bytes(content)
    columns: dict[str, Any] = {
        "key": [row.key for row in rows],
        "label": [row.label for row in rows],
        "copy": [row.copy for row in rows],
        "group": [row.group for row in rows],
        "offset": np.cumsum([0, *lengths])[:-1],
        "length": lengths,
    }
    schema = shard_index.schema(["group"] if any(row.group for row in rows) else [])
    table = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    index = shard_index.index_bytes(table)
    (folder / index_name(split, number, count)).write_bytes(index)
    return Shard(
        file=file,
        records=len(rows),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        classes=dict(Counter(row.label for row in rows if row.label is not None)),
        index=file_info(index),
    )
