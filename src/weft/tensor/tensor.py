"""Tensor: a value to compute, with Python's operators, its gradient and its code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from weft.arguments import excerpt
from weft.assign import Adjoint, Code, Merge, Node, NodeName, Operand, Stored, current, node_of
from weft.dlpack import CPU, ExchangeError, to_capsule
from weft.errors import WeftError
from weft.migration_hints import no_attribute, not_pickled, numpy_refused
from weft.ops import Monoid, Number, Scalar
from weft.ops.dtypes import element_type
from weft.ops.scalar import UFUNCS
from weft.public import public, public_methods
from weft.shape.cells import ShapeVar
from weft.shape.close import peek
from weft.shape.infer import Operation
from weft.shape.inference_lock import INFERRING
from weft.shape.nodes import Shape
from weft.tensor.unsupported import Refusing

if TYPE_CHECKING:
    from types import EllipsisType

    #: What stands for one axis between the brackets of `x[…]`.
    SubscriptLike: TypeAlias = "int | Scalar | slice | EllipsisType | Tensor"

#: What an operand of Python's operators may be; a string names a parameter inside `@wf.op`.
TensorLike: TypeAlias = "Tensor | float | int | str | Scalar"


class Joint(Protocol):
    """What computes several tensors at once, and finds the gradients of what these are computed from."""

    def pull_back(self, gradients: Mapping[Tensor, Tensor], wanted: Collection[Tensor]) -> Mapping[Tensor, Tensor]:
        """The gradients that are `wanted`, given those of some of its tensors."""
        ...


def _op(name: str, *args: TensorLike) -> Tensor:
    from weft.tensor.functions import compose, pointwise

    return compose(*args) if name == "@" else pointwise(name, *args)


#: One of Python's operators, with a tensor on one side.
_Operator: TypeAlias = "Callable[[Tensor, TensorLike], Tensor]"


def _both_sides(op: str) -> tuple[_Operator, _Operator]:
    """An operator with a tensor on its left, and with one on its right."""
    return lambda left, right: _op(op, left, right), lambda right, left: _op(op, left, right)


@public_methods
class Tensor(Refusing):
    """A node of a differentiable expression graph. Nothing is computed until a context runs it."""

    __slots__ = (
        "__weakref__",
        "_grad",
        "children",
        "differentiable",
        "is_param",
        "joint",
        "operand",
        "operation",
        "pullback",
    )

    def __init__(
        self,
        operand: Operand,
        *,
        operation: Operation | None = None,
        children: tuple[Tensor, ...] = (),
        differentiable: bool = False,
        is_param: bool = False,
        pullback: Callable[[Tensor, Adjoint], Code] | None = None,
        joint: Joint | None = None,
    ) -> None:
        if not isinstance(operand, Operand):
            raise WeftError(
                f"a tensor is not made from {type(operand).__name__} by its class",
                fix="wf.tensor([…]) is one written out, wf.data(array, batch=1) one of given values",
            )
        self.operand = operand
        self.operation = operation
        self.children = children
        self.differentiable = differentiable
        self.is_param = is_param
        self.pullback = pullback
        self.joint = joint
        self._grad: Tensor | None = None

    # What it is

    @property
    def node(self) -> Node:
        """The node that holds its value."""
        return node_of(self.operand)

    @property
    def label(self) -> str:
        return str(self.operand)

    @property
    def shape(self) -> ShapeVar:
        """The shape as far as it is known; looking at it commits nothing."""
        return self.node.shape

    @property
    @public
    def dims(self) -> Shape:
        """The shape as it would be if nothing were said of it any more; asking for it decides nothing."""
        return peek(self.node.shape)

    @property
    @public
    def dtype(self) -> str:
        """What it is stored in; asking for it settles what was still open."""
        return self.node.dtype

    def __repr__(self) -> str:
        stored = self.node.precision.settled  # looking at a tensor settles nothing
        return f"<{self.label}: {self.shape} {stored}>" if stored else f"<{self.label}: {self.shape}>"

    if not TYPE_CHECKING:

        @public
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__") or name in Tensor.__slots__:
                raise AttributeError(name)
            raise no_attribute(name, dir(Tensor))

    # Its gradient and code

    @property
    def value(self) -> Tensor:
        """The tensor itself, said beside `.grad` and `.merge`."""
        return self

    @value.setter
    @public
    def value(self, value: Tensor) -> None:
        """`t.value += x` ends here with the tensor itself."""
        if value is not self:
            raise WeftError(f"write `{self.label}[:] = …` to assign to the tensor")

    @property
    @public
    def grad(self) -> Tensor:
        """The gradient of whatever is backpropagated through this tensor."""
        if not self.differentiable:
            raise WeftError(
                f"`{self.label}` has no gradient: nothing it is computed from is a parameter",
                fix="use a parameter, or make it differentiable with wf.require_grad",
            )
        with INFERRING:
            if self._grad is None:
                node = self.node
                name = NodeName(f"{node}.grad")
                made = Tensor(
                    Node(name, node.shape, node.precision.of_gradient(), origin=node.origin, gradient_of=node)
                )
                if self._grad is None:  # a signal handler may have made one meanwhile
                    self._grad = made
        return self._grad

    @grad.setter
    @public
    def grad(self, value: Tensor) -> None:
        """`t.grad += x` ends here with the gradient itself."""
        if value is not self._grad:
            raise WeftError(f"write `{self.label}.grad[:] = …` to assign to the gradient")

    @property
    def merge(self) -> Tensor:
        """What another device sent for this tensor."""
        return Tensor(Merge(self.node))

    @property
    @public
    def forward(self) -> Code:
        """The code that computes this tensor from leaves."""
        from weft.tensor.gradient import forward

        return forward(self)

    @property
    @public
    def backprop(self) -> Code:
        """The code that propagates this tensor's gradient to everything it is computed from."""
        from weft.tensor.gradient import backprop

        return backprop(self)

    @property
    @public
    def zero_grads(self) -> Code:
        """The code that clears every gradient `backprop` accumulates into."""
        from weft.tensor.gradient import zero_grads

        return zero_grads(self)

    @property
    @public
    def params(self) -> tuple[Tensor, ...]:
        """The parameters it is computed from, in the order they were made."""
        from weft.tensor.gradient import topological
        from weft.tensor.scope import told_apart

        found = (tensor for tensor in topological(self) if tensor.is_param)
        return told_apart(sorted(found, key=lambda tensor: tensor.node.id))

    def named(self, label: str) -> Tensor:
        """The same tensor under a name of its own, in errors and in printed code."""
        name = self.node.name
        name.text = self.node.shape.name = label
        name.inline = False
        return self

    def stored_in(self, dtype: str) -> Tensor:
        """The same tensor, stored in a type set by hand; what nothing else decides and goes into it takes that too."""
        self.node.precision.set_by_hand(element_type(dtype), self.label)
        return self

    # Arithmetic

    __add__, __radd__ = _both_sides("add")
    __sub__, __rsub__ = _both_sides("sub")
    __mul__, __rmul__ = _both_sides("mul")
    __truediv__, __rtruediv__ = _both_sides("div")
    __floordiv__, __rfloordiv__ = _both_sides("floordiv")
    __mod__, __rmod__ = _both_sides("mod")
    __matmul__, __rmatmul__ = _both_sides("@")
    __lt__, __gt__ = _both_sides("lt")
    __le__, __ge__ = _both_sides("le")

    def __pow__(self, exponent: Number) -> Tensor:
        from weft.tensor.functions import power

        return power(self, exponent)

    def __rpow__(self, base: TensorLike) -> Tensor:
        raise WeftError("the exponent of ** must be a number", fix="write wf.exp(y * wf.log(x)) instead")

    def __neg__(self) -> Tensor:
        return _op("neg", self)

    def __abs__(self) -> Tensor:
        return _op("abs", self)

    @public
    def __eq__(self, other: object) -> bool:
        """Is it the same tensor? Values are compared by wf.equal."""
        return self is other or self._is_same(other, "==", "wf.equal(t, x)")

    @public
    def __ne__(self, other: object) -> bool:
        return self is not other and not self._is_same(other, "!=", "wf.not_equal(t, x)")

    def _is_same(self, other: object, sign: str, instead: str) -> bool:
        """False, unless somebody means to compare values."""
        if is_number(other) or isinstance(other, np.ndarray):
            shown = "an array" if isinstance(other, np.ndarray) else other
            raise WeftError(f"`{self.label} {sign} {shown}` would not compare values", fix=f"write {instead}")
        return False

    __hash__ = object.__hash__

    @property
    @public
    def T(self) -> Tensor:
        """Inputs become outputs and outputs inputs."""
        from weft.tensor.functions import transpose

        return transpose(self)

    def __getitem__(self, key: SubscriptLike | tuple[SubscriptLike, ...]) -> Tensor:
        """The elements that the same brackets pick from its array; what is left of a row stays in it."""
        from weft.tensor.slices import sliced

        return self if isinstance(key, slice) and key == slice(None) else sliced(self, key)

    # Assignment, recorded under @wf.cd

    def __setitem__(self, key: SubscriptLike | tuple[SubscriptLike, ...], value: TensorLike) -> None:
        """Record an assignment to the elements that the brackets pick; all others keep their values."""
        from weft.tensor.assignments import assign_to, set_part

        if not isinstance(key, slice) or key != slice(None):
            set_part(self, key, value)
        elif value is not self:
            assign_to(self, "arg2", value, reset=True)

    def __iadd__(self, value: TensorLike) -> Tensor:
        return _assign(self, "add", value)

    def __isub__(self, value: TensorLike) -> Tensor:
        return _assign(self, "sub", value)

    def __imul__(self, value: TensorLike) -> Tensor:
        return _assign(self, "mul", value)

    def __itruediv__(self, value: TensorLike) -> Tensor:
        return _assign(self, "div", value)

    def __ipow__(self, exponent: Number) -> Tensor:
        return _rebound(self, "**", self**exponent)

    def __imod__(self, other: TensorLike) -> Tensor:
        return _rebound(self, "%", self % other)

    def __ifloordiv__(self, other: TensorLike) -> Tensor:
        return _rebound(self, "//", self // other)

    def __imatmul__(self, other: TensorLike) -> Tensor:
        return _rebound(self, "@", self @ other)

    def accumulate(self, op: str | Monoid, value: TensorLike, *, reset: bool = False) -> Tensor:
        """Record `self = op(self, value)`, from what `op` begins with if `reset`: for most its neutral element."""
        from weft.tensor.assignments import assign_to

        assign_to(self, op, value, reset=reset)
        return self

    # Values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Tensor:
        """`np.float32(2) * t` ends here, and `array * t`; other functions of NumPy know no tensors."""
        operate = _UFUNCS.get(ufunc.__name__)
        if operate is None or method != "__call__" or options:
            raise numpy_refused(ufunc.__name__)
        return operate(*inputs)

    def __array_function__(self, function: Callable[..., Any], *call: Any) -> NoReturn:
        raise numpy_refused(function.__name__)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Its value by the context made last: what np.asarray and np.array ask for."""
        return np.asarray(_fresh_value(self, copy), dtype=dtype)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Its value by the context made last, where that has it: what from_dlpack of other libraries asks for."""
        if dl_device != CPU and (there := _placed(self)) != CPU:
            return _fresh_value(self, copy, there=True).__dlpack__(
                stream=stream, max_version=max_version, dl_device=dl_device or there
            )
        value = _fresh_value(self, copy)
        return to_capsule(value, max_version=max_version, copy=copy, stream=stream, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _placed(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise not_pickled(f"tensor `{self.label}`")


def given(x: Tensor) -> Tensor:
    """The tensor's stored value, read as it is: a routine that uses it does not compute it again."""
    return Tensor(Stored(_checked(x).node))


def stop_gradient(x: Tensor) -> Tensor:
    """The same values, through which no gradient flows."""
    return Tensor(_checked(x).operand)


def require_grad(x: Tensor) -> Tensor:
    """The same values as a leaf that gradients are propagated to, for instance to differentiate by data."""
    if _checked(x).node.definition is not None:
        raise WeftError(
            f"`{x.label}` is computed from other tensors; require a gradient of what it is computed from",
            fix="apply wf.require_grad to data before using it",
        )
    return Tensor(x.operand, differentiable=True)


def _checked(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise WeftError(f"{excerpt(tensor)} is not a tensor", fix="wrap it: wf.data(…), wf.constant(…)")
    return tensor


def is_number(value: object) -> TypeGuard[Number]:
    """Is it something that stands for a number in an expression: a number, a size, a static index?"""
    return isinstance(value, int | float | np.number | np.bool_ | Scalar)


#: What Python's operators do when the array or number of NumPy on their left side asks NumPy first.
_UFUNCS: Mapping[str, Callable[..., Tensor]] = {
    **{name: partial(_op, op) for name, op in UFUNCS.items()},
    "power": lambda left, right: left**right if isinstance(left, Tensor) else right.__rpow__(left),
    "greater": lambda left, right: _op("lt", right, left),
    "greater_equal": lambda left, right: _op("le", right, left),
    "matmul": partial(_op, "@"),
}


def _placed(tensor: Tensor) -> tuple[int, int]:
    from weft.tensor.evaluator import evaluator

    return evaluator.place(tensor)


def _fresh_value(tensor: Tensor, copy: bool | None, *, there: bool = False) -> Any:
    from weft.tensor.evaluator import evaluator

    if copy is False:
        raise ExchangeError(
            f"`{tensor.label}` is a tensor to be computed: its value cannot be had without a copy",
            fix="leave out copy=False",
        )
    return evaluator.export(tensor) if there else evaluator.evaluate(tensor)


def _rebound(target: Tensor, sign: str, value: Tensor) -> Tensor:
    """`t **= x` makes a new tensor; under @wf.cd that would look like an assignment and be none."""
    if current() is not None and target.node.definition is None:
        raise WeftError(
            f"`{target.label} {sign}= …` does not record an assignment",
            fix=f"write {target.label}[:] = {target.label} {sign} …",
        )
    return value


def _assign(target: Tensor, op: str, value: TensorLike) -> Tensor:
    from weft.tensor.assignments import assign_to

    assign_to(target, op, value)
    return target
