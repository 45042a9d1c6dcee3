import importlib.util
import pathlib
import sys

import jinja2
import pytest
from jinja2.environment import Template

from recordmill.report.bytecode_files import BytecodeFiles


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "page.j2").write_text("{{ 1 + 1 }} {{ name }}")
    return tmp_path


def environment(folder: pathlib.Path, options: str = "") -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), bytecode_cache=BytecodeFiles(options)
    )


def compiled(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: str = ""
) -> tuple[Template, bool]:
    """The template, and whether its source was compiled."""
    found = environment(folder, options)
    calls = []
    real = found.compile
    monkeypatch.setattr(found, "compile", lambda *args: calls.append(args) or real(*args))
    return found.get_template("page.j2"), bool(calls)


def test_a_template_is_compiled_until_something_changes(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for expected in (True, False, False):
        template, was_compiled = compiled(folder, monkeypatch)
        assert (template.render(name="<a>"), was_compiled) == ("2 <a>", expected)
    assert pathlib.Path(importlib.util.cache_from_source(str(folder / "page.j2"))).is_file()
    (folder / "page.j2").write_text("{{ 1 + 2 }} {{ name }}")
    template, was_compiled = compiled(folder, monkeypatch)
    assert (template.render(name="b"), was_compiled) == ("3 b", True)
    assert compiled(folder, monkeypatch, "other options")[1]
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99")
    assert compiled(folder, monkeypatch, "other options")[1]


def test_faults_of_the_files_are_ignored(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder / "__pycache__"
    place.write_text("not a folder")
    for _ in range(2):
        template, was_compiled = compiled(folder, monkeypatch)
        assert (template.render(name="b"), was_compiled) == ("2 b", True)
    place.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiled(folder, monkeypatch)[1]
    assert not place.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert compiled(folder, monkeypatch)[1]
    (file,) = place.iterdir()
    for content in (b"", file.read_bytes()[:60], file.read_bytes()[:-400], b"\x80" * 99):
        file.write_bytes(content)
        assert compiled(folder, monkeypatch)[0].render(name="b") == "2 b"
