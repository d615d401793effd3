"""Activation functions: each is one formula over the table of operations, from which its gradient is derived."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from weft.ops import Scalar, call, where
from weft.tensor.functions import TensorOperand, formula


def gelu(x: TensorOperand, *, tanh: bool = False, label: str = "") -> Any:
    """`x` times the probability that a standard normal number is below it; with `tanh`, as it is often approximated.

    >>> x = wf.tensor([-1, 0, 2])
    >>> print(ctx[wf.gelu(x)].round(4), ctx[wf.gelu(x, tanh=True)].round(4))
    [-0.1587  0.      1.9545] [-0.1588  0.      1.9546]
    """
    return formula("gelu", _gelu_by_tanh if tanh else _gelu, x, label=label)


def silu(x: TensorOperand, *, label: str = "") -> Any:
    """`x * sigmoid(x)`.

    >>> print(ctx[wf.silu(wf.tensor([-1, 0, 2]))].round(4))
    [-0.2689  0.      1.7616]
    """
    return formula("silu", lambda x: x * call("sigmoid", x), x, label=label)


def softplus(x: TensorOperand, *, label: str = "") -> Any:
    """`log(1 + exp(x))`, which does not overflow.

    >>> print(ctx[wf.softplus(wf.tensor([-100, 0, 100]))].round(4))
    [  0.       0.6931 100.    ]
    """
    return formula("softplus", _softplus, x, label=label)


def elu(x: TensorOperand, *, alpha: float = 1.0, label: str = "") -> Any:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`.

    >>> print(ctx[wf.elu(wf.tensor([-1, 0, 2]))].round(4))
    [-0.6321  0.      2.    ]
    """
    return formula("elu", lambda x: where(x > 0, x, alpha * call("expm1", x)), x, label=label)


def leaky_relu(x: TensorOperand, *, slope: float = 0.01, label: str = "") -> Any:
    """`x` where it is positive, else `slope * x`.

    >>> print(ctx[wf.leaky_relu(wf.tensor([-1, 0, 2]), slope=0.1)])
    [-0.1  0.   2. ]
    """
    return formula("leaky_relu", lambda x: where(x > 0, x, slope * x), x, label=label)


def _gelu(x: Scalar) -> Scalar:
    return 0.5 * x * (1 + call("erf", x * sqrt(0.5)))


def _gelu_by_tanh(x: Scalar) -> Scalar:
    return 0.5 * x * (1 + call("tanh", sqrt(2 / pi) * (x + 0.044715 * (x * x * x))))


def _softplus(x: Scalar) -> Scalar:
    """Not -abs(x): its slope at 0 is that of one side, so that the whole has a slope of a half there."""
    return call("relu", x) + call("log1p", call("exp", where(x > 0, -x, x)))
