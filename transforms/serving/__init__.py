"""What a dataset's records went through, as a TensorFlow SavedModel: for serving, without Beam.

Its modules import TensorFlow: only `export-transform` imports them, where that is asked for.
"""
