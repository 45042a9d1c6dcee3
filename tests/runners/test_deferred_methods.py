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
    deferred = [name for name, made_by in vars(made(deferred_methods)).items() if is_late(made_by)]
    late = ["__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__", "__delattr__"]
    assert sorted(deferred) == (sorted([*late, "__hash__"]) if sys.version_info < (3, 13) else [])


def is_late(method: Any) -> bool:
    return "compiled" in getattr(getattr(method, "__code__", None), "co_freevars", ())


def test_python_compiles_as_before_after_the_block():
    before = getattr(dataclasses, "_create_fn", None)
    with contextlib.suppress(pickle.PicklingError), deferred_methods():
        raise pickle.PicklingError
    assert getattr(dataclasses, "_create_fn", None) is before
