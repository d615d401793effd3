"""Schedules: learning rates that change from run to run, as expressions of a counter.

    n = wf.counter("n")
    rate = wf.optim.warm_up(n, wf.optim.cosine(n, 1e-3, steps=1000), steps=100)
    code = wf.seq(wf.grad_update(loss), wf.optim.adamw(loss, lr=rate))

Each is a tensor of one number, so that schedules are multiplied, joined and returned like others. What begins later is
an expression of what was counted since: `wf.optim.cosine(n - 100, …)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from weft.arguments import whole_number
from weft.errors import WeftError
from weft.ops import Number, Scalar
from weft.optim.own_nodes import Rate, check_rate
from weft.tensor import leaves
from weft.tensor.elementary import clip
from weft.tensor.functions import cos, minimum, where
from weft.tensor.tensor import Tensor


def constant(lr: float) -> Tensor:
    """The same rate in every run, as a part of others.

    >>> rate = wf.optim.join(wf.counter("n"), [wf.optim.constant(0.1), wf.optim.constant(0.01)], at=[100])
    """
    return _named("constant", lr)


def linear(step: Scalar, lr: float, steps: int, *, final: float = 0.0) -> Tensor:
    """From `lr` in run 0 to `final` in run `steps`, by equal steps; then it stays.

    >>> n = wf.counter("n")
    >>> code = wf.optim.sgd(loss, lr=wf.optim.linear(n, 0.1, steps=1000))
    """
    return _named("linear", lr + (final - lr) * _passed("linear", step, steps))


def cosine(step: Scalar, lr: float, steps: int, *, final: float = 0.0) -> Tensor:
    """From `lr` in run 0 to `final` in run `steps`, along half a wave: slowly, fast, slowly; then it stays.

    >>> n = wf.counter("n")
    >>> code = wf.optim.adamw(loss, lr=wf.optim.cosine(n, 1e-3, steps=1000, final=1e-5))
    """
    return _named("cosine", _wave(lr, final, _passed("cosine", step, steps)))


def step(step: Scalar, lr: float, every: int, *, factor: float = 0.1) -> Tensor:
    """`lr`, multiplied by `factor` after every so many runs.

    >>> n = wf.counter("n")
    >>> code = wf.optim.sgd(loss, lr=wf.optim.step(n, 0.1, every=300))
    """
    _check_counted("step", step)
    every = _checked_runs("every", every)
    return _named("step", lr * factor ** (step // every))


def warm_up(step: Scalar, lr: Rate, steps: int) -> Tensor:
    """A rate, or another schedule, that is reached in run `steps - 1`, by equal steps from `lr / steps` in run 0.

    >>> n = wf.counter("n")
    >>> code = wf.optim.adamw(loss, lr=wf.optim.warm_up(n, wf.optim.cosine(n, 1e-3, steps=1000), steps=100))
    """
    check_rate(lr)
    _check_counted("warm_up", step)
    share = _passed("warm_up", step + 1, steps)
    return (lr * share).named("warm_up") if isinstance(lr, Tensor) else _named("warm_up", lr * share)


def one_cycle(
    step: Scalar, lr: float, steps: int, *, rise: float = 0.3, start: float = 0.04, final: float = 4e-6
) -> Tensor:
    """Up to `lr` and down again in so many runs, along two half waves.

    >>> n = wf.counter("n")
    >>> code = wf.optim.sgd(loss, lr=wf.optim.one_cycle(n, 0.1, steps=1000), momentum=0.9)

    `rise` is the part of the runs in which it goes up; `start` and `final` are the parts of `lr` at both ends.
    """
    _check_counted("one_cycle", step)
    steps = _checked_runs("steps", steps)
    top, last = rise * steps - 1, steps - 1
    if not 0 < top < last:
        what = f"one_cycle of {steps} runs cannot rise in {rise} of them"
        raise WeftError(what, fix="give more steps, or rise= between 0 and 1 so that two runs or more go up")
    up = _wave(lr * start, lr, minimum(step / top, 1.0))
    down = _wave(lr, lr * final, minimum((step - top) / (last - top), 1.0))
    return _named("one_cycle", where(step < top, up, down))


def join(step: Scalar, schedules: Sequence[Rate], at: Sequence[int]) -> Tensor:
    """One schedule after another: the second from run `at[0]` on, the third from run `at[1]` on.

    >>> n = wf.counter("n")
    >>> rate = wf.optim.join(n, [wf.optim.warm_up(n, 0.1, 100), wf.optim.cosine(n - 100, 0.1, 900)], at=[100])
    """
    _check_counted("join", step)
    _check_joints(schedules, at)
    found = schedules[-1]
    for begins, before in zip(reversed(at), reversed(schedules[:-1]), strict=True):
        found = where(step < begins, before, found)
    return found.named("join") if isinstance(found, Tensor) else _named("join", found)


def _named(name: str, value: Number) -> Tensor:
    if not isinstance(value, Scalar | int | float):
        raise WeftError(f"{name} takes a number for the rate, not {value!r}", fix=f"write wf.optim.{name}(n, 0.1, …)")
    return leaves.constant(value, label=name)


def _wave(start: float, end: float, passed: Number) -> Number:
    """From a start to an end along half a wave, of which a part has passed."""
    wave: Scalar = (start - end) * 0.5 * (1.0 + cos(pi * passed))
    return wave + end if end else wave


def _passed(name: str, n: Scalar, steps: int) -> Scalar:
    """The part of so many runs that has passed, from 0 to 1."""
    _check_counted(name, n)
    steps = _checked_runs("steps", steps)
    found: Scalar = clip(n / steps, 0.0, 1.0)
    return found


def _check_counted(name: str, n: object) -> None:
    if not isinstance(n, Scalar):
        what = f"{name} takes a counter first, not {n!r}"
        raise WeftError(what, fix=f'write n = wf.counter("n"); wf.optim.{name}(n, …)')


def _checked_runs(name: str, count: object) -> int:
    if (runs := whole_number(count, 1)) is None:
        raise WeftError(f"{name}= takes a whole number of runs from 1 on, not {count!r}", fix=f"write {name}=1000")
    return runs


def _check_joints(schedules: Sequence[Rate], at: Sequence[int]) -> None:
    if not isinstance(schedules, list | tuple) or not isinstance(at, list | tuple):
        raise WeftError("join takes a list of schedules and a list of runs", fix="write join(n, [a, b], at=[100])")
    for one in schedules:
        check_rate(one)
    if len(schedules) != len(at) + 1:
        what = f"{len(schedules)} schedules are joined in {max(len(schedules) - 1, 0)} runs, and at= names {len(at)}"
        raise WeftError(what, fix="name the first run of each but the first")
    if list(at) != sorted(set(at)):
        raise WeftError(f"the runs at which schedules begin grow, and {list(at)} do not", fix="sort them")
