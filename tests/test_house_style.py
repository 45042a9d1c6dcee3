"""Rules of names and docstrings that no linter knows."""

import ast
import collections
import re

from tests.paths import ROOT
from tests.sources import modules

OPENERS = re.compile(r"(What|Which|Whether|Where|Those|That|Of)\b")
SHORT_NAMES = re.compile(r"^\s*(from|import) (transforms|pipelines|runners)\b", re.MULTILINE)


def test_no_two_public_classes_share_a_name():
    places = collections.defaultdict(list)
    for path, module in modules().items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 200
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_docstrings_say_what_is_done_or_name_it():
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for path, module in modules().items():
        for node in ast.walk(module):
            text = ast.get_docstring(node) if isinstance(node, documented) else None
            if text is not None and OPENERS.match(text):
                line = getattr(node, "lineno", 1)
                found.append(f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}")
    assert found == []


def test_modules_are_imported_by_their_one_name():
    sources = [*modules()]
    sources += [
        path for room in ("tests", "benchmarks", "examples") for path in (ROOT / room).rglob("*.py")
    ]
    assert [path for path in sources if SHORT_NAMES.search(path.read_text())] == []


# orjson writes the polygons of a listing, which orjson has read, and so has no NaN. The other two
# spell values of the input, or look for unpaired surrogates.
OTHER_JSON = {"coco.py", "text_columns.py", "json_lines.py"}
JSON_WRITERS = re.compile(r"\b(json\.dumps?|orjson\.dumps|JSONEncoder)\b")


def test_json_is_written_in_one_place_which_refuses_nan():
    found = {path.name for path in modules() if JSON_WRITERS.search(path.read_text())}
    assert found == {"strict_json.py", *OTHER_JSON}


# Commands to type, and options of Beam, are flags for everybody.
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w-])")
TYPED = {"recordmill worker-pool --port "}


def test_errors_name_options_in_the_terms_of_the_user():
    """`option_name` gives the flag of a command, and the name in Python."""
    found = []
    for path, module in modules().items():
        if path.is_relative_to(ROOT / "pipelines"):  # they are the command line
            continue
        errors = [
            node
            for node in ast.walk(module)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ConfigError"
        ]
        texts = [node for error in errors for node in ast.walk(error)]
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
            for node in texts
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if FLAG.search(node.value) and node.value not in TYPED
        ]
    assert found == []
