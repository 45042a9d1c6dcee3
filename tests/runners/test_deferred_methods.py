"""Deferred methods of dataclasses: classes behave as those of Python do."""

import contextlib
import dataclasses
import inspect
import pickle
import sys
from typing import Any

import pytest

from recordmill.runners.deferred_methods import deferred_methods

BLOCKS = [contextlib.nullcontext, deferred_methods]


def made(block: Any) -> Any:
    with block():

        @dataclasses.dataclass(frozen=True, order=True)
        class Size:
            """Size of an image."""

            width: int
            height: int = 1
            note: str = dataclasses.field(default="", compare=False)

    return Size


@pytest.mark.parametrize("block", BLOCKS)
def test_classes_behave_as_those_of_python(block):
    cls = made(block)
    size = cls(3, note="wide")
    assert repr(size) == f"{cls.__qualname__}(width=3, height=1, note='wide')"
    assert (size, hash(size)) == (cls(3), hash(cls(3)))
    assert size != cls(4)
    assert size != (3, 1)
    assert [cls(1), cls(2)] == sorted([cls(2), cls(1)])
    assert cls(1) < cls(1, 2) <= cls(1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'width'"):
        size.width = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'width'"):
        del size.width
    assert str(inspect.signature(cls)).startswith("(width: int, height: int = 1")
    assert cls.__eq__.__qualname__ == f"{cls.__qualname__}.__eq__"
    assert dataclasses.replace(size, width=5).width == 5


def test_methods_are_deferred_where_python_compiles_each_by_itself():
    deferred = deferred_of(made(deferred_methods))
    late = ["__init__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__"]
    late += ["__delattr__", "__hash__"]
    assert sorted(deferred) == (sorted(late) if sys.version_info < (3, 13) else [])


def test_a_method_is_compiled_once_even_if_a_derived_class_calls_it():
    cls = made(deferred_methods)
    derived = type("Derived", (cls,), {})
    assert derived(3).width == 3
    assert "__init__" not in deferred_of(cls)
    assert cls.__init__ is derived.__init__
    assert cls.__init__.__qualname__ == f"{cls.__qualname__}.__init__"


def deferred_of(cls: type[Any]) -> list[str]:
    return [name for name, made_by in vars(cls).items() if hasattr(made_by, "_compile")]


def test_python_compiles_as_before_after_the_block():
    names = ("_create_fn", "_init_fn")
    before = [getattr(dataclasses, name, None) for name in names]
    with contextlib.suppress(pickle.PicklingError), deferred_methods():
        raise pickle.PicklingError
    assert [getattr(dataclasses, name, None) for name in names] == before
