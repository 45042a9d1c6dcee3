"""A small dataset of every kind that can be made, out of real data."""

import atexit
import csv
import functools
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image

from recordmill.pipelines.cli import main
from tests.beam_reuse import reused_options
from tests.image_runs import Made, encoders_kept
from tests.painted_masks import painted, png, write
from tests.painted_objects import coco, objects
from tests.paths import AIR, BOXES, DEMO, SMS
from tests.video_files import make_film

_SERIES_ROWS = 400
VALUES = ("--array-format", "values", "--dtype", "float32", "--cast", "same-kind")

Make = Callable[[pathlib.Path], list[object]]  # of a place for data


def _texts(place: pathlib.Path) -> pathlib.Path:
    lines = SMS.read_bytes().splitlines(keepends=True)
    path = place / "sms.tsv"
    path.write_bytes(b"".join(lines[:120]))
    return path


def _people(place: pathlib.Path) -> pathlib.Path:
    """Rows with values that are missing, texts, dates and numbers."""
    rows = ["name,age,height,born,member,team"]
    for number in range(60):
        age = "" if number % 7 == 0 else number % 60
        word = "" if number % 5 == 0 else f"né{number % 9}"
        team = ("red", "blue")[number % 3 == 0]
        rows.append(f"{word},{age},{number / 8},2024-01-{number % 28 + 1:02},true,{team}")
    path = place / "people.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def _hours(place: pathlib.Path) -> pathlib.Path:
    """Hours of the air of a town, with a class: whether there is more benzene than in most."""
    lines = AIR.read_text().splitlines()
    rows = ["time,benzene,heat,humidity,air"]
    for line in lines[1 : _SERIES_ROWS + 1]:
        cells = [re.sub(",", ".", cell) for cell in line.split(";")]
        day, month, year = cells[0].split("/")
        air = "bad" if float(cells[5]) > 10 else "good"
        time = f"{year}-{month}-{day} {cells[1].replace('.', ':')}"
        rows.append(",".join([time, cells[5], cells[12], cells[13], air]))
    path = place / "hours.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def _pictures(*options: object) -> Make:
    return lambda place: ["images", "--input", DEMO, *options]


def _boxes(*options: object) -> Make:
    annotations = BOXES / "annotations.json"
    return lambda _: ["images", "--input", BOXES, "--annotations", annotations, *options]


def _text(*options: object) -> Make:
    return lambda place: [
        *("text", "--input", _texts(place), "--format", "tsv"),
        *("--tokenizer", "words", *options),
    ]


def _pairs(*options: object) -> Make:
    """Pairs of texts: the two halves of each message."""

    def command(place: pathlib.Path) -> list[object]:
        path = place / "pairs.csv"
        with path.open("w", newline="", encoding="utf-8") as sink:
            writer = csv.writer(sink)
            writer.writerow(["label", "first", "second"])
            for line in _texts(place).read_text(encoding="utf-8").splitlines():
                label, _, text = line.partition("\t")
                middle = text.find(" ", len(text) // 2)
                writer.writerow([label, text[:middle], text[middle:]])
        return ["text", "--input", path, "--text-columns", "first,second", *options]

    return command


def _table(*options: object) -> Make:
    return lambda place: [*("table", "--input", _people(place), "--label-column", "team", *options)]


def _series(*options: object) -> Make:
    return lambda place: [
        *("sensor", "--input", _hours(place), "--time-column", "time"),
        *("--split-by", "time", "--window", 12, "--stride", 4, *options),
    ]


def _arrays(*options: object) -> Make:
    """Arrays of two classes, of the shape [4 to 6, 5, 1 to 2]."""

    def command(place: pathlib.Path) -> list[object]:
        draw = np.random.default_rng(5)
        for number in range(40):
            folder = place / "arrays" / ("odd", "even")[number % 2 == 0]
            folder.mkdir(parents=True, exist_ok=True)
            array = draw.normal(size=(4 + number % 3, 5, 1 + number % 2)).astype(">f4")
            array[0, 0] = np.nan if "--nan" in options else np.inf
            np.save(folder / f"{number}.npy", array if number % 5 else np.asfortranarray(array))
        return ["arrays", "--input", place / "arrays", *options]

    return command


def _stack(array: np.ndarray, *options: object) -> Make:
    """Items of an array, of three classes."""

    def command(place: pathlib.Path) -> list[object]:
        labels = np.array(["low", "mid", "high"])[np.arange(len(array)) % 3]
        np.savez(place / "stack.npz", x=array, y=labels)
        return [
            *("arrays", "--input", place / "stack.npz", "--array", "x", "--label-array", "y"),
            *("--per-item", *options),
        ]

    return command


def _clips(*options: object, sizes: tuple[tuple[int, int], ...] = ((48, 64),)) -> Make:
    """Clips of films of two classes."""

    def command(place: pathlib.Path) -> list[object]:
        for number in range(10):
            path = place / "films" / ("odd", "even")[number % 2 == 0] / f"{number}.mp4"
            make_film(path, 14 + number, size=sizes[number % len(sizes)], offset=9 * number)
        return ["video", "--input", place / "films", "--clip-frames", 4, *options]

    return command


def _masks(*options: object) -> Make:
    """Images with masks of classes and of objects."""

    def command(place: pathlib.Path) -> list[object]:
        annotated = {}
        for number in range(20):
            name, size = f"{number}.png", (40 + number, 50)
            ids, annotated[name] = objects(number, size)[0], (size, objects(number, size)[1])
            write(place, f"images/{name}", png(painted(ids)))
            write(place, f"masks/{name}", png(Image.fromarray(ids)))
        (place / "coco.json").write_text(json.dumps(coco(annotated)))
        return [
            *("images", "--input", place / "images", "--masks", place / "masks"),
            *("--annotations", place / "coco.json", "--instance-masks", *options),
        ]

    return command


def _sounds(*options: object) -> Make:
    def command(place: pathlib.Path) -> list[object]:
        from tests.sounds import speech  # it needs the extra `audio`

        folder = speech(place / "speech", speakers=9)
        rate = () if "encoded" in options else ("--sample-rate", 8000)
        return ["audio", "--input", folder, *rate, *options]

    return command


KINDS: dict[str, Make] = {
    "pictures": _pictures("--size", 32, "--balance", "oversample", "--num-shards", "train=3"),
    "pictures-as-they-are": _pictures("--resize-mode", "none"),
    "grey-png-gzip": _pictures(
        *("--size", "20x30", "--mode", "gray", "--image-format", "png", "--compression", "gzip")
    ),
    "raw": _pictures("--size", 16, "--image-format", "raw"),
    "raw-floats": _pictures(
        *("--size", 16, "--image-format", "raw", "--normalize", "signed", "--one-hot-label")
    ),
    "raw-of-any-size": _pictures("--resize-mode", "none", "--image-format", "raw"),
    "renamed": _pictures(
        *("--resize-mode", "none", "--image-format", "raw", "--rename", "image/encoded=image_raw"),
        *("--rename", "image/height=height", "--rename", "image/width=width"),
    ),
    "boxes": _boxes("--size", 32, "--resize-mode", "pad", "--balance", "oversample"),
    "masks": _masks("--size", 32, "--resize-mode", "pad"),
    "masks-of-any-size": _masks("--rename", "image/height=h", "--no-segmentation"),
    "text": _text("--features", "text,tokens,tfidf"),
    "text-pairs-of-one-length": _pairs("--tokenizer", "words", "--max-length", 16),
    "packed-text": _text("--pack", 64),
    "table": _table("--zscore", "height", "--one-hot", "name", "--impute", "age=mean"),
    "table-with-gaps": _table(),
    "windows": _series(
        *("--label-column", "air", "--window-label", "last"),
        *("--horizon", 3, "--target", "heat,humidity", "--zscore", "heat", "--zscore-by", "series"),
    ),
    "windows-in-sequences": _series(
        *("--label-column", "air", "--window-label", "last", "--sequence-example"),
        *("--horizon", 2, "--target", "heat"),
    ),
    "arrays": _arrays("--num-shards", "train=3"),
    "arrays-renamed": _arrays("--rename", "array/shape=s", "--rename", "array/encoded=x"),
    "arrays-in-chunks": _arrays(*("--chunk", 2, "--chunk-axis", 1, "--nan", "zero")),
    "arrays-as-values": _arrays("--array-format", "values", "--balance", "oversample"),
    "arrays-as-rows": _arrays("--array-format", "values", *("--chunk", 1, "--chunk-axis", 2)),
    "items": _stack(np.arange(480, dtype=">u2").reshape(40, 3, 4)),
    "items-of-unsigned": _stack(np.arange(120, dtype="u8").reshape(40, 3) << np.uint64(40)),
    "items-as-values": _stack(np.arange(240).reshape(40, 3, 2) % 7, "--array-format", "values"),
    "items-as-long-values": _stack(np.ones((39, 3)), *VALUES),
    "items-of-one-number": _stack(np.arange(40) * (1 + 2j)),
    "clips": _clips("--size", 32, "--clip-stride", 3, "--balance", "oversample"),
    "clips-of-any-size": _clips("--rename", "image/encoded=x", sizes=((48, 64), (32, 40))),
    "raw-clips": _clips("--image-format", "raw", "--size", "20x24", "--clip-rest", "pad"),
    "raw-clips-of-any-size": _clips(
        *("--image-format", "raw", "--mode", "gray", "--fps", 10, "--rename", "clip/shape=s"),
        sizes=((48, 64), (32, 40)),
    ),
    "waveforms-of-any-length": _sounds("--rename", "audio/shape=s", "--dtype", "int16"),
    "spectrograms-of-any-length": _sounds("--features", "melspectrogram", "--mel-bins", 8),
    "audio-clips": _sounds(
        *("--mono", "--clip", "100ms", "--clip-mode", "split", "--balance", "oversample")
    ),
    "encoded-audio": _sounds("--features", "encoded"),
}


def make(kind: str, *, place: pathlib.Path, more: Sequence[object] = ()) -> Made:
    """Makes the dataset of that name in a folder. more: options of all kinds."""
    place.mkdir(parents=True, exist_ok=True)
    out = place / "out"
    options = ("--quiet", "--output", out, "--seed", 7)
    maker = _maker()
    maker.stdin.write(json.dumps([*map(str, (*KINDS[kind](place), *options, *more))]) + "\n")
    maker.stdin.flush()
    assert maker.stdout.readline() == "0\n", kind
    return Made(out)


@functools.cache
def _maker() -> subprocess.Popen[str]:
    """A process that runs commands: where TensorFlow is, Pillow would find another zlib."""
    maker = subprocess.Popen(
        [sys.executable, "-m", "tests.all_kinds"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(maker.wait)
    atexit.register(maker.stdin.close)
    return maker


if __name__ == "__main__":
    import apache_beam  # noqa: F401  (only a Beam that was imported is patched)

    with reused_options(), encoders_kept():
        for line in sys.stdin:
            print(main(json.loads(line)), flush=True)
