"""The models in jax: functions of their parameters, traced by `jax.jit` as one training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from _models import EPSILON, Images, Perceptron, Problem, Ready, Transformer

Arrays = Mapping[str, jax.Array]


def prepare() -> None:
    """What jax does once for all models: it finds its devices."""
    jax.block_until_ready(jax.device_put(np.zeros(1, "float32")))


def ready(name: str, given: Problem) -> Ready:
    """Trace and compile a training step and make it once."""
    model = MODELS[name]
    data = {one: jnp.asarray(value) for one, value in given.data.items()}
    params = {one: jnp.asarray(value) for one, value in given.start.items()}
    # Made by NumPy: made by jax, zeros would be one more thing to compile.
    zeros = {one: np.zeros_like(value) for one, value in given.start.items()}
    state = (
        params,
        *((jax.device_put(zeros), jax.device_put(zeros), jnp.asarray(np.float32(0))) if given.adam else ()),
    )

    def step(state: tuple, data: Arrays) -> tuple[tuple, jax.Array]:
        loss, slopes = jax.value_and_grad(lambda params: model(params, data, given.sizes))(state[0])
        return (adam_step if given.adam else sgd_step)(state, slopes, given.rate), loss

    compiled = jax.jit(step, donate_argnums=0).lower(state, data).compile()
    state, loss = compiled(state, data)
    jax.block_until_ready(state)

    def again() -> None:
        nonlocal state, loss
        state, loss = compiled(state, data)
        loss.block_until_ready()

    def memory() -> int:
        found = compiled.memory_analysis()
        own = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
        return own - found.alias_size_in_bytes

    return Ready(again, lambda: float(loss), memory)


def sgd_step(state: tuple, slopes: Arrays, rate: float) -> tuple:
    (params,) = state
    return ({one: params[one] - rate * slopes[one] for one in params},)


def adam_step(state: tuple, slopes: Arrays, rate: float) -> tuple:
    params, means, squares, count = state
    count = count + 1
    means = {one: 0.9 * means[one] + 0.1 * slopes[one] for one in params}
    squares = {one: 0.999 * squares[one] + 0.001 * slopes[one] ** 2 for one in params}

    def moved(one: str) -> jax.Array:
        mean, square = means[one] / (1 - 0.9**count), squares[one] / (1 - 0.999**count)
        return params[one] - rate * mean / (jnp.sqrt(square) + 1e-8)

    return {one: moved(one) for one in params}, means, squares, count


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    right = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1)
    return -jnp.mean(right)


def mlp(params: Arrays, data: Arrays, sizes: Perceptron) -> jax.Array:
    h, last = data["x"], len(sizes.widths) - 1
    for number in range(1, last + 1):
        h = h @ params[f"w{number}"].T + params[f"b{number}"]
        h = jax.nn.relu(h) if number < last else h
    return cross_entropy(h, data["labels"])


def cnn(params: Arrays, data: Arrays, sizes: Images) -> jax.Array:
    h = data["x"]
    for number in range(1, len(sizes.channels)):
        kernel, kinds = params[f"k{number}"], ("NHWC", "OHWI", "NHWC")
        h = jax.lax.conv_general_dilated(h, kernel, (1, 1), "SAME", dimension_numbers=kinds)
        h = jax.nn.relu(h + params[f"b{number}"])
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return cross_entropy(jnp.einsum("nyxc,fyxc->nf", h, params["w"]) + params["b"], data["labels"])


def norm(x: jax.Array, params: Arrays, name: str) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + EPSILON) * params[f"{name}.scale"] + params[f"{name}.shift"]


def attention(x: jax.Array, params: Arrays, name: str) -> jax.Array:
    query, key, value = (jnp.einsum("btd,hed->bhte", x, params[f"{name}.{one}"]) for one in "qkv")
    scores = jnp.einsum("bhte,bhse->bhts", query, key) * query.shape[-1] ** -0.5
    seen = np.tril(np.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    return jnp.einsum("bhte,dhe->btd", jnp.einsum("bhts,bhse->bhte", weights, value), params[f"{name}.o"])


def gpt(params: Arrays, data: Arrays, sizes: Transformer) -> jax.Array:
    x = params["embedding"].T[data["tokens"]] + params["position"]
    for name in (f"l{number}" for number in range(sizes.layers)):
        x = x + attention(norm(x, params, f"{name}.before"), params, name)
        hidden = norm(x, params, f"{name}.between") @ params[f"{name}.up"].T + params[f"{name}.up_bias"]
        x = x + jax.nn.gelu(hidden, approximate=False) @ params[f"{name}.down"].T + params[f"{name}.down_bias"]
    return cross_entropy(norm(x, params, "last") @ params["head"].T, data["targets"])


MODELS: dict[str, Callable[[Arrays, Arrays, Any], jax.Array]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}
