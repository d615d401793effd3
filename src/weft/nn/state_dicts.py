"""Weights as PyTorch stores them, in and out: a table says of each parameter where it is in a `state_dict`, and how.

    names = wf.nn.gpt2_names(12)                      {"gpt.block0.attention.q": StoredWeight("transformer.h.0…", …), …}
    values = wf.nn.from_torch(state, names, model)    {"gpt.block0.attention.q": array, …}
    ctx.restore(model, values)

A state is a mapping from names to arrays of NumPy, as safetensors are read. `weight_names.py` has tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import ShapeError, WeftError
from weft.tensor.layers import Layer

StateDict: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """Where a parameter is in a state: by a name, as one of several equal `parts` along its outputs.

    Its axes are `rows` of outputs, `window` of a kernel, and inputs. Outputs are one axis there, and inputs the next,
    before those of the window; `transposed`, inputs are first. With `first`, only so many positions of its first axis
    are there, and the others are 0.

    >>> stored = wf.nn.StoredWeight("h.0.attn.c_attn.weight", transposed=True, rows=2, part=1, parts=3)
    >>> print(stored.read(np.arange(12.0).reshape(2, 6), (1, 2, 2)).tolist())
    [[[2.0, 8.0], [3.0, 9.0]]]
    """

    name: str
    rows: int = 1
    transposed: bool = False
    part: int = 0
    parts: int = 1
    window: int = 0
    first: int | None = None

    def read(self, array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The parameter, in its own shape."""
        expected = self._turned(np.empty(self._shape(shape), bool)).shape
        if array.shape != expected:
            what = f"`{self.name}` is of shape {array.shape}, and {expected} is expected"
            raise ShapeError(what, notes=[f"a parameter of shape {shape} is read from it"], fix="configure as it was")
        mine = np.split(self._turned(array), self.parts)[self.part]
        parameter = (np.moveaxis(mine, 1, -1) if self.window else mine).reshape(shape)
        return np.ascontiguousarray(self._seen(parameter))

    def write(self, parameter: npt.NDArray[Any], into: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """The array with the parameter in it, beside what it has already."""
        shape = self._shape(parameter.shape)
        turned = np.zeros(shape, parameter.dtype) if into is None else self._turned(into)
        size, (outputs, *inputs), window = shape[0] // self.parts, shape[:2], shape[2:]
        mine = self._seen(parameter).reshape(outputs // self.parts, *window, *inputs)
        turned[self.part * size : (self.part + 1) * size] += np.moveaxis(mine, -1, 1) if self.window else mine
        return self._turned(turned)

    def _turned(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array.swapaxes(0, 1) if self.transposed and array.ndim > 1 else array

    def _seen(self, parameter: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What is there of the parameter, and 0."""
        if self.first is None:
            return parameter
        there = np.arange(len(parameter)) < self.first
        return parameter * there.reshape(-1, *[1] * (parameter.ndim - 1))

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """That of the array, not transposed, from the parameter's."""
        outputs, window = shape[: self.rows], shape[self.rows : self.rows + self.window]
        inputs = shape[self.rows + self.window :]
        return (self.parts * prod(outputs), *([prod(inputs)] if inputs or window else []), *window)


#: Of each parameter, by its label: a name, where and how it lies, or several of which it is the sum.
WeightNames: TypeAlias = Mapping[str, "str | StoredWeight | tuple[StoredWeight, ...]"]


def from_torch(
    state: Mapping[str, npt.ArrayLike], names: WeightNames, like: Layer | Mapping[str, npt.ArrayLike]
) -> StateDict:
    """The parameters of a model that was applied, by their labels, from a state; what else is there is left.

    Instead of a layer, `like` may be a state of the context, `ctx.state(model)`, which has running statistics too.

    >>> model = wf.nn.linear(o=2, label="head")
    >>> y = model(wf.data(np.ones((5, 3), "float32"), batch=1))
    >>> names = {"head.w": wf.nn.StoredWeight("fc.weight", transposed=True), "head.b": "fc.bias"}
    >>> published = {"fc.weight": np.ones((3, 2), "float32"), "fc.bias": np.zeros(2, "float32")}
    >>> print(ctx.restore(model, wf.nn.from_torch(published, names, model)))
    2 restored
    """
    return {label: _sum_of(state, _stored(names, label), shape) for label, shape in _shapes(like).items()}


def to_torch(state: Mapping[str, npt.ArrayLike], names: WeightNames) -> StateDict:
    """A state with these values, by their labels: what `wf.nn.from_torch` reads. Of a sum, the first part has it all.

    >>> names = {"head.w": wf.nn.StoredWeight("fc.weight", transposed=True), "head.b": "fc.bias"}
    >>> state = wf.nn.to_torch({"head.w": np.ones((2, 3)), "head.b": np.zeros(2)}, names)
    >>> print({name: array.shape for name, array in state.items()})
    {'fc.weight': (3, 2), 'fc.bias': (2,)}
    """
    found: StateDict = {}
    for label, value in state.items():
        array = np.asarray(value)
        for at, stored in enumerate(_stored(names, label)):
            found[stored.name] = stored.write(np.zeros_like(array) if at else array, found.get(stored.name))
    return found


def _shapes(like: Layer | Mapping[str, npt.ArrayLike]) -> dict[str, tuple[int, ...]]:
    match like:
        case Layer():
            return {param.label: param.dims.array_shape for param in like.params}
        case Mapping():
            return {label: np.shape(value) for label, value in like.items()}
        case _:
            what = f"weights are for a layer or like a state, not for a {type(like).__name__}"
            raise WeftError(what, fix="wf.nn.from_torch(state, names, model), or like=ctx.state(model)")


def _stored(names: WeightNames, label: str) -> tuple[StoredWeight, ...]:
    """Where a parameter is: one place, or several of which it is the sum."""
    match _found(names, label, "table"):
        case str() as name:
            return (StoredWeight(name),)
        case StoredWeight() as one:
            return (one,)
        case tuple() as several if several and all(isinstance(one, StoredWeight) for one in several):
            return several
        case other:
            what = f"`{label}` is at {other!r} in the table, which is no place in a state"
            raise WeftError(what, fix=f'write "{label}": "fc.weight", or wf.nn.StoredWeight("fc.weight", …)')


def _sum_of(
    state: Mapping[str, npt.ArrayLike], stored: tuple[StoredWeight, ...], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    parts = [one.read(np.asarray(_found(state, one.name, "state")), shape) for one in stored]
    return parts[0] if len(parts) == 1 else np.add.reduce(parts)


def _found(known: Mapping[str, Any], name: str, where: str) -> Any:
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    fix = f"it has `{near[0]}`" if near else f"it has {', '.join(list(known)[:5]) or 'nothing'}"
    raise WeftError(f"there is no `{name}` in the {where}", fix=fix)
