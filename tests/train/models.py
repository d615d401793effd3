"""Models of the tests of training, which drop and run statistics as layers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.nn.mode import current_training


@wf.cd
def _follow(running: wf.Tensor, now: wf.Tensor) -> None:
    running[:] = 0.5 * running + 0.5 * now


def dropped(x: wf.Tensor, rate: float) -> wf.Tensor:
    """What a layer drops while it is trained."""
    mode = current_training()
    return x if mode is None else wf.dropout(x, rate, step=mode.step)


def centred(x: wf.Tensor, running: wf.Tensor) -> wf.Tensor:
    """`x` less its mean over examples, which a running one follows; used, less that."""
    mode = current_training()
    if mode is None:
        return x - running
    now = wf.mean(x, "...|i => i")
    mode.leave(_follow(running, now))
    return x - now


def classifier(seed: int = 1, rate: float = 0.25) -> Callable[[wf.Tensor], wf.Tensor]:
    """Two layers, of which the first drops."""
    wf.seed(seed)

    @wf.op
    def mlp(x: wf.Tensor) -> wf.Tensor:
        h = wf.relu("w1" @ x + wf.param("b1", o=8))  # type: ignore[operator]
        return wf.param("w2", o=2) @ dropped(h, rate)

    made: Any = mlp(label="mlp")
    return made


def cross_entropy(logits: wf.Tensor, labels: wf.Tensor) -> wf.Tensor:
    return wf.mean(wf.cross_entropy(logits, labels), "...|... => 0")


def squares(found: wf.Tensor, wanted: wf.Tensor) -> wf.Tensor:
    return wf.mean((found - wanted) ** 2, "...|... => 0")


def points(count: int = 22, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 3)).astype("float32")
    return x, (x[:, 0] > x[:, 1]).astype("int32")
