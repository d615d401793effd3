"""A training step on one device: what NumPy computes, for any number of examples; layers are applied to be trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from train.models import centred, classifier, cross_entropy, dropped, points, squares


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_step_is_what_numpy_computes(backend: str) -> None:
    random = np.random.default_rng(0)
    w = wf.param("w", i=3, o=2, dtype="float64", init=0.5)
    ctx = wf.Context(backend)
    step = wf.train.step(ctx, lambda x, y: squares(w @ x, y), lambda loss: wf.optim.sgd(loss, lr=0.1, momentum=0.5))
    own, moving = np.full((2, 3), 0.5), np.zeros((2, 3))
    for count in (4, 1, 5, 4):
        x, y = random.normal(size=(count, 3)), random.normal(size=(count, 2))
        off = x @ own.T - y
        assert step(x, y) == pytest.approx(np.square(off).mean())
        moving = 0.5 * moving + 2 * off.T @ x / off.size
        own -= 0.1 * moving
        np.testing.assert_allclose(ctx[w], own)
    assert step.params == (w,)


def test_what_layers_drop_is_drawn_anew_and_only_in_training() -> None:
    w = wf.param("w", o=50, init=1.0)
    ctx = wf.Context("interp")

    def model(x: wf.Tensor) -> wf.Tensor:
        return dropped(w * x, 0.5)

    x = np.ones((1, 50), "float32")
    step = wf.train.step(ctx, lambda x: wf.mean(model(x), "...|... => 0"), lambda loss: wf.optim.sgd(loss, lr=0.0))
    found = [step(x) for _ in range(4)]
    assert len(set(found)) > 1
    assert all(0.4 < one < 1.6 for one in found)
    assert (wf.train.predict(model, x, context=ctx) == 1).all()
    assert ctx[step.count] == 4


def test_statistics_of_layers_run() -> None:
    running, w = wf.node("running", o=2, init=0.0), wf.param("w", o=2, init=1.0)
    ctx = wf.Context("interp")

    def model(x: wf.Tensor) -> wf.Tensor:
        return w * centred(x, running)

    step = wf.train.step(ctx, lambda x: wf.mean(model(x), "...|... => 0"), lambda loss: wf.optim.sgd(loss, lr=0.0))
    x = np.array([[1.0, 4.0], [3.0, 8.0]], "float32")
    assert step(x) == pytest.approx(0, abs=1e-6)
    step(x)
    assert ctx[running].tolist() == [1.5, 4.5]
    assert wf.train.predict(model, x, context=ctx).tolist() == [[-0.5, -0.5], [1.5, 3.5]]


def test_batches_of_another_kind_share_parameters_and_the_optimiser() -> None:
    """The mean over a row of any width, once in one width and once in two: the same steps."""
    ends = []
    for widths in ((4, 4, 4), (4, 2, 4)):
        w = wf.param("w", o=1, dtype="float64", init=1.0)
        ctx = wf.Context("interp")
        step = wf.train.step(
            ctx,
            lambda x, w=w: wf.mean((w - wf.mean(x, "b|t => b|0")) ** 2, "...|... => 0"),
            lambda loss: wf.optim.adam(loss, lr=0.1),
        )
        losses = [step(np.full((3, width), 2.0)) for width in widths]
        ends.append((losses, ctx[w].tolist(), sorted(step.state())))
    assert ends[0] == ends[1]


def test_measures_are_returned_with_the_loss() -> None:
    model, ctx = classifier(), wf.Context("interp")

    def loss_of(x: wf.Tensor, y: wf.Tensor) -> Any:
        logits = model(x)
        return cross_entropy(logits, y), {"accuracy": wf.train.accuracy(logits, y)}

    loss, metrics = wf.train.step(ctx, loss_of, wf.optim.adam)(*points())
    assert isinstance(loss, float)
    assert 0 <= metrics["accuracy"] <= 1


def test_several_devices_draw_anew_and_run_statistics() -> None:
    running, w = wf.node("running", o=2, init=0.0), wf.param("w", o=2, init=1.0)
    ctx = wf.Context("interp", devices=2)

    def loss_of(x: wf.Tensor) -> wf.Tensor:
        return wf.mean(w * dropped(centred(x, running) + 1.0, 0.5), "...|... => 0")

    step = wf.train.data_parallel(ctx, loss_of, lambda loss: wf.optim.sgd(loss, lr=0.0))
    x = np.array([[2.0, 4.0], [6.0, 8.0], [1.0, 1.0], [1.0, 1.0]], "float32")
    assert len({step(x) for _ in range(6)}) > 2
    assert np.allclose(ctx[running], np.array([4.0, 6.0]) * (1 - 0.5**6)), "those of the first device's shard"


@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_dropped_does_not_depend_on_which_kind_of_batch_came_first(devices: int) -> None:
    """A step that goes on from a state may meet another kind first."""
    narrow, wide = np.ones((4, 3), "float32"), np.ones((4, 5), "float32")
    found = []
    for first in (narrow, wide):
        wf.seed(2)
        w, where = wf.param("w", o=1, init=1.0), wf.Context("interp", devices=devices)
        maker = wf.train.step if devices == 1 else wf.train.data_parallel

        def loss_of(x: wf.Tensor, w: wf.Tensor = w) -> wf.Tensor:
            return wf.mean(dropped(w * x, 0.5), "...|... => 0")

        step = maker(where, loss_of, lambda loss: wf.optim.sgd(loss, lr=0.0))
        step.prepare(first)
        found.append([step(narrow), step(wide), step(narrow), step(wide)])
    assert found[0] == found[1]
    assert found[0][0] != found[0][2]


ctx = wf.Context("interp")
w = wf.param("w", o=1, init=1.0)
right = {"loss_of": lambda x: wf.mean(w * x, "...|... => 0"), "optimise": lambda loss: wf.optim.sgd(loss, lr=0.1)}
ONE = np.ones(3)
MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no context": (lambda: wf.train.step("cc", *right.values()), "a training step needs a context, not str"),  # type: ignore[arg-type]
    "no loss": (lambda: wf.train.step(ctx, 3, wf.optim.adam), "loss_of is a function, not int"),  # type: ignore[arg-type]
    "no optimiser": (lambda: wf.train.step(ctx, right["loss_of"], None), "optimise is a function, not nothing"),  # type: ignore[arg-type]
    "a reduction": (
        lambda: wf.train.step(ctx, *right.values(), "max"),  # type: ignore[arg-type]
        "there is no reduction 'max'",
    ),
    "a counter": (
        lambda: wf.train.step(ctx, *right.values(), counter=wf.index("n", 3)),
        "counter= takes a counter, not",
    ),
    "many losses": (
        lambda: wf.train.step(ctx, lambda x: w * x, right["optimise"])(ONE),
        "the loss `mul` is 3|1, 3 numbers, and a gradient starts from one",
    ),
    "many metrics": (
        lambda: wf.train.step(ctx, lambda x: (right["loss_of"](x), {"each": w * x}), right["optimise"])(ONE),
        "what is measured as `each` is not one number: for 3 examples it has the shape (3, 1)",
    ),
    "a number": (
        lambda: wf.train.step(ctx, lambda x: 3.0, right["optimise"])(ONE),
        "the loss gave float, not a tensor",
    ),
    "nothing": (
        lambda: wf.train.step(ctx, lambda x: None, right["optimise"])(ONE),
        "the loss gave nothing, not a tensor",
    ),
    "metrics": (
        lambda: wf.train.step(ctx, lambda x: (w * x, [1]), right["optimise"])(ONE),
        "metrics are tensors by name, not [1]",
    ),
    "no code": (lambda: wf.train.step(ctx, right["loss_of"], lambda loss: 3)(ONE), "`optimise` gave int, not code"),  # type: ignore[arg-type, return-value]
    "no arrays": (lambda: wf.train.step(ctx, *right.values())(), "a training step needs arrays"),
    "unequal": (
        lambda: wf.train.step(ctx, *right.values())(ONE, np.ones(2)),
        "the arrays of the batch have different numbers of examples: 3, 2",
    ),
    "unseen": (lambda: wf.train.step(ctx, *right.values()).state(), "the step has seen no batch yet"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_before_anything_changes(case: str) -> None:
    wrong, what = MISTAKES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.fix
    assert ctx[w].tolist() == [1.0]


def test_parameters_made_again_are_told() -> None:
    step = wf.train.step(
        wf.Context("interp"), lambda x: wf.mean(wf.param("own", o=1) * x, "...|... => 0"), right["optimise"]
    )
    step(np.ones(3))
    with pytest.raises(wf.WeftError, match="for a batch of another kind `loss_of` uses other parameters than before"):
        step(np.ones((3, 2)))


def test_many_lengths_are_told_once() -> None:
    step = wf.train.step(wf.Context("interp"), right["loss_of"], lambda loss: wf.optim.sgd(loss, lr=0.0))
    for length in range(1, 12):
        step(np.ones(length))
    with pytest.warns(wf.WeftWarning, match="batches had 12 different lengths, and for each a step was compiled"):
        step(np.ones(12))
    step(np.ones(13))
