"""Options and datasets put together: the `tf.data` steps that make the elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recordmill.errors import ConfigError
from recordmill.loading import parse, pictures, stream
from recordmill.loading.elements import Elements
from recordmill.loading.options import LoadOptions
from recordmill.loading.parse import Tensors
from recordmill.loading.selection import channels_of
from recordmill.loading.sources import Source, weights_of_classes

_AUTO = tf.data.AUTOTUNE


class Pipeline:
    """Makes the dataset that `recordmill.load` returns.

    Records whose values are as many in all of them, or ragged, are parsed a batch at once; those
    with pictures, and what is to be cached, varied or sorted by length, one by one.
    """

    def __init__(self, options: LoadOptions, sources: Sequence[Source], *, is_mix: bool) -> None:
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
            classes=len(first.manifest.labels),
            label_offset=first.manifest.label_offset,
            class_weights=weights,
        )
        self._check_end()
        self._cached = [self._cache(source) for source in sources] if options.cache else []

    def dataset(self) -> Any:
        """The dataset, ready to be iterated."""
        options = self._options
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
        return data.prefetch(_AUTO).with_options(_settings())

    def _epoch(self, seed: Any, skip: Any) -> Any:
        """Dataset of the batches of an epoch, or its records, by its seed (int64[]), but for the
        first `skip` (int64[]).
        """
        options = self._options
        streams = [
            lambda drawn, number=number: self._records(number, drawn)
            for number in range(len(self._sources))
        ]
        if self._is_mix:
            weights = [source.weight for source in self._sources]
            records = stream.mixed(streams, weights, seed)
        else:
            records = streams[0](seed)
        numbered = records.enumerate()
        if skip is not None:
            numbered = numbered.skip(skip * (options.batch_size or 1))
        if options.batch_size is not None and self._is_parsed_in_batches:
            batches = numbered.batch(options.batch_size, drop_remainder=options.drop_remainder)
            return batches.map(lambda _, record: self._batch(*record), num_parallel_calls=_AUTO)
        elements = numbered.map(
            lambda number, record: self._element(*record, number=number, seed=seed),
            num_parallel_calls=_AUTO,
        )
        return elements if options.batch_size is None else self._batched(elements)

    def _records(self, source: int, seed: Any) -> Any:
        """Dataset of (payload, weight) of an epoch, or of what is cached of them."""
        options = self._options
        part = self._sources[source].part
        drawn = seed if options.shuffle else None
        if not options.cache:
            return stream.epoch(
                part,
                compression=self._sources[source].manifest.compression,
                seed=drawn,
                buffer=options.shuffle_buffer,
            )
        cached = self._cached[source]
        if drawn is None:
            return cached
        buffer = options.shuffle_buffer or stream.buffer_of(part)
        return cached.shuffle(buffer, seed=drawn, reshuffle_each_iteration=False)

    def _cache(self, source: Source) -> Any:
        """Dataset of (features of a record, weight), in the order of the files."""
        records = stream.epoch(source.part, compression=source.manifest.compression)
        decoded = records.map(
            lambda payload, weight: (self._decoded(payload), weight), num_parallel_calls=_AUTO
        )
        path = self._options.cache
        if path is True:
            return decoded.cache()
        # Of several datasets each has files of its own.
        number = self._sources.index(source)
        return decoded.cache(str(path) if number == 0 else f"{path}.{number}")

    @property
    def _is_parsed_in_batches(self) -> bool:
        options = self._options
        per_record = options.cache or options.augment or options.bucket_boundaries is not None
        return not per_record and all(parse.is_uniform(one) for one in self._features.values())

    def _batch(self, payloads: Any, weights: Any) -> Any:
        """The element of string[n] payloads and float32[n] weights."""
        tensors = parse.decode_arrays(self._parse(payloads), self._features)
        if self._options.padding == "pad":
            pad_to = self._options.pad_to
            tensors = {
                name: value.to_tensor(shape=[None, pad_to, *value.shape[2:]])
                if isinstance(value, tf.RaggedTensor) and name != self._selection.label
                else value
                for name, value in tensors.items()
            }
        return self._elements.of(tensors, weights)

    def _element(self, record: Any, weight: Any, *, number: Any, seed: Any) -> Any:
        """That of one record: of its payload, or of its features where they are cached."""
        tensors = dict(record) if self._options.cache else self._decoded(record)
        if self._options.augment:
            for name in self._selection.pixels:
                by = tf.stack([seed, number])
                tensors[name] = pictures.augment(tensors[name], self._options.augment, by)
        return self._elements.of(tensors, weight)

    def _decoded(self, payload: Any) -> Tensors:
        """The features of one record, pictures in the size that is wanted."""
        tensors = {name: _only(value) for name, value in self._parse(payload[None]).items()}
        for name in self._selection.inputs:
            feature = self._features[name]
            if feature.kind == "image":
                shape = feature.raw_shape or (None, None, channels_of(feature))
                picture = pictures.decode(tensors[name], shape, is_jpeg=self._is_jpeg)
                size = self._options.image_size
                tensors[name] = picture if size is None else pictures.resize(picture, size)
            elif parse.is_array(feature):
                sides = [tensors[side] for side in self._selection.shapes.get(name, ())]
                tensors[name] = parse.decode_array(tensors[name], feature, sides or None)
        return tensors

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
            return elements.padded_batch(size, drop_remainder=drop)
        cut = elements.map(lambda *element: tf.nest.map_structure(self._cut, _whole(element)))
        padded = tf.nest.map_structure(self._padded, cut.element_spec)
        return cut.padded_batch(size, padded_shapes=padded, drop_remainder=drop)

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
        """Raises ConfigError where nothing would ever come."""
        if not self._is_mix and self._options.repeat is not True:
            return
        for source in self._sources:
            if not source.part.records:
                raise ConfigError(
                    f"{source.place} has no records in {self._options.split} for this host: a"
                    " dataset without end would wait for them forever"
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


def _only(value: Any) -> Any:
    """The value of the one record of a batch."""
    found = value[0]
    return found.to_tensor() if isinstance(found, tf.RaggedTensor) else found


def _whole(element: tuple[Any, ...]) -> Any:
    """What `map` has taken apart: a dictionary comes as the only argument."""
    return element if len(element) > 1 else element[0]


def _varies(shape: Any) -> bool:
    return shape.rank > 0 and shape[0] is None


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
    # Seeds of orders are given: the generators that the steps keep have no state that counts.
    settings.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    # Hosts that say which part is theirs get it; of the others each leaves out what others take.
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return settings
