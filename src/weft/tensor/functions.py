"""The operators and functions people write. With a `spec` a function combines as `wf.einsum` does, and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from weft.assign import Slot
from weft.errors import WeftError, user_origin
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
    return each_point(op.name, partial(call, op.name), *args, label=label)


def formula(name: str, value: Callable[..., Scalar], *args: Any, label: str = "") -> Any:
    """`each_point` of tensors; of slots and numbers, the scalar."""
    if _are_scalars(args):
        for arg in args:
            check_truth(arg, name)
        return value(*map(scalar, args))
    return each_point(name, value, *args, label=label)


def each_point(name: str, value: Callable[..., Scalar], *args: TensorLike, label: str = "") -> Tensor:
    """What `value` makes of tensors point by point; numbers become part of the expression."""
    for arg in args:
        check_truth(arg, name)
    given = [arg if is_number(arg) else as_tensor(arg, name) for arg in args]
    tensors = [arg for arg in given if isinstance(arg, Tensor)]
    if not tensors:
        given = [as_tensor(arg) for arg in given]
        tensors = [arg for arg in given if isinstance(arg, Tensor)]

    def forward(v: Slot, *operands: Slot) -> None:
        left = iter(operands)
        v[:] = value(*(next(left) if isinstance(arg, Tensor) else _number(arg) for arg in given))

    return Operator(name, None, forward).apply(Pointwise(len(tensors)), tensors, label=label)


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


def _are_scalars(args: Sequence[Any]) -> bool:
    """Are these slots and numbers of an operator's definition, rather than tensors?"""
    return any(isinstance(arg, Slot | Scalar) for arg in args) and not any(isinstance(arg, Tensor) for arg in args)


def _apply(name: str, args: tuple[Any, ...], spec: str, label: str) -> Any:
    """The operation on tensors point by point or as a spec says; on slots and numbers, the scalar."""
    if _are_scalars(args):
        for arg in args:
            check_truth(arg, name)
        return call(name, *args)
    return einsum(spec, *args, op=name, label=label) if spec else pointwise(name, *args, label=label)


def unary_function(op: str, doc: str, example: str, name: str = "") -> Callable[..., Any]:
    """The function of one operand that is a row of the table; `example` is `given: result`."""

    def function(x: TensorOperand, *, spec: str = "", label: str = "") -> Any:
        return _apply(op, (x,), spec, label)

    return _called(function, name or op, doc, example)


def binary(op: str, doc: str, example: str, name: str = "") -> Callable[..., Any]:
    """The function of two operands that is a row of the table."""

    def function(x: TensorOperand, y: TensorOperand, *, spec: str = "", label: str = "") -> Any:
        return _apply(op, (x, y), spec, label)

    return _called(function, name or op, doc, example)


def _called(function: Callable[..., Any], name: str, doc: str, example: str) -> Callable[..., Any]:
    given, _, result = example.partition(": ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n\n    >>> print(ctx[wf.{name}({given})].round(4))\n    {result}\n    "
    return function


relu = unary_function("relu", "`max(x, 0)`.", "wf.tensor([-1, 2]): [0. 2.]")
sat01 = unary_function("sat01", "`x` kept between 0 and 1.", "wf.tensor([-1, 0.3, 2]): [0.  0.3 1. ]")
exp = unary_function("exp", "The exponential.", "wf.tensor([0, 1]): [1.     2.7183]")
log = unary_function("log", "The natural logarithm.", "wf.tensor([1, 10]): [0.     2.3026]")
exp2 = unary_function("exp2", "Two to the power of `x`.", "wf.tensor([0, 3]): [1. 8.]")
log2 = unary_function("log2", "The logarithm to base two.", "wf.tensor([1, 8]): [0. 3.]")
sin = unary_function("sin", "The sine.", "wf.tensor([0, 1]): [0.     0.8415]")
cos = unary_function("cos", "The cosine.", "wf.tensor([0, 1]): [1.     0.5403]")
sqrt = unary_function("sqrt", "The square root.", "wf.tensor([4, 9]): [2. 3.]")
recip = unary_function("recip", "`1 / x`.", "wf.tensor([2, 4]): [0.5  0.25]")
recip_sqrt = unary_function("recip_sqrt", "`1 / sqrt(x)`.", "wf.tensor([4, 16]): [0.5  0.25]")
tanh = unary_function("tanh", "The hyperbolic tangent.", "wf.tensor([0, 1]): [0.     0.7616]")
sigmoid = unary_function(
    "sigmoid", "`1 / (1 + exp(-x))`; it does not overflow, nor does its gradient.", "wf.tensor([0, 2]): [0.5    0.8808]"
)
erf = unary_function("erf", "The error function.", "wf.tensor([0, 1]): [0.     0.8427]")
abs = unary_function("abs", "The absolute value.", "wf.tensor([-2, 3]): [2. 3.]")  # noqa: A001
floor = unary_function("floor", "The largest whole number not above `x`.", "wf.tensor([-1.5, 1.5]): [-2.  1.]")
logical_not = unary_function("not", "1 where `x` is 0, else 0.", "wf.tensor([0, 3]): [1. 0.]", "logical_not")
maximum = binary("max", "The larger of two.", "wf.tensor([1, 5]), 3: [3. 5.]", "maximum")
minimum = binary("min", "The smaller of two.", "wf.tensor([1, 5]), 3: [1. 3.]", "minimum")
less = binary("lt", "1 where `x < y`.", "wf.tensor([1, 5]), 3: [1. 0.]", "less")
less_equal = binary("le", "1 where `x <= y`.", "wf.tensor([3, 5]), 3: [1. 0.]", "less_equal")
equal = binary("eq", "1 where `x` equals `y`.", "wf.tensor([3, 5]), 3: [1. 0.]", "equal")
not_equal = binary("ne", "1 where `x` differs from `y`.", "wf.tensor([3, 5]), 3: [0. 1.]", "not_equal")
logical_or = binary("or", "1 where either is not 0.", "wf.tensor([0, 5]), 0: [0. 1.]", "logical_or")
logical_and = binary("and", "1 where both are not 0.", "wf.tensor([0, 5]), 1: [0. 1.]", "logical_and")


def where(condition: TensorOperand, x: TensorOperand, y: TensorOperand, *, spec: str = "", label: str = "") -> Any:
    """`x` where the condition is not 0, else `y`; no gradient leaks from the branch not taken.

    >>> x = wf.tensor([-1, 2])
    >>> print(ctx[wf.where(x > 0, x, 0)])
    [0. 2.]
    """
    return _apply("where", (condition, x, y), spec, label)


def fma(x: TensorOperand, y: TensorOperand, z: TensorOperand, *, spec: str = "", label: str = "") -> Any:
    """`x * y + z`; with the spec "@", `x @ y + z`.

    >>> print(ctx[wf.fma(wf.tensor([1, 2]), 10, 5)])
    [15. 25.]
    """
    if spec == "@":
        return pointwise("add", compose(x, y), z, label=label)
    return _apply("fma", (x, y, z), spec, label)


def cast(x: TensorLike, dtype: str, *, label: str = "") -> Tensor:
    """The same values stored in another element type; gradients come back in the type the tensor has.

    >>> print(ctx[wf.cast(wf.tensor([1.5, 2.5]), "int32")])
    [1 2]
    """
    return _CAST.apply(Pointwise(1), (x,), label=label, dtype=element_type(dtype))
