"""Steps of training: perceptrons and transformers, with their gradients and optimisers."""

from __future__ import annotations

import _models

from _peers import Training, kind


@kind("perceptron")
def perceptron(batch: int, *widths: int) -> Training:
    problem = _models.mlp(_models.Perceptron(widths, batch))
    weights = sum(one.size for one in problem.start.values())
    return Training(model="mlp", problem=problem, flops=6 * batch * weights, moved=28 * weights)


@kind("transformer")
def transformer(layers: int, width: int, length: int, batch: int) -> Training:
    """A GPT of heads of 64 at most, four at least, trained by Adam."""
    sizes = _models.Transformer(layers, width, max(4, width // 64), batch, length, vocabulary=256)
    problem = _models.gpt(sizes, adam=True)
    weights = sum(one.size for one in problem.start.values())
    attention = 4 * layers * length * width
    return Training(
        model="gpt", problem=problem, flops=3 * batch * length * (2 * weights + attention), moved=28 * weights
    )
