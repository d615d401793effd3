"""Random cells along an axis: against the same steps written one after another, with and without gradients.

What is printed of the loops reads back, as the same text and with the same numbers. In few bits, long recurrences that
forget what they start from are compared with the same in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

import weft as wf
from backends.interpreted import OnProcessor
from weft.assign import node_of, operands_of, statements, target
from weft.assign.show import Printer
from weft.assign.stated import stated

_POINTWISE = ("tanh", "sigmoid", "sin", "relu")


_JOINED = wf.monoid(
    "joined",
    start=(0.0, 1.0),
    of=lambda x: (x, 1.0),
    combine=lambda a, b: (a[0] + b[0], a[1] * b[1]),
    result=lambda state: wf.sin(state[0]) * state[1],
)

#: What else a cell does with what it finds, an `h` of one example or of several, and an `x` of two numbers; and with a
#: table of five numbers, at positions that it computes.
_PARTS: tuple[Callable[[wf.Tensor, wf.Tensor, wf.Tensor], wf.Tensor | float], ...] = (
    lambda h, x, table: 0.0,
    lambda h, x, table: wf.einsum("...|i => ...|0", x * x, accum="var") * h[..., ::-1],
    lambda h, x, table: wf.einsum("...|i => ...|0", x, accum=_JOINED),
    lambda h, x, table: wf.sum(wf.einsum("...|i => ...|k", x, accum=wf.top(1))) * h,
    lambda h, x, table: h[:, -1:],
    lambda h, x, table: h[wf.cast(wf.sum(x, "...|... => 0") > 0, "int32") * 0],
    lambda h, x, table: wf.cumsum(h),
    lambda h, x, table: wf.scan(lambda a, b: wf.sin(a + b), h, init=h[0])[0],
    lambda h, x, table: wf.einsum("v; ...|@v => ...|0", table, _position(x)) * wf.tanh(h),
    lambda h, x, table: wf.tanh(wf.einsum("...|v; ...|@v => ...|0", h, wf.argmax(h))),
    lambda h, x, table: wf.tanh(wf.einsum("...|v; ...|0; ...|@v => ...|v", h, wf.sum(x), wf.argmax(h))),
    lambda h, x, table: wf.tanh(wf.einsum("...|0; ...|@v => v", h, _position(x), v=5)[1]) * table[2],
)


def _position(x: wf.Tensor) -> wf.Tensor:
    """One of five."""
    return wf.cast(wf.abs(wf.sum(x)) * 3.0, "int32") % 5


def check(generator: np.random.Generator) -> None:
    rng = Random(int(generator.integers(1 << 30)))
    (_in_few_bits if rng.random() < 0.25 else _unrolled)(rng)


def _in_few_bits(rng: Random) -> None:
    """A cell of numbers of one sign, in a narrow type: outputs and gradients, off by a few roundings at most."""
    dtype, size = rng.choice(("float16", "bfloat16")), rng.choice((1, 3))
    shape = rng.choice((3, 24)), rng.choice((1, 3)), rng.choice((1, 4))
    how = {"reverse": rng.random() < 0.4, "recompute": rng.choice((False, True, 1))}
    functions = [rng.choice((wf.tanh, wf.sigmoid, wf.sin)) for _ in range(2)]
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    arrays = [
        numbers.uniform(most / 10, most, one).astype(getattr(ml_dtypes, dtype, dtype))
        for one, most in ((shape, 1.0), ((size, shape[-1]), 0.5), ((size, size), 0.5 / size), ((size,), 0.3))
    ]

    def built(kind: Any) -> list[wf.Tensor]:
        x, w, u, b = (np.asarray(one, kind) for one in arrays)
        xs = wf.require_grad(wf.data(x, batch=2, label="xs"))
        weights = [wf.require_grad(wf.data(one, input=one.ndim - 1)) for one in (w, u, b)]

        def cell(h: wf.Tensor, x: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
            new = functions[0](weights[0] @ x + weights[1] @ h + weights[2])
            return new, functions[1](new) * 0.5

        hs, last = wf.scan(cell, xs, init=0.0, **how)
        loss = wf.mean(hs, "...|... => 0") + wf.mean(last, "...|... => 0")
        return [hs, last, *wf.grad(loss, (xs, *weights))]

    exact, few = _values("interp", built(np.float64)), built(arrays[0].dtype)
    for backend in ("interp", OnProcessor(), *(["cc"] if rng.random() < 0.1 else [])):
        for one, other in zip(_values(backend, few), exact, strict=True):
            assert one.dtype == arrays[0].dtype
            most = 24 * float(ml_dtypes.finfo(dtype).eps) * np.abs(other).max() + float(ml_dtypes.finfo(dtype).tiny)
            np.testing.assert_allclose(one.astype(float), other, rtol=0, atol=most)


def _unrolled(rng: Random) -> None:
    """Draw a cell, run it as a loop and unrolled, and compare outputs, carries and gradients."""
    wf.seed(rng.randrange(1000))
    steps, examples = rng.choice((1, 2, 3, 5)), rng.choice((1, 3))
    sizes = [rng.choice((1, 2, 4)) for _ in range(rng.choice((1, 1, 2)))]
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    reverse, recompute, leftmost = rng.random() < 0.4, rng.choice((False, False, True, 1, 2, 3)), rng.random() < 0.7
    plain = rng.random() < 0.3
    width = rng.choice((1, 2)) if plain else 2
    sizes = [width] * len(sizes) if plain else sizes
    array = numbers.normal(size=(steps, examples, width) if leftmost else (examples, steps, width))
    xs = wf.require_grad(wf.data(array, batch=2, label="xs"))
    along = {} if leftmost else {"spec": "n, t|d => n|d"}
    at_step = xs if leftmost else wf.einsum("n, t|d => t, n|d", xs)
    init = tuple(
        wf.require_grad(wf.data(numbers.normal(size=(examples, size)), batch=1, label=f"h{at}"))
        for at, size in enumerate(sizes)
    )
    cell = _pointwise(rng, len(sizes)) if plain else _cell(rng, sizes)
    outputs, last = wf.scan(cell, xs, init=init, reverse=reverse, recompute=recompute, **along)
    carry, given = init, {}
    for t in range(steps)[:: -1 if reverse else 1]:
        carry, given[t] = cell(carry, at_step[t])
    some = rng.sample(range(len(init)), rng.randrange(len(init) + 1))
    ends = [outputs, *(last[at] for at in some)], [*given.values(), *(carry[at] for at in some)]
    losses = [_total([*one, xs, *init]) for one in ends]
    by = (xs, *rng.sample(init, 1), *rng.sample(losses[1].params, min(3, len(losses[1].params))))
    if rng.random() < 0.15:
        losses = [_total(list(wf.grad(one, by))) for one in losses]
    wanted = [*(given[t] for t in range(steps)), *carry, *wf.grad(losses[1], by)]
    found = [outputs, *last, *wf.grad(losses[0], by)]
    expected = _values("interp", wanted)
    expected = [np.stack(expected[:steps], axis=0 if leftmost else 1), *expected[steps:]]
    forward = wf.seq(*(one.forward for one in (outputs, *last)))
    if '~slots:"=>0"' not in str(forward):  # a number in the shape of a tensor that the text does not mention
        reads_back(forward, [outputs, *last])
    for backend in ("interp", OnProcessor(), *(["cc"] if rng.random() < 0.05 else [])):
        for one, other in zip(_values(backend, found), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def reads_back(code: wf.Code, tensors: Sequence[wf.Tensor] = ()) -> None:
    """Code printed and read is the same text, and computes the same tensors."""
    full = stated(code)
    called, written = Printer(full), {target(one) for one in statements(full)}
    read = {node_of(operand) for one in statements(full) for operand in operands_of(one)}
    given = {called.name(node): wf.Tensor(node) for node in read - written}
    text = called.show(full)
    again = wf.parse_cd(text, given, declare=True)
    assert str(again) == text, f"{text}\nreads back as\n{again}"
    made = {target(one).label: wf.Tensor(target(one)) for one in statements(again)}
    twins = [made[called.name(one.node)] for one in tensors]
    contexts = wf.Context("interp"), wf.Context("interp")
    for ctx, one, kept in zip(contexts, (code, again), (tensors, twins), strict=True):
        ctx.compile(one, keep=kept)()
    for one, twin in zip(tensors, twins, strict=True):
        np.testing.assert_array_equal(contexts[0][wf.given(one)], contexts[1][wf.given(twin)])


def _values(backend: Any, tensors: list[wf.Tensor]) -> list[Any]:
    with wf.config.using(verify=True):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(*(one.forward for one in tensors)))()
        return [ctx[one] for one in tensors]


def _total(tensors: list[wf.Tensor]) -> wf.Tensor:
    """One number that all numbers move, the less the larger they are: no function of a large number's last digits."""
    bounded = (wf.tanh(one * 0.7) + one / (one * one + 1.0) for one in tensors)
    return sum((wf.einsum("...|...->... => 0", one) for one in bounded), wf.number(0.0))


def _pointwise(rng: Random, count: int) -> Any:
    """A cell of numbers alone, that may give what it found."""
    ways = [(rng.choice(("tanh", "relu", "")), rng.random() < 0.7, rng.randrange(count)) for _ in range(count)]
    given = rng.randrange(2 * count)

    def cell(carry: tuple[wf.Tensor, ...], x: wf.Tensor) -> Any:
        new = []
        for function, uses_x, other in ways:
            value = carry[other] * 0.5 + x if uses_x else carry[other] * 0.7
            new.append(getattr(wf, function)(value) if function else value)
        return tuple(new), [*carry, *new][given] * 2.0

    return cell


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
    part, chosen, table = rng.choice(_PARTS), rng.randrange(len(sizes)), wf.param("table", o=5)

    def cell(carry: tuple[wf.Tensor, ...], x: wf.Tensor) -> Any:
        new = []
        for at, (function, uses_x, keeps, other) in enumerate(ways):
            w, u, b = params[at]
            value = u @ carry[other] + b
            value = value + w @ x if uses_x < 0.8 else value
            value = getattr(wf, function)(value)
            new.append(value * carry[at] + 0.5 if keeps < 0.3 else value - 0.3 * carry[at] if keeps < 0.6 else value)
        new[chosen] = new[chosen] + part(carry[chosen], x, table)
        if swaps:
            new = [*new[1:], new[0]]
        seen = carry[0] if mixes else new[-1]
        return tuple(new), wf.einsum("...|i; ...|j => ...|i, j", new[0], seen)

    return cell
