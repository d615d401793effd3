"""Scalar expressions over the primitive operations.

scalar = Num(value) | Call(op, args) | the leaves of whoever builds the expression
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from weft.errors import WeftError
from weft.migration_hints import numpy_refused

#: What NumPy calls Python's operators, when a number of its own meets something that is no array.
UFUNCS: Mapping[str, str] = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}

#: Python's operators: how each is written, and how tightly it binds.
_WRITTEN: Mapping[str, tuple[str, int]] = {
    "lt": (" < ", 0),
    "le": (" <= ", 0),
    "add": (" + ", 1),
    "sub": (" - ", 1),
    "mul": (" * ", 2),
    "div": (" / ", 2),
    "floordiv": (" // ", 2),
    "mod": (" % ", 2),
    "neg": ("-", 3),
    "pow": ("**", 4),
}
_SIGN, _ATOM = 3, 5
#: The longest text of a part that is shown in full.
_LONGEST = 500

T = TypeVar("T")
Tree = TypeVar("Tree")


def _operators(op: str) -> tuple[Callable[[Scalar, Number], Scalar], Callable[[Scalar, Number], Scalar]]:
    """An operator with a scalar on its left, and with one on its right."""
    return lambda left, right: _operate(op, left, right), lambda right, left: _operate(op, left, right)


class Scalar:
    """A scalar expression. Python's operators build larger ones; leaves are subclasses."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Scalar:
        """`np.float32(2) * scalar` ends here; other functions of NumPy know no expressions."""
        op = UFUNCS.get(ufunc.__name__)
        if op is None or method != "__call__" or options or any(isinstance(one, np.ndarray) for one in inputs):
            raise numpy_refused(ufunc.__name__, "this number")
        left, right = inputs
        if op in ("gt", "ge"):
            return _operate({"gt": "lt", "ge": "le"}[op], right, left)
        return _operate(op, left, right)

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")
    __floordiv__, __rfloordiv__ = _operators("floordiv")
    __mod__, __rmod__ = _operators("mod")
    __pow__, __rpow__ = _operators("pow")
    __lt__, __gt__ = _operators("lt")
    __le__, __ge__ = _operators("le")

    def __neg__(self) -> Scalar:
        return call("neg", self)

    def __abs__(self) -> Scalar:
        return call("abs", self)

    def __bool__(self) -> bool:
        raise WeftError(
            "a number that is only known when the code runs is neither true nor false",
            fix="choose with wf.where; compare for equality with wf.equal",
        )


@dataclass(frozen=True, slots=True)
class Num(Scalar):
    value: float | int | bool

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Call(Scalar):
    op: str
    args: tuple[Scalar, ...]

    def __str__(self) -> str:
        """As Python has it, with `…` for a part that would be long."""
        return computed(self, _leaf_text, _call_text)[0]


Number: TypeAlias = Scalar | float | int
_NUMBERS = (Scalar, int, float, np.number)


def scalar(value: Number) -> Scalar:
    """A number as an expression."""
    if isinstance(value, Scalar):
        return value
    if not isinstance(value, int | float | np.number | np.bool_):
        raise WeftError(f"{value!r} is not a number")
    if isinstance(value, np.generic):
        return Num(value.item())
    # A whole number of a class of its own, such as a named size, prints otherwise: code holds the number alone.
    return Num(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def call(op: str, *args: Number) -> Call:
    """The application of an operation; plain numbers become constants."""
    return Call(op, tuple([arg if isinstance(arg, Scalar) else scalar(arg) for arg in args]))


def leaves(expression: Scalar) -> Iterator[Scalar]:
    """Everything in the expression that is not a call, in the order written; of a part in many places, once."""
    rest, seen = [expression], set[int]()
    while rest:
        one = rest.pop()
        if not isinstance(one, Call):
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            rest += one.args[::-1]


def computed(expression: Scalar, leaf: Callable[[Scalar], T], call: Callable[[Call, Sequence[T]], T]) -> T:
    """What an expression comes to, from its leaves up: of each call from what its arguments came to.

    An expression may be as deep as somebody cared to write it, and have one part in many places: this does not recurse,
    and comes to each call once.
    """
    if not isinstance(expression, Call):
        return leaf(expression)
    if not any(isinstance(arg, Call) for arg in expression.args):  # as most are: nothing to keep in order
        return call(expression, [leaf(arg) for arg in expression.args])
    done: list[T] = []
    known: dict[int, T] = {}
    rest: list[tuple[Scalar, bool]] = [(expression, False)]
    while rest:
        one, inside = rest.pop()
        if not isinstance(one, Call):
            done.append(leaf(one))
        elif inside:
            start = len(done) - len(one.args)
            known[id(one)] = found = call(one, done[start:])
            done[start:] = [found]
        elif id(one) in known:
            done.append(known[id(one)])
        else:
            rest.append((one, True))
            rest += [(arg, False) for arg in reversed(one.args)]
    return done[0]


def fold_tree(tree: Tree, combine: Callable[[Tree, list[T]], T], parts: Callable[[Tree], Sequence[Tree]]) -> T:
    """`computed` for trees with other inner nodes than calls: what a tree comes to, given what its parts come to."""
    done: list[T] = []
    known: dict[int, T] = {}
    rest: list[tuple[Tree, int]] = [(tree, -1)]
    while rest:
        one, count = rest.pop()
        if count >= 0:
            start = len(done) - count
            known[id(one)] = found = combine(one, done[start:])
            done[start:] = [found]
        elif id(one) in known:
            done.append(known[id(one)])
        elif inner := parts(one):
            rest.append((one, len(inner)))
            rest += [(part, -1) for part in reversed(inner)]
        else:
            done.append(combine(one, []))
    return done[0]


def substitute(expression: Scalar, leaf: Callable[[Scalar], Scalar]) -> Scalar:
    """The expression with every leaf replaced."""
    return computed(expression, leaf, lambda one, args: Call(one.op, tuple(args)))


def _leaf_text(leaf: Scalar) -> tuple[str, int]:
    """A text, and how tightly it binds."""
    text = str(leaf)
    return text, _SIGN if text.startswith("-") else _ATOM


def _call_text(one: Call, args: Sequence[tuple[str, int]]) -> tuple[str, int]:
    sign, own = _WRITTEN.get(one.op, ("", _ATOM))
    if not sign:
        text = f"{one.op}({', '.join(part for part, _ in args)})"
    elif len(args) == 1:
        text = sign + _within(*args[0], own)
    else:
        left, right = own + (own in (0, 4)), _SIGN if one.op == "pow" else own + 1
        text = _within(*args[0], left) + sign + _within(*args[1], right)
    return (text, own) if len(text) <= _LONGEST else ("…", _ATOM)


def _within(text: str, binds: int, least: int) -> str:
    return text if binds >= least else f"({text})"


def where(condition: Number, then: Number, otherwise: Number) -> Call:
    return call("where", condition, then, otherwise)


def _operate(op: str, left: Number, right: Number) -> Scalar:
    """The application of an operator; where one side is neither number nor scalar, the other side decides."""
    known = isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)
    return call(op, left, right) if known else cast(Scalar, NotImplemented)
