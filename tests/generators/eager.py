"""Code under `@wf.cd` computes what the same lines compute in NumPy, one done before the next, or is refused.

Random lines make expressions, of parameters and earlier expressions, and assign them to parameters. One is refused
exactly where it uses an expression after something that went into it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft as wf

NAMES = "abc"
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}


@dataclass(frozen=True)
class Make:
    """`e3 = a * e1`"""

    name: str
    op: str
    left: str
    right: str


@dataclass(frozen=True)
class Assign:
    """`a[:] = e3`, or `a += e3`"""

    target: str
    value: str
    adds: bool


Line = Make | Assign


def check(rng: np.random.Generator) -> None:
    lines = _lines(rng)
    wanted, refused = _eagerly(lines)
    params = {name: wf.param(name, o=2, init=float(at + 1), dtype="float64") for at, name in enumerate(NAMES)}
    code, told = None, ""
    try:
        code = wf.cd(lambda: _record(lines, params))()
    except wf.WeftError as error:
        told = error.what
    assert ("was written after" in told) == bool(refused), f"{lines}: to be refused at {refused}, and is told {told!r}"
    if code is None:
        return
    ctx = wf.Context("interp")
    ctx.compile(code)()
    for name, param in params.items():
        assert ctx[param].tolist() == wanted[name].tolist(), f"{lines}: {name} is {ctx[param]}, not {wanted[name]}"


def _lines(rng: np.random.Generator) -> list[Line]:
    names, lines = list(NAMES), list[Line]()
    for number in range(rng.integers(2, 9)):
        if rng.random() < 0.5:
            left, right = (str(one) for one in rng.choice(names, 2))
            lines.append(Make(f"e{number}", str(rng.choice(list(OPERATIONS))), left, right))
            names.append(f"e{number}")
        else:
            lines.append(Assign(str(rng.choice(list(NAMES))), str(rng.choice(names)), bool(rng.random() < 0.5)))
    return [*lines, Assign("a", "b", True)]


def _eagerly(lines: Sequence[Line]) -> tuple[dict[str, Any], int]:
    """The values after the lines, and the number of the first that is to be refused, counted from 1."""
    values: dict[str, Any] = {name: np.full(2, at + 1.0) for at, name in enumerate(NAMES)}
    went_in: dict[str, set[str]] = {name: set() for name in NAMES}
    stale: set[str] = set()
    for number, line in enumerate(lines, 1):
        if isinstance(line, Make):
            values[line.name] = OPERATIONS[line.op](values[line.left], values[line.right])
            parts = {line.left, line.right}
            went_in[line.name] = parts.union(*(went_in[one] for one in parts))
            stale |= {line.name} if parts & stale else set()
            continue
        if line.value in stale:
            return values, number
        if line.value == line.target and not line.adds:
            continue  # `a[:] = a` writes nothing
        values[line.target] = values[line.value] + (values[line.target] if line.adds else 0)
        stale |= {name for name, parts in went_in.items() if line.target in parts}
    return values, 0


def _record(lines: Sequence[Line], params: dict[str, wf.Tensor]) -> None:
    tensors = dict(params)
    for line in lines:
        if isinstance(line, Make):
            tensors[line.name] = OPERATIONS[line.op](tensors[line.left], tensors[line.right])
        elif line.adds:
            tensors[line.target].accumulate("+", tensors[line.value])
        else:
            tensors[line.target][:] = tensors[line.value]
