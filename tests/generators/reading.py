"""What is printed is what runs: printed code reads back to the same nodes, and computes the same numbers.

A draw writes code over square matrices: assignments to parameters, gradients and nodes of every make, whose right sides
share expressions made before, with updates of what those read in between. The code is printed and read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft as wf
from weft.assign import Code, complete, statements
from weft.assign.nodes import Node, first_number, target
from weft.assign.show import Printer
from weft.assign.stated import stated
from weft.shape.close import close

N = 3

BINARY: list[Callable[[Any, Any], Any]] = [
    lambda left, right: left + right,
    lambda left, right: left - right,
    lambda left, right: left * right,
    lambda left, right: wf.maximum(left, right),
    lambda left, right: wf.where(left < right, left, right),
    lambda left, right: wf.fma(left, right, left),
    lambda left, right: left @ right,
    lambda left, right: wf.einsum("i->j; j->k => i->k", left, right, accum="max", op="+"),
    lambda left, right: wf.einsum("i->j; i->j => j->i", left, right),
]

UNARY: list[Callable[[Any], Any]] = [
    wf.relu,
    wf.tanh,
    wf.sin,
    lambda one: one.T,
    lambda one: -one,
    lambda one: one * 0.5,
    lambda one: 2 - one,
    lambda one: wf.cast(one, "float16"),
    lambda one: one + wf.number(0.25, dtype="float64"),
    lambda one: wf.einsum("i->j => j->i", one, accum="max"),
    lambda one: wf.einsum("i->j => i->j", one, j=wf.Dim(N, "rgb")),
    lambda one: wf.einsum("i->j => i->j", one, i=N),
]


@dataclass
class Drawn:
    """A program on its way: what its expressions may be made of, and the expressions made so far."""

    rng: np.random.Generator
    runnable: bool
    index: wf.StaticIndex = field(default_factory=lambda: wf.index("i", 2))
    tensors: list[wf.Tensor] = field(default_factory=list)
    targets: list[wf.Tensor] = field(default_factory=list)
    shared: list[wf.Tensor] = field(default_factory=list)
    open: list[wf.Tensor] = field(default_factory=list)  # what they are is said by what is first assigned

    def one_of(self, several: list[Any]) -> Any:
        return several[int(self.rng.integers(len(several)))]

    def leaves(self) -> None:
        values = self.rng.uniform(-1, 1, (3, N, N)).astype("float32")
        kind = str(self.rng.choice(["float32", "float32", "float64", "float16", "int8", "int32", "int64"]))
        a = wf.data((values[0] * 100).astype(kind) if "int" in kind else values[0].astype(kind), input=1, label="a")
        b, x = wf.data(values[1], input=1, label="b"), wf.data(values[1:], batch=1, input=1, label="x")
        p = wf.param("a", o=N, i=N, init=0.5)  # two tensors are called `a`
        self.tensors = [a, b, x, p, *(self._node(label) for label in ("m", "n", "tanh"))]
        # A gradient takes no part in inferring types: what nothing but whole numbers and fractions go into stays open.
        self.targets = [p, *([] if "int" in kind else [p.grad]), *self.tensors[4:]]

    def _node(self, label: str) -> wf.Tensor:
        traits: dict[str, Any] = {"init": float(self.rng.choice([0.0, -0.25, 0.5]))}
        if self.rng.random() < 0.4:
            return wf.node(label, **traits, dtype=self.one_of(["float32", "float64"]), o=N, i=N)
        if self.rng.random() < 0.4:
            traits |= self.one_of([{"at_least": "float32"}, {"at_least": "float64"}, {"o": N}, {"i": N}])
        made = wf.node(label, **traits)
        self.open.append(made)
        return made

    def expression(self, depth: int) -> wf.Tensor:
        """An expression, perhaps one that was made before."""
        kind = self.rng.random()
        if self.shared and kind < 0.3:
            return self.one_of(self.shared)
        if not depth or kind < 0.4:
            return self._leaf()
        if kind < 0.65:
            made = self.one_of(UNARY)(self.expression(depth - 1))
        else:
            made = self.one_of(BINARY)(self.expression(depth - 1), self.expression(depth - 1))
        if self.rng.random() < 0.1:
            self.tensors.append(made.named(f"t{len(self.tensors)}"))
        if self.rng.random() < 0.5:
            self.shared.append(made)
        return made

    def _leaf(self) -> wf.Tensor:
        if self.rng.random() < 0.15:
            return self.tensors[2][self.one_of([0, 1, self.index])]
        leaf = self.one_of([*self.tensors[:2], *self.targets])
        return leaf if self.runnable else self.one_of([leaf, leaf.merge, wf.given(leaf)])

    def statement(self) -> None:
        lhs, right = self.one_of(self.targets), self.expression(int(self.rng.integers(4)))
        accum = self.one_of(["=", "=", "add", "sub", "mul", "max"])
        try:
            self._assign(lhs, accum, right)
        except wf.WeftError as error:
            if "was written after" not in error.what:
                raise
            self._assign(lhs, accum, self._leaf())  # what the expression reads was written since it was made

    def _assign(self, lhs: wf.Tensor, accum: str, right: wf.Tensor) -> None:
        if accum == "=":
            lhs[:] = right
        else:
            lhs.accumulate(accum, right)

    def code(self) -> Code:
        @wf.cd
        def block() -> None:
            for number in range(self.rng.integers(1, 4)):
                with wf.comment("block", number):
                    self.statement()

        @wf.cd
        def first() -> None:
            for node in self.open:
                node[:] = self.one_of([wf.tanh(self.tensors[1]), self.tensors[1] + self.tensors[0]])

        pieces = [*([first()] if self.open else []), block()]
        for _ in range(self.rng.integers(3)):
            forward = self.shared and self.rng.random() < 0.3
            pieces.append(self.one_of(self.shared).forward if forward else block())
        return wf.seq(*pieces)


def check(rng: np.random.Generator) -> None:
    """Draw code, print it and read it again."""
    drawn = Drawn(rng, runnable=bool(rng.random() < 0.7))
    drawn.leaves()
    code = drawn.code()
    one = complete(code) if rng.random() < 0.3 else code
    text = str(one)
    again = wf.parse_cd(text, _given(one, drawn), declare=True)
    assert str(again) == text, f"{text}\nreads back as\n{again}"
    if drawn.runnable:
        _same_numbers(one, again, drawn, text)
    _same_nodes(one, again, text)


def _given(code: Code, drawn: Drawn) -> dict[str, Any]:
    """The leaves by the names the code is printed with, and the tensors with names that it does not compute."""
    full = stated(code)
    printer, written = Printer(full), {target(one) for one in statements(full)}
    named = [one for one in drawn.tensors if one.node.definition is not None and one.node not in written]
    declares = not named and drawn.rng.random() < 0.5  # a tensor that is given reads nodes that are given
    leaves = [one for one in drawn.tensors if one.node.definition is None]
    known = [one for one in leaves if not (declares and one.node.declared is not None and one.node in written)]
    return {printer.name(one.node): one for one in (*known, *named)} | {"i": drawn.index}


def _same_nodes(code: Code, again: Code, text: str) -> None:
    """Both write nodes of the same shapes and types, that start alike."""
    for one, other in zip(statements(stated(code)), statements(stated(again)), strict=True):
        first, second = _made(target(one)), _made(target(other))
        assert first == second, f"{text}\nwrites {first}, read back {second}"


def _made(node: Node) -> tuple[object, ...]:
    return str(close(node.shape)), node.dtype, first_number(node) if node.declared is not None else None


def _same_numbers(code: Code, again: Code, drawn: Drawn, text: str) -> None:
    """Both leave the same behind, twice in a row."""
    p = drawn.tensors[3]
    contexts = [wf.Context("interp"), wf.Context("interp")]
    kept = [_written(one) for one in (code, again)]
    for ctx, one, keep in zip(contexts, (code, again), kept, strict=True):
        ctx[p] = np.linspace(-1, 1, N * N, dtype="float32").reshape(N, N)
        ctx[p.grad] = np.linspace(1, 0, N * N, dtype="float32").reshape(N, N)
        routine = ctx.compile(one, bindings=[drawn.index], keep=keep)
        with np.errstate(all="ignore"):
            for number in range(2):
                routine(i=number)
    for first, second in zip(*kept, strict=True):
        left, right = contexts[0][first], contexts[1][second]
        assert np.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True), f"{text}\n{first.label}: {left}\n{right}"


def _written(code: Code) -> list[wf.Tensor]:
    """The nodes that code writes for themselves, not as parts of expressions."""
    nodes = dict.fromkeys(target(one) for one in statements(stated(code)))
    return [wf.Tensor(node) for node in nodes]
