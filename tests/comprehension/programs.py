"""Random programs of the comprehension language that mean something, with inputs to run them on.

A program grows by a statement at a time; one that the checks or the ranges refuse is left out. What chooses between
values of floating point compares numbers that come in or are whole, so that rounding never changes a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from weft.comprehension import CheckedProgram, check, infer, parse
from weft.comprehension.ranges import Ranges
from weft.errors import WeftError
from weft.ops.dtypes import is_float, numpy_type

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: One of several things.
Pick: TypeAlias = Callable[..., Any]

SIZES = ("M", "N", "K")
CALLED = """
def called({real}(P,Q) X, {real}(Q) Y) -> (Z, W) {{ h(p) +=! X(p,q) * Y(q)
    Z(p) = h(p) > 0 ? h(p) : 0.5 * h(p)
    W max=! Z(p) * Q }}
def product({real}(P) X) -> (Z) {{ Z(p,q) = X(p) * X(q) + p }}
def scaled({real}(P) X, {real} s, int32 n) -> (Z) {{ Z(p) = X(p) * s + n }}
def added({real}(P) X) -> (Z) {{ Z(p) += X(p) }}
def parts({real}(P) X) -> (sum) {{ sum(0) +=! X(p)  sum(1) max=! X(p)  sum(2) = 0.5 }}
"""
SMOOTH = ("tanh", "sin", "cos", "sigmoid")
#: Functions that are defined and continuous everywhere, and what is put in with a number for the others.
FUNCTIONS = (
    *SMOOTH,
    *(f"{name}({{}})" for name in ("atan", "asinh", "erf", "erfc", "normcdf", "sinpi", "cospi", "j0", "j1", "fabs")),
    "expm1(tanh({}))",
    "acosh(1.5 + sigmoid({}))",
    "lgamma(1.25 + sigmoid({}))",
    "log1p(sigmoid({}))",
    "cyl_bessel_i1(tanh({}))",
    "erfinv(0.9 * tanh({}))",
    "atan2({}, 2.5)",
    "hypot({}, 0.5)",
    "rnorm3d({}, 0.5, 1)",
    "fdim({}, 0.25)",
    "fma({}, 0.5, 1)",
)
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
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return grown(lambda *options: draw(st.sampled_from(options)), rng, smooth=smooth, sizes=sizes)


def grown(pick: Pick, rng: np.random.Generator, *, smooth: bool = False, sizes: tuple[int, int] = (1, 4)) -> Program:
    """The same, by some way to pick one of several things."""
    real = "double" if smooth else pick("float", "float", "double", "half")
    bounds = {name: pick(*range(sizes[0], sizes[1] + 1)) for name in SIZES}
    params = {
        "A": (real, "M", "N"),
        "B": (real, "N"),
        "C": (real, "N", "K"),
        "s": (real,),
        "I": (pick("int32", "int64", "uint8"), "N"),
        "T": ("bool", "M"),
        "U": (pick("uint8", "int8", "int16"), "M"),
    }
    inputs = {name: _values(rng, dtype, [bounds[dim] for dim in dims]) for name, (dtype, *dims) in params.items()}
    inputs["I"] = rng.integers(0, max(bounds["M"], 1), bounds["N"]).astype(numpy_type(params["I"][0]))
    narrow = numpy_type(params["U"][0])
    inputs["U"] = rng.integers(np.iinfo(narrow).min, np.iinfo(narrow).max + 1, bounds["M"]).astype(narrow)
    growing = _Growing(pick, real, params, inputs, smooth)
    for _ in range(pick(*range(2, 9))):
        growing.grow()
    return growing.program()


def _values(rng: np.random.Generator, dtype: str, shape: list[int]) -> Array:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    kind = {"float": "float32", "double": "float64", "half": "float16"}.get(dtype, dtype)
    return np.asarray(rng.standard_normal(shape)).astype(kind)


@dataclass
class _Growing:
    pick: Pick
    real: str
    params: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, Array]
    smooth: bool
    statements: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    ranges: Ranges | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    def grow(self) -> None:
        """One more statement, if it means something."""
        new = f"t{len(self.targets)}"
        kind = self.pick("call", "parts", "scatter", *["comprehension"] * 5)
        line, names = getattr(self, kind)(new)
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
        results = [one for one in self.targets if one == last or one in self.params or not self._read(one)]
        text = self.text(self.statements, results)
        return Program(text, check(parse(text)), self.inputs)

    def _read(self, tensor: str) -> bool:
        return any(tensor in line.partition("=")[2] for line in self.statements)

    # Statements

    def call(self, new: str) -> tuple[str, list[str]]:
        vector = self.pick("B", *self.targets)
        match self.pick("product", "called", "called", "scaled", "added", "parts"):
            case "product":
                return f"{new} = product({vector})", [new]
            case "parts":
                return f"{new} = parts({vector})", [new]
            case "scaled":
                number, whole = self.pick("N", "0.5", "-1.5", "s", "B.0 * 0.25", "M + K"), self.pick("N", "3", "M - 2")
                return f"{new} = scaled({vector}, {number}, {whole})", [new]
            case "added" if self.targets:
                old = self.pick(*self.targets)
                return f"{old} = added({vector})", [old]
        kept = self.pick((new, f"{new}b"), (new, "_"), ("_", f"{new}b"))
        called = f"called({self.pick('A', *self.targets)}, {vector})"
        return f"{kept[0]}, {kept[1]} = {called}", [one for one in kept if one != "_"]

    def parts(self, new: str) -> tuple[str, list[str]]:
        """A tensor of which each statement writes a part."""
        rest = self.pick((), ("i",))
        last = self.pick(0, 1, 2)
        order = list(range(last + 1))[:: self.pick(1, -1)]
        lines = []
        for at in order:
            sign = self.pick("=", "+=!", "max=!", "*=!")
            free = [*rest, *(self.pick((), ("k",)) if sign != "=" else ())]
            lines.append(f"{new}({', '.join([str(at), *rest])}) {sign} {self.number(free, 1)}{self.runs(rest)}")
        if self.pick(True, False):
            lines.append(f"{new}({', '.join(['0', *rest])}) += {self.number(list(rest), 1)}{self.runs(rest)}")
        return " ".join(lines), [new]

    def scatter(self, new: str) -> tuple[str, list[str]]:
        """A tensor that is written where computed subscripts say, after it got a value."""
        old = self.pick(None, *(one for one in self.targets if self.shape(one)))
        target, rank = old or new, len(self.shape(old)) if old else self.pick(1, 2)
        size = f"{target}.0" if old else "M"
        where = self.pick("I(i)", f"(U(i) + 300) % {size}", "i % 2", "i / 2", f"{size} - 1 - i")
        if old and where == "I(i)":
            where = f"min(I(i), {size} - 1)"
        rest = ["j"] * (rank - 1)
        first = "" if old else f"{new}({', '.join(['i', *rest])}) = {self.number(['i', *rest], 1)} where i in 0:M "
        sign = self.pick(*REDUCTIONS) + self.pick("", "!")
        value = self.number(["i", *rest, *self.pick((), ("k",))], self.pick(1, 2))
        return f"{first}{target}({', '.join([where, *rest])}) {sign} {value}", [target]

    def runs(self, left: tuple[str, ...]) -> str:
        return " where i in 0:2" if left else ""

    def comprehension(self, new: str) -> tuple[str, list[str]]:
        old = self.pick(None, None, "A", "s", *self.targets)
        target = old or new
        rank = len(self.shape(target)) if old else self.pick(0, 1, 1, 2)
        left = list(self.pick(*permutations(["i", "j", "k"])))[:rank]
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
                function = self.pick(*SMOOTH if self.smooth else FUNCTIONS)
                return function.format(inner()) if "{" in function else f"{function}({inner()})"
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
            options += [f"I({index}) + 1", f"int32(T({index}))", f"U({index}) - 128", f"(U({index}) + 100) / 3"]
            options += [f"-U({index}) * 2", f"(U({index}) > 5 ? U({index}) : 7)", f"min(U({index}), 200)"]
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
