"""A definition in a tensor expression: an operator like any other, whose gradient is derived from its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from sys import float_info

import numpy as np

from weft.assign import Direct, Node, Operand, statements
from weft.comprehension.apply import Application
from weft.comprehension.axes import leading
from weft.comprehension.builtins import spelled
from weft.comprehension.gradient import NoGradient, backward
from weft.comprehension.signature import Template
from weft.comprehension.steps import Flat
from weft.errors import WeftError, user_origin, warn
from weft.ops.dtypes import is_float, limits
from weft.tensor.adjoint import pull_back_all
from weft.tensor.leaves import data, number
from weft.tensor.scope import as_tensor, is_array
from weft.tensor.tensor import Tensor, TensorLike


def applied(template: Template, operands: Sequence[TensorLike], label: str = "") -> tuple[Tensor, ...]:
    """The results of a definition on tensors, in order. Shapes are inferred both ways; nothing is computed yet.

    The axes of an operand are taken in memory order, whatever their kinds. The first axes of a result are batch axes
    as far as they are sizes of batch axes of operands; the others are output axes.
    """
    flat = template.flat
    tensors = tuple(_operand(template, *one) for one in zip(flat.params, operands, strict=True))
    check_types(template, [tensor.dtype for tensor in tensors])
    labels = {flat.results[0]: label} if label and len(flat.results) == 1 else {}
    application = Application(template, [tensor.operand for tensor in tensors], user_origin(), labels)
    _warn_of_mixing(application)
    known = dict(zip(flat.params, tensors, strict=True))
    for name in flat.computed:
        known[name] = _computed(application, name, known)
    return tuple(known[one] for one in flat.results)


def _computed(application: Application, name: str, known: Mapping[str, Tensor]) -> Tensor:
    """A tensor of a definition, computed from those that its steps read."""
    node, flat = application.node(name), application.template.flat
    assert node.definition is not None
    read = {one: _stand_in(application.node(one)) for one in flat.only(name, flat.writing(name)).params}
    body = [_over(read, one) for one in statements(node.definition) if isinstance(one, Direct)]
    children: dict[Operand, Tensor] = {stand_in: known[one] for one, stand_in in read.items()}
    children |= {one: Tensor(one) for statement in body for one in statement.operands if one not in children}
    learned = [one for one in read if known[one].differentiable]
    differentiable = _is_differentiable(flat.only(name, flat.writing(name)), name, learned)
    return Tensor(
        node,
        operation=application.operations.get(name),
        children=tuple(children.values()),
        differentiable=differentiable,
        pullback=partial(pull_back_all, body, list(children)) if differentiable else None,
    )


def _is_differentiable(flat: Flat, name: str, learned: Sequence[str]) -> bool:
    try:
        return bool(backward(flat, [name], learned).found)
    except NoGradient:  # said to whoever asks for it
        return True


def _stand_in(node: Node) -> Node:
    """A node for one parameter: several may be the same tensor, and only some of them pass gradients on."""
    return Node(node.name, node.shape, node.precision, origin=node.origin)


def _over(read: Mapping[str, Node], statement: Direct) -> Direct:
    names, watched = statement.names[1:], statement.operands[len(statement.names) - 1 :]
    return replace(statement, operands=(*(read[one] for one in names), *watched))


def _warn_of_mixing(application: Application) -> None:
    """Warn of results in which a batch axis does not come first: what works on outputs would mix examples."""
    template = application.template
    batched = template.batched(application.splits)
    for result in template.flat.results:
        axes = template.axes(result)
        if late := [name for name in axes[leading(axes, batched) :] if name in batched]:
            what = (
                f"the batch axis `{late[0]}` is an output axis of `{result}` of `{template.name}`: it is not the first"
            )
            fix = f"let the index of `{late[0]}` come first on the left side of `{result}`"
            warn(WeftError(what, fix=fix))


def _operand(template: Template, param: str, given: TensorLike) -> Tensor:
    """What is given for a parameter, as a tensor; a number of the program has the parameter's type."""
    if is_array(given):
        return data(given, label=param)
    if not isinstance(given, bool | int | float) or isinstance(given, np.generic):
        return as_tensor(given, template.name)
    dtype = template.flat.types[param]
    check_number(given, dtype, param)
    return number(given, label=param, dtype=dtype)


def check_number(value: float, dtype: str, name: str) -> None:
    """Refuse a number that is none of a type."""
    if is_float(dtype):
        fits = isinstance(value, float) or abs(value) <= float_info.max
    elif dtype == "bool" or isinstance(value, bool | float):
        fits = dtype == "bool" and isinstance(value, bool)
    else:
        low, high = limits(dtype)
        fits = low <= value <= high
    if not fits:
        what = f"`{name}` is {dtype}, and {value!r} is no number of that type"
        raise WeftError(what, fix="pass another number, or change the type in the text")


def check_types(template: Template, given: Sequence[str]) -> None:
    """Refuse operands whose element types are not those of the parameters."""
    params = template.flat.params
    if len(given) != len(params):
        names = ", ".join(f"`{one}`" for one in params) or "nothing"
        what = f"`{template.name}` takes {names} and was given {len(given)} operands"
        raise WeftError(what, fix="pass one operand for each, in this order")
    for param, dtype in zip(params, given, strict=True):
        wanted = template.flat.types[param]
        if dtype != wanted:
            what = f"`{param}` of `{template.name}` is {wanted}, and what is given is {dtype}"
            fix = f"convert it to {wanted}, or declare it as `{spelled(dtype)}(…) {param}`"
            raise WeftError(what, fix=fix)
