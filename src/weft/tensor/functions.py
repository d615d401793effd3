"""The operators and functions people write. With a `spec` a function combines as `wf.einsum` does, and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from weft.assign import Slot
from weft.errors import WeftError
from weft.ops import Number, Scalar, call, find, scalar
from weft.ops.dtypes import element_type
from weft.shape.logic import Compose, Pointwise, Transpose
from weft.tensor.einsum import einsum
from weft.tensor.operator import Operator
from weft.tensor.scope import as_tensor, check_truth
from weft.tensor.tensor import Tensor, TensorLike, is_number

#: What a function takes: a tensor or what becomes one; in the definition of an operator, slots.
TensorOperand: TypeAlias = "TensorLike | Slot"


def pointwise(name: str, *args: TensorLike, label: str = "") -> Tensor:
    """A primitive operation applied point by point; numbers become part of the expression."""
    op = find(name, arity=len(args))
    for arg in args:
        check_truth(arg, op.name)
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


def power(base: TensorLike, exponent: Number) -> Tensor:
    """`base ** exponent`; the exponent is a number."""
    if not is_number(exponent):
        raise WeftError(
            "the exponent of ** must be a number", fix="for a power with a tensor exponent write wf.exp(y * wf.log(x))"
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


def _apply(name: str, args: tuple[Any, ...], spec: str, label: str) -> Any:
    """The operation on tensors point by point or as a spec says; on slots and numbers, the scalar."""
    if any(isinstance(arg, Slot | Scalar) for arg in args) and not any(isinstance(arg, Tensor) for arg in args):
        for arg in args:
            check_truth(arg, name)
        return call(name, *args)
    return einsum(spec, *args, op=name, label=label) if spec else pointwise(name, *args, label=label)


def _unary(op: str, doc: str, name: str = "") -> Callable[..., Any]:
    def function(x: TensorOperand, *, spec: str = "", label: str = "") -> Any:
        return _apply(op, (x,), spec, label)

    return _called(function, name or op, doc)


def _binary(op: str, doc: str, name: str) -> Callable[..., Any]:
    def function(x: TensorOperand, y: TensorOperand, *, spec: str = "", label: str = "") -> Any:
        return _apply(op, (x, y), spec, label)

    return _called(function, name, doc)


def _called(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


relu = _unary("relu", "`max(x, 0)`.")
sat01 = _unary("sat01", "`x` kept between 0 and 1.")
exp = _unary("exp", "The exponential.")
log = _unary("log", "The natural logarithm.")
exp2 = _unary("exp2", "Two to the power of `x`.")
log2 = _unary("log2", "The logarithm to base two.")
sin = _unary("sin", "The sine.")
cos = _unary("cos", "The cosine.")
sqrt = _unary("sqrt", "The square root.")
recip = _unary("recip", "`1 / x`.")
recip_sqrt = _unary("recip_sqrt", "`1 / sqrt(x)`.")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "`1 / (1 + exp(-x))`; it does not overflow, nor does its gradient.")
erf = _unary("erf", "The error function.")
abs = _unary("abs", "The absolute value.")  # noqa: A001
floor = _unary("floor", "The largest whole number not above `x`.")
logical_not = _unary("not", "1 where `x` is 0, else 0.", "logical_not")
maximum = _binary("max", "The larger of two.", "maximum")
minimum = _binary("min", "The smaller of two.", "minimum")
less = _binary("lt", "1 where `x < y`.", "less")
less_equal = _binary("le", "1 where `x <= y`.", "less_equal")
equal = _binary("eq", "1 where `x` equals `y`.", "equal")
not_equal = _binary("ne", "1 where `x` differs from `y`.", "not_equal")
logical_or = _binary("or", "1 where either is not 0.", "logical_or")
logical_and = _binary("and", "1 where both are not 0.", "logical_and")


def where(condition: TensorOperand, x: TensorOperand, y: TensorOperand, *, spec: str = "", label: str = "") -> Any:
    """`x` where the condition is not 0, else `y`; no gradient leaks from the branch not taken."""
    return _apply("where", (condition, x, y), spec, label)


def fma(x: TensorOperand, y: TensorOperand, z: TensorOperand, *, spec: str = "", label: str = "") -> Any:
    """`x * y + z`; with the spec "@", `x @ y + z`."""
    if spec == "@":
        return pointwise("add", compose(x, y), z, label=label)
    return _apply("fma", (x, y, z), spec, label)


def cast(tensor: TensorLike, dtype: str, *, label: str = "") -> Tensor:
    """The same values stored in another element type; gradients come back in the type the tensor has."""
    return _CAST.apply(Pointwise(1), (tensor,), label=label, dtype=element_type(dtype))
