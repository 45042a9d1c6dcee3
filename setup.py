"""What Beam's --setup_file ships to remote workers; the metadata is in pyproject.toml."""

import setuptools

setuptools.setup()
