"""Random programs of the comprehension language that mean something, with inputs to run them on.

A program grows by a statement at a time; one that the checks or the ranges refuse is left out. What chooses between
values of floating point compares numbers that come in or are whole, so that rounding never changes a choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from weft.comprehension import CheckedProgram, Ranges, check, infer, parse
from weft.errors import WeftError
from weft.ops.dtypes import is_float, numpy_type

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SIZES = ("M", "N", "K")
CALLED = """
def called({real}(P,Q) X, {real}(Q) Y) -> (Z, W) {{ h(p) +=! X(p,q) * Y(q)
    Z(p) = h(p) > 0 ? h(p) : 0.5 * h(p)
    W max=! Z(p) * Q }}
def product({real}(P) X) -> (Z) {{ Z(p,q) = X(p) * X(q) + p }}
"""
SMOOTH = ("tanh", "sin", "cos", "sigmoid")
REDUCTIONS = ("+=", "*=", "min=", "max=")


@dataclass(frozen=True)
class Program:
    """A text, its last definition ready to run, and inputs for it."""

    text: str
    checked: CheckedProgram
    inputs: Mapping[str, Array]

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(one.name.name for one in self.checked["f"].definition.results)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a failing test prints."""
        shapes = {name: one.shape for name, one in self.inputs.items()}
        printer.text(f"{self.text}\n# {shapes}")


@st.composite
def programs(draw: st.DrawFn, *, smooth: bool = False, sizes: tuple[int, int] = (1, 4)) -> Program:
    """A program of some statements; if `smooth`, of doubles, and it can be differentiated almost everywhere."""
    real = "double" if smooth else draw(st.sampled_from(["float", "float", "double", "half"]))
    bounds = {name: draw(st.integers(*sizes)) for name in SIZES}
    params = {
        "A": (real, "M", "N"),
        "B": (real, "N"),
        "C": (real, "N", "K"),
        "s": (real,),
        "I": (draw(st.sampled_from(["int32", "int64", "uint8"])), "N"),
        "T": ("bool", "M"),
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    inputs = {name: _values(rng, dtype, [bounds[dim] for dim in dims]) for name, (dtype, *dims) in params.items()}
    inputs["I"] = rng.integers(0, max(bounds["M"], 1), bounds["N"]).astype(numpy_type(params["I"][0]))
    growing = _Growing(draw, real, params, inputs, smooth)
    for _ in range(draw(st.integers(2, 8))):
        growing.grow()
    return growing.program()


def _values(rng: np.random.Generator, dtype: str, shape: list[int]) -> Array:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    kind = {"float": "float32", "double": "float64", "half": "float16"}.get(dtype, dtype)
    return np.asarray(rng.standard_normal(shape)).astype(kind)


@dataclass
class _Growing:
    draw: st.DrawFn
    real: str
    params: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, Array]
    smooth: bool
    statements: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    ranges: Ranges | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def grow(self) -> None:
        """One more statement, if it means something."""
        new = f"t{len(self.targets)}"
        if self.pick(*range(7)) == 0:
            line, names = self.call(new)
        else:
            line, names = self.comprehension(new)
        targets = list(dict.fromkeys([*self.targets, *names]))
        try:
            checked = check(parse(self.text([*self.statements, line], targets)))
            self.ranges = infer(checked, "f", {name: one.shape for name, one in self.inputs.items()})
        except WeftError:
            return
        self.types = checked["f"].types
        self.statements.append(line)
        self.targets = targets

    def text(self, statements: list[str], results: list[str]) -> str:
        params = ", ".join(
            f"{dtype}{'(' + ','.join(dims) + ')' if dims else ''} {name}"
            for name, (dtype, *dims) in self.params.items()
        )
        body = "\n    ".join(statements)
        return f"{CALLED.format(real=self.real)}def f({params}) -> ({', '.join(results)}) {{\n    {body}\n}}"

    def program(self) -> Program:
        """With the tensors nothing reads as results, and perhaps others."""
        if not self.statements:
            self.statements, self.targets = ["t0(i) = 2 * B(i)"], ["t0"]
        last = self.targets[-1]
        for keep in ([last], self.targets):
            results = [one for one in self.targets if one in keep or not self._read(one)]
            text = self.text(self.statements, results)
            try:
                return Program(text, check(parse(text)), self.inputs)
            except WeftError:
                continue
        raise AssertionError(self.text(self.statements, self.targets))

    def _read(self, tensor: str) -> bool:
        return any(tensor in line.partition("=")[2] for line in self.statements)

    # Statements

    def call(self, new: str) -> tuple[str, list[str]]:
        if self.pick(True, False):
            return f"{new} = product({self.pick('B', *self.targets)})", [new]
        return f"{new}, {new}b = called({self.pick('A', *self.targets)}, {self.pick('B', *self.targets)})", [
            new,
            f"{new}b",
        ]

    def comprehension(self, new: str) -> tuple[str, list[str]]:
        old = self.pick(None, None, "A", "s", *self.targets)
        target = old or new
        rank = len(self.shape(target)) if old else self.pick(0, 1, 1, 2)
        left = list(self.draw(st.permutations(["i", "j", "k"])))[:rank]
        where = ""
        if old and left and self.pick(True, False):
            where = f" where {left[0]} in {self.pick(0, 1)}:{self.pick(1, 2)}"
        if old and self.pick(True, False):
            own = f"{target}({', '.join(left)})" if left else target
            return f"{own} = {own} * {self.number(left, 1)}{where}", [target]
        free = [*left, *self.pick((), ("k",), ("j",), ("i", "j", "k"))]
        value = self.number(list(dict.fromkeys(free)), self.pick(1, 2, 3))
        sign = self.pick(*REDUCTIONS) + ("" if old else "!")
        if not set(free) - set(left) and self.pick(True, False):
            sign = "="
        return f"{target}{'(' + ', '.join(left) + ')' if left else ''} {sign} {value}{where}", [target]

    def shape(self, tensor: str) -> tuple[int, ...]:
        if tensor in self.inputs:
            return self.inputs[tensor].shape
        assert self.ranges is not None
        return self.ranges.shapes[tensor]

    # Expressions

    def number(self, indices: list[str], depth: int) -> str:
        """A floating-point number."""
        kind = self.pick("read", "read", "literal") if depth <= 0 else self.pick(*range(9))
        inner = lambda: self.number(indices, depth - 1)  # noqa: E731
        match kind:
            case "literal":
                return self.pick("0.5", "1.5", "s", "2")
            case 0:
                return f"({inner()} + {inner()})"
            case 1:
                return f"({inner()} - {inner()})"
            case 2 | 3:
                return f"{inner()} * {inner()}"
            case 4:
                return f"{self.pick(*SMOOTH)}({inner()})"
            case 5:
                return f"({self.condition(indices)} ? {inner()} : {inner()})"
            case 6:
                return f"{inner()} / 2" if self.smooth else f"{self.pick('min', 'max')}({inner()}, 0.25)"
            case 7:
                return f"{self.real}({self.whole(indices)})"
        return self.read(indices)

    def whole(self, indices: list[str]) -> str:
        index = self.pick(*indices, "M") if indices else "K"
        options = [index, f"{index} / 2", f"(3 - {index}) % 3", f"{index} * M"]
        if indices:
            options += [f"I({index}) + 1", f"int32(T({index}))"]
        if not self.smooth and indices:
            options.append(f"int32(B({index}) * 4)")
        return str(self.pick(*options))

    def condition(self, indices: list[str]) -> str:
        if not indices:
            return str(self.pick("M < N", "s > 0", "true"))
        index = self.pick(*indices)
        options = [
            f"{index} < 2",
            f"{index} % 2 == 0",
            f"T({index})",
            f"B({index}) > 0.25",
            f"{index} > 0 && B({index}) < s",
            f"!({index} == 1 || T({index}))",
        ]
        return str(self.pick(*options[:3] if self.smooth else options))

    def read(self, indices: list[str]) -> str:
        tensor = self.pick("A", "B", "C", "s", *(one for one in self.targets if is_float(self.types.get(one, ""))))
        axes = len(self.shape(tensor))
        if not axes:
            return str(tensor)
        found = [self.subscript(tensor, axis, indices) for axis in range(axes)]
        read = f"{tensor}({', '.join(found)})"
        if self.pick(*range(4)) or not indices:
            return read
        axis, index = self.pick(*range(axes)), self.pick(*indices)
        off = self.pick(f"{index} + 1", f"{index} - 1", f"2 * {index}")
        found[axis] = off
        return f"(({off}) >= 0 && ({off}) < {tensor}.{axis} ? {tensor}({', '.join(found)}) : 0)"

    def subscript(self, tensor: str, axis: int, indices: list[str]) -> str:
        if not indices:
            return "0"
        index, other = self.pick(*indices), self.pick(*indices)
        options = [index, index, index, f"{index} + 1", f"2 * {index}", f"{index} + {other}", "0"]
        options += [f"{tensor}.{axis} - 1 - {index}", f"2 * {index} + {other}"]
        indirect = f"I({index})"
        options.append(indirect if (tensor, axis) == ("A", 0) else f"min({indirect}, {tensor}.{axis} - 1)")
        return str(self.pick(*options))
