"""Tests of versions of installed distributions."""

import importlib.metadata
import sys

import pytest

from recordmill.installed_versions import installed_version


@pytest.mark.parametrize("name", ["apache-beam", "Apache_Beam", "numpy", "recordmill"])
def test_versions_are_those_of_the_metadata(name):
    assert installed_version(name) == importlib.metadata.version(name)


def test_the_first_folder_of_the_path_counts(tmp_path, monkeypatch):
    for folder, version in (("a", "1.2"), ("b", "3")):
        (tmp_path / folder / f"Some_thing-{version}.dist-info").mkdir(parents=True)
    (tmp_path / "a" / "some-2.dist-info").mkdir()
    paths = [str(tmp_path / name) for name in ("missing", "a", "b")]
    monkeypatch.setattr(sys, "path", [*paths, *sys.path])
    assert installed_version("some.thing") == "1.2"


def test_an_unknown_distribution_is_an_error():
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        installed_version("no-such-distribution")
