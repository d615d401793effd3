"""Random tensors: counter-based, so a step counter drives them and every backend gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from weft.assign import Accum, Arg, Cells, Fetch, Node, NodeName, Offset, Precision, Record
from weft.errors import WeftError, user_origin
from weft.ops import Number, Scalar, call, scalar
from weft.ops.dtypes import WEAK_FLOAT
from weft.shape.infer import infer
from weft.shape.logic import Pointwise, Varying
from weft.tensor.functions import cast
from weft.tensor.params import random_key, random_normal, random_unit
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, is_number

#: What tells one draw from the next: a number, a static index, or a tensor that counts.
DrawStep: TypeAlias = Number | Tensor


def random_uniform(name: str, *, step: DrawStep | None = None) -> Tensor:
    """Numbers in [0, 1), new ones for each `step`; the shape is inferred from use."""
    key = random_key(name)
    return _random(name, step, lambda counter: random_unit(key, 0, counter))


def random_standard_normal(name: str, *, step: DrawStep | None = None) -> Tensor:
    """Standard normal numbers, new ones for each `step`; the shape is inferred from use."""
    key = random_key(name)
    return _random(name, step, lambda counter: random_normal(key, counter))


def bernoulli(name: str, probability: float, *, step: DrawStep | None = None) -> Tensor:
    """1 with the given probability, else 0, drawn anew for each `step`; the shape is inferred from use."""
    if not is_number(probability) or isinstance(probability, Scalar) or not 0.0 <= probability <= 1.0:
        raise WeftError(f"a probability lies between 0 and 1, not {probability}")
    key = random_key(name)
    return _random(name, step, lambda counter: call("lt", random_unit(key, 0, counter), probability))


def dropout(x: Tensor, rate: float, *, step: DrawStep | None = None, name: str = "dropout") -> Tensor:
    """`x` with each element zeroed with probability `rate` and the others scaled up, drawn anew for each `step`."""
    x = as_tensor(x, "dropout")
    if not is_number(rate) or isinstance(rate, Scalar) or not 0.0 <= rate < 1.0:
        raise WeftError(f"a dropout rate is at least 0 and below 1, not {rate}")
    return x * bernoulli(f"{name}.{x.label}", 1.0 - rate, step=step) * (1.0 / (1.0 - rate))


def check_step(step: object) -> None:
    """Refuse what cannot say when to draw anew; a truth is none, though Python takes it for a number."""
    if isinstance(step, bool) or not (is_number(step) or isinstance(step, Tensor)):
        what = f"a step is a number, a static index or a tensor that counts, not {step!r}"
        raise WeftError(what, fix='n = wf.counter("n"); step=n')


def _random(name: str, step: DrawStep | None, draw: Callable[[Scalar], Scalar]) -> Tensor:
    """A tensor of what is drawn for each cell and step. It has the shape its use needs, as a constant has."""
    origin = user_origin()
    if step is None:
        raise WeftError(
            f"`{name}` is random, and nothing says when to draw new numbers",
            origin=origin,
            fix='give step=n, with n = wf.counter("n"), which counts runs, or wf.index("n", steps), bound at each run; '
            "step=0 for the same numbers at every run",
        )
    check_step(step)
    shape = infer(Varying(), name=name, title="random", origin=origin).result
    node = Node(NodeName(name), shape, Precision.from_use(WEAK_FLOAT), origin=origin)
    if not isinstance(step, Tensor):
        return Tensor(node.defined(Fetch(node, Cells(draw(_counter(scalar(step)))), origin)))
    counter = cast(step, "int64")
    operation = infer(Pointwise(1), [counter.shape], title="step", origin=origin, result=shape, varies=True)
    value, record = draw(_counter(Arg(0))), Record(operation, 0, (1,))
    return Tensor(node.defined(Accum(node, "arg2", True, value, (counter.operand,), record, origin)))


def _counter(step: Scalar) -> Scalar:
    """A counter of its own for each cell and step."""
    return step * (1 << 32) + Offset()
