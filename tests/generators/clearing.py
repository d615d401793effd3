"""Code that clears, computes and reads gradients in random order, and what each read finds.

It is refused exactly where a cleared gradient is read before it is computed; the rest computes what NumPy says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf


@wf.cd
def _note(into: wf.Tensor, p: wf.Tensor) -> None:
    into[:] = 1.0 * p.grad


def _refusal(run: Callable[[], object]) -> str:
    try:
        run()
    except wf.WeftError as error:
        return str(error)
    return ""


def check(rng: np.random.Generator) -> None:
    params = [wf.param(f"p{number}", o=2, init=[1.0 + number, -2.0], dtype="float64") for number in range(2)]
    start = [np.array([1.0 + number, -2.0]) for number in range(2)]
    factors = [int(one) for one in rng.integers(1, 5, 2)]
    losses = [factor * wf.einsum("i;i=>0", p, p) for factor, p in zip(factors, params, strict=True)]
    # What each gradient holds: None before anything, "cleared", or its value; `early`: read since it was cleared.
    held: list[np.ndarray | None] = [np.full(2, 7.0), np.full(2, 7.0)]
    cleared, early = [False, False], [False, False]
    wrong = False
    notes: list[tuple[wf.Tensor, np.ndarray]] = []
    code, words = [], []
    for number in range(rng.integers(2, 9)):
        at = int(rng.integers(2))
        match rng.integers(3):
            case 0:
                code.append(losses[at].zero_grads)
                held[at], cleared[at], early[at] = np.zeros(2), True, False
                words.append(f"clear {at}")
            case 1:
                code += [losses[at].forward, losses[at].backprop]
                wrong |= cleared[at] and early[at]
                held[at] = held[at] + 2 * factors[at] * start[at]
                cleared[at] = False
                words.append(f"compute {at}")
            case _:
                note = wf.node(f"note{number}", o=2, dtype="float64")
                code.append(_note(note, params[at]))
                notes.append((note, np.array(held[at])))
                early[at] |= cleared[at]
                words.append(f"read {at}")
    ctx = wf.Context("interp")
    for p in params:
        ctx[p.grad] = np.full(2, 7.0)
    said = _refusal(lambda: ctx.compile(wf.seq(*code), keep=[note for note, _ in notes])())
    assert ("read before it is computed" in said) == wrong, f"{said or 'not refused'}: {words}"
    if said:
        return
    for note, value in notes:
        np.testing.assert_allclose(ctx[note], value, err_msg=str(words))
