"""Losses, and the loss of an autoencoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from nn.differential import check_block
from nn.reference import log_softmax

X = np.random.default_rng(1).normal(size=(4, 3))
Y = np.random.default_rng(2).normal(size=(4, 3))
SIDES = np.sign(Y)
TRUTH = (Y > 0).astype("float64")
PROBABILITIES = np.exp(log_softmax(Y)) * np.array([1, 1, 0]) / np.exp(log_softmax(Y))[:, :2].sum(1, keepdims=True)
IDS = np.array([0, 2, 1, 2])
ONE_HOT = np.eye(3, dtype=int)[IDS]


def huber(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    far = np.abs(x - y)
    return np.where(far < 0.7, far**2 / 2, 0.7 * (far - 0.35))


def binary(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    likely = 1 / (1 + np.exp(-x))
    return -(y * np.log(likely) + (1 - y) * np.log(1 - likely))


def divergence(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    seen = np.where(p > 0, p, 1.0)
    return (p * (np.log(seen) - x)).sum(1, keepdims=True)


def contrast(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y))
    return -np.diag(log_softmax(a @ b.T / 0.5))[:, None]


def crossed(x: np.ndarray, ids: np.ndarray, smoothing: float = 0.0) -> np.ndarray:
    truth = np.eye(3)[ids] * (1 - smoothing) + smoothing / 3
    return -(truth * log_softmax(x)).sum(1, keepdims=True)


LOSSES: dict[str, tuple[Callable[..., Any], np.ndarray, Callable[..., np.ndarray], dict[str, Any]]] = {
    "mse": (wf.nn.mse, Y, lambda x, y: (x - y) ** 2, {}),
    "l1": (wf.nn.l1, Y, lambda x, y: np.abs(x - y), {}),
    "huber": (wf.nn.huber, Y, huber, {"delta": 0.7}),
    "hinge": (wf.nn.hinge, SIDES, lambda x, y: np.maximum(0.5 - x * y, 0), {"margin": 0.5}),
    "binary_cross_entropy": (wf.nn.binary_cross_entropy, TRUTH, binary, {}),
    "kl_divergence": (wf.nn.kl_divergence, PROBABILITIES, divergence, {}),
    "contrastive": (wf.nn.contrastive, Y, contrast, {"temperature": 0.5}),
    "cross_entropy": (wf.nn.cross_entropy, IDS, crossed, {}),
    "smoothed": (wf.nn.cross_entropy, IDS, lambda x, y: crossed(x, y, 0.3), {"smoothing": 0.3}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient(name: str) -> None:
    loss, y, reference, how = LOSSES[name]
    target = wf.data(y, batch=1, label="y")
    check_block(lambda x: loss(x, target, **how), X, lambda x, p: reference(x, y).mean(keepdims=True)[0])
    check_block(
        lambda x: loss(x, target, reduction="sum", **how), X, lambda x, p: reference(x, y).sum(keepdims=True)[0]
    )
    check_block(lambda x: loss(x, target, reduction="none", **how), X, lambda x, p: reference(x, y))


def test_a_loss_is_a_number_that_is_made_small() -> None:
    model = wf.nn.mlp(hid_dims=[8], o=3, label="mlp")
    x, ids = wf.input("x", b="batch", o=3), wf.input("ids", b="batch", dtype="int32")
    loss = wf.nn.cross_entropy(model(x), ids)
    ctx = wf.Context("cc")
    code = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1))
    step = ctx.function(x, ids, code=code, returns=loss)
    first, *_, last = (step(X, IDS).item() for _ in range(20))
    assert last < 0.2 * first
    assert loss.label == "cross_entropy"


def test_examples_that_are_ignored_cost_nothing() -> None:
    for ignored in (2, -100):
        ids = np.where(IDS == 2, ignored, IDS)
        kept = IDS != 2
        target = wf.data(ids, batch=1, label="ids")

        def mean(x: np.ndarray, p: object, kept: np.ndarray = kept) -> np.ndarray:
            return crossed(x, IDS, 0.1)[kept].mean(keepdims=True)[0]

        def loss(x: wf.Tensor, target: wf.Tensor = target, ignored: int = ignored, **how: Any) -> Any:
            return wf.nn.cross_entropy(x, target, ignore_index=ignored, smoothing=0.1, **how)

        check_block(loss, X, mean)
        each = wf.Context("interp")[loss(wf.data(X, batch=1), reduction="none")]
        np.testing.assert_allclose(each, crossed(X, IDS, 0.1) * kept[:, None])
    nobody = wf.data(np.full(4, -1), batch=1, label="nobody")
    assert wf.Context("interp")[wf.nn.cross_entropy(wf.data(X, batch=1), nobody, ignore_index=-1)].item() == 0.0


def test_classes_along_the_axis_that_a_spec_leaves_out() -> None:
    sentence, words = np.stack([X, 2 * X]), np.stack([IDS, IDS[::-1]])
    x, ids = wf.data(sentence, batch=1, label="x"), wf.data(words, batch=1, label="ids")
    found = wf.nn.cross_entropy(x, ids, spec="...|t, c => ...|t", ignore_index=0)
    every = np.concatenate([crossed(X, IDS), crossed(2 * X, IDS[::-1])]).ravel()
    np.testing.assert_allclose(wf.Context("interp")[found], [every[words.ravel() != 0].mean()])
    batched = wf.nn.cross_entropy(wf.data(sentence, batch=2), wf.data(words, batch=2))
    np.testing.assert_allclose(wf.Context("interp")[batched], [every.mean()])


def test_nothing_overflows() -> None:
    far = wf.data(np.array([[1000.0, -1000.0]]), batch=1, label="far")
    ctx = wf.Context("interp")
    truth = wf.data(np.array([[0.0, 1.0]]), batch=1)
    np.testing.assert_allclose(ctx[wf.nn.binary_cross_entropy(far, truth)], [1000.0])
    np.testing.assert_allclose(ctx[wf.nn.cross_entropy(far, wf.data(np.array([1]), batch=1))], [2000.0])


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_an_autoencoder(likelihood: str) -> None:
    images = TRUTH.reshape(4, 1, 3)
    model = wf.nn.vae(latent=1, hid_dims=[4], activation=wf.tanh, label="vae")

    def reference(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
        hidden = np.tanh(np.einsum("bij,oij->bo", x, p["encoder.fc1.w"]) + p["encoder.fc1.b"])
        mean = hidden @ p["encoder.mean.w"].T + p["encoder.mean.b"]
        log_var = hidden @ p["encoder.log_var.w"].T + p["encoder.log_var.b"]
        hidden = np.tanh(mean @ p["decoder.mlp.w1"].T + p["decoder.mlp.b1"])
        decoded = np.einsum("bo,ijo->bij", hidden, p["decoder.mlp.w_out"]) + p["decoder.mlp.b_out"]
        unlikely = binary(decoded, images) if likelihood == "bernoulli" else (decoded - images) ** 2 / 2
        stray = (mean**2 + np.exp(log_var) - 1 - log_var).sum(1) / 2
        return (unlikely.sum((1, 2)) + 3.0 * stray).mean(keepdims=True)

    @wf.op
    def loss(x: wf.Tensor, *, model: Any) -> Any:
        return wf.nn.elbo(wf.data(images, batch=1, label="images"), model(x), likelihood=likelihood, beta=3.0)

    def renamed(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
        return reference(x, {name.removeprefix("model."): one for name, one in p.items()})

    check_block(loss(model=model), images, renamed)


def test_codes_are_drawn_anew_in_each_step() -> None:
    mean, log_var = (wf.data(np.full((2000, 1), one), batch=1, label=name) for one, name in ((3.0, "m"), (0.0, "v")))
    with wf.nn.training(step=wf.counter("n")):
        code = wf.nn.reparameterise(mean, log_var)
    ctx = wf.Context("interp")
    draw = ctx.compile(code.forward)
    seen = []
    for _ in range(2):
        draw()
        seen.append(ctx[wf.given(code)].copy())
    assert all(abs(one.mean() - 3) < 0.1 and abs(one.std() - 1) < 0.1 for one in seen)
    assert (seen[0] != seen[1]).all()
    assert wf.nn.reparameterise(mean, log_var) is mean


x, y = wf.data(X, batch=1, label="x"), wf.data(Y, batch=1, label="y")
narrow = wf.data(Y[:, :1], batch=1, label="narrow")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: wf.nn.mse(x, narrow), "mse compares tensors of one shape"),
        (lambda: wf.nn.binary_cross_entropy(x, narrow), "binary_cross_entropy compares tensors of one shape"),
        (lambda: wf.nn.contrastive(x, narrow), "contrastive compares tensors of one shape"),
        (lambda: wf.nn.mse(x, y, reduction="avg"), "mse knows no reduction='avg'"),
        (lambda: wf.nn.cross_entropy(x, y), "cross_entropy takes whole numbers as ids, and `y` is float64"),
        (
            lambda: wf.nn.cross_entropy(x, wf.data(IDS, batch=1), smoothing=1.0),
            "cross_entropy takes a number from 0 on and below 1 for `smoothing`, not 1.0",
        ),
        (lambda: wf.nn.cross_entropy(x, wf.data(IDS)), "cross_entropy takes ids of the shape that its spec results in"),
        (lambda: wf.nn.huber(x, y, delta=0), "huber takes a number above 0 for `delta`, not 0"),
        (lambda: wf.nn.hinge(x, y, margin=-1), "hinge takes a number above 0 for `margin`, not -1"),
        (lambda: wf.nn.contrastive(x, y, temperature=0), "contrastive takes a number above 0 for `temperature`, not 0"),
        (lambda: wf.nn.mse(x, Y), "mse takes tensors and numbers, not an array of shape (4, 3)"),
        (lambda: wf.nn.elbo(x, wf.nn.vae(x, latent=2), likelihood="poisson"), "elbo knows no likelihood='poisson'"),
        (lambda: wf.nn.elbo(x, wf.nn.vae(x, latent=2), beta=-1), "elbo takes a number above 0 for `beta`, not -1"),
    ],
)
def test_wrong_use_is_told(wrong: object, what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wrong()  # type: ignore[operator]
    assert caught.value.what.startswith(what)


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [
        (lambda: wf.nn.mse(x, wf.data(IDS, batch=1, label="ids")), "or wf.one_hot(ids, n) spells them out"),
        (lambda: wf.nn.cross_entropy(x, wf.data(ONE_HOT, batch=1, label="hot")), "wf.argmax(hot) has their ids"),
        (
            lambda: wf.train.accuracy(x, wf.data(ONE_HOT, batch=1, label="hot")),
            "labels it is wf.argmax(hot)",
        ),
        (
            lambda: wf.nn.cross_entropy(wf.nn.linear(wf.data(X), o=3, label="m"), wf.data(IDS)),
            "`m` has no batch axis: if the first axes of data hold examples, wf.data(…, batch=1) says so",
        ),
        (lambda: wf.train.accuracy(x, wf.data(IDS, label="ids")), "one id for each example, wf.data(ids, batch=1)"),
    ],
)
def test_ids_and_one_hot_labels_are_told_apart(wrong: Callable[[], object], fix: str) -> None:
    with pytest.raises(wf.ShapeError) as caught:
        wrong()
    assert fix in caught.value.fix


@pytest.mark.parametrize("cross_entropy", [wf.nn.cross_entropy, wf.cross_entropy])
@pytest.mark.parametrize("scores", [lambda x: x, lambda x: wf.nn.linear(o=3, label="m")(x)])
def test_scores_and_ids_the_other_way_round_are_told(
    cross_entropy: Callable[..., wf.Tensor], scores: Callable[[wf.Tensor], wf.Tensor]
) -> None:
    x, y = wf.data(np.ones((5, 3), "float32"), batch=1, label="x"), wf.data(np.zeros(5, "int32"), batch=1, label="y")
    logits = scores(x)
    with pytest.raises(wf.WeftError, match="takes scores first and then ids, and `y` has whole numbers") as caught:
        cross_entropy(y, logits)
    assert caught.value.fix == f"swap them: cross_entropy({logits.label}, y)"
    assert cross_entropy(logits, y).dims.count in (1, 5)
