"""Random cells along an axis: against the same steps written one after another, with and without gradients."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import weft as wf
from weft.backends.interp import Interp
from weft.loops import Collapse, Jam, Product, Vector

_POINTWISE = ("tanh", "sigmoid", "sin", "relu")


class Optimised(Interp):
    """The oracle on kernels that went through every pass."""

    fuses = True
    places = (Product, Collapse, Jam, Vector)


def check(generator: np.random.Generator) -> None:
    """Draw a cell, run it as a loop and unrolled, and compare outputs, carries and gradients."""
    rng = Random(int(generator.integers(1 << 30)))
    wf.seed(rng.randrange(1000))
    steps, examples = rng.choice((1, 2, 3)), rng.choice((1, 3))
    sizes = [rng.choice((1, 2, 4)) for _ in range(rng.choice((1, 1, 2)))]
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    reverse, recompute = rng.random() < 0.4, rng.random() < 0.3
    array = numbers.normal(size=(steps, examples, 2))
    xs = wf.require_grad(wf.data(array, batch=2, label="xs"))
    init = tuple(
        wf.require_grad(wf.data(numbers.normal(size=(examples, size)), batch=1, label=f"h{at}"))
        for at, size in enumerate(sizes)
    )
    cell = _cell(rng, sizes)
    outputs, last = wf.scan(cell, xs, init=init, reverse=reverse, recompute=recompute)
    carry, given = init, {}
    for t in range(steps)[:: -1 if reverse else 1]:
        carry, given[t] = cell(carry, xs[t])
    some = rng.sample(range(len(init)), rng.randrange(len(init) + 1))
    ends = [outputs, *(last[at] for at in some)], [*given.values(), *(carry[at] for at in some)]
    losses = [_total([*one, xs, *init]) for one in ends]
    by = (xs, *rng.sample(init, 1), *losses[1].params[:3])
    wanted = [*(given[t] for t in range(steps)), *carry, *wf.grad(losses[1], by)]
    found = [outputs, *last, *wf.grad(losses[0], by)]
    expected = _values("interp", wanted)
    expected = [np.stack(expected[:steps]), *expected[steps:]]
    for backend in ("interp", Optimised(), *(["cc"] if rng.random() < 0.05 else [])):
        for one, other in zip(_values(backend, found), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def _values(backend: Any, tensors: list[wf.Tensor]) -> list[Any]:
    with wf.config.using(verify=True):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(*(one.forward for one in tensors)))()
        return [ctx[one] for one in tensors]


def _total(tensors: list[wf.Tensor]) -> wf.Tensor:
    return sum((wf.einsum("...|...->... => 0", wf.sin(one) * one) for one in tensors), wf.number(0.0))


def _cell(rng: Random, sizes: list[int]) -> Any:
    """A cell of random parts: products with parameters, functions, what other fields of the carry hold."""
    ways = [(rng.choice(_POINTWISE), rng.random(), rng.random(), rng.randrange(len(sizes))) for _ in sizes]
    params = [
        (
            wf.param(f"w{at}", i=2, o=size),
            wf.param(f"u{at}", i=sizes[other], o=size),
            wf.param(f"b{at}", o=size),
        )
        for at, (size, (_, _, _, other)) in enumerate(zip(sizes, ways, strict=True))
    ]
    swaps = rng.random() < 0.2 and len({*sizes}) == 1
    mixes = rng.random() < 0.5

    def cell(carry: tuple[wf.Tensor, ...], x: wf.Tensor) -> Any:
        new = []
        for at, (function, uses_x, keeps, other) in enumerate(ways):
            w, u, b = params[at]
            value = u @ carry[other] + b
            value = value + w @ x if uses_x < 0.8 else value
            value = getattr(wf, function)(value)
            new.append(value * carry[at] + 0.5 if keeps < 0.3 else value - 0.3 * carry[at] if keeps < 0.6 else value)
        if swaps:
            new = [*new[1:], new[0]]
        seen = carry[0] if mixes else new[-1]
        return tuple(new), wf.einsum("...|i; ...|j => ...|i, j", new[0], seen)

    return cell
