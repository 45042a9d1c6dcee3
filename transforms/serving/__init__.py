"""Transforms of a dataset as TensorFlow SavedModels, for serving without Beam.

The modules import TensorFlow; only `export-transform` imports them.
"""
