"""The loop of TensorFlow's guides: tf.data decodes and resizes in parallel, TFRecordWriter writes.

TensorFlow's own JPEG library, the same size (crop to the middle square, antialiased), quality 90.
It looks at no EXIF orientation and no colour profile.
"""

from __future__ import annotations

import os
import pathlib
import sys

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import tensorflow as tf  # type: ignore[import-untyped]

from benchmarks.peers.work import OPTIONS, label_of, list_keys, number_labels


def encode(path: tf.Tensor, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs as a graph; the window is cut out before resizing, which is less work than after."""
    assert OPTIONS.size is not None
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    side = tf.minimum(height, width)
    image = tf.image.crop_to_bounding_box(
        image, (height - side) // 2, (width - side) // 2, side, side
    )
    image = tf.image.resize(image, OPTIONS.size, antialias=True)
    pixels = tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)
    return tf.io.encode_jpeg(pixels, quality=OPTIONS.quality), key


def texts(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def integers(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def make_example(data: bytes, key: str, numbers: dict[str, int]) -> tf.train.Example:
    assert OPTIONS.size is not None
    label = label_of(key)
    features = {
        "image/encoded": texts(data),
        "image/filename": texts(key.encode()),
        "image/format": texts(b"jpeg"),
        "image/height": integers(OPTIONS.size[0]),
        "image/width": integers(OPTIONS.size[1]),
        "image/channels": integers(3),
        "image/class/label": integers(numbers[label]),
        "image/class/text": texts(label.encode()),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def main(source: str, output: str) -> None:
    keys = list_keys(source)
    numbers = number_labels(keys)
    pathlib.Path(output).mkdir()
    paths = [f"{source}/{key}" for key in keys]
    pictures = (
        tf.data.Dataset.from_tensor_slices((paths, keys))
        .map(encode, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    with tf.io.TFRecordWriter(f"{output}/all.tfrecord") as writer:
        for data, key in pictures.as_numpy_iterator():
            writer.write(make_example(data, key.decode(), numbers).SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
