"""Parameters: leaves to be learned, their shapes inferred from use, their first values from their names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import prod, sqrt
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from weft.assign import Cells, Data, Extent, Fetch, Node, Offset
from weft.errors import Origin, WeftError, user_origin
from weft.ops import Number, Scalar, call, scalar
from weft.shape.cells import ShapeVar
from weft.shape.close import close
from weft.shape.infer import infer
from weft.shape.logic import Parameter
from weft.shape.nodes import Dim
from weft.shape.text import as_dim
from weft.tensor.leaves import numbers, precision_of
from weft.tensor.scope import current_scope
from weft.tensor.tensor import Tensor

#: One size, several, or `{"label": size}`.
Sizes: TypeAlias = int | Dim | Sequence[int | Dim] | Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Seed:
    """The seed, and the names drawn since it was set: two parameters of one name start differently."""

    number: int = 0
    drawn: tuple[str, ...] = ()


_seed: ContextVar[_Seed] = ContextVar("weft_seed")


def seed(number: int) -> None:
    """Seed what is random from here on; the same seed gives the same numbers on every backend."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise WeftError(f"a seed is a whole number, not {number!r}", origin=user_origin())
    _seed.set(_Seed(int(number)))


@dataclass(frozen=True, slots=True)
class Cell:
    """What an initialiser works with: random numbers of one cell, and the sizes of its parameter."""

    key: int
    shape: ShapeVar

    def uniform(self, stream: int = 0) -> Scalar:
        """A number in [0, 1); different streams are independent."""
        return random_unit(self.key, stream, Offset())

    def normal(self) -> Scalar:
        """A number from the standard normal distribution."""
        return random_normal(self.key, Offset())

    def measure(self, what: str, how: Callable[[int, int], float]) -> Scalar:
        """A number computed from how many inputs and outputs the parameter has."""
        return Extent(lambda: how(*_fans(self.shape)), what)


Init: TypeAlias = Callable[[Cell], Number]


def random_unit(key: int, stream: int, counter: Number) -> Scalar:
    """A number in [0, 1) for each counter, from a key and a stream."""
    mixed = (key + stream * 0x9E3779B97F4A7C15) % (1 << 64)
    return call("uniform", call("threefry4x32", mixed, counter))


def random_normal(key: int, counter: Number) -> Scalar:
    """A standard normal number for each counter, by the method of Box and Muller."""
    radius = call("sqrt", -2.0 * call("log", 1.0 - random_unit(key, 1, counter)))
    return radius * call("cos", random_unit(key, 2, counter) * (2.0 * float(np.pi)))


def random_key(name: str) -> int:
    """The key of everything random called `name` under the current seed."""
    current = _seed.get(_Seed())
    text = f"{current.number}:{name}:{current.drawn.count(name)}"
    _seed.set(replace(current, drawn=(*current.drawn, name)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def uniform(low: float = 0.0, high: float = 1.0) -> Init:
    """Initialise uniformly from `low` to `high`."""
    return lambda cell: cell.uniform() * (high - low) + low


def normal(mean: float = 0.0, std: float = 1.0) -> Init:
    """Initialise from a normal distribution."""
    return lambda cell: cell.normal() * std + mean


def kaiming() -> Init:
    """Initialise uniformly so that a relu layer keeps the variance of its inputs."""
    return lambda cell: _within(cell, cell.measure("kaiming", lambda inputs, outputs: sqrt(6 / inputs)))


def xavier() -> Init:
    """Initialise uniformly so that a linear layer keeps variances forward and backward."""
    return lambda cell: _within(cell, cell.measure("xavier", lambda inputs, outputs: sqrt(6 / (inputs + outputs))))


def _default() -> Init:
    """Keep the variance of the inputs; small where there are none."""
    return lambda cell: _within(
        cell, cell.measure("lecun", lambda inputs, outputs: sqrt(3 / inputs) if inputs > 1 else 0.1)
    )


def _within(cell: Cell, bound: Scalar) -> Scalar:
    return (cell.uniform() * 2.0 - 1.0) * bound


def param(
    name: str,
    *,
    o: Sizes | None = None,
    i: Sizes | None = None,
    b: Sizes | None = None,
    init: float | Sequence[Any] | Init | None = None,
    dtype: str | None = None,
    square: bool = False,
) -> Tensor:
    """A parameter. Its axes are inferred from use where `o` (output), `i` (input), `b` (batch) do not say.

    `init` is a number, a nested list, or a function such as `wf.uniform(-1, 1)`. Without `dtype` it is stored in the
    type of what it is used with. With `square` its input and output axes are alike. Inside `@wf.op` the parameter belongs
    to the layer: this place of the body gets the same one at every application.
    """
    origin = user_origin()
    if not isinstance(name, str) or not name:
        raise WeftError(f"a parameter needs a name, not {name!r}", origin=origin)

    def make(label: str) -> Tensor:
        return _make(label, o, i, b, init, dtype, origin, square)

    scope = current_scope()
    found: Tensor = scope.place(name, make) if scope else make(name)
    return found


def _make(
    label: str,
    o: Sizes | None,
    i: Sizes | None,
    b: Sizes | None,
    init: Any,
    dtype: str | None,
    origin: Origin | None,
    square: bool,
) -> Tensor:
    precision = precision_of(0.0, dtype)
    values = numbers(init) if isinstance(init, list | tuple | np.ndarray) else None
    if values is not None and o is None and i is None:
        o = values.shape or (1,)
    logic = Parameter(given_dims(b, "b", origin) or (), given_dims(i, "i", origin), given_dims(o, "o", origin), square)
    shape = infer(logic, name=label, title="parameter", origin=origin).result
    node = Node(label, shape, precision, origin=origin)
    node.init = Fetch(node, Data(values) if values is not None else Cells(_first_value(init, label, shape, origin)))
    return Tensor(node, differentiable=True, is_param=True)


def _first_value(init: Any, label: str, shape: ShapeVar, origin: Origin | None) -> Scalar:
    if init is None:
        init = _default()
    if init in (uniform, normal, kaiming, xavier):
        init = init()
    if isinstance(init, int | float | np.number):
        return scalar(float(init))
    if callable(init):
        value = init(Cell(random_key(label), shape))
        if isinstance(value, Scalar | int | float):
            return scalar(value)
    raise WeftError(
        f"`init` of parameter `{label}` is {init!r}",
        origin=origin,
        fix="give a number, a nested list, or an initialiser such as wf.uniform(-1, 1) or wf.kaiming()",
    )


def given_dims(sizes: Sizes | None, row: str, origin: Origin | None) -> tuple[Dim, ...] | None:
    """What `o=`, `i=` or `b=` says of a row."""
    match sizes:
        case None:
            return None
        case Mapping():
            return tuple(Dim(as_dim(size, f"{row}=", origin).size, basis) for basis, size in sizes.items())
        case Sequence() if not isinstance(sizes, str):
            return tuple(as_dim(size, f"{row}=", origin) for size in sizes)
    return (as_dim(sizes, f"{row}=", origin),)


def _fans(shape: ShapeVar) -> tuple[int, int]:
    closed = close(shape)
    return prod(dim.size for dim in closed.input), prod(dim.size for dim in closed.output)
