"""Public functions called with arguments drawn from all kinds of things: they work, or say so with a WeftError."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf

#: Functions that decorate what they are given, make a context, or load another library.
_APART = ("cd", "op", "operator", "Context", "torch", "tc", "comment", "from_file", "seed")


def _things(rng: np.random.Generator) -> list[Any]:
    x, p, n = wf.data(np.ones((3, 4)), batch=1, label="x"), wf.param("p", o=4), wf.index("n", 3)
    return [
        *(None, True, 0, 1, -1, 3, 2**70, 0.5, float("nan"), float("inf"), 1j, "", "w", "ij=>ji", "float32", "T", b"w"),
        *([], [1, 2], [[1], [2, 3]], (1, 2), {}, {"rgb": 3}, {1, 2}, object(), int, len, lambda *args: args, range(3)),
        *(np.float32(2), np.bool_(True), np.ones(3), np.ones((3, 4)), np.array("a"), np.zeros(0), np.array(2.0)),
        *(
            x,
            p,
            x.grad if x.differentiable else p.grad,
            p.merge,
            wf.given(p),
            wf.node("n"),
            wf.constant(1.0),
            n,
            x.dims,
        ),
        *(
            x.shape,
            x.dims.output[0],
            p.forward,
            wf.seq(),
            wf.batch([1, 2]),
            wf.labelled("q", [1]),
            wf.uniform(0, 1),
            wf,
        ),
    ]


def check(rng: np.random.Generator) -> None:
    things = _things(rng)
    functions = {name: one for name in wf.__all__ if inspect.isfunction(one := getattr(wf, name, None))}
    name = str(rng.choice([one for one in functions if one not in _APART]))
    if rng.random() < 0.3:
        subject = things[int(rng.integers(37, 43))]
        methods = [one for one in dir(wf.Tensor) if callable(getattr(wf.Tensor, one, None)) and _tried(one)]
        name = str(rng.choice(methods))
        _call(getattr(subject, name), name, rng, things)
    else:
        _call(functions[name], name, rng, things)


def _tried(name: str) -> bool:
    return not name.startswith("__") or name.strip("_") in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "radd", "rmatmul", "rpow", "lt", "le"),
        *("getitem", "setitem", "iadd", "imul", "ipow", "len", "iter", "bool", "float", "abs", "neg"),
    )


def _call(function: Callable[..., Any], name: str, rng: np.random.Generator, things: list[Any]) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    count = len(plain) + int(rng.integers(0, 3)) * any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if rng.random() < 0.1:
        count += int(rng.integers(-1, 2))
    args = [things[rng.integers(len(things))] for _ in range(max(count, 0))]
    kwargs = {one: things[rng.integers(len(things))] for one in named if rng.random() < 0.4}
    if rng.random() < 0.05:
        kwargs["nonsense"] = 1
    shown = f"{name}({', '.join([*map(_shown, args), *(f'{key}={_shown(one)}' for key, one in kwargs.items())])})"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args, **kwargs)
        except wf.WeftError as error:
            str(error)
        except Exception as error:
            raise AssertionError(f"{shown} raised {type(error).__name__}: {error}") from error


def _shown(thing: Any) -> str:
    try:
        return repr(thing)[:60]
    except Exception:
        return type(thing).__name__
