"""`recordmill.load`: a dataset as a `tf.data.Dataset`, made from its manifest alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recordmill.loading.options import (
    LoadOptions,
    Normalize,
    Padding,
    boundaries,
    names,
    pair,
    sides,
    weights_of,
)
from recordmill.loading.sources import sources_of
from recordmill.reading.reader import Folder


def load(
    dataset: Folder | Mapping[Folder, float],
    split: str = "train",
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    shuffle_buffer: int | None = None,
    repeat: bool | int = False,
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    as_supervised: bool | None = None,
    image_size: int | tuple[int, int] | None = None,
    augment: str | Iterable[str] = (),
    normalize: Normalize | None = None,
    one_hot: bool = False,
    class_weights: bool = False,
    padding: Padding = "pad",
    pad_to: int | None = None,
    bucket_boundaries: Sequence[int] | None = None,
    drop_remainder: bool = False,
    cache: bool | str | os.PathLike[str] = False,
    shard: tuple[int, int] | None = None,
    start: int = 0,
    verify: bool = False,
) -> Any:
    """A split as a `tf.data.Dataset` of (x, y), (x, y, weight), or of {feature: value}.

    x is what the kind of data has for a model to learn from: pictures as uint8[height, width,
    channels], clips as uint8[frames, height, width, channels], arrays in their dtype and shape,
    tokens, text, or {column: value}. y is the class as int64. Where there are no classes an element
    is a dictionary of all features.

    dataset: its folder; or {folder: weight}, datasets of equal features and classes that are mixed
      by these weights, without end.
    batch_size: records of a batch; the last one of an epoch may have fewer. Without it single ones.
    shuffle: another order in each epoch, which is that of the seed: of files, and of records among
      `shuffle_buffer` (as many as take 64 MiB, unless given; records are shuffled as they are
      written, over all files). Without it, records come in the order of `recordmill.read`.
    repeat: that many epochs one after another; True: without end. No batch has records of two.
    inputs: features that make up x: a name, for the value itself, or several, for a dictionary.
    label: the feature that is y, where it is not the class.
    as_supervised: False: dictionaries, all the same; True: an error where there is no class.
    image_size: height and width to resize pictures to, antialiased: 224 or (480, 640).
    augment: of train, some of `crop`, `flip`, `rotate`, `brightness` and `contrast`, as
      "flip,crop" or a list: other ones in each epoch.
    normalize: pixels as float32: `unit` [0, 1], `signed` [-1, 1], `imagenet` less the mean and over
      the deviation of ImageNet's channels.
    one_hot: y as float32[classes].
    class_weights: a sample weight beside x and y, with which every class of train has the same
      total. Of a dataset that is balanced already they are 1.
    padding: what is of different length is filled up with zeros, or "", to the longest of its
      batch; or `ragged`.
    pad_to: fill up to this length, and cut off what is longer.
    bucket_boundaries: batches of records of similar length, which is that of the longest input: up
      to the first of these, from there to the second, and so on.
    drop_remainder: leave out what fills no batch, or is over when hosts get equally many records.
    cache: keep what is decoded and resized, in memory, or in files whose names begin with this path
      and go on with a digest of what is in them.
    shard: (hosts, index): what this of several hosts is to read, in as many steps as the others;
      where one has fewer records than another, one more record comes with a sample weight of 0.
    start: batches, or records without batch_size, that have been taken: goes on after them, in the
      epoch and the order in which a run with these options would be. In the middle of an epoch this
      needs `repeat`.
    verify: check the files' checksums first. Their sizes are checked in any case, and the checksums
      of records as they are read.

    The dataset knows its length (not with bucket_boundaries). Its iterators can be checkpointed, by
    `tf.train.Checkpoint(iterator=...)`.

    Raises:
      ManifestError: there is no dataset.
      ConfigError: a ValueError: there is no such split or feature, or options that cannot be.
      DatasetDamagedError: a file is not there, or not what was written.
    """
    options = LoadOptions(
        split=split,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        shuffle_buffer=shuffle_buffer,
        repeat=repeat,
        inputs=None if inputs is None else names(inputs),
        label=label,
        as_supervised=as_supervised,
        image_size=sides(image_size),
        augment=frozenset(names(augment)),
        normalize=normalize,
        one_hot=one_hot,
        class_weights=class_weights,
        padding=padding,
        pad_to=pad_to,
        bucket_boundaries=boundaries(bucket_boundaries),
        drop_remainder=drop_remainder,
        cache=os.fspath(cache) if isinstance(cache, os.PathLike) else cache,
        shard=pair(shard),
        start=start,
    )
    try:
        import tensorflow as tf
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "recordmill.load returns a tf.data.Dataset: it needs TensorFlow (pip install"
            " 'recordmill[train]'); recordmill.read does not"
        ) from error
    from recordmill.loading.pipeline import Pipeline

    sources = sources_of(weights_of(dataset), options, verify=verify)
    pipeline = Pipeline(options, sources, is_mix=isinstance(dataset, Mapping))
    # There is no Python in its steps that is meant for a graph; to look for some takes a second.
    return tf.autograph.experimental.do_not_convert(pipeline.dataset)()
