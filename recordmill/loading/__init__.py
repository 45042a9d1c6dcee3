"""From the dataset into training: `recordmill.load`, a `tf.data.Dataset` made from the manifest."""
