"""Gradients as definitions of the language, for given shapes.

A left side of the language has indices and numbers, and a gradient may write at `i + k`, `2 * i` or `I(b)`. Then the
place that is written gets an index of its own: `d_X(2 * i + k) += d_O(i) * W(k)` becomes
`d_X(j) += (j - k) % 2 == 0 && … ? d_O((j - k) / 2) * W(k) : 0`, and `d_L(I(b)) += d_O(b)` becomes
`d_L(j) += j == I(b) ? d_O(b) : 0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.comprehension.affine import Range
from weft.comprehension.derivative import ZERO
from weft.comprehension.gradient import Backward, needed
from weft.comprehension.linear import linear, written
from weft.comprehension.nodes import (
    Apply,
    Between,
    Binary,
    Cast,
    Choose,
    Comprehension,
    Definition,
    Dim,
    Expr,
    Ident,
    Index,
    Int,
    Param,
    Read,
    Real,
    Result,
    Size,
    TensorType,
    Unary,
    walk,
)
from weft.comprehension.steps import Extents, Flat, Step, rebuilt
from weft.comprehension.types import settled, type_of
from weft.ops.dtypes import is_float, promote


def gradient_definition(name: str, flat: Flat, made: Backward, extents: Extents, wrt: Sequence[str]) -> Definition:
    """A definition that computes the gradients by the parameters `wrt` from all parameters and the results' gradients.

    The steps that compute what the gradient reads come first.
    """
    shapes = {**extents.shapes, **{one: extents.shapes[like] for one, like in made.like.items()}}
    taken = {name, *shapes}
    found = {one: made.found.get(one) or _free(f"d_{one}", taken) for one in wrt}
    real = [one for one in flat.results if is_float(flat.types[one])]
    seeds = {one: made.seeds.get(one) or _free(f"d_{one}", taken) for one in real}
    body = [_zeros(found[one], shapes[one], taken) for one in wrt if one not in made.found]
    for step in needed([*flat.steps, *made.steps], made.found.values()):
        body += _statements(step, extents, shapes[step.target], taken)
    params = [Param(_type(flat.types[one], shapes[one]), Ident(one)) for one in flat.params]
    params += [Param(_type(flat.types[one], shapes[one]), Ident(seed)) for one, seed in seeds.items()]
    types = {**flat.types, **{one: flat.types[like] for one, like in made.like.items()}}
    types |= {new: flat.types[one] for one, new in (*found.items(), *seeds.items())}
    results = tuple(Result(Ident(one)) for one in found.values())
    return _distinct(Definition(Ident(name), tuple(params), results, _converted(body, types)), taken)


def _distinct(definition: Definition, taken: set[str]) -> Definition:
    """The definition with other names for tensors that are called like a function or a type it uses."""
    body = [one for one in definition.body if isinstance(one, Comprehension)]
    parts = [part for one in body for part in walk(one.value)]
    used = {one.function for one in parts if isinstance(one, Apply)} | {
        one.dtype for one in parts if isinstance(one, Cast)
    }
    names = {one: _free(f"{one}_", taken) for one in sorted(used & taken)}
    if not names:
        return definition

    def ident(one: Ident) -> Ident:
        return Ident(names.get(one.name, one.name))

    def change(one: Expr) -> Expr | None:
        if isinstance(one, Read) and one.tensor in names:
            return Read(names[one.tensor], tuple(rebuilt(part, change) for part in one.subscripts))
        return None

    return replace(
        definition,
        params=tuple(replace(one, name=ident(one.name)) for one in definition.params),
        results=tuple(replace(one, name=ident(one.name)) for one in definition.results),
        body=tuple(replace(one, target=ident(one.target), value=rebuilt(one.value, change)) for one in body),
    )


def _converted(body: Sequence[Comprehension], types: Mapping[str, str]) -> tuple[Comprehension, ...]:
    """The statements with conversions where tensors would otherwise get other types than these."""
    natural: dict[str, str] = {}
    fitting = []
    for statement in body:
        target, dtype = statement.target.name, type_of(statement.value, types, {})
        if promote(dtype, types[target]) != types[target]:
            dtype, statement = types[target], _as(types[target], statement)
        natural[target] = promote(natural.get(target, dtype), dtype)
        fitting.append(statement)
    open = {target for target, dtype in natural.items() if settled(dtype) != types[target]}
    found = []
    for statement in fitting:
        target = statement.target.name
        found.append(_as(types[target], statement) if target in open else statement)
        open.discard(target)
    return tuple(found)


def _as(dtype: str, statement: Comprehension) -> Comprehension:
    return replace(statement, value=Cast(dtype, statement.value))


def _type(dtype: str, shape: Sequence[int]) -> TensorType:
    return TensorType(dtype, tuple(Int(size) for size in shape))


def _free(wanted: str, taken: set[str]) -> str:
    """A name that nothing has, taken from now on."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _zeros(tensor: str, shape: tuple[int, ...], tensors: Set[str]) -> Comprehension:
    """Zeros in every cell."""
    taken = set(tensors)
    ranges = {_free(f"i{axis}", taken): Range(0, size) for axis, size in enumerate(shape)}
    return Comprehension(Ident(tensor), tuple(map(Index, ranges)), None, False, Real(0.0), _where(ranges))


def _statements(step: Step, extents: Extents, shape: tuple[int, ...], tensors: Set[str]) -> list[Comprehension]:
    """A step as a statement; before it zeros, where it starts a tensor of which it does not reach every cell."""
    ranges = extents.ranges(step)
    taken = {*tensors, *ranges}
    names = {index: _free(index, taken) if index in tensors else index for index in ranges}
    writing = _Writing({names[one]: range for one, range in ranges.items()}, _plain(step.value, extents, names), taken)
    at: list[Index | Int] = []
    for axis, size in enumerate(shape if step.at else ()):
        at.append(writing.place([_plain(one, extents, names) for one in step.at], axis, size, at))
    left = {one.name for one in at if isinstance(one, Index)}
    ranges = {index: range for index, range in writing.ranges.items() if step.reduction or index in left}
    covers = all(_covers(one, ranges, size) for one, size in zip(at, shape, strict=False))
    first = [] if step.keeps or covers else [_zeros(step.target, shape, tensors)]
    resets = step.reduction is not None and not step.keeps and not first
    target = Ident(step.target)
    return [*first, Comprehension(target, tuple(at), step.reduction, resets, writing.value, _where(ranges))]


def _covers(at: Index | Int, ranges: Mapping[str, Range], size: int) -> bool:
    return size == 1 and at.value == 0 if isinstance(at, Int) else ranges[at.name] == Range(0, size)


def _where(ranges: Mapping[str, Range]) -> tuple[Between, ...]:
    return tuple(Between(Ident(index), _int(range.low), _int(range.high)) for index, range in ranges.items())


@dataclass(slots=True)
class _Writing:
    """A step that is being written as a statement."""

    ranges: dict[str, Range]
    value: Expr
    taken: set[str]

    def place(self, at: Sequence[Expr], axis: int, size: int, before: Sequence[Index | Int]) -> Index | Int:
        """The index of an axis: what stands there if it is one or a number, else one for the place it stands for.

        The subscript's own index is then expressed by the place, if it can be. Nothing comes of what lies outside.
        """
        subscript = at[axis]
        if isinstance(subscript, Int):
            return subscript
        if isinstance(subscript, Index) and subscript not in before:
            range = self.ranges[subscript.name]
            self.ranges[subscript.name] = Range(max(range.low, 0), min(range.high, size))
            return subscript
        place = self._index()
        others = {one for number, expr in enumerate(at) if number != axis for one in _indices(expr)}
        form = linear(subscript)
        index = next((one for one in form.names if one not in others), None) if form is not None else None
        if form is None or index is None:
            self.value = _only_if(Binary("==", place, subscript), self.value)
        else:
            self._solve(place, index, form)
        self.ranges = {place.name: Range(0, size), **self.ranges}
        return place

    def _solve(self, place: Index, index: str, form: Affine) -> None:
        """Put what an index is, in terms of the place, for the index."""
        factor = form.coefficient(index)
        rest = written(form.without([index]))
        away = Binary("-", place, rest) if factor > 0 else Binary("-", rest, place)
        instead = away if abs(factor) == 1 else Binary("/", away, Int(abs(factor)))
        range = self.ranges.pop(index)
        holds: Expr = Binary("&&", Binary("<=", _int(range.low), instead), Binary("<", instead, _int(range.high)))
        if abs(factor) != 1:
            holds = Binary("&&", Binary("==", Binary("%", away, Int(abs(factor))), Int(0)), holds)
        put = rebuilt(self.value, lambda one: instead if isinstance(one, Index) and one.name == index else None)
        self.value = Choose(holds, put, ZERO)

    def _index(self) -> Index:
        """An index of its own."""
        number = 0
        while f"j{number}" in self.taken:
            number += 1
        return Index(_free(f"j{number}", self.taken))


def _only_if(condition: Expr, value: Expr) -> Expr:
    """A value under one more condition, not asked where there is no value: it may read what is only inside there."""
    if isinstance(value, Choose) and value.no == ZERO:
        return Choose(value.condition, _only_if(condition, value.yes), ZERO)
    if isinstance(value, Choose) and value.yes == ZERO:
        return Choose(value.condition, ZERO, _only_if(condition, value.no))
    return Choose(condition, value, ZERO)


def _indices(expr: Expr) -> set[str]:
    return {one.name for one in walk(expr) if isinstance(one, Index)}


def _int(number: int) -> Expr:
    return Unary("-", Int(-number)) if number < 0 else Int(number)


def _plain(expr: Expr, extents: Extents, names: Mapping[str, str]) -> Expr:
    """An expression with numbers for sizes, and indices called so."""

    def change(one: Expr) -> Expr | None:
        match one:
            case Size(name=name):
                return Int(extents.sizes[name])
            case Dim(tensor=tensor, axis=axis):
                return Int(extents.shapes[tensor][axis])
            case Index(name=name):
                return Index(names[name])
        return None

    return rebuilt(expr, change)
