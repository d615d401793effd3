"""The shapes of random models: a leaf takes the greatest shape its uses allow, whatever stands between it and them.

A model is drawn once as a list of choices and built several times: as it is; with something pointwise between its
parameters, or its intermediates, and what uses them; with its shapes looked at in between; and under code that updates
it. The parameters and the random leaves must come out alike.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

import weft as wf

Change = Callable[[wf.Tensor], wf.Tensor]

UNARY: dict[str, Change] = {
    "relu": wf.relu,
    "tanh": wf.tanh,
    "cast": lambda t: wf.cast(t, "float64"),
    "scaled": lambda t: 2.0 * t + 1.0,
    "squared": lambda t: t**2,
    "negated": lambda t: -t,
    "by a number": lambda t: wf.number(0.5) * t,
    "by a constant": lambda t: t / wf.constant(3.0),
    "by an array of one": lambda t: t - wf.data(np.array([0.25])),
    "copied": lambda t: wf.einsum("...|...->... => ...|...->...", t),
    "by its norm": lambda t: t / wf.sqrt(wf.einsum("...|...->... => 0", t * t) + 1.0),
    "chosen": lambda t: wf.where(t < 0.0, 0.1 * t, t),
}


def _as_it_is(tensor: wf.Tensor) -> wf.Tensor:
    return tensor


@dataclass
class Model:
    """A model under construction: `on_leaf` stands between a leaf and its use, `on_inner` after each operation."""

    rng: np.random.Generator
    on_leaf: Change = _as_it_is
    on_inner: Change = _as_it_is
    leaves: list[wf.Tensor] = field(default_factory=list)

    def param(self, **rows: int | tuple[int, ...]) -> wf.Tensor:
        self.leaves.append(wf.param(f"p{len(self.leaves)}", **rows))
        return self.on_leaf(self.leaves[-1])

    def noise(self) -> wf.Tensor:
        self.leaves.append(wf.random_uniform(f"u{len(self.leaves)}", step=0))
        return self.on_leaf(self.leaves[-1])

    def pick(self, *options: str) -> str:
        return options[self.rng.integers(len(options))]

    def size(self) -> int:
        return int(self.rng.integers(2, 6))

    def build(self) -> wf.Tensor:
        """The loss of a few layers on a batch of examples."""
        width = self.size()
        x = wf.data(np.ones((3, width)), batch=1, label="x")
        for _ in range(self.rng.integers(1, 4)):
            x = self.on_inner(self.layer(x))
        target = wf.data(np.ones((3, self.rng.integers(1, 3))), batch=1, label="y")
        last = self.on_inner(self.param() @ x)
        return wf.einsum("...|... => 0", (last - target) ** 2)

    def layer(self, x: wf.Tensor) -> wf.Tensor:
        """A layer from `x`, a batch of vectors, to another."""
        width = self.size()
        match self.pick(
            "dense", "spec", "heads", "square", "gate", "window", "noisy", "joined", "norm", "residual", "turned"
        ):
            case "dense":
                return self.on_inner(self.param() @ x) + self.param(o=width)
            case "spec":
                return wf.einsum("i->o; ...|i => ...|o", self.param(), x, o=width)
            case "heads":
                query, key = (self.on_inner(self.param() @ x) for _ in range(2))
                score = wf.einsum("...|h, d; ...|h, d => ...|h", query, key, h=width, d=self.size())
                return self.on_inner(score)
            case "square":
                return wf.relu(self.on_inner(wf.einsum("..i..->..i..; ...|..i.. => ...|..i..", self.param(), x)))
            case "gate":
                hidden = self.on_inner(self.param(o=width) @ x)
                return hidden * wf.sigmoid(self.on_inner(self.param() @ x))
            case "window":
                wide = wf.einsum("...|i => ...|3*i", x)
                return self.on_inner(wf.einsum("...|o<+k; k => ...|o", wide, self.param(), k=2))
            case "noisy":
                scale = self.param(o=1) if self.pick("one", "each") == "one" else self.param()
                return x + self.on_inner(scale * self.noise())
            case "joined":
                more = self.on_inner(self.param(o=width) @ x)
                return wf.einsum("...|a; ...|b => ...|a^b", x, more)
            case "norm":
                mean = wf.einsum("...|i => ...|0", x) / 4.0
                return (x - self.on_inner(mean)) * self.param() + self.param()
            case "turned":
                angle = wf.data(np.ones(self.size()))
                query = self.on_inner(self.param() @ x)
                even, odd = (wf.einsum(f"...|..., 2*i{offset} => ...|..., i", query) for offset in ("", "+1"))
                free = odd if self.pick("both", "one") == "one" else odd * angle
                turned = self.on_inner(even * angle) - free, even * angle + self.on_inner(odd * angle)
                back = (
                    wf.einsum(f"...|..., i => ...|..., 2*i{at}", t) for at, t in zip(("", "+1"), turned, strict=True)
                )
                return wf.einsum("...|h, d => ...|h", self.on_inner(sum(back, start=wf.constant(0))), h=width)
            case _:
                return x + self.on_inner(self.param() @ wf.tanh(self.param(o=width) @ x))


def check(rng: np.random.Generator) -> None:
    seed = int(rng.integers(1 << 32))

    def built(**how: Change) -> tuple[list[wf.Tensor], wf.Tensor]:
        model = Model(np.random.default_rng(seed), **how)
        loss = model.build()
        return model.leaves, loss

    leaves, loss = built()
    wanted = [str(leaf.dims) for leaf in leaves]
    name = str(rng.choice(sorted(UNARY)))
    changed = {
        f"every leaf {name}": built(on_leaf=UNARY[name]),
        f"every intermediate {name}": built(on_inner=UNARY[name]),
        "intermediates looked at": built(on_inner=_look),
        "leaves looked at": built(on_leaf=_look),
    }
    for how, (found, _) in changed.items():
        assert [str(leaf.dims) for leaf in found] == wanted, f"{how}: {list(map(str, found))}, not {wanted}"
    code = _updates(loss, rng)
    wf.Context("interp").compile(wf.seq(wf.grad_update(loss), code), bindings=[STEP])
    found = [str(leaf.dims) for leaf in leaves]
    assert found == wanted, f"under\n{code}\n{found}, not {wanted}"


STEP = wf.index("n", 100)


def _look(tensor: wf.Tensor) -> wf.Tensor:
    with suppress(wf.UnderdeterminedShapeError):
        assert str(tensor.dims)
    return tensor


def _updates(loss: wf.Tensor, rng: np.random.Generator) -> wf.Code:
    """An optimiser or code of one's own, with a rate that is a number of one kind or another."""
    rates = (0.1, wf.number(0.1), wf.data(np.array([0.1])), 0.1 / (1 + wf.constant(STEP)), wf.number(STEP) * 0.01)
    rate = rates[rng.integers(len(rates))]
    match rng.integers(4):
        case 0:
            return wf.optim.sgd(loss, lr=rate, momentum=0.9, weight_decay=0.1)
        case 1:
            return wf.optim.adam(loss, lr=rate)
        case 2:
            return _clipped(loss, rate)
    return _decayed(loss, rate)


@wf.cd
def _clipped(loss: wf.Tensor, rate: wf.Tensor) -> None:
    total = wf.node("total")
    total[:] = 0.0
    for p in loss.params:
        total += wf.einsum("...|...->... => 0", p.grad * p.grad)
    for p in loss.params:
        p -= rate * p.grad * wf.minimum(1, 1 / (wf.sqrt(total) + 1e-6))


@wf.cd
def _decayed(loss: wf.Tensor, rate: wf.Tensor) -> None:
    for p in loss.params:
        mean = wf.node("mean")
        mean[:] = 0.9 * mean + 0.1 * wf.tanh(p)
        p -= rate * (p.grad + mean)
