"""The operators and functions people write."""

from __future__ import annotations

from typing import Any

from weft.assign import Slot
from weft.errors import WeftError, user_origin
from weft.ops import Scalar, call, find, scalar
from weft.ops.dtypes import element_type
from weft.shape.logic import Compose, Pointwise, Transpose
from weft.tensor.apply import Operator
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike, is_number


def pointwise(name: str, *args: TensorLike, label: str = "") -> Tensor:
    """A primitive operation applied point by point; numbers become part of the expression."""
    op = find(name, arity=len(args))
    given = [arg if is_number(arg) else as_tensor(arg, op.name) for arg in args]
    tensors = [arg for arg in given if isinstance(arg, Tensor)]
    if not tensors:
        given = [as_tensor(arg) for arg in given]
        tensors = [arg for arg in given if isinstance(arg, Tensor)]

    def forward(v: Slot, *operands: Slot) -> None:
        left = iter(operands)
        v[:] = call(op.name, *(next(left) if isinstance(arg, Tensor) else _number(arg) for arg in given))

    return Operator(op.name, None, forward).apply(Pointwise(len(tensors)), tensors, label=label)


def compose(left: TensorLike, right: TensorLike, *, label: str = "") -> Tensor:
    """`left @ right`: the inputs of the left take the outputs of the right."""
    return _COMPOSE.apply(Compose(), (left, right), label=label)


def transpose(tensor: TensorLike, *, label: str = "") -> Tensor:
    """Inputs become outputs and outputs inputs."""
    return _TRANSPOSE.apply(Transpose(), (tensor,), label=label)


def power(base: TensorLike, exponent: float) -> Tensor:
    """`base ** exponent`; the exponent is a number."""
    if not is_number(exponent):
        raise WeftError(
            "the exponent of ** must be a number",
            origin=user_origin(),
            fix="for a power with a tensor exponent write wf.exp(y * wf.log(x))",
        )
    return pointwise("pow", base, float(exponent) if isinstance(exponent, int) and exponent < 0 else exponent)


def _product(v: Slot, v1: Slot, v2: Slot) -> None:
    v.accumulate("add", v1 * v2, reset=True)


def _copy(v: Slot, v1: Slot) -> None:
    v[:] = v1


_COMPOSE = Operator("compose", None, _product)
_TRANSPOSE = Operator("transpose", None, _copy)
_CAST = Operator("cast", None, _copy)


def _number(value: Any) -> Scalar:
    return scalar(value if isinstance(value, Scalar | int | float) else value.item())


def _function(name: str, doc: str) -> Any:
    arity = find(name).arity

    def function(*args: Any, label: str = "") -> Any:
        if len(args) != arity:
            raise WeftError(f"{name} takes {arity} operands, not {len(args)}", origin=user_origin())
        if any(isinstance(arg, Slot | Scalar) for arg in args) and not any(isinstance(arg, Tensor) for arg in args):
            return call(name, *args)
        return pointwise(name, *args, label=label)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


relu = _function("relu", "`max(x, 0)`.")
sat01 = _function("sat01", "`x` kept between 0 and 1.")
exp = _function("exp", "The exponential.")
log = _function("log", "The natural logarithm.")
exp2 = _function("exp2", "Two to the power of `x`.")
log2 = _function("log2", "The logarithm to base two.")
sin = _function("sin", "The sine.")
cos = _function("cos", "The cosine.")
sqrt = _function("sqrt", "The square root.")
recip = _function("recip", "`1 / x`.")
recip_sqrt = _function("recip_sqrt", "`1 / sqrt(x)`.")
tanh = _function("tanh", "The hyperbolic tangent.")
erf = _function("erf", "The error function.")
absolute = _function("abs", "The absolute value.")
floor = _function("floor", "The largest whole number not above `x`.")
logical_not = _function("not", "1 where `x` is 0, else 0.")
maximum = _function("max", "The larger of two.")
minimum = _function("min", "The smaller of two.")
less = _function("lt", "1 where `x < y`.")
less_equal = _function("le", "1 where `x <= y`.")
equal = _function("eq", "1 where `x` equals `y`.")
not_equal = _function("ne", "1 where `x` differs from `y`.")
logical_or = _function("or", "1 where either is not 0.")
logical_and = _function("and", "1 where both are not 0.")
where = _function("where", "`x` where the condition is not 0, else `y`; no gradient leaks from the branch not taken.")
fma = _function("fma", "`x * y + z`.")


def sigmoid(x: TensorLike) -> Tensor:
    """`1 / (1 + exp(-x))`, written so that it does not overflow."""
    tensor = as_tensor(x, "sigmoid")
    result: Tensor = (tanh(tensor * 0.5) + 1.0) * 0.5
    return result


def cast(tensor: TensorLike, dtype: str, *, label: str = "") -> Tensor:
    """The same values stored in another element type; gradients come back in the type the tensor has."""
    return _CAST.apply(Pointwise(1), (tensor,), label=label, dtype=element_type(dtype))
