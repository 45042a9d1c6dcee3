"""Sources are data: what a scan learns is in the listing, and nobody asks a source for its kind."""

import ast
import collections
import functools

from tests.paths import ROOT
from tests.sources import modules

ROOMS = ("transforms", "pipelines")
# {number of times} {module}: {question}, sorted. New ones belong into the data that a scan yields.
QUESTIONS = ROOT / "tests/data/questions_of_kind.txt"
MUTATORS = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "setdefault", "update"}
MUTABLE = {"dict", "list", "set", "Counter", "defaultdict"}

# Values that follow from the fields and the files, computed once.
MEMOIZED = {
    "FileTree._laid_out",
    "RowInput._known",
    "RowInput._last",
    "RowInput.laid_out",
    "RowSteps.row_input",
    "TextFolder._laid_out",
    "TextFolder._documents",
}


@functools.cache
def classes() -> dict[str, ast.ClassDef]:
    """Return the classes of the rooms that know sources, by their names."""
    return {
        node.name: node
        for path, module in modules().items()
        if path.relative_to(ROOT).parts[0] in ROOMS
        for node in module.body
        if isinstance(node, ast.ClassDef)
    }


@functools.cache
def source_classes() -> dict[str, ast.ClassDef]:
    """Return the classes that list inputs, and two classes that several of them use."""
    some = {name: node for name, node in classes().items() if "Protocol" not in bases_of(node)}
    found = {name for name, node in some.items() if "scan" in {*map(name_of, node.body)}}
    while more := {name for name, node in some.items() if bases_of(node) & found} - found:
        found |= more
    return {name: some[name] for name in sorted(found - {"RowSource"} | {"RowInput", "RowSteps"})}


def bases_of(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0] for base in node.bases}


def name_of(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""


def is_own(node: ast.expr) -> bool:
    """Return whether an expression is an attribute of `self`, or a part of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        inner = node.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name) and inner.id == "self":
            return True
        node = inner
    return False


def changes(node: ast.AST) -> bool:
    """Return whether a node changes an attribute of `self`."""
    if isinstance(node, ast.Assign | ast.Delete):
        return any(map(is_own, node.targets))
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return is_own(node.target)
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if ast.unparse(called) in ("object.__setattr__", "setattr"):
        return True
    return isinstance(called, ast.Attribute) and called.attr in MUTATORS and is_own(called.value)


def test_sources_hold_no_state_but_memoized_values():
    found = source_classes()
    assert len(found) > 15
    memoized = set()
    for name, node in found.items():
        assert any("frozen=True" in ast.unparse(one) for one in node.decorator_list), name
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and one.value is not None:
                text = ast.unparse(one.value)
                assert "init=False" not in text, f"{name}: {text}"
                made = {kind for kind in MUTABLE if f"default_factory={kind}" in text}
                assert not made, f"{name}: {text}"
            for decorator in getattr(one, "decorator_list", ()):
                if "cached_property" in ast.unparse(decorator):
                    memoized.add(f"{name}.{one.name}")
        changed = [ast.unparse(one) for one in ast.walk(node) if changes(one)]
        assert changed == [], name
    assert memoized == MEMOIZED


def asks_for_kind(node: ast.Call, kinds: set[str]) -> bool:
    """Return whether a call asks which class a source or a config is, or what it happens to have.

    Reading the fields that a class declares, `getattr(config, name)`, is not a question.
    """
    asked = ast.unparse(node.func)
    if asked == "isinstance":
        return bool(kinds & {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)})
    if asked not in ("hasattr", "getattr") or (asked == "getattr" and len(node.args) < 3):
        return False
    return ast.unparse(node.args[0]).rpartition(".")[2] in ("config", "source", "files", "input")


def questions() -> collections.Counter[str]:
    """Return {question on the kind of a source or a config: how often a module asks it}."""
    kinds = {*source_classes(), "Source", "RowSource"}
    kinds |= {name for name in classes() if name.endswith("Config")}
    found: collections.Counter[str] = collections.Counter()
    for path, module in modules().items():
        where = path.relative_to(ROOT)
        if where.parts[0] in ROOMS:
            calls = (one for one in ast.walk(module) if isinstance(one, ast.Call))
            asked = (one for one in calls if isinstance(one.func, ast.Name))
            found.update(f"{where}: {ast.unparse(q)}" for q in asked if asks_for_kind(q, kinds))
    return found


def test_no_code_asks_for_the_kind_of_a_source_or_config_but_on_the_list():
    found = questions()
    text = "".join(f"{number} {question}\n" for question, number in sorted(found.items()))
    assert text == QUESTIONS.read_text(), "the list of questions may only shrink"
