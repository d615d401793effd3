"""The models in PyTorch: the loss, and with it its gradient, compiled or not; the optimiser runs as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx  # what torch.compile would import when first used
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from _models import EPSILON, Array, Images, Perceptron, Problem, Ready, Transformer

Tensors = Mapping[str, torch.Tensor]


def prepare() -> None:
    """What PyTorch does once for all models."""


def ready(name: str, given: Problem, *, compiled: bool = True, device: str = "cpu", products: str = "float32") -> Ready:
    """Write the model down, compile it where that is wanted, and make a training step."""
    data = {one: torch.from_numpy(value).to(device) for one, value in given.data.items()}
    params = {one: torch.tensor(native(value), requires_grad=True, device=device) for one, value in given.start.items()}
    kind = partial(torch.optim.Adam, fused=True) if given.adam else torch.optim.SGD
    optimiser = kind(params.values(), lr=given.rate)
    model = torch.compile(MODELS[name]) if compiled else MODELS[name]
    loss = torch.zeros(())

    def step() -> None:
        nonlocal loss
        optimiser.zero_grad()
        with torch.autocast(device, dtype=getattr(torch, products), enabled=products != "float32"):
            loss = model(params, data, given.sizes)
        loss.backward()
        optimiser.step()

    def memory() -> int:
        state = [one for slot in optimiser.state.values() for one in slot.values() if isinstance(one, torch.Tensor)]
        slopes = [one.grad for one in params.values() if one.grad is not None]
        return size(*params.values(), *data.values(), *state, *slopes) + growth(step)

    step()
    return Ready(step, lambda: loss.item(), memory)


def size(*tensors: torch.Tensor) -> int:
    return sum(one.untyped_storage().nbytes() for one in tensors)


def growth(step: Callable[[], None]) -> int:
    """The most bytes that are allocated during a step, beyond those allocated before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        step()
    events = [one for one in found.profiler.kineto_results.events() if one.name() == "[memory]"]
    changes = [one.nbytes() for one in sorted(events, key=lambda one: one.start_ns())]
    return max(accumulate(changes, initial=0))


def native(value: Array) -> Array:
    """Kernels of convolutions lie as PyTorch wants them."""
    return value.transpose(0, 3, 1, 2).copy() if value.ndim == 4 else value


def mlp(params: Tensors, data: Tensors, sizes: Perceptron) -> torch.Tensor:
    h, last = data["x"], len(sizes.widths) - 1
    for number in range(1, last + 1):
        h = functional.linear(h, params[f"w{number}"], params[f"b{number}"])
        h = functional.relu(h) if number < last else h
    return functional.cross_entropy(h, data["labels"].long())


def cnn(params: Tensors, data: Tensors, sizes: Images) -> torch.Tensor:
    h = data["x"].permute(0, 3, 1, 2)
    for number in range(1, len(sizes.channels)):
        h = functional.conv2d(h, params[f"k{number}"], params[f"b{number}"], padding=1)
        h = functional.max_pool2d(functional.relu(h), 2)
    scores = functional.linear(h.flatten(1), params["w"].flatten(1), params["b"])
    return functional.cross_entropy(scores, data["labels"].long())


def norm(x: torch.Tensor, params: Tensors, name: str) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], params[f"{name}.scale"], params[f"{name}.shift"], EPSILON)


def attention(x: torch.Tensor, params: Tensors, name: str, heads: int) -> torch.Tensor:
    batch, length, _ = x.shape
    query, key, value = (
        functional.linear(x, params[f"{name}.{one}"].flatten(0, 1)).view(batch, length, heads, -1).transpose(1, 2)
        for one in "qkv"
    )
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return functional.linear(mixed.transpose(1, 2).flatten(2), params[f"{name}.o"].flatten(1))


def gpt(params: Tensors, data: Tensors, sizes: Transformer) -> torch.Tensor:
    x = functional.embedding(data["tokens"], params["embedding"].t()) + params["position"]
    for name in (f"l{number}" for number in range(sizes.layers)):
        x = x + attention(norm(x, params, f"{name}.before"), params, name, sizes.heads)
        hidden = functional.linear(norm(x, params, f"{name}.between"), params[f"{name}.up"], params[f"{name}.up_bias"])
        x = x + functional.linear(functional.gelu(hidden), params[f"{name}.down"], params[f"{name}.down_bias"])
    scores = functional.linear(norm(x, params, "last"), params["head"])
    return functional.cross_entropy(scores.flatten(0, 1), data["targets"].flatten().long())


MODELS: dict[str, Callable[[Tensors, Tensors, Any], torch.Tensor]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}
