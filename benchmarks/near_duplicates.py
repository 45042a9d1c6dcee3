"""Recall and precision of near duplicates, by distance and similarity, as tables of Markdown.

    python -m benchmarks.near_duplicates                       the committed photos and SMS
    python -m benchmarks.near_duplicates --photos FOLDER       the photos in a folder
    python -m benchmarks.near_duplicates --components          time and memory, 10,000,000 vertices

Up to 200 photos are copied and edited in five ways, and each copy is compared with its original;
all pairs of different originals count as unrelated. Texts are SMS, and 20,000 articles of 15 random
SMS each, of which 2,000 are copied; a random 1, 5, 10 and 20 % of the words of a copy are replaced
by others. If `imagehash` and `datasketch` are
installed in the interpreter, they get the same pictures and texts.
"""

from __future__ import annotations

import argparse
import importlib
import io
import itertools
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image, ImageEnhance

from benchmarks.measure import DATA, PHOTOS
from recordmill.transforms.near_duplicates.image_hash import hash_pixels
from recordmill.transforms.near_duplicates.text_minhash import (
    PERMUTATIONS,
    SHINGLE,
    estimate_similarity,
    minhash,
)

_EDITED = 200  # photos, at most
_DISTANCES = range(13)
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_SHARES = (0.01, 0.05, 0.1, 0.2)  # of words that are replaced
_TEXTS = 2000  # that are edited
_ARTICLES = 20_000
_VERTICES, _COMPONENTS = 10_000_000, 500_000

Hashes = npt.NDArray[np.uint64]


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", type=pathlib.Path, default=PHOTOS, help="folder of JPEG files")
    parser.add_argument("--components", action="store_true", help="measure large graphs instead")
    parser.add_argument("--vertices", type=int, default=_VERTICES, help="of --components")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        _name_components(pathlib.Path(options.run))
    elif options.components:
        compare_components(options.vertices)
    else:
        compare_images(options.photos)
        compare_texts()


# ---- Images


def edits(image: Image.Image) -> Iterator[tuple[str, Image.Image]]:
    """Yield each edit of a photo, by name."""
    width, height = image.size
    yield "exact copy", image
    yield "quality 60", _encoded(image, 60)
    yield (
        "half size",
        _encoded(image.resize((width // 2, height // 2), Image.Resampling.BICUBIC), 90),
    )
    left, top = round(width * 0.025), round(height * 0.025)
    yield "cropped by 5 %", image.crop((left, top, width - left, height - top))
    yield "brighter by 10 %", ImageEnhance.Brightness(image).enhance(1.1)
    yield "mirrored", image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def _encoded(image: Image.Image, quality: int) -> Image.Image:
    data = io.BytesIO()
    image.save(data, "JPEG", quality=quality)
    return Image.open(data).convert("RGB")


def compare_images(folder: pathlib.Path) -> None:
    """Print recall, precision and false pairs of each perceptual hash."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    hashers: dict[str, Callable[[Image.Image], int]] = {
        "recordmill": lambda image: int(hash_pixels(np.asarray(image)))
    }
    if library := _library("imagehash"):
        hashers |= {
            f"imagehash.{name}": lambda image, name=name: int(
                str(getattr(library, name)(image)), 16
            )
            for name in ("phash", "dhash")
        }
    found: dict[str, dict[str, list[int]]] = {name: {"original": []} for name in hashers}
    chosen = np.unique(np.linspace(0, len(paths) - 1, _EDITED).astype(int)).tolist()
    for number, path in enumerate(paths):
        image = Image.open(path).convert("RGB")
        edited = edits(image) if number in chosen else ()
        for edit, copy in itertools.chain([("original", image)], edited):
            for name, hasher in hashers.items():
                found[name].setdefault(edit, []).append(hasher(copy))
    for name, hashes in found.items():
        _print_images(
            name,
            {edit: np.array(values, np.uint64) for edit, values in hashes.items()},
            chosen,
        )


def _print_images(name: str, hashes: Mapping[str, Hashes], chosen: Sequence[int]) -> None:
    originals = hashes["original"]
    unrelated = np.bitwise_count(originals[:, None] ^ originals)[np.triu_indices(len(originals), 1)]
    rows = {
        edit: np.bitwise_count(copies ^ originals[chosen])
        for edit, copies in hashes.items()
        if edit != "original"
    }
    print(f"\n{name}: {len(originals)} photos, {len(chosen)} copies of each kind\n")
    _table("distance", _DISTANCES)
    for edit, distances in rows.items():
        _row(edit, [f"{100 * (distances <= most).mean():.1f}" for most in _DISTANCES])
    true = [sum((d <= most).sum() for d in rows.values()) for most in _DISTANCES]
    false = [int((unrelated <= most).sum()) for most in _DISTANCES]
    _row(
        "precision",
        [f"{100 * t / (t + f):.1f}" if t else "" for t, f in zip(true, false, strict=True)],
    )
    _row("false pairs per million", [f"{1e6 * f / len(unrelated):.1f}" for f in false])


# ---- Texts


def compare_texts() -> None:
    """Print recall and precision of each MinHash signature."""
    lines = (DATA / "sms_spam" / "SMSSpamCollection").read_text(encoding="utf-8").split("\n")
    messages = [*dict.fromkeys(line.split("\t", 1)[1] for line in lines[1:-1])]
    generator = np.random.default_rng(0)
    articles = [
        " ".join(messages[number] for number in generator.integers(0, len(messages), 15))
        for _ in range(_ARTICLES)
    ]
    for kind, texts in (("SMS", messages[:_TEXTS]), ("articles", articles)):
        signers = {"recordmill": lambda texts: minhash(pa.array(texts))}
        if library := _library("datasketch"):
            signers["datasketch"] = lambda texts, library=library: _datasketch(library, texts)
        copies = {share: [_replaced(text, share) for text in texts[:_TEXTS]] for share in _SHARES}
        for name, sign in signers.items():
            _print_texts(f"{name}, {kind}", texts, copies, sign)


def _replaced(text: str, share: float) -> str:
    """Return a text with a share of its words replaced, at least one."""
    generator = np.random.default_rng(len(text))
    words = text.split()
    count = max(round(share * len(words)), 1)
    for place in generator.choice(len(words), min(count, len(words)), replace=False):
        words[place] = f"replaced{generator.integers(1000)}"
    return " ".join(words)


def _datasketch(library: Any, texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    found = []
    for text in texts:
        signature = library.MinHash(num_perm=PERMUTATIONS, seed=1)
        words = text.lower().split()
        for start in range(max(len(words) - SHINGLE + 1, 1)):
            signature.update(" ".join(words[start : start + SHINGLE]).encode())
        found.append(signature.hashvalues)
    return np.array(found)


def _print_texts(
    name: str,
    texts: Sequence[str],
    copies: Mapping[float, Sequence[str]],
    sign: Callable[[Sequence[str]], Any],
) -> None:
    began = time.perf_counter()
    originals = sign(texts)
    taken = 1e6 * (time.perf_counter() - began) / len(texts)
    words = sum(len(text.split()) for text in texts) / len(texts)
    print(f"\n{name}: {len(texts)} texts of {words:.0f} words; {taken:.0f} us a text\n")
    _table("similarity", _SIMILARITIES)
    found = {
        share: estimate_similarity(originals[:_TEXTS], sign(copies[share])) for share in copies
    }
    for share, similarities in found.items():
        _row(
            f"{100 * share:g} % of words",
            [f"{100 * (similarities >= least).mean():.1f}" for least in _SIMILARITIES],
        )
    false = np.zeros(len(_SIMILARITIES), np.int64)
    short = originals.astype(np.uint16)  # as `MinHashBands` compares them
    for number in range(len(texts) - 1):
        equal = np.count_nonzero(short[number] == short[number + 1 :], axis=1)
        false += [int((equal >= least * PERMUTATIONS).sum()) for least in _SIMILARITIES]
    true = [sum((s >= least).sum() for s in found.values()) for least in _SIMILARITIES]
    _row(
        "precision",
        [f"{100 * t / (t + f):.1f}" if t else "" for t, f in zip(true, false, strict=True)],
    )
    pairs = len(texts) * (len(texts) - 1) / 2
    _row("false pairs per million", [f"{1e6 * f / pairs:.1f}" for f in false])


# ---- Components


def compare_components(vertices: int) -> None:
    """Print time and memory of the components of a large graph, with 1 and 2 workers."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        _write_graph(vertices, path)
        for workers in (1, 2):
            command = [sys.executable, "-m", "benchmarks.near_duplicates", "--run"]
            subprocess.run([*command, f"{path}/{workers}"], check=True)


def _write_graph(vertices: int, folder: pathlib.Path) -> None:
    """Write the edges in random order, and the names that are expected.

    One component has 1 % of the vertices and is a random tree, 10 % of the vertices are chains of
    1,000, the others random trees.
    """
    generator = np.random.default_rng(1)
    ids = np.unique(generator.integers(0, 2**64, vertices + 1000, np.uint64))
    ids = generator.permutation(ids)[:vertices]
    chains = vertices // 10_000
    sizes = [vertices // 100, *[1000] * chains]
    left = vertices - sum(sizes)
    trees = vertices * _COMPONENTS // _VERTICES - len(sizes)
    sizes += [left // trees + (number < left % trees) for number in range(trees)]
    starts = np.cumsum(sizes) - sizes
    component = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(vertices) - starts[component]
    above = np.where(
        (component > 0) & (component <= chains),
        place - 1,
        (generator.random(vertices) * place).astype(np.int64),
    )
    edges = generator.permutation(np.flatnonzero(place))
    ends = [ids[edges], ids[starts[component[edges]] + above[edges]]]
    np.save(folder / "edges.npy", np.stack(ends))
    names = np.minimum.reduceat(ids, starts)[component]
    order = np.argsort(ids)
    np.save(folder / "named.npy", np.stack([ids[order], names[order]]))


_found: list[Any] = []


def _keep(element: Any) -> None:
    importlib.import_module("benchmarks.near_duplicates")._found.append(element)


def _name_components(place: pathlib.Path) -> None:
    import apache_beam as beam

    from recordmill.job.staging import Staging
    from recordmill.runners import direct
    from recordmill.storage.files import Location
    from recordmill.transforms.near_duplicates.components import ConnectedComponents
    from recordmill.transforms.near_duplicates.graph import edge_rows
    from recordmill.transforms.staged import spill

    folder, workers = place.parent, int(place.name)
    staging = Staging(Location.parse(str(folder / f"job{workers}")))
    ends = np.load(folder / "edges.npy", mmap_mode="r")
    pieces = []
    for start in range(0, ends.shape[1], 1 << 18):
        rows = edge_rows(*np.array(ends[:, start : start + (1 << 18)]))
        pieces += spill.into_pieces(rows, np.zeros(len(rows), np.int64), staging)
    del ends

    def build(pipeline: beam.Pipeline) -> None:
        edges = pipeline | beam.Create([piece for _, piece in pieces])
        edges | ConnectedComponents(staging) | "Keep" >> beam.Map(_keep)

    began, began_cpu = time.perf_counter(), time.process_time()
    direct.run(build, workers=workers, checks=False)
    taken, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    status = pathlib.Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024  # of this process alone
    found = sorted(importlib.import_module("benchmarks.near_duplicates")._found)
    rows = [spill.load(piece, staging=staging) for _, piece in found]
    columns = [
        np.concatenate([np.asarray(some[name]) for some in rows]) for name in ("id", "group")
    ]
    right = np.array_equal(np.stack(columns), np.load(folder / "named.npy"))
    count = len(np.unique(columns[1]))
    print(
        f"{workers} workers: {len(columns[0])} vertices, {count} components in {taken:.1f} s"
        f" ({cpu:.1f} s of CPU), peak {peak:.0f} MiB, {'as expected' if right else 'WRONG'}"
    )


# ---- Output


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _table(name: str, columns: Sequence[object]) -> None:
    _row(name, columns)
    print("|---|" + "---:|" * len(columns))


def _row(name: str, cells: Sequence[object]) -> None:
    print(f"| {name} | {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
