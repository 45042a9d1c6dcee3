import dataclasses
import pickle
from typing import Literal

import pytest

from recordmill.options import values
from recordmill.options.declaration import (
    Group,
    GroupValues,
    as_given,
    build,
    option,
    option_group,
    options_of,
    shaping,
    value_of,
    values_of,
)

BREAD = Group(1, "Bread", shapes_bytes=True)
OVEN = Group(2, "Oven")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dough:
    """Options of a class that knows no command."""

    flour: Literal["rye", "wheat"] = option("rye", help="Kind of flour.")
    seeds: tuple[tuple[str, int], ...] = option(
        (),
        given={},
        convert=lambda given: tuple((name, int(text)) for name, text in given.items()),
        parse=values.by_column,
        repeat=True,
        help="Grams of seeds.",
    )
    rest: int = option(8, name="rest_hours", after="flour", help="Hours of rest.")
    warm: bool = False  # no option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baking:
    """Options of a command."""

    dough: GroupValues[Dough] = option_group(Dough, group=BREAD)
    heat: int = option(240, group=OVEN, help="Degrees.")
    name: str = option("loaf", after="rest_hours", group=BREAD, help="Name of the bread.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuickBaking(Baking):
    """Options of another command with some of the same options."""

    dough: GroupValues[Dough] = option_group(
        Dough,
        group=BREAD,
        omit=("seeds",),
        flour={"choices": ("wheat",), "help": "The only flour."},
        rest_hours={"group": OVEN},
    )


def test_options_of_a_class_are_options_of_the_command() -> None:
    assert list(options_of(Baking)) == ["flour", "rest_hours", "name", "seeds", "heat"]
    assert options_of(Baking)["rest_hours"].key == "rest-hours"
    assert values_of(Baking()) == {
        "flour": "rye", "rest_hours": 8, "name": "loaf", "seeds": {}, "heat": 240,
    }  # fmt: skip


def test_a_group_makes_its_class_of_the_given_values() -> None:
    baking = build(Baking, {"seeds": {"poppy": "5"}, "rest_hours": 2, "heat": 200})
    assert baking.dough.make() == Dough(seeds=(("poppy", 5),), rest=2)
    assert baking.dough.make(warm=True, rest=1) == Dough(seeds=(("poppy", 5),), rest=1, warm=True)
    assert (baking.heat, baking.dough["rest_hours"]) == (200, 2)
    assert (value_of(baking, "rest_hours"), value_of(baking, "salt", 3)) == (2, 3)
    assert pickle.loads(pickle.dumps(baking)) == baking != Baking()


def test_values_that_identify_a_dataset_are_those_that_were_given() -> None:
    baking = build(Baking, {"seeds": {"poppy": "05"}})
    expected = {"flour": "rye", "rest_hours": 8, "name": "loaf", "seeds": {"poppy": "05"}}
    assert shaping(baking) == expected
    assert as_given(baking) == {**expected, "heat": 240}


def test_a_command_leaves_out_and_changes_options_of_a_class() -> None:
    quick = options_of(QuickBaking)
    assert list(quick) == ["flour", "name", "rest_hours", "heat"]
    assert (quick["flour"].metavar, quick["flour"].help) == ("wheat", "The only flour.")
    assert not quick["rest_hours"].shapes_bytes
    assert QuickBaking().dough.make() == Dough()


def test_two_groups_cannot_share_the_name_of_an_option() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Twice(Baking):
        flour: str = option("oat", group=OVEN, help="Another flour.")

    with pytest.raises(TypeError, match="Twice declares options with the same name: flour"):
        options_of(Twice)
