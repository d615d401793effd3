"""Programs in which anything meets anything: each operation on what others made, whatever that is.

    a = softmax of x over i, where seen;  b = a in order along i;  c = b at argmax of x;  d = c in windows of a …

Tensors have named axes, in any order and row, of sizes from one on; an operation takes the axes that it finds. Values
are NumPy's, gradients those of differences of them, and every way to run a program gives what the oracle gives: its
gradients, what is kept besides or not, and what code makes of parameters; also of what is infinite or not a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft as wf
from backends.interpreted import OnProcessor
from backends.on_grid import OnGrid
from generators._mixed_places import PLACES
from generators._mixed_values import VALUES
from generators._named_axes import Array, Drawing, Step, Value, value_of
from generators._settings import drawn
from weft.assign import Code

#: What stands for some numbers of a leaf now and then.
STRANGE = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e200)
#: What may be said against a step: shapes that uses decide are not known while a program is written.
REFUSED = ("not known here", "is not differentiable", "which carries to keep depends on")
SIZES, SHARES = (1, 2, 3, 4, 5, 8, 17, 33, 70), (0.12, 0.2, 0.2, 0.14, 0.1, 0.1, 0.07, 0.05, 0.02)


def check(rng: np.random.Generator) -> None:
    d = _drawn(rng)
    try:
        _compared(d)
    except (AssertionError, wf.WeftError) as error:
        raise AssertionError(f"{error}\nof\n{d.text}") from error


def _drawn(rng: np.random.Generator) -> Drawing:
    d = Drawing(rng)
    axes = "".join(d.axis(int(size)) for size in rng.choice(SIZES, int(rng.integers(2, 5)), p=SHARES))
    if d.chance(0.3):
        d.sizes[axes[-1]] = d.sizes[axes[0]]
    if d.chance(0.25):
        d.sizes[axes[0]] = int(rng.integers(64, 200))
        d.largest, d.loops = 6_000, 120_000
    for _ in range(int(rng.integers(1, 4))):
        own = d.some(axes, least=1)
        while d.size(own) > d.largest:
            own = own[1:]
        d.leaf(*d.rows(own))
    steps: dict[Step, float] = {**VALUES, **PLACES, _gradient: 0.5}
    shares = np.array(list(steps.values()))
    for _ in range(int(rng.integers(2, 12))):
        step = list(steps)[int(rng.choice(len(steps), p=shares / shares.sum()))]
        try:
            step(d)
        except wf.WeftError as error:
            if not any(one in error.what for one in REFUSED):
                raise AssertionError(f"{error}\nof\n{d.text}") from error
    return d


def _gradient(d: Drawing) -> Value | None:
    """The gradient of a value by another one: what it is, differences of the whole say."""
    y, x = d.any(lambda one: one.operands != ()), d.any()
    if not y or not x or y.meaning is None or not _depend([y], x):
        return None
    total = wf.einsum(f"{y.part} => 0", wf.sin(y.tensor))
    how = f"gradient of {y.tensor.label} by {x.tensor.label}"
    return d.make(how, wf.grad(total, x.tensor), (x.batch, x.output), None, y, x)


def _compared(d: Drawing) -> None:
    used = {one for value in d.values for one in value.operands}
    ends = [one for one in d.values if one not in used and not one.limit and one.operands]
    ends += [one for one in d.leaves if one is d.values[0] or not _depend(ends, one)]
    loss = sum((_weighed(one) for one in ends), wf.number(0.0)).named("loss")
    params = [one for one in d.leaves if _depend(ends, one)]
    kept = [one for one in d.values if one.operands and _depend(ends, one) and d.chance(0.3)]
    grads = [one.tensor.grad for one in params]
    code, state = wf.grad_update(loss), list[wf.Tensor]()
    if d.chance(0.5):
        updates, state = _updates(d, params)
        code = wf.seq(code, updates)
    strange = d.chance(0.3)
    for array in d.leaves.values() if strange else ():
        for at in d.rng.integers(array.size, size=int(d.rng.integers(0, 3))):
            array.reshape(-1)[at] = d.pick(STRANGE)

    def ran(backend: Any, options: Any, keep: Sequence[wf.Tensor]) -> dict[str, Array]:
        ctx = wf.Context(backend)
        for one, array in d.leaves.items():
            ctx[one.tensor] = array.reshape(one.tensor.dims.array_shape)
        run = ctx.compile(code, keep=keep, options=options)
        run()
        found = {one.label or str(one): ctx[wf.given(one)] for one in keep}
        if state:
            run()
        return found | {f"{one.label} in the end": ctx[one] for one in state}

    everything = [loss, *(one.tensor for one in kept), *grads]
    meant = ran("interp", None, everything)
    if not strange:
        for one in kept:
            if one.meaning:
                right, found = d.known[one], meant[one.tensor.label]
                np.testing.assert_allclose(found.reshape(right.shape), right, 1e-7, 1e-9, err_msg=one.tensor.label)
        if d.smooth and all(one.meaning for one in ends):
            _against_differences(d, ends, {one: meant[one.tensor.grad.label] for one in params})
    options = wf.config.options.but(**drawn(d.rng))
    ways: list[tuple[Any, Any]] = [(OnProcessor(), None), (OnProcessor(), options)]
    ways += [(OnGrid(), d.pick([None, options]))] if d.chance(0.5) else []
    ways += [("cc", d.pick([None, options]))] if d.chance(0.08) else []
    for backend, given in ways:
        keep = [loss, *grads] if d.chance(0.3) else everything
        _same(ran(backend, given, keep), meant, f"{backend}, {given}", d.narrow)


def _weighed(one: Value) -> wf.Tensor:
    return wf.einsum(f"{one.part} => 0", wf.sin(one.tensor * 1.3) + 0.1 * one.tensor)


def _depend(ends: Sequence[Value], one: Value) -> bool:
    """Does any of some values change with one? Positions change with nothing."""
    rest, seen = list(ends), set[Value]()
    while rest:
        if (value := rest.pop()) not in seen:
            seen.add(value)
            rest += () if value.limit else value.operands
    return one in seen


def _same(found: dict[str, Array], meant: dict[str, Array], said: str, narrow: bool) -> None:
    finite = (float(np.abs(one[np.isfinite(one)]).max(initial=0)) for one in meant.values())
    largest = min(max(finite), 1e6)
    rtol, atol = (2e-2, 2e-2 * (1 + largest)) if narrow else (1e-7, 1e-9 + 1e-9 * largest)
    for label, ours in found.items():
        np.testing.assert_allclose(ours, meant[label], rtol, atol, err_msg=f"{label} {said}")


def _against_differences(d: Drawing, ends: list[Value], gradients: dict[Value, Array]) -> None:
    """Along a line gradients are what differences say, where these agree with one another: at no kink."""
    along = {one: d.rng.normal(size=d.leaves[one].shape) for one in gradients}
    terms = [gradient.reshape(along[one].shape) * along[one] for one, gradient in gradients.items()]
    slope, scale = (sum(float(act(term).sum()) for term in terms) for act in (np.asarray, np.abs))

    def loss(h: float) -> float:
        leaves = {one: array + h * along.get(one, 0.0) for one, array in d.leaves.items()}
        known: dict[Value, Array] = {}
        found = (value_of(one, leaves, known) for one in ends)
        return sum(float((np.sin(1.3 * x) + 0.1 * x).sum()) for x in found)

    slopes = [(loss(h) - loss(-h)) / (2 * h) for h in (1e-5, 5e-6)]
    sides = [(loss(h) - loss(0)) / h for h in (1e-6, -1e-6)]
    unsure = abs(slopes[0] - slopes[1]) + abs(sides[0] - sides[1]) * 10
    if unsure < 1e-3 * (1 + scale):
        nearest = min(abs(slope - one) for one in (*slopes, *sides, sum(sides) / 2))
        assert nearest < 1e-4 * (1 + scale) + unsure, f"the gradient is {slope}, differences say {slopes} and {sides}"


# What code does to parameters

Update = Callable[[Drawing, Value, list[Value], wf.Tensor], list[wf.Tensor]]


def _momentum(d: Drawing, one: Value, params: list[Value], shared: wf.Tensor) -> list[wf.Tensor]:
    p, m = one.tensor, wf.node(f"m{len(d.shown)}")
    m[:] = 0.9 * m + p.grad
    p -= 0.1 * (p.grad + 0.9 * m) if d.chance(0.5) else 0.1 * m
    return [m]


def _adam(d: Drawing, one: Value, params: list[Value], shared: wf.Tensor) -> list[wf.Tensor]:
    p, m, v = one.tensor, wf.node(f"m{len(d.shown)}"), wf.node(f"v{len(d.shown)}")
    m[:] = 0.9 * m + 0.1 * p.grad
    v[:] = 0.9 * v + 0.1 * p.grad * p.grad
    p -= 0.1 * m / (wf.sqrt(v) + 0.1)
    return [m, v]


def _in_place(d: Drawing, one: Value, params: list[Value], shared: wf.Tensor) -> list[wf.Tensor]:
    """What a parameter becomes of itself, or of another one."""
    p, way = one.tensor, int(d.rng.integers(6))
    others = [other for other in params if sorted(other.axes) == sorted(one.axes)]
    turned = [other.tensor for other in params if len(other.output) == 2 and not other.batch]
    square = [other for other in turned if len({*other.dims.array_shape}) == 1]
    if way == 0 and square:
        p = d.pick(square)
        p[:] = 0.5 * wf.einsum("ij => ji", p) + 0.25 * p
    elif way == 1 and d.sizes[one.axes[0]] > 1:
        p[1:] += 0.1 * p[:-1]
    elif way == 2:
        p += 0.2 * wf.einsum(f"{(other := d.pick(others)).part} => {one.part}", other.tensor)
    elif way == 3:
        p.accumulate("max", -0.3 * p.grad)
    elif way == 4:
        old = wf.node(f"o{len(d.shown)}")
        old[:] = p
        p -= 0.1 * p.grad
        p += 0.05 * old
    else:
        p *= 1 - 0.1 * shared
    return []


def _clipped(d: Drawing, one: Value, params: list[Value], shared: wf.Tensor) -> list[wf.Tensor]:
    p = one.tensor
    p -= shared * p.grad
    return []


UPDATES: tuple[Update, ...] = (_momentum, _adam, _in_place, _in_place, _clipped)


def _updates(d: Drawing, params: list[Value]) -> tuple[Code, list[wf.Tensor]]:
    """What is done to parameters, by their gradients and by one another; and all that it leaves."""
    state = [one.tensor for one in params]

    @wf.cd
    def step() -> None:
        squares = (wf.einsum(f"{one.part} => 0", one.tensor.grad * one.tensor.grad) for one in params)
        shared = 1.0 / (1.0 + sum(squares, wf.number(0.0)))
        for _ in range(int(d.rng.integers(1, 5))):
            one, update = d.pick(params), d.pick(UPDATES)
            state.extend(update(d, one, params, shared))
            d.shown.append(f"{update.__name__} {one.tensor.label}")
        params[0].tensor.accumulate("-", 0.05 * params[0].tensor.grad)

    return step(), state
