"""The examples of recurrences against NumPy's loops."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import weft as wf


def run(name: str) -> Any:
    return vars(import_module(f"weft.examples.{name}"))


def test_a_selective_state_space_layer() -> None:
    layer, xs, losses = run("state_space")["main"](steps=8)
    assert losses == sorted(losses, reverse=True)
    ctx = wf.Context("interp")
    found = ctx[layer(xs)]
    p = {name: ctx[layer.param(name)] for name in ("w_delta", "b_delta", "w_write", "w_read", "log_rate", "skip")}
    h = np.zeros((2, 3, 4))
    for x, y in zip(ctx[xs], found, strict=True):
        delta = np.log1p(np.exp(x @ p["w_delta"].T + p["b_delta"]))
        decay = np.exp(-delta[..., None] * np.exp(p["log_rate"]))
        h = decay * h + (delta * x)[..., None] * (x @ p["w_write"].T)[:, None, :]
        np.testing.assert_allclose(
            y, (h * (x @ p["w_read"].T)[:, None, :]).sum(-1) + p["skip"] * x, rtol=1e-4, atol=1e-5
        )


def test_a_kalman_filter() -> None:
    seen, found = run("kalman")["main"]()
    move, mean, spread = np.array([[1.0, 1.0], [0.0, 1.0]]), np.zeros(2), np.eye(2) * 10
    for one, believed in zip(seen, found, strict=True):
        mean, spread = move @ mean, move @ spread @ move.T + np.eye(2) * 0.01
        gain = spread[:, 0] / (spread[0, 0] + 4.0)
        mean, spread = mean + gain * (one - mean[0]), spread - np.outer(gain, spread[0])
        np.testing.assert_allclose(believed, mean)


def test_a_viterbi_decoder(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("viterbi")["main"]()
    rng = np.random.default_rng(0)
    start, change, emitted = (np.log(rng.dirichlet(np.ones(4), n)) for n in (1, 4, 12))
    score, pointers = start[0], []
    for here in emitted:
        ways = score[:, None] + change
        pointers.append(ways.argmax(0))
        score = ways.max(0) + here
    path = [int(score.argmax())]
    for came in reversed(pointers[1:]):
        path.append(int(came[path[-1]]))
    assert found.tolist() == path[::-1]


@pytest.mark.parametrize("name", ["state_space", "kalman", "viterbi"])
def test_they_are_short(name: str) -> None:
    text = inspect.getsource(import_module(f"weft.examples.{name}"))
    lines = text.split("def main")[0].splitlines()
    assert len([line for line in lines if line.strip()]) < 30
