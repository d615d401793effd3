"""Random tensors: counter-based, so a step counter drives them and every backend gives the same numbers."""

from __future__ import annotations

from weft.assign import Cells, Fetch, Node, Offset, Precision
from weft.errors import WeftError, user_origin
from weft.ops import Number, Scalar, call, scalar
from weft.ops.dtypes import WEAK_FLOAT
from weft.shape.infer import infer
from weft.shape.logic import Varying
from weft.tensor.params import random_key, random_normal, random_unit
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor


def random_uniform(name: str, *, step: Number = 0) -> Tensor:
    """Numbers in [0, 1), new ones for each `step`; the shape is inferred from use."""
    return _random(name, random_unit(random_key(name), 0, _counter(step)))


def random_standard_normal(name: str, *, step: Number = 0) -> Tensor:
    """Standard normal numbers, new ones for each `step`; the shape is inferred from use."""
    return _random(name, random_normal(random_key(name), _counter(step)))


def bernoulli(name: str, probability: float, *, step: Number = 0) -> Tensor:
    """1 with the given probability, else 0, drawn anew for each `step`; the shape is inferred from use."""
    if not 0.0 <= probability <= 1.0:
        raise WeftError(f"a probability lies between 0 and 1, not {probability}", origin=user_origin())
    return _random(name, call("lt", random_unit(random_key(name), 0, _counter(step)), probability))


def dropout(x: Tensor, rate: float, *, step: Number, name: str = "dropout") -> Tensor:
    """`x` with each element zeroed with probability `rate` and the others scaled up, drawn anew for each `step`."""
    x = as_tensor(x, "dropout")
    if not 0.0 <= rate < 1.0:
        raise WeftError(f"a dropout rate is at least 0 and below 1, not {rate}", origin=user_origin())
    return x * bernoulli(f"{name}.{x.label}", 1.0 - rate, step=step) * (1.0 / (1.0 - rate))


def _counter(step: Number) -> Scalar:
    """A counter of its own for each cell and step."""
    return scalar(step) * (1 << 32) + Offset()


def _random(name: str, value: Scalar) -> Tensor:
    origin = user_origin()
    shape = infer(Varying(), name=name, title="random", origin=origin).result
    node = Node(name, shape, Precision.from_use(WEAK_FLOAT), origin=origin)
    node.definition = Fetch(node, Cells(value), origin)
    return Tensor(node)
