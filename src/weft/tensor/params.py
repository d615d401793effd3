"""Parameters: leaves to be learned, their shapes inferred from use, their first values from their names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from numbers import Integral
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from weft.assign import Cells, Data, Extent, Node, NodeName, Offset, SizeOf
from weft.assign.nodes import Initial
from weft.dynamic_scope import temporarily
from weft.errors import Origin, WeftError, user_origin
from weft.ops import Number, Scalar, call, scalar, where
from weft.shape.infer import Operation, infer
from weft.shape.logic import Parameter
from weft.shape.text import RowSizes, given_dims
from weft.tensor.initial import Rows, check_copied, copied, read_init
from weft.tensor.leaves import precision_of
from weft.tensor.scope import current_application
from weft.tensor.tensor import Tensor

Distribution: TypeAlias = Literal["uniform", "normal"]


@dataclass(frozen=True, slots=True)
class _Seed:
    """The seed, and how often each name was drawn since it was set: two parameters of one name start differently."""

    number: int = 0
    drawn: dict[str, count[int]] = field(default_factory=dict)

    def draw(self, name: str) -> str:
        """Something else each time, whichever thread asks."""
        return f"{self.number}:{name}:{next(self.drawn.setdefault(name, count()))}"


class Draws:
    """What was drawn while something was built: built again, for other sizes, it draws by the same keys."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def again(self) -> AbstractContextManager[_Repeated]:
        """Draw what was drawn before, name by name in order; what was not is drawn anew, and kept."""
        return temporarily(_draws, _Repeated(self._texts))


@dataclass(frozen=True, slots=True)
class _Repeated:
    """Draws of one building: those known, and how many of each name it has had."""

    texts: dict[str, list[str]]
    had: Counter[str] = field(default_factory=Counter)

    def draw(self, name: str) -> str:
        texts = self.texts.setdefault(name, [])
        if self.had[name] == len(texts):
            texts.append(_process.seed.draw(name))
        self.had[name] += 1
        return texts[self.had[name] - 1]


_draws: ContextVar[_Repeated | None] = ContextVar("weft_draws", default=None)


class _Process:
    """What all threads share: a thread that is started later sees the seed too."""

    __slots__ = ("seed",)

    def __init__(self) -> None:
        self.seed = _Seed()


#: A random number has as many binary digits as its type holds, and at most these.
_DIGITS = 53

_process = _Process()


def seed(number: int) -> None:
    """Seed what is random from here on, in the whole process; the same seed gives the same numbers on every backend."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise WeftError(f"a seed is a whole number, not {number!r}")
    _process.seed = _Seed(int(number))


@dataclass(frozen=True, slots=True)
class InitialCell:
    """What an initialiser works with: random numbers of one cell, and the sizes of its parameter."""

    key: int
    operation: Operation

    def __repr__(self) -> str:
        return "<a cell>"

    def uniform(self, stream: int = 0) -> Scalar:
        """A number in [0, 1); different streams are independent."""
        return random_unit(self.key, stream, Offset())

    def normal(self) -> Scalar:
        """A number from the standard normal distribution."""
        return random_normal(self.key, Offset())

    @property
    def inputs(self) -> Scalar:
        """How many inputs the parameter has."""
        return Extent("inputs", SizeOf(self.operation, "input"))

    @property
    def outputs(self) -> Scalar:
        """How many outputs the parameter has."""
        return Extent("outputs", SizeOf(self.operation, "output"))


Init: TypeAlias = Callable[[InitialCell], Number]


def random_unit(key: int, stream: int, counter: Number) -> Scalar:
    """A number in [0, 1) for each counter, from a key and a stream."""
    return call("uniform", _bits(key, stream, counter), _DIGITS)


def random_normal(key: int, counter: Number) -> Scalar:
    """A standard normal number for each counter."""
    return call("normal", _bits(key, 1, counter), _bits(key, 2, counter), _DIGITS)


def _bits(key: int, stream: int, counter: Number) -> Scalar:
    return call("threefry4x32", (key + stream * 0x9E3779B97F4A7C15) % (1 << 64), counter)


def random_key(name: str) -> int:
    """The key of everything random called `name` under the current seed."""
    text = (_draws.get() or _process.seed).draw(name)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def uniform(low: float = 0.0, high: float = 1.0) -> Init:
    """Initialise uniformly from `low` to `high`."""
    return lambda cell: cell.uniform() * (high - low) + low


def normal(mean: float = 0.0, std: float = 1.0) -> Init:
    """Initialise from a normal distribution."""
    return lambda cell: cell.normal() * std + mean


def kaiming(scale: float = 1.0, distribution: Distribution = "uniform") -> Init:
    """Initialise so that a relu layer keeps the variance of its inputs; `scale` multiplies every number."""
    return _spread("kaiming", scale, distribution, lambda cell: 2 / cell.inputs)


def xavier(scale: float = 1.0, distribution: Distribution = "uniform") -> Init:
    """Initialise so that a linear layer keeps variances forward and backward; `scale` multiplies every number."""
    return _spread("xavier", scale, distribution, lambda cell: 2 / (cell.inputs + cell.outputs))


def _spread(name: str, scale: float, distribution: str, variance: Callable[[InitialCell], Scalar]) -> Init:
    """Numbers around 0 whose variance depends on how many inputs and outputs there are."""
    if distribution not in get_args(Distribution):
        raise WeftError(
            f"there is no distribution {distribution!r} to draw from", fix='use distribution="uniform" or "normal"'
        )
    if distribution == "normal":
        return lambda cell: cell.normal() * Extent(name, scale * call("sqrt", variance(cell)))
    return lambda cell: _within(cell, Extent(name, scale * call("sqrt", 3 * variance(cell))))


def _lecun(cell: InitialCell) -> Scalar:
    """Keep the variance of the inputs; small where there are none."""
    return _within(cell, Extent("lecun", where(cell.inputs > 1, call("sqrt", 3 / cell.inputs), 0.1)))


def _within(cell: InitialCell, bound: Scalar) -> Scalar:
    return (cell.uniform() * 2.0 - 1.0) * bound


def param(
    name: str,
    *,
    o: RowSizes | None = None,
    i: RowSizes | None = None,
    b: RowSizes | None = None,
    init: Any = None,
    dtype: str | None = None,
    square: bool = False,
) -> Tensor:
    """A parameter. Its axes are inferred from use where `o` (output), `i` (input), `b` (batch) do not say.

    `init` is a number, a literal as wf.tensor reads it, an array, an initialiser such as `wf.uniform(-1, 1)`, or a
    tensor computed from data, numbers and random tensors alone. Literals, arrays and tensors give the shape too.
    Without `dtype` it is stored in the type of what it is used with. With `square` its input and output axes are alike.
    Inside `@wf.op` the parameter belongs to the layer: its name is declared once in the body, and is the same parameter
    at every application.
    """
    origin = user_origin()
    given = Rows(given_dims(b, "b"), given_dims(i, "i"), given_dims(o, "o"))

    def make(label: str) -> Tensor:
        return _make(label, given, init, dtype, square=square, origin=origin)

    body = current_application()
    _check_name(name)
    return body.declare(name, make) if body else make(name)


def statistic(name: str, *, init: float) -> Tensor:
    """What a layer keeps beside its parameters: shaped by its use as they are, without a gradient, written by code."""
    origin, body = user_origin(), current_application()

    def make(label: str) -> Tensor:
        return Tensor(_make(label, Rows(), init, origin=origin).operand)

    return body.declare(name, make) if body else make(name)


def named_param(name: str) -> Tensor:
    """The parameter that a bare string stands for inside a layer."""
    origin = user_origin()
    body = current_application()
    if body is None:
        raise WeftError(
            f"the string {name!r} stands for a parameter only inside a function under @wf.op",
            origin=origin,
            fix=f"write wf.param({name!r}), or move the expression into a function under @wf.op",
        )
    _check_name(name)
    return body.named(name, lambda label: _make(label, Rows(), origin=origin))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise WeftError(f"a parameter needs a name, not {name!r}")


def _make(
    label: str, given: Rows, init: Any = None, dtype: str | None = None, *, square: bool = False, origin: Origin | None
) -> Tensor:
    first = read_init(init, given, square)
    batch = first.rows.batch if isinstance(first.source, Tensor) else first.rows.batch or ()
    logic = Parameter(batch, first.rows.input, first.rows.output, square)
    operation = infer(logic, name=label, title="parameter", origin=origin)
    starts: Initial
    match first.source:
        case Tensor() as source:
            starts = copied(source, operation.result)
        case np.ndarray() as values:
            starts = Data(values)
        case None:
            starts = Cells(_first_value(init, label, operation, origin))
    precision = precision_of(0.0, dtype)
    node = Node(NodeName(label), operation.result, precision, init=starts, origin=origin, learned=True)
    if isinstance(first.source, Tensor):
        check_copied(node, first.source)
    return Tensor(node, differentiable=True, is_param=True)


def _first_value(init: Any, label: str, operation: Operation, origin: Origin | None) -> Scalar:
    if init is None:
        init = _lecun
    if getattr(init, "__wrapped__", init) in (uniform, normal, kaiming, xavier):
        init = init()
    if isinstance(init, int | float | np.number) and not isinstance(init, bool):
        return scalar(float(init))
    if callable(init):
        return _drawn(init, InitialCell(random_key(label), operation), label, origin)
    raise WeftError(
        f"`init` of parameter `{label}` is {init!r}",
        origin=origin,
        fix="give a number, a literal such as [(1, 2), (3, 4)], an array, a tensor, or an initialiser: wf.kaiming()",
    )


def _drawn(init: Callable[[InitialCell], Any], cell: InitialCell, label: str, origin: Origin | None) -> Scalar:
    """The number an initialiser makes for a cell."""
    cause: Exception | None = None
    try:
        value = init(cell)
    except WeftError:
        raise
    except Exception as error:
        value, cause = None, error
    if isinstance(value, Scalar | int | float):
        return scalar(value)
    said = f"raised {type(cause).__name__}: {cause}" if cause else f"returned {type(value).__name__}"
    raise WeftError(
        f"the initialiser of parameter `{label}` {said}",
        origin=origin,
        fix="it is called with a cell and returns its number, lambda cell: 0.1 * cell.normal(); "
        "for values of your own give the array itself, init=np.ones((3, 4))",
    ) from cause
