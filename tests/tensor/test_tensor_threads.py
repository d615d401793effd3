"""Threads share models: what they build on the same tensors at once is what each would build alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import weft as wf

THREADS, TURNS = 4, 10


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads that take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None]) -> list[BaseException]:
    """What was raised in threads that begin at the same time."""
    start, raised = threading.Barrier(THREADS), list[BaseException]()

    def run(number: int) -> None:
        try:
            start.wait()
            for _ in range(TURNS):
                work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_expressions_over_shared_tensors() -> None:
    x = wf.data(np.ones((8, 3)), batch=1)
    target = wf.data(np.ones((8, 2)), batch=1)
    found = set()

    def build(number: int) -> None:
        w, v = wf.param("w", o=5), wf.param("v")
        error = v @ wf.tanh(w @ x + wf.param("b")) - target
        found.add((str(w.dims), str(v.dims), str(error.dims), error.dtype))

    assert together(build) == []
    assert found == {("3->5", "5->2", "8|2", "float64")}


@wf.op
def dense(x: wf.Tensor, *, width: int) -> wf.Tensor:
    return wf.relu("w" @ x + wf.param("b", o=width))


@wf.op
def mlp(x: wf.Tensor) -> wf.Tensor:
    return dense(dense(x, width=4), width=2)


def test_a_layer_that_threads_apply_has_one_set_of_parameters() -> None:
    for _ in range(5):
        model = mlp(label="mlp")
        shapes = set()

        def apply(number: int, model: wf.Layer = model, shapes: set[str] = shapes) -> None:
            shapes.add(str(model(wf.data(np.ones((1, 3)), batch=1)).dims))

        assert together(apply) == []
        assert shapes == {"1|2"}
        assert [param.label for param in model.params] == ["mlp.dense.w", "mlp.dense.b", "mlp.dense2.w", "mlp.dense2.b"]


def test_a_shared_model_answers_each_thread() -> None:
    ctx = wf.Context("interp")
    model = mlp(label="mlp")
    model(wf.data(np.ones((1, 3)), batch=1))
    values = [ctx[param] for param in model.params]

    def ask(number: int) -> None:
        x = np.full((1 + number, 3), number, "float32")
        w1, b1, w2, b2 = values
        expected = np.maximum(np.maximum(x @ w1.T + b1, 0) @ w2.T + b2, 0)
        np.testing.assert_allclose(ctx[model(wf.data(x, batch=1))], expected, rtol=1e-5)

    assert together(ask) == []
