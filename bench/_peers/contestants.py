"""Who takes part: how each makes a work ready to run, and tells what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from _peers import Array, Training, Work, aligned, numbers

#: How many losses of a training are compared.
LOSSES = 3


@dataclass(frozen=True, slots=True)
class Ready:
    """Something to run again and again, and what it finds."""

    run: Callable[[], Any]
    answers: Callable[[], list[Array]]


def seed_of(found: Any) -> Array:
    """What is pulled back from a result to find gradients: numbers of its shape."""
    return numbers(*found.shape, seed=9)


def listed(found: Any) -> list[Array]:
    return [np.asarray(one) for one in (found if isinstance(found, tuple | list) else (found,))]


def by_numpy(work: Work, arrays: Mapping[str, Array]) -> Ready:
    assert work.numpy is not None
    run = partial(work.numpy, np, **arrays)
    return Ready(run, lambda: listed(run()))


def by_torch(work: Work, arrays: Mapping[str, Array], *, compiled: bool = False) -> Ready:
    import torch

    tensors = {name: _torch_tensor(torch, one) for name, one in arrays.items()}
    chosen = [tensors[name].requires_grad_() for name in work.gradients]
    words = partial(work.torch, torch)
    if compiled:
        torch._dynamo.reset()  # or it takes works for calls of one function, and gives up after some
    forward = torch.compile(words) if compiled else words
    seed = torch.from_numpy(seed_of(forward(**tensors))).to(next(iter(tensors.values())).dtype) if chosen else None

    def run() -> Any:
        found = forward(**tensors)
        return (found, *torch.autograd.grad(found, chosen, seed)) if chosen else found

    return Ready(run, lambda: [_as_numpy(torch, one) for one in _together(run())])


def _torch_tensor(torch: Any, array: Array) -> Any:
    """An array as PyTorch has it, which takes none of bfloat16 from NumPy."""
    return (
        torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        if array.dtype == "bfloat16"
        else torch.from_numpy(array)
    )


def _as_numpy(torch: Any, tensor: Any) -> Array:
    found: Array = (tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()).numpy()
    return found


def by_jax(work: Work, arrays: Mapping[str, Array]) -> Ready:
    import jax

    def forward(*chosen: Any, **rest: Any) -> Any:
        named = {**rest, **dict(zip(work.gradients, chosen, strict=True))}
        return work.jax(jax, **{name: named[name] for name in arrays})

    def whole(given: dict[str, Any]) -> Any:
        chosen = [given[name] for name in work.gradients]
        rest = {name: one for name, one in given.items() if name not in work.gradients}
        if not chosen:
            return forward(**rest)
        found, back = jax.vjp(partial(forward, **rest), *chosen)
        return found, *back(jax.numpy.asarray(seed_of(found)))

    given = {name: jax.numpy.asarray(one) for name, one in arrays.items()}
    jitted = jax.jit(whole)

    def run() -> Any:
        return jax.block_until_ready(jitted(given))

    return Ready(run, lambda: listed(run()))


def by_weft(work: Work, arrays: Mapping[str, Array], *, backend: str = "cc", tuned: float = 0.0) -> Ready:
    """As it is, or tuned for so many seconds."""
    import weft as wf

    tensors = {name: wf.data(one, batch=work.batch.get(name, 0), label=name) for name, one in arrays.items()}
    tensors |= {name: wf.require_grad(tensors[name]) for name in work.gradients}
    chosen = [tensors[name] for name in work.gradients]
    found = _together(work.weft(wf, **tensors))
    if chosen:
        (result,) = found
        seed = wf.data(seed_of(np.empty(result.dims.array_shape)), batch=len(result.dims.batch), label="seed")
        found = (result, *wf.grad(result, chosen, d=seed))
    ctx = wf.Context(backend)
    routine = ctx.compile(wf.seq(), keep=found)  # all of them, each thing once
    if tuned:
        routine.tune(seconds=tuned, show=False)

    def answers() -> list[Array]:
        routine()
        return [np.asarray(ctx[one]) for one in found]

    return Ready(routine, answers)


def _together(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def training(work: Training, module: str, **options: Any) -> Ready:
    """Steps of a model; the answers are the losses of the first ones."""
    ready = import_module(f"_models.of_{module}").ready(work.model, work.problem, **options)
    losses = [ready.loss()]
    for _ in range(LOSSES - 1):
        ready.step()
        losses.append(ready.loss())
    return Ready(ready.step, lambda: [np.array(losses)])


#: Everybody: the package each needs, and how it makes a work ready.
CONTESTANTS: dict[str, tuple[str, Callable[..., Ready]]] = {
    "weft": ("weft", by_weft),
    "numpy": ("numpy", by_numpy),
    "torch": ("torch", by_torch),
    "torch.compile": ("torch", partial(by_torch, compiled=True)),
    "jax.jit": ("jax", by_jax),
}


def made_ready(name: str, work: Work | Training, *, in_double: bool = False, tuned: float = 0.0) -> Ready | None:
    """A work made ready by a contestant, which weft may tune before; nothing if it has no words for it."""
    package, make = CONTESTANTS[name]
    if isinstance(work, Training):
        options = {"compiled": name == "torch.compile"} if package == "torch" else {}
        return training(work, package, **options) if package != "numpy" else None
    if package == "numpy" and (work.numpy is None or work.gradients):
        return None
    options = {"tuned": tuned} if package == "weft" else {}
    given = work.in_double() if in_double else work.inputs
    return make(work, {name: aligned(one) for name, one in given.items()}, **options)
