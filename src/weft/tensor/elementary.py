"""Elementary functions beyond the first ones (functions.py): each is a row of the table of operations, or two."""

from __future__ import annotations

from math import inf
from typing import Any

from weft.ops import call
from weft.tensor.functions import TensorOperand, binary, formula, unary_function

tan = unary_function("tan", "The tangent.", "wf.tensor([0, 1]): [0.     1.5574]")
asin = unary_function("asin", "The inverse of the sine.", "wf.tensor([0, 1]): [0.     1.5708]")
acos = unary_function("acos", "The inverse of the cosine.", "wf.tensor([0, 1]): [1.5708 0.    ]")
atan = unary_function("atan", "The inverse of the tangent.", "wf.tensor([0, 1]): [0.     0.7854]")
sinh = unary_function("sinh", "The hyperbolic sine.", "wf.tensor([0, 1]): [0.     1.1752]")
cosh = unary_function("cosh", "The hyperbolic cosine.", "wf.tensor([0, 1]): [1.     1.5431]")
asinh = unary_function("asinh", "The inverse of the hyperbolic sine.", "wf.tensor([0, 1]): [0.     0.8814]")
acosh = unary_function("acosh", "The inverse of the hyperbolic cosine.", "wf.tensor([1, 2]): [0.    1.317]")
atanh = unary_function("atanh", "The inverse of the hyperbolic tangent.", "wf.tensor([0, 0.5]): [0.     0.5493]")
log1p = unary_function("log1p", "`log(1 + x)`, exact also where `x` is small.", "wf.tensor([0, 1]): [0.     0.6931]")
expm1 = unary_function("expm1", "`exp(x) - 1`, exact also where `x` is small.", "wf.tensor([0, 1]): [0.     1.7183]")
erfc = unary_function("erfc", "`1 - erf(x)`, exact also where that is next to 0.", "wf.tensor([0, 1]): [1.     0.1573]")
erfcx = unary_function("erfcx", "`exp(x * x) * erfc(x)`.", "wf.tensor([0, 1]): [1.     0.4276]")
erfinv = unary_function("erfinv", "The inverse of the error function.", "wf.tensor([0, 0.5]): [0.     0.4769]")
erfcinv = unary_function("erfcinv", "The inverse of `erfc`.", "wf.tensor([1, 0.5]): [0.     0.4769]")
normcdf = unary_function("normcdf", "How likely a normal number is below `x`.", "wf.tensor([0, 1]): [0.5    0.8413]")
normcdfinv = unary_function("normcdfinv", "The inverse of `normcdf`.", "wf.tensor([0.5, 0.9]): [0.     1.2816]")
ceil = unary_function("ceil", "The smallest whole number not below `x`.", "wf.tensor([-1.5, 1.5]): [-1.  2.]")
round = unary_function(  # noqa: A001
    "rint", "The next whole number; of two, the even one.", "wf.tensor([0.5, 1.5, 2.6]): [0. 2. 3.]", "round"
)
_ATAN2 = binary("atan2", "The row of the table.", "wf.tensor([1, 0]), -1: [2.3562 3.1416]")
sign = unary_function("sign", "-1, 0 or 1, as `x` is below, at or above 0.", "wf.tensor([-2, 0, 3]): [-1.  0.  1.]")


def atan2(y: TensorOperand, x: TensorOperand, *, spec: str = "", label: str = "") -> Any:
    """The angle of the point `y` above and `x` to the right of 0.

    >>> print(ctx[wf.atan2(wf.tensor([1, 0]), -1)].round(4))
    [2.3562 3.1416]
    """
    return _ATAN2(y, x, spec=spec, label=label)


def clip(x: TensorOperand, low: TensorOperand, high: TensorOperand, *, label: str = "") -> Any:
    """`x` kept between `low` and `high`, which are numbers or tensors.

    >>> print(ctx[wf.clip(wf.tensor([-2, 1, 9]), 0, 5)])
    [0. 1. 5.]
    """
    return formula("clip", lambda x, low, high: call("min", call("max", x, low), high), x, low, high, label=label)


def isnan(x: TensorOperand, *, label: str = "") -> Any:
    """1 where `x` is not a number, else 0.

    >>> print(ctx[wf.isnan(wf.tensor([1.0, np.nan]))])
    [0. 1.]
    """
    return formula("isnan", lambda x: call("ne", x, x), x, label=label)


def isfinite(x: TensorOperand, *, label: str = "") -> Any:
    """1 where `x` is a number and not infinite, else 0.

    >>> print(ctx[wf.isfinite(wf.tensor([1.0, np.inf, np.nan]))])
    [1. 0. 0.]
    """
    return formula("isfinite", lambda x: call("abs", x) < inf, x, label=label)
