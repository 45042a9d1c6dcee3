"""Loading a dataset for training: `recordmill.load` returns a `tf.data.Dataset`."""
