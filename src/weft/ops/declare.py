"""Monoids as rows of the table of operations: declared by functions, which are traced once, and tried on numbers.

A row is interned: what computes the same under the same name is the same row, and another one of that name is told
apart by a number after it, so that whatever is printed is unambiguous.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import isinf
from typing import Any, TypeAlias

import numpy as np

from weft.errors import WeftError
from weft.ops import typing
from weft.ops.dtypes import UNKNOWN, WEAK_FLOAT, WEAK_INT, carrier, decided, digits, is_float, is_weak, promote
from weft.ops.monoid import Formal, Monoid
from weft.ops.row import Op, no_gradient
from weft.ops.scalar import Num, Number, Scalar, leaves, scalar
from weft.ops.table import DECLARED, OPS, scalar_type
from weft.ops.trials import check_monoid, numeric_values

#: One number, or several as a tuple.
State: TypeAlias = Any

_FUNCTIONS = {"of": "of(x), or of(x, position)", "combine": "combine(a, b)", "result": "result(state)"}


def monoid(
    name: str,
    *,
    start: State,
    combine: Callable[..., State],
    of: Callable[..., State] | None = None,
    result: Callable[..., Number] | None = None,
    wide: bool = False,
) -> Monoid:
    """A way to accumulate, for `accum=`: over one number, or over several that are computed together.

    `of` makes a state of a value, and may ask for its position among those accumulated; `combine` joins two states,
    `start` is the state of nothing, `result` makes a number of a state. They are called once, with numbers that are
    only known when code runs: use `wf.where`, `wf.exp` and their like. That `combine` is associative, with `start` its
    neutral element, is tried on random numbers; if it is commutative too, loops may run in any order. States have the
    type of the values; with `wide`, fractions are carried in double precision.

    >>> norm = wf.monoid("norm", start=0.0, of=lambda x: x * x, combine=lambda a, b: a + b, result=wf.sqrt)
    >>> print(ctx[wf.einsum("i => 0", wf.tensor([3, 4]), accum=norm)])
    [5.]
    """
    row = interned(check_monoid(traced(name, start, combine, of, result, wide=wide)))
    assert row.monoid is not None
    return row.monoid


def traced(
    name: str,
    start: State,
    combine: Callable[..., State],
    of: Callable[..., State] | None = None,
    result: Callable[..., Number] | None = None,
    **facts: Any,
) -> Monoid:
    """The monoid that functions define, if it is one."""
    if not isinstance(name, str) or not name.isidentifier():
        raise WeftError(f"a monoid is called {name!r}, which is no name", fix='wf.monoid("logmeanexp", …)')
    begin = start if isinstance(start, tuple) else (start,)
    size = None if not isinstance(start, tuple) else len(begin)
    if not begin or not all(isinstance(one, int | float | np.number | np.bool_) for one in begin):
        raise WeftError(f"`{name}` starts from {start!r}: give a number, or a tuple of numbers")
    if size is not None and (of is None or result is None):
        fix = "say how a value becomes a state, of=…, and what number a state comes to, result=…"
        raise WeftError(f"a state of `{name}` is {size} numbers", fix=fix)
    width = len(begin)
    ranked = [[width], [width + 1]] if facts.get("ranks") else []
    valued = [[0], [1], [2]] if facts.get("ranks") else [[0], [1]]
    return Monoid(
        name,
        tuple(scalar(one).value for one in begin),  # type: ignore[attr-defined]
        _traced(name, "of", of, valued, size, fewest=1) if of else (Formal(0),),
        _traced(name, "combine", combine, [range(width), range(width, 2 * width)], size),
        _traced(name, "result", result, [range(width), *ranked], None, whole=size)[0] if result else Formal(0),
        **facts,
    )


def _traced(
    name: str,
    role: str,
    function: Callable[..., State],
    given: Sequence[Sequence[int]],
    size: int | None,
    fewest: int = 0,
    whole: int | None = None,
) -> tuple[Scalar, ...]:
    """What a function makes of numbers by their places among its parameters: as many as a state has."""
    grouped = size if role == "combine" else whole
    several = [grouped is not None and (role == "combine" or at == 0) for at in range(len(given))]
    args: list[Any] = [
        tuple(map(Formal, one)) if whole_state else Formal(one[0])
        for one, whole_state in zip(given, several, strict=True)
    ]
    takes = _positional(function)
    if takes is None:
        raise WeftError(f"`{role}` of `{name}` is no function", fix=f"{role}=lambda …: {_FUNCTIONS[role]}")
    if not (fewest or len(args)) <= takes <= len(args):
        raise WeftError(f"`{role}` of `{name}` takes {takes} arguments", fix=f"define {_FUNCTIONS[role]}")
    found = function(*args[:takes])
    numbers = found if isinstance(found, tuple) else (found,)
    if len(numbers) != (size or 1) or isinstance(found, tuple) != (size is not None):
        wanted = f"a tuple of {size}" if size is not None else "one number"
        raise WeftError(f"`{role}` of `{name}` makes {found!r}, not {wanted}")
    if not all(isinstance(one, Scalar | int | float | np.number | np.bool_) for one in numbers):
        raise WeftError(f"`{role}` of `{name}` makes {found!r}: compute with the numbers given, and plain ones")
    made = tuple(map(scalar, numbers))
    for leaf in (leaf for one in made for leaf in leaves(one)):
        if not isinstance(leaf, Formal | Num):
            fix = "give `of` what it needs as the value, combined by the spec: op=…"
            raise WeftError(f"`{role}` of `{name}` uses {leaf!r}, which is not one of its numbers", fix=fix)
    return made


def _positional(function: object) -> int | None:
    """How many numbers a function takes; None of what is no function."""
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


def interned(one: Monoid) -> Op:
    """The row of a monoid, made if there is none yet."""
    for number in count(1):
        name = one.name if number == 1 else f"{one.name}_{number}"
        found = DECLARED.get(name)
        if name in OPS or (found and found.monoid is None):
            raise WeftError(f"`{name}` is an operation of its own", fix="call the monoid something else")
        if found is None or found.monoid is None:
            break
        if found.monoid.definition == one.definition:
            return found
    one = replace(one, name=name)
    for row in (*aggregate_rows(one.size), _row(one, name)):
        DECLARED.setdefault(row.name, row)
    return DECLARED[name]


def _row(one: Monoid, name: str) -> Op:
    return Op(
        name, 2, name, _meaning(one), "", "", no_gradient(name), typing.states, lambda dtype: one.start,
        commutative=one.commutative, associative=True, monoid=one,
    )  # fmt: skip


def aggregate_rows(size: int) -> list[Op]:
    """What puts so many numbers together, and what takes one of them out."""
    if size == 1:
        return []
    pack = Op(f"pack{size}", size, f"pack{size}", _packed, "", "", no_gradient(f"pack{size}"), typing.packed)
    return [pack, *(_item(number) for number in range(size))]


def _item(number: int) -> Op:
    name = f"item{number}"
    return Op(name, 1, name, lambda one: one[f"f{number}"], "", "", no_gradient(name), typing.item(number))


def _packed(*numbers: Any) -> Any:
    parts = np.broadcast_arrays(*numbers)
    made = np.empty(parts[0].shape, [(f"f{at}", one.dtype) for at, one in enumerate(parts)])
    for at, one in enumerate(parts):
        made[f"f{at}"] = one
    return made[()]


def _meaning(one: Monoid) -> Callable[..., Any]:
    def joined(left: Any, right: Any) -> Any:
        numbers = [*_numbers(left), *_numbers(right)]
        pairs = zip(numeric_values(one.combine, numbers), numbers, strict=False)
        made = [np.asarray(part).astype(old.dtype) for part, old in pairs]
        return _packed(*made) if one.size > 1 else made[0][()]

    return joined


def _numbers(state: Any) -> list[Any]:
    array = np.asarray(state)
    return [array[name] for name in array.dtype.names] if array.dtype.names else [array]


def state_types(one: Monoid, value: str, stored: str, count: int = 2**31) -> tuple[str, ...]:
    """The types in which the numbers of a state are carried, for so many values of a type, and a type of the result.

    Where the type of fractions holds all positions they are of that type: vectors of one width are the fastest.
    They are the least that hold what it starts from, what `of` makes of a value, and `combine` of two states.
    """
    position = value if is_float(value) and count <= 1 << digits(value) else WEAK_INT
    lifted = (_type(part, (value, position, position)) for part in one.of)
    begins = (UNKNOWN if one.ends and isinf(first) else _type(Num(first), ()) for first in one.start)
    types = tuple(promote(*pair) for pair in zip(lifted, begins, strict=True))
    while True:
        made = tuple(_type(part, (*types, *types)) for part in one.combine)
        risen = tuple(promote(*pair) for pair in zip(types, made, strict=True))
        if risen == types:
            return tuple(_carried(kind, stored, one.wide) for kind in types)
        types = risen


def _type(value: Scalar, given: Sequence[str]) -> str:
    return scalar_type(value, lambda one: given[one.number])  # type: ignore[attr-defined]


def _carried(kind: str, stored: str, wide: bool) -> str:
    """The type a number of a state is carried in: one without a type of its own in that of the result."""
    if is_weak(kind):
        kind = stored if kind == WEAK_FLOAT and is_float(stored) else decided(kind) if kind == WEAK_FLOAT else "int64"
    found = carrier(decided(kind))
    return "float64" if wide and found == "float32" else found
