"""Builds the `tf.data` steps that read, decode and batch records, from options and datasets."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recordmill.loading import graph_order, images, parse, stream
from recordmill.loading.cache_files import lock_cache
from recordmill.loading.element_shapes import (
    check_varying,
    longest_input,
    only_record,
    pad_empty,
    pad_ragged,
    rejoined,
    varies,
)
from recordmill.loading.elements import Elements
from recordmill.loading.options import LoadOptions
from recordmill.loading.parse import Tensors
from recordmill.loading.selection import channels_of
from recordmill.loading.sources import LoadedDataset, mixed_class_weights
from recordmill.loading.steps import EpochSteps
from recordmill.loading.store_stream import StoreStream
from recordmill.reading import epoch_order
from recordmill.reading.sequence import ENDLESS_EPOCHS, AnySequence, MixtureSequence

_PARALLEL = min(len(os.sched_getaffinity(0)), 16)  # more parallel batches would take more memory
_PREFETCH = 2  # elements prepared ahead of the training step


class Pipeline:
    """Builds the dataset that `recordmill.load` returns.

    Batches are parsed as a whole, which takes a fifth less time than parsing single records.
    Records are parsed one by one if they are cached or sorted by length, or if images or arrays
    have different sizes.
    """

    def __init__(
        self, options: LoadOptions, sources: Sequence[LoadedDataset], sequence: AnySequence
    ) -> None:
        first = sources[0]
        self._options = options
        self._sources = sources
        self._sequence = sequence
        self._selection = first.selection
        self._features = first.selection.parsed
        self._is_jpeg = all(one.manifest.options.get("image_format") == "jpeg" for one in sources)
        self._parse = parse.make_parser(self._features)
        weights = None
        if options.class_weights:
            weights = mixed_class_weights(sources, sequence, options.split)
        hosts, host = options.shard or (1, 0)
        if options.drop_remainder and sequence.records is not None:
            batch = options.batch_size or 1
            epoch_order.expect_full_batch(sequence.records, batch=batch, hosts=hosts)
        has_padding = options.shard is not None and not options.drop_remainder
        self._elements = Elements(
            selection=first.selection,
            options=options,
            records=sequence.records or 0,
            has_padding=has_padding and sequence.records is not None,
            classes=len(first.manifest.labels),
            label_offset=first.manifest.label_offset,
            class_weights=weights,
        )
        self._turns = stream.HostTurns(hosts=hosts, host=host)
        self._seed_key = first.sequence.layout.seed_key(options.seed)
        self._steps = EpochSteps(options, sequence, place=first.place)
        self._steps.check_endless()
        self._start = self._steps.start()
        self._streams = [self._stream(number) for number in range(len(sources))]
        self._cached: list[Any] = []

    @property
    def _is_endless(self) -> bool:
        """True if an epoch has no end."""
        return self._sequence.records is None

    def _stream(self, number: int) -> stream.SourceStream:
        """Return the records of a source."""
        source, sequence = self._sources[number], self._sequence
        turns, start, order = self._turns, self._start, source.sequence.order
        if self._options.cache_decoded:
            start, order = (0, 0), "stored"
        elif isinstance(sequence, MixtureSequence):
            start = sequence.source_place(number, *self._start)
            turns = dataclasses.replace(
                turns,
                tables=sequence.schedule.source_tables(number),
                source_epochs=int(sequence.source_epochs[number]),
            )
        one = dataclasses.replace(source.sequence, order=order)
        if source.records is not None:
            return StoreStream(source.records, one, turns=turns, start=start)
        return stream.EpochStream(source, one, turns=turns, start=start)

    def dataset(self) -> Any:
        """Return the dataset."""
        options = self._options
        first, consumed = self._start
        if options.cache_decoded:
            pairs = zip(self._sources, self._streams, strict=True)
            self._cached = [self._cache(source, one) for source, one in pairs]
        is_mixture = isinstance(self._sequence, MixtureSequence)
        if is_mixture or options.shuffle or options.augment or options.repeat or options.start:
            data = stream.epochs(
                self._epoch,
                repeat=False if self._is_endless else options.repeat,
                epoch=first,
                consumed=consumed,
            )
        else:
            nothing = tf.constant(0, tf.int64)
            data = self._epoch(nothing, nothing)
        if self._is_endless or options.bucket_boundaries is None:
            length = self._steps.length(first, consumed)
            size = tf.data.INFINITE_CARDINALITY if length is None else length
            data = data.apply(tf.data.experimental.assert_cardinality(size))
        return data.prefetch(_PREFETCH).with_options(_dataset_options())

    def _epoch(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of the batches (or records) of one epoch.

        epoch: int64[], its number.
        consumed: int64[], records that all hosts have consumed.
        """
        options = self._options
        seed = self._seed(epoch) if options.augment else None
        records = self._records(epoch, consumed)
        # Numbering takes a noticeable part of the time of small records.
        is_numbered = bool(options.augment) or self._elements.has_padding
        if is_numbered:
            first = self._turns.first(consumed)
            positions = tf.data.Dataset.range(first, tf.int64.max, self._turns.hosts)
            records = tf.data.Dataset.zip((positions, records))
        in_batches = options.batch_size is not None and self._is_parsed_in_batches
        make: Callable[..., Any] = self._batch if in_batches else self._element
        if in_batches:
            records = records.batch(options.batch_size, drop_remainder=options.drop_remainder)
        elements = records.map(
            (lambda number, record: make(record, number=number, seed=seed))
            if is_numbered
            else (lambda *record: make(rejoined(record), number=None, seed=seed)),
            num_parallel_calls=_PARALLEL,
        )
        return elements if in_batches or options.batch_size is None else self._batched(elements)

    def _seed(self, epoch: Any) -> Any:
        """Return a random number of an epoch: int64[]."""
        keys = graph_order.epoch_keys(self._seed_key, epoch)
        return tf.bitcast(keys[epoch_order.AUGMENTATIONS], tf.int64)

    def _records(self, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of the payloads of an epoch, or of cached features, with padding."""
        options, hosts = self._options, self._turns.hosts
        if isinstance(self._sequence, MixtureSequence):
            records = self._mixed(self._sequence, epoch, consumed)
        elif options.cache_decoded:
            records = self._from_cache(0, epoch).skip(self._turns.first(consumed) // hosts)
        else:
            records = self._streams[0].epoch(epoch, consumed)
        if hosts == 1 or self._sequence.records is None:
            return records
        left = self._sequence.records - consumed
        if options.drop_remainder:
            return records.take(left // hosts)
        padding = self._streams[0].padding()
        records = records.concatenate(
            padding.map(self._decode) if options.cache_decoded else padding
        )
        return records.take(-(-left // hosts))

    def _mixed(self, sequence: MixtureSequence, epoch: Any, consumed: Any) -> Any:
        """Return a dataset of this host's records of a mixture."""
        turns = self._turns
        if not self._options.cache_decoded:
            streams = [one.of_mixture(epoch, consumed) for one in self._streams]
            first, skipped = turns.first(consumed), 0
        else:
            # Each host mixes its own part of each source, in an order of its own.
            epochs = tf.data.Dataset.range(epoch * ENDLESS_EPOCHS, (epoch + 1) * ENDLESS_EPOCHS)
            streams = [
                epochs.flat_map(functools.partial(self._from_cache, number))
                for number in range(len(self._sources))
            ]
            first, skipped = tf.constant(0, tf.int64), consumed // turns.hosts
            turns = stream.HostTurns(hosts=1, host=0)
        records = stream.mix(
            sequence.schedule, streams, turns=turns, first=first, stop=sequence.records
        )
        return records.skip(skipped)

    def _from_cache(self, number: int, epoch: Any) -> Any:
        """Return a dataset of cached features, in the order of an epoch."""
        records = self._cached[number]
        if not self._options.shuffle:
            return records
        return records.shuffle(
            stream.cache_buffer(self._sources[number].sequence.layout),
            seed=self._seed(epoch),
            reshuffle_each_iteration=False,
        )

    def _cache(self, source: LoadedDataset, read: stream.SourceStream) -> Any:
        """Return a cached dataset of the features of records, in the order of the files."""
        nothing = tf.constant(0, tf.int64)
        decoded = read.epoch(nothing, nothing).map(self._decode, num_parallel_calls=_PARALLEL)
        path = self._options.cache_decoded
        if path is True:
            return decoded.cache()
        return decoded.cache(lock_cache(f"{path}-{self._cache_digest(source)}"))

    def _cache_digest(self, source: LoadedDataset) -> str:
        """Return a digest of everything that influences the content of a source's cache."""
        what = (
            *(source.manifest.digest, source.split, self._options.shard),
            source.sequence.kept and source.sequence.kept.digest,
            *(sorted(self._features.items()),),
            *(self._options.image_size, tf.__version__),
        )
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16]

    @property
    def _is_parsed_in_batches(self) -> bool:
        options = self._options
        if options.cache_decoded or options.bucket_boundaries is not None:
            return False
        if any(None in self._shape(name) for name in self._selection.images):
            return False
        if self._selection.masks:
            return False
        return all(parse.is_uniform(one) for one in self._features.values())

    def _batch(self, payloads: Any, *, number: Any, seed: Any) -> Any:
        """Make the element of a batch: string[n] payloads, and int64[n] record numbers or None."""
        tensors = parse.decode_arrays(self._parse(payloads), self._features)
        for name in self._selection.pixels:
            if name in self._selection.images or self._options.augment:
                values = tensors[name] if number is None else (tensors[name], number)
                tensors[name] = tf.map_fn(
                    lambda one, name=name: self._pixels(name, one, seed=seed),
                    values,
                    fn_output_signature=tf.TensorSpec(self._shape(name), self._dtype(name)),
                )
        if self._options.padding == "pad":
            pad_to, label = self._options.pad_to, self._selection.label
            tensors = pad_ragged(tensors, pad_to=pad_to, label=label)
        return self._elements.make(tensors, number)

    def _element(self, record: Any, *, number: Any, seed: Any) -> Any:
        """Make the element of one record: of its payload, or of its cached features."""
        tensors = dict(record) if self._options.cache_decoded else self._decode(record)
        for name in self._selection.pixels:
            tensors[name] = self._augment(tensors[name], number=number, seed=seed)
        for name in self._selection.masks:
            masks = tensors[name]
            if self._options.augment:
                drawn = tf.stack([seed, number])
                masks = images.augment_mask(masks, self._options.augment, drawn)
            tensors[name] = tf.squeeze(masks, -1) if self._features[name].shape else masks
        return self._elements.make(tensors, number)

    def _decode(self, payload: Any) -> Tensors:
        """Parse one record, and decode its images and arrays."""
        tensors = {name: only_record(value) for name, value in self._parse(payload[None]).items()}
        for name in self._selection.masks:
            tensors[name] = self._masks(name, tensors[name])
        for name in self._selection.inputs:
            feature = self._features[name]
            if feature.kind == "image":
                tensors[name] = self._images(name, tensors[name])
            elif parse.is_array(feature):
                stored = self._selection.shapes.get(name, ())
                sizes = [tf.reshape(tensors[size], [-1]) for size in stored]
                shape = tf.concat(sizes, 0) if sizes else None
                tensors[name] = parse.decode_array(tensors[name], feature, shape)
        return tensors

    def _pixels(self, name: str, one: Any, *, seed: Any) -> Any:
        """Decode and augment one image of a batch: encoded bytes or an array, with its number."""
        value, number = one if isinstance(one, tuple) else (one, None)
        if name in self._selection.images:
            value = self._images(name, value)
        return tf.ensure_shape(self._augment(value, number=number, seed=seed), self._shape(name))

    def _images(self, name: str, content: Any) -> Any:
        """Decode one image to [height, width, channels], or several to [images, ...]."""
        if not self._features[name].shape:
            return self._image(name, content)
        return tf.map_fn(
            lambda one: self._image(name, one),
            content,
            fn_output_signature=tf.TensorSpec(self._shape(name)[1:], self._dtype(name)),
        )

    def _masks(self, name: str, content: Any) -> Any:
        """Decode one mask to [height, width, 1], or several to [masks, height, width, 1]."""
        feature, size, dtype = self._features[name], self._options.image_size, self._dtype(name)
        declared = feature.raw_shape or (None, None, 1)

        def decode(one: Any) -> Any:
            mask = images.decode_mask(one, declared, dtype=dtype)
            return mask if size is None else images.resize_mask(mask, size)

        if not feature.shape:
            return decode(content)
        shape = self._shape(name)
        spec = tf.TensorSpec(shape[1:], dtype)
        masks = tf.cond(
            tf.size(content) > 0,
            lambda: tf.map_fn(decode, content, fn_output_signature=spec),
            lambda: tf.zeros([0, *(side or 0 for side in shape[1:])], dtype),
        )
        return tf.ensure_shape(masks, shape)

    def _image(self, name: str, content: Any) -> Any:
        feature, size = self._features[name], self._options.image_size
        shape = feature.raw_shape or (None, None, channels_of(feature))
        dtype = self._dtype(name)
        image = images.decode(content, shape, dtype=dtype, is_jpeg=self._is_jpeg)
        return image if size is None else images.resize(image, size)

    def _augment(self, image: Any, *, number: Any, seed: Any) -> Any:
        """Augment an image; the result depends on the epoch's seed and the record's number."""
        if not self._options.augment:
            return image
        return images.augment(image, self._options.augment, tf.stack([seed, number]))

    def _dtype(self, name: str) -> Any:
        """Return the dtype of the pixels of images, masks or clips: uint8 or uint16."""
        return tf.uint16 if self._features[name].raw_dtype == "uint16" else tf.uint8

    def _shape(self, name: str) -> tuple[int | None, ...]:
        """Return the shape of images, masks or clips; dimensions that vary are None."""
        feature = self._features[name]
        is_encoded = feature.kind in ("image", "mask")
        frames = feature.shape if is_encoded else ()
        if is_encoded and self._options.image_size is not None:
            return (*frames, *self._options.image_size, channels_of(feature))
        return (*frames, *(feature.raw_shape or (None, None, channels_of(feature))))

    def _batched(self, elements: Any) -> Any:
        """Return a dataset of batches from one of single elements."""
        options = self._options
        size, drop = options.batch_size, options.drop_remainder
        if options.bucket_boundaries is not None:
            boundaries = [*options.bucket_boundaries]
            return elements.bucket_by_sequence_length(
                longest_input,
                bucket_boundaries=boundaries,
                bucket_batch_sizes=[size] * (len(boundaries) + 1),
                drop_remainder=drop,
            )
        shapes = [spec.shape for spec in tf.nest.flatten(elements.element_spec)]
        if options.pad_to is not None:
            check_varying(shapes)
        if all(shape.is_fully_defined() for shape in shapes):
            return elements.batch(size, drop_remainder=drop)
        if options.padding == "ragged":
            return elements.ragged_batch(size, drop_remainder=drop)
        if options.pad_to is None:
            padded = elements.padded_batch(size, drop_remainder=drop)
            return padded.map(lambda *element: tf.nest.map_structure(pad_empty, rejoined(element)))
        cut = elements.map(lambda *element: tf.nest.map_structure(self._cut, rejoined(element)))
        shapes = tf.nest.map_structure(self._padded_shape, cut.element_spec)
        return cut.padded_batch(size, padded_shapes=shapes, drop_remainder=drop)

    def _cut(self, value: Any) -> Any:
        """Return a value of variable length, cut off after `pad_to` items."""
        return value[: self._options.pad_to] if varies(value.shape) else value

    def _padded_shape(self, spec: Any) -> list[int | None]:
        shape = [*spec.shape]
        return [self._options.pad_to, *shape[1:]] if varies(spec.shape) else shape


def _dataset_options() -> Any:
    options = tf.data.Options()
    options.deterministic = True
    # AUTOTUNE's thread sleeps for 10 ms, then twice as long each time, and the end of an iterator
    # waits for it to wake up: after 5.1, 10.2 or 20.5 s, up to as long as the epoch took.
    options.autotune.enabled = False
    # All seeds are given, so the state of random generators in the steps can be ignored.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    # Under tf.distribute, without `shard`, every worker reads all records and keeps its part.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options
