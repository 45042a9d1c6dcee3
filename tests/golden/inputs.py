"""Inputs of the golden matrix: each is made when a command names it, from fixed seeds.

Images are PNGs, so that their pixels do not depend on an encoder.
"""

from __future__ import annotations

import csv
import io
import json
import pathlib
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from PIL import Image

from tests.archive_files import tar_of, zip_of
from tests.folders import make_picture
from tests.media_tables import FORMS, bytes_table, hub_table
from tests.painted_masks import painted, png, shapes
from tests.painted_objects import coco, objects
from tests.paths import CLOTHING
from tests.tfrecord_inputs import write_records

Make = Callable[[pathlib.Path], None]
MAKERS: dict[str, Make] = {}  # {name: writes the file or folder of that name}


def makes(names: str) -> Callable[[Make], Make]:
    """Register the maker of inputs, which gets the folder that is to hold them.

    names: with spaces between them.
    """

    def register(make: Make) -> Make:
        MAKERS.update(dict.fromkeys(names.split(), make))
        return make

    return register


def lines_of(*rows: object) -> str:
    """Return rows as CSV; those that are lists or tuples are quoted where it is needed."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerows(row.split(",") if isinstance(row, str) else row for row in rows)
    return sink.getvalue()


def put(path: pathlib.Path, content: str | bytes) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


# Images

_CLASSES = {"dress": 12, "hat": 6, "shirt": 4}


def _pictures(folder: pathlib.Path, names: Iterable[str]) -> None:
    for number, name in enumerate(names):
        make_picture(folder / f"{name}.png", number)


def _photo_names(classes: Mapping[str, int] = _CLASSES) -> list[str]:
    return [f"{label}/{n:03d}" for label, count in classes.items() for n in range(count)]


@makes("photos")
def _photos(root: pathlib.Path) -> None:
    _pictures(root / "photos", _photo_names())


@makes("hats.txt")
def _hats(root: pathlib.Path) -> None:
    put(root / "hats.txt", "".join(f"photos/hat/{number:03}\n" for number in range(6)))


@makes("photos-by-id.csv photos-of-windows.csv")
def _ids(root: pathlib.Path) -> None:
    names = [name.split("/") for name in _photo_names()]
    rows = [(kind, number, n % 4) for n, (kind, number) in enumerate(names)]
    put(root / "photos-by-id.csv", lines_of("kind,id,fold", *rows))
    of_windows = [(f"photos\\{kind}\\{number}.png", kind) for kind, number in names]
    put(root / "photos-of-windows.csv", lines_of("file,label", *of_windows))
    if not (root / "photos").exists():
        _photos(root)


@makes("food-101")
def _lists_of_splits(root: pathlib.Path) -> None:
    """Food-101's layout of images and lists, whose lines have a further field here."""
    names = _photo_names()
    _pictures(root / "food-101/images", names)
    for split, some in (("test", names[::4]), ("train", [n for n in names if n not in names[::4]])):
        lines = "".join(f"{name} 1\n" for name in some)
        put(root / f"food-101/meta/{split}.txt", lines)


@makes("jpegs")
def _jpegs(root: pathlib.Path) -> None:
    shutil.copytree(CLOTHING, root / "jpegs")


@makes("twins")
def _twins(root: pathlib.Path) -> None:
    """Photos, copies of some under other names and classes, and smaller versions of others."""
    chosen = sorted(CLOTHING.rglob("*.jpg"))[::6]
    for number, path in enumerate(chosen):
        with Image.open(path) as image:
            label = "ab"[number % 2]
            put(root / f"twins/{label}/{number:02}.png", png(image.convert("RGB")))
            if number % 4 == 0:
                put(root / f"twins/{label}/{number:02}-copy.png", png(image.convert("RGB")))
            if number % 5 == 0:
                put(root / f"twins/{'ba'[number % 2]}/{number:02}-other.png", png(image))
            if number % 3 == 0:
                half = image.resize((image.width // 2, image.height // 2))
                put(root / f"twins/{label}/{number:02}-half.png", png(half))


def _listing(paths: Sequence[str]) -> list[list[object]]:
    """Rows of path, species, animal, weight, split, year and note, of which some are odd."""
    splits = ("train", "train", "train", "dev", "test")
    rows = [
        [path, path.partition("/")[0], f"animal {n // 2}", n % 3 + 1, splits[n % 5], 2000 + n % 4,
         "" if n % 6 == 0 else f"note, {n % 3}"]
        for n, path in enumerate(paths)
    ]  # fmt: skip
    return [["file", "species", "animal", "weight", "split", "year", "note"], *rows]


@makes("photos.csv photos.jsonl photos.parquet plain-photos.csv")
def _listings(root: pathlib.Path) -> None:
    header, *rows = _listing([f"{name}.png" for name in _photo_names()])
    missing = ["hat/none.png", "hat", "animal 0", 1, "train", 2000, ""]
    outside = ["../secret.png", "hat", "animal 0", 1, "train", 2000, ""]
    blank = [rows[3][0].replace("003", "004"), "", "animal 9", 1, "test", 2000, ""]
    odd = [*rows, rows[0], missing, outside, blank]
    put(root / "photos.csv", lines_of([*header[:4], *header[5:]], *(r[:4] + r[5:] for r in rows)))
    put(root / "plain-photos.csv", lines_of(header, *odd))
    objects_ = [dict(zip(header, row, strict=True)) for row in odd]
    put(root / "photos.jsonl", "".join(f"{json.dumps(one)}\n" for one in objects_))
    columns = {name: [row[n] for row in rows] for n, name in enumerate(header)}
    pq.write_table(pa.table(columns), root / "photos.parquet", row_group_size=5)


@makes("labels.csv")
def _labels(root: pathlib.Path) -> None:
    rows = [(f"{name}.png", name[:3]) for name in _photo_names()]
    put(root / "labels.csv", lines_of("path,label", *rows))


def _photo_files() -> dict[str, bytes]:
    found = {}
    for number, name in enumerate(_photo_names({"dress": 6, "hat": 4})):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 10, 3), np.uint8)
        found[f"{name}.png"] = png(Image.fromarray(np.repeat(np.repeat(pixels, 4, 0), 4, 1)))
    return found


@makes("photos.tar photos.zip parts nested.tar")
def _archives(root: pathlib.Path) -> None:
    (root / "parts").mkdir()
    files = _photo_files() | {f"shirt/{n:03d}.png": b"no image" for n in range(1)}
    whole = {f"{name}.png": one for name, one in zip(_photo_names(), _many(files), strict=True)}
    tar_of(root / "photos.tar", {f"./{name}": one for name, one in whole.items()})
    zip_of(root / "photos.zip", whole)
    for number in range(2):
        tar_of(root / f"parts/{number}.tar", dict([*whole.items()][number::2]))
    link = tarfile.TarInfo("train/hat/link.png")
    link.type, link.linkname = tarfile.SYMTYPE, "../dress/000.png"
    splits = {
        f"{'test' if n % 4 == 0 else 'train'}/{k}": v for n, (k, v) in enumerate(whole.items())
    }
    tar_of(root / "nested.tar", splits, others=[link], form=tarfile.GNU_FORMAT)


def _many(files: Mapping[str, bytes]) -> list[bytes]:
    """Return as many images as there are photos, each another one."""
    found = []
    for number in range(len(_photo_names())):
        pixels = np.random.default_rng(number).integers(0, 255, (4, 5, 3), np.uint8)
        found.append(png(Image.fromarray(np.repeat(np.repeat(pixels, 6, 0), 6, 1))))
    return found


@makes("shards")
def _webdataset(root: pathlib.Path) -> None:
    """Shards of WebDataset: classes in .cls and .json."""
    (root / "shards").mkdir()
    for shard in range(2):
        members = {}
        for number, (name, content) in enumerate(_photo_files().items()):
            if number % 2 == shard:
                label = name.partition("/")[0]
                members[f"{number:04}.png"] = content
                members[f"{number:04}.cls"] = label.encode()
                members[f"{number:04}.json"] = json.dumps({"species": f"{label}s", "n": 1}).encode()
        tar_of(root / f"shards/{shard}.tar", members)


@makes("scans")
def _scans(root: pathlib.Path) -> None:
    for number in range(8):
        pixels = np.random.default_rng(number).integers(0, 4000, (20, 30)).astype(np.uint16)
        put(root / f"scans/{'ab'[number % 2]}/{number}.png", png(Image.fromarray(pixels)))


@makes("masks gray-masks odd-masks twice-masks classes.txt masked apart camvid pascal")
def _masks(root: pathlib.Path) -> None:
    """Masks of the photos: of ids, in grays, with one missing and one of another size, and with two
    for one photo. Images with masks beside them: by suffix, by folder and split (also in another
    folder), and by folder with masks of colours.
    """
    put(root / "classes.txt", "background\none\ntwo\nthree\n")
    names = _photo_names()
    for number, name in enumerate(names):
        mask = png(Image.fromarray(shapes(number, (40, 30))))
        put(root / f"masks/{name}.png", mask)
        put(root / f"gray-masks/{name}.png", png(Image.fromarray(shapes(number, (40, 30)) * 85)))
        for extension in ("png", "gif") if number == 2 else ("png",):
            put(root / f"twice-masks/{name}.{extension}", mask)
        if number == 3:
            mask = png(Image.fromarray(shapes(number, (41, 30))))
        if number != 5:
            put(root / f"odd-masks/{name}.png", mask)
    for number in range(8):
        ids = shapes(number, (40, 30))
        put(root / f"masked/{number}.png", png(painted(ids)))
        put(root / f"masked/{number}_mask.png", png(Image.fromarray(ids)))
        split, name = ("train", "val", "test")[number % 3], f"{number // 3}.png"
        put(root / f"camvid/{split}/{name}", png(painted(ids)))
        put(root / f"camvid/{split}annot/{name}", png(Image.fromarray(ids)))
        put(root / f"apart/images/{split}/{name}", png(painted(ids)))
        put(root / f"apart/drawn/{split}/{name}", png(Image.fromarray(ids)))
        put(root / f"pascal/JPEGImages/{number}.png", png(painted(ids)))
        for folder in ("SegmentationClass", "SegmentationObject"):
            put(root / f"pascal/{folder}/{number}.png", png(painted(ids)))
    colours = "sky:0,0,0::\nroad:255,0,0::\ncar:0,255,0::\nbus:0,0,255::\n"
    put(root / "pascal/labelmap.txt", f"# label:color_rgb:parts:actions\n{colours}")


@makes(
    "coco odd-coco instances.json odd-instances.json train2017 instances_train2017.json "
    "captions_train2017.json voc yolo boxes.csv fractions.csv roboflow ultralytics "
    "coco-splits keypoints.json hub-boxes captions.csv captions.json by-image.json captioned "
    "odd-captions.token labelme labelme-flags cvat.xml hub-tables coco-names csv-splits dota pose "
    "odd-yolo coco-and-ids coco-and-yolo"
)
def _annotated(root: pathlib.Path) -> None:
    """Images with objects, and their annotations in each format."""
    annotated = {}
    for number in range(10):
        name, size = f"{number:02}.png", (40 + number, 50)
        ids, annotations = objects(number, size)
        annotated[name] = size, annotations
        for folder in ("coco", "train2017", "odd-coco"):
            put(root / folder / name, png(painted(ids)))
    make_picture(root / "odd-coco" / "plain.png", 77)
    found = coco(annotated)
    for name in ("instances.json", "instances_train2017.json"):
        put(root / name, json.dumps(found))
    captions = [{"id": n, "image_id": n // 2, "caption": f"caption {n}"} for n in range(20)]
    put(root / "captions_train2017.json", json.dumps({**found, "annotations": captions}))
    texts = [f"{name},{text} {name}" for name in annotated for text in ("one", "two")]
    put(root / "captions.csv", "\n".join(["image,caption", *texts, ""]))
    by_image = {name: [f"one {name}", f"two {name}"] for name in annotated}
    put(root / "by-image.json", json.dumps(by_image, indent=1))
    for name in annotated:
        split = "test" if name == "03.png" else "train"
        put(root / f"captioned/images/{split}/{name}", (root / "coco" / name).read_bytes())
        put(root / f"captioned/captions/{split}/{name[:-4]}.txt", f"one {name}\ntwo {name}\n")
    entries = [dict(zip(("file_name", "caption"), one.split(","), strict=True)) for one in texts]
    put(root / "captions.json", json.dumps([*entries, {"file_name": "00.png"}], indent=1))
    tokens = [f"{name}#{n}{' ' if n else chr(9)}{n} {name}" for name in annotated for n in (0, 1)]
    put(root / "odd-captions.token", "\n".join(["no token", *tokens, "00.png no number", ""]))
    found["annotations"][4]["bbox"] = [-4, 3, 20, 9]
    found["images"].append({"id": 99, "file_name": "gone.png", "width": 4, "height": 4})
    put(root / "odd-instances.json", json.dumps(found))
    rows: list[object] = ["image,label,xmin,ymin,xmax,ymax"]
    tables: dict[str, list[object]] = {"train": [], "valid": []}
    for name, ((width, height), some) in annotated.items():
        stem, voc, yolo, dota, pose = name[:-4], "", "", "", ""
        split = "valid" if int(stem) % 4 == 1 else "train"
        for one in some:
            x, y, w, h = one["bbox"]
            label = one["category_id"]
            rows.append((name, f"kind {label}", x, y, x + w, y + h))
            tables[split].append((name, x, y, x + w, y + h, f"kind {label}"))
            diamond = (x, y + h / 2, x + w / 2, y, x + w, y + h / 2, x + w / 2, y + h)
            dota += f"{' '.join(map(str, diamond))} k{label}\n"
            ends = (
                f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>"
            )
            voc += f"<object><name>kind {label}</name><bndbox>{ends}</bndbox></object>"
            yolo += f"{label - 1} {(x + w / 2) / width:.6f} {(y + h / 2) / height:.6f}"
            yolo += f" {w / width:.6f} {h / height:.6f}\n"
            pose += yolo.splitlines()[-1] + f" {x / width:.6f} {y / height:.6f} 2 0 0 0\n"
        size = f"<size><width>{width}</width><height>{height}</height></size>"
        put(
            root / f"voc/{stem}.xml",
            f"<annotation><filename>{name}</filename>{size}{voc}</annotation>",
        )
        put(root / f"yolo/{stem}.txt", yolo)
        put(root / f"coco-and-yolo/labels/{stem}.txt", yolo)
        image = (root / "coco" / name).read_bytes()
        put(root / f"csv-splits/{split}/{name}", image)
        for folder, text in (
            ("dota/labelTxt", dota),
            ("pose/labels", pose),
            ("odd-yolo/labels", yolo),
        ):
            put(root / f"{folder.partition('/')[0]}/images/{name}", image)
            put(root / f"{folder}/{stem}.txt", text)
        for place in (f"roboflow/{split}/%s", f"ultralytics/%s/{split}"):
            put(root / (place % "images") / name, image)
        put(root / f"roboflow/{split}/labels/{stem}.txt", yolo)
        star = some[0]["segmentation"][0]
        points = (c / (height, width)[n % 2 == 0] for n, c in enumerate(star))
        polygon = "0.000000 " + " ".join(f"{min(max(c, 0), 1):.6f}" for c in points)
        put(root / f"ultralytics/labels/{split}/{stem}.txt", f"{polygon} 0.5\n")
    points = ["nose", "left eye", "right eye"]
    pointed = [
        {**one, "keypoints": [*one["bbox"][:2], 2, 0, 0, 0, 20 + n % 9, 12, 1]}
        for n, one in enumerate(found["annotations"][:20])
    ]
    persons = [{**one, "keypoints": points} for one in found["categories"][:2]]
    more = {"annotations": pointed, "categories": [*persons, found["categories"][2]]}
    put(root / "keypoints.json", json.dumps({**found, **more}))
    held = [
        {
            "image": {"bytes": (root / "coco" / name).read_bytes(), "path": name},
            "objects": {
                "bbox": [list(map(float, one["bbox"])) for one in some],
                "category": [one["category_id"] for one in some],
            },
        }
        for name, (_, some) in annotated.items()
    ]
    (root / "hub-tables").mkdir()
    pq.write_table(pa.Table.from_pylist(held[:7]), root / "hub-tables" / "train.parquet")
    pq.write_table(pa.Table.from_pylist(held[7:]), root / "hub-tables" / "test.parquet")
    cvat = "".join(f"<label><name>kind {n}</name></label>" for n in (1, 2, 3))
    cvat = f"<annotations><meta><task><labels>{cvat}</labels></task></meta>"
    for name, ((width, height), some) in annotated.items():
        x, y, w, h = some[1]["bbox"]
        star = np.reshape(some[0]["segmentation"][0], (-1, 2)).round(3).tolist()
        shapes_of = [
            {"label": "kind 1", "points": star, "shape_type": "polygon"},
            {"label": "kind 2", "points": [[x, y], [x + w, y + h]], "shape_type": "rectangle"},
        ]
        sides = {"imageWidth": width, "imageHeight": height}
        put(root / f"labelme/{name[:-4]}.json", json.dumps({"shapes": shapes_of, **sides}))
        flags = {f"kind {n}": int(name[:2]) % 3 == n for n in (1, 2)}
        document = json.dumps({"flags": flags, "shapes": [], **sides})
        put(root / f"labelme-flags/{name[:-4]}.json", document)
        points = ";".join(f"{a},{b}" for a, b in star)
        cvat += f'<image name="{name}" width="{width}" height="{height}">'
        cvat += f'<polygon label="kind 1" occluded="1" points="{points}"/>'
        box = f'xtl="{x}" ytl="{y}" xbr="{x + w}" ybr="{y + h}"'
        cvat += f'<box label="kind 2" {box} rotation="15.5"/></image>'
    put(root / "cvat.xml", f"{cvat}</annotations>")
    for folder in ("coco-and-ids", "coco-and-yolo"):
        put(root / folder / "instances.json", (root / "instances.json").read_bytes())
    put(root / "coco-and-ids/category_ids.txt", "1 kind 1\n2 kind 2\n")
    for split, part in (("train", range(6)), ("test", range(6, 10))):
        lines = []
        for number in part:
            name = f"{number:02}.png"
            put(root / f"hub-boxes/{split}/{name}", (root / "coco" / name).read_bytes())
            some = annotated[name][1][: number % 3]
            boxes = [one["bbox"] for one in some]
            kinds = [one["category_id"] - 1 for one in some]
            lines.append({"file_name": name, "objects": {"bbox": boxes, "category": kinds}})
        put(root / f"hub-boxes/{split}/metadata.jsonl", "\n".join(map(json.dumps, lines)))
    for number, split in enumerate(("train", "valid")):
        one = {f"{n}.png": annotated[f"{4 * number + n:02}.png"] for n in range(4)}
        for n, name in enumerate(one):
            image = (root / "coco" / f"{4 * number + n:02}.png").read_bytes()
            put(root / f"coco-splits/{split}/{name}", image)
            put(root / f"coco-names/{split}/{name}", image)
        put(root / f"coco-names/instances_{split}.json", json.dumps(coco(one)))
        of_split = coco({**one, "gone.png": ((4, 4), [])})
        of_split["categories"] = [{**c, "id": c["id"] + number} for c in of_split["categories"]]
        for entry in of_split["annotations"]:
            entry["category_id"] += number
        put(root / f"coco-splits/{split}/_annotations.coco.json", json.dumps(of_split))
    put(root / "yolo/classes.txt", "kind 1\nkind 2\nkind 3\n")
    for split, some_rows in tables.items():
        put(root / f"csv-splits/{split}/_annotations.csv", lines_of(*some_rows))
    names = "names: [kind 1, kind 2, kind 3]\n"
    put(root / "pose/data.yaml", f"{names}kpt_shape: [2, 3]\nflip_idx: [1, 0]\n")
    put(root / "odd-yolo/_darknet.labels", "kind 1\nkind 2\nkind 3\n")
    put(root / "odd-yolo/images/03.txt", "")  # a second file of an image
    put(root / "odd-yolo/images/04.jfif", (root / "coco" / "05.png").read_bytes())
    put(root / "roboflow/data.yaml", "nc: 3\nnames: [kind 1, kind 2, kind 3]\n")
    put(root / "ultralytics/data.yaml", "names:\n  0: kind 1\n  1: kind 2\n")
    put(root / "boxes.csv", lines_of(*rows))
    parts = [(name, "kind 1", 0.1, 0.2, 0.5, 0.9) for name in annotated]
    put(root / "fractions.csv", lines_of(rows[0], *parts))


@makes("hub tables export")
def _media_tables(root: pathlib.Path) -> None:
    """Tables that hold the photos, in each form."""
    files = _photo_files()
    for folder in ("hub/data", "export"):
        (root / folder).mkdir(parents=True)
        for number in range(2):
            path = root / folder / f"train-{number:05}-of-00002.parquet"
            pq.write_table(hub_table(files).slice(number * 5, 5), path)
    for form in ("arrow", "lines", "objects", "csv"):
        (root / "tables" / form).mkdir(parents=True)
        FORMS[form](files, root / "tables" / form)
    odd = bytes_table({**files, "hat/bad.png": b"no image", "hat/empty.png": b""})
    pq.write_table(odd, root / "tables/odd.parquet", row_group_size=3)


@makes("records records.gz tf-shards names.txt row-records")
def _tfrecords(root: pathlib.Path) -> None:
    """TFRecord files of other programs: of images, gzipped, damaged, of raw pixels, and of rows."""
    records = [
        {"id": [name.encode()], "image_raw": [content], "kind": [name.partition("/")[0].encode()],
         "side": [n, n + 1], "score": [n / 4]}
        for n, (name, content) in enumerate(_photo_files().items())
    ]  # fmt: skip
    for number in range(2):
        write_records(root / f"records/a-{number:05}-of-00002.tfrecord", records[number::2])
    write_records(root / "records.gz/train-1.tfrecord.gz", records[:6], compressed=True)
    write_records(root / "records.gz/test-1.tfrecord.gz", records[6:], compressed=True)
    put(root / "names.txt", "round\nsquare\n")
    for n, name in enumerate(("train-0", "train-1", "val-0")):
        some = [{"kind": [k % 2], "pixels": [bytes([n, k, 2, 3])]} for k in range(5)]
        write_records(root / f"tf-shards/{name}.tfrecord", some)
    rows = [
        {
            "label": [b"ab"[k % 2 : k % 2 + 1]],
            "x": [float(k)],
            "n": [k] * (k % 3),
            "word": [b"w%d" % (k % 4)],
        }
        for k in range(40)
    ]
    path = write_records(root / "row-records/rows.tfrecord", rows)
    damaged = bytearray(path.read_bytes())
    damaged[-30] ^= 1
    put(root / "row-records/damaged.tfrecord", bytes(damaged))


@makes("keys.txt same-file.csv part.csv some one-folder.tar class-archives samples.tar odd-names")
def _noted(root: pathlib.Path) -> None:
    """Inputs of which a note, or a reject of its name, says something."""
    files = _photo_files()
    put(root / "keys.txt", "dress/001.png\nnone.png\n")
    for name, content in files.items():
        put(root / "some" / name, content)
    rows = [(f"some/{name}", name[:3]) for name in files]
    put(root / "part.csv", lines_of("path,label", *rows[::2]))
    put(root / "same-file.csv", lines_of("path,label", *rows, (f"./{rows[0][0]}", "dre")))
    tar_of(root / "one-folder.tar", {f"photos/{name}": one for name, one in files.items()})
    (root / "class-archives").mkdir()
    for label in ("dress", "hat"):
        chosen = {name.replace("/", "-"): one for name, one in files.items() if label in name}
        zip_of(root / f"class-archives/{label}.zip", chosen)
    pairs = {}
    for number, content in enumerate(files.values()):
        pairs |= {f"{number}.png": content, f"{number}.seg.png": content}
        pairs[f"{number}.cls"] = b"ab"[number % 2 : number % 2 + 1]
    tar_of(root / "samples.tar", pairs)
    for name in ("a/1", "a/2", "b c/3", "b c/4"):
        make_picture(root / f"odd-names/{name}.png", int(name[-1]))
    make_picture(root / "odd-names/line\nbreak/5.png", 5)
    (root / "odd-names/a/loop").symlink_to("../a")
    with open(bytes(root / "odd-names/a") + b"/\xff.png", "wb") as sink:
        sink.write(files["hat/000.png"])


# What each data type makes of the same names of folders and files

_NAMES = {
    "split-folders": [f"{s}/{c}/{n}" for s in ("train", "dev", "eval") for c in "ab" for n in "12"],
    "beside-splits": ["train/a/1", "train/b/2", "test/a/1", "extra/a/1"],
    "misspelt-splits": ["train/a/1", "tset/a/2", "validation/b/3"],
    "partitions": [f"split={s}/kind={k}/1" for s in ("train", "test") for k in "abc"],
    "hive": [f"year={2024 + n}/label={'ab'[n]}/1" for n in (0, 1)],
    "years": [f"{y}/{c}/{n}" for y in (2025, 2026) for c in ("cat", "dog") for n in (1, 2, 3)],
    "flat": [f"{n}" for n in range(9)],
    "case-classes": [f"{c}/{n}" for c in ("Cat", "cat", "dog ", "dog", "none") for n in (1, 2, 3)],
    "runs": [f"{c}_{n}" for c in ("walk", "run") for n in range(6)],
}  # fmt: skip


def _text(path: pathlib.Path, number: int) -> None:
    put(path.with_suffix(".txt"), f"text number {number}\nwith words {number % 3}\n")


def _array(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path.with_suffix(".npy"), np.arange(number, number + 4))


def _image(path: pathlib.Path, number: int) -> None:
    make_picture(path.with_suffix(".png"), number)


def _rows(path: pathlib.Path, number: int) -> None:
    rows = [(f"{number}.{row}", "ab"[row % 2], f"word {row % 3}") for row in range(6)]
    put(path.with_suffix(".csv"), lines_of("x,label,text", *rows))


def _series(path: pathlib.Path, number: int) -> None:
    rows = [(f"2026-01-01 00:00:{row:02}", f"{number}.{row}") for row in range(12)]
    put(path.with_suffix(".csv"), lines_of("time,x", *rows))


def _sound(path: pathlib.Path, number: int) -> None:
    from tests.sounds import write

    write(path.with_suffix(".wav"), np.sin(np.arange(800) * (number + 5) / 80).astype("f4"), 8000)


def _film(path: pathlib.Path, number: int) -> None:
    from tests.video_files import make_film

    make_film(path.with_suffix(".mp4"), 8, size=(32, 48), offset=5 * number)


_FORMS: Mapping[str, Callable[[pathlib.Path, int], None]] = {
    "images": _image, "texts": _text, "arrays": _array, "tables": _rows, "series": _series,
    "sounds": _sound, "films": _film,
}  # fmt: skip


def _named(form: str, kind: str) -> Make:
    def make(root: pathlib.Path) -> None:
        for number, name in enumerate(_NAMES[kind]):
            _FORMS[form](root / f"{form}-{kind}" / name, number)

    return make


for _form in _FORMS:
    for _kind in _NAMES:
        MAKERS[f"{_form}-{_kind}"] = _named(_form, _kind)


@makes("runs")
def _runs(root: pathlib.Path) -> None:
    for number, name in enumerate(_NAMES["runs"]):
        _array(root / "runs" / name, number)
