"""Ways to read a dataset of pictures for training: one epoch by one of them, in this process.

    python -m benchmarks.peers.load_roads ROAD DATASET

Prints JSON: `records`, seconds to the `first` batch, to the `last` and to the end of the epoch
(`wall`), from the moment when the libraries are imported, and `cpu` seconds.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import pathlib
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

BATCH = 64
SIDE = 224  # pixels
_SEED = 1

Road = Callable[[pathlib.Path], Iterator[int]]  # yields how many records each batch has


def _files(dataset: pathlib.Path) -> list[str]:
    return sorted(map(str, dataset.glob("train.tfrecord-*")))


def ours(dataset: pathlib.Path) -> Iterator[int]:
    """recordmill.load, shuffled."""
    import recordmill

    data = recordmill.load(dataset, "train", batch_size=BATCH, shuffle=True, seed=_SEED)
    return _sizes(data)


def naive(dataset: pathlib.Path) -> Iterator[int]:
    """TFRecordDataset.map.batch."""
    import tensorflow as tf

    return _sizes(tf.data.TFRecordDataset(_files(dataset)).map(_parse_one()).batch(BATCH))


def interleaved(dataset: pathlib.Path) -> Iterator[int]:
    """interleave, shuffle, map and prefetch with AUTOTUNE."""
    import tensorflow as tf

    auto = tf.data.AUTOTUNE
    records = _interleave(dataset).shuffle(10_000, seed=_SEED)
    return _sizes(records.map(_parse_one(), num_parallel_calls=auto).batch(BATCH).prefetch(auto))


def in_batches(dataset: pathlib.Path) -> Iterator[int]:
    """interleave, shuffle, batch, parse_example, decode."""
    import tensorflow as tf

    auto = tf.data.AUTOTUNE
    features = _features()

    def parse(payloads: Any) -> Any:
        found = tf.io.parse_example(payloads, features)
        pictures = tf.map_fn(
            lambda content: tf.ensure_shape(tf.io.decode_jpeg(content, 3), (SIDE, SIDE, 3)),
            found["image/encoded"],
            fn_output_signature=tf.TensorSpec((SIDE, SIDE, 3), tf.uint8),
        )
        return pictures, found["image/class/label"]

    records = _interleave(dataset).shuffle(10_000, seed=_SEED).batch(BATCH)
    return _sizes(records.map(parse, num_parallel_calls=auto).prefetch(auto))


def tfds(dataset: pathlib.Path) -> Iterator[int]:
    """tfds.builder_from_directory, shuffled."""
    import tensorflow as tf
    import tensorflow_datasets

    builder = tensorflow_datasets.builder_from_directory(str(dataset))
    config = tensorflow_datasets.ReadConfig(shuffle_seed=_SEED)
    data = builder.as_dataset(
        split="train", as_supervised=True, shuffle_files=True, read_config=config
    )
    return _sizes(data.shuffle(1000, seed=_SEED).batch(BATCH).prefetch(tf.data.AUTOTUNE))


def tfrecord(dataset: pathlib.Path) -> Iterator[int]:
    """PyPI's tfrecord, and Pillow."""
    import numpy as np
    from PIL import Image
    from tfrecord.reader import tfrecord_loader

    def pairs() -> Iterator[Any]:
        wanted = {"image/encoded": "byte", "image/class/label": "int"}
        for file in _files(dataset):
            for example in tfrecord_loader(file, None, wanted):
                picture = np.asarray(Image.open(io.BytesIO(example["image/encoded"])))
                yield picture, example["image/class/label"][0]

    stream = pairs()
    while batch := [*itertools.islice(stream, BATCH)]:
        pictures, labels = zip(*batch, strict=True)
        np.stack(pictures), np.array(labels)
        yield len(batch)


def read(dataset: pathlib.Path) -> Iterator[int]:
    """recordmill.read: all features, every checksum checked."""
    import recordmill

    return _counted(recordmill.read(dataset, "train"))


def tfrecord_read(dataset: pathlib.Path) -> Iterator[int]:
    """PyPI's tfrecord: all features, no checksum."""
    from tfrecord.reader import tfrecord_loader

    return _counted(itertools.chain.from_iterable(map(_loader(tfrecord_loader), _files(dataset))))


def at_random(dataset: pathlib.Path) -> Iterator[int]:
    """recordmill.open: as many records as there are, by random numbers."""
    import recordmill

    records = recordmill.open(dataset, "train")
    numbers = random.Random(_SEED).choices(range(len(records)), k=len(records))
    return _counted(records[number] for number in numbers)


def _loader(load: Any) -> Callable[[str], Any]:
    return lambda file: load(file, None, None)


def _counted(records: Any) -> Iterator[int]:
    for _ in records:
        yield 1


def _sizes(batches: Any) -> Iterator[int]:
    for _, labels in batches:
        yield labels.shape[0]


def _interleave(dataset: pathlib.Path) -> Any:
    import tensorflow as tf

    files = tf.data.Dataset.from_tensor_slices(_files(dataset)).shuffle(1000, seed=_SEED)
    return files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)


def _features() -> Any:
    import tensorflow as tf

    return {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }


def _parse_one() -> Callable[[Any], Any]:
    import tensorflow as tf

    features = _features()

    def parse(payload: Any) -> Any:
        found = tf.io.parse_single_example(payload, features)
        picture = tf.io.decode_jpeg(found["image/encoded"], channels=3)
        return tf.ensure_shape(picture, (SIDE, SIDE, 3)), found["image/class/label"]

    return parse


ROADS = (ours, naive, interleaved, in_batches, tfds, tfrecord, read, tfrecord_read, at_random)


def main(name: str, dataset: str) -> None:
    road: Road = {one.__name__: one for one in ROADS}[name]
    _import(name)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    started = time.perf_counter()
    first, last, records = 0.0, 0.0, 0
    for size in road(pathlib.Path(dataset)):
        last = time.perf_counter() - started
        first = first or last
        records += size
    wall = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime - cpu
    found = {"records": records, "first": first, "last": last, "wall": wall, "cpu": cpu}
    print(json.dumps(found))


def _import(name: str) -> None:
    """What a road needs, before the clock runs."""
    if name in ("ours", "naive", "interleaved", "in_batches", "tfds"):
        import tensorflow as tf

        tf.data.Dataset.range(1).cardinality()
    if name == "tfds":
        import tensorflow_datasets  # noqa: F401
    if name.startswith("tfrecord"):
        import tfrecord.reader  # noqa: F401
    if name in ("ours", "read", "at_random"):
        import recordmill

        _ = recordmill.read, recordmill.load if name == "ours" else None


if __name__ == "__main__":
    main(*sys.argv[1:])
