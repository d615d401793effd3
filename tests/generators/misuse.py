"""Wrong use is told: nothing but a WeftError comes of wrong arguments, to whatever function or command.

A draw takes a call that is right and puts something strange in the place of one or two of its arguments. What comes of
it may be a value, for not everything strange is wrong; or an error that says what to do.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft.cli import main

UNARY = (
    *("abs", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "logical_not", "recip", "recip_sqrt"),
    *("relu", "sat01", "sigmoid", "sin", "sqrt", "tanh", "asin", "ceil", "isfinite", "isnan", "round", "sign", "silu"),
    *("softplus", "tan"),
)
BINARY = ("equal", "less", "less_equal", "logical_and", "logical_or", "maximum", "minimum", "not_equal", "atan2")
REDUCTIONS = (
    *("argmax", "argmin", "log_softmax", "logsumexp", "max", "mean", "min", "norm", "prod", "softmax", "std", "sum"),
    "var",
)
OPERATORS = ("add", "sub", "mul", "truediv", "mod", "floordiv", "matmul")
WITH_NUMBERS = ("radd", "rsub", "pow", "rpow", "lt", "ge", "eq", "getitem")

Call = tuple[Callable[..., object], list[Any], dict[str, Any]]


class Anything:
    """An object that weft knows nothing about."""

    def __repr__(self) -> str:
        return "<anything>"


def strange(rng: np.random.Generator) -> object:
    """Something that is seldom what is wanted."""
    x, p = wf.data(np.ones((2, 3)), batch=1, label="x"), wf.param("p", o=3, init=1.0)
    made: list[Callable[[], object]] = [
        lambda: rng.choice(np.array([None, True, False], object)),
        lambda: int(rng.choice([-1, 0, 1, 2, 7, 2**50, 2**62])) * int(rng.choice([1, -1, 2**10])),
        lambda: float(rng.choice([0.0, -1.5, 2.5, np.inf, np.nan, 1e300])),
        lambda: str(
            rng.choice(["", "x", "i", "ij=>i", "ij;jk=>ik", "…", "\0", "a b", "float32", "+", "w" * 3000, "%s{0}"])
        ),
        lambda: [b"bytes", [], (), {}, set(), range(3), ..., NotImplemented][int(rng.integers(8))],
        lambda: [[1, 2, 3], [[1], [2, 3]], (1, (2, "x")), {"a": 1}, {1: 2}, [None], ["x"]][int(rng.integers(7))],
        lambda: [Anything(), Anything, len, lambda *_: None, np, 1j, Path("x")][int(rng.integers(7))],
        lambda: rng.choice(np.array([np.float32(1), np.int8(3), np.bool_(True)], object)),
        lambda: np.ones([(), (0,), (3,), (2, 3), (1,) * 20][int(rng.integers(5))]),
        lambda: np.array([1, 2], [object, "U3", "M8[s]", complex, "float16", ">f4"][int(rng.integers(6))]),
        lambda: [x, p, x * p, p.grad, wf.given(x), x.merge, wf.node("m")][int(rng.integers(7))],
        lambda: [wf.index("i", 3), wf.Dim(3), wf.Shape(), x.forward, wf.Context("interp"), wf.WeftError][
            int(rng.integers(6))
        ],
    ]
    return made[int(rng.integers(len(made)))]()


def _returned(x: object, y: object) -> object:
    return x, {"y": y}


@wf.op
def _cell(x: wf.Tensor, h: wf.Tensor, *, size: int = 3) -> tuple[wf.Tensor, wf.Tensor]:
    return wf.maximum(x, "w") + wf.param("b", o=size), h


class Things:
    """What right calls are made of."""

    def __init__(self) -> None:
        self.ctx = wf.Context("interp", devices=2)
        self.x = wf.data(np.ones((2, 3)), batch=1, label="x")
        self.p = wf.param("p", o=3, init=1.0, dtype="float64")
        self.loss = wf.einsum("...|... => 0", self.p * self.x)
        self.i = wf.index("i", 2)
        self.layer = _cell()
        self.layer(self.x, self.x)
        self.step = self.ctx.compile(wf.grad_update(self.loss), keep=[self.p.grad])
        self.rows = self.ctx.compile((self.x[self.i] * 1.0).forward, bindings=[self.i])
        self.tc = wf.tc.define("def f(float(N,M) a, float(M) b) -> (y) { y(n) +=! a(n,m) * b(m) }", backend="interp")


def calls(t: Things) -> Iterator[Call]:
    """Right calls of everything public."""
    x, p, ctx = t.x, t.p, t.ctx
    a, b = np.ones((2, 3), "float32"), np.ones(3, "float32")
    one, two = ctx.devices
    yield from ((getattr(wf, name), [x], {}) for name in UNARY)
    yield from ((getattr(wf, name), [x, p], {"label": "y"}) for name in BINARY)
    yield from ((getattr(x, f"__{name}__"), [p], {}) for name in OPERATORS)
    yield from ((getattr(x, f"__{name}__"), [2.0], {}) for name in WITH_NUMBERS)
    yield from functions(x, p)
    yield x.named, ["y"], {}
    yield wf.where, [x, p, 1.0], {}
    yield wf.fma, [x, p, x], {}
    yield wf.cast, [x, "float32"], {}
    yield wf.einsum, ["...|i; i => ...|i", x, p], {"accum": "+", "op": "*", "label": "y"}
    yield wf.plan, ["ij;jk=>ik", (3, 4), (4, 5)], {"result": (3, 5)}
    yield wf.plan("i;i=>i", 3, 3).evaluate, [[1, 2, 3], [1, 2, 3]], {"accum": "+", "op": "*"}
    yield wf.dim, [x, "i"], {}
    yield wf.concat, [x, x], {"kind": "batch"}
    yield wf.stack, [x, x], {}
    yield wf.data, [a], {"batch": 1, "input": 0, "label": "x", "copy": None}
    yield wf.from_dlpack, [a], {"batch": 1, "copy": None}
    yield wf.counted, [a], {"label": "x"}
    yield wf.from_file, [__file__, "uint8"], {"label": "x"}
    yield wf.tensor, [[(1, 2), (3, 4)]], {}
    yield wf.batch, [[1, 2]], {}
    yield wf.labelled, ["rgb", [1, 2]], {}
    yield wf.number, [2.0], {"basis": "q", "label": "n", "dtype": "float32"}
    yield wf.constant, [2.0], {"label": "c", "dtype": "float32"}
    yield wf.offsets, [], {"label": "o"}
    yield wf.data, [a], {"b": 2, "o": 3, "i": None, "label": "x"}
    yield wf.sizes, [], {"batch": 2, "d": 3}
    yield t.layer, [x], {"h": x}
    yield t.layer.param, ["w"], {}
    yield t.layer.__getitem__, ["b"], {}
    yield wf.op(_returned), [x, p], {"label": "L"}
    yield wf.param, ["w"], {"o": 3, "i": 2, "b": 1, "init": 0.5, "dtype": "float32"}
    yield wf.node, ["n"], {"dtype": "float32", "init": 0.5, "scalar": True}
    yield wf.index, ["i", 3], {}
    yield wf.seed, [3], {}
    yield wf.uniform, [0.0, 1.0], {}
    yield wf.normal, [0.0, 1.0], {}
    yield wf.random_uniform, ["r"], {"step": 1}
    yield wf.random_standard_normal, ["r"], {"step": 1}
    yield wf.bernoulli, ["r", 0.5], {"step": 1}
    yield wf.dropout, [x, 0.5], {"step": 1, "name": "d"}
    yield wf.given, [x], {}
    yield wf.stop_gradient, [x], {}
    yield wf.require_grad, [x], {}
    yield wf.grad_update, [t.loss], {}
    yield wf.seq, [x.forward, x.forward], {}
    yield wf.comment, ["text"], {}
    yield wf.parse_cd, ["p =: x + 1"], {"p": p, "x": x}
    yield wf.optim.sgd, [t.loss], {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}
    yield wf.optim.adam, [t.loss], {"lr": 0.1}
    yield wf.operator, ["."], {"name": "own"}
    yield wf.cd(lambda: wf.assign(p, "=", "identity", x, logic="...|i=>i")), [], {}
    yield _assign, [p, "=", "identity", x], {"init": False, "logic": "...|i=>i"}
    yield _accumulate, [p, "+", x], {"reset": True}
    yield wf.Context, ["interp"], {"devices": 2}
    yield ctx.compile, [t.loss.forward], {"bindings": [t.i], "keep": [x], "recompute": []}
    yield ctx.device, [1], {}
    yield ctx.__getitem__, [t.loss], {}
    yield ctx.__setitem__, [x, np.ones((2, 3))], {}
    yield ctx.__contains__, [x], {}
    yield t.step, [], {}
    yield t.rows, [], {"i": 1}
    yield t.step.show, ["assign"], {}
    yield t.rows.profile, [], {"times": 1, "i": 1}
    yield one.run, [t.rows], {"i": 1}
    yield two.receive, [p, one], {"merge": True}
    yield one.stream().wait, [one.stream().record()], {}
    yield two.last_write, [p], {}
    yield (
        wf.train.data_parallel,
        [ctx, lambda x: wf.einsum("...|... => 0", p * x), wf.optim.sgd, "sum"],
        {"bindings": []},
    )
    yield wf.tc.define, ["def f(float(N) x) -> (y) { y(i) = x(i) }"], {"unchecked": True, "backend": "interp"}
    yield t.tc.f, [a, b], {}
    yield t.tc.f, [], {"a": a, "b": b, "outputs": [np.ones(2, "float32")]}
    yield t.tc.f.grad, [a, b], {"wrt": "a", "d": np.ones(2, "float32")}
    yield t.tc.f.show, ["loops", a, b], {}
    yield t.tc.f.options, [a, b], {"choose": wf.tc.Options()}
    yield t.tc.__getitem__, ["f"], {}
    yield (lambda value: setattr(wf.config, "max_visits", value)), [2], {}
    yield (lambda value: wf.config.using(strict=value).__enter__()), [True], {}


def functions(x: wf.Tensor, p: wf.Tensor) -> Iterator[Call]:
    """Right calls of the functions that take more than tensors."""
    ids = wf.data(np.array([0, 2]), batch=1, label="ids")
    yield from ((getattr(wf, name), [x, "...|i => ...|0"], {"label": "y"}) for name in REDUCTIONS)
    yield wf.mean, [x, "...|2*o<+k => ...|o"], {"k": 1}
    yield wf.var, [x], {"ddof": 1}
    yield wf.cross_entropy, [x, ids, "...|i => ...|0"], {"label": "y"}
    yield wf.one_hot, [ids, 3, "...|c => ...|0"], {"dtype": "int32", "label": "y"}
    yield wf.clip, [x, 0.0, p], {"label": "y"}
    yield wf.gelu, [x], {"tanh": True}
    yield wf.elu, [x], {"alpha": 0.5}
    yield wf.leaky_relu, [x], {"slope": 0.5}
    yield wf.arange, [3], {"dtype": "int32", "label": "y"}
    yield wf.linspace, [0.0, 1.0, 3], {"label": "y"}
    yield wf.eye, [3], {"dtype": "int32"}
    yield wf.tril, [x, 1, "...i|j => i, j"], {"fill": 0.5, "label": "y"}
    yield wf.triu, [x, -1, "...i|j => i, j"], {"fill": 0.5, "label": "y"}
    yield wf.interleave, [x, x], {"kind": "batch", "label": "y"}
    yield wf.repeat, [x, 2], {"kind": "batch", "label": "y"}
    yield wf.split, [x, [1, None]], {"kind": "output"}
    yield wf.split, [x, 3], {"kind": "output"}
    yield wf.flip, [x], {"kind": "batch", "label": "y"}
    yield wf.roll, [x, 1], {"kind": "batch", "label": "y"}
    yield wf.pad, [x, 1, 2], {"value": 0.5, "kind": "batch", "label": "y"}


def _assign(*args: Any, **options: Any) -> object:
    return wf.cd(lambda: wf.assign(*args, **options))()


def _accumulate(target: Any, *args: Any, **options: Any) -> object:
    return wf.cd(lambda: wf.Tensor.accumulate(target, *args, **options))()


def commands(folder: Path) -> Iterator[list[str]]:
    """Right command lines."""
    text = str(folder / "mm.tc")
    yield ["plan", "ij;jk=>ik", "3,4", "4,5", "--result", "3,5", "--size", "i=3"]
    yield ["demo", "--plans"]
    yield ["tc", "check", text]
    yield [
        "tc",
        "run",
        text,
        "--def",
        "mm",
        "--sizes",
        "M=2",
        "K=3",
        "N=2",
        "--backend",
        "interp",
        "--times",
        "1",
        "--seed",
        "1",
    ]
    yield ["tc", "show", text, "--def", "mm", "--sizes", "M=2", "K=3", "N=2", "--backend", "interp", "--stage", "loops"]
    yield ["cache", "info"]
    yield ["cache", "clear", "--older-than", "99999"]


WORDS = [
    *(
        "",
        "x",
        "-1",
        "0",
        "1.5",
        "99999999999999999999",
        "nan",
        "M=0",
        "M=99999999999999999999",
        "M=-1",
        "=3",
        "M",
        "M=2=2",
    ),
    *(
        "__init__",
        "__class__",
        "_definitions",
        "mm",
        "no-such-file",
        ".",
        "/",
        "ij=>ji",
        "i=>",
        "\x00",
        "…",
        "٣",
        "M=٣",
    ),
    *(
        "--help",
        "--seed",
        "--sizes",
        "cc",
        "interp",
        "3,4|2->5",
        "-h",
        "--",
        "[red]x[/red]",
        "M=100000000000000",
        "N=9223372036854775807",
    ),
]


def check(rng: np.random.Generator) -> None:
    """One strange call, or one strange command line."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        if rng.random() < 0.25:
            _check_command(rng)
        else:
            _check_call(rng)


def _check_call(rng: np.random.Generator) -> None:
    every = list(calls(Things()))
    function, args, options = every[int(rng.integers(len(every)))]
    places: list[int | str] = [*range(len(args)), *options]
    for place in rng.choice(np.array(places, object), min(len(places), 1 + int(rng.random() < 0.2)), replace=False):
        if isinstance(place, int):
            args[place] = strange(rng)
        else:
            options[place] = strange(rng)
    with wf.config.using():  # settings that are changed are those of this block
        _refused_or_done(lambda: _used(function(*args, **options)), f"{function!r} of {args!r}, {options!r}")


def _used(made: object) -> None:
    """What was made is looked at, as anybody would."""
    repr(made)
    if isinstance(made, wf.Tensor) and not made.params:
        str(made.dims)


def _check_command(rng: np.random.Generator) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "mm.tc").write_text("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
        lines = list(commands(path))
        line = lines[int(rng.integers(len(lines)))]
        for _ in range(1 + int(rng.random() < 0.3)):
            line[int(rng.integers(1, len(line)))] = WORDS[int(rng.integers(len(WORDS)))]
        before = os.environ.get("WEFT_CACHE")
        os.environ["WEFT_CACHE"] = folder
        try:
            _refused_or_done(lambda: main(line), f"weft {line}")
        finally:
            if before is None:
                del os.environ["WEFT_CACHE"]
            else:
                os.environ["WEFT_CACHE"] = before


def _refused_or_done(act: Callable[[], object], story: str) -> None:
    try:
        act()
    except (wf.WeftError, SystemExit):
        pass
    except Exception as error:
        raise AssertionError(f"{story}: {type(error).__name__}: {error}") from error
