"""Small valid inputs of each kind, which the fuzzing mutates."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import pathlib
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from recordmill.tfrecord.framing import frame
from tests.archive_files import tar_of, zip_of
from tests.media_tables import FORMS
from tests.sounds import chirp, write
from tests.tfrecord_inputs import example
from tests.video_files import make_film


@dataclasses.dataclass(frozen=True, kw_only=True)
class FuzzKind:
    """A kind of input.

      make: returns {file name: valid content}.
      command: the arguments after `recordmill`, given the folder of the inputs.
      whole: whether a broken file ends the run, so that each is an input of its own.
    photos: names of images of 40 x 30 pixels in the folder `photos` beside that of the inputs; None
      is one for each input, with its name.
    beside: {file name: content} of files in the folder above the inputs, which stay as they are.
    """

    make: Callable[[], Mapping[str, bytes]]
    command: Callable[[pathlib.Path], Sequence[object]]
    whole: bool = False
    photos: Sequence[str] | None = ()
    beside: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


def _images() -> dict[str, bytes]:
    random = np.random.default_rng(1)
    pixels = np.kron(random.integers(0, 255, (6, 8, 3), np.uint8), np.ones((5, 5, 1), np.uint8))
    image = Image.fromarray(pixels)
    variants: list[tuple[str, str, dict[str, Any]]] = [
        ("a.jpg", "JPEG", {}),
        ("progressive.jpg", "JPEG", {"progressive": True}),
        ("a.png", "PNG", {}),
        ("a.webp", "WEBP", {}),
        ("lossless.webp", "WEBP", {"lossless": True}),
        ("a.bmp", "BMP", {}),
        ("a.tiff", "TIFF", {}),
        ("lzw.tiff", "TIFF", {"compression": "tiff_lzw"}),
        ("deflate.tiff", "TIFF", {"compression": "tiff_adobe_deflate"}),
        ("a.avif", "AVIF", {}),
        ("a.jp2", "JPEG2000", {}),
        ("a.ppm", "PPM", {}),
        ("a.ico", "ICO", {}),
        ("a.tga", "TGA", {}),
    ]
    found = {name: _saved(image, form, **options) for name, form, options in variants}
    found["a.gif"] = _saved(image.quantize(), "GIF")
    frames = [image.rotate(turn).quantize() for turn in (90, 180)]
    found["animated.gif"] = _saved(image.quantize(), "GIF", save_all=True, append_images=frames)
    found["deep.png"] = _saved(Image.fromarray(pixels[..., 0].astype(np.uint16) << 8), "PNG")
    return found


def _archives() -> dict[str, bytes]:
    images = {f"{name[0]}/{name}": content for name, content in list(_images().items())[:5]}
    named = {**images, f"{'long' * 22}/é.png": images["a/a.png"]}
    forms = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        made = [
            *(tar_of(place / f"{form}.tar", named, form=form) for form in forms),
            zip_of(place / "stored.zip", images),
            zip_of(place / "deflated.zip", images, method=zipfile.ZIP_DEFLATED),
        ]
        return {one.name: one.read_bytes() for one in made}


def _media_tables() -> dict[str, bytes]:
    images = {f"{name[0]}/{name}": content for name, content in list(_images().items())[:5]}
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for write in FORMS.values():
            write(images, place)
        kept = (".parquet", ".feather", ".jsonl")
        return {one.name: one.read_bytes() for one in place.rglob("*") if one.suffix in kept}


def _saved(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def _table() -> pa.Table:
    rows = range(60)
    return pa.table(
        {
            "n": [row if row % 7 else None for row in rows],
            "x": [row / 8 for row in rows],
            "text": [f"some words é {row % 9}" for row in rows],
            "list": [[float(row)] * (row % 4) for row in rows],
            "kind": pa.array([f"c{row % 3}" for row in rows]).dictionary_encode(),
            "label": [("ham", "spam")[row % 2] for row in rows],
        }
    )


def _plain() -> list[dict[str, Any]]:
    return _table().drop_columns(["list", "kind"]).to_pylist()


def _delimited(separator: str) -> bytes:
    rows = [["n", "x", "text", "label"]]
    rows += [["" if cell is None else str(cell) for cell in row.values()] for row in _plain()]
    return "".join(separator.join(row) + "\n" for row in rows).encode()


def _arrow(compression: str | None = None) -> bytes:
    stream = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(stream, _table().schema, options=options) as writer:
        writer.write_table(_table())
    return stream.getvalue()


def _parquet(**options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(_table(), stream, **options)
    return stream.getvalue()


def _avro(codec: str) -> bytes:
    optional = ["null", "long"]
    fields = [("n", optional), ("x", "double"), ("text", "string"), ("label", "string")]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }
    stream = io.BytesIO()
    fastavro.writer(stream, schema, _plain(), codec=codec)
    return stream.getvalue()


def _rows() -> dict[str, bytes]:
    return {
        "a.csv": _delimited(","),
        "a.tsv": _delimited("\t"),
        "a.jsonl": "".join(json.dumps(row) + "\n" for row in _plain()).encode(),
        "a.parquet": _parquet(),
        "plain.parquet": _parquet(use_dictionary=False, compression="zstd"),
        "a.arrow": _arrow(),
        "zstd.arrow": _arrow("zstd"),
        "a.avro": _avro("null"),
        "deflate.avro": _avro("deflate"),
    }


def _texts() -> dict[str, bytes]:
    kept = ("a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.arrow", "a.avro")
    return {name: content for name, content in _rows().items() if name in kept}


def _arrays() -> dict[str, bytes]:
    array = np.arange(64, dtype="f4").reshape(8, 8)
    found = {}
    savers: Mapping[str, Callable[[Any], None]] = {
        "a.npy": lambda stream: np.save(stream, array),
        "fortran.npy": lambda stream: np.save(stream, np.asfortranarray(array)),
        "a.npz": lambda stream: np.savez(stream, x=array),
        "deflated.npz": lambda stream: np.savez_compressed(stream, x=array),
    }
    for name, save in savers.items():
        stream = io.BytesIO()
        save(stream)
        found[name] = stream.getvalue()
    filters: Mapping[str, Mapping[str, Any]] = {
        "contiguous.h5": {},
        "chunked.h5": {"chunks": (2, 8)},
        "gzip.h5": {"chunks": (2, 8), "compression": "gzip", "shuffle": True},
        "lzf.h5": {"chunks": (2, 8), "compression": "lzf", "fletcher32": True},
    }
    for name, options in filters.items():
        stream = io.BytesIO()
        with h5py.File(stream, "w") as file:
            file.create_dataset("x", data=array, **options)
        found[name] = stream.getvalue()
    return found


def _series() -> dict[str, bytes]:
    kept = ("a.csv", "a.jsonl", "a.parquet", "a.arrow", "a.avro")
    return {name: content for name, content in _rows().items() if name in kept}


def _zipped() -> dict[str, bytes]:
    kept = ("a.csv", "a.tsv", "a.jsonl")
    found = {name: content for name, content in _rows().items() if name in kept}
    zipped = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in found.items()}
    # Changed bytes stay readable in it, up to the checksum at the end.
    stored = gzip.compress(found["a.csv"], compresslevel=0, mtime=0)
    members = b"".join(
        gzip.compress(line, mtime=0) for line in found["a.jsonl"].splitlines(keepends=True)
    )
    return {**zipped, "stored.csv.gz": stored, "members.jsonl.gz": members}


def _sounds() -> dict[str, bytes]:
    sound = chirp(16000, 3200)
    stereo = np.stack([sound, -sound], axis=1)
    names = ("a.wav", "a.flac", "a.ogg", "a.mp3", "a.m4a", "a.aiff", "a.au", "a.caf")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        found = {name: write(root / name, stereo).read_bytes() for name in names}
        for kind in ("FLOAT", "PCM_24", "ULAW", "MS_ADPCM"):
            name = f"{kind.lower()}.wav"
            found[name] = write(root / name, sound, subtype=kind).read_bytes()
        found["opus.ogg"] = write(root / "opus.ogg", sound, subtype="OPUS").read_bytes()
    return found


def _videos() -> dict[str, bytes]:
    kinds: Mapping[str, Mapping[str, Any]] = {
        "a.mp4": {"b_frames": 2},
        "front.mp4": {"front": True, "sound": True},
        "a.mkv": {},
        "a.avi": {"codec": "mjpeg", "pixels": "yuvj420p"},
        "a.ts": {"codec": "mpeg2video"},
        "a.webm": {"codec": "libvpx-vp9"},
        "a.gif": {"codec": "gif", "pixels": "rgb8"},
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        return {
            name: make_film(root / name, 12, size=(48, 64), **how).read_bytes()
            for name, how in kinds.items()
        }


def _coco() -> dict[str, bytes]:
    sides = {"width": 40, "height": 30}
    polygon = [[2, 3, 20, 3, 20, 25]]
    runs = {"size": [30, 40], "counts": [90, 20, 1090]}
    box = {"bbox": [2, 3, 18, 22], "area": 396}
    content = {
        "images": [{"id": n, "file_name": name, **sides} for n, name in enumerate(_PHOTOS)],
        "categories": [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog", "supercategory": "pet"}],
        "annotations": [
            {
                "id": 1,
                "image_id": 0,
                "category_id": 3,
                "segmentation": polygon,
                "iscrowd": 0,
                **box,
            },
            {"id": 2, "image_id": 1, "category_id": 7, "segmentation": runs, "iscrowd": 1, **box},
            {"id": 3, "image_id": 1, "category_id": 3, **box},
        ],
    }
    captions = {
        "images": content["images"],
        "annotations": [{"id": 1, "image_id": 2, "caption": "a cat é"}],
    }
    return {
        "instances.json": json.dumps(content).encode(),
        "lines.json": json.dumps(content, indent=1).encode(),
        "captions.json": json.dumps(captions).encode(),
    }


def _yolo() -> dict[str, bytes]:
    polygon = "0 0.1 0.1 0.5 0.1 0.5 0.6\n"
    return {"a.txt": b"0 0.5 0.5 0.25 0.5\n1 0.25 0.25 0.1 0.1\n", "b.txt": polygon.encode()}


def _box_table() -> dict[str, bytes]:
    head = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
    rows = [f"{name},40,30,c{n % 2},{n},2,{n + 9},20\n" for n, name in enumerate(_PHOTOS * 3)]
    return {"boxes.csv": (head + "".join(rows)).encode()}


def _boxes() -> dict[str, bytes]:
    box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>20</xmax><ymax>25</ymax></bndbox>"
    size = "<size><width>40</width><height>30</height><depth>3</depth></size>"
    one = f"<object><name>cat</name>{box}</object>"
    return {"a.xml": f"<annotation>{size}{one * 3}</annotation>".encode()}


def _records() -> dict[str, bytes]:
    image = next(iter(_images().values()))
    records = [
        {"image": [image], "label": [b"ab"[n % 2 : n % 2 + 1]], "n": [n], "f": [n / 2, 1.0]}
        for n in range(12)
    ]
    data = b"".join(frame(example(one)) for one in records)
    return {
        "a.tfrecord": data,
        "b.tfrecord": data[: len(data) // 2],
        "c.tfrecord.gz": gzip.compress(data),
    }


_ALL = ("--splits", "train=1", "--unlabelled", "keep")
_PHOTOS = ("a.jpg", "b.jpg", "c.jpg")


def _annotated(at: pathlib.Path, *options: object) -> tuple[object, ...]:
    """Return the command for images with annotations, given those."""
    images = ("--input", (at if at.is_dir() else at.parent).parent / "photos")
    return ("images", *images, "--annotations", at, "--size", 24, *options, *_ALL)


KINDS: Mapping[str, FuzzKind] = {
    "images": FuzzKind(
        make=_images, command=lambda at: ("images", "--input", at, "--size", 24, *_ALL)
    ),
    "archives": FuzzKind(
        make=_archives,
        command=lambda at: ("images", "--input", at, "--size", 24, *_ALL),
        whole=True,
    ),
    "media-tables": FuzzKind(
        make=_media_tables,
        command=lambda at: (
            "images",
            "--input",
            at,
            "--bytes-column",
            "image",
            "--size",
            24,
            *_ALL,
        ),
        whole=True,
    ),
    "arrays": FuzzKind(
        make=_arrays,
        command=lambda at: (
            *("arrays", "--input", at, "--dtype", "float32", "--cast", "same-kind", *_ALL),
        ),
    ),
    "video": FuzzKind(
        make=_videos,
        command=lambda at: (*("video", "--input", at, "--clip-frames", 4, "--size", 24, *_ALL),),
    ),
    "audio": FuzzKind(
        make=_sounds,
        command=lambda at: (
            *("audio", "--input", at, "--sample-rate", 8000, "--clip", "100ms", *_ALL),
            *("--features", "melspectrogram", "--mel-bins", 10, "--trim-silence", 40),
        ),
    ),
    "audio-clips": FuzzKind(
        make=_sounds,
        command=lambda at: (
            *("audio", "--input", at, "--sample-rate", 8000, "--clip", "50ms", *_ALL),
            *("--clip-mode", "split", "--dtype", "int16"),
        ),
    ),
    "boxes": FuzzKind(
        make=_boxes,
        command=_annotated,
        photos=None,
    ),
    "yolo": FuzzKind(
        make=_yolo,
        command=lambda at: _annotated(
            at, "--annotation-format", "yolo", "--labels-file", at.parent / "classes.txt"
        ),
        photos=None,
        beside={"classes.txt": b"cat\ndog\n"},
    ),
    "coco": FuzzKind(make=_coco, command=_annotated, whole=True, photos=_PHOTOS),
    "box-table": FuzzKind(make=_box_table, command=_annotated, whole=True, photos=_PHOTOS),
    "records": FuzzKind(
        make=_records,
        command=lambda at: ("images", "--input", at, "--size", 24, *_ALL),
        whole=True,
    ),
    "record-rows": FuzzKind(
        make=_records,
        command=lambda at: ("table", "--input", at, "--drop-columns", "image", *_ALL),
        whole=True,
    ),
    "table": FuzzKind(
        make=_rows,
        command=lambda at: ("table", "--input", at, "--splits", "train=1"),
        whole=True,
    ),
    "gzip": FuzzKind(
        make=_zipped,
        command=lambda at: ("table", "--input", at, "--splits", "train=1"),
        whole=True,
    ),
    "sensor": FuzzKind(
        make=_series,
        command=lambda at: (
            *("sensor", "--input", at, "--time-column", "n", "--time-unit", "s", "--window", 4),
            *("--splits", "train=1"),
        ),
        whole=True,
    ),
    "text": FuzzKind(
        make=_texts,
        command=lambda at: (
            *("text", "--input", at, "--text-column", "text", "--tokenizer", "words", *_ALL),
        ),
        whole=True,
    ),
}
