"""Reuse of Examples of earlier datasets: recipes, their lookup, and the copying of frames."""
