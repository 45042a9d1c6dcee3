"""Generate the data sets of this folder from fixed seeds, and choose those of published files.

    python tests/data/make.py                         all sets made from the committed photos
    python tests/data/make.py boxes video             some of them
    python tests/data/make.py --published FOLDER clothing clothing_small odd_images/pillow
                                                      the sets chosen from published files
    python tests/data/make.py --into FOLDER           elsewhere, to compare

--published names a folder with clothing/ and odd_images/pillow/, as README.md describes them. The
bytes of numbers, texts and records do not depend on the machine. Those of JPEG, H.264 and gzip
depend on the version of the encoder; Pillow 12.3, PyAV 18.1 and zlib 1.2 wrote the committed files.
"""

from __future__ import annotations

import argparse
import base64
import functools
import gzip
import hashlib
import io
import itertools
import json
import math
import pathlib
import random
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from PIL import Image, ImageDraw, ImageFilter

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[1] / "examples" / "clothing"
SUMS = "SHA256SUMS"
SEED = 7


# --- Chosen from published files ----------------------------------------------------------------

# Photos at their original size: about one in fifteen of each class, the same imbalance as all.
CLOTHING = {
    **{"dress": 8, "hat": 4, "longsleeve": 15, "outwear": 6, "pants": 15},
    **{"shirt": 9, "shoes": 6, "shorts": 7, "skirt": 4, "t-shirt": 26},
}
SMALL_CLASSES = ("dress", "pants", "shoes", "t-shirt")
SMALL_SIDE = 64


def clothing(published: pathlib.Path, target: pathlib.Path) -> None:
    """Copy photos of each class that the demo does not have."""
    for label, count in CLOTHING.items():
        taken = {path.name for path in (DEMO / label).iterdir()}
        photos = [
            p for p in sorted((published / "clothing" / label).iterdir()) if p.name not in taken
        ]
        (target / label).mkdir(parents=True)
        for photo in sorted(random.Random(f"{SEED} {label}").sample(photos, count)):
            shutil.copyfile(photo, target / label / photo.name)


def clothing_small(published: pathlib.Path, target: pathlib.Path) -> None:
    """Reduce all photos of four classes to 64 pixels on their shorter side."""
    for label in SMALL_CLASSES:
        (target / label).mkdir(parents=True)
        for photo in sorted((published / "clothing" / label).iterdir()):
            with Image.open(photo) as image:
                scale = SMALL_SIDE / min(image.size)
                size = (round(image.width * scale), round(image.height * scale))
                small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
                small.save(target / label / photo.name, "JPEG", quality=80, optimize=True)


# Large, and of a kind of which a smaller one is there too.
_TOO_LARGE = (
    *("exif_gps_typeerror.jpg", "expected_to_read.jp2", "hopper_emboss_more.bmp"),
    *("imageops_pad_h_1.jpg", "imageops_pad_v_0.jpg", "imageops_pad_v_2.jpg"),
    *("rgb32rle.tga", "zero_dpi.jp2"),
)


def pillow(published: pathlib.Path, target: pathlib.Path) -> None:
    """Copy Pillow's test images, except the plain PNGs that its tests compare drawings with."""
    target.mkdir(parents=True)
    for path in sorted((published / "odd_images" / "pillow").iterdir()):
        if path.name not in _TOO_LARGE and not is_plain_png(path):
            shutil.copyfile(path, target / path.name)


def is_plain_png(path: pathlib.Path) -> bool:
    """Return whether a file is a sound PNG of one frame, 8-bit RGB or RGBA, and nothing special."""
    if path.suffix != ".png" or path.name.startswith("apng") or path.name == "hopper.png":
        return False
    data = path.read_bytes()
    try:
        with Image.open(path) as image:
            image.load()
            plain = image.mode in ("RGB", "RGBA") and getattr(image, "n_frames", 1) == 1
            special = {"transparency", "interlace", "xmp"} & image.info.keys()
            large = image.width * image.height > 1_000_000
    except (OSError, SyntaxError, ValueError):
        return False
    # Keep images with data after their end, and a few small ones with an ICC profile.
    special |= {"tail"} if data.count(b"IDAT") and b"IDAT" in data[data.find(b"IEND") :] else set()
    special |= {"icc"} if "icc_profile" in image.info and len(data) < 20_000 else set()
    return plain and not special and not large


# --- Orientations -------------------------------------------------------------------------------

# A camera that writes orientation N has turned the upright image so.
TURNED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def exif(target: pathlib.Path) -> None:
    """Write two photos in each EXIF orientation, and with 0, which EXIF does not define."""
    target.mkdir(parents=True)
    for family, photo, size in (
        ("Portrait", committed_photos("dress")[0], (288, 384)),
        ("Landscape", committed_photos("shoes")[0], (384, 256)),
    ):
        upright = covering(photo, size)
        for orientation in range(9):
            turn = TURNED.get(orientation)
            stored = upright if turn is None else upright.transpose(turn)
            tags = Image.Exif()
            tags[0x0112] = orientation
            tags[0x0128], tags[0x011A], tags[0x011B] = 2, 72.0, 72.0
            tags[0x0213] = 1
            stored.save(target / f"{family}_{orientation}.jpg", quality=90, exif=tags)


def committed_photos(*labels: str) -> list[pathlib.Path]:
    """Return the committed photos of some classes, or of all, in the order of their names."""
    found = [path for folder in (HERE / "clothing", DEMO) for path in folder.glob("*/*.jpg")]
    return sorted(
        (path for path in found if not labels or path.parent.name in labels),
        key=lambda path: path.name,
    )


def covering(photo: pathlib.Path, size: tuple[int, int]) -> Image.Image:
    """Scale a photo to cover a size, and crop it to that size."""
    with Image.open(photo) as image:
        scale = max(size[0] / image.width, size[1] / image.height)
        left = (image.width - size[0] / scale) / 2
        top = (image.height - size[1] / scale) / 2
        box = (left, top, left + size[0] / scale, top + size[1] / scale)
        return image.convert("RGB").resize(size, Image.Resampling.LANCZOS, box)


# --- Boxes --------------------------------------------------------------------------------------

SHAPES = ("circle", "rectangle", "triangle")  # by number of the category
# Number of images by the shapes that they show.
SHOWN = {(1,): 99, (1, 2): 39, (2,): 17, (0, 1, 2): 8, (0,): 4, (0, 1): 4}
COUNTS = {0: 18, 1: 741, 2: 156}  # boxes by category
IMAGE_SIZES = ((301, 400), (301, 400), (400, 267), (400, 225), (267, 400), (400, 300), (240, 240))
CROWDED = 80  # boxes of the image with most of them, about
SMALLEST = 4  # pixels of the side of a box


def boxes(target: pathlib.Path) -> None:
    """Draw shapes on photos, and write their boxes in COCO's format."""
    (target / "images").mkdir(parents=True)
    photos = committed_photos()
    coco = annotations()
    drawn: dict[int, list[dict]] = {image["id"]: [] for image in coco["images"]}
    for one in coco["annotations"]:
        drawn[one["image_id"]].append(one)
    for image in coco["images"]:
        size = (image["width"], image["height"])
        canvas = covering(photos[image["id"] % len(photos)], size)
        canvas = canvas.filter(ImageFilter.GaussianBlur(2))
        for one in drawn[image["id"]]:
            draw_shape(canvas, one)
        canvas.save(target / "images" / image["file_name"], quality=55, optimize=True)
    (target / "annotations.json").write_text(json.dumps(coco))


def draw_shape(canvas: Image.Image, annotation: dict) -> None:
    """Draw a shape that touches all four sides of its box, in a colour of its own."""
    x, y, width, height = annotation["bbox"]
    right, bottom = x + width - 1, y + height - 1
    number = annotation["id"]
    colour = (number * 67 % 256, number * 151 % 256, number * 211 % 256)
    draw = ImageDraw.Draw(canvas)
    match SHAPES[annotation["category_id"]]:
        case "circle":
            draw.ellipse((x, y, right, bottom), colour, (255, 255, 255))
        case "rectangle":
            draw.rectangle((x, y, right, bottom), colour, (255, 255, 255))
        case _:
            corners = [(x, bottom), ((x + right) // 2, y), (right, bottom)]
            draw.polygon(corners, colour, (255, 255, 255))


def annotations() -> dict:
    """Return the boxes of all images: 915, of three classes of which one is rare."""
    draw = random.Random(SEED).random
    shown = [shapes for shapes, count in SHOWN.items() for _ in range(count)]
    shown = sorted(shown, key=lambda _: draw())
    # One of each shape that an image shows; the rest go to few images, as crowds do.
    content = [[*shapes] for shapes in shown]
    for shape, count in COUNTS.items():
        holders = [n for n, shapes in enumerate(shown) if shape in shapes]
        while sum(one.count(shape) for one in content) < count:
            at = holders[int(len(holders) * draw() ** 4)]
            if len(content[at]) < CROWDED:
                content[at].append(shape)
    images, found = [], []
    for number, shapes in enumerate(content):
        width, height = IMAGE_SIZES[int(len(IMAGE_SIZES) * draw())]
        images.append(
            {"id": number, "license": 1, "file_name": f"shapes_{number:03}.v1.jpg"}
            | {"height": height, "width": width}
        )
        for shape in sorted(shapes, key=lambda _: draw()):
            box = place_box(width, height, crowd=len(shapes), draw=draw)
            found.append(
                {"id": len(found), "image_id": number, "category_id": shape, "bbox": box}
                | {"area": box[2] * box[3], "segmentation": [], "iscrowd": 0}
            )
    return {
        "info": {"version": "1", "description": "Shapes drawn on photos by tests/data/make.py"},
        "licenses": [
            {
                "id": 1,
                "name": "CC0 1.0",
                "url": "https://creativecommons.org/publicdomain/zero/1.0/",
            }
        ],
        "categories": [
            {"id": number, "name": name, "supercategory": "shape"}
            for number, name in enumerate(SHAPES)
        ],
        "images": images,
        "annotations": found,
    }


def place_box(width: int, height: int, *, crowd: int, draw: Callable[[], float]) -> list[int]:
    """Return x, y, width, height in whole pixels inside an image; one in eight ends at a side."""
    most = min(width, height) * 0.6 / math.sqrt(crowd)
    sides = [max(SMALLEST, round(most * (0.2 + 0.8 * draw()))) for _ in range(2)]
    x, y = (
        round((size - side) * draw()) for size, side in zip((width, height), sides, strict=True)
    )
    if draw() < 1 / 8:
        x, y = [(0, y), (width - sides[0], y), (x, 0), (x, height - sides[1])][int(4 * draw())]
    return [x, y, *sides]


# --- A table with a rare class ------------------------------------------------------------------

ROWS = {"'-1'": 10_923, "'1'": 260}
BLANK = 0.3  # share of the rows with the lowest value in each column


def imbalanced(target: pathlib.Path) -> None:
    """Write six columns of numbers and a class, without a header."""
    draw = random.Random(SEED).random
    labels = [label for label, count in ROWS.items() for _ in range(count)]
    labels = sorted(labels, key=lambda _: draw())
    lines = [",".join([*measured(label == "'1'", draw), label]) for label in labels]
    target.mkdir(parents=True)
    (target / "imbalanced.csv").write_text("\n".join(lines))  # the last line has no end


def measured(rare: bool, draw: Callable[[], float]) -> list[str]:
    """Return six numbers: skewed, some in steps, with a lowest value that many rows have."""

    def normal() -> float:
        return math.sqrt(-2 * math.log(1 - draw())) * math.cos(2 * math.pi * draw())

    def skewed(floor: float, scale: float, spread: float, step: float = 0.0) -> float:
        above = scale * math.exp(spread * normal())
        return floor + (step * math.ceil(above / step) if step else above)

    area, grey, gradient = -0.78441482, -0.47019533, -0.59163147
    noise, contrast, moment = -0.85955255, -0.37786573, -0.94572324
    if rare or draw() >= BLANK:
        area = skewed(area, 1.6 if rare else 0.7, 0.8)
        grey = skewed(grey, 0.2, 1.3, 0.0044237)
        gradient = skewed(gradient, 0.3 if rare else 0.6, 0.9, 0.0112718)
        if draw() < (0.95 if rare else 0.7):
            noise = (1.4 if rare else 0.9) + 0.5 * normal()
            moment = moment + 0.0052 * round((2.2 + 0.25 * normal()) / 0.0052)
        if draw() < (0.8 if rare else 0.33):
            contrast = skewed(contrast, 3.0 if rare else 1.2, 0.7)
    return [f"{value:.8g}" for value in (area, grey, gradient, noise, contrast, moment)]


# --- Video --------------------------------------------------------------------------------------


def video(target: pathlib.Path) -> None:
    """Encode as H.264 a camera that moves over photos, with a ball in front of them."""
    target.mkdir(parents=True)
    photos = committed_photos("outwear", "dress", "shirt")
    encode(
        target / "wide.mp4",
        (640, 272),
        Fraction(25),
        crf=18,
        frames=shots(photos[:6], 250, (640, 272)),
    )
    encode(
        target / "qcif.mp4", (176, 144), Fraction(30_000, 1001), crf=1,
        frames=shots(photos[6:7], 120, (176, 144)),
    )  # fmt: skip


def shots(
    photos: Sequence[pathlib.Path], count: int, size: tuple[int, int]
) -> Iterator[Image.Image]:
    """Yield the frames of one shot after another, each over a photo."""
    width, height = size
    for number in range(count):
        shot, at = number * len(photos) // count, number * len(photos) / count % 1
        photo = enlarged(photos[shot], size)
        zoom = 0.6 + 0.3 * math.sin(2 * at + shot)
        view = (width * zoom, height * zoom)
        left = (photo.width - view[0]) * (0.5 + 0.45 * math.sin(3 * at + shot))
        top = (photo.height - view[1]) * (0.5 + 0.45 * math.cos(4 * at + 2 * shot))
        box = (left, top, left + view[0], top + view[1])
        frame = photo.resize(size, Image.Resampling.BICUBIC, box)
        centre = (width * (0.1 + 0.8 * at), height * (0.8 - 0.6 * abs(math.sin(5 * at))))
        reach = height / 8
        draw = ImageDraw.Draw(frame)
        draw.ellipse(
            (centre[0] - reach, centre[1] - reach, centre[0] + reach, centre[1] + reach),
            fill=(40 + 30 * shot, 200 - 30 * shot, 90),
        )
        yield frame


@functools.cache
def enlarged(photo: pathlib.Path, size: tuple[int, int]) -> Image.Image:
    """Return a photo as wide as a frame at least, and half as high again."""
    return covering(photo, (size[0] + size[0] // 8, size[1] + size[1] // 2))


def encode(
    path: pathlib.Path,
    size: tuple[int, int],
    rate: Fraction,
    *,
    crf: int,
    frames: Iterator[Image.Image],
) -> None:
    """Write an MP4. One thread, because the number of threads changes the bytes."""
    import av

    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.options = {"crf": str(crf), "preset": "medium", "x264-params": "threads=1"}
        for number, frame in enumerate(frames):
            coded = av.VideoFrame.from_image(frame)
            coded.pts, coded.time_base = number, 1 / rate
            out.mux(stream.encode(coded))
        out.mux(stream.encode(None))


# --- TFRecord files that other code wrote -------------------------------------------------------

Value = int | float | bytes


def tfrecords(target: pathlib.Path) -> None:
    """Write records with plain Python, and with TensorFlow's own writer."""
    plain_tfrecords(target)
    colour, gray = (jpeg(photo, size, mode) for photo, size, mode in _jpegs())
    examples = [
        {"depth": [3], "height": [213], "image_raw": [colour], "label": [0], "width": [320]},
        {"depth": [1], "height": [239], "image_raw": [gray], "label": [1], "width": [194]},
    ]
    write_by_tensorflow(target / "tensorflow-images.tfrecord", examples)
    for split, sizes in (
        ("test", ((800, 600), (640, 427))),
        ("train", ((640, 853), (640, 560))),
        ("validation", ((800, 600), (320, 213))),
    ):
        examples = [
            raw_image(split, label, size) for label, size in zip((1, 0), sizes, strict=True)
        ]
        path = target / f"gzip-{split}-00000-of-00001.tfrecord.gz"
        frames = [frame(serialized(one)) for one in examples]
        if split == "test":
            write_by_tensorflow(path, examples, compression="GZIP")
        elif split == "train":
            path.write_bytes(gzip.compress(b"".join(frames), mtime=0))
        else:  # several members that do not begin where records begin
            data = b"".join(frames)
            cuts = [0, 1, 12, 700_000, len(frames[0]) + 5, len(data)]
            members = [gzip.compress(data[a:b], mtime=0) for a, b in itertools.pairwise(cuts)]
            path.write_bytes(b"".join(members))


def plain_tfrecords(target: pathlib.Path) -> None:
    """Write the files that contain no JPEG and no gzip, with the code below."""
    target.mkdir(parents=True)
    one = {"count": [17], "ratio": [2.5], "code": [b"XYZ"]}
    (target / "python-data.tfrecord").write_bytes(frame(serialized(one)))
    singles = [{"number": [300]}, {"ratio": [2.5]}, {"code": [b"WXYZ"]}]
    (target / "python-singles.tfrecord").write_bytes(
        b"".join(frame(serialized(single, packed=False)) for single in singles)
    )
    draw = random.Random(SEED).random
    records = []
    for number in range(42):
        features: dict[str, list[Value]] = {
            "feature0": [number % 2],
            "feature1": [int(5 * draw())],
            "feature2": [(b"cat", b"dog", b"chicken", b"horse", b"goat")[int(5 * draw())]],
            "feature3": [4 * draw() - 2],
        }
        order = sorted(features, key=lambda _: draw())
        records.append(frame(serialized({name: features[name] for name in order})))
    (target / "python-42.tfrecord").write_bytes(b"".join(records))


def _jpegs() -> Iterator[tuple[pathlib.Path, tuple[int, int], str]]:
    yield committed_photos("hat")[0], (320, 213), "RGB"
    yield committed_photos("skirt")[0], (194, 239), "L"


def jpeg(photo: pathlib.Path, size: tuple[int, int], mode: str) -> bytes:
    out = io.BytesIO()
    covering(photo, size).convert(mode).save(out, "JPEG", quality=95)
    return out.getvalue()


def raw_image(split: str, label: int, size: tuple[int, int]) -> dict[str, list[Value]]:
    """Return features of an image: pixels as base64, coarse, so that gzip makes them small."""
    name = ("pants", "hat")[label]
    photo = committed_photos(name)[("train", "validation", "test").index(split)]
    small = covering(photo, (size[0] // 4, size[1] // 4)).quantize(32).convert("RGB")
    pixels = small.resize(size, Image.Resampling.NEAREST).tobytes()
    return {
        "image": [base64.urlsafe_b64encode(pixels)],
        "image_channels": [3],
        "image_height": [size[1]],
        "image_name": [f"{name}-{size[0]}x{size[1]}.jpg".encode()],
        "image_width": [size[0]],
        "label": [label],
        "split": [split.upper().encode()],
    }


def write_by_tensorflow(
    path: pathlib.Path, examples: Sequence[dict[str, list[Value]]], *, compression: str = ""
) -> None:
    import tensorflow as tf

    def feature(values: list[Value]) -> tf.train.Feature:
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for features in examples:
            known = {name: feature(values) for name, values in features.items()}
            message = tf.train.Example(features=tf.train.Features(feature=known))
            writer.write(message.SerializeToString(deterministic=True))


# A second implementation of the formats, independent of recordmill's.
# Sources: https://www.tensorflow.org/tutorials/load_data/tfrecord (frames, tf.train.Example) and
# https://protobuf.dev/programming-guides/encoding/ (messages).


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def delimited(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message whose content is bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def serialized(features: dict[str, list[Value]], *, packed: bool = True) -> bytes:
    """Return a tf.train.Example, its features in the order given; numbers packed or one by one."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], bytes):
            kind, content = 1, b"".join(delimited(1, value) for value in values)
        elif isinstance(values[0], float):
            kind, coded = 2, [struct.pack("<f", value) for value in values]
            content = delimited(1, b"".join(coded)) if packed else b"\x0d" + b"\x0d".join(coded)
        else:
            kind, coded = 3, [varint(value) for value in values]
            content = delimited(1, b"".join(coded)) if packed else b"\x08" + b"\x08".join(coded)
        entry = delimited(1, name.encode()) + delimited(2, delimited(kind, content))
        entries += delimited(1, entry)
    return delimited(1, entries)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of bytes, rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    checks = (struct.pack("<I", masked_crc(data)) for data in (length, payload))
    return length + next(checks) + payload + next(checks)


# --- All of it ----------------------------------------------------------------------------------

Maker = Callable[[pathlib.Path], None]
FROM_PHOTOS: dict[str, Maker] = {
    "odd_images/exif": exif,
    "boxes": boxes,
    "imbalanced": imbalanced,
    "video": video,
    "tfrecords": tfrecords,
}
FROM_PUBLISHED: dict[str, Callable[[pathlib.Path, pathlib.Path], None]] = {
    "clothing": clothing,
    "clothing_small": clothing_small,
    "odd_images/pillow": pillow,
}


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the files that have a checksum: all files in sub-folders."""
    return sorted(
        path for path in folder.glob("*/**/*") if path.is_file() and path.suffix != ".pyc"
    )


def write_sums(folder: pathlib.Path) -> None:
    """Write a line for each file, as sha256sum does."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files(folder)
    ]
    (folder / SUMS).write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sets", nargs="*", metavar="SET", help=f"of {[*FROM_PHOTOS, *FROM_PUBLISHED]}"
    )
    parser.add_argument("--published", type=pathlib.Path, help="folder of the published files")
    parser.add_argument("--into", type=pathlib.Path, default=HERE, help="default: this folder")
    arguments = parser.parse_args()
    for name in arguments.sets or FROM_PHOTOS:
        target = arguments.into / name
        shutil.rmtree(target, ignore_errors=True)
        if name in FROM_PHOTOS:
            FROM_PHOTOS[name](target)
        elif name not in FROM_PUBLISHED:
            parser.error(f"expected a set of {[*FROM_PHOTOS, *FROM_PUBLISHED]}, got {name!r}")
        elif arguments.published is None:
            parser.error(
                f"{name} is chosen from published files: name their folder with --published"
            )
        else:
            FROM_PUBLISHED[name](arguments.published, target)
    write_sums(arguments.into)


if __name__ == "__main__":
    main()
