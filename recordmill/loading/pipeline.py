"""Options and datasets put together: the `tf.data` steps that make the elements."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from recordmill.errors import ConfigError
from recordmill.loading import images, parse, stream
from recordmill.loading.cache_files import claim
from recordmill.loading.elements import Elements
from recordmill.loading.options import LoadOptions
from recordmill.loading.parse import Tensors
from recordmill.loading.selection import channels_of
from recordmill.loading.sources import LoadedDataset, weights_of_classes

_PARALLEL = min(len(os.sched_getaffinity(0)), 16)  # more batches at once take more memory
_AHEAD = 2  # elements that wait for the training


class Pipeline:
    """Makes the dataset that `recordmill.load` returns.

    A batch is parsed at once, which takes a fifth less than one record after another; but what is
    to be cached or sorted by length, and pictures and arrays of different size, come one by one.
    """

    def __init__(
        self, options: LoadOptions, sources: Sequence[LoadedDataset], *, is_mix: bool
    ) -> None:
        first = sources[0]
        self._options = options
        self._sources = sources
        self._is_mix = is_mix
        self._selection = first.selection
        self._features = first.selection.parsed
        self._is_jpeg = all(one.manifest.options.get("image_format") == "jpeg" for one in sources)
        self._parse = parse.parser(self._features)
        weights = weights_of_classes(sources, options.split) if options.class_weights else None
        self._elements = Elements(
            selection=first.selection,
            options=options,
            records=first.part.read,
            classes=len(first.manifest.labels),
            label_offset=first.manifest.label_offset,
            class_weights=weights,
        )
        self._cached: dict[str, Any] = {}
        check_places([source.place for source in sources])
        self._check_end()

    def dataset(self) -> Any:
        """The dataset, ready to be iterated."""
        options = self._options
        if options.cache:
            self._cached = {source.place: self._cache(source) for source in self._sources}
        steps = self._steps()
        first, skip = divmod(options.start, steps) if steps else (0, options.start)
        self._check_start(first, skip, steps)
        if self._is_mix or options.shuffle or options.augment or options.repeat or options.start:
            data = stream.epochs(
                self._epoch,
                seed=options.seed,
                repeat=False if self._is_mix else options.repeat,
                epoch=first,
                skip=skip,
            )
        else:
            data = self._epoch(None, None)
        if self._is_mix or steps is not None:
            data = data.apply(tf.data.experimental.assert_cardinality(self._length(steps)))
        return data.prefetch(_AHEAD).with_options(_settings())

    def _epoch(self, seed: Any, skip: Any) -> Any:
        """Dataset of the batches of an epoch, or its records, by its seed (int64[]), but for the
        first `skip` (int64[]).
        """
        options = self._options
        if self._is_mix:
            streams = [
                lambda drawn, source=source: self._records(source, drawn)
                for source in self._sources
            ]
            records = stream.mixed(streams, [one.weight for one in self._sources], seed)
        else:
            records = self._records(self._sources[0], seed)
        # Numbers take time where there is little else to do for a record.
        is_numbered = bool(options.augment) or self._elements.has_padding
        if is_numbered:
            records = records.enumerate()
        if skip is not None:
            records = records.skip(skip * (options.batch_size or 1))
        in_batches = options.batch_size is not None and self._is_parsed_in_batches
        make: Callable[..., Any] = self._batch if in_batches else self._element
        if in_batches:
            records = records.batch(options.batch_size, drop_remainder=options.drop_remainder)
        elements = records.map(
            (lambda number, record: make(record, number=number, seed=seed))
            if is_numbered
            else (lambda *record: make(_whole(record), number=None, seed=seed)),
            num_parallel_calls=_PARALLEL,
        )
        return elements if in_batches or options.batch_size is None else self._batched(elements)

    def _records(self, source: LoadedDataset, seed: Any) -> Any:
        """Dataset of the payloads of an epoch, or of what is cached of them, padding at its end."""
        options, part, compression = self._options, source.part, source.manifest.compression
        drawn = seed if options.shuffle else None
        size = options.shuffle_buffer or stream.buffer_of(part)
        if not options.cache:
            records = stream.epoch(part, compression=compression, seed=drawn, buffer=size)
        else:
            records = self._cached[source.place]
            if drawn is not None:
                records = records.shuffle(size, seed=drawn, reshuffle_each_iteration=False)
        if not part.padding:
            return records
        padding = stream.padding(part, compression=compression)
        return records.concatenate(padding.map(self._decoded) if options.cache else padding)

    def _cache(self, source: LoadedDataset) -> Any:
        """Dataset of the features of records, in the order of the files."""
        records = stream.epoch(source.part, compression=source.manifest.compression)
        decoded = records.map(self._decoded, num_parallel_calls=_PARALLEL)
        path = self._options.cache
        if path is True:
            return decoded.cache()
        return decoded.cache(claim(f"{path}-{self._name(source)}"))

    def _name(self, source: LoadedDataset) -> str:
        """Of what is cached of a source: another one where something else would be."""
        what = (
            *(source.manifest.digest, source.part, sorted(self._features.items())),
            *(self._options.image_size, tf.__version__),
        )
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16]

    @property
    def _is_parsed_in_batches(self) -> bool:
        options = self._options
        if options.cache or options.bucket_boundaries is not None:
            return False
        if any(None in self._shape(name) for name in self._selection.pictures):
            return False
        return all(parse.is_uniform(one) for one in self._features.values())

    def _batch(self, payloads: Any, *, number: Any, seed: Any) -> Any:
        """The element of string[n] payloads, and their int64[n] numbers where they have some."""
        tensors = parse.decode_arrays(self._parse(payloads), self._features)
        for name in self._selection.pixels:
            if name in self._selection.pictures or self._options.augment:
                several = tensors[name] if number is None else (tensors[name], number)
                tensors[name] = tf.map_fn(
                    lambda one, name=name: self._pixels(name, one, seed=seed),
                    several,
                    fn_output_signature=tf.TensorSpec(self._shape(name), tf.uint8),
                )
        if self._options.padding == "pad":
            pad_to = self._options.pad_to
            tensors = {
                name: _one_at_least(value.to_tensor(shape=[None, pad_to, *value.shape[2:]]))
                if isinstance(value, tf.RaggedTensor) and name != self._selection.label
                else value
                for name, value in tensors.items()
            }
        return self._elements.of(tensors, number)

    def _element(self, record: Any, *, number: Any, seed: Any) -> Any:
        """That of one record: of its payload, or of its features where they are cached."""
        tensors = dict(record) if self._options.cache else self._decoded(record)
        for name in self._selection.pixels:
            tensors[name] = self._varied(tensors[name], number=number, seed=seed)
        return self._elements.of(tensors, number)

    def _decoded(self, payload: Any) -> Tensors:
        """The features of one record, pictures in the size that is wanted."""
        tensors = {name: _only(value) for name, value in self._parse(payload[None]).items()}
        for name in self._selection.inputs:
            feature = self._features[name]
            if feature.kind == "image":
                tensors[name] = self._picture(name, tensors[name])
            elif parse.is_array(feature):
                told = self._selection.shapes.get(name, ())
                sides = [tf.reshape(tensors[side], [-1]) for side in told]
                shape = tf.concat(sides, 0) if sides else None
                tensors[name] = parse.decode_array(tensors[name], feature, shape)
        return tensors

    def _pixels(self, name: str, one: Any, *, seed: Any) -> Any:
        """A picture, from its bytes or as the array that is stored, on its way into a batch."""
        value, number = one if isinstance(one, tuple) else (one, None)
        if name in self._selection.pictures:
            value = self._picture(name, value)
        return tf.ensure_shape(self._varied(value, number=number, seed=seed), self._shape(name))

    def _picture(self, name: str, content: Any) -> Any:
        """uint8[height, width, channels] of an encoded picture; of several, [pictures, ...]."""
        if not self._features[name].shape:
            return self._one_picture(name, content)
        return tf.map_fn(
            lambda one: self._one_picture(name, one),
            content,
            fn_output_signature=tf.TensorSpec(self._shape(name)[1:], tf.uint8),
        )

    def _one_picture(self, name: str, content: Any) -> Any:
        feature, size = self._features[name], self._options.image_size
        shape = feature.raw_shape or (None, None, channels_of(feature))
        picture = images.decode(content, shape, is_jpeg=self._is_jpeg)
        return picture if size is None else images.resize(picture, size)

    def _varied(self, picture: Any, *, number: Any, seed: Any) -> Any:
        """It, as it comes in the epoch of this seed as the record of this number."""
        if not self._options.augment:
            return picture
        return images.augment(picture, self._options.augment, tf.stack([seed, number]))

    def _shape(self, name: str) -> tuple[int | None, ...]:
        """Of a picture, or a clip, as far as it is the same for all."""
        feature = self._features[name]
        frames = feature.shape if feature.kind == "image" else ()
        if feature.kind == "image" and self._options.image_size is not None:
            return (*frames, *self._options.image_size, channels_of(feature))
        return (*frames, *(feature.raw_shape or (None, None, channels_of(feature))))

    def _batched(self, elements: Any) -> Any:
        """Batches of elements of single records."""
        options = self._options
        size, drop = options.batch_size, options.drop_remainder
        if options.bucket_boundaries is not None:
            boundaries = [*options.bucket_boundaries]
            return elements.bucket_by_sequence_length(
                _length,
                bucket_boundaries=boundaries,
                bucket_batch_sizes=[size] * (len(boundaries) + 1),
                drop_remainder=drop,
            )
        shapes = [spec.shape for spec in tf.nest.flatten(elements.element_spec)]
        if all(shape.is_fully_defined() for shape in shapes):
            return elements.batch(size, drop_remainder=drop)
        if options.padding == "ragged":
            return elements.ragged_batch(size, drop_remainder=drop)
        if options.pad_to is None:
            padded = elements.padded_batch(size, drop_remainder=drop)
            return padded.map(
                lambda *element: tf.nest.map_structure(_one_at_least, _whole(element))
            )
        cut = elements.map(lambda *element: tf.nest.map_structure(self._cut, _whole(element)))
        shapes = tf.nest.map_structure(self._padded, cut.element_spec)
        return cut.padded_batch(size, padded_shapes=shapes, drop_remainder=drop)

    def _cut(self, value: Any) -> Any:
        """What is longer than `pad_to`, without the rest."""
        return value[: self._options.pad_to] if _varies(value.shape) else value

    def _padded(self, spec: Any) -> list[int | None]:
        shape = [*spec.shape]
        return [self._options.pad_to, *shape[1:]] if _varies(spec.shape) else shape

    def _steps(self) -> int | None:
        """Batches of an epoch, or its records; None where nobody knows, or it has no end."""
        options = self._options
        if self._is_mix or options.bucket_boundaries is not None:
            return None
        records = self._sources[0].part.records
        size = options.batch_size or 1
        return records // size if options.drop_remainder else -(-records // size)

    def _length(self, steps: int | None) -> int:
        """What `len` says of the dataset, where an epoch has so many steps."""
        repeat = self._options.repeat
        if steps is None or repeat is True:
            return int(tf.data.INFINITE_CARDINALITY)
        return steps if repeat is False else steps * repeat - self._options.start

    def _check_end(self) -> None:
        """Raises ConfigError where an iteration might wait for a batch for ever."""
        options = self._options
        if not self._is_mix and options.repeat is not True:
            return
        for source in self._sources:
            if not source.part.records:
                raise ConfigError(
                    f"{source.place} has no records in {options.split} for this host: a dataset"
                    " without end would wait for them forever"
                )
        if self._is_mix or not options.drop_remainder or options.batch_size is None:
            return
        batches = len(options.bucket_boundaries or ()) + 1
        if self._sources[0].part.records <= (options.batch_size - 1) * batches:
            raise ConfigError(
                f"the {self._sources[0].part.records} records of {options.split} may fill no batch"
                f" of {options.batch_size}: with drop_remainder a dataset without end would wait"
                " for one forever"
            )

    def _check_start(self, epoch: int, skip: int, steps: int | None) -> None:
        """Raises ConfigError for a start after the end, or one that only an endless run has."""
        options = self._options
        if options.start == 0 or self._is_mix:
            return
        if not steps:
            raise ConfigError("start: there are no records to start with")
        if options.repeat is False and skip:
            raise ConfigError(
                f"start: {options.start} is in the middle of an epoch of {steps} steps, which"
                " needs repeat=True, or a number of epochs"
            )
        if not isinstance(options.repeat, bool) and epoch >= options.repeat:
            raise ConfigError(
                f"start: expected a step below {steps * options.repeat}, where {options.repeat}"
                f" epochs of {steps} end, got {options.start}"
            )


def check_places(places: Iterable[str]) -> None:
    """Raises ConfigError for one that TensorFlow cannot read."""
    known = {tf.compat.as_str(scheme) for scheme in tf.io.gfile.get_registered_schemes()}
    for place in places:
        scheme, found, _ = place.partition("://")
        if found and scheme not in known:
            raise ConfigError(
                f"TensorFlow cannot read {scheme}://: copy the dataset, import a package that adds"
                " it (tensorflow-io), or read with recordmill.read"
            )


def _only(value: Any) -> Any:
    """The value of the one record of a batch."""
    found = value[0]
    return found.to_tensor() if isinstance(found, tf.RaggedTensor) else found


def _whole(element: tuple[Any, ...]) -> Any:
    """What `map` has taken apart: a dictionary comes as the only argument."""
    return element if len(element) > 1 else element[0]


def _varies(shape: Any) -> bool:
    return shape.rank > 0 and shape[0] is None


def _one_at_least(batch: Any) -> Any:
    """Values of records that have none of any length, filled up to one, so that a batch in which
    nobody has a value is of the same kind as others.
    """
    if batch.shape.rank < 2 or batch.shape[1] is not None:
        return batch
    missing = tf.cast(tf.equal(tf.shape(batch)[1], 0), tf.int32)
    widths = tf.stack([[0, 0], tf.stack([0, missing]), *[[0, 0]] * (batch.shape.rank - 2)])
    empty = "" if batch.dtype == tf.string else tf.zeros((), batch.dtype)
    filled = tf.pad(batch, widths, constant_values=empty)
    return tf.ensure_shape(filled, batch.shape)


def _length(*element: Any) -> Any:
    """int32[]: how long the longest input is."""
    x = element[0]
    lengths = [tf.shape(value)[0] for value in tf.nest.flatten(x) if _varies(value.shape)]
    if not lengths:
        raise ConfigError("bucket_boundaries: all inputs have a length that is the same for all")
    return tf.reduce_max(tf.stack(lengths))


def _settings() -> Any:
    settings = tf.data.Options()
    settings.deterministic = True
    # The thread of AUTOTUNE sleeps for 10 ms, then for twice as long each time, and the end of an
    # iterator waits for it to wake: that is after 5.1, 10.2, 20.5 s, up to as long as the epoch.
    settings.autotune.enabled = False
    # Seeds of orders are given: the generators that the steps keep have no state that counts.
    settings.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    # Hosts that say which part is theirs get it; of the others each leaves out what others take.
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return settings
