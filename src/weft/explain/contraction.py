"""Subscripts as an einsum's spec.

c[i, k] += a[i, j] * b[j, k]                                is      ij;jk=>ik
o[i] += x[2*i + k - 1] * w[k]  if 0 <= 2*i + k - 1 < 8      is      2*i=+j;j=>i

A spec says more than it writes: how large axes are, which positions padding leaves out. So its projection is compared
with the subscripts it was made for before it is given out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from string import ascii_lowercase, ascii_uppercase

from weft.affine import Affine
from weft.assign import Arg
from weft.assign.explicit import Run
from weft.einsum import nodes as ein
from weft.einsum.show import show_spec
from weft.errors import WeftError
from weft.loops import Buffer, Cast, Read
from weft.ops import Scalar, leaves, substitute
from weft.project.plan import plan_einsum
from weft.shape.nodes import MEMORY_ORDER, Shape

_LETTERS = ascii_lowercase[8:] + ascii_lowercase[:8] + ascii_uppercase


@dataclass(frozen=True, slots=True)
class EinsumForm:
    """A run as a spec: a part for each operand, and a value over operands; `labels` are its loops with their sizes."""

    parts: tuple[ein.ShapeSpec, ...]
    result: ein.ShapeSpec
    operands: tuple[Buffer, ...]
    value: Scalar
    labels: Mapping[str, int]
    padded: bool


def spec_text(parts: Sequence[ein.ShapeSpec], result: ein.ShapeSpec) -> str:
    return show_spec(ein.Spec(tuple(parts), result))


def sizes_to_give(parts: Sequence[ein.ShapeSpec], result: ein.ShapeSpec, labels: Mapping[str, int]) -> dict[str, int]:
    """The sizes that operands do not tell: of labels that only the result has, and of windows that no operand is."""
    axes = list(chain.from_iterable(one.axes for one in parts))
    told = {axis.name for axis in axes if isinstance(axis, ein.Label)}
    told |= {axis.over.name for axis in axes if isinstance(axis, ein.AffineAxis)}
    told |= {part.name for axis in axes if isinstance(axis, ein.ConcatAxis) for part in ein.labels_in(axis)}
    used = {label.name for one in (*parts, result) for label in one.labels}
    return {name: size for name, size in labels.items() if name in used - told}


def labelled(labels: Sequence[str], shape: Shape) -> ein.ShapeSpec:
    """A part whose axes are these labels in memory order, in the rows of a shape."""
    names = iter(labels)
    rows = {kind: ein.Row(trail=tuple(ein.Label(next(names)) for _ in shape.row(kind))) for kind in MEMORY_ORDER}
    return ein.ShapeSpec(rows["batch"], rows["input"], rows["output"])


def letters(count: int) -> str:
    """So many different letters."""
    if count > len(_LETTERS):
        raise WeftError("it has more indices than there are letters")
    return _LETTERS[:count]


def contraction(run: Run, target: Buffer, shapes: Mapping[Buffer, Shape]) -> EinsumForm:
    """The spec of a run; WeftError says why there is none."""
    read = _reads(run.value)
    named = {name: letter for (name, _), letter in zip(run.loops, letters(len(run.loops)), strict=True)}
    labels = {named[name]: size for name, size in run.loops}
    moved = {name: Affine.of(letter) if labels[letter] > 1 else Affine() for name, letter in named.items()}
    accesses = [(target, run.at), *((one.buffer, one.at) for one in read)]
    indices = [_indices(at, buffer, moved) for buffer, at in accesses]
    guards = {one for test in run.guards for one in _indices((test.index,), None, moved)}
    writing = _SpecWriter({name: size for name, size in labels.items() if size > 1}, indices[0], guards)
    result, *parts = (writing.shape(some, shapes[buffer]) for some, (buffer, _) in zip(indices, accesses, strict=True))
    numbers: dict[Scalar, Scalar] = {one: Arg(number) for number, one in enumerate(read)}
    value = substitute(run.value, lambda one: numbers.get(one, one))
    padded = any(len(one.terms) > 1 for one in guards)
    made = EinsumForm(tuple(parts), result, tuple(one.buffer for one in read), value, writing.sizes, padded)
    if not _agrees(made, indices, [shapes[buffer] for buffer, _ in accesses], guards):
        raise WeftError(f"no spec has just its subscripts: `{spec_text(parts, result)}` comes near")
    return made


def _reads(value: Scalar) -> list[Read]:
    """The different reads of a value that is made of reads and numbers alone."""
    for one in leaves(value):
        if isinstance(one, Affine):
            raise WeftError("it computes with the value of an index")
        if isinstance(one, Cast):
            raise WeftError(f"it converts to {one.dtype} inside an expression")
    found = list(dict.fromkeys(one for one in leaves(value) if isinstance(one, Read)))
    if not found:
        raise WeftError("it reads no tensor")
    return found


def _indices(at: Sequence[Scalar], buffer: Buffer | None, moved: Mapping[str, Affine]) -> tuple[Affine, ...]:
    """Subscripts by letters; a loop of one iteration is at 0, and so is an axis of 1 that a text does not know."""
    found = []
    for one in at:
        if not isinstance(one, Affine):
            raise WeftError("it has a subscript that is computed")
        if not moved.keys() >= set(one.names):
            raise WeftError("it is at a static index")
        found.append(one.substitute(moved))
    return (*found, *[Affine()] * (len(buffer.shape) - len(at) if buffer else 0))


@dataclass(frozen=True, slots=True)
class _SpecWriter:
    sizes: Mapping[str, int]
    kept: tuple[Affine, ...]
    guards: set[Affine]

    def shape(self, indices: Sequence[Affine], shape: Shape) -> ein.ShapeSpec:
        rest = iter(indices)
        rows = {
            kind: ein.Row(trail=tuple(self._axis(next(rest), dim.size) for dim in shape.row(kind)))
            for kind in MEMORY_ORDER
        }
        return ein.ShapeSpec(rows["batch"], rows["input"], rows["output"])

    def _axis(self, index: Affine, size: int) -> ein.Axis:
        offset = index.offset
        match index.terms:
            case ():
                return ein.Position(offset)
            case ((1, name),) if 0 <= offset <= size - self.sizes[name]:
                after = size - self.sizes[name] - offset
                before = (ein.Skip(offset),) if offset else ()
                parts = (*before, ein.Label(name), *((ein.Skip(after),) if after else ()))
                return ein.ConcatAxis(parts) if len(parts) > 1 else ein.Label(name)
            case ((factor, name),) if factor > 0 and 0 <= offset < factor:
                return ein.AffineAxis(factor, ein.Label(name), None, offset)
            case ((one, _), (other, _)) if one > 0 and other > 0:
                return self._window(index)
        if not offset:
            return self._flat(index)
        raise WeftError(f"no axis of a spec is read at `{index}`")

    def _flat(self, index: Affine) -> ein.Axis:
        """`a&b&c`: the coefficient of each label is the size of all after it."""
        terms, step = sorted(index.terms, reverse=True), 1
        for factor, name in reversed(terms):
            if factor != step:
                raise WeftError(f"no axis of a spec is read at `{index}`")
            step *= self.sizes[name]
        return ein.FlatAxis(tuple(ein.Label(name) for _, name in terms))

    def _window(self, index: Affine) -> ein.Axis:
        """`s*over + d*kernel`: what the result forgets is the kernel, else the one of the shorter step."""
        kept = {name for one in self.kept for name in one.names}
        kernel, over = sorted(index.terms, key=lambda term: (term[1] in kept, term[0]))
        window = ein.ConvKernel(ein.Label(kernel[1]), kernel[0], index in self.guards)
        left = window.left_of_axis(self.sizes[kernel[1]])
        return ein.AffineAxis(over[0], ein.Label(over[1]), window, max(index.offset + left, 0))


def _agrees(
    made: EinsumForm, indices: Sequence[tuple[Affine, ...]], shapes: Sequence[Shape], guards: set[Affine]
) -> bool:
    """Has the projection of a spec just these subscripts, for tensors of these shapes?"""
    sizes = sizes_to_give(made.parts, made.result, made.labels)
    try:
        found = plan_einsum(spec_text(made.parts, made.result), shapes[1:], None, sizes).projection
    except WeftError:
        return False
    if len(found.runs) != 1 or any(found.shapes[0].row(kind) != shapes[0].row(kind) for kind in MEMORY_ORDER):
        return False
    run = found.runs[0]
    once = [loop.name for loop in run if loop.size == 1]
    loops = {loop.name: loop.size for loop in run if loop.size > 1}
    maps = [tuple(index.without(once) for index in found.indices(slot, run)) for slot in range(len(indices))]
    return loops == made.labels and maps == list(indices) and guards <= set(chain.from_iterable(indices))
