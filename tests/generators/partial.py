"""A write to some cells is not a write to all.

A draw writes parts of a tensor through einsum specs, reads it in between, and runs that twice, having looked at the
tensor before or not. NumPy does the same to an array. A tensor that has a first value keeps it where nothing writes;
one that has none must be written whole before anybody looks, or the run is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import weft as wf
from generators.values import refusal

Array = np.ndarray


@dataclass(frozen=True)
class Way:
    """A spec of one operand, how big that is for a target of `n` or `n, n`, and which cells it writes."""

    spec: str
    length: int
    cells: tuple[object, ...]


def ways(n: int, rank: int, rng: np.random.Generator) -> list[Way]:
    """Ways to write a part of a target."""
    if rank == 1:
        cut, step = int(rng.integers(1, n)), int(rng.integers(2, 4))
        first = int(rng.integers(step))
        spread = np.arange(first, n, step)
        found = [
            Way("a => a^b", cut, (np.arange(cut),)),
            Way("a => b^a", cut, (np.arange(n - cut, n),)),
            Way("i => i", n, (np.arange(n),)),
        ]
        if n % step == 0:
            found.append(Way(f"i => {step}*i{f'+{first}' if first else ''}", n // step, (spread,)))
        return found
    at = int(rng.integers(n))
    every = np.arange(n)
    return [
        Way("i => ii", n, (every, every)),
        Way(f"i => i{at}", n, (every, np.full(n, at))),
        Way(f"j => {at}j", n, (np.full(n, at), every)),
    ]


def _drawn(n: int, rank: int, rng: np.random.Generator) -> list[Way]:
    """Some ways, or such that together write every cell."""
    if rank == 1 and rng.random() < 0.3:
        cut = int(rng.integers(1, n))
        parts = [Way("a => a^b", cut, (np.arange(cut),)), Way("a => b^a", n - cut, (np.arange(cut, n),))]
        halves = [Way("i => 2*i", n // 2, (np.arange(0, n, 2),)), Way("i => 2*i+1", n // 2, (np.arange(1, n, 2),))]
        return parts if rng.random() < 0.5 else halves
    found = [ways(n, rank, rng) for _ in range(rng.integers(1, 5))]
    return [one[int(rng.integers(len(one)))] for one in found]


def check(rng: np.random.Generator) -> None:
    """Draw partial writes and compare."""
    rank, n = int(rng.integers(1, 3)), int(rng.choice([2, 4, 6]))
    shape = (n,) * rank
    kind = str(rng.choice(["param", "data", "node", "set node", "bare node"]))
    start = np.full(shape, 9.0)
    target = _target(kind, shape)
    ctx = wf.Context("cc" if rng.random() < 0.08 else "interp")
    seen = wf.node("seen", dtype="float64")
    steps: list[tuple[Way, Array] | None] = []
    for way in _drawn(n, rank, rng):
        steps.append((way, rng.integers(1, 9, way.length).astype("float64")))
        if rng.random() < 0.2:
            steps.append(None)  # somebody reads it

    @wf.cd
    def code() -> None:
        for step in steps:
            if step is None:
                seen[:] = target + wf.data(np.zeros(shape))
            else:
                way, values = step
                wf.assign(target, "=", "identity", wf.data(values, label="s"), logic=way.spec)

    story = "; ".join("read" if step is None else f"{step[0].spec} {step[1]}" for step in steps)
    place = f"{kind} of {shape}, {story}"
    covered = _covered(steps, shape)
    if kind == "set node" and covered:
        return  # read by others, it need not be stored
    routine = ctx.compile(code(), keep=[target] if kind == "bare node" else [])
    if kind == "set node":
        ctx[target] = start
    if kind != "bare node" and rng.random() < 0.5:
        assert (ctx[target] == start).all()
    for _ in range(2):
        refused = refusal(routine)
        if kind == "bare node" and not covered:
            assert refused is not None, f"{place}: ran, though some cells never got a value"
            assert "is written in part only" in refused.what, f"{place}: {refused}"
            return
        assert refused is None, f"{place}: {refused}"
        read = _written(steps, start)
        if read is not None:
            assert (ctx[seen] == read).all(), f"{place}: read {ctx[seen]}, not {read}"
        assert (ctx[target] == start).all(), f"{place}: {ctx[target]}, not {start}"


def _target(kind: str, shape: tuple[int, ...]) -> wf.Tensor:
    if kind == "param":
        return wf.param("t", o=shape, init=9.0, dtype="float64")
    if kind == "data":
        return wf.data(np.full(shape, 9.0), label="t")
    node = wf.node("t", dtype="float64", init=9.0 if kind == "node" else None)

    @wf.cd
    def never_run() -> None:  # an assignment says how big it is
        node[:] = wf.data(np.zeros(shape))

    never_run()
    return node


def _written(steps: list[tuple[Way, Array] | None], target: Array) -> Array | None:
    """Write into the target; what the last reader saw."""
    read = None
    for step in steps:
        if step is None:
            read = target.copy()
        else:
            target[step[0].cells] = step[1]
    return read


def _covered(steps: list[tuple[Way, Array] | None], shape: tuple[int, ...]) -> bool:
    """Is every cell written before anybody looks?"""
    written = np.zeros(shape, bool)
    for step in steps:
        if step is None and not written.all():
            return False
        if step is not None:
            written[step[0].cells] = True
    return bool(written.all())
