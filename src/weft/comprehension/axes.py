"""How large axes are by the text alone: the size variable that an axis is, where it plainly is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from weft.comprehension.accesses import Accesses, place_of
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import (
    Comprehension,
    Definition,
    Expr,
    Ident,
    Index,
    Int,
    Invoke,
    Read,
    Size,
    children,
    exprs,
)
from weft.comprehension.scope import Checked, Scope

#: Of every tensor, the size variable each axis is, or None.
Axes: TypeAlias = dict[str, tuple[str | None, ...]]


def axis_name(tensor: str, axis: int) -> str:
    """The size of an axis that the text has no name for; no name that is written has a dot."""
    return f"{tensor}.{axis}"


def find_axes(definition: Definition, scope: Scope, done: Mapping[str, Checked], types: Mapping[str, str]) -> Axes:
    """The size variables of all axes of a definition's tensors. What runs along two different ones is doubted."""
    found: Axes = {one.name.name: _declared(one.type.dims) for one in definition.params}
    for one in scope.accumulates:
        found[one] = tuple(axis_name(one, axis) for axis in range(scope.ranks[one]))
    for statement in definition.body:
        if isinstance(statement, Invoke):
            callee = done.get(statement.function.name)
            for target, axes in _called(statement, callee, found) if callee else ():
                found.setdefault(target.name, axes)
        else:
            for doubt in _along_two(statement, found, types) if not scope.mistakes else ():
                scope.doubt(doubt)
            here = tuple(_along(one, statement, found) for one in statement.at)
            found.setdefault(statement.target.name, here)
    return found


def _declared(dims: tuple[Ident | Int, ...]) -> tuple[str | None, ...]:
    return tuple(dim.name if isinstance(dim, Ident) else None for dim in dims)


def _called(call: Invoke, callee: Checked, axes: Axes) -> Iterator[tuple[Ident, tuple[str | None, ...]]]:
    """The axes of what a call gives, by those of what it is given."""
    given: dict[str, str] = {}
    results = [one.name.name for one in callee.definition.results]
    params = zip(callee.definition.params, call.args, strict=False)
    passed = [(one.name.name, arg.tensor) for one, arg in params if isinstance(arg, Read)]
    passed += [(one, to.name) for one, to in zip(results, call.targets, strict=False) if one in callee.accumulates]
    for inner, outer in passed:
        for name, size in zip(callee.axes.get(inner, ()), axes.get(outer, ()), strict=False):
            if name is not None and size is not None:
                given.setdefault(name, size)
    for one, target in zip(results, call.targets, strict=False):
        yield target, tuple(given.get(name or "") for name in callee.axes.get(one, ()))


def _along(at: Expr, statement: Comprehension, axes: Axes) -> str | None:
    """The size variable that an index runs to: the only one of the axes it stands alone in, or that of its `where`."""
    if not isinstance(at, Index):
        return None
    if clause := statement.given.get(at.name):
        return clause.high.name if clause.low == Int(0) and isinstance(clause.high, Size) else None
    found = {name for expr in exprs(statement) for name in _stands_in(expr, at.name, axes)}
    return next(iter(found)) if len(found) == 1 else None


def _stands_in(expr: Expr, index: str, axes: Axes) -> Iterator[str | None]:
    """The size of every axis an index stands alone in; None for any other place it is used in."""
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Index) and one.name == index:
            yield None
        elif isinstance(one, Read):
            sizes = axes.get(one.tensor, ())
            for axis, part in enumerate(one.subscripts):
                if isinstance(part, Index) and part.name == index:
                    yield sizes[axis] if axis < len(sizes) else None
                else:
                    waiting.append(part)
        else:
            waiting += children(one)


def _along_two(statement: Comprehension, axes: Axes, types: Mapping[str, str]) -> Iterator[Mistake]:
    """Indices that stand alone in axes of different sizes: they run as far as the shorter one, which few mean."""
    given = {*statement.given}
    seen: dict[str, tuple[str, str]] = {}
    for access in Accesses.of(statement, types).every:
        index, sizes = access.subscript, axes.get(access.tensor, ())
        if not isinstance(index, Index) or index.name in given or access.guards or access.axis >= len(sizes):
            continue
        size, place = sizes[access.axis], f"axis {access.axis} of `{access.tensor}`"
        if size is None or "." in size:
            continue
        before, where = seen.setdefault(index.name, (size, place))
        if before != size:
            given.add(index.name)
            what = f"`{index.name}` runs along {where}, which is `{before}`, and along {place}, which is `{size}`"
            fix = f"give both the same size, or say which: `where {index.name} in 0:{before}`"
            yield Mistake(f"{what}: as far as the shorter one", place_of(index.name, statement), fix)


def leading(tensor: tuple[str | None, ...], names: set[str]) -> int:
    """How many axes of a tensor, from the first on, are some of these sizes."""
    count = 0
    for name in tensor:
        if name not in names:
            break
        count += 1
    return count
