"""The same work done by others: each a program of its own, called with input and output folder."""
