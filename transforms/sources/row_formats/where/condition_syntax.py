"""Syntax of --where: conditions on columns, in Python's spelling of comparisons.

    age >= 18 and country in ("DE", "FR") and not email is None

The text is parsed by Python's own parser, and only the nodes named here are accepted: nothing is
ever evaluated as Python.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Literal, get_args

from recordmill.errors import ConfigError
from recordmill.option_names import option_name

WHERE = "where"  # the option

Value = str | int | float | bool
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Operation = Literal["+", "-", "*", "/"]

_MOST_NODES = 10_000
_SHOWN = 160  # characters of a condition in a message
_COMPARISONS: dict[type[ast.cmpop], Comparison] = dict(
    zip((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), get_args(Comparison), strict=True)
)
_OPERATIONS: dict[type[ast.operator], Operation] = dict(
    zip((ast.Add, ast.Sub, ast.Mult, ast.Div), get_args(Operation), strict=True)
)
# A string, or a name in backticks, which may hold any characters.
_PARTS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`([^`]+)`""")
_QUOTED = "__quoted_{}__"
# A date, which without quotes is a difference or a quotient of numbers, or no syntax at all.
_BARE_DATE = re.compile(
    r"(?<![\w.])(\d{4}-\d\d?-\d\d?|\d\d?/\d\d?/\d{4}|\d\d?\.\d\d?\.\d{4})(?!\d)", re.ASCII
)


@dataclasses.dataclass(frozen=True)
class Column:
    """The values of a column."""

    name: str


@dataclasses.dataclass(frozen=True)
class Constant:
    """The same value for every row."""

    value: Value


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """The result of an operation on two numbers, as float64."""

    operation: Operation
    left: Operand
    right: Operand


@dataclasses.dataclass(frozen=True)
class Compare:
    """A comparison of two values."""

    comparison: Comparison
    left: Operand
    right: Operand


@dataclasses.dataclass(frozen=True)
class IsIn:
    """The test that a value is one of some constants."""

    operand: Operand
    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class Contains:
    """The test that a list has an item, or a text a part."""

    value: Value
    column: Column


@dataclasses.dataclass(frozen=True)
class IsMissing:
    """The test that there is no value."""

    operand: Operand


@dataclasses.dataclass(frozen=True)
class Not:
    """The negation of a condition; missing if the condition is."""

    condition: Node


@dataclasses.dataclass(frozen=True)
class Both:
    """Several conditions, all of which must hold (`and`), or one of them (`or`)."""

    word: Literal["and", "or"]
    conditions: tuple[Node, ...]


Operand = Column | Constant | Arithmetic
Node = Operand | Compare | IsIn | Contains | IsMissing | Not | Both


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on the columns of a row. columns: the names in it, in their order."""

    text: str
    root: Node
    columns: tuple[str, ...]


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
      ConfigError: it is not a condition; the message says what was expected, and where.
    """
    names: list[str] = []

    def quote(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        names.append(found[2])
        return _QUOTED.format(len(names) - 1)

    given = " ".join(_PARTS.sub(quote, text).splitlines()).strip()
    if not given:
        raise ConfigError(
            f"{option_name('where')}: expected a condition such as 'age >= 18', got nothing"
        )
    if date := _BARE_DATE.search(_PARTS.sub("''", given)):
        raise ConfigError(
            f"{named_option(text)}: put dates in quotes, such as '2024-06-01', and spaces between"
            f" the numbers and operators of a calculation; got {date[0]}"
        )
    try:
        tree = ast.parse(given, mode="eval")
        if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
            raise ConfigError(
                f"{option_name('where')}: expected at most {_MOST_NODES} names, values and"
                " operators"
            )
        parser = _Parser(text, given, names)
        root = parser.node(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{named_option(text)}: {_why(given, error)}") from error
    columns = tuple(dict.fromkeys(parser.columns))
    if not columns:
        raise ConfigError(
            f"{named_option(text)}: expected the name of a column, got constants only"
        )
    return Condition(text, root, columns)


def named_option(text: str) -> str:
    """Return the option with its condition, for messages."""
    return f"--where {_short(text)}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class _Parser:
    """Converts the nodes of Python's parser. columns: the names found so far."""

    def __init__(self, text: str, given: str, quoted: list[str]) -> None:
        self._text = text
        self._given = given
        self._quoted = {_QUOTED.format(number): name for number, name in enumerate(quoted)}
        self.columns: list[str] = []

    def node(self, node: ast.expr) -> Node:
        """Return a condition."""
        match node:
            case ast.BoolOp(op=op, values=values):
                word: Literal["and", "or"] = "and" if isinstance(op, ast.And) else "or"
                return Both(word, tuple(map(self.node, values)))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self.node(operand))
            case ast.Compare(left=left, ops=ops, comparators=others):
                operands = [left, *others]
                found = tuple(
                    self._compare(one, op, other)
                    for one, op, other in zip(operands, ops, others, strict=False)
                )
                return found[0] if len(found) == 1 else Both("and", found)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                raise self._refuse(node, "write `and` and `or` instead of & and |")
        return self._operand(node)

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Node:
        match op, right:
            case ((ast.Is() | ast.IsNot()), ast.Constant(value=None)):
                missing = IsMissing(self._operand(left))
                return missing if isinstance(op, ast.Is) else Not(missing)
            case ((ast.In() | ast.NotIn()), (ast.Tuple() | ast.List() | ast.Set())):
                values = tuple(self._value(item) for item in right.elts)
                if not values:
                    raise self._refuse(right, "expected values between the brackets")
                found: Node = IsIn(self._operand(left), values)
                return found if isinstance(op, ast.In) else Not(found)
            case ((ast.In() | ast.NotIn()), (ast.Name() | ast.Attribute())):
                found = Contains(self._value(left), self._column(right))
                return found if isinstance(op, ast.In) else Not(found)
            case ((ast.In() | ast.NotIn()), _):
                raise self._refuse(
                    right, "expected values in brackets, such as (1, 2), or a column"
                )
            case ((ast.Is() | ast.IsNot()), _):
                why = "`is` compares with None only: write `x is None` for a missing value, or =="
                raise self._refuse(right, why)
        for one in (left, right):
            if isinstance(one, ast.Constant) and one.value is None:
                raise self._refuse(one, "write `x is None` for a missing value")
        return Compare(_COMPARISONS[type(op)], self._operand(left), self._operand(right))

    def _operand(self, node: ast.expr) -> Operand:
        match node:
            case ast.Name() | ast.Attribute():
                return self._column(node)
            case ast.Constant() | ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant()):
                return Constant(self._value(node))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Arithmetic("-", Constant(0), self._operand(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                operation = _OPERATIONS[type(op)]
                return Arithmetic(operation, self._operand(left), self._operand(right))
            case ast.Call():
                raise self._refuse(node, "functions are not supported")
        raise self._refuse(node, "expected a column, a value, a comparison, and, or, not, in")

    def _column(self, node: ast.expr) -> Column:
        """Return a column; a dotted name is one name."""
        parts: list[str] = []
        one = node
        while isinstance(one, ast.Attribute):
            parts.insert(0, one.attr)
            one = one.value
        if not isinstance(one, ast.Name):
            raise self._refuse(node, "expected the name of a column")
        parts.insert(0, one.id)
        name = ".".join(self._quoted.get(part, part) for part in parts)
        self.columns.append(name)
        return Column(name)

    def _value(self, node: ast.expr) -> Value:
        negative = False
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            negative = isinstance(node.op, ast.USub)
            node = node.operand
            if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
                raise self._refuse(node, "expected a number after the sign")
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str | bool | float):
            return -value if negative else value  # type: ignore[operator]
        if isinstance(value, int):
            value = -value if negative else value
            if not -(2**63) <= value < 2**63:
                raise self._refuse(node, "expected an integer of 64 bits")
            return value
        if isinstance(node, ast.Constant) and value is None and node.value is None:
            raise self._refuse(node, "write `x is None` for a missing value")
        raise self._refuse(node, "expected a text, a number, True or False")

    def _refuse(self, node: ast.expr, why: str) -> ConfigError:
        got = ast.get_source_segment(self._given, node) or self._given
        for stand_in, name in self._quoted.items():
            got = got.replace(stand_in, f"`{name}`")
        return ConfigError(f"{named_option(self._text)}: {why}; got {_short(got)}")


def _why(given: str, error: Exception) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "expected fewer nested brackets"
    if hint := next(_hints(given), None):
        return hint
    place = getattr(error, "offset", None)
    where = f" at character {place}" if place else ""
    return (
        "expected a condition such as age >= 18 and country in ('DE', 'FR'); it cannot be parsed"
        f"{where}; put names with spaces or special characters, and keywords of Python such as"
        " class, in backticks: `total price`"
    )


def _hints(given: str) -> Iterator[str]:
    """Yield what may be meant by words and signs of SQL."""
    bare = _PARTS.sub("''", given)
    if re.search(r"[^=<>!]=[^=]", bare):
        yield "write == to compare with a value; = is not a comparison"
    if "<>" in bare:
        yield "write != for <>"
    if re.search(r"\b(AND|OR|NOT|IN|IS|NULL|LIKE|BETWEEN)\b", bare):
        yield "write and, or, not, in, is None in lower case; ranges as 1 <= x <= 9"
