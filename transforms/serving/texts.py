"""Model of the transforms of texts."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.word_pattern import (
    SPLIT_WORDS,
    SPLIT_WORDS_REWRITE,
)
from recordmill.transforms.serving.models import LookupLines

_TEXTS = [tf.TensorSpec([None], tf.string, name="texts")]


class TextTransform(tf.Module):
    """Function from texts, string[n], to the features of a dataset of the same options.

    Features of variable length are ragged. The signature `serving_default` pads them to the longest
    of the batch: tokens with 0, indices with -1, weights and counts with 0. `tokens/length` is the
    number of tokens.
    """

    def __init__(
        self,
        options: TextOptions,
        *,
        vocabulary: pathlib.Path | None = None,
        idf: npt.NDArray[np.float64] | None = None,
        rename: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._options = options
        self._rename = dict(rename or {})
        if vocabulary is not None:
            self._lines = LookupLines(vocabulary)
        self._idf = None if idf is None else tf.constant(idf, tf.float64)

    @tf.function(input_signature=_TEXTS, autograph=False)  # type: ignore[untyped-decorator]
    def __call__(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._named(self._features(texts))

    @tf.function(input_signature=_TEXTS, autograph=False)  # type: ignore[untyped-decorator]
    def serve(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features as dense tensors."""
        out = {}
        for name, value in self._features(texts).items():
            if isinstance(value, tf.RaggedTensor):
                if name == "tokens":
                    lengths = f"{self._rename.get(name, name)}/length"
                    out[lengths] = value.row_lengths()
                fill = tf.constant(-1 if name.endswith("/indices") else 0, value.dtype)
                value = value.to_tensor(fill)
            out[name] = value
        return self._named(out)

    def _named(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {self._rename.get(name, name): value for name, value in features.items()}

    def _features(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        options = self._options
        out: dict[str, tf.Tensor] = {}
        if "text" in options.output_features:
            out["text"] = texts
        if "tokens" in options.output_features:
            out |= self._padded(self._ids(texts))
        if "bow" in options.output_features or "tfidf" in options.output_features:
            out |= self._terms(self._tokens(texts))
        return out

    def _tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        match self._options.splitter:
            case "words":
                lowered = tf.strings.lower(texts, encoding="utf-8")
                spaced = tf.strings.regex_replace(lowered, SPLIT_WORDS, SPLIT_WORDS_REWRITE)
                return tf.strings.split(spaced)
            case "whitespace":
                return tf.strings.split(texts)
            case "chars":
                return tf.strings.unicode_split(texts, "UTF-8")
        raise ValueError(f"expected words, whitespace or chars, got {self._options.splitter}")

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        options = self._options
        if options.splitter == "bytes":
            split = tf.strings.bytes_split(texts)
            values = tf.reshape(tf.io.decode_raw(split.values, tf.uint8), [-1])
            return split.with_values(tf.cast(values, tf.int64) + 1 + len(options.special_tokens))
        tokens = self._tokens(texts)
        ids = self._lines.ids(tokens.values, oov_buckets=options.oov_buckets)
        return tokens.with_values(ids)

    def _padded(self, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        length = self._options.max_length
        if length is None:
            return {"tokens": ids}
        sizes = tf.minimum(ids.row_lengths(), length)
        return {
            "tokens": ids.to_tensor(0, shape=[None, length]),
            "tokens/mask": tf.cast(tf.sequence_mask(sizes, length), tf.int64),
            "tokens/length": sizes,
        }

    def _terms(self, tokens: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        options = self._options
        if options.ngrams > 1:
            tokens = tf.strings.ngrams(tokens, list(range(1, options.ngrams + 1)), separator=" ")
        lines = self._lines.find(tokens.values)
        places = tf.boolean_mask(tokens.value_rowids() * self._lines.size + lines, lines >= 0)
        found, _, counts = tf.unique_with_counts(tf.sort(places), tf.int64)
        rows, indices = found // self._lines.size, found % self._lines.size
        count = tokens.nrows()

        def ragged(values: tf.Tensor) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_value_rowids(values, rows, nrows=count)

        out: dict[str, tf.Tensor] = {}
        if "bow" in options.output_features:
            out["bow/indices"] = ragged(indices)
            out["bow/counts"] = ragged(counts)
        if "tfidf" in options.output_features:
            weights = tf.cast(counts, tf.float64) * tf.gather(self._idf, indices)
            if options.tfidf_norm == "l2":
                squares = tf.math.unsorted_segment_sum(weights**2, rows, count)
                weights /= tf.gather(tf.sqrt(squares), rows)
            weights = tf.cast(weights, tf.float32)
            if options.tfidf == "sparse":
                out |= {"tfidf/indices": ragged(indices), "tfidf/values": ragged(weights)}
            else:
                shape = tf.stack([count, self._lines.size])
                out["tfidf"] = tf.scatter_nd(tf.stack([rows, indices], axis=1), weights, shape)
        return out
