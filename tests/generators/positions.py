"""Random einsums with positions: specs that read back, values and gradients as NumPy has them, on both backends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import weft as wf
from backends.interpreted import OnProcessor
from generators import _settings
from weft.backends.interp import Interp
from weft.einsum import parse_spec, show_spec
from weft.ops import OPS
from weft.project.evaluate import evaluate
from weft.project.plan import plan_einsum

SIZES = {"u": 3, "v": 4, "w": 2, "b": 3, "c": 2, "d": 2, "k": 2}
LOOPS = "bcd"
#: How an axis that is looked up may be written, and how large it is.
AXES = {
    "{0}": lambda size: size,
    "2*{0}+1": lambda size: 2 * size,
    "{0}<+k": lambda size: size + 1,
    "{0}=+k": lambda size: size,
}


def check(rng: np.random.Generator) -> None:
    drawn = _Drawing(rng).draw()
    spec = parse_spec(drawn.spec)
    assert parse_spec(show_spec(spec)) == spec, drawn
    shapes = [array.shape for array in drawn.arrays]
    plan = plan_einsum(drawn.spec, shapes, None, drawn.sizes)
    looked_up = tuple(replace(one, outside=drawn.outside) for one in plan.projection.looked_up)
    projection = replace(plan.projection, looked_up=looked_up)
    accum = OPS["max" if drawn.accum == "max" else "add"]

    def oracle(arrays: list[np.ndarray]) -> np.ndarray:
        return evaluate(projection, arrays, accum, OPS["mul"])

    try:
        meant = oracle(drawn.arrays)
    except wf.IndexOutOfBounds:
        _refused(drawn)
        return
    settings = _settings.drawn(rng)
    backends = [Interp(), OnProcessor()] + (["cc"] if rng.random() < 0.15 else [])
    for backend in backends:
        found, gradients = _computed(drawn, backend, settings)
        np.testing.assert_allclose(found, meant, rtol=1e-12, err_msg=str(drawn))
        for slot, gradient in gradients.items():
            _against_differences(drawn, oracle, slot, gradient, rng)


@dataclass(frozen=True)
class _Drawn:
    spec: str
    arrays: list[np.ndarray]
    sizes: dict[str, int]
    outside: str
    accum: str

    def __str__(self) -> str:
        return f"{self.spec} {[one.shape for one in self.arrays]} {self.sizes} {self.outside} {self.accum}"


def _einsum(drawn: _Drawn, operands: list[wf.Tensor]) -> wf.Tensor:
    return wf.einsum(drawn.spec, *operands, accum=drawn.accum, outside=drawn.outside, **drawn.sizes)  # type: ignore[arg-type]


def _leaves(drawn: _Drawn) -> list[wf.Tensor]:
    made = [wf.data(array, label=f"t{slot}") for slot, array in enumerate(drawn.arrays)]
    return [wf.require_grad(one) if one.dtype == "float64" else one for one in made]


def _refused(drawn: _Drawn) -> None:
    try:
        wf.Context("interp")[_einsum(drawn, _leaves(drawn))]
    except wf.IndexOutOfBounds:
        return
    raise AssertionError(f"positions outside were not found: {drawn}")


def _computed(drawn: _Drawn, backend: object, settings: dict[str, Any]) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The einsum, and the gradients of the sum of its squares where it adds up."""
    ctx, operands = wf.Context(backend), _leaves(drawn)  # type: ignore[arg-type]
    result = _einsum(drawn, operands).named("result")
    learned = {slot: one for slot, one in enumerate(operands) if one.differentiable}
    if drawn.accum == "max" or not learned:
        return ctx[result], {}
    loss = wf.einsum("...|... => 0", result * result, label="loss")
    options = None if type(backend) is Interp else wf.config.options.but(**settings)
    keep = [result, *(one.grad for one in learned.values())]
    ctx.compile(wf.seq(wf.grad_update(loss), result.forward), keep=keep, options=options)()
    return ctx[result], {slot: ctx[one.grad] for slot, one in learned.items()}


def _against_differences(
    drawn: _Drawn, oracle: object, slot: int, gradient: np.ndarray, rng: np.random.Generator
) -> None:
    """The loss is quadratic in each operand, so central differences are exact."""
    way = rng.normal(size=gradient.shape)

    def loss(step: float) -> float:
        arrays = [array + step * way if number == slot else array for number, array in enumerate(drawn.arrays)]
        return float((oracle(arrays) ** 2).sum())  # type: ignore[operator]

    np.testing.assert_allclose((gradient * way).sum(), (loss(1) - loss(-1)) / 2, rtol=1e-9, err_msg=str(drawn))


@dataclass(frozen=True)
class _Drawing:
    rng: np.random.Generator

    def draw(self) -> _Drawn:
        looked_up, loops = self.some("uvw", 1), self.some(LOOPS, 0) or ["b"]
        values = [self.value(looked_up, loops) for _ in range(self.rng.integers(0, 3))]
        held = {name: self.some(loops, 0) for name in looked_up}
        read = {name for axes, _ in values for axis in axes for name in looked_up if name in axis}
        windowed = any("k" in axis for axes, _ in values for axis in axes)
        kept = [name for name in looked_up if name not in read or self.rng.random() < 0.2]
        kept += [name for name in loops if self.rng.random() < 0.6] + ["k"] * (windowed and self.rng.random() < 0.8)
        parts = [(",".join(axes), array) for axes, array in values]
        parts += [(f"{','.join(own)}@{name}", self.positions(own, SIZES[name])) for name, own in held.items()]
        order = self.rng.permutation(len(parts))
        result = [str(one) for one in self.rng.permutation(kept)] or ["0"]
        told = {axis for axes, _ in values for axis in axes} | {name for own in held.values() for name in own}
        sizes = {name: SIZES[name] for name in {*kept, *(["k"] if windowed else [])} if name not in told}
        return _Drawn(
            f"{'; '.join(parts[at][0] for at in order)} => {','.join(result)}",
            [parts[at][1] for at in order],
            sizes,
            str(self.rng.choice(["check", "clip", "skip"])),
            str(self.rng.choice(["+", "+", "max"])),
        )

    def some(self, names: object, least: int) -> list[str]:
        pool = list(names)  # type: ignore[call-overload]
        count = int(self.rng.integers(least, min(len(pool), 2) + 1))
        return [str(one) for one in self.rng.choice(pool, count, replace=False)]

    def value(self, looked_up: list[str], loops: list[str]) -> tuple[list[str], np.ndarray]:
        """The axes of an operand with values, and it."""
        axes, shape, windowed = list[str](), list[int](), False
        for name in [*self.some(looked_up, 0), *self.some(loops, 0)]:
            form = str(self.rng.choice(list(AXES))) if name in looked_up and self.rng.random() < 0.3 else "{0}"
            form = "{0}=+k" if name in loops and self.rng.random() < 0.2 else form
            form = "{0}" if "k" in form and windowed else form
            windowed |= "k" in form
            axes.append(form.format(name))
            shape.append(AXES[form](SIZES[name]))
        order = self.rng.permutation(len(axes))
        return [axes[at] for at in order] or ["0"], self.rng.normal(size=[shape[at] for at in order] or [1])

    def positions(self, own: list[str], size: int) -> np.ndarray:
        stray = 2 if self.rng.random() < 0.3 else 0
        dtype = self.rng.choice(["int8", "int32", "int64", "int16"])
        return self.rng.integers(-stray, size + stray, [SIZES[name] for name in own] or [1]).astype(dtype)
