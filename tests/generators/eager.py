"""Code under `@wf.cd` computes what the same lines compute in NumPy, one done before the next, or is refused.

Random lines make expressions, of parameters and earlier expressions, and assign them to parameters, to which those
of one number broadcast. One is refused exactly where it uses an expression after something that went into it was
written.
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
#: Of one tensor, and of its array.
FUNCTIONS: dict[str, tuple[Callable[[wf.Tensor], wf.Tensor], Callable[[Any], Any]]] = {
    "sum": (wf.sum, lambda x: x.sum(keepdims=True)),
    "prod": (wf.prod, lambda x: x.prod(keepdims=True)),
    "max": (wf.max, lambda x: x.max(keepdims=True)),
    "mean": (wf.mean, lambda x: x.mean(keepdims=True)),
    "squares": (lambda x: wf.einsum("i; i => 0", x, x), lambda x: (x * x).sum(keepdims=True)),
    "reversed": (lambda x: x[..., ::-1], lambda x: x[::-1]),
    "sorted": (wf.sort, np.sort),
}
ACCUMULATES: dict[str, Callable[[Any, Any], Any]] = {**OPERATIONS, "max": np.maximum}


@dataclass(frozen=True)
class Make:
    """`e3 = a * e1`, or `e3 = wf.sum(a)`"""

    name: str
    op: str
    left: str
    right: str


@dataclass(frozen=True)
class Assign:
    """`a[:] = e3`, or `a += e3`"""

    target: str
    value: str
    op: str


Line = Make | Assign


def check(rng: np.random.Generator) -> None:
    lines = _lines(rng)
    wanted, refused = _eagerly(lines)
    params = {name: wf.param(name, i=(), o=2, init=float(at + 1), dtype="float64") for at, name in enumerate(NAMES)}
    code, told = None, ""
    try:
        code = wf.cd(lambda: _record(lines, params))()
    except wf.WeftError as error:
        told = error.what
    if "cannot be both" in told:
        return  # what has loops of its own, as a slice, is assigned without broadcasting
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
            lines.append(Make(f"e{number}", str(rng.choice([*OPERATIONS, *FUNCTIONS])), left, right))
            names.append(f"e{number}")
        else:
            op = str(rng.choice(list(ACCUMULATES))) if rng.random() < 0.5 else ""
            lines.append(Assign(str(rng.choice(list(NAMES))), str(rng.choice(names)), op))
    return [*lines, Assign("a", "b", "+")]


def _eagerly(lines: Sequence[Line]) -> tuple[dict[str, Any], int]:
    """The values after the lines, and the number of the first that is to be refused, counted from 1."""
    values: dict[str, Any] = {name: np.full(2, at + 1.0) for at, name in enumerate(NAMES)}
    went_in: dict[str, set[str]] = {name: set() for name in NAMES}
    stale: set[str] = set()
    for number, line in enumerate(lines, 1):
        if isinstance(line, Make):
            values[line.name] = _made(line, values, {name: meaning for name, (_, meaning) in FUNCTIONS.items()})
            parts = {line.left, line.right} if line.op in OPERATIONS else {line.left}
            went_in[line.name] = parts.union(*(went_in[one] for one in parts))
            stale |= {line.name} if parts & stale else set()
            continue
        if line.value in stale:
            return values, number
        if line.value == line.target and not line.op:
            continue  # `a[:] = a` writes nothing
        found = ACCUMULATES[line.op](values[line.target], values[line.value]) if line.op else values[line.value]
        values[line.target] = np.broadcast_to(found, 2)
        stale |= {name for name, parts in went_in.items() if line.target in parts}
    return values, 0


def _made(line: Make, values: dict[str, Any], functions: dict[str, Callable[[Any], Any]]) -> Any:
    left = values[line.left]
    return functions[line.op](left) if line.op in functions else OPERATIONS[line.op](left, values[line.right])


def _record(lines: Sequence[Line], params: dict[str, wf.Tensor]) -> None:
    tensors = dict(params)
    for line in lines:
        if isinstance(line, Make):
            tensors[line.name] = _made(line, tensors, {name: function for name, (function, _) in FUNCTIONS.items()})
        elif line.op:
            tensors[line.target].accumulate(line.op, tensors[line.value])
        else:
            tensors[line.target][:] = tensors[line.value]
