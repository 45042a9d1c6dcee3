"""Flipped bits in files that carry checksums: rejected, and never written as other content."""

import io
import json
import pathlib
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator

import av
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from PIL import Image

from recordmill.pipelines.cli import main
from tests.folders import make_picture
from tests.image_runs import Made, make, run
from tests.images16 import png16, waves
from tests.paths import HOSTILE
from tests.pictures import saved
from tests.tfrecord_inputs import example, write_records

pytestmark = pytest.mark.usefixtures("encoders")

OPTIONS = ("--splits", "train=1", "--num-shards", "1", "--max-reject-fraction", "1")
FLIPS = 12  # of each file


def flipped(data: bytes, start: int, stop: int) -> Iterator[bytes]:
    """Yield copies of data with a flipped bit between two offsets."""
    bits = np.random.default_rng(0).choice(range(8 * start, 8 * stop), FLIPS, replace=False)
    for bit in bits.tolist():
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def pixels_of(png: bytes) -> tuple[int, int]:
    """Return the place of the content of the first IDAT chunk."""
    at = png.index(b"IDAT")
    return at + 4, at + 4 + int.from_bytes(png[at - 4 : at])


def details(made: Made) -> dict[str, str]:
    """{key: reason and detail}"""
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    return {one["key"]: f"{one['reason']}: {one['detail']}" for one in map(json.loads, lines)}


def photo(turns: int = 0) -> Image.Image:
    noise = np.random.default_rng(turns).integers(0, 255, (6, 8, 3), np.uint8)
    return Image.fromarray(noise).resize((40, 30))


def with_orientation_at_end() -> bytes:
    """Return a PNG whose orientation follows its pixels."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data = saved(photo(), exif=exif)
    at = data.index(b"eXIf") - 4
    end = at + 12 + int.from_bytes(data[at : at + 4])
    chunk, rest = data[at:end], data[:at] + data[end:]
    return rest[:-12] + chunk + rest[-12:]


PNGS = {
    "colours.png": saved(photo()),
    "palette.png": saved(photo().quantize(16)),
    "gray16.png": png16(waves(channels=1)),
    "colours16.png": png16(waves()),
    "moving.png": saved(photo(), save_all=True, append_images=[photo(1)]),
    "icon.ico": saved(photo().resize((32, 32)), "ICO", sizes=[(32, 32)]),
}


@pytest.mark.parametrize("options", [("--size", "16"), ("--image-format", "png"), ()])
def test_flipped_bits_in_pixels_of_png_are_rejected(
    tmp_path: pathlib.Path, options: tuple[str, ...]
) -> None:
    for name, data in PNGS.items():
        folder = tmp_path / "in" / name.replace(".", "-")
        folder.mkdir(parents=True)
        (folder / name).write_bytes(data)
        for number, damaged in enumerate(flipped(data, *pixels_of(data))):
            (folder / f"{number}-{name}").write_bytes(damaged)
    made = make(tmp_path / "out", *OPTIONS, *options, "--input", tmp_path / "in")
    assert {key.partition("/")[2] for key in made.keys("train")} == {*PNGS}
    assert len(details(made)) == FLIPS * len(PNGS)
    expected = r"corrupt: the checksum of the chunk IDAT at byte \d+ of the PNG does not match its"
    assert not [one for one in details(made).values() if not re.match(expected, one)]


def test_flipped_bits_in_other_chunks_of_png_are_rejected(tmp_path: pathlib.Path) -> None:
    """An orientation turns the image, also one after the pixels."""
    data = with_orientation_at_end()
    make_picture(tmp_path / "in" / "good.jpg", 1)
    header, exif = data.index(b"IHDR") + 4, data.index(b"eXIf") + 4
    for chunk, (start, stop) in {
        "IHDR": (header, header + 13),
        "eXIf": (exif, data.index(b"IEND") - 8),
    }.items():
        for number, damaged in enumerate(flipped(data, start, stop)):
            (tmp_path / "in" / f"{chunk}-{number}.png").write_bytes(damaged)
    made = make(tmp_path / "out", *OPTIONS, "--input", tmp_path / "in")
    assert made.keys("train") == {"good.jpg"}
    for key, why in details(made).items():
        assert f"the checksum of the chunk {key.partition('-')[0]} at byte" in why


def test_flipped_bits_in_masks_are_rejected(tmp_path: pathlib.Path) -> None:
    data = (HOSTILE / "png" / "mask_bitflip_image.png").read_bytes()
    masks = {
        "found": (HOSTILE / "png" / "mask_bitflip.png").read_bytes(),
        "good": saved(Image.fromarray(np.full((120, 160), 1, np.uint8))),
        "palette": saved(Image.fromarray(np.eye(120, 160, dtype=np.uint8) * 3, "P")),
    }
    start, stop = pixels_of(masks["palette"])
    masks |= {f"{n}": one for n, one in enumerate(flipped(masks.pop("palette"), start, stop))}
    for folder in ("in", "masks"):
        (tmp_path / folder).mkdir()
    for name, mask in masks.items():
        (tmp_path / "in" / f"{name}.png").write_bytes(data)
        (tmp_path / "masks" / f"{name}.png").write_bytes(mask)
    argv = ("--input", tmp_path / "in", "--masks", tmp_path / "masks")
    made = make(tmp_path / "out", *OPTIONS, *argv)
    assert made.keys("train") == {"good.png"}
    assert {*details(made)} == {f"{name}.png" for name in masks} - {"good.png"}
    assert all("the checksum of the chunk IDAT" in why for why in details(made).values())


def in_tar(files: dict[str, bytes], folder: pathlib.Path) -> pathlib.Path:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"x/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return folder / "a.tar"


def in_zip(files: dict[str, bytes], folder: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(f"x/{name}", data)
    return folder / "a.zip"


def in_parquet(files: dict[str, bytes], folder: pathlib.Path) -> pathlib.Path:
    columns = {"image": [*files.values()], "label": ["x"] * len(files)}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def in_records(files: dict[str, bytes], folder: pathlib.Path) -> pathlib.Path:
    records = [
        example({"image/encoded": [data], "image/class/label": [1]}) for data in files.values()
    ]
    write_records(folder / "a.tfrecord", records)
    return folder / "a.tfrecord"


@pytest.mark.parametrize("packed", [in_tar, in_zip, in_parquet, in_records])
def test_flipped_bits_of_png_in_containers_are_rejected(
    tmp_path: pathlib.Path, packed: Callable[[dict[str, bytes], pathlib.Path], pathlib.Path]
) -> None:
    """The containers hold the damaged images, so that their own checksums are right."""
    data = saved(photo())
    files = {f"{n}.png": one for n, one in enumerate(flipped(data, *pixels_of(data)))}
    argv = ("--input", packed({"good.png": data, **files}, tmp_path), "--image-format", "png")
    made = make(tmp_path / "out", *OPTIONS, *argv)
    assert len(made.keys("train")) == 1
    assert len(details(made)) == FLIPS
    assert all("the checksum of the chunk IDAT" in why for why in details(made).values())


def test_verify_finds_flipped_bits_in_images(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checksums of the dataset are right, as of one that was made of damaged images."""
    data = saved(photo())
    damaged = next(flipped(data, *pixels_of(data)))
    write_records(
        tmp_path / "train.tfrecord",
        [example({"image/encoded": [one], "image/format": [b"png"]}) for one in (data, damaged)],
    )
    out = tmp_path / "out"
    argv = ["adopt", "--input", str(tmp_path / "train.tfrecord"), "--output", str(out)]
    if main([*argv, "--workers", "1"]) == 0:
        assert main(["verify", "--deep", "--dataset", str(out)]) == 1
    assert "the checksum of the chunk IDAT at byte" in "".join(capsys.readouterr())


def sound(subtype: str, form: str = "FLAC", *, channels: int = 2, rate: int = 16000) -> bytes:
    noise = np.random.default_rng(0).normal(size=(3 * rate, channels)) / 10
    stream = io.BytesIO()
    soundfile.write(stream, noise, rate, format=form, subtype=subtype)
    return stream.getvalue()


MD5 = slice(26, 42)  # of a FLAC file


def test_flac_is_compared_with_its_md5(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for subtype in ("PCM_S8", "PCM_16", "PCM_24"):
        data = bytearray(sound(subtype))
        (folder / f"{subtype}.flac").write_bytes(data)
        data[MD5] = bytes(16)
        (folder / f"{subtype}-without.flac").write_bytes(data)
        data[MD5] = b"another checksum"
        (folder / f"{subtype}-other.flac").write_bytes(data)
    argv = ("--input", folder, *OPTIONS)
    for options in ((), ("--features", "encoded")):
        made = make(tmp_path / f"out{len(options)}", *argv, *options, command="audio")
        assert len(made.keys("train")) == 6
        assert details(made) == {
            f"{subtype}-other.flac": "corrupt: its samples do not match the MD5 in its header: it"
            " is damaged"
            for subtype in ("PCM_S8", "PCM_16", "PCM_24")
        }


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_every_page_of_ogg_is_checked(tmp_path: pathlib.Path, subtype: str) -> None:
    """Decoders skip a damaged page, so that its samples would be missing."""
    data = sound(subtype, "OGG", channels=1, rate=48000)
    pages = [one.start() for one in re.finditer(b"OggS", data)]
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.ogg").write_bytes(data)
    for number, damaged in enumerate(flipped(data, pages[2], pages[-1])):
        (folder / f"{number}.ogg").write_bytes(damaged)
    made = make(tmp_path / "out", "--input", folder, *OPTIONS, command="audio")
    assert made.keys("train") == {"good.ogg"}
    assert len(details(made)) == FLIPS
    assert all("byte" in why for why in details(made).values())


def coded(path: pathlib.Path, codec: str, form: str) -> None:
    """Write a sound with an encoder of FFmpeg. form: of its samples."""
    noise = np.random.default_rng(0).integers(-3000, 3000, (1, 24000)).astype(np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=48000, layout="mono")
        stream.format = form
        values = noise if form.startswith("s16") else (noise / 32768).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(values, format=form, layout="mono")
        frame.sample_rate = 48000
        for packets in (stream.encode(frame), stream.encode(None)):
            container.mux(packets)


@pytest.mark.parametrize(
    ("codec", "name", "form"),
    [("wavpack", "x.wv", "s16p"), ("tta", "x.tta", "s16"), ("ac3", "x.ac3", "fltp")],
)
def test_checksums_of_codecs_are_checked(
    tmp_path: pathlib.Path, codec: str, name: str, form: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    coded(folder / name, codec, form)
    data = (folder / name).read_bytes()
    for number, damaged in enumerate(flipped(data, len(data) // 4, len(data) // 4 * 3)):
        (folder / f"{number}-{name}").write_bytes(damaged)
    made = make(tmp_path / "out", "--input", folder, *OPTIONS, command="audio")
    assert made.keys("train") == {name}
    assert len(details(made)) == FLIPS


def rows() -> pa.Table:
    numbers = np.random.default_rng(0).normal(size=200)
    return pa.table({"label": ["a", "b"] * 100, "x": numbers})


def avro_of(codec: str) -> bytes:
    fields = [{"name": "label", "type": "string"}, {"name": "x", "type": "double"}]
    schema = {"type": "record", "name": "row", "fields": fields}
    stream = io.BytesIO()
    if codec != "snappy":
        fastavro.writer(stream, schema, rows().to_pylist(), codec=codec)
        return stream.getvalue()
    # fastavro needs another package to write it.
    fastavro.writer(stream, schema, [], sync_marker=b"s" * 16)
    content = io.BytesIO()
    for row in rows().to_pylist():
        fastavro.schemaless_writer(content, schema, row)
    plain = content.getvalue()
    packed = pa.compress(plain, codec="snappy", asbytes=True) + struct.pack(">I", zlib.crc32(plain))
    block = io.BytesIO()
    for number in (200, len(packed)):
        fastavro.schemaless_writer(block, "long", number)
    head = stream.getvalue().replace(b"\x08null", b"\x0csnappy")
    return head + block.getvalue() + packed + b"s" * 16


@pytest.mark.parametrize("codec", ["snappy", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_flipped_bits_in_pages_of_parquet_are_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], codec: str, version: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        rows(),
        path,
        compression=codec,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        data_page_version=version,
    )
    data = path.read_bytes()
    at = data.index(rows()["x"].to_numpy()[10].tobytes())
    for number, damaged in enumerate(flipped(data, at, at + 64)):
        path.write_bytes(damaged)
        out = tmp_path / f"out{number}"
        assert run("table", "--input", path, "--output", out, *OPTIONS) == 2
        assert "a.parquet: " in capsys.readouterr().err


def test_avro_compressed_by_snappy_is_read_and_checked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for codec in ("null", "snappy"):
        (tmp_path / f"{codec}.avro").write_bytes(avro_of(codec))
        argv = ("--input", tmp_path / f"{codec}.avro", *OPTIONS)
        found.append(make(tmp_path / codec, *argv, command="table").manifest.digest)
    assert found[0] == found[1]
    data = avro_of("snappy")
    at = data.index(rows()["x"].to_numpy()[10].tobytes())
    for number, damaged in enumerate(flipped(data, at, at + 64)):
        (tmp_path / "snappy.avro").write_bytes(damaged)
        assert run("table", *argv, "--output", tmp_path / f"out{number}") == 2
        why = "damaged Avro (the checksum of a block does not match its content)"
        assert why in capsys.readouterr().err
