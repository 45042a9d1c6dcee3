"""`recordmill.load`: returns a dataset as a `tf.data.Dataset`, configured by its manifest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recordmill.errors import install_extra
from recordmill.loading.options import (
    LoadOptions,
    Normalize,
    Padding,
    parse_boundaries,
    parse_image_size,
    parse_names,
)
from recordmill.loading.sources import open_datasets
from recordmill.option_checks import expect_shard
from recordmill.reading.sequence import Datasets


def load(
    dataset: Datasets,
    split: str = "train",
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    order: str | None = None,
    filter: Any = None,  # noqa: A002, as in pyarrow
    temperature: float | None = None,
    until: str | None = None,
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
    cache_decoded: bool | str | os.PathLike[str] = False,
    shard: tuple[int, int] | None = None,
    start: int | Mapping[str, Any] = 0,
    verify: bool = False,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> Any:
    """Return a split as a `tf.data.Dataset` of (x, y), (x, y, weight), or {feature: value}.

    x is the input of a model: images as uint8[height, width, channels] (uint16 if they have 16 bits
    per channel), clips as uint8[frames, height, width, channels], arrays in their dtype and shape,
    tokens, text, or {column: value}. y is the class as int64. Without classes an element is a
    dictionary of all features. If records may have several labels, y is float32[classes] with a 1
    for each of them; with padding="ragged" and without one_hot their numbers, int64[labels].

    dataset: the folder of a dataset, a path or a URI such as `s3://bucket/out`. A mixture of
      several with equal features and classes is {folder: weight}, or a list of folders, whose
      weights are their numbers of records. Any 1,000 consecutive records of a mixture have the
      shares of the weights, to within one record; each source is read in its own order, epoch after
      epoch.
    batch_size: records per batch; the last batch of an epoch may have fewer. None: single records.
    shuffle: another order in every epoch, which is a function of the dataset, the seed and the
      epoch, and does not depend on hosts, batch size or framework. Without it records have the
      order of `recordmill.read`.
    order: `windowed`, the default of `shuffle`, reads blocks of files in another order and shuffles
      the records of 96 of them at a time (32 MiB). `full` is a permutation of all records, each of
      which is read by its offset; not for gzip.
    filter: an expression of `pyarrow.compute` over the columns of the index, such as
      `pc.field("label") == "cat"`. Only records for which it is true are
      returned.
    temperature: of a list of datasets: their weights are their numbers of records to the power
      1 / temperature.
    until: the end of an epoch of a mixture: `first_exhausted`, when all records of one source were
      read, or `all_exhausted`, when those of every source were. None: it has no end.
    repeat: number of epochs; True for an endless dataset. Batches never span two epochs.
    inputs: the features that make up x: one name for the value itself, several for a dictionary.
    label: the feature that is y, if it is not the class.
    as_supervised: False returns dictionaries in any case; True raises an error without a class.
    image_size: height and width to which images are resized, with antialiasing: 224 or (480, 640).
    augment: random changes of images, for train only: some of `crop`, `flip`, `rotate`,
      `brightness` and `contrast`, as "flip,crop" or a list. They differ between epochs.
    normalize: pixels as float32: `unit` scales them to [0, 1], `signed` to [-1, 1]; `imagenet`
      subtracts the mean of ImageNet's channels and divides by their standard deviation.
    one_hot: return y as float32[classes].
    class_weights: add a sample weight to (x, y), with which all classes of train have the same
      total; not for records with several labels. In a balanced dataset all weights are 1.
    padding: `pad` fills values of different lengths with zeros, or "", to the longest of the batch;
      `ragged` returns ragged tensors.
    pad_to: pad to this length, and cut off longer values; an error if no length varies.
    bucket_boundaries: ascending lengths. Batches contain records of similar length (that of the
      longest input): below the first boundary, from the first to the second, and so on.
    drop_remainder: leave out records that do not fill a batch, or that hosts cannot share equally.
    cache_decoded: keep decoded and resized records: True in memory; a path in files whose names
      begin with it and end with a digest of their content. With `shuffle` their order is that of a
      buffer.
    shard: (hosts, index of this host): every host reads every n-th record of the order, in the same
      number of steps. Hosts with fewer records get one more, with a sample weight of 0.
    start: where to continue: a state of `recordmill.position` or of a `torch_dataset`, from a run
      on any number of hosts with any batch size; on one host also the number of batches (without
      batch_size, of records) to skip. Within an epoch that ends this needs `repeat`. A mixture with
      `cache_decoded`, and a shuffled cache, take only a number.
    verify: check the sha256 of all files first, and decompress gzip files within
      `max_record_bytes`. Sizes of files, and the checksums of every record that is read, are always
      checked.
    max_record_bytes: size of the largest record of a gzip file, according to its index, because a
      small file can expand to gigabytes in TensorFlow, which has no limit; by default 64 times the
      size of the file, but at least 257 MiB and at most 2 GiB.
    cache, cache_size: as for `recordmill.read`.

    The dataset knows its length (except with bucket_boundaries). Its iterators can be saved by
    `tf.train.Checkpoint(iterator=...)`.

    Raises:
      ManifestError: the folder is not a dataset.
      ConfigError: the split or a feature does not exist, or options are invalid; a ValueError.
      DatasetDamagedError: a file is missing, or differs from what was written.
    """
    options = LoadOptions(
        split=split,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        order=order,
        repeat=repeat,
        inputs=None if inputs is None else parse_names(inputs),
        label=label,
        as_supervised=as_supervised,
        image_size=parse_image_size(image_size),
        augment=frozenset(parse_names(augment)),
        normalize=normalize,
        one_hot=one_hot,
        class_weights=class_weights,
        padding=padding,
        pad_to=pad_to,
        bucket_boundaries=parse_boundaries(bucket_boundaries),
        drop_remainder=drop_remainder,
        cache_decoded=(
            os.fspath(cache_decoded) if isinstance(cache_decoded, os.PathLike) else cache_decoded
        ),
        shard=None if shard is None else expect_shard(shard),
        start=start,
        filter=filter,
        temperature=temperature,
        until=until,
    )
    try:
        import tensorflow as tf
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "recordmill.load needs TensorFlow, which is not installed; recordmill.read does not:"
            f" {install_extra('train')}"
        ) from error
    from recordmill.loading.pipeline import Pipeline

    sources, sequence = open_datasets(
        dataset,
        options,
        verify=verify,
        max_record_bytes=max_record_bytes,
        cache=cache,
        cache_size=cache_size,
    )
    pipeline = Pipeline(options, sources, sequence)
    # No step contains Python control flow for AutoGraph, whose conversion would take a second.
    return tf.autograph.experimental.do_not_convert(pipeline.dataset)()
