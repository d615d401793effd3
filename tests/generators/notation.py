"""Code in its notation: a random text computes what NumPy says, and what it prints as is the same code again.

Texts use every way to write an operation: between its operands, before them, with brackets and commas or side by side;
every sign of assignment; nodes declared with sizes; products, transposes and specs inside and at the top.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft as wf
from weft.assign.show import Printer

Array = np.ndarray[Any, Any]

N = 3
UNARY: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "sin": np.sin,
    "tanh": np.tanh,
    "sat01": lambda x: np.clip(x, 0, 1),
}
INFIX: dict[str, tuple[str, Callable[..., Any]]] = {
    "+": ("add", np.add),
    "-": ("sub", np.subtract),
    "*.": ("mul", np.multiply),
    "@^": ("max", np.maximum),
    "^^": ("min", np.minimum),
    "-?/": ("relu_gate", lambda x, y: np.where(x > 0, y, 0.0)),
}
TERNARY: dict[str, Callable[..., Any]] = {
    "where": lambda c, x, y: np.where(c != 0, x, y),
    "fma": lambda x, y, z: x * y + z,
}
#: What follows the `=` of an assignment: what it does to the old value, and what it starts from after `=:`.
SIGNS: dict[str, tuple[Callable[..., Any], float]] = {
    "+": (np.add, 0.0),
    "-": (np.subtract, 0.0),
    "*": (np.multiply, 1.0),
    "/": (np.divide, 1.0),
    "**": (np.power, 1.0),
    "@^": (np.maximum, -np.inf),
    "^^": (np.minimum, np.inf),
    "?/": (lambda x, y: np.where(x > 0, y, 0.0), 1.0),
}
#: Those that can take several values for a cell, in any order, and how those make one.
SUMMING: dict[str, Callable[..., Any]] = {
    "+": np.sum,
    "-": np.sum,
    "*": np.prod,
    "/": np.prod,
    "@^": np.max,
    "^^": np.min,
}


@dataclass(frozen=True)
class Part:
    """A text and its value; `atom` if it can stand side by side with others without brackets."""

    text: str
    value: Array
    atom: bool = False
    product: bool = False

    @property
    def closed(self) -> str:
        return self.text if self.atom else f"({self.text})"


class Writer:
    """Writes random statements, and keeps what each name holds after them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.data = {name: rng.uniform(-1.5, 1.5, (N, N)) for name in "ab"}
        self.held: dict[str, Array] = {name: rng.uniform(0.5, 1.5, (N, N)) for name in "pq"}

    def pick(self, options: Any) -> Any:
        return list(options)[self.rng.integers(len(list(options)))]

    def statement(self, number: int) -> str:
        if self.rng.random() < 0.2:
            return self._declaration(f"node{number}")
        target = self.pick(self.held)
        if self.rng.random() < 0.35:
            text, values = self._loops()
            sign = self.pick([one for one in self._signs(values) if one in SUMMING or values.shape[1] == 1])
            value = SUMMING.get(sign, np.sum)(values, axis=1)
        else:
            part = self.expression(3)
            # A product alone on the right would not say which loops run.
            text = f"{part.closed} + 0.0" if part.product else part.text
            sign, value = self.pick(["", *self._signs(part.value)]), part.value
        return self._assign(target, sign, text, value)

    def _signs(self, values: Array) -> list[str]:
        """The signs that may take these values: nothing is divided by zero, whose sign nobody promises."""
        return [sign for sign in SIGNS if sign != "/" or np.all(np.abs(values) > 1e-9)]

    def _assign(self, target: str, sign: str, text: str, value: Array) -> str:
        reset = not sign or self.rng.random() < 0.5
        if not sign:
            self.held[target] = value
            return f"{target} =: {text}"
        combine, start = SIGNS[sign]
        old = np.full((N, N), start) if reset else self.held[target]
        self.held[target] = combine(old, value)
        return f"{target} ={':' if reset else ''}{sign} {text}"

    def _declaration(self, name: str) -> str:
        sizes = self.pick([f"o = {N}; i = {N}", f"i = [{N}]; o = [{N}]"])
        number = float(self.rng.integers(1, 9)) / 4
        self.held[name] = np.full((N, N), number)
        return f"{{ {name}; {sizes} }} =: {number}"

    def _loops(self) -> tuple[str, Array]:
        """A right side with loops of its own: its text, and the values each cell gets, along axis 1."""
        x, y = self.matrix(1), self.matrix(1)
        match self.rng.integers(4):
            case 0:
                return f'{x.closed} * {y.closed} ~logic:"@"', x.value[:, :, None] * y.value[None]
            case 1:
                op = self.pick(("+", "*", "@^"))
                values = {"+": np.add, "*": np.multiply, "@^": np.maximum}[op](x.value[None], y.value[:, :, None])
                return f'{x.closed} {op} {y.closed} ~logic:"i->j; j->k => i->k"', values
            case 2:
                name, meaning = self.pick(UNARY.items())
                return f'{name} {x.closed} ~logic:"i->j => j->i"', meaning(x.value).T[:, None]
        z = self.matrix(1)
        spec = "i->j; i->j; i->j => i->j"
        return f'where {x.closed} {y.closed} {z.closed} ~logic:"{spec}"', TERNARY["where"](x.value, y.value, z.value)[
            :, None
        ]

    def expression(self, depth: int) -> Part:
        if depth == 0 or self.rng.random() < 0.2:
            return self._leaf()
        kinds = (self._infix, self._infix, self._function, self._ternary, self._sign, self._tensor)
        return kinds[self.rng.integers(len(kinds))](depth - 1)

    def matrix(self, depth: int) -> Part:
        """An expression that has axes of its own, which numbers alone have not."""
        part = self.expression(depth)
        known = rf"\b({'|'.join([*self.data, *self.held])})\b"
        return part if re.search(known, part.text) else Part(f"{part.closed} + a", part.value + self.data["a"])

    def _leaf(self) -> Part:
        if self.rng.random() < 0.2:
            number = float(self.rng.integers(1, 9)) / 4
            return Part(str(number), np.full((N, N), number), atom=True)
        known = {**self.data, **self.held}
        name = self.pick(known)
        return Part(name, known[name], atom=True)

    def _infix(self, depth: int) -> Part:
        op, (name, meaning) = self.pick(INFIX.items())
        left, right = self.expression(depth), self.expression(depth)
        value = meaning(left.value, right.value)
        match self.rng.integers(3):
            case 0:
                return Part(f"{name} {left.closed} {right.closed}", value)
            case 1:
                return Part(f"{name}({left.text}, {right.text})", value, atom=True)
        return Part(f"{left.closed} {op} {right.closed}", value)

    def _function(self, depth: int) -> Part:
        name, meaning = self.pick(UNARY.items())
        inner = self.expression(depth)
        if self.rng.random() < 0.5:
            return Part(f"{name} {inner.closed}", meaning(inner.value))
        return Part(f"{name}({inner.text})", meaning(inner.value), atom=True)

    def _ternary(self, depth: int) -> Part:
        name, meaning = self.pick(TERNARY.items())
        parts = [self.expression(depth) for _ in range(3)]
        if name == "where":
            parts[0] = self._comparison(depth)
        value = meaning(*(part.value for part in parts))
        match self.rng.integers(3):
            case 0:
                return Part(" ".join([name, *(part.closed for part in parts)]), value)
            case 1:
                return Part(f"{name} ({', '.join(part.text for part in parts)})", value)
        return Part(f"{name}({', '.join(part.text for part in parts)})", value, atom=True)

    def _comparison(self, depth: int) -> Part:
        left, right = self.expression(depth), self.expression(depth)
        value = left.value < right.value
        return self.pick(
            [Part(f"{left.closed} < {right.closed}", value), Part(f"lt {left.closed} {right.closed}", value)]
        )

    def _sign(self, depth: int) -> Part:
        inner = self.expression(depth)
        if self.rng.random() < 0.5:
            return Part(f"-{inner.closed}", -inner.value)
        return Part(f"?/{inner.closed}", np.maximum(inner.value, 0))

    def _tensor(self, depth: int) -> Part:
        x, y = self.matrix(depth), self.matrix(depth)
        match self.rng.integers(5):
            case 0:
                return Part(f"{x.closed} * {y.closed}", x.value @ y.value, product=True)
            case 1:
                return Part(f'({x.text} ~logic:"T")' if x.atom else f'({x.closed} ~logic:"T")', x.value.T, atom=True)
            case 2:
                return Part(f'{x.closed} ++ "i->j => j->i"', x.value.T)
            case 3:
                return Part(f'{x.closed} +* "i->j; j->k => i->k" {y.closed}', y.value @ x.value)
        most = np.max(x.value[None] + y.value[:, :, None], axis=1)
        return Part(f'(=:@^ {x.closed} + {y.closed} ~logic:"i->j; j->k => i->k")', most, atom=True)


def check(rng: np.random.Generator) -> None:
    with np.errstate(all="ignore"):
        _check(rng)


def _check(rng: np.random.Generator) -> None:
    writer = Writer(rng)
    names: dict[str, Any] = {name: wf.data(array, input=1, label=name) for name, array in writer.data.items()}
    first = dict(writer.held)
    for name in first:
        names[name] = wf.node(name, o=N, i=N, dtype="float64")
    text = ";\n".join(writer.statement(number) for number in range(rng.integers(1, 6)))
    code = wf.parse_cd(text, names)
    printed, called = str(code), Printer(code)
    again = wf.parse_cd(printed, {called.name(tensor.node): tensor for tensor in names.values()}, declare=True)
    assert str(again) == printed, f"{text}\n\nprints as\n\n{printed}\n\nand then as\n\n{again}"
    for one, shown in ((code, text), (again, printed)):
        ctx = wf.Context("interp")
        for name, value in first.items():
            ctx[names[name]] = value
        ctx.compile(one, keep=[names[name] for name in first])()
        for name in first:
            np.testing.assert_allclose(ctx[names[name]], writer.held[name], rtol=1e-5, atol=1e-6, err_msg=shown)
