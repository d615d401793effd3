"""Models of blocks of `wf.nn` drawn at random, trained a few steps: every way to run them gives what the oracle gives.

A model works on sequences `b,t|d` or images `b|h,w,c`, in blocks that keep that form. It is compiled with options drawn
at random, cut for a processor or for a GPU; what several threads compute has the bits that one computes. Gradients are
those of differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

import weft as wf
from backends.on_grid import OnGrid
from generators._settings import drawn
from weft.assign import Code
from weft.backends import Backend
from weft.backends.cc import Cc

Block = Callable[[wf.Tensor], wf.Tensor]
Optimiser = Callable[[wf.Tensor], Code]
OPTIMISERS: dict[str, Optimiser] = {
    "nothing": lambda loss: wf.grad_update(loss),
    "sgd": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.05, momentum=0.9, nesterov=True)),
    "adamw": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.adamw(loss, lr=0.01, weight_decay=0.1)),
    "lion": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.lion(loss, lr=0.01)),
    "rmsprop": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.rmsprop(loss, lr=0.01)),
    "clipped": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 0.5), wf.optim.sgd(loss, lr=0.1)),
}
#: Those whose steps jump where a number changes its sign: rounding shows.
JUMPS = ("lion",)
STEPS = 2


def check(rng: np.random.Generator) -> None:
    wf.default_precision("float64")
    try:
        loss, shown = (_sequences if rng.random() < 0.6 else _images)(rng)
        _trained(rng, loss, shown)
    finally:
        wf.default_precision("float32")


def _trained(rng: np.random.Generator, loss: wf.Tensor, shown: str) -> None:
    params = loss.params
    keep = [loss, *(one.grad for one in params)]
    values = {one: rng.uniform(-0.7, 0.7, one.dims.array_shape) for one in params}
    name = str(rng.choice([one for one in OPTIMISERS if one not in JUMPS]))
    shown += f", {name}"
    step = OPTIMISERS[name](loss)

    def ran(backend: Backend | str, options: wf.CompileOptions | None) -> list[np.ndarray]:
        ctx = wf.Context(backend)
        for one, value in values.items():
            ctx[one] = value
        routine = ctx.compile(step, keep=keep, options=options)
        for _ in range(STEPS):
            routine()
        return [ctx[one] for one in (*keep, *params)]

    meant = ran("interp", None)
    if not all(np.isfinite(one).all() for one in meant):
        raise AssertionError(f"not finite\n{shown}")
    options = wf.config.options.but(**drawn(rng))
    for said, backend in (("on a processor", "cc"), ("on a grid", OnGrid())):
        _agree([*keep, *params], ran(backend, options), meant, f"{said}\n{shown}\n{options}")
    if rng.random() < 0.3:
        _threads(partial(ran, Cc()), options, shown)
    if name == "nothing" and rng.random() < 0.3:
        ctx = wf.Context("interp")
        for one, value in values.items():
            ctx[one] = value
        wf.gradcheck(loss, list(params[:3]), context=ctx, tolerance=1e-4)


def _agree(nodes: list[wf.Tensor], ours: list[np.ndarray], meant: list[np.ndarray], shown: str) -> None:
    for node, found, right in zip(nodes, ours, meant, strict=True):
        largest = float(np.abs(right).max(initial=0))
        np.testing.assert_allclose(
            found, right, rtol=1e-6, atol=1e-8 + 1e-8 * largest, err_msg=f"{node.label or node} {shown}"
        )


def _threads(ran: Callable[[wf.CompileOptions], list[np.ndarray]], options: wf.CompileOptions, shown: str) -> None:
    """How many threads share the work changes no bit."""
    machine = replace(options.machine, cores=3)
    first, *others = (ran(options.but(machine=machine, threads=count)) for count in (1, 2, 3))
    for one in others:
        same = [found.tobytes() == right.tobytes() for found, right in zip(one, first, strict=True)]
        assert all(same), f"threads change bits\n{shown}\n{options}"


def _size(rng: np.random.Generator, least: int, most: int) -> int:
    """A size, now and then the least there is."""
    return least if rng.random() < 0.15 else int(rng.integers(least, most))


def _sequences(rng: np.random.Generator) -> tuple[wf.Tensor, str]:
    batch, time, width = _size(rng, 1, 4), _size(rng, 1, 20), 2 * _size(rng, 1, 5)
    x = wf.data(rng.uniform(-1, 1, (batch, time, width)), batch=2, label="x")
    shown = [f"x {batch},{time}|{width}"]
    if rng.random() < 0.3:
        ids = wf.data(rng.integers(0, 5, (batch, time)), batch=2, label="ids")
        x = x + wf.nn.embedding(vocab_size=5, o=width, label="table")(ids)
        shown.append("embedding")
    for at in range(int(rng.integers(1, 4))):
        name = str(rng.choice(list(SEQUENCES)))
        shown.append(name)
        y = SEQUENCES[name](rng, f"{name}{at}", (batch, time, width))(x)
        x = x + y if rng.random() < 0.5 else y
    return _loss(rng, x, "b,t|d"), " ".join(shown)


def _images(rng: np.random.Generator) -> tuple[wf.Tensor, str]:
    batch, height, width, channels = _size(rng, 1, 4), _size(rng, 3, 9), _size(rng, 3, 9), 2 * _size(rng, 1, 4)
    x = wf.data(rng.uniform(-1, 1, (batch, height, width, channels)), batch=1, label="x")
    shown = [f"x {batch}|{height},{width},{channels}"]
    for at in range(int(rng.integers(1, 4))):
        name = str(rng.choice(list(IMAGES)))
        shown.append(name)
        y = IMAGES[name](rng, f"{name}{at}", channels)(x)
        x = x + y if rng.random() < 0.5 else y
    return _loss(rng, x, "b|h,w,c"), " ".join(shown)


def _loss(rng: np.random.Generator, x: wf.Tensor, rows: str) -> wf.Tensor:
    """One number of a model's result, to which every number of it matters differently."""
    factors = wf.data(rng.uniform(-1, 1, x.dims.array_shape), batch=len(x.dims.batch), label="f")
    return wf.einsum(f"{rows} => 0", wf.sin(x * wf.param("scale", o=1)) * factors, label="loss")


def _attention(rng: np.random.Generator, label: str, sizes: tuple[int, int, int]) -> Block:
    batch, time, width = sizes
    heads = int(rng.choice([1, 2, 4]))
    given = {"causal": bool(rng.random() < 0.5), "rope": bool(rng.random() < 0.3), "d_model": width}
    if rng.random() < 0.3:
        given["window"] = int(rng.integers(1, time + 2))
    if rng.random() < 0.3 and not given.get("window"):
        lengths = rng.integers(1, time, (batch, 1), endpoint=True)
        given["lengths"] = wf.data(lengths.astype(np.float64), batch=1, label="lengths")
    if heads == 4 and rng.random() < 0.5:
        given["num_kv_heads"] = 2
    return wf.nn.multi_head_attention(num_heads=heads, d_k=2 * int(rng.integers(1, 5)), label=label, **given)


#: Comprehensions of a sequence: gated, normalised along time, centred, and one step late.
TEXTS = (
    "Y(b,t,d) +=! X(b,t,e) * X(b,t,d)",
    "S(b,d) +=! exp(X(b,t,d))  Y(b,t,d) = X(b,t,d) / S(b,d)",
    "M(b,t) max=! X(b,t,d)  Y(b,t,d) = X(b,t,d) - M(b,t)",
    "Y(b,t,d) = t > 0 ? X(b,t-1,d) : X(b,t,d) where t in 0:T",
)


def _comprehension(rng: np.random.Generator, label: str, sizes: tuple[int, int, int]) -> Block:
    return wf.tc.define(f"def f(double(B,T,D) X) -> (Y) {{ {rng.choice(TEXTS)} }}").f


def _scan(rng: np.random.Generator, label: str, sizes: tuple[int, int, int]) -> Block:
    kind = {"rnn": wf.nn.rnn, "gru": wf.nn.gru, "lstm": wf.nn.lstm}[str(rng.choice(["rnn", "gru", "lstm"]))]
    layer = kind(hid_dim=sizes[2], label=label)
    return lambda x: layer(x)[0]


def _conv(rng: np.random.Generator, label: str, channels: int) -> Block:
    given = {"kernel_size": int(rng.choice([1, 2, 3])), "padded": True, "out_channels": channels}
    if rng.random() < 0.3:
        given["dilation"] = 2
    if rng.random() < 0.3:
        given["groups"] = 2
    return wf.nn.conv2d(label=label, **given)


SEQUENCES: dict[str, Callable[[np.random.Generator, str, tuple[int, int, int]], Block]] = {
    "attention": _attention,
    "attention2": _attention,
    "feed_forward": lambda rng, label, sizes: wf.nn.mlp(hid_dims=[int(rng.integers(1, 9))], o=sizes[2], label=label),
    "layer_norm": lambda rng, label, sizes: wf.nn.layer_norm(label=label),
    "rms_norm": lambda rng, label, sizes: wf.nn.rms_norm(label=label),
    "linear": lambda rng, label, sizes: wf.nn.linear(o=sizes[2], label=label),
    "scan": _scan,
    "comprehension": _comprehension,
    "softmax": lambda rng, label, sizes: wf.softmax,
    "cumsum": lambda rng, label, sizes: lambda x: wf.cumsum(x) * 0.3,
    "flip": lambda rng, label, sizes: wf.flip,
    "roll": lambda rng, label, sizes: lambda x: wf.roll(x, 1),
    "sort": lambda rng, label, sizes: wf.sort,
    "concat": lambda rng, label, sizes: lambda x: wf.nn.linear(o=sizes[2], label=label)(wf.concat(x, wf.tanh(x))),
}
IMAGES: dict[str, Callable[[np.random.Generator, str, int], Block]] = {
    "conv": _conv,
    "conv2": _conv,
    "depthwise": lambda rng, label, channels: wf.nn.depthwise_conv2d(kernel_size=3, padded=True, label=label),
    "max_pool": lambda rng, label, channels: wf.nn.max_pool2d(kernel_size=3, stride=1, padded=True, label=label),
    "avg_pool": lambda rng, label, channels: wf.nn.avg_pool2d(kernel_size=2, stride=1, padded=True, label=label),
    "group_norm": lambda rng, label, channels: wf.nn.group_norm(groups=2, label=label),
    "gelu": lambda rng, label, channels: wf.gelu,
    "linear": lambda rng, label, channels: (
        lambda x: wf.einsum("b|h,w,c; c->d => b|h,w,d", x, wf.param(label, o=channels))
    ),
    "squeeze": lambda rng, label, channels: wf.nn.squeeze_excite(label=label),
}
