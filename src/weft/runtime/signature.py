"""What a function takes: inputs by position or by name, static indices by name; what is wrong with a call, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.arguments import excerpt
from weft.assign import Awaited, Node
from weft.assign.check import made_at
from weft.backends import Array
from weft.errors import ShapeError, WeftError, said_at
from weft.notation.words import meant
from weft.ops.convert import convert
from weft.ops.dtypes import is_float, limits, name_of
from weft.shape.nodes import Dim, OpenSize
from weft.tensor.leaves import where_it_lies
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Argument:
    """An input as calls see it."""

    node: Node
    awaited: Awaited
    dtype: str

    @property
    def axes(self) -> tuple[Dim | OpenSize, ...]:
        return self.awaited.axes

    @property
    def name(self) -> str:
        return self.node.label

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.axes))}]"

    def array(self, given: Any) -> Array:
        """What was given for it as an array of its type.

        Whole numbers go into any type that holds each of them, fractions into any type of fractions, rounded; fractions
        do not go into whole numbers.
        """
        try:
            found: Array = where_it_lies(given)
        except WeftError as error:
            raise self._refused(f"input `{self.name}` was given no array of numbers: {error.what}", error.fix) from None
        kind = name_of(found.dtype)
        if kind == self.dtype or not isinstance(found, np.ndarray):
            return found
        if found.size and is_float(kind) and not is_float(self.dtype):
            what = f"input `{self.name}` is {self.dtype}, and was given {kind}: fractions do not go into whole numbers"
            raise self._refused(what, f'x.astype("{self.dtype}") drops the fractions, if that is meant')
        if not is_float(self.dtype) and not _fits(found, self.dtype):
            least, most = found.min(), found.max()
            held = f"{most}" if least == most else f"{least} to {most}"
            what = f"input `{self.name}` is {self.dtype}, which does not hold {held}"
            raise self._refused(what, f'declare it wider: wf.input("{self.name}", …, dtype="{kind}")')
        with np.errstate(all="ignore"):
            return np.asarray(convert(found, self.dtype))

    def sizes(self, array: Array) -> list[tuple[str, int]]:
        """The open sizes that an array decides, axis by axis; refused if it has not the axes that are said."""
        whole = self.awaited.logic.axes
        axes = whole if array.ndim == len(whole) else self.axes
        if array.ndim != len(axes):
            counts = f"{len(axes)} ax{'i' if len(axes) == 1 else 'e'}s"
            what = f"input `{self.name}` has {counts}, and was given an array of shape {array.shape}"
            several = "" if self.node.shape.batch.axes else '; for batches declare it with b="batch"'
            raise self._refused(what, self._fitting + several)
        for axis, size in zip(axes, array.shape, strict=True):
            if isinstance(axis, Dim) and axis.size != size:
                said = axis.named.spelled if axis.named is not None else axis.size
                what = f"input `{self.name}` was given an array of shape {array.shape}: declared is {said}, not {size}"
                free = "" if self.awaited.names else '; a size that each call decides has a name, b="batch"'
                raise self._refused(what, self._fitting + free)
        return [(axis.name, size) for axis, size in zip(axes, array.shape, strict=True) if isinstance(axis, OpenSize)]

    def _refused(self, what: str, fix: str = "") -> ShapeError:
        notes = said_at(f"{self}, declared", self.node.origin) or [str(self)]
        return ShapeError(what, notes=notes, fix=fix or self._fitting)

    @property
    def _fitting(self) -> str:
        return f"give it an array of [{', '.join(map(str, self.axes))}]"


def _fits(array: Array, dtype: str) -> bool:
    least, most = limits(dtype)
    return not array.size or bool(array.min() >= least and array.max() <= most)


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs of a function in order, and the static indices its code uses."""

    arguments: tuple[Argument, ...]
    indices: Mapping[str, StaticIndex]

    def __str__(self) -> str:
        return ", ".join([*map(str, self.arguments), *(f"{name}=…" for name in self.indices)])

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """The sizes that calls decide."""
        return tuple(dict.fromkeys(name for one in self.arguments for name in one.awaited.names))

    def bound(self, positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Array], dict[str, Any]]:
        """The arrays of a call in the order of the inputs, and where its static indices stand, not checked yet."""
        inputs = {one.name: one for one in self.arguments}
        if len(positional) > len(inputs):
            raise self._refused(f"the function takes {_counted(len(inputs))}, and was given {len(positional)}")
        given = dict(zip(inputs, positional, strict=False))
        for name, value in named.items():
            if name in given:
                raise self._refused(f"input `{name}` is given twice: by position and by name")
            if name not in inputs and name not in self.indices:
                raise self._refused(f"the function takes no `{name}`", meant(name, [*inputs, *self.indices]))
            given[name] = value
        for name in (*inputs, *self.indices):
            if name not in given:
                kind = "input" if name in inputs else "static index"
                raise self._refused(f"the call gives no {kind} `{name}`")
        arrays = [one.array(given[name]) for name, one in inputs.items()]
        return arrays, {name: given[name] for name in self.indices}

    def sizes(self, arrays: Sequence[Array]) -> dict[str, int]:
        """The open sizes that arrays decide; refused if two decide one differently."""
        found: dict[str, int] = {}
        decided: dict[str, tuple[Argument, tuple[int, ...]]] = {}
        for one, array in zip(self.arguments, arrays, strict=True):
            for name, size in one.sizes(array):
                if found.setdefault(name, size) != size:
                    what = f"`{name}` cannot be both {found[name]} and {size} in one call"
                    both = dict.fromkeys([decided[name], (one, array.shape)])
                    notes = [f"{argument} was given an array of shape {shape}" for argument, shape in both]
                    fix = f"give arrays of one length, or call the size of `{one.name}` something else"
                    raise ShapeError(what, notes=notes, fix=fix)
                decided.setdefault(name, (one, array.shape))
        return found

    def _refused(self, what: str, fix: str = "") -> WeftError:
        return WeftError(what, notes=[f"it takes {self}"], fix=fix or f"call it with {self}")


def _counted(count: int) -> str:
    return f"{count} input{'s' * (count != 1)}"


def checked_inputs(inputs: Sequence[object]) -> tuple[Argument, ...]:
    """What `ctx.function` was given as inputs."""
    found: dict[str, Argument] = {}
    for one in inputs:
        if not isinstance(one, Tensor) or not isinstance(awaited := one.node.init, Awaited):
            what = f"{f'`{one.label}`' if isinstance(one, Tensor) else excerpt(one)} is not an input of a function"
            fix = 'inputs come first, x = wf.input("x", b="batch", o=64), then code= and returns='
            raise WeftError(what, notes=made_at(one.node) if isinstance(one, Tensor) else (), fix=fix)
        node = one.node
        if node.label in found:
            same = found[node.label].node is node
            what = f"input `{node.label}` is listed twice" if same else f"two inputs are called `{node.label}`"
            raise WeftError(what, notes=made_at(node), fix="list each input once, under a name of its own")
        found[node.label] = Argument(node, awaited, node.dtype)
    return tuple(found.values())
