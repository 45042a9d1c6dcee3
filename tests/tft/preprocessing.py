"""Functions as users write them."""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft


def words_and_weights(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Ids of a vocabulary, their tf-idf weights, and what is learned in other ways."""
    words = tf.strings.split(tf.strings.lower(inputs["text"])).to_sparse()
    ids = tft.compute_and_apply_vocabulary(
        words, top_k=1000, num_oov_buckets=1, vocab_filename="words"
    )
    indices, weights = tft.tfidf(ids, vocab_size=1001)
    length = tf.cast(tf.strings.length(inputs["text"]), tf.float32)
    return {
        "text": inputs["text"],
        "tokens": ids,
        "tfidf/indices": indices,
        "tfidf/values": weights,
        "length": tft.scale_to_z_score(length),
        "first": tf.strings.substr(inputs["text"], 0, 1)[:, tf.newaxis],
    }


def label(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Makes what is there already."""
    return {"label": inputs["text"]}


def fails(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Asks for a column that there is not."""
    return {"x": inputs["body"]}


def scaled(inputs):
    """Every number less the mean of train, divided by its deviation."""
    return {name: tft.scale_to_z_score(tf.cast(x, tf.float32)) for name, x in inputs.items()}


def writing(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Writes a file whenever it runs."""
    with tf.control_dependencies([tf.io.write_file("written_by_the_model", "x")]):
        return {"z": tft.scale_to_z_score(tf.cast(tf.identity(inputs["number"]), tf.float32))}
