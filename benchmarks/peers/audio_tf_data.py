"""The loop of TensorFlow's guides for audio: tf.audio decodes WAV files, tf.signal transforms them.

    python -m benchmarks.peers.audio_tf_data waveform|melspectrogram FILES OUTPUT

The same records as recordmill's, but for the normalization of mel filters by their area.
"""

from __future__ import annotations

import os
import pathlib
import sys

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import tensorflow as tf  # type: ignore[import-untyped]

from benchmarks.peers.work import label_of, list_keys, number_labels

RATE, WINDOW, HOP, BINS = 16000, 400, 160, 80
_FILTERS = tf.signal.linear_to_mel_weight_matrix(BINS, WINDOW // 2 + 1, RATE, 0.0, RATE / 2)


def _decoded(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The samples of the first second of a file, and their number."""
    samples, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
    samples = samples[:RATE, 0]
    return samples, tf.shape(samples)[0]


def waveform(path: tf.Tensor, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs as a graph: the bytes of int16[RATE], the key, and the number of samples."""
    samples, count = _decoded(path)
    padded = tf.pad(samples, [[0, RATE - count]])
    levels = tf.clip_by_value(tf.round(padded * 32768), -32768, 32767)
    return tf.io.serialize_tensor(tf.cast(levels, tf.int16)), key, count


def melspectrogram(path: tf.Tensor, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs as a graph: the bytes of float32[frames, bins], the key, and the number of samples."""
    samples, count = _decoded(path)
    edge = WINDOW // 2
    padded = tf.pad(samples, [[edge, RATE - count + edge]])
    frames = tf.signal.stft(padded, WINDOW, HOP, fft_length=WINDOW)
    power = tf.square(tf.abs(frames))
    mel = tf.matmul(power, _FILTERS)
    decibels = tf.math.log(tf.maximum(mel, 1e-10)) * (10 / tf.math.log(10.0))
    return tf.io.serialize_tensor(decibels), key, count


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _integer(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


_FEATURES = {"waveform": waveform, "melspectrogram": melspectrogram}


def main(feature: str, source: str, output: str) -> None:
    keys = list_keys(source)
    numbers = number_labels(keys)
    pathlib.Path(output).mkdir()
    paths = [f"{source}/{key}" for key in keys]
    data = tf.data.Dataset.from_tensor_slices((paths, keys))
    data = data.map(_FEATURES[feature], num_parallel_calls=tf.data.AUTOTUNE).prefetch(
        tf.data.AUTOTUNE
    )
    target = f"{output}/all.tfrecord-00000-of-00001"
    with tf.io.TFRecordWriter(target) as writer:
        for content, name, count in data.as_numpy_iterator():
            key = name.decode()
            features = {
                f"audio/{feature}": _bytes(content),
                "audio/filename": _bytes(name),
                "audio/format": _bytes(b"wav"),
                "audio/sample_rate": _integer(RATE),
                "audio/samples": _integer(int(count)),
                "audio/class/label": _integer(numbers[label_of(key)]),
                "audio/class/text": _bytes(label_of(key).encode()),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
